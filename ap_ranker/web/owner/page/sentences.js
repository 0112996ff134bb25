// What visitors said of answers: sentences that may become wordings, those that were not helped, and comments.
import { reject, removeSoon } from "./actions.js";
import { clone, element, fill, list, make, post, showFolded, when } from "./basics.js";
import { edit, isEditable } from "./entries.js";
import { showCount } from "./sections.js";
import { filled, texts } from "./texts.js";
import { acceptSentence, choose, propose } from "./wordings.js";

const rowsOf = new Map(); // a tick box -> the sentence beside it
let boxes = 0;

const sentence = ({ question_key, answer_key, question: wording }) => ({ question_key, answer_key, wording });

function feedbackCard(row) {
  const [item, part] = clone("judgement");
  const { question, question_key } = row;
  showFolded(part(".question"), question);
  const box = part(".tick");
  part(".question").id = `sentence-${++boxes}`;
  box.setAttribute("aria-labelledby", part(".question").id);
  rowsOf.set(box, row);
  const votes = { yes: row.helped, no: row.did_not_help, networks: row.networks, entry: row.entry || texts.noQuestion };
  part(".about").textContent = filled(texts.votes, votes);
  if (row.words.length) part(".about").after(wordsList(row.words));
  const proposition = { leftOut: row.unhelpful, save: (entry) => acceptSentence(entry, row) };
  part(".accept").hidden = !row.key;
  part(".accept").addEventListener("click", () => propose(row.judged_entry, [question], proposition));
  const isOpen = isEditable() && !row.is_known;
  part(".choose").hidden = !isOpen;
  part(".choose").classList.toggle("main", !row.helps);
  part(".choose").addEventListener("click", () => choose([question], proposition));
  part(".write").hidden = !isOpen || row.helps;
  part(".write").addEventListener("click", () => edit(null, { question, answer: "", wordings: [] }));
  part(".edit").hidden = !isEditable() || row.helps || !row.judged_entry;
  part(".edit").addEventListener("click", () => edit(row.judged_entry, row.judged_entry));
  part(".reject").addEventListener("click", () => reject([sentence(row)]));
  part(".delete").addEventListener("click", () => removeSoon("delete_question", { question_key }, item));
  return item;
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
  section.querySelector(".several .reject").disabled = !count;
  all.checked = count > 0 && count === boxesOf(id).length;
  all.indeterminate = count > 0 && !all.checked;
}

for (const id of ["unhelpful", "wordings"]) {
  list(id).addEventListener("change", () => showTicked(id));
  element(id).querySelector(".all").addEventListener("change", (event) => {
    for (const box of boxesOf(id)) box.checked = event.target.checked;
    showTicked(id);
  });
  element(id).querySelector(".several .reject").addEventListener("click", () => reject(ticked(id).map((box) => sentence(rowsOf.get(box)))));
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
