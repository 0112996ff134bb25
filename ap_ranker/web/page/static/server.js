// Requests to the server. Errors carry a sentence for the reader.
import { filled, texts } from "./texts.js";

export async function post(path, body) {
  let response;
  try {
    response = await fetch(path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
  } catch {
    throw new Error(texts.unreachable);
  }
  if (!response.ok) throw new Error(texts.errors[response.status] || filled(texts.refused, { status: String(response.status) }));
  return response.json();
}
