"""FAQs of eleven languages: whole, and measured without luck."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from conftest import ROOT, imported, write_encoder
from typer.testing import CliRunner

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.data.reader import read_dataset
from ap_ranker.data.split import split_questions
from ap_ranker.text.reading import question_key

FAQS = sorted((ROOT / "examples" / "languages" / "faqs").iterdir())


@pytest.fixture(scope="module")
def bm25() -> Iterator[ModuleType]:
    with imported(ROOT / "examples" / "languages" / "bm25.py") as module:
        yield module


@pytest.mark.parametrize("folder", FAQS, ids=lambda folder: folder.name)
def test_a_faq_is_whole(folder: Path) -> None:
    data = read_dataset(folder, "test")
    assert len(data.answers) == len({answer.text for answer in data.answers}) == 30
    assert [question.positives for question in data.questions] == [(i // 2,) for i in range(60)]
    stored = {question_key(text) for answer in data.answers for text in answer.wordings}
    assert len(stored) == 30
    assert len({question_key(question.text) for question in data.questions} - stored) == 60, "new to the FAQ"


def test_an_encoder_beside_bm25(bm25: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples" / "languages")
    texts = [answer.text for answer in read_dataset(FAQS[2], "test").answers]
    encoder = write_encoder(tmp_path / "encoder", texts, max_position_embeddings=512, vocab_size=2000)
    with imported(ROOT / "examples" / "languages" / "encoders.py") as module:
        words, cosine, ours = module.measure(FAQS[2], str(encoder), tmp_path)
        asked = read_dataset(FAQS[2] / "test.csv", "train")
        half = module.measure_quick(asked, "french", str(encoder), tmp_path)
        rest, test = split_questions(asked, module.TEST_SHARE, module.SEED)
    assert words == bm25.measure(read_dataset(FAQS[2], "test"), "french").mrr
    assert 0 < cosine < 1
    assert 0 < ours < 1
    assert len(half) == 4
    assert half[0] == bm25.measure(test, "french").mrr
    assert all(0 < value < 1 for value in half)
    assert {question.text for question in rest.questions}.isdisjoint(question.text for question in test.questions)


def test_the_languages() -> None:
    names = "arabic chinese french german hindi japanese korean russian spanish thai turkish"
    assert [folder.name for folder in FAQS] == names.split()


def test_what_is_counted(bm25: ModuleType) -> None:
    answers = [Answer("a", "a parcel"), Answer("b", "the refund"), Answer("c", "a voucher")]
    questions = [Question("1", "parcels", (0,)), Question("2", "refund", (1,)), Question("3", "a voucher", (2,))]
    data = Dataset("shop", answers, questions)
    found = bm25.measure(data, None)
    assert found.strangers == 1
    assert found.first == pytest.approx((1 / 3 + 1 + 1) / 3)
    assert found.mrr == pytest.approx(((1 + 1 / 2 + 1 / 3) / 3 + 1 + 1) / 3)
    assert bm25.measure(data, "english") == bm25.Found(0, 1.0, 1.0)


def test_the_command(bm25: ModuleType, tmp_path: Path) -> None:
    import gzip

    import typer

    file = tmp_path / bm25.COVID
    file.parent.mkdir()
    lines = [f"Question {code}?,Answer {code}.,{code}" for code in bm25.CODES]
    file.write_bytes(gzip.compress("\n".join(["question,answer,lang", *lines]).encode()))
    app = typer.Typer()
    app.command()(bm25.command)
    result = CliRunner().invoke(app, ["--shared", str(tmp_path)])
    assert result.exit_code == 0, result.output
    rows = [line.split(" | ") for line in result.output.splitlines()]
    names = [cells[0].removeprefix("| ") for cells in rows]
    assert {"german, german stemmer", "turkish, turkish stemmer", "japanese, no stemmer"} <= set(names)
    assert "thai, thai stemmer" not in names
    assert ["| italian, italian stemmer", "1"] in [cells[:2] for cells in rows]


def test_languages_are_told_rightly_or_not_at_all() -> None:
    import typer

    app = typer.Typer()
    with imported(ROOT / "examples" / "languages" / "detect.py") as module:
        app.command()(module.command)
        result = CliRunner().invoke(app, [])
    assert result.exit_code == 0, result.output
    rows = [line.strip("| ").split(" | ") for line in result.output.splitlines()[2:]]
    assert {kind: wrong for kind, _, _, wrong, _ in rows} == {"sentences": "0", "questions": "0", "answers": "0"}
    assert all(float(told) > 0.8 for _, _, told, _, _ in rows)
