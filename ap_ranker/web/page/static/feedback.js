// Whether an answer helped: one click, which can be taken back, and a sentence for those who like to say more.
import { carrying } from "./address.js";
import { otherwise } from "./otherwise.js";
import { post } from "./server.js";
import { texts } from "./texts.js";

// Tells the server only that two clicks are of the same person; it is lost when the page closes.
const visit = Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, "0")).join("");

const contact = document.querySelector("#nothing .contact").dataset.address;

// `others()` are the entries to look at if this answer did not help.
export function listen(question, { id, receipt }, part, others) {
  const buttons = { true: part("yes"), false: part("no") };
  const comment = part("comment");
  const sentence = comment.querySelector("input");
  let said = null;
  let isBusy = false;

  const send = (more) => post("api/feedback", { question, id, receipt, visit, ...more });

  const attempt = async (work) => {
    if (isBusy) return; // a disabled button would lose the focus
    isBusy = true;
    try {
      part("thanks").textContent = await work();
    } catch (error) {
      part("thanks").textContent = error.message;
    }
    isBusy = false;
    for (const helped of [true, false]) buttons[helped].setAttribute("aria-pressed", String(said === helped));
    comment.hidden = said === null;
    part("wanted").textContent = said ? texts.comment : texts.lookingFor;
    const isWrong = said === false;
    part("otherwise").hidden = !isWrong;
    part("otherwise").replaceChildren(...(isWrong ? otherwise(texts, others(), contact && carrying(question, contact)) : []));
  };

  const takeBack = async () => {
    await send({ helped: null });
    said = null;
    sentence.value = "";
    return texts.takenBack;
  };

  const judge = async (helped) => {
    if (said === helped) return takeBack();
    if (said !== null) await takeBack();
    await send({ helped });
    said = helped;
    sentence.closest("label").hidden = comment.querySelector("[type=submit]").hidden = false;
    return texts.thanks;
  };

  for (const helped of [true, false]) buttons[helped].addEventListener("click", () => attempt(() => judge(helped)));
  part("undo").addEventListener("click", async () => {
    await attempt(takeBack);
    if (said === null) buttons.true.focus(); // the button that had the focus is gone
  });
  comment.addEventListener("submit", (event) => {
    event.preventDefault();
    const text = sentence.value.trim();
    if (!text) return;
    attempt(async () => {
      await send({ helped: said, comment: text });
      sentence.closest("label").hidden = comment.querySelector("[type=submit]").hidden = true;
      part("undo").focus();
      return texts.commented;
    });
  });
}
