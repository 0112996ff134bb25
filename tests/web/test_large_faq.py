"""What the owner's page does of a large FAQ: a change of one entry costs no look at all others."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import ROOT

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from ap_ranker.data.faq import Match
from ap_ranker.documents.watched_folder import WatchedFolder
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.text.reading import normalized
from ap_ranker.web import changes as changes_module
from ap_ranker.web.changes import Action
from ap_ranker.web.database import open_database
from ap_ranker.web.owner import current_entries as current_module
from ap_ranker.web.owner import service as service_module
from ap_ranker.web.owner.service import OwnerService


def test_an_owners_change_costs_no_look_at_all_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it is made, the database is locked for all visitors: of 50,000 entries it was for seconds."""
    rows = "".join(f"where is thing {number},in box {number}\n" for number in range(500))
    (tmp_path / "FAQ.csv").write_text(f"question,answer\n{rows}")
    documents = WatchedFolder(tmp_path / "FAQ.csv")
    documents.read()
    search = DeclaredPipeline.load(ROOT / "pipelines" / "faq_search.yaml")
    owner_service = OwnerService(search, documents, Match.both, open_database(tmp_path / "FAQ.db"))
    hashed: list[str] = []
    hash_of = changes_module._hash
    monkeypatch.setattr(changes_module, "_hash", lambda *texts: hashed.append(texts[0]) or hash_of(*texts))
    owner_service.change(Action.add_entry, question="what is first", answer="This.")
    entries = owner_service.entries("thing")
    assert entries["count"] == 500
    hashed.clear()
    normalized_texts: list[str] = []
    for module in (changes_module, service_module, current_module):
        monkeypatch.setattr(module, "normalized", lambda text: normalized_texts.append(text) or normalized(text))
    for number in range(5):
        shown = owner_service.entries(f"thing {number}")["entries"][0]
        fields = {"entry": shown["key"], "question": shown["question"], "answer": f"In a crate, {number}."}
        owner_service.change(Action.change_entry, shown["version"], **fields)
        owner_service.change(Action.add_entry, question=f"what is next {number}", answer="That.")
        owner_service.change(Action.add_wordings, entry=shown["key"], wordings=(f"box of thing {number}",))
        assert owner_service.entries(f"in a crate, {number}")["count"] == 1
        assert owner_service.entries(f"box of thing {number}")["count"] == 1
        assert owner_service.entries(f"in box {number}")["count"] >= 1
    assert len(owner_service.history()) == 16
    assert len(hashed) < 300, "the keys of all entries, and the versions of those that are shown"
    assert len(normalized_texts) < 1000, "the questions of all entries once, and what is new"
