from __future__ import annotations

import pytest
import snowballstemmer
from conftest import ROOT, imported
from refusals import refused

from ap_ranker.data.dataset import Answer, Dataset, Question

with imported(ROOT / "examples" / "languages" / "stemmer.py") as module:
    bm25_recall = module.bm25_recall

ANSWERS = [Answer(str(i), text) for i, text in enumerate(["a parcel", "parcel parcel", "parcels", "no", "refunds"])]


def data(*questions: Question) -> Dataset:
    return Dataset("d", ANSWERS, questions)


def test_what_is_found_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of "parcel", the shortest text with the most of it comes first: 1, 0, and with a stemmer 1, 2, 0."""
    monkeypatch.setattr(module, "DEPTHS", (1, 2, 3))
    questions = [Question(name, "parcel", (row,)) for name, row in (("a", 0), ("b", 1), ("c", 2), ("d", 3))]
    assert bm25_recall(data(*questions)) == {1: 1 / 4, 2: 2 / 4, 3: 2 / 4}
    assert snowballstemmer.stemmer("english").stemWord("parcels") == "parcel"
    assert bm25_recall(data(*questions), "english") == {1: 1 / 4, 2: 2 / 4, 3: 3 / 4}


def test_one_right_answer_of_several_is_enough_and_pools_do_not_count() -> None:
    found = Question("found", "refunds", (0, 4), (0, 1))
    assert bm25_recall(data(found, Question("none", "parcel", ()))) == {10: 1.0, 100: 1.0}
    assert bm25_recall(data(found, Question("missed", "refund", (4,)))) == {10: 0.5, 100: 0.5}


def test_a_text_that_shares_no_word_is_not_found_though_there_are_few() -> None:
    assert bm25_recall(data(Question("1", "unknown", (0,)))) == {10: 0.0, 100: 0.0}


def test_nothing_to_measure() -> None:
    with refused("right … 1"):
        bm25_recall(data(Question("1", "parcel", ())))
    with refused("language … klingon"):
        bm25_recall(data(Question("1", "parcel", (0,))), "klingon")


@pytest.mark.parametrize("place", range(4))
def test_ties_at_the_last_place_count_at_their_share(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DEPTHS", (1, 3, 4))
    answers = [Answer(str(i), "the same parcel") for i in range(4)]
    found = bm25_recall(Dataset("d", answers, [Question("1", "parcel", (place,))]))
    assert found == pytest.approx({1: 1 / 4, 3: 3 / 4, 4: 1.0})
