"""The owner's changes: what they make of a FAQ, when they lapse, and that none is lost, on both databases."""

from __future__ import annotations

import json
import os
import pickle
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import pytest
from forked import Forked
from hypothesis import given
from hypothesis import strategies as st
from owner_changes import NOTHING, append_change
from refusals import refused
from sqlalchemy import insert, select
from typer.testing import CliRunner

from ap_ranker.cli.main import app
from ap_ranker.data.faq import Entry, read_faq, write_entries
from ap_ranker.data.rows import stripped
from ap_ranker.documents.watched_folder import WatchedFolder
from ap_ranker.errors import InputError
from ap_ranker.text.reading import normalized
from ap_ranker.web.changes import Action, Change, KeyedEntry, apply_changes, clear_changes, owners_changes, read_changes
from ap_ranker.web.database import changes, decisions, open_database
from ap_ranker.web.judgements import Judgements, key_of_answer, key_of_question
from ap_ranker.web.owner.routes import ChangeRequest

FAQ = [
    Entry("Where is my parcel?", "Open the link.", {"aid": "1"}, "", ("parcel lost",)),
    Entry("Refund?", "Within five days.", {"aid": "2"}, ""),
    Entry("", "A passage.", {"aid": "3"}, "", title="Manual"),
]


def keyed(entries: list[Entry] = FAQ, changes: list[Change] | None = None) -> list[KeyedEntry]:
    return apply_changes(entries, changes or []).entries


def key_of(row: int) -> str:
    return keyed()[row].key


def change(action: str, row: int | None = None, **fields: object) -> Change:
    if row is not None:
        fields |= {"entry": key_of(row), "of": FAQ[row].question}
    return Change.make(Action(action), **fields)


def texts(changes: list[Change], entries: list[Entry] = FAQ) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(one.entry.question, one.entry.answer, one.entry.wordings) for one in keyed(entries, changes)]


BEFORE = [(entry.question, entry.answer, entry.wordings) for entry in FAQ]


def test_every_action_and_its_undo() -> None:
    added = change("add entry", question="Dogs?", answer="Welcome.", wordings=("my dog",))
    cases = [
        (added, [*BEFORE, ("Dogs?", "Welcome.", ("my dog",))]),
        (
            change("change entry", 1, question="Refunds?", answer="Ten days.", wordings=("money",)),
            [BEFORE[0], ("Refunds?", "Ten days.", ("money",)), BEFORE[2]],
        ),
        (change("delete entry", 2), BEFORE[:2]),
        (
            change("add wordings", 0, wordings=("parcel LOST?", "where is it")),
            [(*BEFORE[0][:2], ("parcel LOST?", "where is it")), *BEFORE[1:]],
        ),
        (change("remove wordings", 0, wordings=("Parcel lost!",)), [(*BEFORE[0][:2], ()), *BEFORE[1:]]),
    ]
    for made, expected in cases:
        assert texts([made]) == expected, made.action
        assert texts([made, change("undo", undone=made.id)]) == BEFORE
    assert keyed()[0].entry.other == {"aid": "1"}
    assert keyed(changes=[cases[1][0]])[1].entry.other == {"aid": "2"}, "other columns stay"


def test_changes_of_changes() -> None:
    added = change("add entry", question="Dogs?", answer="Welcome.")
    more = Change.make(Action.add_wordings, entry=added.id, of="Dogs?", wordings=("my dog",))
    edited = Change.make(Action.change_entry, entry=added.id, of="Dogs?", question="Dogs?", answer="No.")
    assert texts([added, more])[-1] == ("Dogs?", "Welcome.", ("my dog",))
    assert texts([added, more, edited])[-1] == ("Dogs?", "No.", ())
    undone = apply_changes(FAQ, [added, more, edited, change("undo", undone=added.id)])
    assert [one.entry for one in undone.entries] == FAQ
    assert undone.lapsed == {more.id, edited.id}
    first, second = change("change entry", 1, answer="B"), change("change entry", 1, answer="C")
    assert texts([first, second])[1][1] == "C"
    assert texts([first, second, change("undo", undone=second.id)])[1][1] == "B"


