"""Hard negatives against naive loops, a BM25 of one's own, and a model whose taste is known."""

from __future__ import annotations

import logging
import re
from itertools import pairwise
from math import log

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import absent
from torch import Tensor, nn

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.models.base import AnswerModel, States
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.text.tokenizer import TokenBatch, WordTokenizer
from ap_ranker.training import negatives as module
from ap_ranker.training.batches import Batches
from ap_ranker.training.negatives import (
    HardNegatives,
    like_right,
    not_wrong,
    right_answers,
    with_copies,
)
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


def naive_bm25(question: str, texts: list[str]) -> list[float]:
    """Lucene's BM25 in plain loops; k1 1.2, b 0.75."""
    documents = [re.findall(r"\w", text.lower()) for text in texts]
    mean = sum(map(len, documents)) / len(documents)
    scores = []
    for document in documents:
        score = 0.0
        for word in re.findall(r"\w", question.lower()):
            containing = sum(word in other for other in documents)
            if containing:
                idf = log(1 + (len(documents) - containing + 0.5) / (containing + 0.5))
                count = document.count(word)
                score += idf * count / (count + 1.2 * (0.25 + 0.75 * len(document) / mean))
        scores.append(score)
    return scores


# The guards, one by one.


@given(datasets())
def test_right_answers_of_a_question_and_its_twins(data: Dataset) -> None:
    assert right_answers(data.questions) == [naive_right(data, question) for question in data.questions]


@given(datasets())
def test_copies_of_right_answers_are_not_wrong(data: Dataset) -> None:
    assert not_wrong(data) == [naive_not_wrong(data, question) for question in data.questions]


def test_case_and_spaces_make_no_other_text() -> None:
    answers = [Answer(str(i), text) for i, text in enumerate(["Hi.", " hi.\n ", "Hi", "ß", "SS"])]
    assert with_copies([frozenset({0}), frozenset({2}), frozenset({3})], answers) == [{0, 1}, {2}, {3, 4}]
    questions = [Question("1", "Where?", (0,)), Question("2", " where?", (2,)), Question("3", "where", (3,))]
    assert right_answers(questions) == [{0, 2}, {0, 2}, {3}]


@pytest.mark.parametrize(("right", "limit"), [(0.8, 0.76), (-2.0, -2.1), (0.0, 0.0), (40.0, 38.0)])
def test_a_score_must_lie_below_the_right_answers(right: float, limit: float) -> None:
    scores = np.array([limit - 1e-6, limit + 1e-6, right, right + 1])
    assert like_right(scores, right).tolist() == [False, True, True, True]


@given(st.lists(st.floats(-50, 50), min_size=1), st.floats(-50, 50))
def test_no_score_above_the_right_answers_is_trusted(scores: list[float], right: float) -> None:
    for score, suspected in zip(scores, like_right(np.array(scores), right), strict=True):
        assert suspected or score < right


# The lists.


@given(datasets(), st.integers(1, 5))
def test_lists_are_bm25s_best_without_what_the_guards_leave_out(data: Dataset, depth: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "DEPTH", depth)
        hard = HardNegatives(data)
    texts = [answer.text for answer in data.answers]
    for question, found, unsure in zip(data.questions, hard.rows, hard.not_wrong, strict=True):
        scores = naive_bm25(question.text, texts)
        limit = sorted(scores)[-depth:][0]
        fixed = naive_not_wrong(data, question)
        assert unsure == fixed
        allowed = set(range(len(texts))) - fixed - set(question.candidates or ())
        allowed = {row for row in allowed if scores[row] > 0}
        # Where scores are equal up to rounding, any of the answers may be the last of the list.
        surely = {row for row in allowed if scores[row] > limit + 1e-5}
        assert surely <= set(found.tolist()) <= {row for row in allowed if scores[row] >= limit - 1e-5}
        assert all(scores[a] >= scores[b] - 1e-5 for a, b in pairwise(found.tolist()))


def test_a_stemmer_finds_other_negatives() -> None:
    answers = [Answer(str(row), text) for row, text in enumerate(["right", "parcels", "parcel", "tracked parcels"])]
    data = Dataset("d", answers, [Question("1", "parcel", (0,))])
    assert [rows.tolist() for rows in HardNegatives(data).rows] == [[2]]
    assert [rows.tolist() for rows in HardNegatives(data, "english").rows] == [[1, 2, 3]]


def test_what_is_left_out_is_told(caplog: pytest.LogCaptureFixture) -> None:
    answers = ["a b c d e f g h i j", "A B c d e f g h i j", "a b c d e f g h i", "a wrong", "none"]
    questions = [Question("1", "where is a", (0,)), Question("2", "Where is  A", (4,)), Question("3", "zzz", (3,))]
    data = Dataset("d", [Answer(str(i), text) for i, text in enumerate(answers)], questions)
    with caplog.at_level(logging.INFO, logger="ap_ranker"):
        hard = HardNegatives(data)
    assert [rows.tolist() for rows in hard.rows] == [[3], [3], []]
    assert not absent("BM25 … 0.7 … 1 of 3 … 2 right … 4 copies", caplog.text)


