"""The components do what Haystack's similarity ranker does: each of that component's tests has its counterpart here, on
a real checkpoint instead of a mock, for each of our components."""

from __future__ import annotations

import asyncio
import copy
import json
import math
import os
import shutil
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, get_args
from unittest.mock import patch

import pytest
import torch
import yaml
from conftest import reconfigure, write_checkpoint
from haystack import Document, Pipeline
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.utils import ComponentDevice, DeviceMap, Secret
from refusals import absent, refused

import ap_ranker
from ap_ranker.models.registry import MODELS
from ap_ranker.models.spec import Family
from ap_ranker.ranking.bm25 import BM25_SCORE
from ap_ranker.ranking.checkpoint import read_checkpoint_config, write_checkpoint_config
from ap_ranker.ranking.encode_corpus import encode_corpus
from ap_ranker.ranking.outcome import Outcome
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.rule import Calibration
from haystack_integrations.components.rankers.ap_ranker import ABCNNRanker, AnswerRanker, APRanker, GlobalLocalRanker
from haystack_integrations.components.retrievers.ap_ranker import FAQSearch

Component = type[AnswerRanker]
COMPONENTS = [APRanker, GlobalLocalRanker, ABCNNRanker, AnswerRanker]
FAMILIES = get_args(Family)

CPU = ComponentDevice.from_str("cpu")
QUERY = "Where is my parcel?"
DOCUMENTS = [Document(content=text) for text in ("only the original battery", "open the tracking link", "the refund")]


def type_of(component: Component) -> str:
    """What users' YAML says."""
    return f"haystack_integrations.components.rankers.ap_ranker.ranker.{component.__name__}"


def models_of(family: str) -> list[str]:
    return [name for name, spec in MODELS.items() if spec.family == family]


def first_model(family: str) -> str:
    """One model stands for its family."""
    return models_of(family)[0]


@pytest.fixture(scope="module", params=COMPONENTS)
def component(request: pytest.FixtureRequest) -> Component:
    """Each component in turn."""
    return request.param  # type: ignore[no-any-return]


def checkpoint_for(component: Component, folder: Path) -> Path:
    """An untrained checkpoint that the component loads."""
    return write_checkpoint(first_model(component.family or "survey"), folder)


