"""Runs the search that a YAML pipeline declares: documents and questions in, ranked documents out."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from haystack import Document, Pipeline, tracing

from ap_ranker.data.faq import Entry, Match
from ap_ranker.errors import InputError
from ap_ranker.progress import Progress, untold
from ap_ranker.ranking.bm25 import BM25_SCORE
from ap_ranker.ranking.cache import CacheInfo
from ap_ranker.ranking.checkpoint import find_checkpoint, read_checkpoint_config
from ap_ranker.ranking.decision import PRECISION, Decision
from ap_ranker.ranking.explanation import Explanation
from ap_ranker.ranking.outcome import Outcome
from ap_ranker.ranking.rule import Basis
from ap_ranker.search.default_pipelines import find_pipeline
from ap_ranker.search.elasticsearch.elasticsearch_guard import check_origin, check_shards, guard
from ap_ranker.search.elasticsearch.index_target import elasticsearch_of, is_elasticsearch
from ap_ranker.search.lasting_stores import fill_store
from ap_ranker.search.load_pipeline import (
    components_of,
    describe_store,
    find_stores,
    load_pipeline,
    report_store_errors,
    safe_line,
)
from ap_ranker.text.synonyms import read_synonyms
from haystack_integrations.common.ap_ranker.component import KnowsWordings
from haystack_integrations.common.ap_ranker.entries import to_document
from haystack_integrations.common.ap_ranker.query_data import query_key, with_query_data
from haystack_integrations.components.embedders.ap_ranker import APTextEmbedder
from haystack_integrations.components.rankers.ap_ranker import AnswerRanker
from haystack_integrations.components.retrievers.ap_ranker import (
    AnswerSearch,
    ElasticsearchFAQRetriever,
    HybridRetriever,
)
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

Limits = Mapping[str, float | None]  # `precision` or `score_threshold` of the ranker; `None` leaves it to the pipeline

NO_LIMITS: Limits = {}

NO_THRESHOLD: Limits = {"score_threshold": -math.inf}  # limits of a search for whatever is nearest
QUESTION = "Is anything there?"  # asked only to make everything load
ENCODING_SECONDS = 20.0  # maximum time to encode answers at startup; the rest is encoded on first use
COMPARED = 10  # minimum number of documents to decide by, two different ones of which are hardly missing among copies
CHANGED = 0.3  # share of entries that are new since a calibration, from which on this is said
BATCH = 64  # number of documents encoded between two looks at the clock


@dataclass(eq=False)
class DeclaredPipeline:
    """A YAML pipeline that declares the inputs of its query and the output of its documents, as for Hayhooks.

    `query` are the inputs that take the query, as "component.socket"; `last` is the component whose documents are the
    result, and `takes_threshold` whether its `run` accepts `score_threshold`. Only `become` changes it.
    """

    path: Path
    pipeline: Pipeline
    query: list[str]
    last: str
    takes_threshold: bool
    embedder: APTextEmbedder | None = None  # of a question, for a store of another package
    version: object = None  # what differs between its checkpoints before and after a change, as `SearchSetup.look` says
    since: float = field(default_factory=time.time)  # when it began to be searched, in seconds since 1970

    @classmethod
    def load(cls, path: Path, checkpoint: str | None = None) -> DeclaredPipeline:
        """Load the pipeline of a file; InputError if it is none that a question can be put to.

        A default one ranks with the `checkpoint`, and has the language of its stemmer, instead of those of its file.
        """
        path = find_pipeline(path)
        pipeline, declared = load_pipeline(path)
        if checkpoint is not None:
            language = read_checkpoint_config(find_checkpoint(checkpoint)).bm25_language
            for part in components_of(pipeline):
                if hasattr(part, "model"):
                    part.model = checkpoint  # read on first use
            for store in find_stores(pipeline):
                store.language = language
        for part in components_of(pipeline):
            if isinstance(part, AnswerRanker) and part.wordings is None:
                part.wordings = []  # what the command line searches are FAQs: their stored questions count
        inputs = declared.get("inputs")
        outputs = declared.get("outputs")
        query = None
        if isinstance(inputs, dict):
            query = inputs.get("query")
        if not isinstance(query, list):
            query = [query]
        documents = None
        if isinstance(outputs, dict):
            documents = outputs.get("documents")
        takes = _sockets(pipeline.inputs(True))
        gives = _sockets(pipeline.outputs(True))
        last, _, socket = str(documents).partition(".")
        is_complete = query and takes.issuperset(map(str, query)) and str(documents) in gives
        if not is_complete or socket != "documents":
            raise InputError(
                f"{path}: expected 'inputs: query: component.socket' (or a list) and 'outputs: documents: component."
                f"documents' of the pipeline, found {safe_line(str(inputs))} and {safe_line(str(outputs))}."
            )
        embedders = [part for part in components_of(pipeline) if isinstance(part, APTextEmbedder)]
        return cls(
            path,
            pipeline,
            query=query,
            last=last,
            takes_threshold=f"{last}.score_threshold" in takes,
            embedder=embedders[0] if embedders else None,
        )

    def become(self, other: DeclaredPipeline) -> None:
        """Let the next question, and all that follow, meet the pipeline of another one that is ready to search."""
        other.since = time.time()
        vars(self).update(vars(other))

    @property
    def place(self) -> str:
        """Where its stores keep their documents, for messages."""
        descriptions = map(describe_store, self._stores())
        return ", ".join(dict.fromkeys(descriptions))

    def fill(self, entries: Sequence[Entry] | None, match: Match) -> list[Document]:
        """Let its stores be searched for a FAQ's entries (`fill_store`); without, they must hold documents."""
        documents = [to_document(entry, match) for entry in entries or ()]
        if entries is not None:
            self.index(documents)
        elif not any(map(self._count, self._stores())):
            raise InputError(
                f"{self.path}: expected documents in {self.place}, found none. Give --documents, or write them with "
                "`ap-ranker index` if the store is persistent."
            )
        return documents

    def index(self, documents: list[Document]) -> None:
        """Let every store that the pipeline retrieves from be searched for the documents, as `fill_store` does it.

        They replace those that the pipeline's file names.
        """
        for store in self._stores():
            retriever = self._elasticsearch_retriever(store)
            index = None if retriever is None else retriever.index
            fill_store(store, documents, index)

    def check(self) -> None:
        """See, by one small request, whether a question could be answered in full now; InputError says why not."""
        with report_store_errors(self.path, self.place):
            for store in find_stores(self.pipeline):
                retriever = self._elasticsearch_retriever(store)
                if retriever is not None:
                    retriever.check()
                elif is_elasticsearch(store):
                    check_shards(store)

    def count_entries(self) -> int:
        """The number of entries that are searched: of two stores, both hold all of them (`index`)."""
        return max((self._count(store) for store in find_stores(self.pipeline)), default=0)

    def _count(self, store: Any) -> int:
        retriever = self._elasticsearch_retriever(store)
        if retriever is not None:
            retriever.check()
            return retriever.count_documents()
        guard(store)
        return int(store.count_documents())

    def index_retriever(self) -> ElasticsearchFAQRetriever | None:
        """The first retriever that searches an index of its checkpoint; `None` if there is none."""
        for part in components_of(self.pipeline):
            if isinstance(part, ElasticsearchFAQRetriever):
                return part
        return None

    def _elasticsearch_retriever(self, store: Any) -> ElasticsearchFAQRetriever | None:
        """The retriever of ours that searches a store in Elasticsearch; its checkpoint decides which index."""
        for part in components_of(self.pipeline):
            if isinstance(part, ElasticsearchFAQRetriever) and part.document_store is store:
                return part
        return None

    def _stores(self) -> list[Any]:
        stores = find_stores(self.pipeline)
        if stores:
            return stores
        raise InputError(f"{self.path}: expected a retriever with a document store, found none.")

    def warm_up(self, documents: Sequence[Document] = (), limits: Limits = NO_LIMITS) -> None:
        """Load the model, open or build the index, and encode answers: else many users who ask a new server at once
        would each wait for the same ones. Invalid limits are reported now."""
        self.prepare()
        self.run(QUESTION, limits)
        self.encode(documents, limits)

    def prepare(self, on_progress: Progress = untold) -> None:
        """Load the model, open or build the index, and embed what has no embedding; InputError if a component fails.

        `on_progress` gets the step in words, how many answers are embedded, and their number.
        """
        try:
            for store in find_stores(self.pipeline):
                guard(store)
            ranker = self.ranker()
            if ranker is not None:
                ranker.warm_up()  # first: its cache keeps what a retriever encodes
            self.embed_documents(partial(on_progress, "encoding the answers"))
            self.pipeline.warm_up()
            if ranker is not None:  # of an `AnswerSearch`, this has been done
                self._compare_faq(ranker)
        except InputError:
            raise
        except Exception as error:  # components raise any type
            raise InputError(
                f"{self.path}: expected components to warm up, found {type(error).__name__}: {safe_line(error)}"
            ) from error

    def embed_documents(self, on_progress: Callable[[int, int], None]) -> None:
        """Embed what a retriever finds by meaning, and has not embedded yet; called with the number done and in all."""
        for part in components_of(self.pipeline):
            if isinstance(part, HybridRetriever):
                part.embed_documents(on_progress)

    def encode(
        self,
        documents: Sequence[Document],
        limits: Limits = NO_LIMITS,
        *,
        on_progress: Callable[[int, int], None] = lambda done, total: None,
        seconds: float | None = None,
    ) -> None:
        """Encode documents into the ranker's cache, within some seconds, by default `ENCODING_SECONDS`.

        Nothing is encoded for an index of the checkpoint, whose documents bring their states. `on_progress` is called
        with the number of documents done and their total.
        """
        ranker = self.ranker()
        if ranker is None or self.index_retriever() is not None:
            return
        most_seconds = ENCODING_SECONDS if seconds is None else seconds
        end = time.monotonic() + most_seconds
        for start in range(0, len(documents), BATCH):
            if time.monotonic() > end:
                break
            on_progress(start, len(documents))
            batch = documents[start : start + BATCH]
            # A ranker that adds BM25's score expects one.
            scored = []
            for document in batch:
                scored.append(with_query_data(document, query_key(QUESTION), {BM25_SCORE: 0.0}, document.score))
            precision = limits.get("precision")
            threshold = limits.get("score_threshold")
            ranker.run(query=QUESTION, documents=scored, precision=precision, score_threshold=threshold)

    def answer(
        self, question: str, limits: Limits = NO_LIMITS, top_k: int | None = None
    ) -> tuple[list[Document], Decision]:
        """The documents for a question, best first, and whether they answer it; without a ranker of ours, any do.

        A precision decides and leaves nothing out: further documents may be worth showing below an answer, and the best
        ones where there is none. `score_threshold` leaves out what is below it beside an answer. Without `top_k`, there
        are as many as the pipeline says.
        """
        return self.answer_each([question], limits, top_k)[0]

    def answer_each(
        self, questions: Sequence[str], limits: Limits = NO_LIMITS, top_k: int | None = None
    ) -> list[tuple[list[Document], Decision]]:
        """As `answer`, of each question, in less time than one after the other; an error of one of them is raised."""
        now = copy(self)  # all of this by one pipeline, whichever takes its place meanwhile
        search = now._search()
        if search is not None:
            settings: dict[str, Any] = {**limits, "top_k": top_k}
            return search.search_each(questions, offer=True, **settings)
        if len(questions) > 1:
            now.encode_ahead(questions)
        return [now._answer_by_parts(question, limits, top_k) for question in questions]

    def _answer_by_parts(self, question: str, limits: Limits, top_k: int | None) -> tuple[list[Document], Decision]:
        """As `answer`, of a pipeline of several components."""
        ranker = self.ranker()
        if ranker is None:
            documents = self.run(question, limits, top_k)
            outcome = Outcome.ANSWER if documents else Outcome.NONE
            return documents, Decision(outcome, None, Basis.NOTHING)
        if not self.takes_threshold:  # the ranker is not the last
            documents = self.run(question, limits, top_k)
            return documents, ranker.decide(question, documents, **limits)
        most = top_k or ranker.top_k
        documents = self.run(question, NO_THRESHOLD, max(most, COMPARED))
        decision = ranker.decide(question, documents, **limits)
        if decision.outcome is Outcome.ANSWER and "score_threshold" in _effective(limits, ranker):
            return self.run(question, limits, top_k), decision
        return documents[:most], decision

    def describe_decisions(self, limits: Limits = NO_LIMITS) -> str:
        """One sentence on what is an answer with these limits, and what that rests on; InputError as `prepare`."""
        ranker = self.ranker()
        if ranker is None:
            return "No ranker of ap-ranker is there to decide, so whatever is found is an answer."
        self._compare_faq(ranker)  # another FAQ than the checkpoint's has no calibration
        served = ranker.loaded().decider(fuse_scores=ranker.fuse_scores).served
        chosen = _effective(limits, ranker)
        score = chosen.get("score_threshold")
        if score is not None:
            return f"What scores at least {score:g} is an answer, all else a maybe."
        if served is None:
            advice = f"With questions of users, even a few: ap-ranker calibrate {ranker.model} DEV.csv"
            return f"Nothing tells how probably an answer is right, so all but known questions get maybes. {advice}"
        precision = chosen.get("precision", PRECISION)
        origin = _ORIGINS[served.basis]
        if served.questions:
            origin += f" ({served.questions:,})"
        sentence = f"Target precision of answers: {precision:g}, by {origin}; all else is a maybe, or nothing."
        changed = ranker.loaded().changed_share or 0.0
        if changed >= CHANGED and served.basis in (Basis.QUESTIONS, Basis.WORDINGS):
            sentence += (
                f" {changed:.0%} of the entries are new since it was calibrated: "
                f"ap-ranker calibrate {ranker.model} DEV.csv, with questions of now, makes it more certain."
            )
        return sentence

    def target_precision(self, limits: Limits = NO_LIMITS) -> float | None:
        """The share of right answers that is promised with these limits; `None` if none is, as without a calibration.

        InputError if the checkpoint cannot be loaded.
        """
        ranker = self.ranker()
        if ranker is None:
            return None
        chosen = _effective(limits, ranker)
        calibration = ranker.loaded().decider(fuse_scores=ranker.fuse_scores).served
        if calibration is None or chosen.get("score_threshold") is not None:
            return None
        return chosen.get("precision", PRECISION)

    def _compare_faq(self, ranker: AnswerRanker) -> None:
        stores = find_stores(self.pipeline)

        def first_texts(most: int) -> list[str]:
            texts: list[str] = []
            for store in stores:
                texts += self._contents(store, most)
            return texts

        ranker.compare_faq(first_texts)

    def _contents(self, store: Any, most: int) -> list[str]:
        """Some of a store's texts; none of one that we do not know."""
        retriever = self._elasticsearch_retriever(store)
        if isinstance(store, BM25SDocumentStore):
            return store.contents(most)
        if retriever is not None:
            return retriever.contents(most)
        if not is_elasticsearch(store):
            return []
        ours = elasticsearch_of(store)
        documents = ours.first_documents(ours.index, most)
        return [document.content for document in documents if document.content is not None]

    def run(self, question: str, limits: Limits = NO_LIMITS, top_k: int | None = None) -> list[Document]:
        """Retrieve and rank the documents for a question, best first; without `top_k`, as many as the pipeline says."""
        data: dict[str, dict[str, Any]] = {self.last: _without_none({**limits, "top_k": top_k})}
        for target in self.query:
            component, socket = target.split(".", 1)
            data.setdefault(component, {})[socket] = question
        search = self._search()
        if search:
            outputs: Mapping[str, Any] = search.run(**data[self.last])
        else:
            outputs = self.pipeline.run(data, include_outputs_from={self.last}).get(self.last, {})
        documents = outputs.get("documents")
        if not isinstance(documents, list):
            raise InputError(
                f"{self.path}: expected documents from {self.last!r}, found none. Does each component that needs the "
                f"query get it? It goes to {', '.join(self.query)}."
            )
        if self.embedder is not None:
            check_origin(self.embedder, documents)
        return documents

    @property
    def searches_in_memory(self) -> bool:
        """Whether a search waits for nothing but this process: those of several questions then gain nothing by
        overlapping, but by being one."""
        search = self._search()
        return search is not None and not isinstance(search.retriever, ElasticsearchFAQRetriever)

    def _search(self) -> AnswerSearch | None:
        """The pipeline's one component, if it is ours: Haystack's bookkeeping would take as long as BM25."""
        search = self.pipeline.get_component(self.last)
        alone = len(self.pipeline.graph) == 1 and not tracing.is_tracing_enabled()
        if isinstance(search, AnswerSearch) and alone:
            return search
        return None

    def encode_ahead(self, questions: Sequence[str]) -> None:
        """Encode together some questions that `run` is about to be asked."""
        ranker = self.ranker()
        if ranker is not None:
            ranker.encode_ahead(list(questions))

    def explain(self, question: str, document: Document) -> tuple[str, str, Explanation]:
        """The matched texts of question and document, and the weights of their words; InputError if there are none."""
        return self._needed_ranker("which can explain its scores").explanation(question, document)

    def add_wordings(self, paths: Sequence[str | Path]) -> None:
        """Let the ranker, and the retrievers that can, use files of known wordings, and follow their changes."""
        if paths:
            self._needed_ranker("which uses known wordings")
        for part in components_of(self.pipeline):
            if isinstance(part, KnowsWordings) and part.wordings is not None:  # `None`: a retriever by BM25 alone
                for path in paths:
                    part.add_wordings(path)

    def use_synonyms(self, path: Path) -> None:
        """Search with the synonyms of a file, and follow its changes; InputError if no store can use them."""
        stores = [store for store in self._stores() if isinstance(store, BM25SDocumentStore)]
        if not stores:
            raise InputError(
                f"{self.path}: expected a BM25SDocumentStore, which searches with synonyms, found {self.place}."
            )
        for store in stores:
            read_synonyms(path, store.language)  # so that a wrong line is found before the first question
            store.synonyms = str(path)

    def ranker(self) -> AnswerRanker | None:
        """The first ranker of ap-ranker in the pipeline; `None` if there is none."""
        for part in components_of(self.pipeline):
            if isinstance(part, AnswerRanker):
                return part
        return None

    def _needed_ranker(self, purpose: str) -> AnswerRanker:
        ranker = self.ranker()
        if ranker:
            return ranker
        raise InputError(f"{self.path}: expected a ranker of ap-ranker, {purpose}, found none.")

    @property
    def cache_info(self) -> CacheInfo | None:
        """Of the ranker's cache; `None` without one."""
        ranker = self.ranker()
        if ranker:
            return ranker.cache_info
        return None


_ORIGINS = {
    Basis.QUESTIONS: "a calibration with questions of users",
    Basis.WORDINGS: "a calibration with the FAQ's own questions",
    Basis.PRIOR: "what was learnt from other FAQs",
}


def _effective(limits: Limits, ranker: AnswerRanker) -> dict[str, float]:
    """The limits of a search; without any, those of its ranker."""
    own = {"precision": ranker.precision, "score_threshold": ranker.score_threshold}
    return _without_none(limits) or _without_none(own)


def _without_none(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those settings that have a value."""
    return {name: value for name, value in settings.items() if value is not None}


def _sockets(described: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """The inputs or outputs of a pipeline's components, as "component.socket"."""
    names: set[str] = set()
    for name, sockets in described.items():
        names.update(f"{name}.{socket}" for socket in sockets)
    return names
