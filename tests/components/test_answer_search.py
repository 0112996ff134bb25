"""Retriever and ranker in one component find what a pipeline of the two finds, without its copies."""

from __future__ import annotations

import shutil
from copy import deepcopy
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT, TEXTS, reconfigure, settings_of, write_checkpoint
from haystack import Document
from searches import ENTRIES, filled, in_two

import ap_ranker
from ap_ranker.errors import InputError
from ap_ranker.ranking.decision import Decision
from ap_ranker.ranking.outcome import Outcome
from ap_ranker.ranking.rule import Calibration
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from haystack_integrations.components.retrievers.ap_ranker import AnswerSearch
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore
from haystack_integrations.document_stores.ap_ranker.documents import Found


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a model that also retrieves."""
    return write_checkpoint("ap-transformer", tmp_path_factory.mktemp("vectors") / "ranker")


def packaged(name: str, checkpoint: Path, folder: Path) -> Path:
    text = (ROOT / "pipelines" / name).read_text().replace("checkpoints/faq", str(checkpoint))
    (folder / name).write_text(text)
    return folder / name


def written(declared: dict[str, Any], folder: Path) -> Path:
    path = folder / "two.yaml"
    path.write_text(yaml.safe_dump(declared))
    return path


def test_lazy_export() -> None:
    assert ap_ranker.AnswerSearch is AnswerSearch


@pytest.mark.parametrize("name", ["faq_search.yaml", "faq_search_hybrid.yaml"])
def test_the_documents_are_those_of_a_pipeline_of_the_two(name: str, checkpoint: Path, tmp_path: Path) -> None:
    path = packaged(name, checkpoint, tmp_path)
    one, two = filled(path), filled(written(in_two(yaml.safe_load(path.read_text())), tmp_path))
    for question in [*TEXTS, "bike", "nothing of that"]:
        for limits in ({}, {"score_threshold": 0.4}):
            documents = one.run(question, limits, top_k=2)
            assert documents == two.run(question, limits, top_k=2)
            assert len(documents) <= 2
    assert one.run(TEXTS[0])


def test_the_decision_is_that_of_a_pipeline_of_the_two(checkpoint: Path, tmp_path: Path) -> None:
    """Whatever `top_k` says, and whatever is left out where there is an answer."""
    fit = Calibration(0.5, 9.0, 0.0, {"0.9": 0.8}, floor=-50.0)
    reconfigure(shutil.copytree(checkpoint, tmp_path / "calibrated"), calibration={"model": fit, "fused": fit})
    path = packaged("faq_search.yaml", tmp_path / "calibrated", tmp_path)
    one, two = filled(path), filled(written(in_two(yaml.safe_load(path.read_text())), tmp_path))
    outcomes = set()
    for question in [*TEXTS, "bike", "my parcel of money", "nothing of that"]:
        for limits in ({}, {"precision": 0.9}, {"score_threshold": 0.6, "precision": None}):
            documents, decision = one.answer(question, limits)
            outcomes.add(decision.outcome)
            for search, top_k in product((one, two), (None, 1, 2)):
                again, same = search.answer(question, limits, top_k)
                assert (same.outcome, same.basis) == (decision.outcome, decision.basis)
                assert same.probability == pytest.approx(decision.probability, abs=1e-6)
                assert [found.id for found in again] == [found.id for found in documents[:top_k]]
    assert outcomes == set(Outcome)


def test_filters(checkpoint: Path, tmp_path: Path) -> None:
    search = filled(packaged("faq_search_hybrid.yaml", checkpoint, tmp_path))
    wanted = {"field": "meta.answer", "operator": "==", "value": ENTRIES[1].answer}
    found = search.pipeline.run({"search": {"query": TEXTS[0], "filters": wanted}})["search"]["documents"]
    assert [document.meta["answer"] for document in found] == [ENTRIES[1].answer]


@pytest.mark.parametrize("name", ["faq_search_hybrid.yaml", "faq_search.yaml"])
def test_queries_that_are_searched_together(name: str, checkpoint: Path, tmp_path: Path) -> None:
    """Each gets what it gets alone, also the same one twice, and one that is none."""
    search = filled(packaged(name, checkpoint, tmp_path))
    queries = [*TEXTS, "hello", TEXTS[0], " ".join(reversed(TEXTS[1].split()))]
    together = search.answer_each(queries)
    for query, (documents, decision) in zip(queries, together, strict=True):
        alone, decision_alone = search.answer(query)
        assert [document.id for document in documents] == [document.id for document in alone]
        for document, document_alone in zip(documents, alone, strict=True):
            assert document.score == pytest.approx(document_alone.score, abs=1e-6)
        assert decision == replace(decision_alone, probability=decision.probability)
        assert decision.probability == pytest.approx(decision_alone.probability, abs=1e-6)


def test_neither_part_changes_what_it_is_given(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = filled(packaged("faq_search_hybrid.yaml", checkpoint, tmp_path))
    seen: list[tuple[Any, Any]] = []
    ranker = search.ranker()
    assert ranker is not None
    rank = ranker.rank_found

    def spied(queries: list[str], fetched: list[Found], **limits: Any) -> list[tuple[list[Document], Decision]]:
        [found] = fetched
        seen.append((found.documents, deepcopy([asdict(one) for one in found.documents])))
        return rank(queries, fetched, **limits)

    monkeypatch.setattr(ranker, "rank_found", spied)
    search.run(TEXTS[0])
    [(documents, before)] = seen
    assert len(documents) > 1
    assert [asdict(one) for one in documents] == before


def test_a_defect_is_told_as_it_is(checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search = filled(packaged("faq_search.yaml", checkpoint, tmp_path))

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no more paper")

    monkeypatch.setattr(search.ranker(), "rank_found", fail)
    with pytest.raises(RuntimeError, match="no more paper"):
        search.run(TEXTS[0])


def test_a_pipeline_of_other_components(checkpoint: Path, tmp_path: Path) -> None:
    """Two retrievers and a joiner: it goes Haystack's way."""
    declared = in_two(yaml.safe_load(packaged("faq_search.yaml", checkpoint, tmp_path).read_text()))
    alone = filled(written(declared, tmp_path)).run(TEXTS[0])
    parts = declared["components"]
    parts["joiner"] = {"type": "haystack.components.joiners.document_joiner.DocumentJoiner", "init_parameters": {}}
    parts["other"] = {**parts["retriever"], "init_parameters": {"document_store": BM25SDocumentStore().to_dict()}}
    pairs = [("retriever", "joiner"), ("other", "joiner"), ("joiner", "ranker")]
    declared["connections"] = [{"sender": f"{a}.documents", "receiver": f"{b}.documents"} for a, b in pairs]
    declared["inputs"]["query"].append("other.query")
    found = filled(written(declared, tmp_path)).run(TEXTS[0])
    assert {document.id for document in found} == {document.id for document in alone}


def test_a_query_that_does_not_reach_the_ranker_is_an_error(checkpoint: Path, tmp_path: Path) -> None:
    declared = in_two(yaml.safe_load(packaged("faq_search.yaml", checkpoint, tmp_path).read_text()))
    declared["inputs"]["query"] = "retriever.query"
    with pytest.raises((InputError, ValueError)):
        filled(written(declared, tmp_path)).run(TEXTS[0])


def test_every_setting_survives_yaml(checkpoint: Path, tmp_path: Path) -> None:
    search = DeclaredPipeline.load(packaged("faq_search_hybrid.yaml", checkpoint, tmp_path))
    text = search.pipeline.dumps()
    again = type(search.pipeline).loads(text)
    assert again.dumps() == text
    parts = settings_of(yaml.safe_load(text))
    assert (parts["retriever"]["rank_all"], parts["ranker"]["fuse_scores"]) == (200, True)