@pytest.fixture(scope="module")
def checkpoint(component: Component, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoint_for(component, tmp_path_factory.mktemp("checkpoints") / "tiny")


@pytest.fixture
def ranker(component: Component, checkpoint: Path) -> AnswerRanker:
    return component(model=str(checkpoint), device=CPU)


def raw_scores(checkpoint: Path, query: str, texts: list[str]) -> list[float]:
    return Ranker.from_pretrained(checkpoint, "cpu").score(query, texts).tolist()


# --- construction and serialisation ---------------------------------------------------------------------------------


@pytest.mark.parametrize("top_k", [0, -1])
def test_init_invalid_top_k(component: Component, top_k: int) -> None:
    with refused(f"top_k … 1 … {top_k}", by=ValueError):
        component(model="m", top_k=top_k)


def test_arguments_are_keyword_only(component: Component) -> None:
    with pytest.raises(TypeError):
        component("model")  # type: ignore[misc]


def test_light_init_and_lazy_idempotent_warm_up(component: Component, checkpoint: Path) -> None:
    with patch.object(Ranker, "from_pretrained", wraps=Ranker.from_pretrained) as load:
        ranker = component(model=checkpoint, device=CPU, token=Secret.from_token("t"))
        load.assert_not_called()
        ranker.warm_up()
        ranker.warm_up()
        ranker.run(query=QUERY, documents=DOCUMENTS)
        load.assert_called_once()
        assert load.call_args.args == (str(checkpoint), "cpu", "t")


def test_to_dict(component: Component) -> None:
    assert component(model="m").to_dict() == {
        "type": type_of(component),
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
            "fuse_scores": False,
            "precision": None,
            "wordings": None,
            "cache": {"megabytes": 256, "dtype": None, "folder": None, "encodings": None},
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
    "fuse_scores": False,
    "precision": None,
    "wordings": ["train.csv", "more.csv"],
    "cache": {"megabytes": 5, "dtype": "int8", "folder": "states", "encodings": "corpus"},
}


def test_to_dict_with_custom_init_parameters(component: Component) -> None:
    ranker = component(
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
        cache={"megabytes": 5, "dtype": "int8", "folder": Path("states"), "encodings": Path("corpus")},
        wordings=["train.csv", "more.csv"],
    )
    assert ranker.to_dict() == {"type": type_of(component), "init_parameters": CUSTOM}


def test_from_dict(component: Component) -> None:
    ranker = component.from_dict({"type": type_of(component), "init_parameters": copy.deepcopy(CUSTOM)})
    assert ranker.device == ComponentDevice.from_str("cuda:0")
    assert ranker.token == Secret.from_env_var("ENV_VAR", strict=False)
    for name in CUSTOM.keys() - {"device", "token"}:
        assert getattr(ranker, name) == CUSTOM[name]


def test_from_dict_no_default_parameters(component: Component) -> None:
    ranker = component.from_dict({"type": type_of(component), "init_parameters": {"model": "m", "device": None}})
    assert ranker.device == ComponentDevice.resolve_device(None)
    assert ranker.to_dict() == component(model="m").to_dict()


def test_a_missing_checkpoint_is_named_when_it_is_loaded(component: Component) -> None:
    with refused("no/such/place"):
        component(model="no/such/place").warm_up()


def test_re_export_is_the_same_class(component: Component) -> None:
    assert getattr(ap_ranker, component.__name__) is component


# --- run --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("top_k", [0, -1])
def test_run_invalid_top_k(ranker: AnswerRanker, top_k: int) -> None:
    with refused(f"top_k … 1 … {top_k}", by=ValueError):
        ranker.run(query=QUERY, documents=DOCUMENTS, top_k=top_k)


def test_run_ranks_by_the_models_scores(ranker: AnswerRanker, checkpoint: Path) -> None:
    scores = raw_scores(checkpoint, QUERY, [str(d.content) for d in DOCUMENTS])
    ranked = ranker.run(query=QUERY, documents=DOCUMENTS, scale_score=False)["documents"]
    expected = sorted(zip(scores, DOCUMENTS, strict=True), key=lambda pair: -pair[0])
    assert [d.id for d in ranked] == [d.id for _, d in expected]
    assert [d.score for d in ranked] == pytest.approx([score for score, _ in expected])
    assert all(type(d.score) is float for d in ranked)


def test_scale_score(ranker: AnswerRanker) -> None:
    raw = ranker.run(query=QUERY, documents=DOCUMENTS, scale_score=False)["documents"]
    scaled = ranker.run(query=QUERY, documents=DOCUMENTS)["documents"]
    assert [d.id for d in scaled] == [d.id for d in raw]
    assert ranker.loaded.ranker is not None
    expected = ranker.loaded.ranker.model.scale(torch.tensor([d.score for d in raw]))
    assert [d.score for d in scaled] == pytest.approx(expected.tolist())
    assert all(0 <= d.score <= 1 for d in scaled)


def test_run_time_false_overrides_scale_score(component: Component, checkpoint: Path) -> None:
    on, off = (component(model=checkpoint, device=CPU, scale_score=value) for value in (True, False))
    assert on.run(query=QUERY, documents=DOCUMENTS, scale_score=False) == off.run(query=QUERY, documents=DOCUMENTS)
    assert off.run(query=QUERY, documents=DOCUMENTS, scale_score=True) == on.run(query=QUERY, documents=DOCUMENTS)


def scored(documents: list[Document]) -> list[tuple[str, float | None]]:
    """What is returned, best first, without the decision that comes with it."""
    return [(document.id, document.score) for document in documents]


def test_score_threshold_keeps_scores_at_or_above_it(component: Component, checkpoint: Path) -> None:
    everything = component(model=checkpoint, device=CPU).run(query=QUERY, documents=DOCUMENTS)["documents"]
    middle = everything[1].score
    kept = component(model=checkpoint, device=CPU, score_threshold=middle).run(query=QUERY, documents=DOCUMENTS)
    assert scored(kept["documents"]) == scored(everything[:2])


def test_run_time_zero_overrides_the_threshold(component: Component, checkpoint: Path) -> None:
    ranker = component(model=checkpoint, device=CPU, score_threshold=1.1)
    assert ranker.run(query=QUERY, documents=DOCUMENTS) == {"documents": []}
    assert len(ranker.run(query=QUERY, documents=DOCUMENTS, score_threshold=0.0)["documents"]) == 3


def test_threshold_before_top_k(ranker: AnswerRanker) -> None:
    best = ranker.run(query=QUERY, documents=DOCUMENTS)["documents"]
    kept = ranker.run(query=QUERY, documents=DOCUMENTS, top_k=1, score_threshold=best[2].score)["documents"]
    assert scored(kept) == scored(best[:1])
    kept = ranker.run(query=QUERY, documents=DOCUMENTS, top_k=3, score_threshold=best[0].score)["documents"]
    assert scored(kept) == scored(best[:1])


def test_run_top_k(component: Component, checkpoint: Path) -> None:
    ranker = component(model=checkpoint, device=CPU, top_k=2)
    assert len(ranker.run(query=QUERY, documents=DOCUMENTS)["documents"]) == 2
    assert len(ranker.run(query=QUERY, documents=DOCUMENTS, top_k=1)["documents"]) == 1
    assert len(ranker.run(query=QUERY, documents=DOCUMENTS, top_k=9)["documents"]) == 3


@pytest.mark.parametrize("documents", [[], None])
def test_no_documents(component: Component, documents: list[Document] | None) -> None:
    ranker = component(model="never/loaded")
    assert ranker.run(query=QUERY, documents=documents) == {"documents": []}  # type: ignore[arg-type]


def test_run_single_document(ranker: AnswerRanker) -> None:
    ranked = ranker.run(query=QUERY, documents=DOCUMENTS[:1])["documents"]
    assert [d.content for d in ranked] == [DOCUMENTS[0].content]
    assert isinstance(ranked[0].score, float)


def test_run_deduplicates_documents(ranker: AnswerRanker) -> None:
    documents = [
        Document(id="duplicate", content="drop me", score=0.1),
        Document(id="duplicate", content="no number", score=math.nan),
        Document(id="duplicate", content="keep me", score=0.9),
        Document(id="duplicate", content="drop me too"),
        Document(id="unique", content="unique"),
    ]
    ranked = ranker.run(query=QUERY, documents=documents)["documents"]
    assert {d.content for d in ranked} == {"keep me", "unique"}


@pytest.mark.parametrize("scores", [(math.nan, 0.5, 0.1), (math.nan, None, 0.5), (0.5, math.nan, None), (0.5, 0.5)])
def test_the_best_of_equal_ids_has_a_number(ranker: AnswerRanker, scores: tuple[float | None, ...]) -> None:
    documents = [Document(id="one", content=str(score), score=score) for score in scores]
    [ranked] = ranker.run(query=QUERY, documents=documents)["documents"]
    assert ranked.content == "0.5"


def test_one_device(component: Component) -> None:
    several = ComponentDevice.from_multiple(DeviceMap.from_dict({"encoder": "cpu", "matcher": "cpu"}))
    with refused("one device … encoder"):
        component(model="m", device=several)


def test_absent_content_is_empty_text(ranker: AnswerRanker, checkpoint: Path) -> None:
    ranked = ranker.run(query=QUERY, documents=[Document(content=None)], scale_score=False)["documents"]
    assert ranked[0].content is None
    assert ranked[0].score == pytest.approx(raw_scores(checkpoint, QUERY, [""])[0])


def texts_seen(ranker: AnswerRanker, documents: list[Document]) -> tuple[str, list[str]]:
    ranker.warm_up()
    assert ranker.loaded.ranker is not None
    with patch.object(ranker.loaded.ranker, "score_batch", wraps=ranker.loaded.ranker.score_batch) as score:
        ranker.run(query="query", documents=documents)
    [asked], batch_size = score.call_args.args
    assert batch_size == ranker.batch_size
    return asked.question, asked.answers


# --- answers encoded once -------------------------------------------------------------------------------------------


def test_a_document_is_encoded_once(component: Component, checkpoint: Path) -> None:
    ranker = component(model=checkpoint, device=CPU)
    assert ranker.cache_info is None
    first = ranker.run(query=QUERY, documents=DOCUMENTS)
    assert ranker.run(query=QUERY, documents=DOCUMENTS) == first
    info = ranker.cache_info
    assert info is not None
    assert (info.hits, info.misses, info.entries) == (3, 3, 3)
    ranker.run(query=QUERY, documents=[*DOCUMENTS[1:], replace(DOCUMENTS[0], content="only the genuine battery")])
    info = ranker.cache_info
    assert info is not None
    assert (info.hits, info.misses, info.entries) == (5, 4, 4)


def test_without_a_cache(component: Component, checkpoint: Path) -> None:
    ranker = component(model=checkpoint, device=CPU, cache={"megabytes": 0})
    with_cache = component(model=checkpoint, device=CPU)
    found = ranker.run(query=QUERY, documents=DOCUMENTS)["documents"]
    expected = with_cache.run(query=QUERY, documents=DOCUMENTS)["documents"]
    assert [d.id for d in found] == [d.id for d in expected]
    assert [d.score for d in found] == pytest.approx([d.score for d in expected])
    assert ranker.cache_info is None


def test_encodings_make_a_restart_warm(component: Component, checkpoint: Path, tmp_path: Path) -> None:
    encode_corpus(checkpoint, [str(d.content) for d in DOCUMENTS], tmp_path / "e", device="cpu")
    ranker = component(model=checkpoint, device=CPU, cache={"encodings": tmp_path / "e"})
    ranker.warm_up()
    assert ranker.loaded.ranker is not None
    with patch.object(ranker.loaded.ranker, "encode_answers") as encode:
        found = ranker.run(query=QUERY, documents=DOCUMENTS, scale_score=False)["documents"]
        encode.assert_not_called()
    expected = sorted(raw_scores(checkpoint, QUERY, [str(d.content) for d in DOCUMENTS]), reverse=True)
    assert [d.score for d in found] == pytest.approx(expected, abs=2e-2)


def test_encodings_of_another_checkpoint(component: Component, checkpoint: Path, tmp_path: Path) -> None:
    encode_corpus(write_checkpoint("hyperqa", tmp_path / "other"), ["a"], tmp_path / "e", device="cpu")
    with refused("hyperqa"):
        component(model=checkpoint, device=CPU, cache={"encodings": tmp_path / "e"}).warm_up()


def test_unknown_cache_dtype(component: Component) -> None:
    with refused("cache … dtype … float32, float16, int8, int4 … half", by=ValueError):
        component(model="m", cache={"dtype": "half"})


def test_concurrent_runs_share_the_cache(component: Component, checkpoint: Path) -> None:
    ranker = component(model=checkpoint, device=CPU, cache={"megabytes": 1})
    expected = component(model=checkpoint, device=CPU, cache={"megabytes": 0}).run(query=QUERY, documents=DOCUMENTS)

    async def several() -> list[dict[str, list[Document]]]:
        return await asyncio.gather(*(ranker.run_async(query=QUERY, documents=DOCUMENTS) for _ in range(16)))

    for result in asyncio.run(several()):
        assert [d.id for d in result["documents"]] == [d.id for d in expected["documents"]]


def test_embed_meta(component: Component, checkpoint: Path) -> None:
    ranker = component(model=checkpoint, device=CPU, meta_fields_to_embed=["field"], embedding_separator="\n")
    documents = [Document(content=f"document {i}", meta={"field": f"value {i}"}) for i in range(3)]
    assert texts_seen(ranker, documents)[1] == [f"value {i}\ndocument {i}" for i in range(3)]


def test_embed_meta_preserves_falsy_values(component: Component, checkpoint: Path) -> None:
    fields = ["rating", "is_available", "missing", "none_value"]
    ranker = component(model=checkpoint, device=CPU, meta_fields_to_embed=fields)
    document = Document(content="document", meta={"rating": 0, "is_available": False, "none_value": None})
    assert texts_seen(ranker, [document])[1] == ["0\nFalse\ndocument"]


def test_prefix_and_suffix(component: Component, checkpoint: Path) -> None:
    ranker = component(
        model=checkpoint,
        device=CPU,
        query_prefix="ask: ",
        query_suffix=" !",
        document_prefix="doc: ",
        document_suffix=" .",
        batch_size=2,
    )
    assert texts_seen(ranker, [Document(content="a"), Document(content="b")]) == (
        "ask: query !",
        ["doc: a .", "doc: b ."],
    )


def test_stable_order_of_equal_scores(ranker: AnswerRanker) -> None:
    documents = [Document(id=str(i), content="the same") for i in range(5)]
    assert [d.id for d in ranker.run(query=QUERY, documents=documents)["documents"]] == list("01234")


def test_inputs_are_never_modified(ranker: AnswerRanker) -> None:
    documents = [Document(content="a", meta={"k": 1}, score=0.3), Document(content="b", score=None)]
    before = copy.deepcopy(documents)
    ranker.run(query=QUERY, documents=documents)
    assert documents == before
    assert [d.score for d in documents] == [0.3, None]


def test_close_frees_the_model_and_run_loads_it_again(ranker: AnswerRanker) -> None:
    first = ranker.run(query=QUERY, documents=DOCUMENTS)
    ranker.close()
    assert ranker.loaded.ranker is None
    assert ranker.run(query=QUERY, documents=DOCUMENTS) == first


# --- in pipelines -----------------------------------------------------------------------------------------------------


def build(component: Component, model: Path | str) -> Pipeline:
    pipeline = Pipeline()
    pipeline.add_component("retriever", InMemoryBM25Retriever(InMemoryDocumentStore()))
    pipeline.add_component("ranker", component(model=model, device=CPU))
    pipeline.connect("retriever.documents", "ranker.documents")
    return pipeline


def test_pipeline_round_trip(component: Component, checkpoint: Path) -> None:
    text = build(component, checkpoint).dumps()
    again = Pipeline.loads(text)
    assert again.dumps() == text
    store = again.get_component("retriever").document_store
    store.write_documents(DOCUMENTS)
    found = again.run({"retriever": {"query": "tracking link"}, "ranker": {"query": "tracking link"}})
    assert found["ranker"]["documents"]


def test_yaml_loads_in_a_fresh_stock_haystack(tmp_path: Path, faq: Path) -> None:
    """Another process, another folder, no allow-list: only the installed package, which is new to each pipeline."""
    for kind in COMPONENTS:
        text = build(kind, checkpoint_for(kind, tmp_path / kind.__name__)).dumps()
        (tmp_path / f"{kind.__name__}.yaml").write_text(text)
    fused = write_checkpoint("ap-cnn", tmp_path / "fused", bm25_weight=0.3, bm25_language="english")
    search: dict[str, Any] = {"model": str(fused), "documents": str(faq)}  # what is not declared is as in Python
    declared = {"type": f"{FAQSearch.__module__}.FAQSearch", "init_parameters": search}
    (tmp_path / "FAQSearch.yaml").write_text(yaml.safe_dump({"components": {"search": declared}, "connections": []}))
    searched = FAQSearch(**search).run(query="parcel")["documents"]
    expected: dict[str, list[str | None]] = {kind.__name__: ["a parcel"] for kind in COMPONENTS}
    expected["FAQSearch"] = [each.content for each in searched]
    program = """
import json, os, sys
import torch
from haystack import Document, Pipeline
torch.set_num_threads(1)  # copies of a process have none of its threads
assert not any(name.startswith(("ap_ranker", "haystack_integrations")) for name in sys.modules)
for name in sys.argv[1:]:
    if os.fork():
        assert os.wait()[1] == 0, name
        continue
    code = 1
    try:
        pipeline = Pipeline.load(open(f"{name}.yaml"))
        q = {"query": "parcel"}
        if name == "FAQSearch":
            found = pipeline.run({"search": q})["search"]["documents"]
        else:
            pipeline.get_component("retriever").document_store.write_documents([Document(content="a parcel")])
            found = pipeline.run({"retriever": q, "ranker": q})["ranker"]["documents"]
        print(json.dumps([name, [each.content for each in found]]), flush=True)
        code = 0
    except BaseException as error:
        print(repr(error), file=sys.stderr, flush=True)
    finally:
        os._exit(code)
"""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("HAYSTACK_", "PYTHONPATH"))}
    result = subprocess.run(
        [sys.executable, "-c", program, *expected],
        cwd=tmp_path,
        env={**clean, "HAYSTACK_TELEMETRY_ENABLED": "false"},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert dict(map(json.loads, result.stdout.splitlines())) == expected


# --- families ---------------------------------------------------------------------------------------------------------


def test_scaled_cosines(tmp_path: Path) -> None:
    ranker = APRanker(model=write_checkpoint("ap-cnn", tmp_path / "c"), device=CPU)
    raw = ranker.run(query=QUERY, documents=DOCUMENTS, scale_score=False)["documents"]
    scaled = ranker.run(query=QUERY, documents=DOCUMENTS)["documents"]
    assert [d.score for d in scaled] == pytest.approx([(1 + d.score) / 2 for d in raw])


def test_each_component_documents_itself(component: Component) -> None:
    assert "AnswerRanker" in (component.__doc__ or "")


def test_answer_ranker_loads_every_model(name: str, tmp_path: Path) -> None:
    ranker = AnswerRanker(model=write_checkpoint(name, tmp_path / "c"), device=CPU)
    assert len(ranker.run(query=QUERY, documents=DOCUMENTS)["documents"]) == 3


@pytest.mark.parametrize(
    ("component", "family"),
    [(c, f) for c in COMPONENTS if c.family for f in FAMILIES if f != c.family],
)
def test_a_checkpoint_of_another_family_is_refused(component: Component, family: str, tmp_path: Path) -> None:
    found = first_model(family)
    folder = write_checkpoint(found, tmp_path / "c")
    ranker = component(model=folder, device=CPU)
    loads = (
        ranker.warm_up,
        lambda: ranker.run(query=QUERY, documents=DOCUMENTS),
        lambda: build(component, folder).run({"retriever": {"query": QUERY}, "ranker": {"query": QUERY}}),
    )
    for load in loads:
        with refused(f"{folder} … {component.family} … {found} … {family} … AnswerRanker"):
            load()


@pytest.fixture(scope="module")
def weighted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint for which BM25's score counts a tenth."""
    folder = write_checkpoint("ap-cnn", tmp_path_factory.mktemp("weighted") / "checkpoint")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"bm25_weight": 0.1}))
    return folder


