// The search page: what is asked, and what is shown for it.
import * as address from "./address.js";
import { card, close, fold, open } from "./answers.js";
import * as categories from "./categories.js";
import { group } from "./groups.js";
import { limit, MAX_CHARACTERS } from "./length.js";
import * as opening from "./opening.js";
import { post } from "./server.js";
import * as suggestions from "./suggestions.js";
import * as words from "./texts.js";
import * as typed from "./typed.js";

const { direction, filled, language, texts } = words;
const form = document.getElementById("search");
const input = document.getElementById("question");
const statusLine = document.getElementById("status");
const list = document.getElementById("answers");
const nothing = document.getElementById("nothing");
const keys = document.getElementById("keys");
const tellCut = limit(input, document.getElementById("cut"), filled(texts.cut, { count: MAX_CHARACTERS }));

let latest = 0; // a slow answer must not replace that to a later question

document.documentElement.lang = language;
document.documentElement.dir = direction;
document.documentElement.classList.toggle("owner", address.read().owner);
for (const part of [document, document.getElementById("answer").content]) {
  for (const element of part.querySelectorAll("[data-text]")) element.textContent = texts[element.dataset.text];
}
const name = document.getElementById("name").textContent;

function say(text, heading = false) {
  statusLine.textContent = text;
  statusLine.classList.toggle("heading", heading);
}

function clear() {
  latest++;
  list.replaceChildren();
  nothing.hidden = true;
  keys.hidden = true;
  categories.clear();
  opening.close();
  say("");
}

async function search(question, { category = "", answer = "" } = {}) {
  clear();
  const mine = latest;
  document.title = `${question} – ${name}`;
  say(texts.searching);
  try {
    const result = await post("api/search", { question });
    if (mine !== latest) return;
    if (result.parts.length) return showParts(question, result);
    const items = result.outcome === "none" ? showNothing(question) : showAnswers(question, result, category);
    const sentence = typed.sentence(words, result);
    if (sentence) say(sentence, true);
    if (result.kind === "person") offerContact(question, false);
    if (answer) lead(question, items, answer);
  } catch (error) {
    if (mine === latest) say(error.message);
  }
}

function showAnswers(question, { outcome, answers }, category) {
  const isMaybe = outcome === "maybe";
  const items = group(answers).map((same) => ({
    category: same.answer.category, answers: [same.answer, ...same.others], element: card(question, same),
  }));
  list.replaceChildren(...items.map(({ element }) => element));
  keys.hidden = false;
  items.map(({ element }) => element).forEach(isMaybe ? close : fold);
  if (isMaybe) offerContact(question, false);
  categories.offer(items, category, (chosen, count) => {
    if (isMaybe) say(texts.perhaps, true);
    else say(chosen ? filled(texts.foundIn, { shown: count, count: items.length }) : filled(texts.found, { count }));
    address.write(question, chosen);
  });
  return items;
}

// To the answer of a link: the entry with this id or, if it has changed since, the one with its question.
function lead(question, items, id) {
  const holds = (test) => items.find(({ answers }) => answers.some(test));
  const item = holds((answer) => answer.id === id) || holds((answer) => answer.question === question);
  if (item) open(item.element);
  else say(items.length ? `${texts.gone} ${texts.perhaps}:` : texts.gone);
}

function showParts(question, { kind, parts }) {
  list.replaceChildren();
  for (const part of parts) {
    const cards = group(typed.shown(part)).map((same) => card(part.question, same));
    list.append(typed.heading(words, part), ...cards);
    cards.forEach(part.outcome === "maybe" ? close : fold);
  }
  keys.hidden = !list.querySelector("article");
  say(texts.typed[kind], true);
  if (parts.some((part) => part.outcome !== "answer")) offerContact(question, false);
}

function showNothing(question) {
  say(texts.none, true);
  offerContact(question, true);
  return [];
}

function offerContact(question, withAdvice) {
  const advice = nothing.querySelector(".advice");
  const contact = nothing.querySelector(".contact");
  contact.hidden = !contact.dataset.address;
  if (!contact.hidden) contact.href = address.carrying(question, contact.dataset.address);
  advice.hidden = !withAdvice || !advice.hasChildNodes();
  nothing.hidden = contact.hidden && advice.hidden;
}

function ask(question) {
  input.value = question;
  suggestions.close();
  address.write(question);
  search(question);
}

// What the address says, when the page opens and on the way back and forward. What somebody types while it opens stays.
function follow(opens = false) {
  const { question, isCut, category, answer } = address.read();
  suggestions.close();
  if (question || !opens) input.value = question;
  tellCut(isCut);
  if (question) search(question, { category, answer });
  else {
    clear();
    document.title = category ? `${category} – ${name}` : name;
    opening.open(category, follow);
  }
}

function move(step) {
  const cards = [...list.querySelectorAll("li:not([hidden]) > article")];
  const at = cards.findIndex((each) => each.contains(document.activeElement));
  const next = at + step; // from the search box, at is -1
  if (next < 0) input.focus();
  else if (next < cards.length) cards[next].focus();
}

suggestions.listen(ask);
follow(true);
addEventListener("popstate", () => follow());

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const question = input.value.trim();
  if (question) ask(question);
});

document.addEventListener("keydown", (event) => {
  // While a Chinese word is being composed, arrow keys and Escape belong to the list of its characters.
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const at = document.activeElement;
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    if (event.key === "ArrowUp" && at === input) return;
    if (at !== input && at.matches("input, textarea, select")) return;
    event.preventDefault();
    move(event.key === "ArrowDown" ? 1 : -1);
  } else if (event.key === "Enter" && at.matches("article")) {
    (at.querySelector(".maybe > summary") || at.querySelector(".why")).click();
  } else if (event.key === "Escape") {
    input.focus();
    input.select();
  }
});
