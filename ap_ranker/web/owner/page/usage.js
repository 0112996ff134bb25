// What users asked in a range of days, which the reader chooses: numbers, a chart, tables, and the same as CSV.
import { dates, element, make, post, say } from "./basics.js";
import { filled, language, texts } from "./texts.js";

const SHADES = ["answer", "maybe", "none"]; // outcomes, from the bottom of a bar to its top
const MOST_BARS = 31; // of more days, several share a bar

const number = (value) => value.toLocaleString(language);
const percent = new Intl.NumberFormat(language, { style: "percent" });
const signed = new Intl.NumberFormat(language, { signDisplay: "exceptZero" });
export const inDays = new Intl.NumberFormat(language, { style: "unit", unit: "day", unitDisplay: "long" }).format;
const day = dates({ dateStyle: "medium", timeZone: "UTC" });
const range = ({ first, last }) => day.formatRange(new Date(first), new Date(last));
const form = element("range");

const shaded = (tag, kind) => Object.assign(make(tag), { className: `is-${kind}` });
const ofJudged = ({ helped, judged }) => (judged ? [`${number(helped)}/${number(judged)}`] : []);

function tile(name, value, ...notes) {
  const pair = make("div");
  pair.append(make("dt", texts.names[name]), make("dd", value), make("dd", notes.join(" · ")));
  pair.lastChild.className = "quiet";
  if (SHADES.includes(name)) pair.firstChild.prepend(shaded("i", name));
  return pair;
}

// A share, and by how many points it has changed.
function shareTile(name, { current, before }) {
  const [now, then] = [current, before].map(({ shares }) => shares[name] ?? NaN);
  const change = Math.round(100 * now) - Math.round(100 * then);
  const notes = name === "helped" ? ofJudged(current) : [];
  if (!isNaN(change)) notes.unshift(filled(texts.points, { change: signed.format(change) }));
  return tile(name, isNaN(now) ? "–" : percent.format(now), ...notes);
}

function bar(part, most) {
  const item = make("li");
  const counts = SHADES.map((kind) => part.reduce((sum, [, count]) => sum + count[kind], 0));
  const blocks = SHADES.map((kind, row) => {
    const block = shaded("span", kind);
    block.style.height = `${(100 * counts[row]) / most}%`;
    return block;
  });
  item.append(...blocks.reverse());
  item.title = `${range({ first: part[0][0], last: part.at(-1)[0] })}: ${SHADES.map((kind, row) => `${number(counts[row])} ${texts.names[kind]}`).join(", ")}`;
  item.setAttribute("aria-label", item.title);
  return item;
}

function showDays(found) {
  const each = Object.entries(found);
  const size = Math.ceil(each.length / MOST_BARS);
  const parts = Array.from({ length: Math.ceil(each.length / size) }, (_, row) => each.slice(row * size, (row + 1) * size));
  const total = (part) => part.flatMap(([, counts]) => Object.values(counts)).reduce((sum, count) => sum + count, 0);
  const most = Math.max(1, ...parts.map(total));
  element("days").replaceChildren(...parts.map((part) => bar(part, most)));
  element("ends").replaceChildren(...[each[0], each.at(-1)].map(([date]) => make("span", day.format(new Date(date)))));
}

function row(asked) {
  const line = make("tr");
  const question = make("th");
  question.scope = "row";
  question.dir = "auto";
  const parts = SHADES.filter((kind) => asked[kind]).map((kind) => `${texts.names[kind]}: ${number(asked[kind])}`);
  parts.push(...ofJudged(asked).map((share) => `${texts.names.helped}: ${share}`));
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
  element("period").textContent = filled(texts.period, { days: range(period), before: range(earlier) });
  element("counts").replaceChildren(
    tile("questions", number(current.questions), signed.format(current.questions - before.questions)),
    ...[...SHADES, "helped"].map((name) => shareTile(name, found)),
  );
  showDays(found.days);
  for (const part of ["days", "ends", "table"]) element(part).hidden = !current.questions;
  for (const name of ["top", "risen", "fallen"]) showTable(name, found[name]);
}

async function show(event) {
  event.preventDefault();
  try {
    await showUsage({ first: element("first").value, last: element("last").value });
    say("");
  } catch (error) {
    say(error.message);
  }
}

form.addEventListener("submit", show);
for (const button of form.querySelectorAll("button[value]")) {
  button.textContent = inDays(button.value);
  button.addEventListener("click", (event) => {
    const last = new Date();
    const first = new Date(last - (button.value - 1) * 24 * 3600 * 1000);
    for (const [name, when] of Object.entries({ first, last })) element(name).value = when.toISOString().slice(0, 10); // UTC
    show(event);
  });
}
