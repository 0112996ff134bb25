// The question and the category in the page's address, so that an answer can be shared, reloaded and gone back to.
const MAX_CHARACTERS = 1000; // as the server accepts

export function read() {
  const values = new URLSearchParams(location.search);
  return {
    question: (values.get("q") || "").trim().slice(0, MAX_CHARACTERS),
    category: values.get("category") || "",
    owner: values.get("view") === "owner",
  };
}

// A question that is sent before the rest of the page is there: the browser sends the form's fields alone.
const form = document.getElementById("search");
for (const [name, value] of new URLSearchParams(location.search)) {
  if (name === "q" || name === "category") continue;
  form.append(Object.assign(document.createElement("input"), { type: "hidden", name, value }));
}

// A question in an address to send it to: in place of {question}, or as the subject and the text of an e-mail.
export function carrying(question, address) {
  const text = encodeURIComponent(question);
  return address.includes("@") && !address.includes("/")
    ? `mailto:${address}?subject=${text}&body=${text}`
    : address.replaceAll("{question}", () => text);
}

// The address of a question, or of a topic alone, in the same view.
export function addressOf(question, category) {
  const values = new URLSearchParams(location.search);
  for (const [name, value] of [["q", question], ["category", category]]) {
    if (value) values.set(name, value);
    else values.delete(name);
  }
  return String(values) ? `${location.pathname}?${values}` : location.pathname;
}

// A new question is a new step back; another category of the same answers is not.
export function write(question, category = "") {
  const address = addressOf(question, category);
  if (address === location.pathname + location.search) return;
  const same = read().question === question;
  history[same ? "replaceState" : "pushState"](null, "", address);
}
