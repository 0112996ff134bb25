"""What the owner's page proposes and warns of: other entries for what did not help, and what a wording would change."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

import pytest
from waiting import wait_until

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from conftest import TEXTS, reconfigure, write_checkpoint, write_faq
from searches import write_pipeline
from sqlalchemy import insert, update
from starlette.testclient import TestClient

from ap_ranker.data.faq import Entry, Match
from ap_ranker.ranking.outcome import Outcome
from ap_ranker.ranking.rule import Calibration
from ap_ranker.search import watch_search
from ap_ranker.search.setup import set_up
from ap_ranker.search.watch_search import SearchWatcher
from ap_ranker.text.question_keys import is_among
from ap_ranker.web.app import build_app
from ap_ranker.web.changes import Action, Change, apply_changes, insert_change, owners_changes, read_changes
from ap_ranker.web.database import Database, decisions, judgements, open_database, questions
from ap_ranker.web.gaps import GapFinder
from ap_ranker.web.grouping import Unanswered
from ap_ranker.web.judgements import Judgements, key_of_question
from ap_ranker.web.new_questions import new_questions
from ap_ranker.web.owner.current_entries import CurrentEntries, EntryFacts, KnownKeys
from ap_ranker.web.owner.overview import NextStep, next_step
from ap_ranker.web.owner.routes import OwnersPage
from ap_ranker.web.owner.service import OwnerService
from ap_ranker.web.owner.suggested_title import suggested_title
from ap_ranker.web.question_log import clean_question
from ap_ranker.web.served_search import promise_of
from ap_ranker.web.traces import delete_sentence, delete_traces
from ap_ranker.web.usage import WEEKS, Period, weeks_of
from ap_ranker.web.visitors import DAY

from .visiting import log_unanswered

KEY = "7c1f6a02d94be853b7a1"
SENTENCE = "xylo okapi quokka battery parcel"
FIRST = {"answer": f"{TEXTS[0]}\n{TEXTS[1]}", "stored_question": TEXTS[0]}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a model that compares known wordings with a question, so that one wording moves other questions."""
    return write_checkpoint("ap-transformer", tmp_path_factory.mktemp("wordings") / "tiny", wording_weight=100.0)


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return open_database(tmp_path / "faq.db")


