from __future__ import annotations

from collections import Counter
from itertools import groupby

import torch
from hypothesis import given
from hypothesis import strategies as st

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.text.tokenizer import WordTokenizer
from ap_ranker.training.batches import (
    JUDGED_NEGATIVES,
    QUESTIONS_OF_ANSWER,
    Batches,
    EachEpoch,
    answer_groups,
    length_buckets,
)
from ap_ranker.training.objectives import IGNORE, NEGATIVE, POSITIVE

WORDS = [f"w{i}" for i in range(40)]
ANSWERS = [Answer(str(i), word) for i, word in enumerate(WORDS[:19])] + [Answer("copy", WORDS[0])]
QUESTIONS = [Question("1", "a b", (0, 3)), Question("2", "c", (5,)), Question("3", "d", (7,))]
TOKENIZER = WordTokenizer.build([*WORDS, "a b c d"], max_tokens=9)


def answers_of(batch: dict[str, torch.Tensor]) -> list[str]:
    return [TOKENIZER.words[int(row[0])] for row in batch["answer_ids"]]


def test_pairs_are_all_right_answers() -> None:
    batches = Batches(Dataset("d", ANSWERS, QUESTIONS), TOKENIZER, negatives=0, own_candidates=False, seed=1)
    assert batches.pairs == [(0, 0), (0, 3), (1, 5), (2, 7)]


def test_in_batch() -> None:
    batch = Batches(Dataset("d", ANSWERS, QUESTIONS), TOKENIZER, negatives=0, own_candidates=False, seed=1)(
        [(0, 0), (1, 5), (0, 3)]
    )
    assert answers_of(batch) == ["w0", "w5", "w3"]
    P, N = POSITIVE, NEGATIVE  # noqa: N806
    assert batch["labels"].tolist() == [[P, N, P], [N, P, N], [P, N, P]]
    assert batch["target"].tolist() == [0, 1, 2]
    assert batch["question_mask"].sum(dim=1).tolist() == [2, 1]  # each question is read once
    assert batch["question_rows"].tolist() == [0, 1, 0]


def test_drawn_answers_and_false_negatives() -> None:
    batches = Batches(Dataset("d", ANSWERS, QUESTIONS), TOKENIZER, negatives=20, own_candidates=False, seed=1)
    batch = batches([(0, 0), (1, 5)])
    assert len(batch["answer_ids"]) == 20  # all of them, each once
    column = {answer: i for i, answer in enumerate(answers_of(batch)[:2])}
    assert column == {"w0": 0, "w5": 1}
    first = batch["labels"][0].tolist()
    # right: answers 0 and 3; the copy of answer 0 under another id counts neither way
    assert sorted(first) == [IGNORE] + [NEGATIVE] * 17 + [POSITIVE] * 2
    assert sorted(batch["labels"][1].tolist()) == [NEGATIVE] * 19 + [POSITIVE]


def test_judged_negatives_join_the_batch() -> None:
    question = Question("1", "a", (0,), tuple(range(12)))
    data = Dataset("d", ANSWERS, [question], judged=True)
    batch = Batches(data, TOKENIZER, negatives=0, own_candidates=False, seed=1)([(0, 0)])
    assert len(batch["answer_ids"]) == 1 + JUDGED_NEGATIVES
    assert set(answers_of(batch)) <= set(WORDS[:12])
    pool = Dataset("d", ANSWERS, [question], judged=False)  # a pool's other answers were never judged
    assert len(Batches(pool, TOKENIZER, negatives=0, own_candidates=False, seed=1)([(0, 0)])["answer_ids"]) == 1


def test_own_candidates_are_ignored_by_the_others() -> None:
    questions = [Question("1", "a", (0, 3), tuple(range(12))), Question("2", "c", (5,), (5, 1, 13))]
    data = Dataset("d", ANSWERS, questions, judged=True)
    batches = Batches(data, TOKENIZER, negatives=4, own_candidates=True, seed=1)
    assert batches.pairs == [(0, 0), (1, 5)]
    batch = batches([(0, 0), (1, 5)])
    names = answers_of(batch)
    judged = [
        {name for name, label in zip(names, row, strict=True) if label != IGNORE} for row in batch["labels"].tolist()
    ]
    assert {"w0", "w3"} < judged[0] <= set(WORDS[:12])
    assert len(judged[0]) == 2 + 4
    assert judged[1] == {"w5", "w1", "w13"}
    right = [
        {name for name, label in zip(names, row, strict=True) if label == POSITIVE} for row in batch["labels"].tolist()
    ]
    assert right == [{"w0", "w3"}, {"w5"}]


