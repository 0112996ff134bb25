// From a visitor's question to an entry: a choice of entries, and what would change, before anything is saved.
import { change, keep, openWindow, undoChange } from "./actions.js";
import { afterTyping, element, make, post } from "./basics.js";
import { edit, titleOf } from "./entries.js";
import { filled, texts } from "./texts.js";

const preview = element("preview");
const chooser = element("chooser");

export const addWordings = (entry, wordings) =>
  change({ action: "add wordings", entry: entry.key, version: entry.version, wordings });

// `overrules`: the entry that visitors were shown is right, whatever they say.
export function acceptSentence(entry, { question_key, answer_key, question: wording }, overrules = false) {
  const keys = { question_key, answer_key, entry: entry.key, version: entry.version };
  return keep("decide", { state: "accepted", ...keys, wording, overrules }, { undo: undoChange });
}

let proposed = null; // the entry in the preview, and what saves it

function gets({ outcome, entry }) {
  return entry ? `${texts.outcomes[outcome]}: ${entry}` : texts.outcomes[outcome];
}

function changeItem(row) {
  const item = make("li");
  item.append(make("strong", row.question), make("p", filled(texts.nowAndThen, { now: gets(row.now), then: gets(row.then) })));
  return item;
}

function listOf(rows) {
  const items = make("ul");
  items.append(...rows.map(changeItem));
  return items;
}

function showTried({ is_tried, changed, elsewhere }) {
  const warnings = elsewhere.map((row) => make("li", filled(texts.answeredElsewhere, row)));
  preview.querySelector(".elsewhere").replaceChildren(...warnings);
  const tried = preview.querySelector(".tried");
  if (!is_tried) return tried.replaceChildren(make("p", texts.notTried));
  const own = changed.filter((row) => row.is_new);
  const others = changed.filter((row) => !row.is_new);
  const count = others.length;
  tried.replaceChildren(make("p", filled(texts.wouldGet, { count: own.length })), listOf(own));
  tried.append(make("p", count ? filled(texts.othersToo, { count }) : texts.noOthers), ...(count ? [listOf(others)] : []));
}

// Show what would change if these questions were wordings of an entry; `save` saves that, and says what is wrong.
export async function propose(entry, questions, { save }) {
  const mine = { entry, save };
  proposed = mine;
  const button = preview.querySelector("button.main");
  button.disabled = true;
  preview.querySelector(".into").textContent = filled(texts.into, { entry: titleOf(entry) });
  preview.querySelector(".elsewhere").replaceChildren();
  preview.querySelector(".tried").replaceChildren(make("p", texts.trying));
  preview.querySelector(".alert").textContent = "";
  openWindow(preview);
  element("previewing").focus();
  try {
    const tried = await post("preview", { entry: entry.key, version: entry.version, wordings: questions });
    if (proposed !== mine) return; // the owner tries another one by now
    showTried(tried);
    button.disabled = false;
  } catch (error) {
    if (proposed !== mine) return;
    preview.querySelector(".tried").replaceChildren();
    preview.querySelector(".alert").textContent = error.message;
  }
}

let isSaving = false; // a second click must not keep it twice

preview.querySelector("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  if (isSaving) return;
  isSaving = true;
  const error = await proposed.save(proposed.entry);
  isSaving = false;
  preview.querySelector(".alert").textContent = error;
  if (!error) preview.close();
});

let chosenFor = { questions: [], leftOut: [] }; // what the chosen entry answers, what saves it, the title of a new one
let choices = null; // the entries that the list shows, as text

// Let the owner choose an entry that answers questions, of those that are not left out.
export async function choose(questions, { leftOut = [], save, title }) {
  chosenFor = { questions, leftOut, save, title };
  choices = null;
  element("wanted").value = "";
  chooser.querySelector("ul").replaceChildren();
  chooser.querySelector(".alert").textContent = "";
  openWindow(chooser);
  element("wanted").focus();
  await showChoices();
}

function choiceItem(entry) {
  const button = make("button", titleOf(entry));
  button.type = "button";
  button.addEventListener("click", () => {
    chooser.close();
    propose(entry, chosenFor.questions, chosenFor);
  });
  const item = make("li");
  item.append(button);
  return item;
}

async function choicesFor(words, { questions, leftOut }) {
  const found = await post("choices", { questions, left_out: leftOut });
  if (!words.trim() && found.entries.length) return found.entries;
  const { entries } = await post("entries", { words });
  return entries.filter((entry) => !found.unhelpful.includes(entry.key));
}

async function showChoices() {
  const words = element("wanted").value;
  const asked = chosenFor;
  // What was typed later is asked for by itself, and its reply may be here already.
  const isLate = () => words !== element("wanted").value || asked !== chosenFor;
  try {
    const entries = await choicesFor(words, asked);
    if (isLate()) return;
    chooser.querySelector(".alert").textContent = "";
    const found = JSON.stringify(entries);
    if (found === choices) return; // the button that has the focus stays
    choices = found;
    chooser.querySelector(".none").hidden = entries.length > 0;
    chooser.querySelector("ul").replaceChildren(...entries.map(choiceItem));
  } catch (error) {
    if (!isLate()) chooser.querySelector(".alert").textContent = error.message;
  }
}

element("wanted").addEventListener("input", afterTyping(showChoices));
chooser.querySelector(".write").addEventListener("click", () => {
  chooser.close();
  edit(null, { question: chosenFor.title, answer: "", wordings: chosenFor.questions.slice(1) });
});
for (const dialog of [preview, chooser]) {
  dialog.querySelector(".cancel").addEventListener("click", () => dialog.close());
}
