// What the modules of the owner's page share: elements, and requests to the server.
import { filled, texts } from "./texts.js";

export const element = (id) => document.getElementById(id);
export const make = (tag, text = "") => Object.assign(document.createElement(tag), { textContent: text });
export const say = (text) => (element("status").textContent = text);

export async function post(name, body = {}) {
  let response;
  try {
    response = await fetch(`owner/api/${name}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
  } catch {
    throw new Error(texts.unreachable);
  }
  if (response.status === 401) {
    // The session has ended: log in again, but not before what was typed is saved.
    if (document.querySelector("dialog[open]")) throw new Error(texts.loggedOut);
    location.reload();
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.error || filled(texts.refusedRequest, { status: response.status }));
  return answer;
}
