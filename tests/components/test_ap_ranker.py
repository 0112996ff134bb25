"""APRanker does what Haystack's similarity ranker does: each of that component's tests has its counterpart here, on a
real checkpoint instead of a mock."""

from __future__ import annotations

import asyncio
import copy
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest
from haystack import Document, Pipeline
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.utils import ComponentDevice, Secret

import ap_ranker
from ap_ranker.errors import InputError
from ap_ranker.ranking.ranker import Ranker
from haystack_integrations.components.rankers.ap_ranker import APRanker

TYPE = "haystack_integrations.components.rankers.ap_ranker.ranker.APRanker"
CPU = ComponentDevice.from_str("cpu")
QUERY = "Where is my parcel?"
DOCUMENTS = [Document(content=text) for text in ("only the original battery", "open the tracking link", "the refund")]


@pytest.fixture
def ranker(checkpoint: Path) -> APRanker:
    return APRanker(model=str(checkpoint), device=CPU)


def raw_scores(checkpoint: Path, query: str, texts: list[str]) -> list[float]:
    return Ranker.from_pretrained(checkpoint, "cpu").score(query, texts).tolist()


# --- construction and serialisation ---------------------------------------------------------------------------------


@pytest.mark.parametrize("top_k", [0, -1])
def test_init_invalid_top_k(top_k: int) -> None:
    with pytest.raises(ValueError, match=f"top_k must be > 0, but got {top_k}"):
        APRanker(model="m", top_k=top_k)


def test_arguments_are_keyword_only() -> None:
    with pytest.raises(TypeError):
        APRanker("model")  # type: ignore[misc]


def test_light_init_and_lazy_idempotent_warm_up(checkpoint: Path) -> None:
    with patch.object(Ranker, "from_pretrained", wraps=Ranker.from_pretrained) as load:
        ranker = APRanker(model=checkpoint, device=CPU, token=Secret.from_token("t"))
        load.assert_not_called()
        ranker.warm_up()
        ranker.warm_up()
        ranker.run(query=QUERY, documents=DOCUMENTS)
        load.assert_called_once_with(str(checkpoint), "cpu", "t")


def test_to_dict() -> None:
    assert APRanker(model="m").to_dict() == {
        "type": TYPE,
        "init_parameters": {
            "model": "m",
            "device": ComponentDevice.resolve_device(None).to_dict(),
            "token": {"env_vars": ["HF_API_TOKEN", "HF_TOKEN"], "strict": False, "type": "env_var"},
            "top_k": 10,
            "query_prefix": "",
            "query_suffix": "",
            "document_prefix": "",
            "document_suffix": "",
            "meta_fields_to_embed": [],
            "embedding_separator": "\n",
            "scale_score": True,
            "score_threshold": None,
            "batch_size": 64,
        },
    }


CUSTOM = {
    "model": "m",
    "device": {"type": "single", "device": "cuda:0"},
    "token": {"env_vars": ["ENV_VAR"], "strict": False, "type": "env_var"},
    "top_k": 5,
    "query_prefix": "q: ",
    "query_suffix": "\n",
    "document_prefix": "d: ",
    "document_suffix": "\n",
    "meta_fields_to_embed": ["question"],
    "embedding_separator": " | ",
    "scale_score": False,
    "score_threshold": 0.01,
    "batch_size": 32,
}


def test_to_dict_with_custom_init_parameters() -> None:
    component = APRanker(
        model=Path("m"),
        device=ComponentDevice.from_str("cuda:0"),
        token=Secret.from_env_var("ENV_VAR", strict=False),
        top_k=5,
        query_prefix="q: ",
        query_suffix="\n",
        document_prefix="d: ",
        document_suffix="\n",
        meta_fields_to_embed=["question"],
        embedding_separator=" | ",
        scale_score=False,
        score_threshold=0.01,
        batch_size=32,
    )
    assert component.to_dict() == {"type": TYPE, "init_parameters": CUSTOM}


def test_from_dict() -> None:
    component = APRanker.from_dict({"type": TYPE, "init_parameters": copy.deepcopy(CUSTOM)})
    assert component.device == ComponentDevice.from_str("cuda:0")
    assert component.token == Secret.from_env_var("ENV_VAR", strict=False)
    for name in CUSTOM.keys() - {"device", "token"}:
        assert getattr(component, name) == CUSTOM[name]


def test_from_dict_no_default_parameters() -> None:
    component = APRanker.from_dict({"type": TYPE, "init_parameters": {"model": "m", "device": None}})
    assert component.device == ComponentDevice.resolve_device(None)
    assert component.to_dict() == APRanker(model="m").to_dict()


def test_a_missing_checkpoint_is_named_when_it_is_loaded() -> None:
    with pytest.raises(InputError, match=r"No checkpoint folder at 'no/such/place'"):
        APRanker(model="no/such/place").warm_up()


