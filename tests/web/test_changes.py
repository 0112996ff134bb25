"""The owner's changes: what they make of a FAQ, when they lapse, and what a crash leaves of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ap_ranker.cli.main import app
from ap_ranker.data.faq import Entry, read_faq
from ap_ranker.documents.watched_folder import WatchedFolder
from ap_ranker.errors import InputError
from ap_ranker.web.changes import Action, Change, KeyedEntry, append_change, apply_changes, owners_changes, read_changes

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


def test_versions_differ_after_a_change_only() -> None:
    made = change("add wordings", 0, wordings=("x",))
    before, after = keyed(), keyed(changes=[made])
    assert [one.key for one in before] == [one.key for one in after]
    assert [one.version == other.version for one, other in zip(before, after, strict=True)] == [False, True, True]


def test_a_file_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "changes.jsonl"
    assert read_changes(path) == []
    made = [
        change("add entry", question="Ünïcode \u2028 \N{BICYCLE}?", answer="line\nbreak", wordings=("a", "b")),
        change("delete entry", 1),
        change("undo", undone="x"),
    ]
    for one in made:
        append_change(path, one)
    assert read_changes(path) == made
    assert len(path.read_text().splitlines()) >= 3


def test_lines_that_are_no_changes(tmp_path: Path) -> None:
    path = tmp_path / "changes.jsonl"
    append_change(path, change("delete entry", 1))
    good = path.read_text()
    for bad in (
        "not JSON",
        '{"id": "x", "action": "burn", "time": "", "entry": "y"}',
        '{"id": "x", "action": "delete entry"}',
        '{"id": "x", "action": "add entry", "answer": "a", "wordings": "b"}',
        '{"id": 3, "action": "delete entry", "entry": "y"}',
    ):
        path.write_text(f"{bad}\n{good}")
        with pytest.raises(InputError, match=r"changes\.jsonl, line 1: expected a change"):
            read_changes(path)
    path.write_text(f'{good}{{"id": "half')
    assert len(read_changes(path)) == 1, "a line that a crash left incomplete"
    append_change(path, change("delete entry", 0))
    assert len(read_changes(path)) == 2
    assert (tmp_path / "changes.jsonl.damaged").read_text() == '{"id": "half\n'


WRITER = """
import sys
from pathlib import Path
from ap_ranker.web.changes import Action, Change, append_change
number = 0
while True:
    append_change(Path(sys.argv[1]), Change.make(Action.add_entry, question=f"q{number}", answer="x" * 3000))
    print(number, flush=True)
    number += 1
"""


@pytest.mark.parametrize("seconds", [0.05, 0.11, 0.23])
def test_kill_minus_nine_loses_nothing_that_was_kept(tmp_path: Path, seconds: float) -> None:
    path = tmp_path / "changes.jsonl"
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(seconds)
    os.kill(process.pid, signal.SIGKILL)
    kept = 1 + sum(1 for _ in process.stdout)
    process.wait()
    numbers = [int(one.question[1:]) for one in read_changes(path)]
    assert numbers == list(range(len(numbers)))
    assert kept <= len(numbers) <= kept + 1
    append_change(path, change("delete entry", 1))
    assert len(read_changes(path)) == len(numbers) + 1


def write_faq(tmp_path: Path) -> Path:
    path = tmp_path / "faq.csv"
    path.write_text("topic,Question,Answer\nparcels,Where is it?,On its way.\nmoney,Refund?,Soon.\n")
    return path


def test_followed_documents(tmp_path: Path) -> None:
    faq, changes = write_faq(tmp_path), tmp_path / "changes.jsonl"
    documents = WatchedFolder(faq, overlay=owners_changes(changes))
    assert [entry.question for entry in documents.read()] == ["Where is it?", "Refund?"]
    version = documents.look()
    first, second = (one.key for one in apply_changes(documents.unchanged, []).entries)
    append_change(changes, Change.make(Action.delete_entry, entry=first))
    assert documents.look() != version
    assert [entry.question for entry in documents.read()] == ["Refund?"]
    append_change(changes, Change.make(Action.delete_entry, entry=second))
    with pytest.raises(InputError, match="its changes delete all of them"):
        documents.read()
    assert [entry.question for entry in documents.entries] == ["Refund?"]
    assert faq.read_text().count("\n") == 3


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faq = write_faq(tmp_path)
    monkeypatch.chdir(tmp_path)
    before = faq.read_bytes()

    def run(*options: str) -> str:
        result = CliRunner().invoke(app, ["changes", "faq.csv", *options])
        if result.exception:
            raise result.exception
        return result.output

    with pytest.raises(InputError, match=r"changes\.jsonl: expected a file of changes, found none"):
        run()
    first, second = (one.key for one in apply_changes(read_faq(faq), []).entries)
    made = [
        Change.make(Action.add_entry, question='Dogs, "big" ones?', answer="Yes.\nWelcome.", wordings=("dog", "puppy")),
        Change.make(Action.add_wordings, entry=first, of="Where is it?", wordings=("lost",)),
        Change.make(Action.change_entry, entry=second, of="Refund?", question="Refunds?", answer="In a week."),
        Change.make(Action.delete_entry, entry="gone"),
    ]
    for one in made:
        append_change(tmp_path / "changes.jsonl", one)
    append_change(tmp_path / "changes.jsonl", Change.make(Action.undo, undone=made[2].id))
    listed = run("--output", "new.csv")
    assert "undone" in listed
    assert "1 changes no longer apply" in listed
    assert faq.read_bytes() == before
    entries = read_faq(tmp_path / "new.csv")
    assert [(one.question, one.answer, one.wordings, one.other) for one in entries] == [
        ("Where is it?", "On its way.", ("lost",), {"topic": "parcels"}),
        ("Refund?", "Soon.", (), {"topic": "money"}),
        ('Dogs, "big" ones?', "Yes.\nWelcome.", ("dog", "puppy"), {"topic": ""}),
    ]
    with pytest.raises(InputError, match="another file than the FAQ itself"):
        run("--output", "faq.csv")
    with pytest.raises(InputError, match=r"ending in \.csv"):
        run("--output", "new.xlsx")
    assert json.loads((tmp_path / "changes.jsonl").read_text().splitlines()[0])["action"] == "add entry"
