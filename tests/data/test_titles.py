"""Titles and stored questions as training pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conftest import ROOT
from refusals import absent, refused
from typer.testing import CliRunner

from ap_ranker.cli.main import app
from ap_ranker.data.faq import read_faq
from ap_ranker.data.reader import read_dataset
from ap_ranker.documents.extract import MOST, title_pairs
from ap_ranker.errors import InputError


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(app, ["extract", *map(str, arguments)])


def test_a_faq_gives_its_stored_questions() -> None:
    faq = ROOT / "examples" / "faq" / "answers.csv"
    assert sorted(title_pairs(faq).pairs) == sorted((entry.question, entry.answer) for entry in read_faq(faq))


def test_documents_give_their_title_paths(tmp_path: Path) -> None:
    folder = tmp_path / "handbook"
    folder.mkdir()
    (folder / "a.md").write_text(
        "# Shop\n\n## Refunds\n\nFive days.\n\n## How do I pay?\n\nBy card.\n\n"
        "## Hours\n\nOur shop hours: nine to five.\n"
    )
    (folder / "b.md").write_text("# Echo\n\nWhat an echo.\n")
    many = "".join(f"## Note\n\nText {i}.\n\n" for i in range(MOST + 1))
    (folder / "c.md").write_text(f"# All\n\n{many}")
    expected = [("Shop Refunds", "Five days."), ("How do I pay?", "By card.")]
    found = title_pairs(folder)
    assert found.pairs == expected  # texts that repeat their title would teach to match equal words
    assert found.too_general == 1

    result = run(folder, "--titles", "--output", tmp_path / "pairs.csv")
    assert result.exit_code == 0, result.output
    assert not absent("1 … 10", result.output)
    data = read_dataset(tmp_path / "pairs.csv", "train")
    assert [(question.text, data.answers[question.positives[0]].text) for question in data.questions] == expected
    assert isinstance(run(folder, "--titles", "--output", tmp_path / "pairs.csv").exception, InputError)


def test_nothing_with_a_title(tmp_path: Path) -> None:
    (tmp_path / "echo.txt").write_text("Echo, echo.")
    with refused(f"{tmp_path} … none"):
        title_pairs(tmp_path)
    both = run(tmp_path, "--columns", "a,b", "--output", tmp_path / "x.csv").exception
    assert not absent("--columns … --titles", both)
