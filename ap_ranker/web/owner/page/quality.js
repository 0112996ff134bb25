// Which search is served, what it promises, and what visitors' judgements say of that, week by week.
import { dates, element, make, post, when } from "./basics.js";
import { filled, language, texts } from "./texts.js";

const WIDTH = 600; // of the plot, in its own units
const HEIGHT = 220;
const MARGIN = { start: 44, end: 12, top: 12, bottom: 30 };
const percent = new Intl.NumberFormat(language, { style: "percent" }).format;
const day = dates({ dateStyle: "medium", timeZone: "UTC" });
const short = dates({ day: "numeric", month: "numeric", timeZone: "UTC" });
const share = (part, whole) => (whole ? part / whole : null);

export function servedText(served) {
  const kind = served.ranks_by === "words" ? "words" : served.trained === "yes" ? "trained" : "untrained";
  const parts = [filled(texts.served[kind], { checkpoint: served.checkpoint, since: when(served.since) })];
  if (served.recommended === "no") parts.push(texts.served.notRecommended);
  parts.push(texts.basis[served.basis]);
  if (served.aged === "yes") parts.push(texts.served.aged);
  return parts.join(" ");
}

function promiseText(promise) {
  if (!promise) return "";
  const { precision, calibrated_on, trained_on, wordings } = promise;
  const parts = [
    trained_on && filled(texts.trainedOn, { count: trained_on }),
    wordings && filled(texts.knownWordings, { count: wordings }),
    calibrated_on && filled(texts.calibratedOn, { count: calibrated_on }),
    precision === null ? texts.noPromise : filled(texts.promised, { share: percent(precision) }),
  ];
  return parts.filter(Boolean).join(" ");
}

function shape(tag, attributes) {
  const drawn = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) drawn.setAttribute(name, value);
  return drawn;
}

const across = (row, count) => MARGIN.start + ((WIDTH - MARGIN.start - MARGIN.end) * (row + 0.5)) / count;
const up = (value) => HEIGHT - MARGIN.bottom - (HEIGHT - MARGIN.top - MARGIN.bottom) * value;

function label(text, x, y, anchor) {
  const drawn = shape("text", { x, y, "text-anchor": anchor });
  drawn.textContent = text;
  return drawn;
}

// A line through the weeks with a value, with a mark for each: a week alone has no line.
function series(kind, values) {
  const points = values.map((value, row) => [across(row, values.length), value]).filter(([, value]) => value !== null);
  const places = points.map(([x, value]) => `${x.toFixed(1)},${up(value).toFixed(1)}`);
  const marks = points.map(([x, value]) => shape("circle", { class: kind, cx: x.toFixed(1), cy: up(value).toFixed(1), r: 4 }));
  return [shape("polyline", { class: kind, points: places.join(" ") }), ...marks];
}

function plot(weeks, precision) {
  const svg = element("weeks").querySelector("svg");
  const drawn = [];
  for (const value of [0, 0.5, 1]) {
    const y = up(value);
    drawn.push(shape("line", { class: "grid", x1: MARGIN.start, x2: WIDTH - MARGIN.end, y1: y, y2: y }));
    drawn.push(label(percent(value), MARGIN.start - 6, y + 4, "end"));
  }
  for (const row of [0, weeks.length - 1]) drawn.push(label(short.format(new Date(weeks[row].last)), across(row, weeks.length), HEIGHT - 8, "middle"));
  if (precision !== null) {
    const y = up(precision);
    drawn.push(shape("line", { class: "promised", x1: MARGIN.start, x2: WIDTH - MARGIN.end, y1: y, y2: y }));
  }
  drawn.push(...series("answered", weeks.map((week) => share(week.answered, week.questions))));
  drawn.push(...series("precise", weeks.map((week) => share(week.helped, week.judged))));
  svg.replaceChildren(element("plotted"), ...drawn);
}

function legend(precision) {
  const kinds = ["precise", "answered", ...(precision === null ? [] : ["promised"])];
  const parts = kinds.map((kind) => {
    const part = make("span");
    part.append(Object.assign(make("i"), { className: `key ${kind}` }), make("span", texts.series[kind]));
    return part;
  });
  element("weeks").querySelector("figcaption").replaceChildren(...parts);
}

const shown = (part, whole) => (whole ? `${percent(part / whole)} (${part}/${whole})` : "–");

function table(weeks, precision) {
  const head = make("tr");
  const names = [texts.week, texts.series.precise, texts.series.promised, texts.series.answered];
  head.append(...names.map((name) => Object.assign(make("th", name), { scope: "col" })));
  const rows = weeks.map((week) => {
    const row = make("tr");
    const days = day.formatRange(new Date(week.first), new Date(week.last));
    row.append(Object.assign(make("th", days), { scope: "row" }));
    row.append(make("td", shown(week.helped, week.judged)), make("td", precision === null ? "–" : percent(precision)));
    row.append(make("td", shown(week.answered, week.questions)));
    return row;
  });
  const [top, body] = [make("thead"), make("tbody")];
  top.append(head);
  body.append(...rows.reverse());
  element("weekly").replaceChildren(top, body);
}

export async function showQuality() {
  const { promise, weeks } = await post("quality");
  const precision = promise?.precision ?? null;
  element("promise").textContent = promiseText(promise);
  const sum = (name) => weeks.reduce((total, week) => total + week[name], 0);
  const values = { weeks: weeks.length, helped: sum("helped"), count: sum("judged"), answered: sum("answered"), questions: sum("questions") };
  const shares = { precise: percent(share(values.helped, values.count) ?? 0), share: percent(share(values.answered, values.questions) ?? 0) };
  const parts = [values.count ? filled(texts.measured, { ...values, ...shares }) : texts.notMeasured];
  if (values.questions) parts.push(filled(texts.answeredShare, { ...values, ...shares }));
  element("measured").textContent = parts.join(" ");
  element("plotted").textContent = texts.plot;
  element("weeks").hidden = !values.count && !values.questions;
  plot(weeks, precision);
  legend(precision);
  table(weeks, precision);
}
