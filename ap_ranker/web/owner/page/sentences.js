// What visitors said of answers: sentences that may become wordings, those that were not helped, and comments.
import { dismiss, reject, removeSoon } from "./actions.js";
import { clone, element, fill, list, make, post, showFolded, when } from "./basics.js";
import { edit, isEditable } from "./entries.js";
import { showCount } from "./sections.js";
import { filled, texts } from "./texts.js";
import { acceptSentence, choose, propose } from "./wordings.js";

const rowsOf = new Map(); // a tick box -> the sentence beside it
let boxes = 0;

const asked = ({ question: text, question_key }) => ({ text, question_key });
const sentence = ({ question_key, answer_key, question: wording }) => ({ question_key, answer_key, wording });

function feedbackCard(row) {
  const [item, part] = clone("judgement");
  const { question, question_key, title } = row;
  showFolded(part(".question"), question);
  const box = part(".tick");
  part(".question").id = `sentence-${++boxes}`;
  box.setAttribute("aria-labelledby", part(".question").id);
  rowsOf.set(box, row);
  const votes = { yes: row.helped, no: row.did_not_help, entry: row.entry || texts.noQuestion };
  const networks = filled(texts.fromNetworks, { count: row.networks });
  part(".about").textContent = filled(texts.votes, { ...votes, networks });
  if (row.words.length) part(".about").after(wordsList(row.words));
  const proposition = { leftOut: row.unhelpful, title, save: (entry) => acceptSentence(entry, row) };
  part(".accept").hidden = !row.key;
  part(".accept").addEventListener("click", () => propose(row.judged_entry, [question], proposition));
  const isOpen = isEditable() && !row.is_known;
  part(".choose").hidden = !isOpen;
  part(".choose").classList.toggle("main", !row.helps);
  part(".choose").addEventListener("click", () => choose([question], proposition));
  part(".write").hidden = !isOpen || row.helps;
  part(".write").addEventListener("click", () => edit(null, { question: title, answer: "", wordings: [] }));
  part(".edit").hidden = !isEditable() || row.helps || !row.judged_entry;
  part(".edit").addEventListener("click", () => edit(row.judged_entry, row.judged_entry));
  part(".right").hidden = row.helps || !row.judged_entry || !(isOpen || row.knows);
  part(".right").addEventListener("click", () => sayRight(row));
  part(".reject").hidden = !row.helps;
  part(".reject").addEventListener("click", () => reject([sentence(row)]));
  part(".dismiss").hidden = row.helps;
  part(".dismiss").addEventListener("click", () => dismiss([asked(row)]));
  part(".delete").addEventListener("click", () => removeSoon("delete_question", { question_key }, item));
  return item;
}

// The owner knows better than those whom an entry did not help. If it knows the question already, nothing changes.
function sayRight(row) {
  if (row.knows) return reject([sentence(row)]);
  return propose(row.judged_entry, [row.question], { save: (entry) => acceptSentence(entry, row, true) });
}

// What visitors wrote that they were looking for, beside the question whose answer did not help.
function wordsList(words) {
  const sentences = make("ul");
  sentences.append(...words.map((text) => Object.assign(make("li", text), { dir: "auto" })));
  const part = Object.assign(make("div"), { className: "words" });
  part.append(make("p", `${texts.lookedFor}:`), sentences);
  return part;
}

const boxesOf = (id) => [...list(id).querySelectorAll(".tick")];
const ticked = (id) => boxesOf(id).filter((box) => box.checked);

function showTicked(id) {
  const section = element(id);
  const count = ticked(id).length;
  const all = section.querySelector(".all");
  section.querySelector(".several").hidden = boxesOf(id).length < 2;
  section.querySelector(".several button").disabled = !count;
  all.checked = count > 0 && count === boxesOf(id).length;
  all.indeterminate = count > 0 && !all.checked;
}

const DECIDES = {
  unhelpful: (rows) => dismiss(rows.map(asked)),
  wordings: (rows) => reject(rows.map(sentence)),
};

for (const [id, decide] of Object.entries(DECIDES)) {
  list(id).addEventListener("change", () => showTicked(id));
  element(id).querySelector(".all").addEventListener("change", (event) => {
    for (const box of boxesOf(id)) box.checked = event.target.checked;
    showTicked(id);
  });
  element(id).querySelector(".several button").addEventListener("click", () => decide(ticked(id).map((box) => rowsOf.get(box))));
}

export async function showFeedback() {
  const rows = await post("feedback");
  rowsOf.clear();
  for (const [id, ofSection] of [
    ["wordings", rows.filter((row) => row.helps)],
    ["unhelpful", rows.filter((row) => !row.helps)],
  ]) {
    showCount(id, ofSection.length);
    fill(id, ofSection.map(feedbackCard));
    showTicked(id);
  }
}

function commentCard(written) {
  const [item, part] = clone("comment");
  showFolded(part(".what"), written.comment);
  const { question } = written;
  const about = filled(written.helped ? texts.saidHelped : texts.saidNot, { question, entry: written.entry || texts.noQuestion });
  part(".about").textContent = [when(written.time), about].join(" · ");
  part(".delete").addEventListener("click", () => removeSoon("delete_comment", { id: written.id }, item));
  return item;
}

export async function showComments() {
  const rows = await post("comments");
  showCount("comments", rows.length);
  fill("comments", rows.map(commentCard));
}
