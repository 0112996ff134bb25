// What users asked in a range of days, which the reader chooses: numbers, a chart, tables, and the same as CSV.
import { element, make, post, say } from "./basics.js";
import { language, texts } from "./texts.js";

const SHADES = ["answer", "maybe", "none"]; // outcomes, from the bottom of a bar to its top
const MOST_BARS = 31; // of more days, several share a bar

const number = (value) => value.toLocaleString(language);
const percent = new Intl.NumberFormat(language, { style: "percent" });
const signed = new Intl.NumberFormat(language, { signDisplay: "exceptZero" });
const days = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeZone: "UTC" });
const judgedText = ({ helped, judged }) => texts.of(number(helped), number(judged));
const range = ({ first, last }) => days.formatRange(new Date(first), new Date(last));

const form = element("range");

const shaded = (tag, kind) => Object.assign(make(tag), { className: `is-${kind}` });

function tile(name, value, change) {
  const pair = make("div");
  pair.append(make("dt", texts.names[name]), make("dd", value), make("dd", change));
  if (SHADES.includes(name)) pair.firstChild.prepend(shaded("i", name));
  pair.lastChild.className = "quiet";
  return pair;
}

const changed = (change, unit = (text) => text) => (change ? unit(signed.format(change)) : texts.unchanged);

// A share, and by how many points it has changed.
function shareTile(name, { current, before }) {
  const [now, then] = [current.shares[name], before.shares[name]].map((share) => share !== null && Math.round(100 * share));
  const notes = now === false || then === false ? [] : [changed(now - then, texts.points)];
  if (name === "helped" && now !== false) notes.push(judgedText(current));
  return tile(name, now === false ? "–" : percent.format(now / 100), notes.join(" · "));
}

function bar(part, most) {
  const [[first], [last]] = [part[0], part.at(-1)];
  const counts = Object.fromEntries(SHADES.map((kind) => [kind, part.reduce((sum, [, day]) => sum + day[kind], 0)]));
  const item = make("li");
  for (const kind of SHADES) {
    const block = shaded("span", kind);
    block.style.height = `${(100 * counts[kind]) / most}%`;
    item.prepend(block);
  }
  item.title = `${range({ first, last })}: ${SHADES.map((kind) => `${number(counts[kind])} ${texts.names[kind]}`).join(", ")}`;
  item.setAttribute("aria-label", item.title);
  return item;
}

function showDays(found) {
  const each = Object.entries(found);
  const size = Math.ceil(each.length / MOST_BARS);
  const parts = Array.from({ length: Math.ceil(each.length / size) }, (_, row) => each.slice(row * size, (row + 1) * size));
  const total = (part) => part.flatMap(([, day]) => Object.values(day)).reduce((sum, count) => sum + count, 0);
  const most = Math.max(1, ...parts.map(total));
  element("days").replaceChildren(...parts.map((part) => bar(part, most)));
  element("ends").replaceChildren(...[each[0], each.at(-1)].map(([day]) => make("span", days.format(new Date(day)))));
}

function row(asked) {
  const line = make("tr");
  const question = make("th");
  question.scope = "row";
  question.dir = "auto";
  const parts = SHADES.filter((kind) => asked[kind]).map((kind) => `${texts.names[kind]}: ${number(asked[kind])}`);
  if (asked.judged) parts.push(texts.helped(judgedText(asked)));
  const note = Object.assign(make("p", parts.join(" · ")), { className: "quiet", dir: "ltr" });
  question.append(make("span", asked.question), note);
  line.append(question, make("td", number(asked.asked)), make("td", number(asked.before)));
  return line;
}

function showTable(name, rows) {
  const table = element(name);
  const body = make("tbody");
  body.append(...rows.map(row));
  table.hidden = !rows.length;
  table.replaceChildren(table.caption, element("questions").content.cloneNode(true), body);
}

export async function showUsage(wanted = {}) {
  const found = await post("usage", wanted); // the server proposes days
  const { period, period_before: earlier, current, before } = found;
  for (const name of ["first", "last"]) element(name).value = period[name];
  element("table").href = `owner/usage.csv?${new URLSearchParams(period)}`;
  element("period").textContent = texts.period(range(period), range(earlier));
  element("counts").replaceChildren(
    tile("questions", number(current.questions), before.questions ? changed(current.questions - before.questions) : texts.noneBefore),
    ...[...SHADES, "helped"].map((name) => shareTile(name, found)),
  );
  showDays(found.days);
  for (const part of ["days", "ends", "table"]) element(part).hidden = !current.questions;
  for (const name of ["top", "risen", "fallen"]) showTable(name, found[name]);
}

async function show() {
  try {
    await showUsage({ first: element("first").value, last: element("last").value });
    say("");
  } catch (error) {
    say(error.message);
  }
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  show();
});
for (const button of form.querySelectorAll("[data-days]")) {
  button.addEventListener("click", () => {
    const last = new Date();
    const first = new Date(last - (button.dataset.days - 1) * 24 * 3600 * 1000);
    for (const [name, day] of Object.entries({ first, last })) element(name).value = day.toISOString().slice(0, 10); // UTC
    show();
  });
}