def test_re_export_is_the_same_class() -> None:
    assert ap_ranker.APRanker is APRanker


# --- run --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("top_k", [0, -1])
def test_run_invalid_top_k(ranker: APRanker, top_k: int) -> None:
    with pytest.raises(ValueError, match=f"top_k must be > 0, but got {top_k}"):
        ranker.run(query=QUERY, documents=DOCUMENTS, top_k=top_k)


def test_run_ranks_by_the_models_scores(ranker: APRanker, checkpoint: Path) -> None:
    scores = raw_scores(checkpoint, QUERY, [str(d.content) for d in DOCUMENTS])
    ranked = ranker.run(query=QUERY, documents=DOCUMENTS, scale_score=False)["documents"]
    expected = sorted(zip(scores, DOCUMENTS, strict=True), key=lambda pair: -pair[0])
    assert [d.id for d in ranked] == [d.id for _, d in expected]
    assert [d.score for d in ranked] == pytest.approx([score for score, _ in expected])
    assert all(type(d.score) is float for d in ranked)


def test_scale_score(ranker: APRanker) -> None:
    raw = ranker.run(query=QUERY, documents=DOCUMENTS, scale_score=False)["documents"]
    scaled = ranker.run(query=QUERY, documents=DOCUMENTS)["documents"]
    assert [d.id for d in scaled] == [d.id for d in raw]
    assert [d.score for d in scaled] == pytest.approx([(1 + d.score) / 2 for d in raw])


def test_run_time_false_overrides_scale_score(checkpoint: Path) -> None:
    on, off = (APRanker(model=checkpoint, device=CPU, scale_score=value) for value in (True, False))
    assert on.run(query=QUERY, documents=DOCUMENTS, scale_score=False) == off.run(query=QUERY, documents=DOCUMENTS)
    assert off.run(query=QUERY, documents=DOCUMENTS, scale_score=True) == on.run(query=QUERY, documents=DOCUMENTS)


def test_score_threshold_keeps_scores_at_or_above_it(checkpoint: Path) -> None:
    everything = APRanker(model=checkpoint, device=CPU).run(query=QUERY, documents=DOCUMENTS)["documents"]
    middle = everything[1].score
    kept = APRanker(model=checkpoint, device=CPU, score_threshold=middle).run(query=QUERY, documents=DOCUMENTS)
    assert kept["documents"] == everything[:2]


def test_run_time_zero_overrides_the_threshold(checkpoint: Path) -> None:
    ranker = APRanker(model=checkpoint, device=CPU, score_threshold=1.1)
    assert ranker.run(query=QUERY, documents=DOCUMENTS) == {"documents": []}
    assert len(ranker.run(query=QUERY, documents=DOCUMENTS, score_threshold=0.0)["documents"]) == 3


def test_threshold_before_top_k(ranker: APRanker) -> None:
    best = ranker.run(query=QUERY, documents=DOCUMENTS)["documents"]
    kept = ranker.run(query=QUERY, documents=DOCUMENTS, top_k=1, score_threshold=best[2].score)["documents"]
    assert kept == best[:1]
    assert ranker.run(query=QUERY, documents=DOCUMENTS, top_k=3, score_threshold=best[0].score)["documents"] == best[:1]


def test_run_top_k(checkpoint: Path) -> None:
    ranker = APRanker(model=checkpoint, device=CPU, top_k=2)
    assert len(ranker.run(query=QUERY, documents=DOCUMENTS)["documents"]) == 2
    assert len(ranker.run(query=QUERY, documents=DOCUMENTS, top_k=1)["documents"]) == 1
    assert len(ranker.run(query=QUERY, documents=DOCUMENTS, top_k=9)["documents"]) == 3


@pytest.mark.parametrize("documents", [[], None])
def test_no_documents(documents: list[Document] | None) -> None:
    ranker = APRanker(model="never/loaded")
    assert ranker.run(query=QUERY, documents=documents) == {"documents": []}  # type: ignore[arg-type]


def test_run_single_document(ranker: APRanker) -> None:
    ranked = ranker.run(query=QUERY, documents=DOCUMENTS[:1])["documents"]
    assert [d.content for d in ranked] == [DOCUMENTS[0].content]
    assert isinstance(ranked[0].score, float)


def test_run_deduplicates_documents(ranker: APRanker) -> None:
    documents = [
        Document(id="duplicate", content="drop me", score=0.1),
        Document(id="duplicate", content="keep me", score=0.9),
        Document(id="duplicate", content="drop me too"),
        Document(id="unique", content="unique"),
    ]
    ranked = ranker.run(query=QUERY, documents=documents)["documents"]
    assert {d.content for d in ranked} == {"keep me", "unique"}


