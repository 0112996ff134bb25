// The answers as cards. What users and the FAQ wrote is set as text, but for the HTML that the server made of an answer.
import { addressOf } from "./address.js";
import * as feedback from "./feedback.js";
import { equal } from "./groups.js";
import { mark } from "./marks.js";
import { toggle } from "./reasons.js";
import { filled, language, texts } from "./texts.js";

const template = document.getElementById("answer");
const threeDigits = new Intl.NumberFormat(language, { minimumFractionDigits: 3, maximumFractionDigits: 3 });
const LONG = 1.35; // an answer this many times as high as the folded one is folded
const START = 80; // characters of an answer that stand for the question that it lacks

export function card(question, { answer, others }) {
  const item = template.content.firstElementChild.cloneNode(true);
  const part = (name) => item.querySelector(`.${name}`);
  item.firstElementChild.className = "card";
  const above = answer.source?.title ? answer.source.title.split(" > ") : [];
  part("stored").textContent = answer.question || above.pop() || "";
  part("stored").hidden = !part("stored").textContent;
  part("path").textContent = above.join(" › ");
  part("path").hidden = !above.length;
  setText(part("text"), answer.html);
  mark([part("stored"), part("text")], answer.words);
  if (answer.match) showMatch(part("match"), answer.match);
  const source = answer.source;
  part("source").hidden = !source?.file && !source?.url;
  if (!part("source").hidden) part("source").append(sourceLine(source.file ? { ...source, title: "" } : source));
  part("wording").textContent = answer.matched_wording;
  part("matched").hidden = !answer.matched_wording || answer.matched_wording === answer.question;
  if (others.length) showOthers(part("also"), answer, others);
  part("score").textContent = answer.score === null ? texts.noScore : filled(texts.score, { score: threeDigits.format(answer.score) });
  part("bm25").textContent = answer.bm25_rank === null ? texts.noBm25 : filled(texts.bm25, { rank: answer.bm25_rank });
  part("why").addEventListener("click", () => toggle(question, answer.id, part("why"), part("reasons")));
  feedback.listen(question, answer, part, () => othersThan(item));
  shareLink(part("share"), part("thanks"), addressOf(answer.question || question, "", answer.id));
  return item;
}

// Opens a card, and lets the reader go on there.
export function open(item) {
  const maybe = item.querySelector(".maybe");
  if (maybe) maybe.open = true;
  item.firstElementChild.focus();
}

function othersThan(item) {
  const items = [...item.parentElement.querySelectorAll(":scope > li:not([hidden]):has(> article)")];
  const others = items.filter((other) => other !== item && !other.querySelector(".no[aria-pressed=true]"));
  return others.map((other) => ({ title: titleOf(other), open: () => open(other) }));
}

function titleOf(item) {
  return item.querySelector(".stored").textContent || `${item.querySelector(".text").textContent.trim().slice(0, START)} …`;
}

// A click copies the address, where the browser lets it; else it is followed, and stands above the page.
function shareLink(link, note, address) {
  link.href = address;
  link.addEventListener("click", async (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    try {
      await navigator.clipboard.writeText(link.href);
      note.textContent = texts.copied;
    } catch {
      location.assign(link.href);
    }
  });
}

// Long answers show their beginning. It needs the card's height, so the card must be on the page.
export function fold(item) {
  const text = item.querySelector(".text");
  const button = item.querySelector(".more");
  text.classList.add("folded");
  if (text.scrollHeight <= LONG * text.clientHeight) {
    text.classList.remove("folded");
    return;
  }
  const set = (folded) => {
    text.classList.toggle("folded", folded);
    button.setAttribute("aria-expanded", String(!folded));
    button.textContent = folded ? texts.more : texts.less;
  };
  button.hidden = false;
  button.addEventListener("click", () => set(button.getAttribute("aria-expanded") === "true"));
  text.addEventListener("focusin", () => set(false)); // a link in it that the keyboard reaches must be seen
  set(true);
}

// Of a maybe, only what it is about is shown until somebody opens it.
export function close(item) {
  const article = item.firstElementChild;
  const details = Object.assign(document.createElement("details"), { className: "maybe" });
  const summary = document.createElement("summary");
  const about = article.querySelector(".stored");
  about.textContent ||= titleOf(item);
  about.hidden = false;
  summary.append(article.querySelector(".path"), about);
  details.append(summary, ...article.childNodes);
  article.append(details);
  details.addEventListener("toggle", () => fold(item), { once: true });
}

function setText(element, html) {
  element.append(...new DOMParser().parseFromString(html, "text/html").body.childNodes);
  for (const block of element.children) block.dir = "auto";
}

function showMatch(element, match) {
  element.textContent = texts.match[match];
  element.classList.add(match);
  element.hidden = false;
}

function showOthers(details, answer, others) {
  details.hidden = false;
  details.querySelector("summary").textContent = filled(texts.also, { count: others.length });
  for (const other of others) {
    const line = document.createElement("li");
    const stored = document.createElement("span");
    stored.dir = "auto";
    stored.textContent = other.question;
    line.append(stored);
    if (other.source) line.append(other.question ? " · " : "", sourceLine(other.source));
    if (!equal(answer, other) || !line.textContent) { // nothing that differs is lost
      const text = document.createElement("div");
      text.className = "text prose";
      setText(text, other.html);
      line.append(text);
    }
    details.querySelector("ul").append(line);
  }
}

function sourceLine({ title, file, page, url }) {
  const place = file && page ? filled(texts.page, { file, page: String(page) }) : file;
  const line = document.createElement("span");
  line.textContent = [title, place].filter(Boolean).join(" · ") || url;
  if (!/^https?:/i.test(url)) return line; // any other address could be a program
  return Object.assign(document.createElement("a"), {
    href: url, target: "_blank", rel: "noopener noreferrer", textContent: line.textContent,
  });
}
