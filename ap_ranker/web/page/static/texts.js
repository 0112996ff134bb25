// The words of this page in its reader's language.
import { choose, load } from "./languages.js";

export const { language, direction, texts, filled } = await load(choose(navigator.languages));
