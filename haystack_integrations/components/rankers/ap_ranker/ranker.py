"""Haystack rankers. They are defined here because Haystack loads YAML only from `haystack_integrations`.

`AnswerRanker` loads any checkpoint; its subclasses load only the checkpoints of one family of models.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self, cast

from haystack import Document, component, default_from_dict, tracing
from haystack.utils import ComponentDevice, Secret

from ap_ranker.data.wordings import MOST_ANSWERS, NO_WORDINGS, WordingFiles, Wordings
from ap_ranker.errors import InputError
from ap_ranker.models.registry import MODELS
from ap_ranker.models.spec import Family
from ap_ranker.ranking.bm25 import BM25_LANGUAGE, BM25_SCORE
from ap_ranker.ranking.cache import CacheInfo
from ap_ranker.ranking.decision import Decision, check_limits
from ap_ranker.ranking.explanation import Explanation, no_attention
from ap_ranker.ranking.quantization import StateDtype
from ap_ranker.ranking.ranker import BATCH_SIZE, Ranker
from ap_ranker.ranking.rule import Signals
from ap_ranker.ranking.wordings import MATCHED, is_exact_match
from ap_ranker.threads import in_thread
from haystack_integrations.components.rankers.ap_ranker.checkpoint import (
    CheckpointComponent,
    DocumentTexts,
    check_number,
    file_list,
    trace_run,
)
from haystack_integrations.document_stores.ap_ranker.documents import Found
from haystack_integrations.document_stores.ap_ranker.entries import Candidate, bm25_of, different, read_candidates

logger = logging.getLogger(__name__)

CROSS_ENCODER_DEFAULTS = {"trust_remote_code": False, "backend": "torch"} | dict.fromkeys(
    ("model_kwargs", "tokenizer_kwargs", "config_kwargs")
)
"""Parameters of `SentenceTransformersSimilarityRanker` that do not apply here; with these values they are left out."""


@component
class AnswerRanker(CheckpointComponent):
    """Ranks documents with a trained answer-selection model: how well does each answer the query?

    A drop-in replacement for `SentenceTransformersSimilarityRanker`: same arguments, same behaviour, but a checkpoint
    of `ap-ranker train`, with any model, instead of a cross-encoder. The first `run`, or `warm_up`, reads it.

    A calibrated score is the probability that a document is a right answer, given all candidates, as it depends on the
    lead over the best different one: a pipeline should give the ranker all that it fetches. A document that is there
    twice, also with another id or meta or a slightly different text, counts once.

    In Haystack's tracing, a run's span has the tags `ap_ranker.model`, `ap_ranker.architecture` (`ap-cnn`, ...),
    `ap_ranker.candidates`, `ap_ranker.cache_hits` and, if content may be traced, `ap_ranker.question`.

    ```python
    from haystack import Document
    from haystack_integrations.components.rankers.ap_ranker import AnswerRanker

    ranker = AnswerRanker(model="checkpoints/faq", top_k=3)
    ranker.run(query="Where is my parcel?", documents=[Document(content="Open the tracking link ...")])["documents"]
    ```
    """

    family: ClassVar[Family | None] = None
    """The models whose checkpoints this class loads; `None` for all."""

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
        cache_megabytes: int = 256,
        cache_dtype: str | None = None,
        encodings: str | Path | None = None,
        fuse_scores: bool = False,
        precision: float | None = None,
        wordings: str | Path | list[str] | None = None,
        explain: bool = False,
    ) -> None:
        """Create the component without loading the checkpoint.

        The parameters that are not listed are those of Haystack's `SentenceTransformersSimilarityRanker`.

        :param model: The path of a checkpoint folder, or the name of a repository of the Hugging Face hub.
        :param top_k: The maximum number of documents to return.
        :param scale_score: Whether to map the scores to the interval from 0 to 1, which keeps their order: of a
            calibrated checkpoint to the probability of a right answer; otherwise to numbers that are not probabilities
            (cosine: (1 + s) / 2; fused scores: 1/2 + arctan(s) / pi).
        :param score_threshold: The minimum score of a returned document, after scaling; not beside `precision`.
        :param batch_size: The number of documents to encode at once; more need more memory.
        :param cache_megabytes: The device memory, in megabytes, that encoded documents may take; the least recently
            used are dropped first. 0: no cache.
        :param cache_dtype: The dtype of the cached states: `float32`, `float16`, `int8` or `int4`. By default the
            smallest by which the model loses nothing: `int4` for `ap-transformer`, `float32` for most.
        :param encodings: A folder that `ap-ranker encode` wrote with this checkpoint: documents in it need no encoding.
        :param fuse_scores: Whether to add BM25's score, with the weight that training found best: `meta["bm25_score"]`,
            as `BM25SRetriever` and, for Elasticsearch, `LuceneScores` set it. If any document lacks it, it is not
            added; a warning says so once, as it does of another stemmer.
        :param precision: The target share of right first answers, such as 0.9: documents below the threshold that
            `ap-ranker calibrate` found for it are left out. It replaces `score_threshold`.
        :param wordings: A file, or several, with questions that are known to ask for an entry of the FAQ: training
            questions (question, answer_ids, which are compared with `meta["aid"]`) or pairs (question, answer). Changes
            are followed. Other known wordings are `meta["question"]` and `meta["wordings"]` of the documents. The one
            most like the query raises a document's score; if it is more like it than the document itself,
            `meta["matched_wording"]` names it. A document of which one is the query itself, whatever its case, white
            space and final punctuation, comes first and is never left out.
        :param explain: Whether to add `meta["explanation"]`, the attention weight of each word, to each returned
            document, which is encoded once more: `{"question": [{"text", "start", "end", "weight"}, ...], "answer":
            [...]}`. The weights of a side sum to 1, or are `None` if the model has none for it. `start` and `end` are
            character offsets in the texts as the model reads them, with their prefixes, suffixes and meta fields.
        :raises ValueError: A number is out of range, `cache_dtype` is unknown, or both thresholds are given.
        """
        check_limits(score_threshold, precision)
        check_number("top_k", top_k, 1)
        if cache_dtype is not None and cache_dtype not in list(StateDtype):
            raise ValueError(f"cache_dtype must be one of {', '.join(StateDtype)}, but got {cache_dtype}")
        check_number("batch_size", batch_size, 1)
        check_number("cache_megabytes", cache_megabytes, 0)
        self._name_checkpoint(model, device, token)
        self.top_k = top_k
        self.query_prefix = query_prefix
        self.query_suffix = query_suffix
        self.document_prefix = document_prefix
        self.document_suffix = document_suffix
        self.meta_fields_to_embed = meta_fields_to_embed or []
        self.embedding_separator = embedding_separator
        self.scale_score = scale_score
        self.score_threshold = score_threshold
        self.batch_size = batch_size
        self.cache_megabytes = cache_megabytes
        self.cache_dtype = cache_dtype
        self.encodings = None if encodings is None else str(encodings)
        self.fuse_scores = fuse_scores
        self.precision = precision
        self.wordings = file_list(wordings)
        self.explain = explain
        self._texts = DocumentTexts(document_prefix, document_suffix, self.meta_fields_to_embed, embedding_separator)
        self._files = WordingFiles()
        self._entries: tuple[object, Wordings, dict[int, Candidate]] = (None, NO_WORDINGS, {})
        self._warned: set[str] = set()

    def _load(self) -> Ranker:
        ranker = self._read_checkpoint(encodings=self.encodings)
        if self.cache_megabytes:
            ranker.use_cache(self.cache_megabytes * 10**6, StateDtype(self.cache_dtype) if self.cache_dtype else None)
        spec = MODELS[ranker.name]
        if self.family not in (None, spec.family):
            raise InputError(
                f"{self.model}: expected a checkpoint of the {self.family} family, found {spec.name} of the "
                f"{spec.family} family. Use AnswerRanker, which loads any."
            )
        if self.explain and not spec.attention_over:
            raise InputError(f"{self.model}: {no_attention(spec.name)} Or set explain to false.")
        if self.precision is not None:
            decider = ranker.decider(fuse_scores=self.fuse_scores)
            decider.threshold(self.precision, fused=decider.weights.bm25 != 0)
        self._files.now(self.wordings)  # raises InputError if one cannot be read
        return ranker

    def add_wordings(self, path: str | Path) -> None:
        """Use the wordings of one more file; InputError if it cannot be read."""
        wordings = list(dict.fromkeys([*self.wordings, str(path)]))
        self._files.now(wordings)
        self.wordings = wordings

    def encode_ahead(self, queries: list[str]) -> None:
        """Encode together at most 16 queries that `run` is about to be called with, which takes less time."""
        self._loaded().encode_ahead([self._question(query) for query in queries])

    @property
    def cache_info(self) -> CacheInfo | None:
        """Of the cache; `None` without one or before the checkpoint is loaded."""
        return self._ranker.cache.info() if self._ranker and self._ranker.cache else None

    @property
    def calibrated(self) -> bool:
        """Whether scores are probabilities by default; `False` before the checkpoint is loaded."""
        ranker = self._ranker if self.scale_score else None
        return ranker is not None and ranker.decider(fuse_scores=self.fuse_scores).calibrated

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Create the component from a dictionary, as made by `to_dict` or read from YAML.

        A dictionary of `SentenceTransformersSimilarityRanker` works once it names this class and a checkpoint.
        """
        parameters = dict(data.get("init_parameters", {}))
        for name, default in CROSS_ENCODER_DEFAULTS.items():
            if not parameters.get(name) or parameters[name] == default:
                parameters.pop(name, None)
        return default_from_dict(cls, {**data, "init_parameters": parameters})

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
    ) -> dict[str, list[Document]]:
        """Rank documents; of several with the same id, only the one with the highest score is ranked.

        :param query: The question of the user.
        :param documents: The candidates. Their content is matched with the query; missing content counts as empty.
        :param top_k: The maximum number of documents to return. By default, the component's `top_k`.
        :param scale_score: Whether to map the scores to the interval from 0 to 1. By default, as the component.
        :param score_threshold: The minimum score of a returned document, after scaling; not beside `precision`. By
            default, the component's.
        :param precision: The target share of right first answers, such as 0.9: documents below the threshold that
            `ap-ranker calibrate` found for it are left out. By default, the component's.
        :returns: `documents`: copies with their new scores, best first; ties keep the given order.
        :raises ValueError: `top_k` is not positive, or both `score_threshold` and `precision` are given.
        :raises InputError: The checkpoint cannot be loaded, or was not calibrated for `precision`.
        """
        limits = self._limits(
            top_k=top_k, scale_score=scale_score, score_threshold=score_threshold, precision=precision
        )
        if not documents:
            return {"documents": []}
        ranker, candidates = self._loaded(), different(documents)
        entries, signals = self._compared(ranker, query, candidates, documents)
        best, _ = self._best(ranker, query, entries, signals, limits)
        ranked = ((candidates[place], score, more) for place, score, more in best)
        return {"documents": [replace(one, score=score, meta={**one.meta, **more}) for one, score, more in ranked]}

    run_async = in_thread(run)

    def decide(
        self,
        query: str,
        documents: list[Document],
        *,
        precision: float | None = None,
        score_threshold: float | None = None,
    ) -> Decision:
        """Whether the query has an answer among the documents, which may be those that `run` returned.

        The parameters and errors are those of `run`; the two best different documents are enough.
        """
        limits = self._limits(precision=precision, score_threshold=score_threshold)
        _, signals = self._compared(self._loaded(), query, different(documents), documents)
        return self._loaded().decider(fuse_scores=self.fuse_scores).answer(signals, **limits)[1]

    def rank_found(
        self, query: str, found: Found, *, offer: bool = False, **limits: Any
    ) -> tuple[list[Document], Decision]:
        """As `run` and `decide`, of what a retriever of our store found: only what is returned is copied, and each of
        its documents is read once, not for each question. To `offer` is to leave nothing out where there is no answer.
        """
        limits = self._limits(**limits)
        ranker, entries, scores = self._ranker or self._loaded(), self._read_once(found), found.columns[BM25_SCORE]
        # All that a small store has stays in its order, so that what is joined for a question serves the next one.
        given, ties = (range(len(found.rows)), found.order) if found.is_whole else (found.order, None)
        entries, scores = [entries[place] for place in given], [scores[place] for place in given]
        signals = self._signals(
            ranker, query, entries, partial(self._complete, ranker, scores, [found.meta[BM25_LANGUAGE]])
        )
        best, decision = self._best(ranker, query, entries, signals, limits | {"offer": offer}, ties)
        return [found.copy(given[place], score, more) for place, score, more in best], decision

    def _limits(self, **given: Any) -> dict[str, Any]:
        """The arguments of `Decider.answer`: those of a run that are not `None`, for others the component's."""
        chosen = {name: value for name, value in given.items() if value is not None}
        if "top_k" in chosen:
            check_number("top_k", chosen["top_k"], 1)
        check_limits(chosen.get("score_threshold"), chosen.get("precision"))
        names = ["top_k", "scale_score"]
        if chosen.keys().isdisjoint(["score_threshold", "precision"]):
            names += ["score_threshold", "precision"]
        return {name: getattr(self, name) for name in names} | chosen

    def _compared(
        self, ranker: Ranker, query: str, candidates: Sequence[Document], documents: Sequence[Document]
    ) -> tuple[list[Candidate], Signals]:
        """The candidates, which are the different ones of the documents, as they are read, and their signals."""
        entries = self._read(candidates, self._files.now(self.wordings))
        bm25 = lambda: self._complete(ranker, *bm25_of(candidates, documents))  # noqa: E731
        return entries, self._signals(ranker, query, entries, bm25)

    def _signals(
        self, ranker: Ranker, query: str, entries: Sequence[Candidate], bm25: Callable[[], list[float] | None]
    ) -> Signals:
        question, texts = self._question(query), [entry.text for entry in entries]
        if tracing.is_tracing_enabled():
            trace_run(self.model, ranker, question, texts)
        return ranker.score_entries(
            question,
            texts,
            [entry.wordings for entry in entries],
            bm25() if ranker.decider(fuse_scores=self.fuse_scores).weights.bm25 else None,
            batch_size=self.batch_size,
            parts=[entry.parts for entry in entries],
        )

    def _best(
        self,
        ranker: Ranker,
        query: str,
        entries: Sequence[Candidate],
        signals: Signals,
        limits: dict[str, Any],
        order: Sequence[int] | None = None,
    ) -> tuple[list[tuple[int, float, dict[str, Any]]], Decision]:
        """The places of entries to return, best first, their scores, and what their meta gets; ties are in `order`.
        With them, the decision."""
        question, best = self._question(query), []
        order = range(len(entries)) if order is None else order
        selected, decision = ranker.decider(fuse_scores=self.fuse_scores).answer(signals.ordered(order), **limits)
        for row, score in selected:
            place = order[row]
            more: dict[str, Any] = {}
            if (wording := signals.matched[place]) is not None:
                more[MATCHED] = wording.removeprefix(self.query_prefix).removesuffix(self.query_suffix)
            if self.explain:
                weights = ranker.attention_weights(question, entries[place].text)
                sides = [[asdict(token) for token in tokens] for tokens in weights]
                more["explanation"] = dict(zip(("question", "answer"), sides, strict=True))
            best.append((place, score, more))
        return best, decision

    def exact_matches(self, query: str, documents: list[Document]) -> list[bool]:
        """Whether a query is a known wording of each document, word for word."""
        entries = self._read(documents, self._files.now(self.wordings))
        return is_exact_match(self._question(query), [entry.wordings for entry in entries])

    def _read(self, documents: Sequence[Document], files: Wordings) -> list[Candidate]:
        """The documents as questions are compared with them, with the known wordings of files."""
        return read_candidates(documents, self._texts.texts(documents), files, self._question)

    def _read_once(self, found: Found) -> list[Candidate]:
        """As `_read`; a document is read again once a document of the store, or a file of wordings, has changed."""
        files = self._files.now(self.wordings) if self.wordings else NO_WORDINGS
        revision, known, entries = self._entries
        if revision is not found.revision or known is not files or len(entries) > MOST_ANSWERS:
            entries = {}
            self._entries = found.revision, files, entries
        if new := {row: one for row, one in zip(found.rows, found.documents, strict=True) if row not in entries}:
            entries |= zip(new, self._read([*new.values()], files), strict=True)
        return [entries[row] for row in found.rows]

    def _complete(self, ranker: Ranker, scores: list[float | None], languages: list[str | None]) -> list[float] | None:
        """The scores of BM25 of these languages; if any is missing, `None` and, the first time, a warning."""
        expected = ranker.bm25_language
        for language in (one for one in languages if one != expected):
            self._warn_once(
                "fuse_scores is on, but BM25's scores are those of language: %s, and %s was trained with language: "
                "%s. Set the document store's language to that.",
                *(language or "null", self.model, expected or "null"),
            )
        if missing := scores.count(None):
            self._warn_once(
                "fuse_scores is on, but %d of %d documents have no meta[%r]: BM25's score is not added, and "
                "probabilities and thresholds are those of the model alone. Retrieve with BM25SRetriever, put "
                "LuceneScores behind Elasticsearch, or set fuse_scores to false.",
                *(missing, len(scores), BM25_SCORE),
            )
            return None
        return cast(list[float], scores)

    def _warn_once(self, message: str, *values: object) -> None:
        if message not in self._warned:
            self._warned.add(message)
            logger.warning(f"{message} This warning is not repeated.", *values)

    def explanation(self, query: str, document: Document) -> tuple[str, str, Explanation]:
        """The question and the answer as the model reads them, with the attention weight of each word.

        :raises InputError: The checkpoint cannot be loaded, or its model has no attention weights.
        """
        question, [answer] = self._question(query), self._texts.texts([document])
        return question, answer, self._loaded().explain(question, answer)

    def _question(self, query: str) -> str:
        return self.query_prefix + query + self.query_suffix


@component
class APRanker(AnswerRanker):
    """An `AnswerRanker` for the attentive-pooling family (dos Santos, Tan, Xiang & Zhou 2016) alone.

    The question and the answer together determine the weights of the words of both.
    """

    family = "attentive-pooling"


@component
class GlobalLocalRanker(AnswerRanker):
    """An `AnswerRanker` for the global-local family (Tan et al. 2016, Bachrach et al. 2017) alone.

    The question determines the weights of the answer's words; the full model also uses all words of the answer.
    """

    family = "global-local"


@component
class ABCNNRanker(AnswerRanker):
    """An `AnswerRanker` for the ABCNN family (Yin, Schütze, Xiang & Zhou 2016) alone.

    Convolutions over both texts use the similarity of each word of one to each word of the other.
    """

    family = "abcnn"
