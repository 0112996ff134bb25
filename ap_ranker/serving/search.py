"""A search as its YAML pipeline declares it: documents in, questions in, ranked documents out."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeGuard

from ap_ranker.data.faq import Entry, Match
from ap_ranker.errors import InputError
from ap_ranker.serving.stores import components_of, find_pipeline, find_stores, load_pipeline, place_of, safe_line

if TYPE_CHECKING:
    from haystack import Document, Pipeline

    from ap_ranker.ranking.explanation import Explanation
    from haystack_integrations.components.rankers.ap_ranker import AnswerRanker

ENCODING_SECONDS = 20.0
"""That a start may take to encode answers; what is left is encoded when it is first found."""

AT_ONCE = 64
"""Documents encoded between two looks at the clock."""


@dataclass(frozen=True)
class DeclaredPipeline:
    """A YAML pipeline that declares where a query goes in and where documents come out, as Hayhooks reads it, too.

    Attributes:
        path: its file, for messages.
        pipeline: loaded by Haystack.
        query: the "component.socket" targets of the query.
        last: the component whose documents are the result.
    """

    path: Path
    pipeline: Pipeline
    query: list[str]
    last: str

    @classmethod
    def load(cls, path: Path) -> DeclaredPipeline:
        """Read the file.

        Raises:
            InputError: no such file, not a pipeline, one that Haystack refuses, or no such declarations.
        """
        path = find_pipeline(path)
        pipeline, declared = load_pipeline(path)
        inputs, outputs = declared.get("inputs"), declared.get("outputs")
        query = inputs.get("query") if isinstance(inputs, dict) else None
        query = [query] if isinstance(query, str) else query
        documents = outputs.get("documents") if isinstance(outputs, dict) else None
        if not (
            query
            and isinstance(query, list)
            and all(_is_socket(target, pipeline, "input") for target in query)
            and _is_socket(documents, pipeline, "output")
            and documents.endswith(".documents")
        ):
            raise InputError(
                f"{path}: expected 'inputs: query: component.socket' (or a list of them) and 'outputs: documents: "
                "component.documents', of components that the pipeline has, found inputs "
                f"{safe_line(str(inputs))} and outputs {safe_line(str(outputs))}."
            )
        return cls(path, pipeline, query, documents.split(".")[0])

    @property
    def place(self) -> str:
        """Where its documents are, for messages."""
        return ", ".join(dict.fromkeys(map(place_of, self._stores())))

    def fill(self, entries: Sequence[Entry] | None, match: Match) -> list[Document]:
        """Write a FAQ's entries into the store; without any, make sure that it holds documents already.

        Returns:
            The documents of these entries.
        """
        if entries is None:
            self.check_filled()
            return []
        from haystack_integrations.document_stores.ap_ranker.entries import to_document

        documents = [to_document(entry, match) for entry in entries]
        self.index(documents)
        return documents

    def index(self, documents: list[Document]) -> None:
        """Write the documents into every store that the pipeline retrieves from; entries that are equal are one."""
        from haystack.document_stores.types import DuplicatePolicy

        for store in self._stores():
            # Equal ids are equal documents, and the stored one may have the mark of `ap-ranker index`.
            store.write_documents(documents, policy=DuplicatePolicy.SKIP)

    def check_filled(self) -> None:
        """An empty store has no answers; an `InputError` says how to fill it."""
        if not self._count():
            self._warm_up()  # a `FAQSearch` reads its file then
        if not self._count():
            raise InputError(
                f"{self.path}: expected documents in {self.place}, found none. Give --documents, or write them with "
                "`ap-ranker index` if the store lasts."
            )

    def _count(self) -> int:
        return sum(store.count_documents() for store in self._stores())

    def _stores(self) -> list[Any]:
        stores = find_stores(self.pipeline)
        if not stores:
            raise InputError(f"{self.path}: expected a retriever with a document store, found none.")
        return stores

    def warm_up(
        self, documents: Sequence[Document] = (), limits: Mapping[str, float | None] = MappingProxyType({})
    ) -> None:
        """Do what the first questions would do otherwise: load the model, open or build the index, encode answers.

        Many users who ask a new server at once would wait for the same answers to be encoded, for each of them anew.

        Args:
            documents: whose states the ranker's cache is to hold, if `ENCODING_SECONDS` suffice.
            limits: that the questions will come with, as for `run`; what is wrong with them is said now.
        """
        # Here, as it loads torch, for which `ap-ranker --help` does not wait.
        from ap_ranker.ranking.bm25 import BM25_SCORE

        question = "Is anything there?"
        self._warm_up()
        self.run(question, limits)
        ranker, started = self.ranker(), time.monotonic()
        for first in range(0, len(documents) if ranker else 0, AT_ONCE):
            if time.monotonic() - started > ENCODING_SECONDS:
                break
            assert ranker is not None
            # A ranker that adds BM25's score expects one.
            scored = [replace(one, meta={**one.meta, BM25_SCORE: 0.0}) for one in documents[first : first + AT_ONCE]]
            ranker.run(
                query=question,
                documents=scored,
                precision=limits.get("precision"),
                score_threshold=limits.get("score_threshold"),
            )

    def run(
        self,
        question: str,
        limits: Mapping[str, float | None] = MappingProxyType({}),
        top_k: int | None = None,
    ) -> list[Document]:
        """The documents for a question, best first.

        Args:
            question: what the user asked.
            limits: `precision` or `score_threshold` of the ranker; `None` leaves one to the pipeline.
            top_k: how many documents at most; `None` leaves it to the pipeline.
        """
        settings = {name: value for name, value in {**limits, "top_k": top_k}.items() if value is not None}
        data: dict[str, dict[str, Any]] = {self.last: settings}
        for target in self.query:
            component, socket = target.split(".", 1)
            data.setdefault(component, {})[socket] = question
        documents = self.pipeline.run(data, include_outputs_from={self.last}).get(self.last, {}).get("documents")
        if not isinstance(documents, list):
            raise InputError(
                f"{self.path}: expected documents from {self.last!r}, found none. Does the query reach every component "
                "that needs it? It goes to " + ", ".join(self.query) + "."
            )
        return documents

    def explain(self, question: str, document: Document) -> tuple[str, str, Explanation]:
        """The texts that were compared, and how much each of their words counted.

        Raises:
            InputError: the pipeline has no ranker of ours, or its model weighs no words.
        """
        ranker = self.ranker()
        if ranker is None:
            raise InputError(f"{self.path}: expected a ranker of ap-ranker, which can tell its reasons, found none.")
        return ranker.explanation(question, document)

    def ranker(self) -> AnswerRanker | None:
        """The first of ours; `None` without any."""
        from haystack_integrations.components.rankers.ap_ranker import AnswerRanker

        return next((one for one in components_of(self.pipeline) if isinstance(one, AnswerRanker)), None)

    def _warm_up(self) -> None:
        try:
            self.pipeline.warm_up()
        except InputError:
            raise
        except Exception as error:  # what a component's settings lead to
            raise InputError(
                f"{self.path}: expected components that can be made ready, found {type(error).__name__}: "
                f"{safe_line(error)}"
            ) from error


def _is_socket(target: object, pipeline: Pipeline, kind: str) -> TypeGuard[str]:
    """Whether a declaration names a component's input or output."""
    name, _, socket = target.partition(".") if isinstance(target, str) else ("", "", "")
    if name not in pipeline.graph.nodes:
        return False
    component = pipeline.get_component(name)
    sockets = getattr(component, f"__haystack_{kind}__")
    return socket in sockets._sockets_dict
