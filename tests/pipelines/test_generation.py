"""Answers that are generated from what was found, routes for what was not, and an agent that searches."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from both_pipelines import assembled, run_both
from conftest import reconfigure
from haystack import Document, Pipeline
from haystack.components.agents import Agent
from haystack.components.builders import AnswerBuilder, ChatPromptBuilder
from haystack.components.generators.chat import MockChatGenerator
from haystack.components.routers import ConditionalRouter
from haystack.dataclasses import ChatMessage, ToolCall

from ap_ranker.ranking.rule import MODEL, Basis, Calibration
from haystack_integrations.components.rankers.ap_ranker import APRanker
from haystack_integrations.components.retrievers.ap_ranker import BM25SRetriever, FAQSearch, HybridRetriever
from haystack_integrations.components.routers.ap_ranker import AnswerRouter
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore
from haystack_integrations.tools.ap_ranker import faq_search_tool
from pipelines.conftest import BY_MEANING, CPU, ENTRIES

MakeRanker = Callable[..., APRanker]

BEST = '{% message role="user" %}{{ documents[0].content }} [1]{% endmessage %}'
"""The generator that stands in repeats its prompt, so this one quotes the best document."""


def test_generation_by_words(store: BM25SDocumentStore, ranker: MakeRanker) -> None:
    pipeline = assembled(
        {
            "retriever": BM25SRetriever(store),
            "ranker": ranker(top_k=2),
            "prompt": ChatPromptBuilder(BEST),
            "generator": MockChatGenerator(),
            "answers": AnswerBuilder(reference_pattern=r"\[(\d+)\]"),
        },
        "retriever > ranker",
        "ranker > prompt.documents",
        "prompt.prompt > generator.messages",
        "generator.replies > answers.replies",
        "ranker > answers.documents",
    )
    query = "my brakes squeak"
    inputs = {name: {"query": query} for name in ("retriever", "ranker", "answers")}
    [answer] = run_both(pipeline, inputs)["answers"]["answers"]
    assert answer.data.startswith(" ".join(ENTRIES["brakes"][:2]))
    assert [document.id for document in answer.documents] == ["brakes"], "what the answer refers to"


@pytest.mark.parametrize("query", BY_MEANING)
def test_generation_by_words_and_meaning(
    store: BM25SDocumentStore, ranker: MakeRanker, minilm: Path, query: str
) -> None:
    pipeline = assembled(
        {
            "retriever": HybridRetriever(store, model=minilm, device=CPU, top_k=5, rank_all=0),
            "ranker": ranker(fuse_scores=True),
            "prompt": ChatPromptBuilder(BEST),
            "generator": MockChatGenerator(),
        },
        "retriever > ranker",
        "ranker > prompt.documents",
        "prompt.prompt > generator.messages",
    )
    [reply] = run_both(pipeline, {"retriever": {"query": query}, "ranker": {"query": query}})["generator"]["replies"]
    assert reply.text.startswith(" ".join(ENTRIES[BY_MEANING[query]][:2]))


WRITTEN = """
components:
  search:
    type: haystack_integrations.components.retrievers.ap_ranker.faq_search.FAQSearch
    init_parameters: {model: MODEL, documents: FILE, top_k: 1}
  prompt:
    type: haystack.components.builders.chat_prompt_builder.ChatPromptBuilder
    init_parameters:
      template: |-
        {% message role="user" %}{{ documents[0].meta.answer }}{% endmessage %}
  generator:
    type: haystack.components.generators.chat.mock.MockChatGenerator
    init_parameters: {}
connections:
  - {sender: search.documents, receiver: prompt.documents}
  - {sender: prompt.prompt, receiver: generator.messages}
"""


def test_generation_from_a_file_in_yaml(minilm: Path, faq_file: Path) -> None:
    """As a user writes it: what is left out has its default."""
    pipeline = Pipeline.loads(WRITTEN.replace("MODEL", str(minilm)).replace("FILE", str(faq_file)))
    for query, name in BY_MEANING.items():
        [reply] = run_both(pipeline, {"search": {"query": query}})["generator"]["replies"]
        assert reply.text == ENTRIES[name][1]


def test_a_router_by_whether_anything_was_found(store: BM25SDocumentStore, ranker: MakeRanker) -> None:
    empty = {"condition": "{{documents|length == 0}}", "output": "{{query}}", "output_name": "none", "output_type": str}
    found: dict[str, Any] = {
        "condition": "{{True}}",
        "output": "documents",
        "output_name": "some",
        "output_type": list[Document],
    }
    found["output_passthrough"] = True  # the objects, not their text
    pipeline = assembled(
        {
            "retriever": BM25SRetriever(store),
            "ranker": ranker(top_k=1),
            "router": ConditionalRouter([empty, found]),
            "prompt": ChatPromptBuilder(BEST),
            "sorry": ChatPromptBuilder('{% message role="user" %}No answer to: {{ query }}{% endmessage %}'),
        },
        "retriever > ranker",
        "ranker > router.documents",
        "router.some > prompt.documents",
        "router.none > sorry.query",
    )

    def prompts(query: str) -> dict[str, str]:
        found = run_both(pipeline, {name: {"query": query} for name in ("retriever", "ranker", "router")})
        return {name: outputs["prompt"][0].text for name, outputs in found.items()}

    assert prompts("xyzzy") == {"sorry": "No answer to: xyzzy"}
    assert list(prompts("brakes that squeak")) == ["prompt"]
    assert prompts("brakes that squeak")["prompt"].startswith(ENTRIES["brakes"][0])


CALIBRATED = Calibration(12.0, 0.0, -5.5, {"0.8": 0.6}, floor=0.35, basis=Basis.WORDINGS)
"""An answer has a cosine of about .5 with its question, what is about another matter less than .35."""

WAYS = {
    ENTRIES["stolen"][0]: "answer",
    "Somebody took my bicycle last night": "answer",
    "Is my wheel insured?": "maybe",
    "Who won the world cup in 1954?": "none",
}


def test_a_router_by_the_decision(minilm: Path, faq_file: Path, tmp_path: Path) -> None:
    checkpoint = reconfigure(shutil.copytree(minilm, tmp_path / "calibrated"), calibration={MODEL: CALIBRATED})
    pipeline = assembled(
        {
            "search": FAQSearch(model=checkpoint, documents=faq_file, device=CPU),
            "router": AnswerRouter(model=checkpoint, fuse_scores=True, device=CPU),
        },
        "search.documents > router.documents",
    )
    for query, way in WAYS.items():
        routed = run_both(pipeline, {"search": {"query": query}, "router": {"query": query}})["router"]
        assert list(routed) == [way], query
        if way == "none":
            assert routed == {"none": query}
        else:
            assert routed[way][0].meta["question"] == ENTRIES["stolen"][0]


def test_an_agent_searches(minilm: Path, faq_file: Path) -> None:
    call = ToolCall("search_faq", {"query": "Somebody took my bicycle", "filters": {"category": "insurance"}})
    search = FAQSearch(model=minilm, documents=faq_file, device=CPU)
    agent = Agent(
        chat_generator=MockChatGenerator([ChatMessage.from_assistant(tool_calls=[call]), "Ask the police."]),
        tools=[faq_search_tool(search, filter_fields=["category"])],
    )
    found = run_both(assembled({"agent": agent}), {"agent": {"messages": [ChatMessage.from_user("Help!")]}})["agent"]
    assert found["last_message"].text == "Ask the police."
    [result] = [message.tool_call_result for message in found["messages"] if message.tool_call_result]
    assert [entry["answer"] for entry in json.loads(result.result)["entries"]] == [ENTRIES["stolen"][1]]
