// Answers of a category that say the same are shown once: rows of a FAQ repeat an answer, with few words changed.
const NEAR = 0.9; // share of common words (Jaccard index)
const FEWEST = 8; // words; shorter answers must be equal

// The best of each group, with the others of it; both in the order of the answers.
export function group(answers) {
  const groups = [];
  for (const answer of answers) {
    const text = words(answer.answer);
    const same = groups.find((each) => each.answer.category === answer.category && near(each.text, text));
    if (same) same.others.push(answer);
    else groups.push({ answer, others: [], text });
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
  const [left, right] = [new Set(one), new Set(other)];
  const common = [...left].filter((word) => right.has(word)).length;
  return common / (left.size + right.size - common) >= NEAR;
}

// Another price or date makes another answer.
function numbers(text) {
  return text.filter((word) => /\p{N}/u.test(word)).join(" ");
}
