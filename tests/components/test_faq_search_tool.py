"""The search as a tool: what a model reads of it, what it may ask, and what it is told, in an agent and from YAML."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from conftest import write_checkpoint
from haystack import Document, Pipeline, component
from haystack.components.agents import Agent
from haystack.components.generators.chat import MockChatGenerator
from haystack.dataclasses import ChatMessage, ToolCall
from haystack.tools import Tool
from haystack.tools.errors import ToolInvocationError
from haystack.utils import ComponentDevice
from refusals import refused

from ap_ranker import FAQSearch, faq_search_tool
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore
from haystack_integrations.tools.ap_ranker import AgentSearch

CPU = ComponentDevice.from_str("cpu")
ROWS = [
    ("Where is my parcel?", "Open the tracking link in your e-mail.", "Delivery"),
    ("How do I track a return?", "Open the link of the return in your e-mail.", "Returns"),
    ("When does my money come back?", "The refund arrives in five days.", "Payment"),
]
RETURNS = {"field": "meta.category", "operator": "==", "value": "Returns"}
FIELDS = {"category": ["Delivery", "Returns", "Payment"]}


@component
class Scripted:
    """A chat model that says what it is given to say, and keeps what it was told and which tools it was offered."""

    def __init__(self, replies: list[dict[str, Any]]) -> None:
        self.replies = replies
        self.read: list[list[ChatMessage]] = []
        self.offered: list[dict[str, Any]] = []

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage], tools: list[Tool] | None = None, **_: Any) -> dict[str, Any]:
        self.read.append(messages)
        self.offered = [tool.tool_spec for tool in tools or []]
        arguments = self.replies[len(self.read) - 1]
        calls = [ToolCall("search_faq", arguments)] if arguments else []
        return {"replies": [ChatMessage.from_assistant(None if calls else "done", tool_calls=calls)]}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint("ap-cnn", tmp_path_factory.mktemp("tool") / "checkpoint")


@pytest.fixture
def search(checkpoint: Path, tmp_path: Path) -> FAQSearch:
    lines = ["question,answer,category", *(",".join(row) for row in ROWS), ""]
    (tmp_path / "FAQ.csv").write_text("\n".join(lines), encoding="utf-8")
    return FAQSearch(model=checkpoint, documents=tmp_path / "FAQ.csv", device=CPU)


def told(search: FAQSearch, arguments: dict[str, Any], **options: Any) -> tuple[Scripted, str]:
    """A model that calls the tool once, and what it was told."""
    model = Scripted([arguments, {}])
    agent = Agent(chat_generator=model, tools=[faq_search_tool(search, **options)])
    asked = [ChatMessage.from_user("Where is it?")]
    assert agent.run(messages=asked)["last_message"].text == "done"
    (result,) = model.read[1][-1].tool_call_results
    return model, result.result


def test_an_agent_finds_what_the_search_finds(search: FAQSearch) -> None:
    model, result = told(search, {"query": "the link in my e-mail", "top_k": 2}, filter_fields=FIELDS)
    expected = search.run(query="the link in my e-mail", top_k=2)["documents"]
    assert len(expected) == 2
    read = json.loads(result)
    assert read["outcome"] == search.run(query="the link in my e-mail", top_k=2)["decision"]["outcome"]
    assert [(one["question"], one["answer"], one["score"]) for one in read["entries"]] == [
        (document.meta["question"], document.meta["answer"], pytest.approx(document.score, abs=1e-3))
        for document in expected
    ]
    (offered,) = model.offered
    assert offered["name"] == "search_faq"
    assert not {"`", "meta.", "YAML", ":param"} & set(json.dumps(offered).split())
    assert all(len(each["description"]) > 20 for each in offered["parameters"]["properties"].values())
    assert offered["parameters"]["properties"]["filters"]["properties"]["category"]["enum"] == FIELDS["category"]
    jsonschema.validate({"query": "a?", "filters": {"category": "Delivery"}}, offered["parameters"])
    for wrong in ({}, {"query": ""}, {"query": "a", "top_k": 0}, {"query": "a", "filters": {"colour": "red"}}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, offered["parameters"])


@pytest.mark.parametrize(
    ("filters", "categories"),
    [
        ({"category": "Delivery"}, {"Delivery"}),
        ({"meta.category": "Returns"}, {"Returns"}),
        ({"category": ["Delivery", "Returns"]}, {"Delivery", "Returns"}),
        ({"category": "Returns", "question": "Where is my parcel?"}, set()),
        ({"field": "category", "operator": "!=", "value": "Delivery"}, {"Returns"}),
        ({"operator": "NOT", "conditions": [RETURNS]}, {"Delivery"}),
        ({}, {"Delivery", "Returns"}),
    ],
)
def test_filters_as_a_model_writes_them(search: FAQSearch, filters: dict[str, Any], categories: set[str]) -> None:
    found = AgentSearch(search).run(query="link", filters=filters)["documents"]
    assert {document.meta["category"] for document in found} == categories


@pytest.mark.parametrize(
    ("filters", "facts"),
    [
        ({"categry": "Delivery"}, "categry … category"),
        ({"meta.colour": "red"}, "colour … category"),
        ({"category": {"name": "Delivery"}}, "category … Delivery"),
        ({"category": None}, "category … None"),
        (["Delivery"], "filters … ['Delivery']"),
        ("Delivery", "filters … 'Delivery'"),
    ],
)
def test_filters_that_can_find_nothing_are_refused(search: FAQSearch, filters: Any, facts: str) -> None:
    with refused(facts):
        AgentSearch(search).run(query="link", filters=filters)
    _, result = told(search, {"query": "the link", "filters": filters})
    assert facts.split(" … ", maxsplit=1)[0] in result, "the model reads what was wrong"


def test_an_empty_question_is_an_error_that_the_model_reads(search: FAQSearch) -> None:
    with pytest.raises(ToolInvocationError):
        faq_search_tool(search).invoke(query="")


def test_no_answer_is_an_empty_list(search: FAQSearch) -> None:
    assert json.loads(told(search, {"query": "xyzzy"})[1]) == {"outcome": "none", "entries": []}


def test_without_fields_the_model_is_told_of_no_filters(search: FAQSearch) -> None:
    assert set(faq_search_tool(search).parameters["properties"]) == {"query", "top_k"}


def test_from_yaml_and_at_once(search: FAQSearch) -> None:
    """A pipeline with an agent, written and read again, has the same tool, which keeps the documents in its state."""
    state = {"documents": {"source": "documents"}}
    tool = faq_search_tool(search, filter_fields=["category"], outputs_to_state=state)
    call = ToolCall("search_faq", {"query": "the link"})
    model = MockChatGenerator([ChatMessage.from_assistant(tool_calls=[call]), "done"])
    pipeline = Pipeline()
    pipeline.add_component(
        "agent", Agent(chat_generator=model, tools=[tool], state_schema={"documents": {"type": list[Document]}})
    )
    again = Pipeline.loads(pipeline.dumps())
    assert again.get_component("agent").tools[0].tool_spec == tool.tool_spec
    asked = {"agent": {"messages": [ChatMessage.from_user("Where is it?")]}}
    expected = search.run(query="the link")["documents"]
    assert again.run(asked)["agent"]["documents"] == expected

    async def at_once() -> list[dict[str, Any]]:
        return await asyncio.gather(*(tool.invoke_async(query="the link") for _ in range(8)))

    assert all(result["documents"] == expected for result in asyncio.run(at_once()))


def test_fields_of_a_store_need_no_prefix() -> None:
    """Nested ones either: Haystack's own function finds nothing, and does not say so."""
    store = BM25SDocumentStore()
    store.write_documents(
        [Document(content="a link", meta={"product": {"name": name}, "n": 1}) for name in ("bike", "lock")]
    )
    bike = {"field": "product.name", "operator": "==", "value": "bike"}
    for filters in (bike, bike | {"field": "meta.product.name"}, {"operator": "AND", "conditions": [bike, bike]}):
        assert [document.meta["product"]["name"] for document in store.filter_documents(filters)] == ["bike"]
        assert [document.meta["product"]["name"] for document in store.bm25_retrieval("link", filters)] == ["bike"]
    assert len(store.filter_documents({"field": "n", "operator": ">=", "value": 1})) == 2
    assert len(store.filter_documents({"field": "content", "operator": "==", "value": "a link"})) == 2


