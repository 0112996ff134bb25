# SPDX-License-Identifier: Apache-2.0
"""A FAQ search as a language model calls it. It is here because Haystack loads YAML only from this namespace."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from haystack import Document, component
from haystack.tools import ComponentTool

from ap_ranker.errors import InputError, check_known, one_line
from haystack_integrations.common.ap_ranker.component import Composed
from haystack_integrations.components.retrievers.ap_ranker import AnswerSearch

DESCRIPTION = (
    "Search the FAQ for the answers to a question. Use it before answering a question that the FAQ may answer. "
    "Returns an outcome and a list of entries, best first, each with the question that it answers, its answer, and a "
    "score from 0 to 1. The outcome is answer: the first entry answers the question; maybe: read the entries before "
    "you use one; or none: the FAQ has no answer, say so and do not guess."
)

_QUERY = "One question as a complete sentence, in the user's words and language, such as: How do I return a bicycle?"
_TOP_K = "Maximum number of entries to return. Leave it out unless more or fewer entries are needed."
_FILTERS = "Search only entries that have these values. Leave it out to search all entries."

_WRITTEN = re.compile(r"true|false|-?(0|[1-9][0-9]{0,17})([.][0-9]{1,17})?")  # by a model, whose schema has texts

LARGEST_TOP_K = 20
"""Maximum number of entries that a model may ask for: more would fill its context."""


@component
class AgentSearch(Composed):
    """Searches for a language model: simple filters in, plain text out."""

    parameters = uses = ("search",)

    def __init__(self, search: AnswerSearch) -> None:
        """
        Create the component without loading anything.

        :param search: The search to ask, an `AnswerSearch` or a `FAQSearch`; its settings are the defaults.
        :raises InputError: `search` is something else.
        """
        self.search = search

    @component.output_types(documents=list[Document], text=str)
    def run(self, *, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None) -> dict[str, Any]:
        """
        Find the entries that answer a question.

        :param query: The question. Must not be empty.
        :param filters: The value that a field of the documents' meta must have, or a list of values of which it must
            have one: `{"category": "Delivery"}`. Several fields must all match. Haystack's own filters work, too.
        :param top_k: The maximum number of entries.
        :returns: `documents`, best first, and as JSON in `text` the `outcome` of the search's decision (`answer`,
            `maybe` or `none`) and the `entries`, each with its `question` (if it has one), `answer` and `score`.
        :raises ValueError: The query is empty, a filter is no value or list, or no document has its field.
        """
        result: dict[str, Any] = self.search.run(query=query, filters=as_filters(filters), top_k=top_k)
        documents: list[Document] = result["documents"]
        if filters and not documents:
            self._check_fields(filters)
        reply = {"outcome": result["decision"]["outcome"], "entries": list(map(_entry, documents))}
        return {"documents": documents, "text": json.dumps(reply, ensure_ascii=False)}

    def _check_fields(self, filters: Mapping[str, Any]) -> None:
        """Refuse fields that no document has: a model would take it that there is no answer."""
        if not is_haystacks(filters):
            names = sorted(self.search.retriever.document_store.get_metadata_fields_info().keys() - {"content"})
            for field in filters:
                check_known("a field of the filters", field.removeprefix("meta.").partition(".")[0], names)


def faq_search_tool(
    search: AnswerSearch,
    *,
    name: str = "search_faq",
    description: str = DESCRIPTION,
    filter_fields: Mapping[str, Sequence[str]] | Sequence[str] = (),
    outputs_to_state: dict[str, dict[str, str | Callable[..., Any]]] | None = None,
) -> ComponentTool:
    """
    Create a tool for agents of a FAQ search, with a name, a description and parameters that are written for a model.

    ### Usage example

    ```python
    from haystack.components.agents import Agent
    from haystack.components.generators.chat import OpenAIChatGenerator
    from haystack.dataclasses import ChatMessage
    from haystack_integrations.components.retrievers.ap_ranker import FAQSearch
    from haystack_integrations.tools.ap_ranker import faq_search_tool

    search = FAQSearch(model="checkpoints/faq", documents="FAQ.csv", top_k=3)
    tool = faq_search_tool(search, filter_fields={"category": ["Delivery", "Payment", "Repair"]})
    agent = Agent(chat_generator=OpenAIChatGenerator(), tools=[tool])
    print(agent.run(messages=[ChatMessage.from_user("Where is my parcel?")])["last_message"].text)
    ```

    :param search: The search to ask, an `AnswerSearch` or a `FAQSearch`. With a `precision` of a calibrated checkpoint,
        it returns no entry rather than a wrong one.
    :param name: The name of the tool: letters, digits, `_` and `-`, as the providers of models want it.
    :param description: What the tool is for, for the model. Say what your FAQ is about.
    :param filter_fields: Fields of the documents' meta that the model may filter by, each with its values if there are
        few. Without any, the model is told of no filters.
    :param outputs_to_state: What the agent keeps in its state, such as `{"documents": {"source": "documents"}}`.
    :returns: The tool, which can be written to YAML with its agent and read again.
    """
    values = filter_fields if isinstance(filter_fields, Mapping) else dict.fromkeys(filter_fields, ())
    if any(isinstance(field, str) for field in (filter_fields, *values.values())):
        raise InputError(f"filter_fields: expected lists of fields or values, found {one_line(filter_fields, 80)}.")
    properties: dict[str, Any] = {
        "query": {"type": "string", "minLength": 1, "description": _QUERY},
        "top_k": {"type": "integer", "minimum": 1, "maximum": LARGEST_TOP_K, "description": _TOP_K},
    }
    if values:
        fields: dict[str, dict[str, Any]] = {}
        for key, few in values.items():
            fields[key] = {"type": "string"}
            if few:
                fields[key]["enum"] = [*map(str, few)]
        filters = {"type": "object", "properties": fields, "additionalProperties": False}
        properties["filters"] = filters | {"description": _FILTERS}
    return ComponentTool(
        component=AgentSearch(search),
        name=name,
        description=description,
        parameters={"type": "object", "properties": properties, "required": ["query"], "additionalProperties": False},
        outputs_to_string={"source": "text"},
        outputs_to_state=outputs_to_state,
    )


def is_haystacks(filters: Mapping[str, Any]) -> bool:
    """Whether these are Haystack's filters, a comparison or a logical operator, rather than fields and values."""
    return {"field", "operator", "value"} <= filters.keys() or {"operator", "conditions"} <= filters.keys()