# The model's choice.


class Taste(AnswerModel):
    """Scores an answer by its words alone; each word's worth is a weight."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.worth = nn.Parameter(torch.zeros(words))

    def encode(self, batch: TokenBatch) -> States:
        return States(batch.mask, per_text={"worth": (self.worth[batch.ids] * batch.mask).sum(dim=1, keepdim=True)})

    def match(self, questions: States, answers: States) -> Tensor:
        return answers.per_text["worth"].T.expand(len(questions), -1)

    def scale(self, scores: Tensor) -> Tensor:
        return scores


LETTERS = [Answer(letter, f"we {letter}") for letter in ABC]


def tasting(data: Dataset, **worth: float) -> Ranker:
    tokenizer = WordTokenizer.build([*(a.text for a in data.answers), *(q.text for q in data.questions)], max_tokens=20)
    ranker = Ranker(Taste(len(tokenizer.words)), tokenizer)
    like(ranker, **worth)
    return ranker


def like(ranker: Ranker, **worth: float) -> None:
    assert isinstance(ranker.model, Taste)
    for word, value in worth.items():
        ranker.model.worth.data[ranker.tokenizer.words.index(word)] = value


def test_the_models_favourite_is_the_negative(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "HARDEST", 2)
    data = Dataset("d", LETTERS, [Question("1", "we", (0,)), Question("2", "shall we", (3, 4))])
    hard = HardNegatives(data)
    assert [rows.tolist() for rows in hard.rows] == [list(range(1, 12)), [0, 1, 2, *range(5, 12)]]
    ranker = tasting(data, a=10, b=9.7, c=9.4, d=11, f=9, g=8)
    with caplog.at_level(logging.INFO, logger="ap_ranker"):
        hard.mine(ranker)
    # Question 1: d and b score like the right a. Question 2: the best of its right d and e is d, so a and b may be.
    assert [rows.tolist() for rows in hard.rows] == [[2, 5], [0, 1]]
    assert not absent("model … 2.0 … 0 of 2 … 2 scored", caplog.text)
    batches = Batches(data, ranker.tokenizer, negatives=1, own_candidates=False, seed=1, hard=hard)
    like(ranker, k=9.45)
    hard.mine(ranker)
    assert [rows.tolist() for rows in hard.rows] == [[2, 10], [0, 1]]
    batch = batches([(0, 0)])
    texts = [" ".join(ranker.tokenizer.words[i] for i in row) for row in batch["answer_ids"].tolist()]
    assert texts[0] == "we a"
    assert texts[1] in ("we c", "we k")
    assert len(texts) == 2


def test_an_untrained_guide_leaves_out_what_is_like_a_right_answer_for_good(caplog: pytest.LogCaptureFixture) -> None:
    data = Dataset("d", LETTERS, [Question("1", "we", (0,)), Question("2", "shall we", (3, 4))])
    hard, ranker = HardNegatives(data), tasting(data, a=2, b=1.95, c=1.8, d=1.6, e=1.0)
    before = [rows.tolist() for rows in hard.rows]
    hard.guide(ranker)
    assert [rows.tolist() for rows in hard.rows] == before  # this model has no vectors of whole texts
    with (
        pytest.MonkeyPatch.context() as patch,
        caplog.at_level(logging.INFO, logger="ap_ranker"),
    ):
        # Its vector of a question is 1, that of an answer its worth.
        patch.setattr(Taste, "text_vectors", lambda self, states: states.per_text["worth"])
        patch.setattr(Taste, "encode_questions", lambda self, batch: States(batch.mask, per_text={"worth": ONE(batch)}))
        ranker = tasting(data, a=2, b=1.95, c=1.8, d=1.6, e=1.0)
        hard.guide(ranker)
    # Question 1: b scores above 0.95 times a. Question 2: so do a, b and c, of its better right answer d.
    assert [rows.tolist() for rows in hard.rows] == [list(range(2, 12)), list(range(5, 12))]
    assert not absent("BM25 … guide … 8.5 … 0 of 2 … 4 scored", caplog.text)
    like(ranker, a=1, d=1, b=50)
    hard.mine(ranker)
    assert all(1 not in rows for rows in hard.rows)


def ONE(batch: TokenBatch) -> Tensor:  # noqa: N802
    return torch.ones(len(batch.ids), 1)


def test_many_questions_are_scored_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    data = Dataset("d", LETTERS, [Question(str(i), f"we {ABC[i]}", (i,)) for i in range(12)])
    ranker = tasting(data, **{letter: float(place) for place, letter in enumerate(ABC)})
    whole, parts = HardNegatives(data), HardNegatives(data)
    whole.mine(ranker)
    monkeypatch.setattr(module, "QUESTIONS_AT_ONCE", 5)
    parts.mine(ranker)
    assert [rows.tolist() for rows in parts.rows] == [rows.tolist() for rows in whole.rows]
    assert [sorted(rows.tolist()) for rows in whole.rows] == [list(range(right)) for right in range(12)]


@settings(deadline=None)
@given(datasets(), st.booleans(), st.sampled_from(["random", "bm25", "model"]), st.integers(1, 6), st.randoms())
def test_no_right_answer_is_ever_a_negative(
    data: Dataset, own_candidates: bool, source: str, negatives: int, random: object
) -> None:
    ranker = tasting(data)
    assert isinstance(ranker.model, Taste)
    ranker.model.worth.data = torch.randn(len(ranker.model.worth), generator=torch.Generator().manual_seed(negatives))
    hard = None if source == "random" else HardNegatives(data)
    if hard is not None and source == "model":
        hard.mine(ranker)
    arguments = {"negatives": negatives, "own_candidates": own_candidates, "seed": 1, "hard": hard}
    batches = Batches(data, ranker.tokenizer, **arguments)  # type: ignore[arg-type]
    pairs = batches.pairs
    random.shuffle(pairs)  # type: ignore[attr-defined]
    batch = batches(pairs)
    texts = [[ranker.tokenizer.words[i] for i in row if i] for row in batch["answer_ids"].tolist()]
    tokens = [[ranker.tokenizer.words[i] for i in ids] for ids in ranker.tokenize([a.text for a in data.answers])]
    for (number, answer), target, labels in zip(pairs, batch["target"].tolist(), batch["labels"].tolist(), strict=True):
        question = data.questions[number]
        assert texts[target] == tokens[answer]
        assert labels[target] == POSITIVE
        right = {row for row, _ in enumerate(tokens) if row in naive_not_wrong(data, question)}
        for text, label in zip(texts, labels, strict=True):
            if label == NEGATIVE:
                assert all(text != tokens[row] for row in right)
        if hard is not None:
            for row in hard.rows[number]:
                assert row not in right
                assert not any(near(data.answers[row].text, data.answers[i].text) for i in question.positives)


def test_hard_ones_fill_what_judged_ones_leave() -> None:
    questions = [Question("1", "we", (0,), (0, 1, 2)), Question("2", "we", (3,), (3,))]
    data = Dataset("d", LETTERS, questions, judged=True)
    hard = HardNegatives(data)
    assert [set(rows.tolist()) for rows in hard.rows] == [{*range(4, 12)}, {1, 2, *range(4, 12)}]
    tokenizer = tasting(data).tokenizer
    for own_candidates in (True, False):
        batches = Batches(data, tokenizer, negatives=5, own_candidates=own_candidates, seed=1, hard=hard)
        names = {tokenizer.words[int(row[1])] for row in batches([(0, 0)])["answer_ids"]}
        assert {"a", "b", "c"} < names
        assert len(names) == 1 + 2 + 3
        assert "d" not in names  # right for the same question, asked again
    few = Batches(data, tokenizer, negatives=2, own_candidates=False, seed=1, hard=hard)([(0, 0)])
    assert {tokenizer.words[int(row[1])] for row in few["answer_ids"]} == {"a", "b", "c"}


def test_drawn_ones_fill_what_hard_ones_leave() -> None:
    answers = [*LETTERS, Answer("1", "you there"), Answer("2", "you here"), Answer("3", "you")]
    data = Dataset("d", answers, [Question("1", "you", (14,))])
    tokenizer = tasting(data).tokenizer
    for seed in range(20):
        batches = Batches(data, tokenizer, negatives=5, own_candidates=True, seed=seed, hard=HardNegatives(data))
        batch = batches([(0, 14)])
        texts = [[tokenizer.words[i] for i in row if i] for row in batch["answer_ids"].tolist()]
        assert texts[0] == ["you"]
        assert sorted(texts[1:3]) == [["you", "here"], ["you", "there"]]
        assert 3 <= len(texts) <= 1 + 5  # a drawn one may be there already
        assert batch["labels"].tolist() == [[POSITIVE] + [NEGATIVE] * (len(texts) - 1)]


def test_near_copies_are_no_negatives_for_others_sake() -> None:
    """The near-copy of the first question's right answer is the second's right answer, and shares its batch."""
    texts = ["a b c d e f g h i j", "a b c d e f g h i", "x y"]
    data = Dataset(
        "d",
        [Answer(str(i), text) for i, text in enumerate(texts)],
        [Question("1", "a", (0,)), Question("2", "k", (1,)), Question("3", "x", (2,))],
    )
    hard = HardNegatives(data)
    batch = Batches(data, tasting(data).tokenizer, negatives=1, own_candidates=False, seed=1, hard=hard)
    assert batch([(0, 0), (1, 1), (2, 2)])["labels"][0].tolist() == [POSITIVE, -1, NEGATIVE]
