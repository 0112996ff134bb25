// The entries of the FAQ, and the window in which one is written.
import { change, openWindow } from "./actions.js";
import { afterTyping, clone, element, fill, make, post, say, showFolded } from "./basics.js";
import { filled, texts } from "./texts.js";

let editable = true;
export const isEditable = () => editable;
export const setEditable = (isSo) => (editable = isSo);

export const titleOf = (entry) => entry.question || entry.title || entry.answer.slice(0, 80);

function showOthers(details, wordings) {
  details.hidden = !wordings.length;
  details.querySelector("summary").textContent = filled(texts.others, { count: wordings.length });
  details.querySelector("ul").replaceChildren(...wordings.map((wording) => make("li", wording)));
}

function entryCard(entry) {
  const [item, part] = clone("entry");
  showFolded(part(".question"), entry.question || entry.title);
  part(".answer").textContent = entry.answer;
  showOthers(part("details"), entry.wordings);
  part(".edit").addEventListener("click", () => edit(entry, entry));
  part(".delete").addEventListener("click", () =>
    change({ action: "delete entry", entry: entry.key, version: entry.version }), // it can be undone
  );
  return item;
}

let latest = 0; // a slow answer must not replace that to a later search
let page = { first: 0, end: 0 }; // the numbers of the entries that are shown, from 0

export async function showEntries(skip = page.first) {
  const asked = ++latest;
  const { count, first, entries } = await post("entries", { words: element("words").value, skip });
  if (asked !== latest) return;
  page = { first, end: first + entries.length };
  element("shown").textContent = count ? filled(texts.shown, { first: first + 1, last: page.end, count }) : "";
  element("previous").disabled = !first;
  element("following").disabled = page.end >= count;
  element("pages").hidden = count <= entries.length;
  fill("entries", entries.map(entryCard));
}

async function turn(skip) {
  try {
    await showEntries(skip);
    element("shown").focus(); // the button may be disabled by now; readers hear which entries are shown
    element("entries").scrollIntoView();
  } catch (error) {
    say(error.message);
  }
}

const editor = element("editor");
const lines = (text) => text.split("\n").map((line) => line.trim()).filter(Boolean);
let edited = null; // the entry in the editor; null for a new one
let isSaving = false; // a second click must not keep it twice

export function edit(entry, { question, answer, wordings }) {
  edited = entry;
  element("editing").textContent = entry ? texts.edit : texts.newEntry;
  element("question").value = question.replace(/[\r\n]+/g, " "); // the field would join the words
  element("question").required = !entry;
  element("answer").value = answer;
  element("wordings-of").value = wordings.join("\n");
  editor.querySelector(".alert").textContent = "";
  openWindow(editor);
}

editor.querySelector("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  if (isSaving) return;
  isSaving = true;
  const content = {
    question: element("question").value,
    answer: element("answer").value,
    wordings: lines(element("wordings-of").value),
  };
  const what = edited ? { action: "change entry", entry: edited.key, version: edited.version } : { action: "add entry" };
  const error = await change({ ...what, ...content });
  isSaving = false;
  editor.querySelector(".alert").textContent = error;
  if (!error) editor.close();
});

editor.querySelector(".cancel").addEventListener("click", () => editor.close());

const search = () => showEntries(0).catch((error) => say(error.message));
element("words").addEventListener("input", afterTyping(search));
element("entries").querySelector("form").addEventListener("submit", (event) => {
  event.preventDefault();
  search();
});
element("previous").addEventListener("click", () => turn(page.first - 1)); // the page that this entry is on
element("following").addEventListener("click", () => turn(page.end));
element("entries").querySelector(".new").addEventListener("click", () => edit(null, { question: "", answer: "", wordings: [] }));