@pytest.mark.parametrize("scale_score", [False, True])
def test_fused_scores_are_the_models_plus_the_weighted_ones_of_bm25(weighted: Path, scale_score: bool) -> None:
    documents = [
        replace(one, meta={"ap_ranker": {"bm25_score": float(number * 5)}}) for number, one in enumerate(DOCUMENTS)
    ]
    alone = APRanker(model=weighted, device=CPU, scale_score=False).run(query=QUERY, documents=documents)["documents"]
    fused = APRanker(model=weighted, device=CPU, scale_score=scale_score, fuse_scores=True)
    found = fused.run(query=QUERY, documents=documents)["documents"]
    given = {document.id: document.meta["ap_ranker"]["bm25_score"] for document in documents}
    expected = {document.id: document.score + 0.1 * given[document.id] for document in alone}
    if scale_score:
        expected = {name: 0.5 + math.atan(score) / math.pi for name, score in expected.items()}
        assert all(0 < score < 1 for score in expected.values())
    assert {document.id: document.score for document in found} == pytest.approx(expected, abs=1e-6)
    assert [document.score for document in found] == pytest.approx(sorted(expected.values(), reverse=True), abs=1e-6)
    assert APRanker.from_dict(fused.to_dict()).fuse_scores


def test_fusion_without_a_weight_changes_nothing(component: Component, checkpoint: Path) -> None:
    plain, fused = (component(model=checkpoint, device=CPU, fuse_scores=fuse) for fuse in (False, True))
    assert plain.run(query=QUERY, documents=DOCUMENTS) == fused.run(query=QUERY, documents=DOCUMENTS)


