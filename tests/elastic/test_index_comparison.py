"""`ap-ranker index --test`: a search that answers questions worse than the one before does not take its place."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from conftest import ROOT, reconfigure, write_checkpoint
from refusals import absent, assert_refusal, refused
from typer.testing import CliRunner, Result

from ap_ranker.cli.main import app
from ap_ranker.data.faq import Match
from ap_ranker.data.reader import read_dataset
from ap_ranker.ranking.earlier_checkpoints import keep_former
from ap_ranker.search.evaluate_pipeline import evaluate_pipeline
from ap_ranker.search.sync_store import index_faq
from elastic.conftest import Search

EXAMPLE = ROOT / "examples" / "faq"
ASKED = 25
"""Number of questions, of the example's 504: one is a second question to a busy server."""


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Untrained, of random weights, whose order is BM25's."""
    folder = tmp_path_factory.mktemp("checkpoints") / "good"
    return write_checkpoint("qa-cnn", folder, training={"epochs": 0}, bm25_weight=50.0, bm25_language="english")


@pytest.fixture(scope="module")
def bad(good: Path) -> Path:
    """The same without BM25, so that its order is random."""
    folder = good.parent / "bad"
    shutil.copytree(good, folder)
    return reconfigure(folder, bm25_weight=0.0)


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    """Questions of users about the example FAQ."""
    rows = (EXAMPLE / "test.csv").read_text(encoding="utf-8").splitlines()
    path = tmp_path / "test.csv"
    path.write_text("\n".join(rows[: 1 + ASKED]), encoding="utf-8")
    return path


def index(search: Search, checkpoint: Path, *options: object) -> Result:
    search.write_pipelines(checkpoint)
    command = ["index", EXAMPLE / "answers.csv", "--pipeline", search.indexing, *options]
    return CliRunner().invoke(app, list(map(str, command)), catch_exceptions=False)


def test_a_worse_search_is_not_taken(search: Search, good: Path, bad: Path, questions: Path) -> None:
    """Neither by the name nor by a server, until it is wanted all the same; a better one is."""
    first = index(search, good, "--test", questions)
    assert first.exit_code == 0
    assert not absent("MRR … no index", first.output)
    before = search.current()
    refused = index(search, bad, "--test", questions)
    assert refused.exit_code == 3
    assert not absent(f"{before} … MRR … --test", " ".join(refused.output.split()))
    assert search.current() == before
    asked = CliRunner().invoke(app, ["ask", "Where is my parcel?", "--pipeline", str(search.searching)])
    assert_refusal("complete", asked.exception)

    assert index(search, bad).exit_code == 0
    assert search.current() != before
    better = index(search, good, "--test", questions)
    assert better.exit_code == 0
    assert search.current() == before


def test_its_numbers_are_those_of_the_search_as_served(search: Search, good: Path, bad: Path, questions: Path) -> None:
    answers = EXAMPLE / "answers.csv"
    search.write_pipelines(bad)
    index_faq(answers, search.indexing)
    search.write_pipelines(good)
    comparison = index_faq(answers, search.indexing, test=questions).comparison
    assert comparison is not None
    assert comparison.verdict is not None
    assert comparison.verdict.mrr_before < comparison.verdict.mrr_after
    data = read_dataset(questions, "test", answers=answers)
    served = evaluate_pipeline(search.searching, data, checkpoint=str(good), faq=answers, match=Match.both, near=None)
    assert comparison.verdict.n_questions == len(data.answerable)
    assert comparison.verdict.mrr_after == pytest.approx(served.measures["MRR"], abs=0.005)


def test_the_checkpoint_before_is_looked_for(
    search: Search, good: Path, bad: Path, questions: Path, tmp_path: Path
) -> None:
    """It is among the earlier ones of the folder where another has taken its place; without it, nothing is compared."""
    live = tmp_path / "live"
    shutil.copytree(good, live)
    index(search, live)
    before = search.current()
    keep_former(live)
    shutil.rmtree(live)
    shutil.copytree(bad, live)
    assert index(search, live, "--test", questions).exit_code == 3
    assert search.current() == before
    shutil.rmtree(f"{live}.earlier")
    alone = index(search, live, "--test", questions)
    assert alone.exit_code == 0
    assert not absent(f"MRR … {before}", " ".join(alone.output.split()))
    assert search.current() != before


def test_questions_of_another_faq_are_refused(search: Search, good: Path, tmp_path: Path) -> None:
    """Before anything is written."""
    search.write_pipelines(good)
    (tmp_path / "test.csv").write_text("question,answer\nwhat is it,something else\n")
    with refused("test.csv"):
        index(search, good, "--test", tmp_path / "test.csv")
    assert search.indexes() == []
