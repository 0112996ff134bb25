// Answers of a category that ask or say nearly the same are shown once: rows of a FAQ repeat an answer, with few words changed.
const NEAR = 0.9; // share of common words of two answers (Jaccard index)
const FEWEST = 8; // words; shorter answers must be equal
const NEAR_QUESTIONS = 0.8; // share of common runs of five letters of two questions, as the server compares answers
const SIZE = 5;

// The best of each group, with the others of it; both in the order of the answers.
export function group(answers) {
  const groups = [];
  for (const answer of answers) {
    const text = words(answer.answer);
    const question = words(answer.question);
    const same = groups.find(
      (each) => each.answer.category === answer.category && (near(each.text, text) || askNearlyTheSame(each.question, question)),
    );
    if (same) same.others.push(answer);
    else groups.push({ answer, others: [], text, question });
  }
  return groups.map(({ answer, others }) => ({ answer, others }));
}

export function equal(one, other) {
  return words(one.answer).join(" ") === words(other.answer).join(" ");
}

function words(text) {
  return text.toLowerCase().match(/[\p{L}\p{M}\p{N}]+/gu) || [text];
}

function near(one, other) {
  if (one.join(" ") === other.join(" ")) return true;
  if (Math.min(one.length, other.length) < FEWEST || numbers(one) !== numbers(other)) return false;
  return share(new Set(one), new Set(other)) >= NEAR;
}

function askNearlyTheSame(one, other) {
  if (!one[0] || !other[0] || numbers(one) !== numbers(other)) return false;
  return share(runs(one.join(" ")), runs(other.join(" "))) >= NEAR_QUESTIONS;
}

function runs(text) {
  return new Set(Array.from({ length: Math.max(1, text.length - SIZE + 1) }, (_, at) => text.slice(at, at + SIZE)));
}

function share(left, right) {
  const common = [...left].filter((each) => right.has(each)).length;
  return common / (left.size + right.size - common);
}

// Another price or date makes another answer.
function numbers(text) {
  return text.filter((word) => /\p{N}/u.test(word)).join(" ");
}