def test_the_file_of_the_faq_is_newer() -> None:
    """Who edits an entry in the file has the last word; added wordings stay with its question."""
    newer = [FAQ[0], Entry("Refund?", "Within TEN days.", {"aid": "2"}, ""), FAQ[2]]
    edit, deletion = change("change entry", 1, answer="Never."), change("delete entry", 1)
    wording = change("add wordings", 1, wordings=("money back",))
    changed = apply_changes(newer, [edit, deletion, wording])
    assert changed.lapsed == {edit.id, deletion.id}
    assert changed.entries[1].entry.answer == "Within TEN days."
    assert changed.entries[1].entry.wordings == ("money back",)
    twice = [*newer, Entry("refund?", "Another one.", {}, "")]
    assert apply_changes(twice, [wording]).lapsed == {wording.id}, "whose wording it is, nobody knows"


def edit(changes: list[Change], row: int, **fields: Any) -> Change:
    """What the page sends: all texts of the entry as it is now, with these ones changed."""
    now = keyed(changes=changes)[row]
    texts_now = {"question": now.entry.question, "answer": now.entry.answer, "wordings": now.entry.wordings}
    return Change.edit(now, **texts_now | fields)


def test_what_is_undone_is_undone_whatever_came_after_it() -> None:
    """An edit keeps nothing of what stayed: neither an accepted wording nor what another owner wrote."""
    accepted = change("add wordings", 1, wordings=("money back",))
    edited = edit([accepted], 1, answer="Within TEN days.")
    assert texts([accepted, edited])[1] == ("Refund?", "Within TEN days.", ("money back",))
    assert texts([accepted, edited, change("undo", undone=accepted.id)])[1] == ("Refund?", "Within TEN days.", ())
    assert texts([accepted, edited, change("undo", undone=edited.id)])[1] == (*BEFORE[1][:2], ("money back",))

    anna = edit([], 1, answer="WRONG")
    ben = edit([anna], 1, question="Refunds?")
    assert texts([anna, ben])[1][:2] == ("Refunds?", "WRONG")
    assert texts([anna, ben, change("undo", undone=anna.id)])[1][:2] == ("Refunds?", "Within five days.")
    assert texts([anna, ben, change("undo", undone=ben.id)])[1][:2] == ("Refund?", "WRONG")

    fewer = edit([], 0, wordings=("where is it",))
    assert texts([fewer])[0][2] == ("where is it",)
    later = edit([fewer], 0, wordings=("where is it", "lost"))
    assert texts([fewer, later, change("undo", undone=fewer.id)])[0][2] == ("parcel lost", "lost")
    assert texts([edit([], 0, question="")])[0][0] == ""


def test_wordings_that_the_file_gets_after_an_edit_count() -> None:
    edited = edit([], 1, answer="Within TEN days.", wordings=("money",))
    newer = [FAQ[0], replace(FAQ[1], wordings=("money back",)), FAQ[2]]
    assert texts([edited], newer)[1] == ("Refund?", "Within TEN days.", ("money back", "money"))
    alone = edit([], 1, wordings=("money",))
    elsewhere = [FAQ[0], replace(FAQ[1], answer="In a week."), FAQ[2]]
    assert texts([alone], elsewhere)[1] == ("Refund?", "In a week.", ("money",)), "as added wordings"


def test_versions_differ_after_a_change_only() -> None:
    made = change("add wordings", 0, wordings=("x",))
    before, after = keyed(), keyed(changes=[made])
    assert [one.key for one in before] == [one.key for one in after]
    assert [one.version == other.version for one, other in zip(before, after, strict=True)] == [False, True, True]