def as_filters(filters: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Haystack's filters for fields and values, all of which must match; InputError for what is no value or list."""
    if not filters:
        return None
    if not isinstance(filters, Mapping):
        expected = 'filters: expected fields and values such as {"category": "Delivery"}'
        raise InputError(f"{expected}, found {one_line(repr(filters), 80)}.")
    if is_haystacks(filters):
        return dict(filters)
    conditions = []
    for field, value in filters.items():
        values = [*value] if isinstance(value, list) else [value]
        if not all(isinstance(written, str | int | float) for written in values):
            raise InputError(f"filters: expected a value or a list of values for {field!r}, found {one_line(value)}.")
        texts = [text for text in values if isinstance(text, str)]
        values += [json.loads(text) for text in texts if _WRITTEN.fullmatch(text)]
        conditions.append({"field": f"meta.{field.removeprefix('meta.')}", "operator": "in", "value": values})
    return {"operator": "AND", "conditions": conditions}


def _entry(document: Document) -> dict[str, Any]:
    """What a model reads of a document."""
    question = str(document.meta.get("question") or "")
    answer = str(document.meta.get("answer") or "")
    score = None
    if document.score is not None:
        score = round(document.score, 3)
    return ({"question": question} if question else {}) | {"answer": answer or document.content, "score": score}
