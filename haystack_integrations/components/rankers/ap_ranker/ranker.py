# SPDX-License-Identifier: Apache-2.0
"""Haystack rankers. They are defined here because Haystack loads YAML only from `haystack_integrations`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from haystack import Document, component, tracing
from haystack.utils import ComponentDevice, Secret

from ap_ranker.errors import InputError
from ap_ranker.models.registry import MODELS
from ap_ranker.models.spec import Family
from ap_ranker.ranking.bm25 import BM25_LANGUAGE, BM25_SCORE
from ap_ranker.ranking.cache import CacheInfo
from ap_ranker.ranking.decision import Decider, Decision, check_limits
from ap_ranker.ranking.explanation import Explanation
from ap_ranker.ranking.quantization import StateDtype
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.ranking_request import RankingRequest
from ap_ranker.ranking.rule import Signals
from ap_ranker.ranking.state_bytes import STATES
from ap_ranker.ranking.text_encoder import BATCH_SIZE, check_number
from ap_ranker.ranking.wordings import MATCHED, is_exact_match
from haystack_integrations.common.ap_ranker.component import (
    LIMITS,
    READING,
    THRESHOLDS,
    CheckpointComponent,
    ReadsTexts,
    file_list,
    read_cache,
)
from haystack_integrations.common.ap_ranker.entries import MARK
from haystack_integrations.common.ap_ranker.query_data import (
    DECISION,
    EXPLANATION,
    OTHER_FAQ,
    QUERY_DATA,
    WORDINGS_COUNT,
    CandidateReader,
    Candidates,
    Found,
    check_documents,
    check_query,
    decision_data,
    different,
    is_told,
    query_key,
    with_query_data,
)

CACHE_OF_0_1_0 = {"cache_megabytes": "megabytes", "cache_dtype": "dtype", "encodings": "encodings"}
"""Parameter of 0.1.0 -> what it is in `cache` now."""


@component
class AnswerRanker(CheckpointComponent, ReadsTexts):
    """
    Ranks documents with a trained answer-selection model: how well does each answer the query?

    A drop-in replacement for `SentenceTransformersSimilarityRanker`: same arguments, same behaviour, but a checkpoint
    of `ap-ranker train`, with any model, instead of a cross-encoder. The first `run`, or `warm_up`, reads it.

    A calibrated score is the probability that a document is a right answer. It depends on the document's score and on
    its lead over the best different candidate: give the ranker all that the pipeline fetches. Copies count once.

    ### Usage example

    ```python
    from haystack import Document
    from haystack_integrations.components.rankers.ap_ranker import AnswerRanker

    ranker = AnswerRanker(model="checkpoints/faq", top_k=3)
    print(ranker.run(query="Where is my parcel?", documents=[Document(content="Open the tracking link ...")]))
    ```
    """

    family: ClassVar[Family | None] = None
    """The models whose checkpoints this class loads; `None` for all."""

    parameters = (*CheckpointComponent.parameters, *READING, *LIMITS, "fuse_scores", "cache")

    def __init__(
        self,
        *,
        model: str | Path,
        device: ComponentDevice | None = None,
        token: Secret | None = Secret.from_env_var(["HF_API_TOKEN", "HF_TOKEN"], strict=False),  # noqa: B008
        top_k: int = 10,
        query_prefix: str = "",
        query_suffix: str = "",
        document_prefix: str = "",
        document_suffix: str = "",
        meta_fields_to_embed: list[str] | None = None,
        embedding_separator: str = "\n",
        scale_score: bool = True,
        score_threshold: float | None = None,
        batch_size: int = BATCH_SIZE,
        fuse_scores: bool = False,
        precision: float | None = None,
        wordings: str | Path | Sequence[str | Path] | None = None,
        cache: dict[str, Any] | None = None,
    ) -> None:
        """
        Create the component without loading the checkpoint.

        :param model: The path of a checkpoint folder, or the name of a repository of the Hugging Face hub.
        :param device: The device that the model runs on. By default, the GPU if there is one.
        :param token: The token for a private repository of the hub. By default, the environment's `HF_API_TOKEN` or
            `HF_TOKEN`.
        :param top_k: The maximum number of documents to return.
        :param query_prefix: A text that the model reads before each query.
        :param query_suffix: A text that the model reads after each query.
        :param document_prefix: A text that the model reads before each document.
        :param document_suffix: A text that the model reads after each document.
        :param meta_fields_to_embed: Meta fields whose values the model reads before the content.
        :param embedding_separator: The text between these values and the content.
        :param scale_score: Whether to map the scores to the interval from 0 to 1, which keeps their order. With a
            calibrated checkpoint they are then probabilities of a right answer. Otherwise they are none: (1 + s) / 2 of
            a cosine s, 1/2 + arctan(s) / pi of a fused score s.
        :param score_threshold: The minimum score of a returned document, after scaling. Not beside `precision`.
        :param batch_size: The number of documents to encode at once, 64 by default. More need more memory.
        :param fuse_scores: Whether to add BM25's score, with the weight that training found best. The score stands in
            `meta["ap_ranker"]["bm25_score"]`. Retrievers of this package write it there; behind any other retriever,
            `BM25Scores` does. If a document lacks it, it is added to none: the model alone ranks, and a warning says so
            once. A warning also says if BM25's stemmer is not that of the checkpoint.
        :param precision: The target share of right first answers, such as 0.9. Documents below its threshold are left
            out. Without any calibration, such as that of `ap-ranker train`, all are left out but those of which the
            query is a known wording. Not beside `score_threshold`.
        :param wordings: Files of questions that are known to ask for an entry of the FAQ. A file has training questions
            (`question`, `answer_ids`, which are compared with `meta["aid"]`) or pairs (`question`, `answer`). Its
            changes count. The known wording that is most like the query raises a document's score. If it is more like
            the query than the document itself, `matched_wording` of `meta["ap_ranker"]` names it. If it is the query
            itself, but for case, white space and final punctuation, its document comes first and is never left out.
            With a list, also an empty one, `meta["question"]` and `meta["wordings"]` of all documents are known
            wordings, too. With `None`, these fields count only in documents that come from `ap-ranker index`, from a
            store with `documents`, or from a retriever that knows wordings itself.
        :param cache: How encoded documents are kept. `megabytes` (256; 0: not): of device memory; the least recently
            used are dropped first. `dtype`: `float32`, `float16`, `int8` or `int4`; by default the smallest by which
            the model loses nothing. `folder`: where they are also kept for the next start, which then encodes nothing;
            by default nowhere. `encodings`: a folder that `ap-ranker encode` wrote and that is only read, as in earlier
            releases.
        :raises ValueError: A number is out of range, a setting is unknown, or both thresholds are given.
        """
        check_limits(score_threshold, precision)
        check_number("top_k", top_k, 1)
        self._name_checkpoint(model, device, token)
        self._set_reading(
            query_prefix=query_prefix,
            query_suffix=query_suffix,
            document_prefix=document_prefix,
            document_suffix=document_suffix,
            meta_fields_to_embed=meta_fields_to_embed,
            embedding_separator=embedding_separator,
            batch_size=batch_size,
            wordings=None if wordings is None else file_list(wordings),
        )
        self.top_k = top_k
        self.scale_score = scale_score
        self.score_threshold = score_threshold
        self.fuse_scores = fuse_scores
        self.precision = precision
        self.cache = read_cache(cache)
        self._candidates = CandidateReader(self.texts, self._known)

    @classmethod
    def _of_this_release(cls, parameters: dict[str, Any]) -> dict[str, Any]:
        renamed = dict(parameters)
        cache = {}
        for earlier_name, name in CACHE_OF_0_1_0.items():
            if earlier_name in renamed:
                cache[name] = renamed.pop(earlier_name)
        if cache:
            renamed["cache"] = {**cache, **(renamed.get("cache") or {})}
        if renamed.pop("explain", False):
            raise InputError(
                f"{cls.__name__}: expected `explain` as an argument of `run`, found it in init_parameters. Remove it "
                "there, and run the queries that want the reasons with explain=True."
            )
        return renamed

    def _load(self) -> Ranker:
        megabytes = self.cache["megabytes"]
        dtype = self.cache["dtype"]
        folder = self.cache["folder"]
        ranker = self._read_checkpoint(encodings=self.cache["encodings"])
        if folder is not None:
            ranker.keep_states(Path(folder).absolute())
        if megabytes or folder is not None:
            ranker.use_cache(megabytes * 10**6, StateDtype(dtype) if dtype else None)
        spec = MODELS[ranker.name]
        if self.family not in (None, spec.family):
            raise InputError(
                f"{self.model}: expected a checkpoint of the {self.family} family, found {spec.name} of the "
                f"{spec.family} family. Use AnswerRanker, which loads any."
            )
        self._known.of_files()  # raises InputError if a file cannot be read
        return ranker

    def compare_faq(self, first_texts: Callable[[int], Sequence[str]]) -> None:
        """As `Ranker.compare_faq`; this component warns once, however often it loads its checkpoint."""
        self.loaded().compare_faq(first_texts, self._candidates.warn_once)

    def encode_ahead(self, queries: list[str]) -> None:
        """Encode together at most 32 queries that `run` is about to be called with, which takes less time."""
        self.loaded().encode_ahead([self._question(query) for query in queries])

    @property
    def cache_info(self) -> CacheInfo | None:
        """Of the cache; `None` without one or before the checkpoint is loaded."""
        ranker = self.loaded.ranker
        if ranker and ranker.cache:
            return ranker.cache.info()
        return None

    @component.output_types(documents=list[Document])
    def run(
        self,
        *,
        query: str,
        documents: list[Document],
        top_k: int | None = None,
        scale_score: bool | None = None,
        score_threshold: float | None = None,
        precision: float | None = None,
        explain: bool = False,
    ) -> dict[str, list[Document]]:
        """
        Rank documents; of several with the same id, only the one with the highest score is ranked.

        :param query: The question of the user.
        :param documents: The candidates. Their content is matched with the query; missing content counts as empty.
        :param top_k: The maximum number of documents to return. By default, the component's `top_k`.
        :param scale_score: Whether to map the scores to the interval from 0 to 1. By default, as the component.
        :param score_threshold: The minimum score of a returned document, after scaling; not beside `precision`. By
            default, the component's.
        :param precision: The target share of right first answers, such as 0.9: documents below its threshold are left
            out. By default, the component's.
        :param explain: Whether to add `explanation`, the attention weight of each word, to `meta["ap_ranker"]` of each
            returned document, which is encoded once more: `{"question": [{"text", "start", "end", "weight"}, ...],
            "answer": [...]}`. The weights of a side sum to 1, or are `None` if the model has none for it. `start` and
            `end` are character offsets in the texts as the model reads them, with prefixes, suffixes and meta fields.
        :returns: `documents`: copies with their new scores, best first; ties keep the given order. What they carry for
            the ranker alone (`states` of `APDocumentEmbedder`) is left out.
        :raises InputError: The checkpoint cannot be loaded, or has no attention; an argument is of another kind or out
            of range, or both `score_threshold` and `precision` are given.
        """
        limits = self._limits(
            top_k=top_k, scale_score=scale_score, score_threshold=score_threshold, precision=precision
        )
        check_query(query)
        if not documents:
            return {"documents": []}
        check_documents(documents)
        ranker = self.loaded()
        candidates = different(documents)
        key = query_key(query)
        decider = ranker.decider(fuse_scores=self.fuse_scores)
        signals = self._compared(ranker, decider, query, candidates=candidates, documents=documents, key=key)
        best, data_of_places, _ = self._best(ranker, decider, signals, limits=limits)
        # Copied in the order given, which is usually that of memory: a thousand take two thirds of the time.
        in_order = sorted(best)
        copies = {}
        for place, score in in_order:
            copy = with_query_data(candidates[place], key, data_of_places[place], score)
            if STATES in copy.meta:  # of few retrievers: a call of `pop` for each candidate costs more
                del copy.meta[STATES]
            copies[place] = copy
        ranked = [copies[place] for place, _ in best]
        return {"documents": self.explained(query, ranked) if explain else ranked}

    def decide(
        self,
        query: str,
        documents: list[Document],
        *,
        precision: float | None = None,
        score_threshold: float | None = None,
    ) -> Decision:
        """
        Whether the query has an answer among the documents, which may be those that `run` returned.

        The parameters and errors are those of `run`; the two best different documents are enough.
        """
        limits = self._limits(precision=precision, score_threshold=score_threshold)
        check_query(query)
        check_documents(documents)
        ranker = self.loaded()
        key = query_key(query)
        decider = ranker.decider(fuse_scores=self.fuse_scores, other_faq=is_told(documents, key, OTHER_FAQ))
        signals = self._compared(ranker, decider, query, candidates=different(documents), documents=documents, key=key)
        return decider.answer(signals, **limits)[1]

    def rank_found(
        self, queries: Sequence[str], fetched: Sequence[Found], *, offer: bool = False, **limits: Any
    ) -> list[tuple[list[Document], Decision]]:
        """
        As `run` and `decide`, of each query and of what a retriever of our store found for it.

        Only what is returned is copied, and each document is read once, not for each question. To `offer` is to leave
        nothing out where there is no answer.
        """
        limits = self._limits(**limits) | {"offer": offer}
        ranker = self.loaded()
        decider = ranker.decider(fuse_scores=self.fuse_scores)
        places: list[Sequence[int]] = []
        batch: list[RankingRequest] = []
        for query, of_query in zip(queries, fetched, strict=True):
            # All that a small store has stays in its order, so that what is joined for a question serves the next one.
            places.append(range(len(of_query.rows)) if of_query.is_whole else of_query.order)
            batch.append(self._request_of_found(ranker, decider, query, fetched=of_query, places=places[-1]))
        ranked: list[tuple[list[Document], Decision]] = []
        of_batch = ranker.score_batch(batch, self.batch_size)
        for of_query, places_of_found, scored in zip(fetched, places, of_batch, strict=True):
            signals = replace(scored, ties=np.argsort(of_query.order)) if of_query.is_whole else scored
            best, data_of_places, decision = self._best(ranker, decider, signals, limits=limits)
            documents: list[Document] = []
            for place, score in best:
                document = of_query.copy(places_of_found[place], score, data_of_places[place])
                if STATES in document.meta:
                    del document.meta[STATES]
                documents.append(document)
            ranked.append((documents, decision))
        return ranked

    def _request_of_found(
        self, ranker: Ranker, decider: Decider, query: str, *, fetched: Found, places: Sequence[int]
    ) -> RankingRequest:
        """A query with what was found for it at these places."""
        entries = self._candidates.read_once(fetched, places)
        self._candidates.take_states(ranker, [fetched.documents[place] for place in places], entries[0])
        bm25 = None
        if decider.weights.bm25:
            scores = [fetched.columns[BM25_SCORE][place] for place in places]
            bm25 = self._candidates.complete(ranker, scores, [fetched.meta[BM25_LANGUAGE]])
        return self._request(ranker, query, entries, bm25, counted=WORDINGS_COUNT in fetched.meta)

    def _limits(self, **named: Any) -> dict[str, Any]:
        """The arguments of `Decider.answer`: those of a run that are not `None`, for others the component's."""
        chosen = {name: value for name, value in named.items() if value is not None}
        if "top_k" in chosen:
            check_number("top_k", chosen["top_k"], 1)
        check_limits(chosen.get("score_threshold"), chosen.get("precision"))
        names = LIMITS if chosen.keys().isdisjoint(THRESHOLDS) else set(LIMITS).difference(THRESHOLDS)
        return {name: getattr(self, name) for name in names} | chosen

    def _compared(
        self,
        ranker: Ranker,
        decider: Decider,
        query: str,
        *,
        candidates: Sequence[Document],
        documents: Sequence[Document],
        key: str,
    ) -> Signals:
        """The signals of candidates, which are the different ones of the documents, for the query of a key."""
        with_data: list[Document] = []  # of other retrievers, none
        for document in documents:
            if QUERY_DATA in document.meta or MARK in document.meta:
                with_data.append(document)
        entries = self._candidates.read(candidates, with_data, key)
        self._candidates.take_states(ranker, candidates, entries[0])
        bm25 = None
        if decider.weights.bm25:
            bm25 = self._candidates.bm25_of(ranker, candidates, with_data, key)
        request = self._request(ranker, query, entries, bm25, counted=is_told(with_data, key, WORDINGS_COUNT))
        return ranker.score_batch([request], self.batch_size)[0]

    def _request(
        self,
        ranker: Ranker,
        query: str,
        entries: Candidates,
        bm25: list[float] | None,
        *,
        counted: bool,  # whether other entries of the search have known wordings
    ) -> RankingRequest:
        question = self._question(query)
        (texts, parts, wordings) = entries
        counts = counted or bool(self._known.paths) or any(wordings)
        span = tracing.tracer.current_span() if tracing.is_tracing_enabled() else None
        if span is not None:
            tags: dict[str, Any] = {
                "ap_ranker.model": self.model,
                "ap_ranker.architecture": ranker.name,
                "ap_ranker.candidates": len(texts),
            }
            if ranker.cache is not None:
                tags["ap_ranker.cache_hits"] = ranker.cache.count(texts)
            span.set_tags(tags)
            span.set_content_tag("ap_ranker.question", question)
        return RankingRequest(question, texts, wordings if counts else None, bm25, parts=parts, typed=query)

    def _best(
        self, ranker: Ranker, decider: Decider, signals: Signals, *, limits: dict[str, Any]
    ) -> tuple[list[tuple[int, float]], dict[int, dict[str, Any]], Decision]:
        """The places to return, best first, with their scores; the query data of each; and the decision."""
        best, decision = decider.answer(signals, **limits)
        # What a router, or another ranker of ours, behind this one asks for.
        of_all: dict[str, Any] = {}
        if signals.wordings is not None:
            of_all[WORDINGS_COUNT] = True
        if ranker.knows_faq is False:
            of_all[OTHER_FAQ] = True
        of_all[DECISION] = decision_data(decision)
        data: dict[int, dict[str, Any]] = {}
        for place, _ in best:
            data[place] = of_all
            wording = signals.matched[place]
            if wording is not None:
                asked = wording.removeprefix(self.query_prefix).removesuffix(self.query_suffix)
                data[place] = of_all | {MATCHED: asked}
        return best, data, decision

    def decide_again(self, decision: Decision, documents: list[Document], query: str, precision: float) -> Decision:
        """
        The decision on a query with another target precision.

        :param decision: The decision that a ranker of the same checkpoint has made.
        :param documents: What it returned.
        :param query: The question of the user.
        :param precision: The target share of right first answers.
        :raises InputError: The checkpoint cannot be loaded.
        """
        is_other_faq = is_told(documents, query_key(query), OTHER_FAQ)
        decider = self.loaded().decider(fuse_scores=self.fuse_scores, other_faq=is_other_faq)
        return decider.with_precision(decision, precision)

    def exact_matches(self, query: str, documents: list[Document]) -> list[bool]:
        """Whether a query is a known wording of each document, word for word."""
        *_, wordings = self._candidates.read(documents, documents, query_key(query))
        return is_exact_match(self._question(query), wordings)

    def explained(self, query: str, documents: list[Document]) -> list[Document]:
        """Copies of documents with the attention weights of their words, as with `explain` of `run`."""
        question = self._question(query)
        copies = []
        for document, text in zip(documents, self.texts.texts(documents), strict=True):
            of_question, of_answer = self.loaded().attention_weights(question, text)
            explanation = {"question": list(map(asdict, of_question)), "answer": list(map(asdict, of_answer))}
            data = {EXPLANATION: explanation}
            copies.append(with_query_data(document, query_key(query), data, document.score))
        return copies

    def explanation(self, query: str, document: Document) -> tuple[str, str, Explanation]:
        """The question and the answer as the model reads them, with the weight of each word; InputError without any."""
        question = self._question(query)
        [answer] = self.texts.texts([document])
        return question, answer, self.loaded().explain(question, answer)

    def _question(self, query: str) -> str:
        return self.query_prefix + query + self.query_suffix


@component
class APRanker(AnswerRanker):
    """
    An `AnswerRanker` for the attentive-pooling family (dos Santos, Tan, Xiang & Zhou 2016) alone.

    The question and the answer together determine the weights of the words of both.
    """

    family = "attentive-pooling"


@component
class GlobalLocalRanker(AnswerRanker):
    """
    An `AnswerRanker` for the global-local family (Tan et al. 2016, Bachrach et al. 2017) alone.

    The question determines the weights of the answer's words; the full model also uses all words of the answer.
    """

    family = "global-local"


@component
class ABCNNRanker(AnswerRanker):
    """
    An `AnswerRanker` for the ABCNN family (Yin, Schütze, Xiang & Zhou 2016) alone.

    Convolutions over both texts use the similarity of each word of one to each word of the other.
    """

    family = "abcnn"