def test_changes_are_there_as_they_were_made(place: str) -> None:
    database = open_database(place)
    assert read_changes(database) == []
    made = [
        change("add entry", question="Ünïcode \u2028 \N{BICYCLE}?", answer="line\nbreak", wordings=("a", "b")),
        change("delete entry", 1, owner="Änne"),
        change("undo", undone="x"),
    ]

    for one in made:
        append_change(database, one)

    assert read_changes(database) == made
    assert database.revision("changes") == len(made)


@pytest.mark.parametrize("text", ["zero \0 in it", "a half \ud83d of an emoji", "'; drop table x; --"])
def test_any_text_is_kept(place: str, text: str) -> None:
    database = open_database(place)

    append_change(database, change("add entry", question=text, answer=text, wordings=(text,), owner=text))

    [kept] = read_changes(database)
    assert kept.question == kept.answer == kept.owner == kept.wordings[0]
    kept.question.encode()


ROW: dict[str, Any] = dict.fromkeys(("owner", "of", "question", "answer", "undone"), "") | {"time": 1}
BAD = {
    "an action of a later version": {"action": "burn", "entry": "y"},
    "no entry": {"action": "delete entry", "entry": ""},
    "no answer": {"action": "add entry", "entry": ""},
    "an answer that nobody sees": {"action": "add entry", "entry": "", "answer": "\x1c\u200b"},
    "no list": {"action": "add wordings", "entry": "y", "wordings": '"b"'},
    "no JSON": {"action": "add wordings", "entry": "y", "wordings": "{"},
    "far too deep": {"action": "add wordings", "entry": "y", "wordings": "[" * 200_000},
}


