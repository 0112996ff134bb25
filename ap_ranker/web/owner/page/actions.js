// What the owner does: it is kept, the page is shown anew, and the last of it can be undone beside the message.
import { element, post, say } from "./basics.js";
import { focusHeading } from "./sections.js";
import { filled, texts } from "./texts.js";

const GRACE = 8; // seconds until what was deleted for good is gone: until then it can be undone
let refresh = async () => {};
let undoing = null; // what the button beside the message does

// `show` shows all lists anew.
export const refreshBy = (show) => (refresh = show);

function offerUndo(undo) {
  undoing = undo;
  element("undo").hidden = !undo;
}

element("undo").addEventListener("click", async () => {
  const undo = undoing;
  offerUndo(null);
  await undo?.();
});

// Keep something; `undo` makes of the reply what takes it back, a route and its body. What is wrong is returned.
export async function keep(name, body, { outcome = () => texts.kept, undo } = {}) {
  let reply;
  try {
    await finishDeletion();
    reply = await post(name, body);
  } catch (error) {
    say(error.message);
    return error.message;
  }
  await refresh();
  say(outcome(reply));
  const back = undo?.(reply);
  offerUndo(back ? () => keep(back[0], back[1], { outcome: () => texts.takenBack }) : null);
  const { activeElement: active } = document;
  if (active === document.body || active.matches(":disabled")) focusHeading(); // what had the focus is gone
  return "";
}

export const undoChange = ({ change, id }) => ["undo", { change: change || id }];
export const change = (body) => keep("change", body, { undo: undoChange });

export function reject(sentences) {
  const keys = sentences.map(({ question_key, answer_key }) => ({ question_key, answer_key }));
  return keep("reject", { sentences }, {
    outcome: ({ rejected }) => filled(texts.rejected, { count: rejected }),
    undo: () => ["undo_rejection", { sentences: keys }],
  });
}

// Questions that are none for the FAQ, each its text, and the key of its judgements where the page has that.
export function dismiss(questions) {
  return keep("dismiss", { questions }, {
    outcome: () => filled(texts.dismissed, { count: questions.length }),
    undo: ({ sentences }) => ["undo_rejection", { sentences }],
  });
}

let deletion = null; // what is deleted in a moment

// Open a window: what was said of an earlier step goes, but for a deletion that can still be undone.
export function openWindow(dialog) {
  if (!deletion) {
    say("");
    offerUndo(null);
  }
  dialog.showModal();
}

export async function removeSoon(name, body, item) {
  await finishDeletion();
  item.hidden = true;
  const timer = setTimeout(finishDeletion, 1000 * GRACE);
  deletion = { name, body, timer };
  say(filled(texts.deletesSoon, { count: GRACE }));
  offerUndo(() => {
    clearTimeout(timer);
    deletion = null;
    item.hidden = false;
    say(texts.notDeleted);
    item.querySelector(".delete").focus();
  });
  element("undo").focus();
}

export async function finishDeletion() {
  if (!deletion) return;
  const { name, body, timer } = deletion;
  clearTimeout(timer);
  deletion = null;
  offerUndo(null);
  try {
    const { erased } = await post(name, body);
    await refresh();
    say(erased ? texts.deleted : texts.notErased);
  } catch (error) {
    await refresh();
    say(error.message);
  }
}

// Whoever leaves the page has not undone it.
addEventListener("pagehide", () => {
  if (!deletion) return;
  clearTimeout(deletion.timer);
  post(deletion.name, deletion.body, { keepalive: true }).catch(() => {});
  deletion = null;
});
element("leave").addEventListener("submit", async (event) => {
  if (!deletion) return;
  event.preventDefault(); // the session must not end before
  await finishDeletion();
  event.target.submit();
});
