// The owner's page. What users and entries say is only set as text, never as HTML.
import { element, make, post, say } from "./basics.js";
import { filled, language, texts } from "./texts.js";
import { inDays, showUsage } from "./usage.js";

const list = (id) => element(id).querySelector(".list");
const twoDigits = new Intl.NumberFormat(language, { minimumFractionDigits: 2, maximumFractionDigits: 2 });
let editable = true;

document.documentElement.lang = language;
for (const part of [document, ...[...document.querySelectorAll("template")].map((template) => template.content)]) {
  for (const each of part.querySelectorAll("[data-text]")) each.textContent = texts[each.dataset.text];
}

function clone(id) {
  const item = element(id).content.firstElementChild.cloneNode(true);
  return [item, (name) => item.querySelector(name)];
}

function fill(id, items) {
  const none = Object.assign(make("li", texts.none), { className: "quiet" });
  list(id).replaceChildren(...(items.length ? items : [none]));
}

function showOthers(details, wordings) {
  details.hidden = !wordings.length;
  details.querySelector("summary").textContent = filled(texts.others, { count: wordings.length });
  details.querySelector("ul").replaceChildren(...wordings.map((wording) => make("li", wording)));
}

function showServer(server) {
  editable = server.editable;
  element("who").textContent = server.owner;
  element("entries").hidden = !editable;
  element("changes").hidden = !editable;
  const kept = server.keep_days ? filled(texts.keptFor, { time: inDays(server.keep_days) }) : texts.keptForever;
  element("kept").textContent = [server.logged ? kept : texts.noLog, server.erased ? "" : texts.notErased].join(" ").trim();
  const more = server.more_left_out ? [filled(texts.moreLeftOut, { count: server.more_left_out })] : [];
  element("left-out").hidden = !server.left_out.length;
  list("left-out").replaceChildren(...[...server.left_out, ...more].map((text) => make("li", text)));
  element("served").hidden = !server.served;
  if (server.served) element("served").textContent = servedText(server.served);
  if (!server.logged) say(texts.noLog);
  else if (!editable) say(texts.notEditable);
}

const time = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "short" });

function servedText(served) {
  const kind = served.ranks_by === "words" ? "words" : served.trained === "yes" ? "trained" : "untrained";
  const since = time.format(new Date(served.since * 1000));
  const parts = [filled(texts.served[kind], { checkpoint: served.checkpoint, since })];
  if (served.recommended === "no") parts.push(texts.served.notRecommended);
  parts.push(texts.basis[served.basis]);
  if (served.aged === "yes") parts.push(texts.served.aged);
  return parts.join(" ");
}

const ticks = new Map(); // question -> whether the owner wants it, where that is not as the server proposes

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

let boxes = 0; // number of tick boxes so far: their notes have ids

function gapCard(gap) {
  const [item, part] = clone("gap");
  part(".question").textContent = gap.questions[0].text;
  part(".asked").textContent = filled(texts.asked, { count: gap.asked });
  part("fieldset").disabled = !editable;
  part("ul").replaceChildren(...gap.questions.map((question) => tickBox(question, ++boxes)));
  const wanted = () => [...item.querySelectorAll("input:checked")].map((box) => box.value);
  const allow = () => {
    for (const button of item.querySelectorAll("button")) button.disabled = !wanted().length;
  };
  item.addEventListener("change", allow);
  allow();
  const nearest = [gap.nearest, ...(gap.score === null ? [] : [`(${twoDigits.format(gap.score)})`])].join(" ");
  part(".nearest").textContent = gap.nearest ? filled(texts.nearest, { question: nearest }) : texts.noNearest;
  const entry = gap.nearest_entry;
  part(".add").hidden = !entry;
  part(gap.is_near && entry ? ".add" : ".write").classList.add("main");
  part(".buttons").hidden = !editable;
  part(".add").addEventListener("click", () => addWordings(entry, wanted()));
  part(".choose").addEventListener("click", () => choose(wanted()));
  part(".write").addEventListener("click", () => {
    const [question, ...wordings] = wanted();
    edit(null, { question, answer: "", wordings });
  });
  return item;
}

