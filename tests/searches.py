"""A FAQ search of three entries; its checkpoint is not trained, so the order is whatever it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from conftest import ROOT, TEXTS, settings_of

from ap_ranker.data.faq import Entry, Match
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from haystack_integrations.common.ap_ranker.entries import to_document

ENTRIES = [Entry(question, answer, {}, "") for question, answer in zip(TEXTS[::2], TEXTS[1::2], strict=True)]
NASTY = Entry("<script>alert(1)</script> my <b>bike</b>?", '<img src=x onerror="alert(2)"> & \N{BICYCLE} bike', {}, "")


def write_pipeline(folder: Path, checkpoint: Path, **ranker: Any) -> Path:
    declared = yaml.safe_load((ROOT / "pipelines" / "faq_search.yaml").read_text())
    settings_of(declared)["ranker"] |= {"model": str(checkpoint), **ranker}
    path = folder / "search.yaml"
    path.write_text(yaml.safe_dump(declared))
    return path


def in_two(declared: dict[str, Any]) -> dict[str, Any]:
    """A packaged search as a pipeline of two components, as a user may have it."""
    return {
        "components": declared["components"]["search"]["init_parameters"],
        "connections": [{"sender": "retriever.documents", "receiver": "ranker.documents"}],
        "inputs": {"query": ["retriever.query", "ranker.query"]},
        "outputs": {"documents": "ranker.documents"},
    }


def filled(path: Path) -> DeclaredPipeline:
    search = DeclaredPipeline.load(path)
    search.index([to_document(entry, Match.both) for entry in [*ENTRIES, NASTY]])
    return search
