"""Synonyms: the forms in which a question is searched, and lines that are none."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import absent, refused

from ap_ranker.text.synonyms import MOST, Synonyms, read_synonyms
from ap_ranker.watched_file import Watched


@pytest.fixture
def synonyms(tmp_path: Path) -> Synonyms:
    (tmp_path / "s.txt").write_text(
        "# of our company\n\nSAP = payroll system = personnel portal\nlift => elevator\nC# = C sharp\n"
    )
    return read_synonyms(tmp_path / "s.txt")


@pytest.mark.parametrize(
    ("question", "others"),
    [
        ("Where is SAP?", ["where is payroll system", "where is personnel portal"]),
        ("my Payroll  System", ["my sap", "my personnel portal"]),
        ("payroll", []),
        ("lift", ["elevator"]),
        ("elevator", []),
        ("SAP in the lift", ["payroll system in the lift", "personnel portal in the lift", "sap in the elevator",
                             "payroll system in the elevator", "personnel portal in the elevator"]),
        ("???", []),
    ],
)  # fmt: skip
def test_forms_of_a_question(synonyms: Synonyms, question: str, others: list[str]) -> None:
    first, *rest = synonyms.forms(question)
    assert first == question
    assert rest == others


def test_stems_are_compared(tmp_path: Path) -> None:
    (tmp_path / "s.txt").write_text("parcel = package\nrun = running\n")
    assert read_synonyms(tmp_path / "s.txt", "english").forms("Two parcels") == ["Two parcels", "two package"]
    assert read_synonyms(tmp_path / "s.txt").forms("Two parcels") == ["Two parcels"]
    assert read_synonyms(tmp_path / "s.txt", "english").forms("run") == ["run"]  # the same word


@pytest.mark.parametrize("line", ["SAP", "= x", "a = ", "a => b => c", "a = b => c =>", "?? = x", "=>"])
def test_a_wrong_line_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "s.txt").write_text(f"a = b\n\n{line}\n")
    with refused("s.txt, line 3 … =>"):
        read_synonyms(tmp_path / "s.txt")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with refused("none.txt"):
        read_synonyms(tmp_path / "none.txt")
    (tmp_path / "s.txt").write_bytes(b"a = b\n\xff")
    with refused("line 2 … UTF-8"):
        read_synonyms(tmp_path / "s.txt")


@given(question=st.text(st.sampled_from("ab cd"), max_size=40))
def test_never_too_many_forms(question: str) -> None:
    words = [("a",), ("b",), ("c", "d"), ("ab",)]
    known = Synonyms({each: tuple(other for other in words if other != each) for each in words}, (2,), None)
    forms = known.forms(question)
    assert forms[0] == question
    assert len(forms) <= MOST


def test_a_changed_file_counts_and_a_broken_one_does_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "s.txt"
    path.write_text("a = b\n")
    file = Watched(path, read_synonyms)
    assert file.now().forms("a") == ["a", "b"]
    path.write_text("a = some c\n")
    assert file.now().forms("a") == ["a", "some c"]
    path.write_text("this is no synonym\n")
    assert file.now().forms("a") == ["a", "some c"]
    assert not absent("line 1", caplog.text)
    path.unlink()
    assert file.now().forms("a") == ["a", "some c"]


def test_a_question_has_sixteen_forms_and_a_word_sixteen_synonyms(tmp_path: Path) -> None:
    """The question, then its first fifteen others, in the order of the file."""
    others = [f"b{number}" for number in range(40)]
    (tmp_path / "s.txt").write_text("\n".join(f"a => {word}" for word in others))
    assert read_synonyms(tmp_path / "s.txt").forms("a") == ["a", *others[:15]]
    (tmp_path / "s.txt").write_text(" = ".join(["a", *others]))
    synonyms = read_synonyms(tmp_path / "s.txt")
    assert synonyms.forms("a") == ["a", *others[:15]]
    assert synonyms.forms("b0") == ["b0", "a", *others[1:15]]
    assert synonyms.others[("a",)] == tuple((word,) for word in others[:16])


def test_who_comes_while_a_changed_file_is_read_waits_for_it(tmp_path: Path) -> None:
    path = tmp_path / "s.txt"
    path.write_text("old")
    is_reading = threading.Event()
    other_has_come = threading.Event()
    times: list[str] = []

    def read(file: Path) -> str:
        times.append(file.read_text())
        if times[-1] == "changed":
            is_reading.set()
            assert other_has_come.wait(60)
        return times[-1]

    file = Watched(path, read)
    path.write_text("changed")
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(file.now)
        assert is_reading.wait(60)
        second = threads.submit(file.now)
        wait([second], timeout=0.2)  # as long as whoever does not wait needs
        other_has_come.set()
        assert (first.result(60), second.result(60)) == ("changed", "changed")
    assert times == ["old", "changed"]