let shownGaps = ""; // the groups that the list shows, as text
let nextLook;

async function showGaps() {
  const { grouping, gaps } = await post("gaps");
  const found = JSON.stringify([editable, gaps]);
  const inUse = grouping && list("gaps").contains(document.activeElement); // what the owner is about to tick stays
  if (found !== shownGaps && !inUse) {
    shownGaps = found;
    fill("gaps", gaps.map(gapCard));
  }
  element("gaps").querySelector(".grouping").textContent = grouping ? texts.grouping : "";
  clearTimeout(nextLook);
  if (grouping) nextLook = setTimeout(() => showGaps().catch((error) => say(error.message)), 1000);
}

function entryCard(entry) {
  const [item, part] = clone("entry");
  part(".question").textContent = entry.question || entry.title;
  part(".answer").textContent = entry.answer;
  showOthers(part("details"), entry.wordings);
  part(".edit").addEventListener("click", () => edit(entry, entry));
  part(".delete").addEventListener("click", () =>
    change({ action: "delete entry", entry: entry.key, version: entry.version }), // it can be undone
  );
  return item;
}

function feedbackCard(row) {
  const [item, part] = clone("judgement");
  const { question_key, answer_key, key: entry, question: wording } = row;
  const decide = (state) => keep("decide", { state, question_key, answer_key, wording, entry });
  part(".question").textContent = wording;
  const votes = { yes: row.helped, no: row.did_not_help, networks: row.networks, entry: row.entry || texts.noQuestion };
  part(".about").textContent = filled(texts.votes, votes);
  if (row.words.length) part(".about").after(wordsList(row.words));
  part(".accept").hidden = !entry;
  part(".accept").addEventListener("click", () => decide("accepted"));
  part(".reject").addEventListener("click", () => decide("rejected"));
  part(".delete").addEventListener("click", () => remove("delete_question", { question_key }));
  return item;
}

// What visitors wrote that they were looking for, beside the question whose answer did not help.
function wordsList(words) {
  const list = make("ul");
  list.append(...words.map((sentence) => Object.assign(make("li", sentence), { dir: "auto" })));
  const part = Object.assign(make("div"), { className: "words" });
  part.append(make("p", `${texts.lookedFor}:`), list);
  return part;
}

function commentCard(written) {
  const [item, part] = clone("comment");
  part(".what").textContent = written.comment;
  const { question } = written;
  const about = filled(written.helped ? texts.saidHelped : texts.saidNot, { question, entry: written.entry || texts.noQuestion });
  part(".about").textContent = [new Date(1000 * written.time).toLocaleString(language), about].join(" · ");
  part(".delete").addEventListener("click", () => remove("delete_comment", { id: written.id }));
  return item;
}

function changeCard(made) {
  const [item, part] = clone("line");
  const name = made.of || made.question || made.answer;
  part(".what").textContent = [`${texts.actions[made.action]}: ${name}`, ...made.wordings.map((text) => `• ${text}`)].join("\n");
  const state = made.is_undone ? texts.undone : made.is_lapsed && texts.lapsed;
  const notes = [new Date(1000 * made.time).toLocaleString(language), made.owner, state];
  part(".about").textContent = notes.filter(Boolean).join(" · ");
  item.classList.toggle("gone", made.is_undone || made.is_lapsed);
  part(".buttons").hidden = made.is_undone;
  part(".undo").addEventListener("click", () => keep("undo", { change: made.id }));
  return item;
}

let latest = 0; // a slow answer must not replace that to a later search
let page = { first: 0, end: 0 }; // the numbers of the entries that are shown, from 0

async function showEntries(skip = page.first) {
  const mine = ++latest;
  const { count, first, entries } = await post("entries", { words: element("words").value, skip });
  if (mine !== latest) return;
  page = { first, end: first + entries.length };
  element("shown").textContent = count ? filled(texts.shown, { first: first + 1, last: page.end, count }) : "";
  element("previous").disabled = !first;
  element("next").disabled = page.end >= count;
  element("pages").hidden = count <= entries.length;
  fill("entries", entries.map(entryCard));
}

