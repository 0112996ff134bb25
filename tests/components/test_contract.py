"""What Haystack may do with any component of ours: write and load it, copy it, run it at once, cancel, close, stop and
resume, trace, and give it to a language model as a tool."""

from __future__ import annotations

import asyncio
import copy
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from both_pipelines import assembled
from conftest import TEXTS, write_checkpoint, write_faq
from haystack import Document, Pipeline, component, tracing
from haystack.core.errors import BreakpointException
from haystack.core.pipeline.breakpoint import load_pipeline_snapshot
from haystack.dataclasses.breakpoints import Breakpoint
from haystack.tools import ComponentTool
from haystack.utils import ComponentDevice
from spying_tracer import spying

import ap_ranker
from ap_ranker import (
    ABCNNRanker,
    AnswerRanker,
    AnswerRouter,
    AnswerSearch,
    APDocumentEmbedder,
    APRanker,
    APTextEmbedder,
    BM25Scores,
    BM25SEmbeddingRetriever,
    BM25SRetriever,
    FAQSearch,
    GlobalLocalRanker,
    HybridRetriever,
    LuceneScores,
)
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore
from haystack_integrations.tools.ap_ranker import AgentSearch

CPU = ComponentDevice.from_str("cpu")
QUERY = "where is the tracking link of my parcel"
TASKS = 32


@dataclass
class Place:
    """Checkpoints of three families, a FAQ file, and a store that was filled and embedded."""

    folder: Path
    store: BM25SDocumentStore

    def model(self, name: str = "ap-transformer") -> dict[str, Any]:
        if not (folder := self.folder / name).exists():
            write_checkpoint(name, folder)
        return {"model": folder, "device": CPU}

    @property
    def documents(self) -> list[Document]:
        return [Document(id=str(n), content=text, meta={"n": n, "tags": ["a"]}) for n, text in enumerate(TEXTS)]

    def ranked(self, kind: type[AnswerRanker], name: str = "ap-transformer", **options: Any) -> Case:
        return Case(kind(**self.model(name), **options), {"query": QUERY, "documents": self.documents}, "documents")

    def found(self, part: Any) -> Case:
        return Case(part, {"query": QUERY}, "documents")


@dataclass
class Case:
    """A new component, the inputs of a run, and the output of them that is not empty."""

    part: Any
    inputs: dict[str, Any]
    output: str


def search(place: Place) -> AnswerSearch:
    return AnswerSearch(BM25SRetriever(place.store), AnswerRanker(**place.model(), fuse_scores=True))


def scored(place: Place) -> Case:
    documents = [Document(id=one.id, content=one.content, score=1.0 - one.meta["n"] / 10) for one in place.documents]
    return Case(LuceneScores(), {"query": QUERY, "documents": documents}, "documents")


def by_meaning(place: Place) -> Case:
    embedding = APTextEmbedder(**place.model()).run(QUERY)["embedding"]
    return Case(BM25SEmbeddingRetriever(place.store), {"query_embedding": embedding}, "documents")


CASES: dict[str, Callable[[Place], Case]] = {
    "AnswerRanker": lambda place: place.ranked(AnswerRanker, fuse_scores=True, wordings=[]),
    "APRanker": lambda place: place.ranked(APRanker),
    "GlobalLocalRanker": lambda place: place.ranked(GlobalLocalRanker, "global-local"),
    "ABCNNRanker": lambda place: place.ranked(ABCNNRanker, "abcnn-1"),
    "APTextEmbedder": lambda place: Case(APTextEmbedder(**place.model()), {"text": QUERY}, "embedding"),
    "APDocumentEmbedder": lambda place: Case(
        APDocumentEmbedder(**place.model()), {"documents": place.documents}, "documents"
    ),
    "BM25SRetriever": lambda place: place.found(BM25SRetriever(place.store)),
    "BM25SEmbeddingRetriever": by_meaning,
    "HybridRetriever": lambda place: place.found(HybridRetriever(place.store, **place.model())),
    "BM25Scores": lambda place: Case(
        BM25Scores(BM25SRetriever(place.store)), {"query": QUERY, "documents": place.documents}, "documents"
    ),
    "LuceneScores": scored,
    "AnswerSearch": lambda place: place.found(search(place)),
    "FAQSearch": lambda place: place.found(FAQSearch(**place.model(), documents=place.folder / "FAQ.csv")),
    "AnswerRouter": lambda place: Case(
        AnswerRouter(**place.model()), {"query": QUERY, "documents": place.documents}, "maybe"
    ),
    "AgentSearch": lambda place: Case(AgentSearch(search(place)), {"query": QUERY, "filters": {"n": 1}}, "text"),
}

