"""What must not count as wrong, against naive loops; what a batch draws."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.text.tokenizer import WordTokenizer
from ap_ranker.training.batches import Batches, not_wrong
from ap_ranker.training.objectives import NEGATIVE, POSITIVE

ABC = "abcdefghijkl"
# Few words, so that copies, near-copies and twins are frequent; ten words or more, so that nine of ten can agree.
TEXTS = st.one_of(
    st.lists(st.sampled_from(ABC), max_size=4).map(" ".join),
    st.lists(st.sampled_from(ABC), min_size=10, max_size=12, unique=True).map(" ".join),
    st.sampled_from(["A  b", "a b", " B A", "?"]),
)


@st.composite
def datasets(draw: st.DrawFn) -> Dataset:
    answers = [Answer(str(i), text) for i, text in enumerate(draw(st.lists(TEXTS, min_size=2, max_size=12)))]
    rows = st.integers(0, len(answers) - 1)
    judged = draw(st.booleans())
    questions = []
    for number in range(draw(st.integers(1, 5))):
        positives = draw(st.lists(rows, min_size=1, max_size=3, unique=True))
        others = draw(st.lists(rows, max_size=4, unique=True)) if judged else []
        candidates = tuple(dict.fromkeys([*positives, *others])) if judged else None
        questions.append(Question(str(number), draw(TEXTS), tuple(positives), candidates))
    return Dataset("d", answers, questions, judged=judged)


def plain(text: str) -> list[str]:
    return text.lower().split()


def grams(text: str) -> set[str]:
    letters = re.sub(r"[\W_]+", " ", text.lower()).strip()
    return {letters[start : start + 5] for start in range(len(letters) - 4)}


def naive_right(data: Dataset, question: Question) -> set[int]:
    return {row for other in data.questions if plain(other.text) == plain(question.text) for row in other.positives}


def naive_not_wrong(data: Dataset, question: Question) -> set[int]:
    right = naive_right(data, question)
    return {
        row
        for row, answer in enumerate(data.answers)
        if any(
            plain(answer.text) == plain(data.answers[other].text) or near(answer.text, data.answers[other].text)
            for other in right
        )
    }


def near(first: str, second: str) -> bool:
    a, b = grams(first), grams(second)
    return bool(a | b) and len(a & b) / len(a | b) >= 0.8


@given(datasets())
def test_copies_of_right_answers_are_not_wrong(data: Dataset) -> None:
    assert not_wrong(data) == [naive_not_wrong(data, question) for question in data.questions]


def test_case_and_spaces_make_no_other_text() -> None:
    answers = [Answer(str(i), text) for i, text in enumerate(["Hi.", " hi.\n ", "Hi", "ß", "SS"])]
    questions = [Question("1", "Where?", (0,)), Question("2", "When?", (2,)), Question("3", "Why?", (3,))]
    assert not_wrong(Dataset("d", answers, questions)) == [{0, 1}, {2}, {3, 4}]
    questions = [Question("1", "Where?", (0,)), Question("2", " where?", (2,)), Question("3", "where", (3,))]
    assert not_wrong(Dataset("d", answers, questions)) == [{0, 1, 2}, {0, 1, 2}, {3, 4}]


def tokenizer_of(data: Dataset) -> WordTokenizer:
    return WordTokenizer.build([*(a.text for a in data.answers), *(q.text for q in data.questions)], max_tokens=20)


LETTERS = [Answer(letter, f"we {letter}") for letter in ABC]


@settings(deadline=None)
@given(datasets(), st.booleans(), st.integers(1, 6), st.randoms())
def test_no_right_answer_is_ever_a_negative(
    data: Dataset, own_candidates: bool, negatives: int, random: object
) -> None:
    tokenizer = tokenizer_of(data)
    batches = Batches(data, tokenizer, negatives=negatives, own_candidates=own_candidates, seed=1)
    pairs = batches.pairs
    random.shuffle(pairs)  # type: ignore[attr-defined]
    batch = batches(pairs)
    texts = [[tokenizer.words[i] for i in row if i] for row in batch["answer_ids"].tolist()]
    tokens = [[tokenizer.words[i] for i in ids] for ids in tokenizer.encode([a.text for a in data.answers])[0]]
    for (number, answer), target, labels in zip(pairs, batch["target"].tolist(), batch["labels"].tolist(), strict=True):
        question = data.questions[number]
        assert texts[target] == tokens[answer]
        assert labels[target] == POSITIVE
        right = {row for row, _ in enumerate(tokens) if row in naive_not_wrong(data, question)}
        for text, label in zip(texts, labels, strict=True):
            if label == NEGATIVE:
                assert all(text != tokens[row] for row in right)


def test_what_is_judged_wrong_comes_first() -> None:
    questions = [Question("1", "we", (0,), (0, 1, 2)), Question("2", "we", (3,), (3,))]
    data = Dataset("d", LETTERS, questions, judged=True)
    tokenizer = tokenizer_of(data)
    for negatives, found in ((5, {"a", "b", "c"}), (0, {"a"})):
        batches = Batches(data, tokenizer, negatives=negatives, own_candidates=True, seed=1)
        assert {tokenizer.words[int(row[1])] for row in batches([(0, 0)])["answer_ids"]} == found


def test_near_copies_are_no_negatives_for_others_sake() -> None:
    """The near-copy of the first question's right answer is the second's right answer, and shares its batch."""
    texts = ["a b c d e f g h i j", "a b c d e f g h i", "x y"]
    data = Dataset(
        "d",
        [Answer(str(i), text) for i, text in enumerate(texts)],
        [Question("1", "a", (0,)), Question("2", "k", (1,)), Question("3", "x", (2,))],
    )
    batch = Batches(data, tokenizer_of(data), negatives=0, own_candidates=False, seed=1)
    assert batch([(0, 0), (1, 1), (2, 2)])["labels"][0].tolist() == [POSITIVE, -1, NEGATIVE]
