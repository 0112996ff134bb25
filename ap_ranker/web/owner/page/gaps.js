// What the FAQ lacks: new questions, and groups of questions that nobody could answer.
import { dismiss } from "./actions.js";
import { clone, element, fill, list, post, say, showFolded } from "./basics.js";
import { edit, isEditable } from "./entries.js";
import { showCount } from "./sections.js";
import { filled, language, texts } from "./texts.js";
import { addWordings, choose, propose } from "./wordings.js";

const twoDigits = new Intl.NumberFormat(language, { minimumFractionDigits: 2, maximumFractionDigits: 2 });

const withScore = (name, score) => (score === null ? name : filled(texts.withScore, { name, score: twoDigits.format(score) }));

function newCard(asked) {
  const [item, part] = clone("newly");
  const { question, title } = asked;
  showFolded(part(".question"), question);
  const entry = withScore(asked.entry || texts.noEntryNear, asked.score);
  const outcome = filled(texts.lastOutcome, { outcome: texts.outcomes[asked.outcome], entry });
  part(".about").textContent = [filled(texts.asked, { count: asked.asked }), outcome].join(" · ");
  for (const name of [".choose", ".write"]) part(name).hidden = !isEditable();
  part(".choose").addEventListener("click", () => choose([question], { title, save: (chosen) => addWordings(chosen, [question]) }));
  part(".write").addEventListener("click", () => edit(null, { question: title, answer: "", wordings: [] }));
  part(".dismiss").addEventListener("click", () => dismiss([{ text: question }]));
  return item;
}

export async function showNew() {
  const { count, questions } = await post("new");
  showCount("new", count);
  element("new").querySelector(".some").textContent =
    count > questions.length ? filled(texts.someShown, { shown: questions.length, count }) : "";
  fill("new", questions.map(newCard));
}

const ticks = new Map(); // question -> whether the owner wants it, where that is not as the server proposes
let boxes = 0; // number of tick boxes so far: their notes have ids

function tickBox(question, number) {
  const [item, part] = clone("ticked");
  const box = part("input");
  box.checked = ticks.get(question.text) ?? question.ticked;
  box.value = question.text;
  box.addEventListener("change", () => ticks.set(question.text, box.checked));
  part(".text").textContent = question.text;
  part(".times").textContent = filled(texts.asked, { count: question.asked });
  part(".more").hidden = !question.more_like;
  if (question.more_like) {
    part(".more").textContent = filled(texts.moreLike, { question: question.more_like });
    part(".more").id = `more-${number}`;
    box.setAttribute("aria-describedby", part(".more").id);
  }
  return item;
}

function gapCard(gap) {
  const [item, part] = clone("gap");
  showFolded(part(".question"), gap.questions[0].text);
  part(".asked").textContent = filled(texts.asked, { count: gap.asked });
  part("ul").replaceChildren(...gap.questions.map((question) => tickBox(question, ++boxes)));
  const wanted = () => [...item.querySelectorAll("input:checked")].map((box) => box.value);
  const allow = () => {
    for (const button of part(".buttons").querySelectorAll("button")) button.disabled = !wanted().length;
  };
  item.addEventListener("change", allow);
  allow();
  const nearest = withScore(gap.nearest, gap.score);
  part(".nearest").textContent = gap.nearest ? filled(texts.nearest, { question: nearest }) : texts.noNearest;
  const entry = gap.nearest_entry;
  part(".add").hidden = !entry || !isEditable();
  for (const name of [".choose", ".write"]) part(name).hidden = !isEditable();
  part(gap.is_near && entry ? ".add" : ".write").classList.add("main");
  const titleOf = ([first]) => gap.questions.find(({ text }) => text === first).title;
  const propositionOf = (questions) => ({
    leftOut: gap.unhelpful,
    title: titleOf(questions),
    save: (chosen) => addWordings(chosen, questions),
  });
  part(".add").addEventListener("click", () => propose(entry, wanted(), propositionOf(wanted())));
  part(".choose").addEventListener("click", () => choose(wanted(), propositionOf(wanted())));
  part(".write").addEventListener("click", () => {
    const questions = wanted();
    edit(null, { question: titleOf(questions), answer: "", wordings: questions.slice(1) });
  });
  part(".dismiss").addEventListener("click", () => dismiss(wanted().map((text) => ({ text }))));
  return item;
}

let shownGaps = ""; // the groups that the list shows, as text
let nextLook;

export async function showGaps() {
  const { grouping, gaps } = await post("gaps");
  const found = JSON.stringify([isEditable(), gaps]);
  const inUse = grouping && list("gaps").contains(document.activeElement); // what the owner is about to tick stays
  if (found !== shownGaps && !inUse) {
    shownGaps = found;
    showCount("gaps", gaps.length);
    fill("gaps", gaps.map(gapCard));
  }
  element("gaps").querySelector(".grouping").textContent = grouping ? texts.grouping : "";
  clearTimeout(nextLook);
  if (grouping) nextLook = setTimeout(() => showGaps().catch((error) => say(error.message)), 1000);
}