def test_rows_that_are_no_changes_stop_nothing(place: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    database, name = open_database(place), uuid4().hex[:8]
    documents = WatchedFolder(write_faq(tmp_path), overlay=owners_changes(place))
    append_change(database, change("add entry", question="Dogs?", answer="Welcome."))
    with database.writing("changes") as connection:
        for number, bad in enumerate(BAD.values()):
            connection.execute(insert(changes).values(**{"wordings": "[]"} | ROW | bad | {"id": f"{name} {number}"}))
    append_change(database, change("add entry", question="Cats?", answer="Welcome."))

    for _ in range(3):
        assert [entry.question for entry in documents.read()][2:] == ["Dogs?", "Cats?"]

    warned = [record for record in caplog.records if record.levelname == "WARNING"]
    assert len(warned) == len(BAD), "each once"


WRITER = """
import sys
from ap_ranker.text.reading import normalized
from ap_ranker.data.rows import stripped
from ap_ranker.web.changes import Action, Change, insert_change
from ap_ranker.web.database import open_database
database, number = open_database(sys.argv[1]), 0
while True:
    with database.writing("changes") as connection:
        insert_change(connection, Change.make(Action.add_entry, question=f"q{number}", answer="x" * 3000))
    print(number, flush=True)
    number += 1
"""


@pytest.mark.parametrize("seconds", [0.05, 0.23])
def test_kill_minus_nine_loses_nothing_that_was_kept(place: str, seconds: float) -> None:
    process = Forked(WRITER, place)
    process.stdout.readline()
    time.sleep(seconds)
    os.kill(process.pid, signal.SIGKILL)
    kept = 1 + sum(1 for _ in process.stdout)
    process.wait()

    database = open_database(place)
    numbers = [int(one.question[1:]) for one in read_changes(database)]

    assert numbers == list(range(len(numbers)))
    assert kept <= len(numbers) <= kept + 1
    append_change(database, change("delete entry", 1))
    assert len(read_changes(database)) == len(numbers) + 1


SERVER = """
import json, sys, threading
from pathlib import Path
from tempfile import TemporaryDirectory
from ap_ranker.data.faq import Match
from ap_ranker.documents.watched_folder import WatchedFolder
from ap_ranker.text.reading import normalized
from ap_ranker.data.rows import stripped
from ap_ranker.web.changes import Action, owners_changes
from ap_ranker.web.database import open_database
from ap_ranker.web.owner.current_entries import ConflictError
from ap_ranker.web.owner.service import OwnerService

place, faq, name = sys.argv[1:]
documents = WatchedFolder(Path(faq), overlay=owners_changes(place))
documents.read()
owner_service = OwnerService(None, documents, Match.both, open_database(place))
print("ready", flush=True)
for line in sys.stdin:
    asked, results = json.loads(line), []
    count = asked.pop("count")
    start = threading.Barrier(count)

    def work(number):
        start.wait()
        try:
            if "undo" in asked:
                results.append(owner_service.undo(asked["undo"], name).id)
            elif "state" in asked:
                results.append(owner_service.decide(owner=name, **asked))
            else:
                # Never the text that is there: whoever writes that changes nothing, and conflicts with nobody.
                answer = f"{name} {number} after {asked['version']}"
                fields = {} if asked["action"] == "delete entry" else {"answer": answer}
                action = Action(asked["action"])
                change = owner_service.change(action, asked["version"], entry=asked["entry"], owner=name, **fields)
                results.append(change.id)
        except ConflictError:
            pass

    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps(results), flush=True)
"""


@pytest.fixture
def race(place: str, tmp_path: Path) -> Iterator[Callable[..., list[Any]]]:
    """Lets two servers of one database do the same, 25 times each, at once; returns what all that succeeded say."""
    faq = write_faq(tmp_path)
    servers = [Forked(SERVER, place, faq, name) for name in ("first", "second")]

    def both(**asked: Any) -> list[Any]:
        for server in servers:
            server.stdin.write(json.dumps(asked | {"count": 25}) + "\n")
            server.stdin.flush()
        return [one for server in servers for one in json.loads(server.stdout.readline())]

    assert [server.stdout.readline() for server in servers] == ["ready\n"] * 2
    yield both
    for server in servers:
        server.communicate()
    assert [server.returncode for server in servers] == [0, 0]


@pytest.mark.parametrize("rounds", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_of_what_conflicts_one_is_kept(race: Callable[..., list[Any]], place: str, tmp_path: Path, rounds: int) -> None:
    database, entries, made = open_database(place), read_faq(tmp_path / "faq.csv"), []
    kept = Judgements(database)
    for number in range(rounds):
        seen = apply_changes(entries, read_changes(database)).entries[0]
        made += (changed := race(action="change entry", entry=seen.key, version=seen.version))
        assert len(changed) == 1
        made += (undone := race(undo=changed[0]) if number % 2 else [])
        assert len(undone) == number % 2

        question = f"my question {number}"
        kept.keep(question=question, answer="any", stored_question="Refund?", helped=True, network="n", visit="v")
        keys = {"question_key": key_of_question(question), "answer_key": key_of_answer("any"), "wording": question}
        state = "rejected" if number % 2 else "accepted"
        (decided,) = race(state=state, entry=REFUND, **keys)
        assert decided["state"] == state

    known = read_changes(database)
    accepted = [one for one in known if one.action == Action.add_wordings]
    assert [one.id for one in known if one not in accepted] == made, "nothing is lost"
    assert {one.owner for one in known} <= {"first", "second"}
    assert [one.wordings for one in accepted] == [(f"my question {number}",) for number in range(0, rounds, 2)]
    with database.reading() as connection:
        changes_of_decisions = list(connection.scalars(select(decisions.c.change)))
    assert {change for change in changes_of_decisions if change} == {one.id for one in accepted}
    assert changes_of_decisions.count("") == rounds // 2
    last = apply_changes(entries, known).entries[1]
    assert len(race(action="delete entry", entry=last.key, version=last.version)) == 1


def write_faq(tmp_path: Path) -> Path:
    path = tmp_path / "faq.csv"
    path.write_text("topic,Question,Answer\nparcels,Where is it?,On its way.\nmoney,Refund?,Soon.\n")
    return path


REFUND = apply_changes([Entry("Refund?", "Soon.", {}, "")], []).entries[0].key
"""The key of the second entry of `write_faq`."""


def test_followed_documents(place: str, tmp_path: Path) -> None:
    faq, database = write_faq(tmp_path), open_database(place)
    documents = WatchedFolder(faq, overlay=pickle.loads(pickle.dumps(owners_changes(place))))
    assert [entry.question for entry in documents.read()] == ["Where is it?", "Refund?"]
    version = documents.look()
    first, second = (one.key for one in apply_changes(documents.unchanged, []).entries)
    append_change(database, Change.make(Action.delete_entry, entry=first))
    assert documents.look() != version
    assert [entry.question for entry in documents.read()] == ["Refund?"]
    append_change(database, Change.make(Action.delete_entry, entry=second))
    with refused("expected entries … delete all … Add one … undone"):
        documents.read()
    assert [entry.question for entry in documents.entries] == ["Refund?"]
    assert faq.read_text().count("\n") == 3
    output = ["owner", "changes", str(faq), "--database", place, "--output", str(tmp_path / "new.csv")]
    assert "delete all" in str(CliRunner().invoke(app, output).exception)
    assert not (tmp_path / "new.csv").exists()
    faq.write_text(faq.read_text() + "dogs,Dogs?,Welcome.\n")
    assert [entry.question for entry in documents.read()] == ["Dogs?"]


def test_a_database_that_does_not_answer_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that follows the documents goes on, and so does the search."""
    documents = WatchedFolder(write_faq(tmp_path), overlay=owners_changes(str(tmp_path / "faq.db")))
    documents.read()

    def fail(self: object, part: str) -> int:
        raise InputError("no answer")

    monkeypatch.setattr("ap_ranker.web.database.Database.revision", fail)

    assert documents.look() == documents.version


def test_an_edit_while_the_database_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts once the database answers again; until then, nobody reads the same in vain again and again."""
    documents = WatchedFolder(write_faq(tmp_path), overlay=owners_changes(str(tmp_path / "faq.db")))
    documents.read()

    def fail(self: object) -> None:
        raise InputError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr("ap_ranker.web.database.Database.reading", fail)
        documents.path.write_text("Question,Answer\nWhere is it?,Here.\n")
        assert documents.look() != documents.version
        with pytest.raises(InputError):
            documents.read()
        assert documents.look() == documents.version

    assert documents.look() != documents.version
    assert [entry.answer for entry in documents.read()] == ["Here."]
    assert documents.look() == documents.version


SEPARATORS = "\v\f\x1c\x1d\x1e\x85\u2028\u2029"
"""What Python takes for the end of a line; programs for slides and layouts leave some of them in a copied text."""


def test_what_the_command_writes_is_what_it_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the changes can be cleared, and what was added is there once before they are, whatever came in between."""
    faq = write_faq(tmp_path)
    monkeypatch.chdir(tmp_path)
    database = open_database(tmp_path / "faq.db")
    wordings = tuple(f"puppy{number}{sign}eyes" for number, sign in enumerate(SEPARATORS))
    added = Change.make(Action.add_entry, question="Dogs?", answer="Maybe.", wordings=wordings)
    changed = {"entry": added.id, "question": "Dogs?", "answer": "Welcome.", "wordings": wordings}
    made = [added, Change.make(Action.change_entry, **changed)]
    for one in made:
        append_change(database, one)

    def run(*options: str) -> Any:
        return CliRunner().invoke(app, ["owner", "changes", "faq.csv", *options]).exception

    assert run("--output", "new.csv") is None
    (tmp_path / "new.csv").replace(faq)
    append_change(database, Change.make(Action.add_entry, question="Cats?", answer="No."))
    assert isinstance(run("--clear"), InputError), "the file lacks the last change"
    assert run("--output", "new.csv") is None
    (tmp_path / "new.csv").replace(faq)
    assert run("--clear") is None
    assert read_changes(database) == []
    entries = read_faq(faq)
    assert [one.question for one in entries] == ["Where is it?", "Refund?", "Dogs?", "Cats?"]
    assert entries[2].wordings == tuple(f"puppy{number} eyes" for number in range(len(SEPARATORS)))


def test_changes_that_the_file_lacks_are_not_cleared(tmp_path: Path) -> None:
    """Also those that no longer apply, as somebody has changed their entries there."""
    database = open_database(tmp_path / "faq.db")
    made = [edit([], 1, answer="Within TEN days.", wordings=("money back",)), change("delete entry", 0)]
    for one in made:
        append_change(database, one)
    mended = [replace(entry, answer=f"{entry.answer} Mended.") for entry in FAQ]
    assert apply_changes(mended, made).lapsed == {one.id for one in made}
    with refused("2 … Refund? … Where is my parcel?"):
        clear_changes(database, mended)
    with refused("1 … Refund?"):
        clear_changes(database, mended[1:])
    written = [replace(FAQ[1], answer="Within TEN days.", wordings=("money back",)), FAQ[2]]
    without_wording = [replace(written[0], wordings=()), FAQ[2]]
    with refused("expected … found"):
        clear_changes(database, without_wording)
    assert read_changes(database) == made
    assert clear_changes(database, written) == 2
    assert read_changes(database) == []


def test_what_was_changed_afterwards_need_not_be_in_the_file(tmp_path: Path) -> None:
    """Of several changes of an entry, the last one counts; after a deletion, none of them."""
    database = open_database(tmp_path / "faq.db")
    first = edit([], 1, answer="Six days.", wordings=("money",))
    second = edit([first], 1, answer="Ten days.", wordings=("cash",))
    other = edit([], 0, answer="Wait.")
    gone = change("delete entry", 0)
    for one in (first, second, other, gone):
        append_change(database, one)
    assert clear_changes(database, [replace(FAQ[1], answer="Ten days.", wordings=("cash",)), FAQ[2]]) == 4


def test_a_file_that_has_what_the_owner_deleted_is_read(tmp_path: Path) -> None:
    """As `owner changes --output` writes it: entries that are gone on purpose are no accident, also once cleared."""
    entries = [Entry(f"Question {row}?", f"Answer {row}.", {}, "") for row in range(12)]
    faq, new = tmp_path / "faq.csv", tmp_path / "new.csv"
    write_entries(entries, faq)
    database = open_database(tmp_path / "faq.db")
    documents = WatchedFolder(faq, overlay=owners_changes(str(tmp_path / "faq.db")))
    documents.read()
    for one in apply_changes(read_faq(faq), []).entries[:3]:
        append_change(database, Change.make(Action.delete_entry, entry=one.key, of=one.entry.question))
    left = documents.read()
    assert len(left) == 9
    write_entries(left, new)
    new.replace(faq)
    assert [entry.question for entry in documents.read()] == [entry.question for entry in left]
    clear_changes(database, read_faq(faq))
    assert [entry.question for entry in documents.read()] == [entry.question for entry in left]
    write_entries(left[:4], new)
    new.replace(faq)
    assert len(documents.read()) == 9, "nobody deleted these"
    assert documents.left_out


any_text = st.lists(st.text(max_size=3) | st.sampled_from(NOTHING), max_size=3).map("".join)
seen_text = any_text.filter(stripped)
seen_line = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), max_size=5).filter(stripped)


@given(any_text, seen_text, st.lists(seen_line, max_size=3))
def test_what_the_page_takes_can_be_read_back(question: str, answer: str, wordings: list[str]) -> None:
    body = {"action": "add entry", "question": question, "answer": answer, "wordings": wordings}
    asked = ChangeRequest.model_validate(body)
    change = Change.make(Action.add_entry, **asked.model_dump(include={"question", "answer", "wordings"}))
    row = change.row()
    entry = Entry(row["question"], row["answer"], {}, "", tuple(json.loads(row["wordings"])))
    with TemporaryDirectory() as folder:
        write_entries([entry], Path(folder) / "new.csv")
        [read] = read_faq(Path(folder) / "new.csv")
    assert set(map(normalized, read.questions)) | {""} == set(map(normalized, entry.questions)) | {""}
    assert normalized(read.answer) == normalized(entry.answer)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faq = write_faq(tmp_path)
    monkeypatch.chdir(tmp_path)
    before = faq.read_bytes()

    def run(*options: str) -> str:
        result = CliRunner().invoke(app, ["owner", "changes", "faq.csv", *options])
        if result.exception:
            raise result.exception
        return result.output

    database = open_database(tmp_path / "faq.db")
    first, second = (one.key for one in apply_changes(read_faq(faq), []).entries)
    made = [
        Change.make(
            Action.add_entry,
            question='Dogs, "big" ones?',
            answer="Yes.\nWelcome.",
            wordings=("dog", "puppy"),
            owner="Änne",
        ),
        Change.make(Action.add_wordings, entry=first, of="Where is it?", wordings=("lost",)),
        Change.make(Action.change_entry, entry=second, of="Refund?", question="Refunds?", answer="In a week."),
        Change.make(Action.delete_entry, entry="gone"),
    ]
    for one in made:
        append_change(database, one)
    append_change(database, Change.make(Action.undo, undone=made[2].id))
    listed = run("--database", "faq.db", "--output", "new.csv")
    assert "Änne" in listed
    assert faq.read_bytes() == before
    entries = read_faq(tmp_path / "new.csv")
    assert [(one.question, one.answer, one.wordings, one.other) for one in entries] == [
        ("Where is it?", "On its way.", ("lost",), {"topic": "parcels"}),
        ("Refund?", "Soon.", (), {"topic": "money"}),
        ('Dogs, "big" ones?', "Yes.\nWelcome.", ("dog", "puppy"), {"topic": ""}),
    ]
    for output in ("faq.csv", "new.xlsx"):
        with pytest.raises(InputError):
            run("--database", "faq.db", "--output", output)


def test_the_file_has_every_row_and_name_of_the_faq(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new one is read with the same options, keeps rows without an answer, and has all changes."""
    monkeypatch.chdir(tmp_path)
    faq = tmp_path / "faq.csv"
    lines = ["Nr,Customer asks,We say,answerable", "1,Where is it?,On its way.,", "2,A draft?,,", "3,Can I fly?,,no"]
    faq.write_text("\n".join(lines) + "\n", encoding="utf-8")
    [keyed] = apply_changes(read_faq(faq, ("Customer asks", "We say")), []).entries
    database = open_database(tmp_path / "faq.db")
    append_change(database, Change.make(Action.add_wordings, entry=keyed.key, of="Where is it?", wordings=("lost",)))
    append_change(database, Change.make(Action.add_entry, question="Dogs?", answer="Welcome."))

    def run(*options: str) -> str:
        command = ["owner", "changes", "faq.csv", "--columns", "Customer asks,We say", *options]
        result = CliRunner().invoke(app, command, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output

    assert "2 entries into new.csv, and 2 rows without an answer as they were" in run("--output", "new.csv")
    (tmp_path / "new.csv").replace(faq)
    assert faq.read_text(encoding="utf-8").splitlines() == [
        "Nr,Customer asks,We say,answerable,wordings",
        "1,Where is it?,On its way.,,lost",
        "2,A draft?,,,",
        "3,Can I fly?,,no,",
        ",Dogs?,Welcome.,,",
    ]
    assert "Deleted 2 changes" in run("--clear")
