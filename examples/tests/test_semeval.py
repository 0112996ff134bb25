"""SemEval's files become train, dev and test, and nothing of dev and test is trained on."""

from __future__ import annotations

import gzip
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
import semeval
from protocols import read_parts
from refusals import refused

from ap_ranker.data.faq import DEFAULT_MATCH
from ap_ranker.data.reader import read_dataset
from ap_ranker.data.tables import read_table
from ap_ranker.evaluation.metrics import means, measure_each

HEADER = "qid\tcid\tsubject\tbody\tcomment\tlabel\n"
FILES = {
    "2015-train": "Q1\tc1\t\tGood bank? Which one.\tthis\tGood\nQ2\tc1\t\tWhere to swim\tsea\tDialogue\n"
    "Q2\tc2\t\tWhere to swim\t\tBad\n",
    "2015-dev-excl2016": "Q2\tc1\tVisa\tHow long\ta week\tPotential\n",
    "2015-test-excl2016": "Q3\tc1\tTaxi\t\tcall one\tGood\n",
    "2016-train-part2": "Q4\tc1\tSchool\tWhere\tthere\tPotentiallyUseful\n",
    "2016-dev": "Q5\tc1\tGood Bank\twhich one\tthat\tGood\n",
    "2016-test": "Q6\tc1\tRent\tHow much\t4000\tGood\nQ6\tc2\tRent\tHow much\tdon't ask\tBad\n",
}


def write(folder: Path, **changes: str) -> Path:
    folder.mkdir()
    for name, rows in (FILES | changes).items():
        (folder / f"{name}.tsv.gz").write_bytes(gzip.compress((HEADER + rows).encode()))
    return folder


def test_prepare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    semeval.prepare(write(tmp_path / "source"), tmp_path / "target")
    train, dev, test = (read_dataset(tmp_path / "target", split) for split in ("train", "dev", "test"))
    # Q1 is the dev question in other letters; the two Q2 are different questions; the empty comment is gone.
    assert [question.text for question in train.questions] == ["Where to swim", "Visa How long", "Taxi", "School Where"]
    assert [question.labels for question in train.questions] == [(0,), (1,), (2,), (1,)]
    assert [question.text for question in dev.questions] == ["Good Bank which one"]
    assert [(question.text, question.labels) for question in test.questions] == [("Rent How much", (2, 0))]
    said = capsys.readouterr().out
    assert "train: 4 questions, 4 comments" in said
    assert "1 empty comments left out" in said
    assert "1 training questions dropped: their text occurs in dev or test" in said
    before = {path: path.read_bytes() for path in (tmp_path / "target").iterdir()}
    semeval.prepare(tmp_path / "source", tmp_path / "target")
    assert {path: path.read_bytes() for path in (tmp_path / "target").iterdir()} == before


def test_mistakes(tmp_path: Path) -> None:
    with refused("2016-dev.tsv.gz"):
        semeval.prepare(tmp_path, tmp_path / "target")
    write(tmp_path / "wordless", **{"2016-dev": "Q5\tc1\t\t\tthat\tGood\n"})
    with refused("2016-dev.tsv.gz, line 2 … subject … body"):
        semeval.prepare(tmp_path / "wordless", tmp_path / "target")
    (tmp_path / "wordless" / "2016-dev.tsv.gz").write_bytes(gzip.compress(b"qid\tcomment\n1\tx\n"))
    with refused("cid, subject, body, label"):
        semeval.prepare(tmp_path / "wordless", tmp_path / "target")
    assert not (tmp_path / "target").exists()


@pytest.mark.benchmark_data
def test_the_real_files(benchmarks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    semeval.prepare(benchmarks / "semeval_cqa", tmp_path)
    parts = read_parts("semeval", tmp_path, DEFAULT_MATCH)
    counts = [(len(part.questions), len(part.answerable)) for part in (parts.dev, parts.test)]
    assert counts == [(244, 211), (327, 315)]
    assert "32 training questions dropped" in capsys.readouterr().out
    assert len(parts.training.questions) == 2600 + 290 + 319 + 379 - 32
    texts = {semeval.letters(question.text) for question in parts.training.questions}
    assert not texts & {
        semeval.letters(question.text) for part in (parts.dev, parts.test) for question in part.questions
    }


@pytest.mark.benchmark_data
def test_the_official_means_are_over_all_questions(benchmarks: Path) -> None:
    """The task's chronological baseline has MAP 59.53 and MRR 67.83: only with 0 for a question without a Good one."""
    rows = read_table(benchmarks / "semeval_cqa" / "2016-test.tsv.gz").rows
    asked = {qid: list(group) for qid, group in groupby(rows, lambda row: row.get("qid"))}
    good = [np.array([row.get("label") == "Good" for row in group]) for group in asked.values()]
    found = means(measure_each((-np.arange(len(right)), right, right.sum()) for right in good if right.any()))
    share = 315 / 327
    assert round(share * found["MAP"], 4) == 0.5953
    assert round(share * found["MRR"], 4) == 0.6783
