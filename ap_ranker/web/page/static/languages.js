// The words of a page in each language, texts/LANGUAGE.json beside its scripts. A further language is one more file with the same keys.
const LANGUAGES = ["ar", "de", "en", "es", "fr", "hi", "it", "ja", "nl", "pl", "pt", "tr", "zh"];

// The first of a reader's languages that is here, or else English.
export function choose(tags, among = LANGUAGES) {
  return tags.map((tag) => tag.split("-")[0].toLowerCase()).find((tag) => among.includes(tag)) || "en";
}

// `filled` is a text with values in place of {names}; of one with several forms, the form of `count` in this language.
export async function load(language, beside = import.meta.url) {
  const response = await fetch(new URL(`texts/${language}.json`, beside));
  const { direction, ...texts } = await response.json();
  const plurals = new Intl.PluralRules(language);
  const numbers = new Intl.NumberFormat(language);
  const shown = (value) => (typeof value === "number" ? numbers.format(value) : value);
  const filled = (text, values) => {
    const form = typeof text === "string" ? text : text[plurals.select(values.count)] ?? text.other;
    return form.replace(/\{(\w+)\}/g, (_, name) => shown(values[name]));
  };
  return { language, direction, texts, filled };
}
