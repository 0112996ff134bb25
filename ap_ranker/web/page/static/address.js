// The question and the category in the page's address, so that an answer can be shared, reloaded and gone back to.
import { cut } from "./length.js";

export function read() {
  const values = new URLSearchParams(location.search);
  const asked = (values.get("q") || "").trim();
  const question = cut(asked);
  return {
    question,
    isCut: question !== asked,
    category: values.get("category") || "",
    answer: values.get("answer") || "",
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

// The address of a question, of one of its answers, or of a topic alone, in the same view.
export function addressOf(question, category, answer = "") {
  const values = new URLSearchParams(location.search);
  for (const [name, value] of [["q", question], ["category", category], ["answer", answer]]) {
    if (value) values.set(name, value);
    else values.delete(name);
  }
  return String(values) ? `${location.pathname}?${values}` : location.pathname;
}

// A new question is a new step back; another category of the same answers is not.
export function write(question, category = "") {
  const { question: shown, answer } = read();
  const same = shown === question;
  const address = addressOf(question, category, same ? answer : "");
  if (address === location.pathname + location.search) return;
  history[same ? "replaceState" : "pushState"](null, "", address);
}