NO_OWN_TAGS = {
    "APTextEmbedder": "Haystack's own embedders set none",
    "APDocumentEmbedder": "Haystack's own embedders set none",
    "LuceneScores": "it searches nothing",
}
"""Component -> why it differs."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    made = Place(tmp_path_factory.mktemp("contract"), BM25SDocumentStore())
    write_faq(made.folder / "FAQ.csv")
    made.store.write_documents(made.documents)
    HybridRetriever(made.store, **made.model()).warm_up()
    return made


@pytest.fixture(params=CASES)
def make(request: pytest.FixtureRequest, place: Place) -> Callable[[], Case]:
    """Makes the same component again and again, each of which has loaded nothing yet."""
    return lambda: CASES[request.param](place)


def test_the_table_has_all_components() -> None:
    registered = {kind.__name__ for kind in component.registry.values() if "ap_ranker" in kind.__module__}
    registered.discard("ElasticsearchFAQRetriever")  # tests/elastic asks it, where there is a server
    assert {name for name in registered if not name.startswith("_")} - {"Taken"} == CASES.keys()
    assert {name for name in ap_ranker.__all__ if name in registered} | {"AgentSearch"} == CASES.keys()


def test_yaml(make: Callable[[], Case]) -> None:
    case = make()
    expected = case.part.run(**case.inputs)
    assert expected[case.output]
    pipeline = assembled({"part": case.part})
    text = pipeline.dumps()
    again = Pipeline.loads(text)
    assert again.dumps() == text
    assert again.run({"part": case.inputs})["part"] == expected


@pytest.mark.parametrize("is_warm", [False, True])
def test_copies(make: Callable[[], Case], is_warm: bool) -> None:
    """The copy of a store in memory has documents of its own, under a name of its own; all else is the same."""
    case = make()
    expected = make().part.run(**case.inputs)
    if is_warm:
        case.part.run(**case.inputs)
    twin = copy.deepcopy(case.part)
    assert without_index(twin.to_dict()) == without_index(case.part.to_dict())
    assert twin.run(**case.inputs) == expected
    assert case.part.run(**case.inputs) == expected


@component
class Echo:
    """Returns what it gets, in front of a component or behind it."""

    @component.output_types(value=Any)
    def run(self, value: Any) -> dict[str, Any]:
        return {"value": value}


def test_the_copy_of_a_pipeline_is_connected(make: Callable[[], Case]) -> None:
    """A copy of a component alone belongs to no pipeline."""
    case = make()
    expected = make().part.run(**case.inputs)[case.output]
    pipeline = Pipeline(connection_type_validation=False)
    for label, part in {"before": Echo(), "part": case.part, "behind": Echo()}.items():
        pipeline.add_component(label, part)
    name = "query" if "query" in case.inputs else next(iter(case.inputs))
    pipeline.connect("before.value", f"part.{name}")
    pipeline.connect(f"part.{case.output}", "behind.value")
    inputs = {"before": {"value": case.inputs.pop(name)}, "part": case.inputs}
    assert copy.deepcopy(pipeline).run(inputs)["behind"] == {"value": expected}
    assembled({"part": copy.deepcopy(case.part)})
    assert pipeline.run(inputs)["behind"] == {"value": expected}


def without_index(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: without_index(value) for key, value in tree.items() if key != "index"}
    return tree


async def test_32_tasks_at_once(make: Callable[[], Case]) -> None:
    """From the first run, which loads; alone and in a pipeline."""
    case = make()
    expected = make().part.run(**case.inputs)
    pipeline = assembled({"part": case.part})
    results = await asyncio.gather(*(pipeline.run_async({"part": case.inputs}) for _ in range(TASKS)))
    assert results == [{"part": expected}] * TASKS
    if hasattr(case.part, "run_async"):
        assert await asyncio.gather(*(case.part.run_async(**case.inputs) for _ in range(TASKS))) == [expected] * TASKS


async def test_cancelled_tasks_leave_the_others_alone(make: Callable[[], Case]) -> None:
    case = make()
    expected = make().part.run(**case.inputs)
    pipeline = assembled({"part": case.part})
    tasks = [asyncio.create_task(pipeline.run_async({"part": case.inputs})) for _ in range(8)]
    await asyncio.sleep(0)  # they have begun
    for task in tasks[::2]:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(result, asyncio.CancelledError) for result in results[::2])
    assert results[1::2] == [{"part": expected}] * 4
    assert await pipeline.run_async({"part": case.inputs}) == {"part": expected}


def test_closed_while_it_runs(make: Callable[[], Case]) -> None:
    case = make()
    expected = case.part.run(**case.inputs)
    together = threading.Barrier(5)

    def run(number: int) -> list[Any]:
        """The fifth closes for the others."""
        together.wait()
        return [case.part.close() if number == 4 else case.part.run(**case.inputs) for _ in range(6)]

    with ThreadPoolExecutor(5) as pool:
        *results, _ = pool.map(run, range(5))
    assert results == [[expected] * 6] * 4
    case.part.close()
    case.part.close()
    assert case.part.run(**case.inputs) == expected


@component
class Taken:
    """Takes whatever comes."""

    @component.output_types(value=Any)
    def run(self, value: Any) -> dict[str, Any]:
        return {"value": value}


@pytest.mark.parametrize("stop", ["part", "next"])
def test_breakpoints(make: Callable[[], Case], stop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped before it runs, or after; another process goes on from the file."""
    monkeypatch.setenv("HAYSTACK_PIPELINE_SNAPSHOT_SAVE_ENABLED", "true")
    case = make()

    def pipeline() -> Pipeline:
        return assembled({"part": make().part, "next": Taken()}, f"part.{case.output} > next.value")

    inputs, options = {"part": case.inputs}, {"include_outputs_from": {"part"}}
    expected = pipeline().run(inputs, **options)
    with pytest.raises(BreakpointException):
        pipeline().run(inputs, **options, break_point=Breakpoint(stop, snapshot_file_path=str(tmp_path)))
    [file] = tmp_path.glob("*.json")
    assert pipeline().run({}, pipeline_snapshot=load_pipeline_snapshot(file)) == expected