@pytest.fixture
def owner(
    tmp_path: Path, checkpoint: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> Iterator[TestClient]:
    """Whoever has the key, at a server that follows what is changed."""
    monkeypatch.setattr(watch_search, "PAUSE", 0.05)
    monkeypatch.setattr(watch_search, "STILL", 0.05)
    write_faq(tmp_path / "faq.csv")
    pipeline = write_pipeline(tmp_path, checkpoint)
    with set_up(tmp_path / "faq.csv", pipeline=pipeline, overlay=owners_changes(database.place)) as setup:
        search, documents = setup.load()
        setup.warm_up(search, documents)
        following = SearchWatcher(search, setup)
        service = OwnerService(search, setup.documents, Match.both, database, logged=True)
        app = build_app(search, Judgements(database), owner=OwnersPage(KEY, service))
        headers = {"Authorization": f"Bearer {KEY}"}
        yield TestClient(app, "http://localhost", raise_server_exceptions=False, headers=headers)
        following.close()


def post(client: TestClient, name: str, **body: Any) -> Any:
    response = client.post(f"/owner/api/{name}", json=body)
    assert response.status_code == 200, response.text
    return response.json()


def conflict(client: TestClient, name: str, **body: Any) -> str:
    """The sentence of a request that does not fit things as they are."""
    response = client.post(f"/owner/api/{name}", json=body)
    assert response.status_code == 409, response.text
    return str(response.json()["error"])


def judge(database: Database, question: str = SENTENCE, networks: int = 1, **fields: Any) -> None:
    for number in range(networks):
        Judgements(database).keep(**FIRST | {"network": f"n{number}", "helped": False} | fields, question=question)


def decision(row: dict[str, Any], entry: dict[str, Any]) -> dict[str, str]:
    keys = {name: row[name] for name in ("question_key", "answer_key")}
    chosen = {"entry": entry["key"], "version": entry["version"]}
    return {"state": "accepted", "wording": row["question"], **keys, **chosen}


def entry_with(client: TestClient, words: str) -> dict[str, Any]:
    entry: dict[str, Any]
    [entry] = post(client, "entries", words=words)["entries"]
    return entry


def search_for(client: TestClient, question: str) -> dict[str, Any]:
    found: dict[str, Any] = client.post("/api/search", json={"question": question}).json()
    return found


def gets(client: TestClient, question: str) -> tuple[str, str]:
    """The outcome of a question, and the stored question of its first entry."""
    found = search_for(client, question)
    first = found["answers"][:1]
    return found["outcome"], first[0]["question"] if first else ""


def test_an_entry_that_did_not_help_is_never_offered(owner: TestClient, database: Database) -> None:
    judge(database, networks=2)
    judge(database, networks=3, answer=f"{TEXTS[2]}\n{TEXTS[3]}", stored_question=TEXTS[2], helped=True)
    refused, other = entry_with(owner, TEXTS[0]), entry_with(owner, TEXTS[2])
    helped, row = post(owner, "feedback")
    assert (helped["helps"], helped["key"]) == (True, other["key"])
    assert (row["helps"], row["key"], row["unhelpful"]) == (False, "", [refused["key"]])

    found = post(owner, "choices", questions=[SENTENCE])
    keys = [entry["key"] for entry in found["entries"]]
    assert keys
    assert refused["key"] not in keys
    assert found["unhelpful"] == [refused["key"]]
    others = [entry["key"] for entry in post(owner, "choices", questions=[SENTENCE], left_out=keys[:1])["entries"]]
    assert not {keys[0], refused["key"]} & {*others}, "of a question whose key the page alone knows"

    for name, body in (
        ("decide", decision(row, refused)),
        ("change", {"action": "add wordings", "entry": refused["key"], "wordings": [SENTENCE]}),
    ):
        assert conflict(owner, name, **body).startswith("Visitors say that this entry did not help them.")
    assert read_changes(database) == []

    post(owner, "decide", **decision(row, other))

    [made] = post(owner, "history")
    assert (made["of"], made["wordings"]) == (TEXTS[2], [SENTENCE])
    wait_until(lambda: gets(owner, SENTENCE)[1] == TEXTS[2])
    assert [row["helps"] for row in post(owner, "feedback")] == [True], "it is answered now; what helped is not decided"


def test_an_answer_that_was_mended_may_be_offered(owner: TestClient, database: Database) -> None:
    judge(database)
    entry = entry_with(owner, TEXTS[0])
    fields = {"entry": entry["key"], "version": entry["version"], "question": TEXTS[0], "answer": "A better one."}
    post(owner, "change", action="change entry", **fields)
    [row] = post(owner, "feedback")
    post(owner, "decide", **decision(row, entry_with(owner, "better")))


def test_a_stale_page_accepts_nothing(owner: TestClient, database: Database) -> None:
    judge(database, helped=True)
    [row] = post(owner, "feedback")
    entry = row["judged_entry"]
    assert entry["key"] == row["key"]
    fields = {"entry": entry["key"], "version": entry["version"]}
    changed = post(owner, "change", action="change entry", **fields, question=TEXTS[0], answer="Another answer.")
    for name, body in (
        ("decide", decision(row, entry)),
        ("preview", {**fields, "wordings": [SENTENCE]}),
        ("change", {**fields, "action": "add wordings", "wordings": [SENTENCE]}),
    ):
        assert conflict(owner, name, **body).startswith("This entry has been changed since.")
    post(owner, "undo", change=changed["id"])
    post(owner, "change", action="delete entry", **fields)
    for name, body in (("decide", decision(row, entry)), ("preview", {**fields, "wordings": [SENTENCE]})):
        assert conflict(owner, name, **body).startswith("This entry is not in the FAQ any more.")
    assert post(owner, "feedback")[0]["key"] == ""


def test_a_helpful_entry_that_visitors_judge_otherwise_meanwhile(owner: TestClient, database: Database) -> None:
    judge(database, helped=True)
    [row] = post(owner, "feedback")
    judge(database, networks=3)
    assert conflict(owner, "decide", **decision(row, row["judged_entry"])).startswith("Visitors say")


def test_a_preview_says_what_comes(owner: TestClient, database: Database) -> None:
    """As the search does once it is saved, for the wording and each logged question; until then nothing changes."""
    like_it = ["gnu yak emu battery parcel", "zebra ibex puma battery parcel"]  # to the model, which knows no animals
    asked = [*like_it, "where is it", "rent okapi bikes", TEXTS[4]]
    log_unanswered(database, *asked)
    entry = entry_with(owner, TEXTS[4])  # BM25 finds it, by the battery, and "Where is my parcel?" comes first
    before = {question: gets(owner, question) for question in [SENTENCE, *asked]}

    shown = post(owner, "preview", entry=entry["key"], version=entry["version"], wordings=[SENTENCE])

    assert shown["is_tried"]
    assert [row["is_new"] for row in shown["changed"]] == [True, False, False]
    assert {question: gets(owner, question) for question in before} == before
    assert read_changes(database) == []
    post(owner, "change", action="add wordings", entry=entry["key"], version=entry["version"], wordings=[SENTENCE])
    wait_until(lambda: gets(owner, SENTENCE) == (Outcome.ANSWER, TEXTS[4]))
    after = {question: gets(owner, question) for question in before}
    expected = {question for question in asked if before[question] != after[question]} | {SENTENCE}
    assert expected == {SENTENCE, *like_it}
    rows = {row["question"]: row for row in shown["changed"]}
    assert rows.keys() == expected
    for question, row in rows.items():
        assert row["is_new"] == (question == SENTENCE)
        assert (row["now"]["outcome"], row["now"]["entry"]) == before[question], question
        assert (row["then"]["outcome"], row["then"]["entry"]) == after[question], question


def test_a_preview_names_an_entry_that_answers_already(owner: TestClient) -> None:
    first, other = entry_with(owner, TEXTS[0]), entry_with(owner, TEXTS[2])
    known = TEXTS[0].upper()
    assert gets(owner, known) == ("answer", TEXTS[0])
    shown = post(owner, "preview", entry=other["key"], wordings=[known, SENTENCE])
    assert shown["elsewhere"] == [{"question": known, "entry": TEXTS[0]}]
    assert post(owner, "preview", entry=first["key"], wordings=[known])["elsewhere"] == []


def test_several_are_rejected_at_once_and_undone(owner: TestClient, database: Database) -> None:
    for sentence in ("one sentence", "another sentence", "a third"):
        judge(database, sentence)
    rows = post(owner, "feedback")
    keys = ("question_key", "answer_key")
    sentences = [{"wording": row["question"], **{name: row[name] for name in keys}} for row in rows]

    assert post(owner, "reject", sentences=sentences[:2]) == {"rejected": 2}
    assert [row["question"] for row in post(owner, "feedback")] == [rows[2]["question"]]
    assert post(owner, "reject", sentences=sentences) == {"rejected": 1}, "the others are decided already"
    assert conflict(owner, "reject", sentences=sentences).startswith("This sentence is decided already.")
    history = post(owner, "history")
    assert [row["action"] for row in history] == ["reject wordings"] * 3
    assert {row["wordings"][0] for row in history} == {"one sentence", "another sentence", "a third"}

    undone = [{name: row[name] for name in keys} for row in sentences[:2]]
    assert post(owner, "undo_rejection", sentences=undone) == {"undone": 2}
    assert post(owner, "feedback") == rows[:2]
    assert conflict(owner, "undo_rejection", sentences=undone).startswith("This is undone already.")
    for name in ("reject", "undo_rejection"):
        assert owner.post(f"/owner/api/{name}", json={"sentences": []}).status_code == 422


def gaps_of(client: TestClient) -> list[dict[str, Any]]:
    """The groups once all questions are grouped."""
    end = time.monotonic() + 20
    while (found := post(client, "gaps"))["grouping"]:
        assert time.monotonic() < end
    gaps: list[dict[str, Any]] = found["gaps"]
    return gaps


def lists_with(client: TestClient, question: str) -> set[str]:
    """The lists of the page that show a question, and "next" if it is the next step."""
    shown = {
        "new": [row["question"] for row in post(client, "new")["questions"]],
        "feedback": [row["question"] for row in post(client, "feedback")],
        "gaps": [one["text"] for gap in gaps_of(client) for one in gap["questions"]],
    }
    lists = {name for name, texts in shown.items() if question in texts}
    step = post(client, "overview")["next"]
    return lists | {"next"} if step and step["text"] == question else lists


def test_what_is_not_for_the_faq_leaves_all_lists_until_undone(owner: TestClient, database: Database) -> None:
    """However it is written; the search goes on as before."""
    log_unanswered(database, SENTENCE, "something else")
    judge(database, networks=4)
    found = gets(owner, SENTENCE)
    everywhere = {"new", "feedback", "gaps", "next"}
    assert lists_with(owner, SENTENCE) == everywhere
    count = post(owner, "new")["count"]

    made = post(owner, "dismiss", questions=[{"text": f"{SENTENCE.upper()}?"}])

    assert lists_with(owner, SENTENCE) == set()
    assert lists_with(owner, "something else") == {"new", "gaps", "next"}
    assert post(owner, "new")["count"] == count - 1
    assert gets(owner, SENTENCE) == found
    assert read_changes(database) == []
    [row] = post(owner, "history")
    assert (row["action"], row["wordings"]) == ("dismiss question", [f"{SENTENCE.upper()}?"])
    assert conflict(owner, "dismiss", questions=[{"text": SENTENCE}])
    post(owner, "undo_rejection", sentences=made["sentences"])
    assert lists_with(owner, SENTENCE) == everywhere
    assert post(owner, "history") == []


def test_several_are_dismissed_at_once_also_long_ones(owner: TestClient, database: Database) -> None:
    """A judgement has the whole of a question that the log has cut: both go."""
    long = "why is the okapi so slow " * 30
    judge(database, long)
    cut = clean_question(long)
    log_unanswered(database, cut, "xyzzy")
    [as_new] = post(owner, "dismiss", questions=[{"text": cut}])["sentences"][1:]
    assert lists_with(owner, cut) == set(), "also where the page knows the cut one alone"
    assert as_new["question_key"] == key_of_question(long)
    post(owner, "undo_rejection", sentences=[as_new, {**as_new, "question_key": key_of_question(cut)}])
    [row] = post(owner, "feedback")
    assert key_of_question(cut) != row["question_key"] == key_of_question(long)

    asked = [{"text": row["question"], "question_key": row["question_key"]}, {"text": "xyzzy"}]
    made = post(owner, "dismiss", questions=asked)

    assert lists_with(owner, cut) | lists_with(owner, "xyzzy") == set()
    post(owner, "undo_rejection", sentences=made["sentences"])
    assert lists_with(owner, cut) >= {"new", "feedback", "gaps"}
    assert lists_with(owner, "xyzzy") >= {"new", "gaps"}
    assert owner.post("/owner/api/dismiss", json={"questions": []}).status_code == 422


def test_a_dismissed_question_is_deleted_and_does_not_come_back(owner: TestClient, database: Database) -> None:
    judge(database)
    log_unanswered(database, "xyzzy")
    asked = [{"text": SENTENCE}, {"text": "xyzzy"}]
    post(owner, "dismiss", questions=asked)
    delete_sentence(database, SENTENCE)
    assert [row["wordings"] for row in post(owner, "history")] == [["xyzzy"]]
    delete_traces(database, sentence="Xyzzy?")
    assert post(owner, "history") == []
    assert conflict(owner, "dismiss", questions=asked), "a page that is stale brings nothing back"
    assert post(owner, "history") == []


def test_a_dismissed_question_is_accepted_by_no_stale_page(owner: TestClient, database: Database) -> None:
    judge(database, helped=True)
    [row] = post(owner, "feedback")
    post(owner, "dismiss", questions=[{"text": SENTENCE}])
    assert post(owner, "feedback") == []
    assert conflict(owner, "decide", **decision(row, row["judged_entry"])).startswith(
        "This sentence is decided already."
    )


def test_the_owner_overrules_visitors_for_the_entry_that_was_shown(owner: TestClient, database: Database) -> None:
    """It is its wording then, and what visitors said before leaves all lists; what others say later counts."""
    second = {"answer": f"{TEXTS[2]}\n{TEXTS[3]}", "stored_question": TEXTS[2]}
    judge(database, networks=2)
    judge(database, **second)
    entry, other = entry_with(owner, TEXTS[0]), entry_with(owner, TEXTS[2])
    [row, row_of_other] = post(owner, "feedback")
    assert row["judged_entry"]["key"] == entry["key"]
    assert lists_with(owner, SENTENCE) >= {"feedback", "gaps"}
    overruling = {"overrules": True}
    assert conflict(owner, "decide", **decision(row, entry)).startswith("Visitors say")
    assert conflict(owner, "decide", **decision(row, other), **overruling).startswith("Visitors say"), "not shown there"

    made = post(owner, "decide", **decision(row, entry), **overruling)

    wait_until(lambda: gets(owner, SENTENCE) == (Outcome.ANSWER, TEXTS[0]))
    assert lists_with(owner, SENTENCE) == set()
    offered = [candidate["key"] for candidate in post(owner, "choices", questions=[SENTENCE])["entries"]]
    assert entry["key"] not in offered
    post(owner, "undo", change=made["change"])
    assert post(owner, "feedback") == [row, row_of_other]
    assert lists_with(owner, SENTENCE) >= {"feedback", "gaps"}

    post(owner, "decide", **decision(row, entry), **overruling)
    with database.writing("decisions") as connection:
        connection.execute(update(decisions).values(time=decisions.c.time - 60))
    judge(database, network="later", visit="later")
    assert "gaps" in lists_with(owner, SENTENCE)


def test_an_entry_that_knows_the_question_and_is_right(owner: TestClient, database: Database) -> None:
    judge(database, TEXTS[0])
    [row] = post(owner, "feedback")
    assert (row["is_known"], row["knows"]) == (True, True)
    assert lists_with(owner, TEXTS[0]) >= {"feedback", "gaps"}
    keys = {name: row[name] for name in ("question_key", "answer_key")}
    post(owner, "reject", sentences=[{**keys, "wording": TEXTS[0]}])
    assert lists_with(owner, TEXTS[0]) == set()


def test_new_questions_are_counted_beyond_those_shown(owner: TestClient, database: Database) -> None:
    log_unanswered(database, *[f"xyzzy {number}" for number in range(53)], TEXTS[0])
    found = post(owner, "new")
    assert (found["count"], len(found["questions"])) == (53, 50)


def test_whoever_says_that_an_answer_did_not_help_has_asked_once(owner: TestClient, database: Database) -> None:
    log_unanswered(database, SENTENCE, SENTENCE)
    judge(database)
    judge(database, answer="Another answer", stored_question="Another")
    [gap] = gaps_of(owner)
    assert gap["asked"] == 2
    assert [row["asked"] for row in post(owner, "new")["questions"]] == [2]


@pytest.mark.parametrize(
    ("question", "title"),
    [
        ("where is my parcel", "Where is my parcel?"),
        ("wie lange dauert es", "Wie lange dauert es?"),
        ("öffnet ihr sonntags?", "Öffnet ihr sonntags?"),
        ("my bicycle is broken", "My bicycle is broken"),
        ("Can I pay by invoice.", "Can I pay by invoice."),
        ("", ""),
    ],
)
def test_a_title_is_the_question_as_one_writes_it(question: str, title: str) -> None:
    assert suggested_title(question) == title


def test_undoing_a_rejection_takes_back_nothing_that_was_accepted(owner: TestClient, database: Database) -> None:
    judge(database, helped=True)
    [row] = post(owner, "feedback")
    post(owner, "decide", **decision(row, row["judged_entry"]))
    keys = {name: row[name] for name in ("question_key", "answer_key")}
    assert conflict(owner, "undo_rejection", sentences=[keys])
    assert post(owner, "history")[0]["action"] == "add wordings"
    assert post(owner, "feedback") == []


def test_the_nearest_entry_of_a_gap_is_none_that_did_not_help(owner: TestClient, database: Database) -> None:
    entries = {entry["question"]: entry for entry in post(owner, "entries")["entries"]}
    _, first = gets(owner, SENTENCE)
    entry = entries[first]
    judge(database, answer=f"{first}\n{entry['answer']}", stored_question=first, networks=2)
    [gap] = gaps_of(owner)
    assert gap["unhelpful"] == [entry["key"]]
    assert gap["nearest_entry"]["key"] not in ("", entry["key"])


def test_of_a_group_no_question_may_have_been_refused_by_its_nearest_entry() -> None:
    class Search:
        version = None

        def answer(self, question: str) -> tuple[list[Any], Any]:
            from haystack import Document

            from ap_ranker.ranking.decision import Decision
            from ap_ranker.ranking.rule import Basis

            texts = ("First\nanswer", "second", "third")
            documents = [Document(id=text, content=text, score=0.9 - row / 10) for row, text in enumerate(texts)]
            return documents, Decision(Outcome.MAYBE, 0.9, Basis.QUESTIONS)

        def ranker(self) -> None:
            return None

    finder = GapFinder(Search())  # type: ignore[arg-type]  # all that it needs
    [[gap]] = finder.find([Unanswered("where is it")], [])
    assert (gap.first.entry, gap.first.probability) == ("First\nanswer", 0.9)
    [[gap]] = finder.find([Unanswered("where is it", "first answer")], [])
    assert (gap.first.entry, gap.first.score, gap.first.probability) == ("second", 0.8, None)
    assert not gap.is_near


def at(day: int, second: int = 0) -> int:
    return Period.of().last.toordinal() * DAY - 719_163 * DAY + day * DAY + second


def test_new_questions_are_those_of_a_naive_count(website: Database) -> None:
    random = Random(5)
    rows = []
    for number in range(400):
        text = f"question {random.randrange(60)}"
        score = random.choice([None, -0.2, 0.0, 0.3, 0.9, 1.0, 3.5])
        outcome = random.choice(["answer", "maybe", "none", "of a later version"])
        moment = at(0, -random.randrange(40 * DAY))
        rows.append({"time": moment, "question": text, "outcome": outcome, "score": score, "entry": f"e{number}"})
    with website.writing("questions") as connection:
        connection.execute(
            insert(questions), [row | {"question_key": key_of_question(row["question"])} for row in rows]
        )
    since = at(0, -20 * DAY)

    new = new_questions(website, since, most=15)

    doubts: dict[str, float] = {}
    known = [row for row in rows if row["outcome"] in [*Outcome]]
    for row in known:
        doubt = 1 - min(1.0, max(0.0, row["score"] or 0.0))
        doubts[row["question"]] = doubts.get(row["question"], 0.0) + doubt
    old = {row["question"] for row in known if row["time"] < since}
    fresh = {text: doubt for text, doubt in doubts.items() if text not in old}
    assert len(fresh) > 3
    assert {one.text for one in new} == {*sorted(fresh, key=fresh.__getitem__, reverse=True)[:15]}
    assert [one.doubt for one in new] == pytest.approx(sorted(fresh.values(), reverse=True)[:15])
    for one in new:
        own = [row for row in known if row["question"] == one.text]
        assert (one.asked, one.outcome, one.entry) == (len(own), own[-1]["outcome"], own[-1]["entry"])


def test_weeks_are_those_of_a_naive_count(website: Database) -> None:
    random = Random(6)
    asked = [(at(0, -random.randrange(100 * DAY)), random.randrange(30), random.choice([*Outcome])) for _ in range(900)]
    said = [(at(0, -random.randrange(100 * DAY)), random.randrange(40), random.random() < 0.7) for _ in range(500)]
    with website.writing("questions", "judgements") as connection:
        for moment, number, outcome in asked:
            row = {"time": moment, "question": f"q{number}", "question_key": str(number), "outcome": outcome}
            connection.execute(insert(questions).values(**row, entry=""))
        given = {"answer": "a", "answer_key": "a", "stored_question": "", "comment": "", "network": "n"}
        for row, (moment, number, helped) in enumerate(said):
            key = {"question": f"q{number}", "question_key": str(number), "visit": str(row)}
            connection.execute(insert(judgements).values(**given, **key, time=moment, helped=helped))

    weeks = weeks_of(website)

    assert len(weeks) == WEEKS
    answered = {number for _, number, outcome in asked if outcome is Outcome.ANSWER}
    for back, week in enumerate(reversed(weeks)):
        begin, end = at(-7 * back - 6), at(1 - 7 * back)
        own = [outcome for moment, _, outcome in asked if begin <= moment < end]
        votes = [helped for moment, number, helped in said if begin <= moment < end and number in answered]
        counts = (len(own), own.count(Outcome.ANSWER), len(votes), sum(votes))
        assert tuple(week[name] for name in ("questions", "answered", "judged", "helped")) == counts
        assert (week["last"] - week["first"]).days == 6


def test_without_a_log_all_judgements_count(database: Database) -> None:
    judge(database, networks=3, helped=True)
    last = weeks_of(database)[-1]
    assert (last["questions"], last["judged"], last["helped"]) == (0, 3, 3)


def test_the_most_useful_step() -> None:
    def unhelpful(networks: int) -> dict[str, Any]:
        return {"question": f"u{networks}", "networks": networks}

    def gap(asked: int) -> dict[str, Any]:
        return {"questions": [{"text": f"g{asked}"}], "asked": asked}

    def wording(networks: int, key: str = "k") -> dict[str, Any]:
        return {"question": f"w{networks}", "networks": networks, "key": key}

    new = [{"question": "n", "doubt": 2.5}]
    assert next_step([], [], [], []) is None
    assert next_step([], [], [], [wording(9, "")]) is None, "nobody can accept it"
    assert next_step([unhelpful(2)], [gap(2)], [], []) == NextStep("unhelpful", "u2", 2)
    assert next_step([unhelpful(2)], [gap(2), gap(3)], new, [wording(3)]) == NextStep("gaps", "g3", 3)
    assert next_step([unhelpful(2)], [], new, [wording(2)]) == NextStep("new", "n", 2.5)
    assert next_step([], [], new, [wording(4)]) == NextStep("wordings", "w4", 4)


def test_what_has_happened_since_the_last_visit(owner: TestClient, database: Database) -> None:
    judge(database, networks=2, comment="in vain")
    first = post(owner, "overview")
    none = dict.fromkeys(("questions", "helped", "unhelpful", "comments", "changes"), 0)
    assert first["happened"] == none | {"unhelpful": 2, "comments": 2}
    assert first["since"] == pytest.approx(time.time() - 28 * DAY, abs=60)
    assert first["next"]["section"] == "unhelpful"
    assert post(owner, "overview", since=first["now"] + 1)["happened"] == none
    log_unanswered(database, "xyzzy", "plugh")
    judge(database, "thanks", helped=True)
    post(owner, "change", action="add entry", question="q", answer="a")  # of this owner: it does not count
    with database.writing("changes") as connection:
        insert_change(connection, Change.make(Action.add_entry, question="r", answer="b", owner="another"))
    later = post(owner, "overview", since=first["now"])["happened"]
    assert (later["questions"], later["helped"], later["changes"]) == (2, 1, 1)
    for since in (-1, 2**53, "x"):
        assert owner.post("/owner/api/overview", json={"since": since}).status_code == 422


def test_new_questions_of_the_page_are_those_that_no_entry_knows(owner: TestClient, database: Database) -> None:
    log_unanswered(database, "xyzzy", TEXTS[0].upper(), "<b>plugh</b>")
    assert [row["question"] for row in post(owner, "new")["questions"]] == ["<b>plugh</b>", "xyzzy"]
    entry = entry_with(owner, TEXTS[0])
    post(owner, "change", action="add wordings", entry=entry["key"], wordings=["xyzzy"])
    assert [row["question"] for row in post(owner, "new")["questions"]] == ["<b>plugh</b>"]


def test_what_is_promised_and_learnt_from(tmp_path: Path, checkpoint: Path, owner: TestClient) -> None:
    quality = post(owner, "quality")
    assert quality["promise"] == {"precision": None, "calibrated_on": 0, "trained_on": 0, "wordings": 0}
    assert len(quality["weeks"]) == WEEKS
    entry = entry_with(owner, TEXTS[0])
    post(owner, "change", action="add wordings", entry=entry["key"], wordings=["xyzzy", "plugh"])
    assert post(owner, "quality")["promise"]["wordings"] == 2


@pytest.mark.parametrize(
    ("limits", "precision"), [({}, 0.8), ({"precision": 0.9}, 0.9), ({"score_threshold": 0.5}, None)], ids=str
)
def test_a_calibrated_search_promises(
    limits: dict[str, float], precision: float | None, tmp_path: Path, checkpoint: Path
) -> None:
    import shutil

    from ap_ranker.search.declared_pipeline import DeclaredPipeline

    folder = Path(shutil.copytree(checkpoint, tmp_path / "calibrated"))
    calibration = Calibration(6.0, 6.0, 0.0, {"0.8": 0.6, "0.9": 0.8}, questions=40)
    reconfigure(folder, calibration={"model": calibration, "fused": calibration}, training={"pairs": 12})
    search = DeclaredPipeline.load(write_pipeline(tmp_path, folder))
    assert asdict(promise_of(search, limits)) == {"precision": precision, "calibrated_on": 40, "trained_on": 12}


def test_what_a_file_of_wordings_knows_is_known(tmp_path: Path) -> None:
    """Of the entries that are there, as the search has it; also after the file has changed."""
    file = tmp_path / "wordings.csv"
    file.write_text("question,answer\nplastic rectangle,By card.\nof another FAQ,Gone.\n", encoding="utf-8")
    entries = [Entry("How do I pay?", "By card.", other={}, place="")]
    keyed = apply_changes(entries, []).entries
    current = CurrentEntries([EntryFacts(one, Match.answer) for one in keyed])
    known_keys = KnownKeys([file])

    def known() -> list[str]:
        asked = ["Plastic rectangle?", "how do i pay", "of another FAQ", "cash"]
        return [question for question in asked if is_among(question, known_keys.of(current))]

    assert known() == ["Plastic rectangle?", "how do i pay"]
    file.write_text("question,answer\ncash,By card.\n", encoding="utf-8")
    assert known() == ["how do i pay", "cash"]
    assert not is_among("cash", KnownKeys([]).of(current))