def test_the_papers_negatives_are_a_pairs_own() -> None:
    """Attentive Pooling Networks, section 2.3: 50 of the entire answer set for each question, here 6, in each pair."""
    questions = [Question("1", "a", (0, 3), tuple(range(12))), Question("2", "c", (5,), (5, 1, 13))]
    data = Dataset("d", ANSWERS, questions, judged=True)
    batches = Batches(data, TOKENIZER, negatives=6, own_candidates=False, own_negatives=True, seed=1)
    assert batches.pairs == [(0, 0), (0, 3), (1, 5)]
    drawn = []
    for partner in (0, 3):
        batch = batches([(0, partner), (1, 5)])
        wrong = [
            {name for name, label in zip(answers_of(batch), row, strict=True) if label == NEGATIVE}
            for row in batch["labels"].tolist()
        ]
        assert all(4 <= len(each) <= 6 for each in wrong)  # of 20, two or three of which are right or a copy
        assert not wrong[0] & {"w0", "w3"}
        assert "w5" not in wrong[1]
        assert answers_of(batch)[int(batch["target"][0])] == f"w{partner}"
        drawn.append(wrong)
    assert drawn[0][0] != drawn[0][1]  # not shared
    seen = set().union(*(each for pair in drawn for each in pair))
    assert not seen <= set(WORDS[:12]) | {"w13"}  # also those that were never judged


def test_without_judged_answers_own_candidates_are_drawn() -> None:
    data = Dataset("d", ANSWERS, QUESTIONS)
    batch = Batches(data, TOKENIZER, negatives=6, own_candidates=True, seed=1)([(1, 5), (2, 7)])
    for row, right in zip(batch["labels"].tolist(), ("w5", "w7"), strict=True):
        assert answers_of(batch)[row.index(POSITIVE)] == right
        assert row.count(POSITIVE) == 1
        assert 5 <= row.count(NEGATIVE) <= 6  # the right answer may be among the drawn ones


def test_classes_of_graded_candidates() -> None:
    question = Question("1", "a", (2,), (0, 1, 2), (0, 1, 2))
    data = Dataset("d", ANSWERS, [question], judged=True, classes=("Bad", "PotentiallyUseful", "Good"))
    batch = Batches(data, TOKENIZER, negatives=9, own_candidates=True, seed=1)([(0, 2)])
    assert dict(zip(answers_of(batch), batch["labels"][0].tolist(), strict=True)) == {"w2": 2, "w0": 0, "w1": 1}


def test_copies_in_another_spelling_and_the_right_answers_of_twins_are_ignored() -> None:
    answers = [Answer(str(i), text) for i, text in enumerate(["w0  w1", "W0 w1", "w2", "w3"])]
    questions = [Question("1", "a b", (0,)), Question("2", " A  b", (2,))]
    batches = Batches(Dataset("d", answers, questions), TOKENIZER, negatives=4, own_candidates=False, seed=1)
    batch = batches([(0, 0), (1, 2)])
    found = dict(zip(answers_of(batch), batch["labels"].T.tolist(), strict=False))
    assert sorted(batch["labels"].T.tolist()) == sorted(
        [[POSITIVE, IGNORE], [IGNORE, IGNORE], [IGNORE, POSITIVE], [NEGATIVE, NEGATIVE]]
    )
    assert found["w3"] == [NEGATIVE, NEGATIVE]