async function turn(skip) {
  try {
    await showEntries(skip);
    element("shown").focus(); // the button may be disabled by now; readers hear which entries are shown
    element("entries").scrollIntoView();
  } catch (error) {
    say(error.message);
  }
}

async function showAll(...others) {
  say(texts.loading);
  try {
    const server = await post("server");
    say("");
    showServer(server);
    const changes = editable ? [showEntries(), post("history").then((made) => fill("changes", made.map(changeCard)))] : [];
    await Promise.all([
      ...changes,
      post("feedback").then((rows) => fill("feedback", rows.map(feedbackCard))),
      post("comments").then((rows) => fill("comments", rows.map(commentCard))),
      showGaps(),
      ...others.map((show) => show()),
    ]);
  } catch (error) {
    say(error.message);
  }
}

async function keep(name, body, outcome = () => texts.kept) {
  let reply;
  try {
    reply = await post(name, body);
  } catch (error) {
    say(error.message);
    return error.message;
  }
  await showAll();
  say(outcome(reply));
  return "";
}

const remove = (name, body) => keep(name, body, ({ erased }) => (erased ? texts.deleted : texts.notErased));

const change = (body) => keep("change", body);
const addWordings = (entry, wordings) => change({ action: "add wordings", entry: entry.key, wordings });

const editor = element("editor");
const lines = (text) => text.split("\n").map((line) => line.trim()).filter(Boolean);
let edited = null; // the entry in the editor; null for a new one
let isSaving = false; // a second click must not keep it twice

function edit(entry, { question, answer, wordings }) {
  edited = entry;
  element("editing").textContent = entry ? texts.edit : texts.newEntry;
  element("question").value = question.replace(/[\r\n]+/g, " "); // the field would join the words
  element("question").required = !entry;
  element("answer").value = answer;
  element("wordings").value = wordings.join("\n");
  editor.querySelector(".alert").textContent = "";
  editor.showModal();
}

editor.querySelector("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  if (isSaving) return;
  isSaving = true;
  const content = {
    question: element("question").value,
    answer: element("answer").value,
    wordings: lines(element("wordings").value),
  };
  const what = edited ? { action: "change entry", entry: edited.key, version: edited.version } : { action: "add entry" };
  const error = await change({ ...what, ...content });
  isSaving = false;
  editor.querySelector(".alert").textContent = error;
  if (!error) editor.close();
});

const chooser = element("chooser");
let chosenFor = []; // the questions that the chosen entry answers
let choices = ""; // the entries that the list shows, as text

async function choose(questions) {
  chosenFor = questions;
  element("wanted").value = "";
  await showChoices();
  chooser.showModal();
}

async function showChoices() {
  const words = element("wanted").value;
  try {
    const { entries } = await post("entries", { words });
    if (words !== element("wanted").value) return; // a later letter asks for itself, and its reply may be here already
    const found = JSON.stringify(entries);
    if (found === choices) return; // the button that has the focus stays
    choices = found;
    chooser.querySelector("ul").replaceChildren(
      ...entries.map((entry) => {
        const button = make("button", entry.question || entry.title || entry.answer.slice(0, 80));
        button.type = "button";
        button.addEventListener("click", () => {
          chooser.close();
          addWordings(entry, chosenFor);
        });
        const item = make("li");
        item.append(button);
        return item;
      }),
    );
  } catch (error) {
    say(error.message);
  }
}

element("wanted").addEventListener("input", showChoices);
for (const dialog of [editor, chooser]) {
  dialog.querySelector(".cancel").addEventListener("click", () => dialog.close());
}
const search = () => showEntries(0).catch((error) => say(error.message));
element("words").addEventListener("input", search);
element("entries").querySelector("form").addEventListener("submit", (event) => {
  event.preventDefault();
  search();
});
element("previous").addEventListener("click", () => turn(page.first - 1)); // the page that this entry is on
element("next").addEventListener("click", () => turn(page.end));
element("entries").querySelector(".new").addEventListener("click", () => edit(null, { question: "", answer: "", wordings: [] }));

showAll(showUsage); // after a change, what was asked is the same
