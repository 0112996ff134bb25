// The words that a question shares with an answer, marked in its text.
const UNSPACED = /[\p{sc=Han}\p{sc=Hira}\p{sc=Kana}\p{sc=Thai}\p{sc=Laoo}\p{sc=Khmr}\p{sc=Mymr}]/u;
const [BEFORE, AFTER] = ["(?<![\\p{L}\\p{M}\\p{N}])", "(?![\\p{L}\\p{M}\\p{N}])"];

// `words` are in lower case, with plain spaces and hyphens, as the server found them: of scripts without spaces,
// characters, of which two in a row say something.
export function mark(elements, words) {
  if (!words.length) return;
  const longestFirst = [...words].sort((one, other) => other.length - one.length);
  const characters = longestFirst.filter((word) => UNSPACED.test(word));
  const patterns = longestFirst.filter((word) => !UNSPACED.test(word)).map((word) => BEFORE + escaped(word) + AFTER);
  if (characters.length) patterns.push(`(?:${characters.map(escaped).join("|")}){2,}`);
  const pattern = new RegExp(patterns.join("|"), "giu");
  for (const element of elements) {
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    const texts = [];
    while (walker.nextNode()) texts.push(walker.currentNode);
    for (const text of texts) text.replaceWith(...marked(text.data, pattern));
  }
}

function escaped(word) {
  return word.replace(/[^\p{L}\p{M}\p{N}]/gu, (sign) => ("+#".includes(sign) ? `[${sign}]` : "[^\\p{L}\\p{N}]"));
}

function* marked(text, pattern) {
  let last = 0;
  for (const { 0: word, index } of text.matchAll(pattern)) {
    yield text.slice(last, index);
    yield Object.assign(document.createElement("mark"), { className: "shared", textContent: word });
    last = index + word.length;
  }
  yield text.slice(last);
}
