from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from benchmarks.large_stores import main, opened, write
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore


def test_the_store_that_is_measured(tmp_path: Path) -> None:
    """Different entries, found both ways."""
    write(tmp_path / "store", 250)
    store = BM25SDocumentStore(tmp_path / "store")
    assert len({document.content for document in store.filter_documents()}) == store.count_documents() == 250
    assert store.bm25_retrieval("bike battery")
    assert len(store.embedding_retrieval([0.5] * 384)) == 10
    store.close()
    seconds, megabytes, words, meaning = opened(tmp_path / "store")
    assert 0 < words < 1000 * seconds
    assert 0 < meaning < 1000 * seconds
    assert megabytes >= 0


@pytest.mark.slow
def test_the_table() -> None:
    app = typer.Typer()
    app.command()(main)
    result = CliRunner().invoke(app, ["--sizes", "20,30"])
    assert result.exit_code == 0, result.output
    rows = re.findall(r"^\| (\d+) \|((?: [\d.]+ \|){6})$", result.output, re.MULTILINE)
    assert [size for size, _ in rows] == ["20", "30"]