def test_numbers_as_a_model_writes_them(checkpoint: Path) -> None:
    """The schema has texts alone, as no field of a table says what it is; a store that a program fills has numbers."""
    store = BM25SDocumentStore()
    for year in (2023, 2024, 2024.5, "2024", True):
        store.write_documents([Document(content=f"a link of {year}", meta={"year": year})])
    search = FAQSearch(model=checkpoint, document_store=store, device=CPU)
    tool = faq_search_tool(search, filter_fields={"year": [2023, 2024]})  # type: ignore[list-item]
    schema = tool.parameters["properties"]["filters"]
    jsonschema.validate({"year": "2024"}, schema)
    cases: dict[str, set[Any]] = {
        "2023": {2023},
        "2024": {2024, "2024"},
        "2024.5": {2024.5},
        "true": {True},
        "02024": set(),
    }
    for written, years in cases.items():
        found = tool.invoke(query="link", filters={"year": written})["documents"]
        assert {document.meta["year"] for document in found} == years
    both = tool.invoke(query="link", filters={"year": ["2023", "2024.5"]})["documents"]
    assert {document.meta["year"] for document in both} == {2023, 2024.5}


@pytest.mark.parametrize("fields", ["category", {"category": "Delivery"}], ids=str)
def test_a_text_is_no_list_of_fields_or_values(search: FAQSearch, fields: Any) -> None:
    """The model would be told of its letters."""
    with refused("filter_fields … lists"):
        faq_search_tool(search, filter_fields=fields)