def test_fusion_needs_bm25s_score_of_every_document(weighted: Path, caplog: pytest.LogCaptureFixture) -> None:
    documents = [replace(DOCUMENTS[0], meta={"ap_ranker": {"bm25_score": 3.0}}), *DOCUMENTS[1:]]
    ranker = APRanker(model=weighted, device=CPU, fuse_scores=True)
    alone = APRanker(model=weighted, device=CPU)
    for _ in range(2):
        assert ranker.run(query=QUERY, documents=documents) == alone.run(query=QUERY, documents=documents)
    [warning] = caplog.messages
    assert not absent("fuse_scores … 2 of 3 … meta['ap_ranker']['bm25_score'] … BM25SRetriever … BM25Scores", warning)


def test_scores_of_another_stemmer_are_added_with_a_warning(weighted: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The checkpoint knows no stemmer; documents that do not name theirs are believed."""
    documents = [
        replace(one, meta={"ap_ranker": {"bm25_score": float(number)}}) for number, one in enumerate(DOCUMENTS)
    ]
    plain, stemmed = (
        [replace(one, meta={"ap_ranker": {**one.meta["ap_ranker"], "bm25_language": name}}) for one in documents]
        for name in (None, "english")
    )
    ranker = APRanker(model=weighted, device=CPU, fuse_scores=True)
    results = [ranker.run(query=QUERY, documents=each)["documents"] for each in (documents, plain, documents)]
    assert not caplog.records
    results += [ranker.run(query=QUERY, documents=each)["documents"] for each in (stemmed, stemmed)]
    assert len({tuple((one.id, one.score) for one in each) for each in results}) == 1
    [warning] = [record.getMessage() for record in caplog.records]
    assert not absent(f"language: english … {weighted} … language: null", warning)


@pytest.mark.parametrize(("found", "warned"), [("english", False), (None, True), ("german", True)])
def test_a_stemmed_checkpoint_takes_its_own_stemmer(
    weighted: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, found: str | None, warned: bool
) -> None:
    folder = reconfigure(shutil.copytree(weighted, tmp_path / "stemmed"), bm25_language="english")
    documents = [replace(one, meta={"ap_ranker": {"bm25_score": 1.0, "bm25_language": found}}) for one in DOCUMENTS]
    APRanker(model=folder, device=CPU, fuse_scores=True).run(query=QUERY, documents=documents)
    assert [f"language: {found or 'null'}, and" in record.getMessage() for record in caplog.records] == [True] * warned


# --- reasons ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[name for name, spec in MODELS.items() if spec.attention_over])
def attentive(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained checkpoint of each model with attention."""
    return write_checkpoint(request.param, tmp_path_factory.mktemp("attentive") / request.param)


async def test_explain_adds_reasons_and_nothing_else(attentive: Path) -> None:
    documents = [replace(document, meta={"stored": number}) for number, document in enumerate(DOCUMENTS)]
    before = copy.deepcopy(documents)
    plain = AnswerRanker(model=attentive, device=CPU).run(query=QUERY, documents=documents)["documents"]
    explaining = AnswerRanker(model=attentive, device=CPU)
    found = explaining.run(query=QUERY, documents=documents, explain=True)["documents"]
    assert documents == before
    assert [(d.id, d.score) for d in found] == [(d.id, d.score) for d in plain]
    for document, without in zip(found, plain, strict=True):
        reasons = document.meta["ap_ranker"]["explanation"]
        assert document.meta == {**without.meta, "ap_ranker": document.meta["ap_ranker"]}
        expected = asdict(Ranker.from_pretrained(attentive, "cpu").explain(QUERY, document.content or ""))
        assert reasons == {side: expected[side] for side in ("question", "answer")}
        assert json.loads(json.dumps(reasons)) == reasons
        assert "".join(token["text"] for token in reasons["answer"]) == (document.content or "").replace(" ", "")
    assert (await explaining.run_async(query=QUERY, documents=documents, explain=True))["documents"] == found


def test_only_returned_documents_are_explained(tmp_path: Path) -> None:
    ranker = APRanker(model=write_checkpoint("ap-cnn", tmp_path / "c"), device=CPU)
    ranker.warm_up()
    assert ranker.loaded.ranker is not None
    with patch.object(
        ranker.loaded.ranker, "attention_weights", wraps=ranker.loaded.ranker.attention_weights
    ) as weights:
        found = ranker.run(query=QUERY, documents=DOCUMENTS, top_k=2, explain=True)["documents"]
    assert [call.args for call in weights.call_args_list] == [(QUERY, d.content) for d in found]


def test_without_explain_no_attention_is_asked_for(ranker: AnswerRanker) -> None:
    ranker.warm_up()
    assert ranker.loaded.ranker is not None
    with patch.object(ranker.loaded.ranker, "attention_weights") as weights:
        found = ranker.run(query=QUERY, documents=DOCUMENTS)["documents"]
    weights.assert_not_called()
    assert not any("explanation" in document.meta["ap_ranker"] for document in found)


def test_offsets_are_of_the_texts_that_were_matched(tmp_path: Path) -> None:
    ranker = APRanker(
        model=write_checkpoint("ap-cnn", tmp_path / "c"),
        device=CPU,
        query_prefix="Q: ",
        document_prefix="D: ",
        meta_fields_to_embed=["question"],
    )
    document = Document(content="The REFUND", meta={"question": "Money back?"})
    [found] = ranker.run(query="Where?", documents=[document], explain=True)["documents"]
    for side, text in (("question", "Q: Where?"), ("answer", "D: Money back?\nThe REFUND")):
        tokens = found.meta["ap_ranker"]["explanation"][side]
        assert [token["text"] for token in tokens] == [text[token["start"] : token["end"]] for token in tokens]
        assert "".join(token["text"] for token in tokens) == "".join(text.split())


@pytest.mark.parametrize("model", [name for name, spec in MODELS.items() if not spec.attention_over])
def test_a_model_without_attention_cannot_explain(model: str, tmp_path: Path) -> None:
    ranker = AnswerRanker(model=write_checkpoint(model, tmp_path / "c"), device=CPU)
    with refused(f"ap-cnn, ap-bilstm … {model}"):
        ranker.run(query=QUERY, documents=DOCUMENTS, explain=True)


# --- probabilities ----------------------------------------------------------------------------------------------------

FITS = {"model": Calibration(2.0, 3.0, -0.5, {"0.9": 0.4}), "fused": Calibration(1.0, 0.5, 0.25, {"0.8": 0.6})}


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint for which BM25's score counts a tenth, with a calibration of both scores."""
    return write_checkpoint(
        "ap-cnn", tmp_path_factory.mktemp("calibrated") / "checkpoint", bm25_weight=0.1, calibration=FITS
    )


@pytest.mark.parametrize("fuse", [False, True])
def test_scaled_scores_of_a_calibrated_checkpoint_are_probabilities(calibrated: Path, fuse: bool) -> None:
    documents = [
        replace(one, meta={"ap_ranker": {"bm25_score": float(number * 5)}}) for number, one in enumerate(DOCUMENTS)
    ]
    ranker = AnswerRanker(model=calibrated, device=CPU, fuse_scores=fuse)
    raw = ranker.run(query=QUERY, documents=documents, scale_score=False)["documents"]
    found = ranker.run(query=QUERY, documents=documents)["documents"]
    assert [d.id for d in found] == [d.id for d in raw]
    first, second, third = (d.score for d in raw)
    fit = FITS["fused" if fuse else "model"]
    leads = (first - second, second - first, third - first)
    logits = [
        fit.score * s + fit.margin * lead + fit.bias for s, lead in zip((first, second, third), leads, strict=True)
    ]
    assert [d.score for d in found] == pytest.approx([1 / (1 + math.exp(-logit)) for logit in logits], abs=1e-6)
    assert all(type(d.score) is float for d in found)


async def test_precision_leaves_out_what_is_below_its_threshold(calibrated: Path) -> None:
    plain = AnswerRanker(model=calibrated, device=CPU)
    everything = plain.run(query=QUERY, documents=DOCUMENTS)["documents"]
    middle = (everything[0].score + everything[1].score) / 2
    config = read_checkpoint_config(calibrated)
    fits = {"model": replace(FITS["model"], thresholds={"0.9": middle, "0.99": 1.0, "0.5": 0.0})}
    write_checkpoint_config(calibrated, replace(config, calibration=fits))
    try:
        strict = AnswerRanker(model=calibrated, device=CPU, precision=0.9)
        assert scored(strict.run(query=QUERY, documents=DOCUMENTS)["documents"]) == scored(everything[:1])
        raw = strict.run(query=QUERY, documents=DOCUMENTS, scale_score=False)["documents"]
        assert [d.id for d in raw] == [everything[0].id]
        for limit in ({"precision": 0.5}, {"score_threshold": 0.0}):
            kept = strict.run(query=QUERY, documents=DOCUMENTS, **limit)["documents"]
            assert scored(kept) == scored(everything)
        assert (await strict.run_async(query=QUERY, documents=DOCUMENTS, precision=0.99))["documents"] == []
        again = AnswerRanker.from_dict(strict.to_dict())
        assert scored(again.run(query=QUERY, documents=DOCUMENTS)["documents"]) == scored(everything[:1])
    finally:
        write_checkpoint_config(calibrated, config)


@pytest.mark.parametrize("query", ["I do NOT want to return my order", "and for abroad?", "hello", "return my order"])
def test_with_a_precision_what_is_no_answer_returns_nothing(calibrated: Path, query: str) -> None:
    """Whatever its probability: what is no question is not asserted by a ranker alone either."""
    documents = [Document(content=text) for text in ("Return my order?\nWithin thirty days.", "The weather is fine.")]
    config = read_checkpoint_config(calibrated)
    fits = {"model": replace(FITS["model"], thresholds={"0.5": 0.0})}
    write_checkpoint_config(calibrated, replace(config, calibration=fits))
    try:
        ranker = AnswerRanker(model=calibrated, device=CPU, precision=0.5)
        outcome = ranker.decide(query, documents).outcome
        assert (outcome is Outcome.ANSWER) == (query == "return my order")
        assert bool(ranker.run(query=query, documents=documents)["documents"]) == (outcome is Outcome.ANSWER)
    finally:
        write_checkpoint_config(calibrated, config)


@pytest.mark.parametrize("precision", [0.001, 0.7, 0.9, 0.999])
def test_every_precision_starts(precision: float, calibrated: Path, checkpoint: Path) -> None:
    """Whatever was calibrated; without a calibration, nothing is asserted."""
    for fuse in (False, True):
        ranker = AnswerRanker(model=calibrated, device=CPU, precision=precision, fuse_scores=fuse)
        ranker.warm_up()
        given = ranker.run(query=QUERY, documents=DOCUMENTS)["documents"]
        assert (
            given
            == AnswerRanker(model=calibrated, device=CPU, fuse_scores=fuse).run(
                query=QUERY, documents=DOCUMENTS, precision=precision
            )["documents"]
        )
    bare = AnswerRanker(model=checkpoint, device=CPU, precision=precision)
    bare.warm_up()
    assert bare.run(query=QUERY, documents=DOCUMENTS)["documents"] == []
    assert bare.decide(QUERY, DOCUMENTS).outcome is Outcome.MAYBE


def test_one_of_score_threshold_and_precision(checkpoint: Path) -> None:
    with refused("0.5 … 0.9", by=ValueError):
        AnswerRanker(model="m", score_threshold=0.5, precision=0.9)
    with refused("0.0 … 0.9", by=ValueError):
        AnswerRanker(model=checkpoint, device=CPU).run(
            query=QUERY, documents=DOCUMENTS, score_threshold=0.0, precision=0.9
        )


@pytest.mark.parametrize("fuse", [False, True])
@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"top_k": 2},
        {"scale_score": True},
        {"scale_score": True, "score_threshold": 0.7},
        {"score_threshold": 9.0},
        {"precision": "calibrated"},
        {"precision": "calibrated", "scale_score": True, "top_k": 1},
    ],
)
def test_the_library_answers_as_the_component(calibrated: Path, fuse: bool, limits: dict[str, Any]) -> None:
    if "precision" in limits:
        limits = {**limits, "precision": 0.8 if fuse else 0.9}
    documents = [replace(one, meta={"ap_ranker": {BM25_SCORE: float(number)}}) for number, one in enumerate(DOCUMENTS)]
    expected = AnswerRanker(model=calibrated, device=CPU, fuse_scores=fuse, scale_score=False, top_k=100).run(
        query=QUERY, documents=documents, **limits
    )["documents"]
    given = Ranker.from_pretrained(calibrated, "cpu").rank(
        QUERY,
        [one.content or "" for one in documents],
        bm25_scores=[one.meta["ap_ranker"][BM25_SCORE] for one in documents] if fuse else None,
        **limits,
    )
    assert [(one.text, one.score) for one in given] == [(one.content, one.score) for one in expected]


def test_the_library_says_that_there_is_no_answer(calibrated: Path) -> None:
    ranker = Ranker.from_pretrained(calibrated, "cpu")
    assert ranker.rank(QUERY, ["open the link"], score_threshold=1.0, scale_score=True) == []
    texts = [one.content or "" for one in DOCUMENTS]
    counts = [len(ranker.rank(QUERY, texts, precision=precision)) for precision in (0.01, 0.7, 0.9, 0.99)]
    assert counts == sorted(counts, reverse=True), "any precision will do, and a higher one leaves out more"
    with refused("0.9 … 0.5", by=ValueError):
        ranker.rank(QUERY, ["open the link"], precision=0.9, score_threshold=0.5)
    for wrong in ([], [1.0, 2.0], [float("nan")]):
        with refused("1 … finite", by=ValueError):
            ranker.rank(QUERY, ["open the link"], bm25_scores=wrong)
