// What the page opens with: questions of the FAQ and its topics; what a topic asks.
import * as address from "./address.js";
import { post } from "./server.js";
import { texts } from "./texts.js";

const section = document.getElementById("opening");
let latest = 0; // a slow reply must not show what another one has replaced

export function close() {
  latest++;
  section.hidden = true;
}

// Shows the questions of a topic, without one those to begin with and all topics; `follow` hears of every click.
export async function open(topic, follow) {
  const mine = ++latest;
  let found;
  try {
    found = await post("api/browse", topic ? { topic } : {});
  } catch {
    return topic && open("", follow); // such as for a topic that is gone; a search without works as well
  }
  if (mine !== latest) return;
  const { questions, topics } = found;
  const names = Object.entries(topics);
  const heading = Object.assign(document.createElement("h2"), { textContent: topic || texts.frequent, dir: "auto" });
  const parts = [heading, list("asked", questions.map((question) => link(question, [question, ""], follow)))];
  if (topic) parts.unshift(link(texts.allCategories, ["", ""], follow, "back"));
  else if (names.length > 1) {
    const each = names.map(([name, count]) => link(`${name} (${count})`, ["", name], follow));
    parts.push(Object.assign(document.createElement("h2"), { textContent: texts.categories }), list("topics", each));
  }
  section.replaceChildren(...parts);
  section.hidden = !questions.length;
}

function list(name, links) {
  const all = Object.assign(document.createElement("ul"), { className: name });
  for (const each of links) all.appendChild(document.createElement("li")).append(each);
  return all;
}

// A link, so that it can be opened in another window, and copied.
function link(text, place, follow, className = "") {
  const href = address.addressOf(...place);
  const element = Object.assign(document.createElement("a"), { textContent: text, href, className, dir: "auto" });
  element.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    history.pushState(null, "", href);
    follow();
  });
  return element;
}
