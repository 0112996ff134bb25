"""Known wordings: from every kind of file, and from training questions."""

from __future__ import annotations

import json
import logging
import os
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
from refusals import refused

from ap_ranker.data import wordings as wordings_module
from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.data.faq import Entry, Match, read_faq
from ap_ranker.data.reader import read_dataset
from ap_ranker.data.wordings import (
    NamedRows,
    WordingFiles,
    Wordings,
    log_wordings_of_no_entry,
    read_with_wordings,
    read_wordings,
    with_wordings,
    with_wordings_of,
    wordings_of,
)
from ap_ranker.errors import InputError

ANSWERS = [Answer("a1", "Open the link."), Answer("a2", "It is free.")]


def of(path: Path, answer: Answer) -> list[str]:
    return list(read_wordings(path).of(answer.id, answer.text))


def write_pairs(path: Path, *pairs: tuple[str, str]) -> Path:
    path.write_text("".join(json.dumps({"question": pair[0], "answer": pair[1]}) + "\n" for pair in pairs))
    return path


JUDGED = {"question": "where", "answer": "Open the link.", "label": 1}


def test_training_questions_are_wordings_of_the_ids_they_name(tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    path.write_text("qid,question,answer_ids,answerable\n1,where,a1,yes\n2,price,a2 a1,yes\n3,lawn mowers,a2,no\n")
    assert [of(path, answer) for answer in ANSWERS] == [["where", "price"], ["price"]]
    assert len(read_wordings(path)) == 3


def test_pairs_are_wordings_of_equal_answers(tmp_path: Path) -> None:
    path = tmp_path / "more.csv"
    path.write_text("question,answer\nwhere,OPEN  the link.\nwhere?,Open the link.\nwhere,Open the link.\n")
    assert [of(path, answer) for answer in ANSWERS] == [["where", "where?"], []]


def test_an_unfinished_turn_of_a_chat_takes_no_other_with_it(tmp_path: Path) -> None:
    """All turns of a chat stand in one line."""
    turns = [("where", "Open the link."), ("price", ""), ("how much", "It is free.")]
    messages = []
    for question, answer in turns:
        messages += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    path = tmp_path / "chat.jsonl"
    path.write_text(json.dumps({"messages": messages}) + "\n")
    assert [of(path, answer) for answer in ANSWERS] == [["where"], ["how much"]]


@pytest.mark.parametrize(
    "lines",
    [
        [JUDGED],
        [JUDGED | {"label": 0}],
        [{"question": "price", "answer": "It is free."}, JUDGED],  # a click that follows the owner's lines
        [{name.title(): value for name, value in JUDGED.items()}],
    ],
)
def test_clicks_are_no_wordings(tmp_path: Path, lines: list[dict[str, object]]) -> None:
    path = tmp_path / "feedback.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for read in (read_wordings, lambda path: WordingFiles().now([str(path)])):
        with refused("feedback.jsonl … label"):
            read(path)
    data = Dataset("d", ANSWERS, [Question("1", "where", (0,))])
    with refused("feedback.jsonl … label"):
        with_wordings_of(data, path)


def test_a_file_that_clicks_are_written_to_keeps_what_the_owner_wrote(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_pairs(tmp_path / "accepted.jsonl", ("where", "Open the link."))
    files = WordingFiles()
    files.now([str(path)])
    with path.open("a") as file:
        file.write(json.dumps(JUDGED | {"question": "Erika, order 4711"}) + "\n")
    assert files.now([str(path)]).of("", "Open the link.") == ("where",)
    assert "found judgements" in caplog.text


def test_a_file_may_hold_no_wording_yet(tmp_path: Path) -> None:
    path = tmp_path / "wordings.csv"
    path.touch()
    assert len(read_wordings(path)) == 0


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    for wrong in (path, tmp_path / "none.csv"):
        with refused(wrong.name):
            read_wordings(wrong)


def test_a_changed_file_counts_at_once_and_a_damaged_one_does_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_pairs(tmp_path / "accepted.jsonl", ("where", "Open the link."))
    more = tmp_path / "more.csv"
    more.write_text("question,answer\nwhere,Open the link.\nparcel,Open the link.\n")
    files, paths = WordingFiles(), [str(path), str(more)]

    def known() -> tuple[str, ...]:
        return files.now(paths).of("", "Open the link.")

    assert known() == ("where", "parcel")
    before = files.now(paths)
    assert files.now(paths) is before
    write_pairs(path, ("where", "Open the link."), ("track", "Open the link."))
    assert known() == ("where", "track", "parcel")
    assert before.of("", "Open the link.") == ("where", "parcel")
    path.write_text("{")
    with caplog.at_level(logging.WARNING):
        assert known() == known() == ("where", "track", "parcel")
    assert [str(path) in record.message for record in caplog.records] == [True]
    path.unlink()
    assert known() == ("where", "track", "parcel")
    os.truncate(more, len("question,answer\nwhere,Open the link.\n"))
    write_pairs(path, ("new", "Open the link."))
    assert known() == ("new", "where")


def test_those_who_follow_a_file_read_it_once(tmp_path: Path) -> None:
    path = write_pairs(tmp_path / "accepted.jsonl", ("where", "Open the link."))
    with patch.object(wordings_module, "read_wordings", wraps=read_wordings) as read:
        retriever, ranker, paths = WordingFiles(), WordingFiles(), [str(path)]
        assert retriever.now(paths).of("", "Open the link.") == ranker.now(paths).of("", "Open the link.") == ("where",)
        write_pairs(path, ("track", "Open the link."))
        for files in (ranker, retriever, ranker):
            assert files.now(paths).of("", "Open the link.") == ("track",)
        assert read.call_count == 2
        path.write_text("{")
        ranker.now(paths)
        with pytest.raises(InputError):
            WordingFiles().now(paths)


def test_training_data_gives_its_questions_by_the_answers_text() -> None:
    training = Dataset("t", ANSWERS[::-1], [Question("1", "where", (1,)), Question("2", "where", (1,))])
    data = Dataset("d", [replace(ANSWERS[0], wordings=("link",)), ANSWERS[1]], [Question("3", "price", (1,))])
    assert [answer.wordings for answer in with_wordings(data, training).answers] == [("link", "where"), ()]
    judged = replace(data, judged=True)
    assert with_wordings(judged, training) is judged
    assert with_wordings(data, replace(training, judged=True)) is data


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of questions by id; the first answer has further wordings in two columns."""
    (tmp_path / "answers.csv").write_text(
        'aid,question,answer,wordings,Wording 2\na1,Where?,Open the link.,"parcel\ntrack  \n\nparcel",way\n'
        "a2,Price?,It is free.,,\n"
    )
    (tmp_path / "train.csv").write_text("qid,question,answer_ids\n1,costs,a2\n")
    (tmp_path / "test.csv").write_text("qid,question,answer_ids\n2,free of charge,a2\n")
    return tmp_path


def test_columns_of_the_faq_are_wordings_and_are_learnt_from(folder: Path) -> None:
    entry = read_faq(folder / "answers.csv")[0]
    assert (entry.wordings, entry.other) == (("parcel", "track", "way"), {"aid": "a1"})
    training = read_dataset(folder, "train")
    assert training.answers[0].wordings == ("Where?", "parcel", "track", "way")
    learnt = {question.text: question.positives for question in training.questions if question.stored}
    assert learnt == {"Where?": (0,), "parcel": (0,), "track": (0,), "way": (0,), "Price?": (1,)}


def test_wordings_in_json_are_a_list(tmp_path: Path) -> None:
    path = tmp_path / "FAQ.jsonl"
    path.write_text(json.dumps({"question": "Where?", "answer": "Open the link.", "wordings": ["track", "my parcel"]}))
    assert read_faq(path)[0].wordings == ("track", "my parcel")


def test_an_evaluation_knows_what_a_search_would(folder: Path) -> None:
    test = read_dataset(folder, "test")
    by_default = read_with_wordings(folder, "test")
    assert [answer.wordings for answer in by_default.answers] == [
        ("Where?", "parcel", "track", "way"),
        ("Price?", "costs"),
    ]
    named = read_with_wordings(folder / "test.csv", "test", wordings=folder / "train.csv")
    assert named == by_default
    assert read_with_wordings(folder / "test.csv", "test") == test
    (folder / "train.csv").unlink()
    assert read_with_wordings(folder, "test") == test


def test_wordings_of_judged_candidates_are_refused(tmp_path: Path) -> None:
    judged = Dataset("judged.csv", ANSWERS, [Question("1", "where", (0,), (0, 1))], judged=True)
    path = tmp_path / "more.csv"
    path.write_text("question,answer\nwhere,Open the link.\n")
    with refused("judged.csv … --wordings"):
        with_wordings_of(judged, path)
    shared = with_wordings_of(replace(judged, judged=False), path)
    assert [answer.wordings for answer in shared.answers] == [("where",), ()]


def test_the_wordings_of_entries_are_their_own_and_those_of_files(tmp_path: Path) -> None:
    """Found by the id, by the whole text or by the answer; the stored question comes first, and each counts once."""
    (tmp_path / "faq.csv").write_text("aid,question,answer,wordings\na1,Where?,There.,whither\na2,,Open the link.,\n")
    (tmp_path / "ids.csv").write_text("question,answer_ids\nwhich place,a1\nlink,a2 a1\n")
    (tmp_path / "texts.csv").write_text(
        'question,answer\nto where,there.\nWhere?,"where? there."\nlink,Open the link.\n'
    )
    entries = read_faq(tmp_path / "faq.csv")
    texts = [entry.text(Match.both) for entry in entries]
    files = WordingFiles().now([tmp_path / "ids.csv", tmp_path / "texts.csv"])
    assert wordings_of(entries, texts, files) == [
        ("Where?", "whither", "which place", "link", "to where"),
        ("link",),
    ]
    assert wordings_of(entries, texts) == [("Where?", "whither"), ()]


def test_a_name_keeps_its_row_while_files_change() -> None:
    """A search that asks for the names of rows may do so after another one has read a newer file."""
    rows = NamedRows()
    before = Wordings({("id", "a"): ["where"], ("id", "b"): ["price", "how much"]})
    after = Wordings({("id", "c"): ["new"], ("id", "b"): ["price"]})
    assert list(rows.pairs(before)) == [(0, "where"), (1, "price"), (1, "how much")]
    assert list(rows.pairs(after)) == [(2, "new"), (1, "price")]
    assert rows.names == [("id", "a"), ("id", "b"), ("id", "c")]


def test_wordings_of_no_entry_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Ids of another file, and answers that were edited since; nothing is said of those that count."""
    with_ids = [Entry("Where is it?", "There.", other={"aid": "7"}, place="faq.csv, line 2")]
    without = [Entry("Where is it?", "There.", other={}, place="faq.csv, line 2")]
    by_id, by_text, edited = tmp_path / "ids.csv", tmp_path / "texts.csv", tmp_path / "edited.csv"
    by_id.write_text("question,answer_ids\nwhere then,7\n")
    by_text.write_text("question,answer\nwhere then,there.\n")
    edited.write_text("question,answer\nwhere then,There.\nwhere now,Elsewhere.\n")
    log_wordings_of_no_entry([by_id, by_text], with_ids, Match.both)
    assert caplog.text == ""
    log_wordings_of_no_entry([by_id], without, Match.both)
    assert "1 of 1" in caplog.text
    caplog.clear()
    log_wordings_of_no_entry([edited, by_text], without, Match.both)
    assert "1 of 2" in caplog.text
    assert "where now" in caplog.text
    assert "texts.csv" not in caplog.text


def test_placeholders_are_no_wordings(tmp_path: Path) -> None:
    path = tmp_path / "FAQ.csv"
    path.write_text('question,answer,wordings,wording 2\nWhere?,Here.,"-\nN/A\nin which place\n?\ntest",none\n')
    [entry] = read_faq(path)
    assert entry.wordings == ("in which place", "?", "test")
    assert sorted(set(read_wordings(path).texts())) == ["?", "Where?", "in which place", "test"]
