// The search page, with the words of texts.js. User input and FAQ texts are only set as text, never as HTML.
"use strict";

const form = document.getElementById("search");
const input = document.getElementById("question");
const statusLine = document.getElementById("status");
const list = document.getElementById("answers");
const template = document.getElementById("answer");
const threeDigits = new Intl.NumberFormat(language, { minimumFractionDigits: 3, maximumFractionDigits: 3 });
const percent = new Intl.NumberFormat(language, { style: "percent" });

// Tells the server only that two clicks are of the same person; it is lost when the page closes.
const visit = Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, "0")).join("");

document.documentElement.lang = language;
for (const part of [document, template.content]) {
  for (const element of part.querySelectorAll("[data-text]")) element.textContent = texts[element.dataset.text];
}

let latest = 0; // a slow answer must not replace that to a later question

async function post(path, body) {
  let response;
  try {
    response = await fetch(path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
  } catch {
    throw new Error(texts.unreachable);
  }
  if (!response.ok) throw new Error(texts.errors[response.status] || texts.refused(response.status));
  return response.json();
}

function say(text, none = false) {
  statusLine.textContent = text;
  statusLine.classList.toggle("none", none);
}

async function search(question) {
  const mine = ++latest;
  list.replaceChildren();
  say(texts.searching);
  try {
    const result = await post("api/search", { question });
    if (mine !== latest) return;
    if (!result.found) {
      say(texts.none, true);
      return;
    }
    list.replaceChildren(...result.answers.map((answer) => card(question, answer)));
    say(texts.found(result.answers.length));
  } catch (error) {
    if (mine === latest) say(error.message);
  }
}

function card(question, answer) {
  const item = template.content.firstElementChild.cloneNode(true);
  const part = (name) => item.querySelector(`.${name}`);
  part("stored").textContent = answer.question;
  part("stored").hidden = !answer.question;
  part("text").textContent = answer.answer;
  if (answer.source) showSource(part("source"), answer.source);
  part("wording").textContent = answer.matched_wording;
  part("matched").hidden = !answer.matched_wording || answer.matched_wording === answer.question;
  part("score").textContent = answer.score === null ? texts.noScore : texts.score(threeDigits.format(answer.score));
  part("bm25").textContent = answer.bm25_rank === null ? texts.noBm25 : texts.bm25(answer.bm25_rank);
  part("why").addEventListener("click", () => toggleHeat(question, answer.id, part("why"), part("heat")));
  for (const [name, helped] of [["yes", true], ["no", false]]) {
    part(name).addEventListener("click", () => judge(question, answer, helped, part));
  }
  return item;
}

function showSource(paragraph, { title, file, page, url }) {
  const place = file && page ? texts.page(file, page) : file;
  const text = [title, place].filter(Boolean).join(" · ") || url;
  const isWeb = /^(http|https):/i.test(url || ""); // any other address could be a script
  const line = isWeb ? document.createElement("a") : document.createElement("span");
  if (isWeb) Object.assign(line, { href: url, target: "_blank", rel: "noopener noreferrer" });
  line.textContent = text;
  paragraph.append(line);
  paragraph.hidden = false;
}

async function judge(question, { id, receipt }, helped, part) {
  const buttons = [part("yes"), part("no")];
  buttons.forEach((button) => (button.disabled = true));
  try {
    await post("api/feedback", { question, id, helped, receipt, visit });
    part(helped ? "yes" : "no").setAttribute("aria-pressed", "true");
    part("thanks").textContent = texts.thanks;
  } catch (error) {
    buttons.forEach((button) => (button.disabled = false));
    part("thanks").textContent = error.message;
  }
}

async function toggleHeat(question, id, button, panel) {
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
    const note = document.createElement("p");
    note.textContent = error.message;
    panel.replaceChildren(note);
  }
}

function side(name, { text, tokens }) {
  const title = document.createElement("h3");
  title.textContent = name;
  const whole = document.createElement("p");
  const characters = Array.from(text); // code points, as the server counts
  let last = 0;
  for (const { start, end, heat } of tokens || []) {
    const mark = document.createElement("b");
    mark.textContent = characters.slice(start, end).join("");
    mark.style.setProperty("--w", heat.toFixed(3));
    mark.title = texts.weight(percent.format(heat));
    whole.append(characters.slice(last, start).join(""), mark);
    last = end;
  }
  whole.append(characters.slice(last).join(""));
  if (tokens) return [title, whole];
  const note = document.createElement("p");
  note.className = "quiet";
  note.textContent = texts.noAttention;
  return [title, whole, note];
}

function move(step) {
  const cards = [...list.querySelectorAll("article")];
  const at = cards.findIndex((card) => card.contains(document.activeElement));
  const next = at + step; // from the search box, at is -1
  if (next < 0) input.focus();
  else if (next < cards.length) cards[next].focus();
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const question = input.value.trim();
  if (question) search(question);
});

document.addEventListener("keydown", (event) => {
  // While a Chinese word is being composed, arrow keys and Escape belong to the list of its characters.
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    if (event.key === "ArrowUp" && document.activeElement === input) return;
    event.preventDefault();
    move(event.key === "ArrowDown" ? 1 : -1);
  } else if (event.key === "Enter" && document.activeElement.matches("article")) {
    document.activeElement.querySelector(".why").click();
  } else if (event.key === "Escape") {
    input.focus();
    input.select();
  }
});
