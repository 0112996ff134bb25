// What somebody finds below an answer that did not help: the other entries, and the contact.

// `entries` are {title, open}, `contact` is an address; without it there is no link.
export function otherwise(texts, entries, contact) {
  const parts = [];
  if (entries.length) {
    const list = document.createElement("ul");
    for (const { title, open } of entries) {
      const button = Object.assign(document.createElement("button"), { type: "button", className: "link", dir: "auto", textContent: title });
      button.addEventListener("click", open);
      list.appendChild(document.createElement("li")).append(button);
    }
    parts.push(Object.assign(document.createElement("p"), { textContent: texts.perhaps }), list);
  }
  if (contact) {
    const link = { className: "contact", href: contact, target: "_blank", rel: "noopener noreferrer", textContent: texts.contact };
    parts.push(Object.assign(document.createElement("a"), link));
  }
  return parts;
}
