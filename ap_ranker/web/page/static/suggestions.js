// Suggestions while typing: a combobox with a list, as the WAI-ARIA authoring practices describe it.
import { post } from "./server.js";
import { texts } from "./texts.js";

const PAUSE = 150; // milliseconds without a key before the server is asked
const FEWEST = 2; // characters

const input = document.getElementById("question");
const list = document.getElementById("suggestions");
let timer = 0;
let latest = 0; // a slow reply must not replace that to a later one
let active = -1;

// `chosen(text)` hears which suggestion the reader takes.
export function listen(chosen) {
  list.setAttribute("aria-label", texts.suggestions);
  input.addEventListener("input", () => {
    clearTimeout(timer);
    const typed = input.value.trim();
    if (typed.length < FEWEST) close();
    else timer = setTimeout(() => ask(typed), PAUSE);
  });
  input.addEventListener("blur", close);
  list.addEventListener("mousedown", (event) => event.preventDefault()); // keeps the focus in the field
  list.addEventListener("click", (event) => {
    const option = event.target.closest("[role=option]");
    if (option) take(option, chosen);
  });
  input.addEventListener("keydown", (event) => {
    if (list.hidden || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) activate(active + step);
    else if (event.key === "Escape") close();
    else if (event.key === "Enter" && active >= 0) take(list.children[active], chosen);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
}

export function close() {
  clearTimeout(timer);
  latest++;
  list.hidden = true;
  list.replaceChildren();
  input.setAttribute("aria-expanded", "false");
  activate(-1);
}

async function ask(typed) {
  const mine = ++latest;
  let suggestions;
  try {
    ({ suggestions } = await post("api/suggest", { text: typed }));
  } catch {
    return; // a search without suggestions works as well
  }
  if (mine !== latest || document.activeElement !== input) return;
  list.replaceChildren(...suggestions.map(option));
  list.hidden = !suggestions.length;
  input.setAttribute("aria-expanded", String(!list.hidden));
  activate(-1);
}

function option(text, at) {
  const item = document.createElement("li");
  item.id = `suggestion-${at}`;
  item.dir = "auto";
  item.setAttribute("role", "option");
  item.textContent = text;
  return item;
}

// The field itself is before the first and after the last.
function activate(at) {
  const count = list.children.length;
  active = at < -1 ? count - 1 : at >= count ? -1 : at;
  [...list.children].forEach((item, row) => item.setAttribute("aria-selected", String(row === active)));
  if (active < 0) input.removeAttribute("aria-activedescendant");
  else input.setAttribute("aria-activedescendant", list.children[active].id);
}

function take(item, chosen) {
  input.value = item.textContent;
  close();
  chosen(input.value);
}
