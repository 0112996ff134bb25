// The words of the owner's page in its reader's language; the report has the same ones.
import { choose, load } from "../page/languages.js";

export const { language, texts, filled } = await load(choose(navigator.languages, ["de", "en"]), import.meta.url);
