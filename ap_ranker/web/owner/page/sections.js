// The sections of the owner's page, each with an address of its own (#gaps): one is shown, the others are a click away.
import { element, make } from "./basics.js";
import { language, texts } from "./texts.js";

export const SECTIONS = {
  new: "newQuestions",
  unhelpful: "unhelpful",
  gaps: "gaps",
  wordings: "proposed",
  comments: "comments",
  entries: "entries",
  changes: "changes",
  usage: "counts",
  state: "state",
};
const number = new Intl.NumberFormat(language).format;
const links = {};

for (const [id, name] of Object.entries(SECTIONS)) {
  const link = Object.assign(make("a", texts[name]), { href: `#${id}` });
  const count = Object.assign(make("span"), { className: "count" });
  link.append(" ", count);
  element("sections").append(link);
  links[id] = { link, count };
}

// How much there is to do in a section.
export const showCount = (id, count) => (links[id].count.textContent = count ? number(count) : "");
export const showLink = (id, isThere) => (links[id].link.hidden = !isThere);

const current = () => {
  const id = location.hash.slice(1);
  return id in links && !links[id].link.hidden ? id : "new";
};

export const focusHeading = () => element(current()).querySelector("h2").focus();

export function showSection() {
  const shown = current();
  for (const id of Object.keys(links)) {
    element(id).hidden = id !== shown;
    if (id === shown) links[id].link.setAttribute("aria-current", "page");
    else links[id].link.removeAttribute("aria-current");
  }
  document.title = `${texts[SECTIONS[shown]]} – ${texts.title}`;
}

addEventListener("hashchange", () => {
  showSection();
  focusHeading(); // readers hear which section it is
});