def test_a_batch_depends_on_its_pairs_the_seed_and_the_epoch_only() -> None:
    data = Dataset("d", ANSWERS, QUESTIONS)
    pairs = [(0, 0), (2, 7)]
    first, again, other = (Batches(data, TOKENIZER, negatives=5, own_candidates=False, seed=seed) for seed in (1, 1, 2))
    again([(1, 5)])
    assert torch.equal(first(pairs)["answer_ids"], again(pairs)["answer_ids"])
    assert not torch.equal(first(pairs)["answer_ids"], other(pairs)["answer_ids"])
    again.set_epoch(1)
    assert not torch.equal(first(pairs)["answer_ids"], again(pairs)["answer_ids"]), "a batch of one has new ones, too"
    first.set_epoch(1)
    assert torch.equal(first(pairs)["answer_ids"], again(pairs)["answer_ids"])


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 300)), min_size=1, max_size=400),
    st.integers(1, 9),
    st.integers(0, 3),
)
def test_an_epoch_visits_every_pair_once(lengths: list[tuple[int, int]], batch_size: int, epoch: int) -> None:
    sampler = EachEpoch(length_buckets(lengths, 10_000, batch_size), len(lengths), seed=5)
    sampler.set_epoch(epoch)
    order = list(sampler)
    assert sorted(order) == list(range(len(lengths)))
    assert order == list(sampler)
    assert len(sampler) == len(lengths)


@given(st.lists(st.integers(0, 12), min_size=1, max_size=400), st.integers(0, 3))
def test_questions_of_an_answer_stand_together(answers: list[int], epoch: int) -> None:
    order = EachEpoch(answer_groups(answers), len(answers), seed=5)
    order.set_epoch(epoch)
    rows = list(order)
    assert sorted(rows) == list(range(len(answers)))
    assert rows == list(order)
    assert len(order) == len(answers)
    runs = [len(list(run)) for _, run in groupby(answers[row] for row in rows)]
    n_groups = sum(-(-count // QUESTIONS_OF_ANSWER) for count in Counter(answers).values())
    assert len(runs) <= n_groups  # two groups of an answer may be neighbours
    assert min(runs) >= min(*Counter(answers).values(), QUESTIONS_OF_ANSWER // 2)


def test_an_answer_is_hardly_ever_twice_in_a_batch() -> None:
    answers = [i % 100 for i in range(1000)]
    rows = list(EachEpoch(answer_groups(answers), 1000, seed=5))
    batches = [rows[k : k + 128] for k in range(0, 1000, 128)]
    distinct = [len({answers[row] for row in batch}) for batch in batches[:-1]]
    groups = -(-128 // 3.33)  # ten questions make groups of three and four
    random = 100 * (1 - 0.99**groups)
    assert sum(distinct) / len(distinct) > (random + groups) / 2


def test_each_epoch_has_other_groups() -> None:
    order = EachEpoch(answer_groups([i // 8 for i in range(800)]), 800, seed=5)
    first = list(order)
    order.set_epoch(1)
    second = list(order)

    def groups(rows: list[int]) -> set[frozenset[int]]:
        return {frozenset(rows[k : k + 4]) for k in range(0, 800, 4)}

    assert len(groups(first) & groups(second)) < 20  # 8 questions form 35 pairs of groups
    assert [row // 8 for row in first] != [row // 8 for row in second]


def test_batches_have_similar_lengths_in_a_new_order_each_epoch() -> None:
    answers, questions = [(i * 37) % 200 for i in range(4800)], [(i * 17) % 30 for i in range(4800)]
    sampler = EachEpoch(length_buckets(list(zip(questions, answers, strict=True)), 4800, 20), 4800, seed=5)
    first = list(sampler)
    sampler.set_epoch(1)
    assert first != list(sampler)

    def spread(lengths: list[int]) -> float:
        parts = [[lengths[i] for i in first[k : k + 20]] for k in range(0, 4800, 20)]
        return sum(max(part) - min(part) for part in parts) / len(parts)

    assert spread(answers) < 60  # a random batch of 20 spreads over about 180
    assert spread(questions) < 10  # and here over about 27
    means = [sum(answers[i] for i in first[k : k + 20]) for k in range(0, 4800, 20)]
    assert means != sorted(means)


def test_few_answers_are_not_sorted() -> None:
    """Ten wordings of each of twenty answers: a sorted batch would hold the wordings of one answer only."""
    lengths = [i // 10 for i in range(200)]
    order = list(EachEpoch(length_buckets([(1, length) for length in lengths], 20, 10), 200, seed=5))
    batches = [{lengths[i] for i in order[k : k + 10]} for k in range(0, 200, 10)]
    assert sum(map(len, batches)) / len(batches) > 6
