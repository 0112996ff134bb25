// What is said of a text that is no question, or asks several: the server's `kind` tells, docs/archive/api.md lists the
// kinds. The search page and the widget say it in their own `words`, which languages.js has loaded.
const INSTEAD = ["person", "greeting", "thanks", "insult", "incomplete"]; // said where nothing is shown
const MOST = { answer: 1, maybe: 3, none: 0 }; // entries of each of several questions

// What the status line says, if it is not what it says of any question.
export function sentence({ texts, filled, language }, { kind, outcome, language: faq }) {
  if (kind === "language") {
    const name = new Intl.DisplayNames([language], { type: "language" }).of(faq);
    return filled(texts.typed.language, { language: name });
  }
  if (["word", "incomplete"].includes(kind) && outcome === "maybe") return texts.typed[kind];
  return INSTEAD.includes(kind) && outcome === "none" ? texts.typed[kind] : "";
}

export const shown = ({ outcome, answers }) => answers.slice(0, MOST[outcome]);

// The heading of one of several questions; `answers` are in the list below it.
export function heading({ texts }, { question, outcome }) {
  const item = Object.assign(document.createElement("li"), { className: "part" });
  const title = Object.assign(document.createElement("h2"), { textContent: question, dir: "auto" });
  item.append(title);
  const note = { maybe: texts.perhaps, none: texts.none }[outcome];
  if (note) item.append(Object.assign(document.createElement("p"), { className: "quiet", textContent: note }));
  return item;
}
