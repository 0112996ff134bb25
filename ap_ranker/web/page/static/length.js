// A question that is longer than the server accepts is cut, and the reader is told.
export const MAX_CHARACTERS = 1000; // as the server accepts

export function cut(text) {
  return [...text].slice(0, MAX_CHARACTERS).join("");
}

// Cuts what is typed or pasted into a field; `note` has the message until the field changes again. Returns what writes it.
export function limit(input, note, message) {
  const tell = (isCut) => (note.textContent = isCut ? message : "");
  input.addEventListener("input", () => {
    const accepted = cut(input.value);
    const isCut = accepted !== input.value;
    if (isCut) input.value = accepted;
    tell(isCut);
  });
  return tell;
}