def test_absent_content_is_empty_text(ranker: APRanker, checkpoint: Path) -> None:
    ranked = ranker.run(query=QUERY, documents=[Document(content=None)], scale_score=False)["documents"]
    assert ranked[0].content is None
    assert ranked[0].score == pytest.approx(raw_scores(checkpoint, QUERY, [""])[0])


def texts_seen(component: APRanker, documents: list[Document]) -> tuple[str, list[str]]:
    component.warm_up()
    assert component._ranker is not None
    with patch.object(component._ranker, "score", wraps=component._ranker.score) as score:
        component.run(query="query", documents=documents)
    question, texts, batch_size = score.call_args.args
    assert batch_size == component.batch_size
    return question, texts


def test_embed_meta(checkpoint: Path) -> None:
    component = APRanker(model=checkpoint, device=CPU, meta_fields_to_embed=["field"], embedding_separator="\n")
    documents = [Document(content=f"document {i}", meta={"field": f"value {i}"}) for i in range(3)]
    assert texts_seen(component, documents)[1] == [f"value {i}\ndocument {i}" for i in range(3)]


def test_embed_meta_preserves_falsy_values(checkpoint: Path) -> None:
    fields = ["rating", "is_available", "missing", "none_value"]
    component = APRanker(model=checkpoint, device=CPU, meta_fields_to_embed=fields)
    document = Document(content="document", meta={"rating": 0, "is_available": False, "none_value": None})
    assert texts_seen(component, [document])[1] == ["0\nFalse\ndocument"]


def test_prefix_and_suffix(checkpoint: Path) -> None:
    component = APRanker(
        model=checkpoint,
        device=CPU,
        query_prefix="ask: ",
        query_suffix=" !",
        document_prefix="doc: ",
        document_suffix=" .",
        batch_size=2,
    )
    assert texts_seen(component, [Document(content="a"), Document(content="b")]) == (
        "ask: query !",
        ["doc: a .", "doc: b ."],
    )


def test_stable_order_of_equal_scores(ranker: APRanker) -> None:
    documents = [Document(id=str(i), content="the same") for i in range(5)]
    assert [d.id for d in ranker.run(query=QUERY, documents=documents)["documents"]] == list("01234")


def test_inputs_are_never_modified(ranker: APRanker) -> None:
    documents = [Document(content="a", meta={"k": 1}, score=0.3), Document(content="b", score=None)]
    before = copy.deepcopy(documents)
    ranker.run(query=QUERY, documents=documents)
    assert documents == before
    assert [d.score for d in documents] == [0.3, None]


async def test_run_async_is_run(ranker: APRanker) -> None:
    found = await asyncio.gather(*(ranker.run_async(query=QUERY, documents=DOCUMENTS, top_k=2) for _ in range(4)))
    assert all(result == ranker.run(query=QUERY, documents=DOCUMENTS, top_k=2) for result in found)


def test_close_frees_the_model_and_run_loads_it_again(ranker: APRanker) -> None:
    first = ranker.run(query=QUERY, documents=DOCUMENTS)
    ranker.close()
    assert ranker._ranker is None
    assert ranker.run(query=QUERY, documents=DOCUMENTS) == first


# --- in pipelines -----------------------------------------------------------------------------------------------------


def build(model: Path | str) -> Pipeline:
    pipeline = Pipeline()
    pipeline.add_component("retriever", InMemoryBM25Retriever(InMemoryDocumentStore()))
    pipeline.add_component("ranker", APRanker(model=model, device=CPU))
    pipeline.connect("retriever.documents", "ranker.documents")
    return pipeline


def test_pipeline_round_trip(checkpoint: Path) -> None:
    text = build(checkpoint).dumps()
    again = Pipeline.loads(text)
    assert again.dumps() == text
    store = again.get_component("retriever").document_store
    store.write_documents(DOCUMENTS)
    found = again.run({"retriever": {"query": "tracking link"}, "ranker": {"query": "tracking link"}})
    assert found["ranker"]["documents"]


def test_yaml_loads_in_a_fresh_stock_haystack(checkpoint: Path, tmp_path: Path) -> None:
    """Another process, another folder, no allow-list: only the installed package."""
    (tmp_path / "p.yaml").write_text(build(checkpoint).dumps().replace("device:\n", "device:\n", 1))
    program = (
        "from haystack import Document, Pipeline\n"
        "pipeline = Pipeline.load(open('p.yaml'))\n"
        "pipeline.get_component('retriever').document_store.write_documents([Document(content='a parcel')])\n"
        "q = {'query': 'parcel'}\n"
        "print(pipeline.run({'retriever': q, 'ranker': q})['ranker']['documents'][0].content)\n"
    )
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("HAYSTACK_", "PYTHONPATH"))}
    result = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**clean, "HAYSTACK_TELEMETRY_ENABLED": "false"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (result.returncode, result.stdout) == (0, "a parcel\n"), result.stderr
