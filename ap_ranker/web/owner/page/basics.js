// What the modules of the owner's page share: elements, times, and requests to the server.
import { filled, texts } from "./texts.js";

export const element = (id) => document.getElementById(id);
export const list = (id) => element(id).querySelector(".list");
export const make = (tag, text = "") => Object.assign(document.createElement(tag), { textContent: text });
export const say = (text) => (element("status").textContent = text);

// Dates as this browser writes them, whatever the language of the page's words.
export const dates = (options) => new Intl.DateTimeFormat(navigator.languages, options);
const time = dates({ dateStyle: "medium", timeStyle: "short" });
export const when = (seconds) => time.format(new Date(1000 * seconds));

const FOLDED = 160; // characters of a question that are shown at first

// A question, of which a long one is shown whole on request.
export function showFolded(place, text) {
  const letters = [...text];
  if (letters.length <= FOLDED) return place.replaceChildren(text);
  const shown = make("span");
  const button = Object.assign(make("button"), { type: "button", className: "link" });
  const fold = (isFolded) => {
    shown.textContent = isFolded ? `${letters.slice(0, FOLDED).join("").trimEnd()} …` : text;
    button.textContent = isFolded ? texts.showWhole : texts.showLess;
    button.setAttribute("aria-expanded", !isFolded);
  };
  button.addEventListener("click", () => fold(button.getAttribute("aria-expanded") === "true"));
  fold(true);
  place.replaceChildren(shown, " ", button);
}

const PAUSE = 200; // ms without another letter, before what was typed is looked for

// A listener that acts once after several letters: the server refuses one request for each of a quick typist.
export function afterTyping(act) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(act, PAUSE);
  };
}

export function clone(id) {
  const item = element(id).content.firstElementChild.cloneNode(true);
  return [item, (name) => item.querySelector(name)];
}

export function fill(id, items) {
  const none = Object.assign(make("li", texts.none), { className: "quiet" });
  list(id).replaceChildren(...(items.length ? items : [none]));
}

const TRIES = 5; // of a request that is one too many at the moment, a second apart

// A request that the server refused as one too many has done nothing: it is sent again after a moment.
async function send(name, options) {
  for (let left = TRIES - 1; ; left--) {
    const response = await fetch(`owner/api/${name}`, options);
    if (response.status !== 429 || !left) return response;
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

export async function post(name, body = {}, options = {}) {
  let response;
  try {
    response = await send(name, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
      ...options,
    });
  } catch {
    throw new Error(texts.unreachable);
  }
  if (response.status === 401) {
    // The session has ended: log in again, but not before what was typed is saved.
    if (document.querySelector("dialog[open]")) throw new Error(texts.loggedOut);
    location.reload();
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.error || filled(texts.refusedRequest, { status: response.status }));
  return answer;
}
