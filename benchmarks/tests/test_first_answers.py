"""What counts as a changed first answer, and that a plain way has nothing faster in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import exact_ranker, make_model, write_checkpoint
from typer.testing import CliRunner

from ap_ranker.data.dataset import Dataset
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.models import ap
from ap_ranker.ranking.quantization import StateDtype
from benchmarks import first_answers
from benchmarks.first_answers import PLAIN, WAYS, Way, main
from benchmarks.first_answers import first_answers as answers_of


@pytest.mark.parametrize("name", ["ap-transformer", "ap-bilstm", "bow-idf"])
def test_the_first_answers_are_the_rankers(name: str, pairs: Dataset, tmp_path: Path) -> None:
    data, ranker = EvaluationSet(pairs), exact_ranker(write_checkpoint(name, tmp_path / "c"))
    texts = [answer.text for answer in pairs.answers]
    best, precision, milliseconds = answers_of(tmp_path / "c", data, PLAIN)
    assert best.tolist() == [int(ranker.score(question.text, texts).argmax()) for question in pairs.questions]
    assert precision == pytest.approx(sum(int(row) == i for i, row in enumerate(best)) / 3)
    assert milliseconds > 0


def test_a_plain_way_has_nothing_faster() -> None:
    model = make_model("ap-cnn", ["[PAD]", "[UNK]", "parcel"])
    with PLAIN.taken():
        assert not model.reads_stored({})
        assert not ap.compiled_loops_agree()
    with Way("", compiled=True).taken():
        assert ap.compiled_loops_agree is not None
    assert {way.dtype for way in WAYS} == {None, *StateDtype}


def test_the_table(pairs: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A way that changes two of three answers, and its exact interval: .0943 to .9916."""
    import numpy as np
    import typer

    found = iter([np.array([0, 1, 2]), *[np.array([0, 2, 1])] * len(WAYS)])
    monkeypatch.setattr(first_answers, "first_answers", lambda *_: (next(found), 1 / 3, 2.5))
    write_checkpoint("ap-bilstm", tmp_path / "c")
    rows = [f"{question.text},{answer.text}" for question, answer in zip(pairs.questions, pairs.answers, strict=True)]
    (tmp_path / "dev.csv").write_text("\n".join(["question,answer", *rows]) + "\n")
    app = typer.Typer()
    app.command()(main)
    table = tmp_path / "table.md"
    ended = CliRunner().invoke(app, [str(tmp_path / "c"), str(tmp_path / "dev.csv"), "--table", str(table)])
    assert ended.exit_code == 0, ended.output
    assert table.read_text().count("| 2 | 9.4% to 99.2% | 0.333 | 2.50 |") == len(WAYS) - 2  # it has no encoder


def test_which_ways_a_model_has() -> None:
    encoder, words = ({way.name for way in WAYS if not way.concerns(name)} for name in ("ap-transformer", "ap-cnn"))
    assert encoder == {"compiled loops", "compiled loops, int8"}
    assert words == {"own forward pass", "own forward pass, bfloat16"}
