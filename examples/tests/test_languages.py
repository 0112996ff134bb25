"""FAQs of eleven languages: whole, and measured without luck."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from conftest import ROOT, imported, write_encoder
from page_tables import by_name, tables
from typer.testing import CliRunner

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.data.faq import Match
from ap_ranker.data.reader import read_dataset
from ap_ranker.data.split import split_questions
from ap_ranker.text.question_keys import question_key

EXAMPLE = ROOT / "examples" / "languages" / "README.md"
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


def tables_of(page: Path, columns: int) -> list[dict[str, list[str]]]:
    """The tables with so many columns: first cell of a row -> the others, titles included."""
    return [by_name(table) for table in tables(page) if len(table[0]) == columns]


@pytest.mark.parametrize("folder", FAQS, ids=lambda folder: folder.name)
def test_bm25_finds_what_the_pages_say(bm25: ModuleType, folder: Path) -> None:
    by_match = [read_dataset(folder, "test", match=match) for match in (Match.both, Match.answer)]
    [page] = tables_of(ROOT / "docs" / "archive" / "results_languages.md", 9)
    page["thai, thai words"] = page["thai, [words](../languages.md)"]
    found = list(bm25.rows(folder.name, folder.name, by_match))
    for name, _, no_term, first, mrr, *_, of_answers in found:
        assert page[name][4:] == [no_term, first, mrr, of_answers], name
    [untrained] = tables_of(EXAMPLE, 4)
    assert untrained[folder.name][0] == found[-1][4]
    of_halves = tables_of(EXAMPLE, 5)[1]
    _, asked = split_questions(read_dataset(folder / "test.csv", "train"), 1 / 2, 1)
    stemmer = folder.name if bm25.is_usable(folder.name) else None
    assert of_halves[folder.name][0] == f"{bm25.measure(asked, stemmer).mrr:.3f}"


def test_bm25_finds_what_the_pages_say_of_public_authorities(bm25: ModuleType, benchmarks: Path) -> None:
    [page] = tables_of(EXAMPLE, 8)
    of_halves = tables_of(EXAMPLE, 5)[0]
    for language, data in bm25.read_covid(benchmarks / bm25.COVID):
        for name, _, *numbers in bm25.rows(language, language, [data]):
            assert page[name][4:] == numbers, name
        _, asked = split_questions(data, 1 / 2, 1)
        assert of_halves[language][0] == f"{bm25.measure(asked, language).mrr:.3f}"
    (first, *titles), lines = bm25.one_faq(benchmarks / bm25.COVID)
    [shown] = [table for table in tables_of(EXAMPLE, 1 + len(titles)) if first in table]
    assert shown[first] == titles
    [short] = [table for table in tables_of(ROOT / "docs" / "languages.md", 5) if "stemmer" in table]
    for stemmer, *values in lines:
        assert shown[stemmer] == values
        assert short[stemmer] == [*values[:3], values[4]]


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
