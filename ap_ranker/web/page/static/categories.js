// Buttons that show the answers of one category only.
import { texts } from "./texts.js";

const bar = document.getElementById("categories");

// `items` are {category, element} of all answers; `changed(category, count)` hears of every choice.
export function offer(items, chosen, changed) {
  const counts = new Map();
  for (const { category } of items) if (category) counts.set(category, (counts.get(category) || 0) + 1);
  bar.replaceChildren();
  bar.setAttribute("aria-label", texts.categories);
  bar.hidden = counts.size < 2;
  const show = (category) => {
    let count = 0;
    for (const item of items) {
      item.element.hidden = Boolean(category) && item.category !== category;
      count += !item.element.hidden;
    }
    for (const button of bar.children) button.setAttribute("aria-pressed", String(button.dataset.category === category));
    changed(category, count);
  };
  if (bar.hidden) return show("");
  for (const [category, count] of [["", items.length], ...counts]) {
    const button = document.createElement("button");
    button.type = "button";
    button.dir = "auto";
    button.dataset.category = category;
    button.textContent = `${category || texts.all} (${count})`;
    button.addEventListener("click", () => show(category));
    bar.append(button);
  }
  show(counts.has(chosen) ? chosen : "");
}

export function clear() {
  bar.hidden = true;
  bar.replaceChildren();
}
