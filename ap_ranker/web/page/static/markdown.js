// Simple Markdown as elements: paragraphs, lists, tables, headings, code, bold, italics and links. Text becomes text nodes only,
// and whatever is not Markdown stays as it was written.
const FENCE = /^\s*```/;
const HEADING = /^#{1,6}\s+(.+?)\s*#*$/;
const ROW = /^\s*\|.*\|\s*$/;
const RULE = /^\s*\|(?:\s*:?-+:?\s*\|)+\s*$/; // below the first row of a table
const ITEM = /^\s*(?:[-*+•]|(\d{1,4})[.)])\s+(.*)$/;

// Each alternative is bounded, so that no text takes long.
const INLINE = new RegExp(
  [
    String.raw`\\([\\*_\x60[\]|])`,
    String.raw`\x60([^\x60\n]{1,500})\x60`,
    String.raw`\[([^\]\n]{1,300})\]\(\s?([^\s()]{1,2000}(?:\([^\s()]{0,200}\)[^\s()]{0,500})?)\s?\)`,
    String.raw`\*\*(?=\S)([^\n]{1,1000}?)(?<=\S)\*\*`,
    String.raw`(?<![\p{L}\p{N}*])\*(?=[^\s*])([^\n*]{1,500})(?<=\S)\*(?![\p{L}\p{N}*])`,
    String.raw`(?<![\p{L}\p{N}_])_(?=[^\s_])([^\n_]{1,500})(?<=\S)_(?![\p{L}\p{N}_])`,
    String.raw`(https?:\/\/(?:[^\s<>"()]|\([^\s<>"()]{0,200}\)){1,2000})`,
    String.raw`(?<![\w.+-])([\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,5})`,
  ].join("|"),
  "gu",
);

export function render(text) {
  const whole = document.createDocumentFragment();
  const lines = text.replace(/\r\n?/g, "\n").split("\n");
  for (let at = 0; at < lines.length; ) {
    if (!lines[at].trim()) at++;
    else if (FENCE.test(lines[at])) at = code(lines, at, whole);
    else if (HEADING.test(lines[at])) whole.append(paragraph(HEADING.exec(lines[at++])[1], "heading"));
    else if (isTable(lines, at)) at = table(lines, at, whole);
    else if (ITEM.test(lines[at])) at = list(lines, at, whole);
    else at = proseLines(lines, at, whole);
  }
  return whole;
}

// A link, or only its content if its address is not one of the web or of a mailbox: any other could be a script.
export function link(address, ...content) {
  let protocol = "";
  try {
    ({ protocol } = new URL(address));
  } catch {
    // not an address
  }
  if (!["http:", "https:", "mailto:"].includes(protocol)) {
    const plain = document.createElement("span");
    plain.append(...content);
    return plain;
  }
  const element = document.createElement("a");
  element.setAttribute("href", address);
  element.rel = "noopener noreferrer";
  if (protocol !== "mailto:") element.target = "_blank";
  element.append(...content);
  return element;
}

function code(lines, start, whole) {
  let end = start + 1;
  while (end < lines.length && !FENCE.test(lines[end])) end++;
  const block = document.createElement("pre");
  block.append(wrapped("code", lines.slice(start + 1, end).join("\n")));
  whole.append(block);
  return end + 1;
}

function list(lines, start, whole) {
  const first = ITEM.exec(lines[start])[1];
  const element = document.createElement(first ? "ol" : "ul");
  if (first && first !== "1") element.start = Number(first);
  let at = start;
  for (; at < lines.length; at++) {
    const item = ITEM.exec(lines[at]);
    if (item && Boolean(item[1]) === Boolean(first)) element.append(wrapped("li", ...inline(item[2])));
    else if (!item && /^\s+\S/.test(lines[at])) element.lastChild.append("\n", ...inline(lines[at].trim()));
    else break;
  }
  whole.append(element);
  return at;
}

function isTable(lines, at) {
  return ROW.test(lines[at]) && RULE.test(lines[at + 1] || "");
}

function table(lines, start, whole) {
  const element = document.createElement("table");
  let at = start;
  for (; at < lines.length && ROW.test(lines[at]); at++) {
    if (at === start + 1) continue; // the rule
    const cells = lines[at].trim().slice(1, -1).split(/(?<!\\)\|/);
    const name = at === start ? "th" : "td";
    element.append(wrapped("tr", ...cells.map((cell) => wrapped(name, ...inline(cell.trim())))));
  }
  const window = wrapped("div", element); // wide tables are scrolled in it, also by the keyboard
  window.className = "table";
  window.tabIndex = 0;
  whole.append(window);
  return at;
}

function proseLines(lines, start, whole) {
  const begins = (at) => [FENCE, HEADING, ITEM].some((kind) => kind.test(lines[at])) || isTable(lines, at);
  let end = start + 1;
  while (end < lines.length && lines[end].trim() && !begins(end)) end++;
  whole.append(paragraph(lines.slice(start, end).join("\n")));
  return end;
}

function paragraph(text, name = "") {
  const element = wrapped("p", ...inline(text));
  element.className = name;
  return element;
}

function inline(text) {
  const parts = [];
  let last = 0;
  for (const match of text.matchAll(INLINE)) {
    const [all, escaped, literal, label, target, strong, starred, underlined, address, mailbox] = match;
    let used = all;
    let element;
    if (escaped) element = escaped;
    else if (literal) element = wrapped("code", literal);
    else if (label) element = link(target, ...unlinked(label));
    else if (strong) element = wrapped("strong", ...inline(strong));
    else if (starred || underlined) element = wrapped("em", ...inline(starred || underlined));
    else if (address) {
      used = address.replace(/[.,;:!?'*_]+$/, ""); // of the sentence around it
      element = link(used, used);
    } else if (mailbox) element = link(`mailto:${mailbox}`, mailbox);
    parts.push(text.slice(last, match.index), element);
    last = match.index + used.length;
  }
  parts.push(text.slice(last));
  return parts.filter((part) => part !== "");
}

// A link's label has no further links in it.
function unlinked(label) {
  return inline(label).map((part) => (part instanceof Element && part.matches("a, :has(a)") ? part.textContent : part));
}

function wrapped(name, ...content) {
  const element = document.createElement(name);
  element.append(...content);
  return element;
}
