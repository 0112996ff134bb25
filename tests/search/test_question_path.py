"""A warm question of the default search takes a short way through the project, whatever the number of candidates."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT, TEXTS, settings_of, write_checkpoint
from haystack import Document

from ap_ranker.ranking.rule import FUSED, MODEL, Calibration
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from benchmarks.question_path import files_called

MOST_FILES = 21
"""Of a question of words that have been read before; the first time, `text/languages.py` finds a word's stem."""


def warm_search(folder: Path, size: int) -> DeclaredPipeline:
    """The packaged search by meaning over so many documents, which has answered two questions."""
    declared = yaml.safe_load((ROOT / "pipelines" / "faq_search_hybrid.yaml").read_text())
    parts = settings_of(declared)
    for part in ("retriever", "ranker"):
        parts[part]["model"] = str(folder / "checkpoint")
    path = folder / "search.yaml"
    path.write_text(yaml.safe_dump(declared))
    search = DeclaredPipeline.load(path)
    meta = [{"question": TEXTS[n % len(TEXTS)], "answer": f"answer {n}"} for n in range(size)]
    search.index([Document(content=f"{each['question']} {each['answer']}", meta=each) for each in meta])
    search.prepare()
    for question in TEXTS[:2]:
        search.run(question)
    return search


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a checkpoint as training leaves it: calibrated, with weights of known wordings and of BM25."""
    folder = tmp_path_factory.mktemp("path")
    calibration = {kind: Calibration(score=3.0, margin=1.0, bias=0.0, thresholds={}) for kind in (MODEL, FUSED)}
    weights: dict[str, Any] = {"wording_weight": 0.3, "bm25_weight": 0.02, "bm25_language": "english"}
    write_checkpoint("ap-transformer", folder / "checkpoint", calibration=calibration, **weights)
    return folder


def test_a_warm_question_passes_few_files_and_nothing_once_for_each_candidate(folder: Path) -> None:
    calls = {}
    for size in (40, 160):
        search = warm_search(folder, size)
        found = files_called(partial(search.run, " ".join(reversed(TEXTS[0].split()))), ROOT)
        assert len(found) <= MOST_FILES, "\n".join(sorted(found))
        calls[size] = sum(found.values())
    assert calls[160] < calls[40] + 40
