// The owner's page. What users and entries say is only set as text, never as HTML.
import { finishDeletion, keep, refreshBy, undoChange } from "./actions.js";
import { clone, element, fill, list, make, post, say, when } from "./basics.js";
import { setEditable, showEntries } from "./entries.js";
import { showGaps, showNew } from "./gaps.js";
import { servedText, showQuality } from "./quality.js";
import { SECTIONS, showLink, showSection } from "./sections.js";
import { showComments, showFeedback } from "./sentences.js";
import { filled, language, texts } from "./texts.js";
import { inDays, showUsage } from "./usage.js";

document.documentElement.lang = language;
for (const part of [document, ...[...document.querySelectorAll("template")].map((template) => template.content)]) {
  for (const each of part.querySelectorAll("[data-text]")) each.textContent = texts[each.dataset.text];
  for (const each of part.querySelectorAll("[data-label]")) each.setAttribute("aria-label", texts[each.dataset.label]);
}

function showServer(server) {
  const { editable } = server;
  setEditable(editable);
  element("who").textContent = server.owner;
  showLink("entries", editable);
  const kept = server.keep_days ? filled(texts.keptFor, { time: inDays(server.keep_days) }) : texts.keptForever;
  element("kept").textContent = [server.logged ? kept : texts.noLog, server.erased ? "" : texts.notErased].join(" ").trim();
  const more = server.more_left_out ? [filled(texts.moreLeftOut, { count: server.more_left_out })] : [];
  element("left-out").hidden = !server.left_out.length;
  list("left-out").replaceChildren(...[...server.left_out, ...more].map((text) => make("li", text)));
  element("served").hidden = !server.served;
  if (server.served) element("served").textContent = servedText(server.served);
  if (!server.logged) say(texts.noLog);
  element("hints").replaceChildren(...server.hints.map((hint) => make("p", filled(texts[hint.text], hint))));
}

function changeCard(made) {
  const [item, part] = clone("line");
  const name = made.of || made.question || made.answer || texts.noQuestion;
  part(".what").textContent = [`${texts.actions[made.action]}: ${name}`, ...made.wordings.map((text) => `• ${text}`), ...(made.removed ?? []).map((text) => `✗ ${text}`)].join("\n");
  const state = made.is_undone ? texts.undone : made.is_lapsed && texts.lapsed;
  part(".about").textContent = [when(made.time), made.owner, state].filter(Boolean).join(" · ");
  item.classList.toggle("gone", made.is_undone || made.is_lapsed);
  part(".buttons").hidden = made.is_undone;
  const { question_key, answer_key } = made;
  const undo = made.id ? undoChange(made) : ["undo_rejection", { sentences: [{ question_key, answer_key }] }];
  part(".undo").addEventListener("click", () => keep(...undo, { outcome: () => texts.takenBack }));
  return item;
}

const showHistory = async () => fill("changes", (await post("history")).map(changeCard));

const VISIT = 3600_000; // milliseconds without the page after which a visit is another one

// The end of the visit before, in the server's seconds; null without one. Until the visit ends, it stays the same.
function beginVisit() {
  try {
    const { since, seen, at } = JSON.parse(localStorage.ownerVisit);
    return Date.now() - at < VISIT ? since : seen;
  } catch {
    return null; // the first visit, or a browser that keeps nothing
  }
}

const since = beginVisit();

function noteVisit(seen) {
  try {
    localStorage.ownerVisit = JSON.stringify({ since, seen, at: Date.now() });
  } catch {
    // nothing is kept there
  }
}

async function showOverview() {
  const overview = await post("overview", { since });
  const { happened, next } = overview;
  noteVisit(overview.now);
  const counts = Object.entries(happened).filter(([, count]) => count);
  const parts = counts.map(([name, count]) => filled(texts.happened[name], { count }));
  const begin = filled(since === null ? texts.lately : texts.sinceVisit, { since: when(overview.since) });
  element("happened").textContent = `${begin} ${parts.join(", ") || texts.nothingNew}`;
  const place = element("next");
  if (next) {
    const link = Object.assign(make("a", texts[SECTIONS[next.section]]), { href: `#${next.section}` });
    const shown = [...next.text].length > 100 ? `${[...next.text].slice(0, 100).join("")} …` : next.text;
    place.replaceChildren(make("strong", texts.nextIs), " ", link, ` – ${filled(texts.nextStep, { question: shown })}`);
  } else place.replaceChildren(texts.nothingLeft);
  element("overview").hidden = false;
}

async function showAll(...others) {
  say(texts.loading);
  try {
    const server = await post("server");
    say("");
    showServer(server);
    showSection();
    await Promise.all([
      ...(server.editable ? [showEntries()] : []),
      ...[showHistory, showNew, showFeedback, showComments, showGaps, showQuality, showOverview, ...others].map((show) => show()),
    ]);
  } catch (error) {
    say(error.message);
  }
}

let shown = showAll(showUsage); // after a change, what was asked is the same
let waiting = null; // the time that begins after that

// One after another, for an earlier reply must not replace a later one; what changes meanwhile is shown by the next.
function showAgain() {
  waiting ??= shown.then(() => {
    waiting = null;
    return showAll();
  });
  shown = waiting;
  return shown;
}

refreshBy(showAgain);
addEventListener("hashchange", finishDeletion); // its button would undo what is no longer in sight
showSection();