@pytest.mark.parametrize("content", [False, True])
def test_traces(
    make: Callable[[], Case], content: bool, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tag is a text, a number or a truth value, which every backend takes."""
    monkeypatch.setattr(tracing.tracer, "is_content_tracing_enabled", content)
    case = make()
    expected = make().part.run(**case.inputs)
    with spying() as tracer:
        assert assembled({"part": case.part}).run({"part": case.inputs}) == {"part": expected}
    [ours] = tracer.named("part")
    assert (not ours) == (request.node.callspec.params["make"] in NO_OWN_TAGS)
    assert all(isinstance(value, str | int | float) for value in ours.values())
    assert QUERY not in ours.values() or content


def test_as_a_tool(make: Callable[[], Case]) -> None:
    """Called with what a language model sends: JSON. Documents become documents again."""
    case = make()
    expected = make().part.run(**case.inputs)
    tool = ComponentTool(case.part, name="part", description="What it does.")
    described = [schema["description"] for schema in tool.parameters["properties"].values()]
    assert all(len(each) > 20 and "see the" not in each.lower() for each in described)
    assert set(tool.parameters.get("required", ())) <= case.inputs.keys()
    sent = json.loads(json.dumps(case.inputs, default=lambda document: document.to_dict(flatten=False)))
    assert tool.invoke(**sent) == expected
    again = ComponentTool.from_dict(tool.to_dict())
    assert again.tool_spec == tool.tool_spec
    assert again.invoke(**sent) == expected
