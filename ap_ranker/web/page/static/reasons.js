// The words that made the difference: the weights of the model, as a heat map.
import { post } from "./server.js";
import { filled, language, texts } from "./texts.js";

const percent = new Intl.NumberFormat(language, { style: "percent" });
const EVEN = 1.2; // a largest weight of less than this many medians: no word stands out
const TOP = 0.7; // colours from here on are those of the words that counted most
const FAINTEST = 0.06; // less is not seen
const NAMED = 5;

export async function toggle(question, id, button, panel) {
  const show = panel.hidden;
  panel.hidden = !show;
  button.setAttribute("aria-expanded", String(show));
  if (!show || panel.dataset.filled) return;
  panel.dataset.filled = "yes";
  try {
    const reasons = await post("api/explain", { question, id });
    panel.replaceChildren(...side(texts.asked, reasons.question), ...side(texts.answer, reasons.answer));
  } catch (error) {
    delete panel.dataset.filled; // the next click asks again
    panel.replaceChildren(paragraph(error.message));
  }
}

function side(name, { text, tokens }) {
  const title = document.createElement("h3");
  title.textContent = name;
  if (!tokens) return [title, paragraph(text), paragraph(texts.noAttention, "quiet")];
  const characters = Array.from(text); // code points, as the server counts
  const words = sharpened(weighed(text, characters, tokens));
  const whole = paragraph("", "map");
  let last = 0;
  for (const { start, end, heat, colour } of words) {
    const mark = document.createElement("mark");
    mark.textContent = characters.slice(start, end).join("");
    mark.style.setProperty("--w", colour.toFixed(3));
    mark.classList.toggle("top", colour >= TOP);
    mark.title = filled(texts.weight, { percent: percent.format(heat) });
    whole.append(characters.slice(last, start).join(""), mark);
    last = end;
  }
  whole.append(characters.slice(last).join(""));
  return [title, whole, summary(words, characters)];
}

// The weight of each word is that of its heaviest part; the model reads parts of words. Both are in the order of the text.
function weighed(text, characters, tokens) {
  const words = [];
  let first = 0; // the first token that does not end before the word
  for (const { start, end } of wordsOf(text, characters, tokens)) {
    while (first < tokens.length && tokens[first].end <= start) first++;
    if (first === tokens.length || tokens[first].start >= end) continue;
    let heat = 0;
    for (let at = first; at < tokens.length && tokens[at].start < end; at++) heat = Math.max(heat, tokens[at].heat);
    words.push({ start, end, heat });
  }
  const largest = words.reduce((most, word) => Math.max(most, word.heat), 1e-9);
  return words.map((word) => ({ ...word, heat: word.heat / largest }));
}

// The words as a reader sees them, also where no spaces separate them; positions count code points.
function wordsOf(text, characters, tokens) {
  if (!Intl.Segmenter) return tokens; // an old browser
  const position = new Map();
  let units = 0;
  characters.forEach((character, at) => {
    position.set(units, at);
    units += character.length;
  });
  position.set(units, characters.length);
  const segments = [...new Intl.Segmenter(language, { granularity: "word" }).segment(text)];
  const words = segments.filter((segment) => segment.isWordLike);
  return (words.length ? words : segments).map(({ index, segment }) => ({
    start: position.get(index),
    end: position.get(index + segment.length),
  }));
}

// Words like most have no colour, the heaviest has the full one: one even colour would tell nothing.
function sharpened(words) {
  const heats = words.map((word) => word.heat).sort((one, other) => one - other);
  const typical = words.length < 3 ? 0 : heats[Math.floor((heats.length - 1) / 2)];
  if (typical && 1 / typical < EVEN) return [];
  return words
    .map((word) => ({ ...word, colour: Math.max(0, (word.heat - typical) / (1 - typical)) ** 1.25 }))
    .filter((word) => word.colour >= FAINTEST);
}

function summary(words, characters) {
  const names = [...words]
    .filter((word) => word.colour >= TOP / 2)
    .sort((one, other) => other.colour - one.colour)
    .map(({ start, end }) => characters.slice(start, end).join(""));
  const named = [...new Map(names.map((name) => [name.toLowerCase(), name])).values()].slice(0, NAMED);
  return paragraph(named.length ? `${texts.counted} ${named.join(", ")}` : texts.evenly, "words quiet");
}

function paragraph(text, name = "") {
  const element = document.createElement("p");
  element.className = name;
  element.dir = "auto";
  element.textContent = text;
  return element;
}
