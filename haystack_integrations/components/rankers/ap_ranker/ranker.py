"""The Haystack components; they are defined here because a stock Haystack loads YAML from `haystack_integrations` only.

`AnswerRanker` does the work for any checkpoint; the others are the same, each for the checkpoints of one family.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from haystack import Document, component, default_from_dict, default_to_dict, tracing
from haystack.utils import ComponentDevice, Secret
from haystack.utils.misc import _deduplicate_documents

from ap_ranker.errors import InputError
from ap_ranker.models.registry import MODELS
from ap_ranker.models.spec import Family
from ap_ranker.ranking.cache import CacheInfo, EncodingCache
from ap_ranker.ranking.calibration import FUSED, MODEL, Calibration, key
from ap_ranker.ranking.explanation import Explanation, no_attention
from ap_ranker.ranking.precision import Precision
from ap_ranker.ranking.ranker import BATCH_SIZE, Ranker


@component
class AnswerRanker:
    """Ranks documents with a trained answer-selection model: how well does each answer the query?

    A drop-in for `SentenceTransformersSimilarityRanker`: same arguments, same behaviour, a checkpoint of `ap-ranker
    train`, whichever its model, instead of a cross-encoder. Loading is lazy: the first `run`, or `warm_up`, reads the
    checkpoint.

    With Haystack's tracing on, a run's span has the tags `ap_ranker.model`, `ap_ranker.architecture` (`ap-cnn`, ...),
    `ap_ranker.candidates` (how many different documents), `ap_ranker.cache_hits` (how many of them the cache has) and,
    where content may be traced, `ap_ranker.question` (as the model reads it).

    ```python
    from haystack import Document
    from haystack_integrations.components.rankers.ap_ranker import AnswerRanker

    ranker = AnswerRanker(model="checkpoints/faq", top_k=3)
    result = ranker.run(query="Where is my parcel?", documents=[Document(content="Open the tracking link ...")])
    result["documents"][0].score
    ```

    Attributes:
        family: the models whose checkpoints this class loads; `None` for all.
    """

    family: ClassVar[Family | None] = None

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
        cache_precision: str = "float32",
        encodings: str | Path | None = None,
        fuse_scores: bool = False,
        precision: float | None = None,
        explain: bool = False,
    ) -> None:
        """Create the component; nothing is loaded yet.

        Args:
            model: a checkpoint folder, or the hub name of one.
            device: where the model runs; `None` takes the GPU if there is one.
            token: for private models of the hub.
            top_k: how many documents to return at most.
            query_prefix: put before the query.
            query_suffix: put after the query.
            document_prefix: put before each document's text.
            document_suffix: put after each document's text.
            meta_fields_to_embed: meta fields whose values are put before the content.
            embedding_separator: between these values and the content.
            scale_score: map the scores to 0..1, keeping their order: to the probability that the document is a right
                answer, if `ap-ranker calibrate` has calibrated the checkpoint; otherwise to numbers that are no
                probabilities (cosine: (1 + s) / 2).
            score_threshold: leave out documents with a lower score (after scaling, if any).
            batch_size: documents encoded at once; more need more memory.
            cache_megabytes: what the encoded documents may take in the device's memory; those not ranked for longest
                go first. A document is encoded again only when its text has changed. 0: no cache.
            cache_precision: of their numbers: `float32`, `float16` (half the memory) or `int8` (a quarter).
            encodings: a folder that `ap-ranker encode` wrote with this checkpoint: documents in it need no encoding.
            fuse_scores: add BM25's score, which the documents come with, to the model's, with the weight that training
                found best (0 where it does not help). It holds for Lucene's BM25, so for `BM25SRetriever` and
                Elasticsearch, not for other retrievers' scores. Without a calibration, scaled scores are then
                1/2 + arctan(s) / pi.
            precision: leave out documents so that this share of the best ones that remain is right, as far as the
                questions that the checkpoint was calibrated with tell; one of the precisions given to `ap-ranker
                calibrate`. It takes the place of `score_threshold`.
            explain: give each returned document `meta["explanation"]`, how much each word counted:
                `{"question": [{"text", "start", "end", "weight"}, ...], "answer": [...]}`. The weights of a side sum to
                1, or are `None` where the model does not weigh it. `start` and `end` are characters of what was
                matched. Of the question: the query with `query_prefix` and `query_suffix`. Of the answer: the content,
                which is what `match` chose where `ap-ranker` made the documents (`both`: the stored question, a line
                break, the answer), behind `document_prefix` and the values of `meta_fields_to_embed`, if any.
                Each returned document is encoded once more for it.

        Raises:
            ValueError: `top_k` is not positive, no such `cache_precision`, or both `score_threshold` and `precision`.
        """
        _check_top_k(top_k)
        _check_limits(score_threshold, precision)
        if cache_precision not in list(Precision):
            raise ValueError(f"cache_precision must be one of {', '.join(Precision)}, but got {cache_precision}")
        self.model = str(model)
        self.device = ComponentDevice.resolve_device(device)
        self.token = token
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
        self.cache_precision = cache_precision
        self.encodings = None if encodings is None else str(encodings)
        self.fuse_scores = fuse_scores
        self.precision = precision
        self.explain = explain
        self._ranker: Ranker | None = None

    def warm_up(self) -> None:
        """Load the checkpoint, if that has not been done.

        Raises:
            InputError: there is none at `model`, it is damaged, its model is of another family or, with `explain`,
                without attention, `encodings` are not its own, or it was not calibrated for `precision`.
        """
        if self._ranker is None:
            token = self.token.resolve_value() if self.token else None
            cache = EncodingCache(self.cache_megabytes * 10**6, Precision(self.cache_precision))
            ranker = Ranker.from_pretrained(
                self.model,
                self.device.to_torch_str(),
                token,
                cache=cache if self.cache_megabytes else None,
                encodings=self.encodings,
            )
            assert ranker.config is not None
            self._check_family(ranker.config.model)
            if self.explain and not MODELS[ranker.config.model].weighs:
                raise InputError(f"{self.model}: {no_attention(ranker.config.model)} Or set explain to false.")
            if self.precision is not None:
                self._threshold(ranker, self.precision)
            self._ranker = ranker

    @property
    def cache_info(self) -> CacheInfo | None:
        """Hits, misses, entries and bytes of the cache; `None` without one, or before the checkpoint is loaded."""
        return self._ranker.cache.info() if self._ranker and self._ranker.cache else None

    def close(self) -> None:
        """Free the model; a later `run` loads it again."""
        self._ranker = None

    def to_dict(self) -> dict[str, Any]:
        """The component as basic types."""
        return default_to_dict(
            self,
            model=self.model,
            device=self.device,
            token=self.token,
            top_k=self.top_k,
            query_prefix=self.query_prefix,
            query_suffix=self.query_suffix,
            document_prefix=self.document_prefix,
            document_suffix=self.document_suffix,
            meta_fields_to_embed=self.meta_fields_to_embed,
            embedding_separator=self.embedding_separator,
            scale_score=self.scale_score,
            score_threshold=self.score_threshold,
            batch_size=self.batch_size,
            cache_megabytes=self.cache_megabytes,
            cache_precision=self.cache_precision,
            encodings=self.encodings,
            fuse_scores=self.fuse_scores,
            precision=self.precision,
            explain=self.explain,
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The component of a dictionary that `to_dict` made, or that YAML holds."""
        return default_from_dict(cls, data)

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
        """Rank documents; of several with the same id, the one with the highest score is kept.

        Args:
            query: what the user asked.
            documents: the candidates; their content (an absent one counts as empty) is matched with the query.
            top_k: overrides the value of the component, as do the others.
            scale_score: see the component.
            score_threshold: see the component.
            precision: see the component; it and `score_threshold` each take the place of both of the component's.

        Returns:
            `documents`: copies with their new scores, best first; equal scores keep the given order.

        Raises:
            ValueError: `top_k` is not positive; both `score_threshold` and `precision`; with `fuse_scores`, a document
                comes without a score.
            InputError: the checkpoint cannot be loaded, or was not calibrated for `precision`.
        """
        top_k = self.top_k if top_k is None else top_k
        scale_score = self.scale_score if scale_score is None else scale_score
        _check_limits(score_threshold, precision)
        if score_threshold is None and precision is None:
            score_threshold, precision = self.score_threshold, self.precision
        _check_top_k(top_k)
        if not documents:
            return {"documents": []}
        self.warm_up()
        assert self._ranker is not None
        candidates = _deduplicate_documents(documents)
        question, texts = self._question(query), [self._text(document) for document in candidates]
        self._trace(question, texts)
        scores = self._ranker.score(question, texts, self.batch_size)
        weight = self._weight(self._ranker)
        if weight:
            scores = scores + weight * torch.tensor(_bm25_scores(candidates))
        calibration = self._calibration(self._ranker)
        probabilities = calibration.probabilities(scores.numpy()).tolist() if calibration else None
        raw = shown = scores.tolist()
        if scale_score:
            shown = probabilities or self._scaled(self._ranker, scores).tolist()
        compared, least = shown, score_threshold
        if precision is not None:
            least = self._threshold(self._ranker, precision)
            compared = probabilities or []  # there are some, or there were no threshold
        order = sorted(range(len(candidates)), key=lambda row: -raw[row])  # scaling may make scores equal
        kept = [row for row in order if least is None or compared[row] >= least]
        best = [replace(candidates[row], score=shown[row]) for row in kept[:top_k]]
        return {"documents": [self._explained(query, document) for document in best] if self.explain else best}

    @component.output_types(documents=list[Document])
    async def run_async(
        self,
        *,
        query: str,
        documents: list[Document],
        top_k: int | None = None,
        scale_score: bool | None = None,
        score_threshold: float | None = None,
        precision: float | None = None,
    ) -> dict[str, list[Document]]:
        """As `run`, in a thread, so that the event loop stays free."""
        return await asyncio.to_thread(
            self.run,
            query=query,
            documents=documents,
            top_k=top_k,
            scale_score=scale_score,
            score_threshold=score_threshold,
            precision=precision,
        )

    def _trace(self, question: str, texts: list[str]) -> None:
        """Tell the span of this run, if Haystack traces, what is ranked; texts only where content may be traced."""
        if not tracing.is_tracing_enabled() or (span := tracing.tracer.current_span()) is None:
            return
        assert self._ranker is not None
        assert self._ranker.config is not None
        tags = {"model": self.model, "architecture": self._ranker.config.model, "candidates": len(texts)}
        if self._ranker.cache is not None:
            tags["cache_hits"] = self._ranker.cache.count(texts)
        span.set_tags({f"ap_ranker.{name}": value for name, value in tags.items()})
        span.set_content_tag("ap_ranker.question", question)

    def _scaled(self, ranker: Ranker, scores: torch.Tensor) -> torch.Tensor:
        """What stands for probabilities without a calibration."""
        return 0.5 + scores.atan() / math.pi if self._weight(ranker) else ranker.model.scale(scores)

    def _weight(self, ranker: Ranker) -> float:
        return ranker.config.bm25_weight if self.fuse_scores and ranker.config else 0.0

    def _calibration(self, ranker: Ranker) -> Calibration | None:
        """That of the scores that the component ranks by."""
        return ranker.config.calibration.get(FUSED if self._weight(ranker) else MODEL) if ranker.config else None

    def _threshold(self, ranker: Ranker, precision: float) -> float:
        calibration = self._calibration(ranker)
        found = calibration.threshold(precision) if calibration else None
        if found is None:
            stored = f"one for {', '.join(calibration.thresholds) or 'none'}" if calibration else "one without any"
            raise InputError(
                f"{self.model}: expected a checkpoint calibrated for precision {key(precision)}, found {stored}. "
                f"Calibrate it: ap-ranker calibrate {self.model} DEV --precision {key(precision)}"
            )
        return found

    def _check_family(self, found: str) -> None:
        family = MODELS[found].family
        if self.family in (None, family):
            return
        expected = ", ".join(spec.name for spec in MODELS.values() if spec.family == self.family)
        components = {component.family: component.__name__ for component in AnswerRanker.__subclasses__()}
        fitting = f"{components[family]}, or AnswerRanker" if family in components else "AnswerRanker"
        raise InputError(
            f"{self.model}: expected a checkpoint of the {self.family} family ({expected}), found {found} of the "
            f"{family} family. Use {fitting}, which loads any."
        )

    def explanation(self, query: str, document: Document) -> tuple[str, str, Explanation]:
        """How much each word counted when this document was ranked for this query.

        Returns:
            The question and the answer as the model read them, which is what the tokens' `start` and `end` point into,
            and the explanation; its score is the model's own, neither fused nor scaled.

        Raises:
            InputError: the checkpoint cannot be loaded, or its model weighs no words.
        """
        self.warm_up()
        assert self._ranker is not None
        question, answer = self._question(query), self._text(document)
        return question, answer, self._ranker.explain(question, answer)

    def _explained(self, query: str, document: Document) -> Document:
        assert self._ranker is not None
        sides = self._ranker.weigh(self._question(query), self._text(document))  # its score is known already
        reasons = {
            side: [asdict(token) for token in tokens]
            for side, tokens in zip(("question", "answer"), sides, strict=True)
        }
        return replace(document, meta={**document.meta, "explanation": reasons})

    def _question(self, query: str) -> str:
        return self.query_prefix + query + self.query_suffix

    def _text(self, document: Document) -> str:
        values = [document.meta.get(name) for name in self.meta_fields_to_embed]
        parts = [*(str(value) for value in values if value is not None), document.content or ""]
        return self.document_prefix + self.embedding_separator.join(parts) + self.document_suffix


@component
class APRanker(AnswerRanker):
    """Ranks documents with a model of the attentive-pooling family (dos Santos, Tan, Xiang & Zhou 2016).

    The question and the answer decide together which words of either count. Otherwise an `AnswerRanker`, except that a
    checkpoint of another family is refused.

    ```python
    APRanker(model="checkpoints/faq", top_k=3).run(query="Where is my parcel?", documents=documents)
    ```
    """

    family = "attentive-pooling"


@component
class GlobalLocalRanker(AnswerRanker):
    """Ranks documents with a model of the global-local family (Tan et al. 2016, Bachrach et al. 2017).

    The question decides which words of the answer count, in the full model with a view of the answer as a whole.
    Otherwise an `AnswerRanker`, except that a checkpoint of another family is refused.

    ```python
    GlobalLocalRanker(model="checkpoints/faq", top_k=3).run(query="Where is my parcel?", documents=documents)
    ```
    """

    family = "global-local"


@component
class ABCNNRanker(AnswerRanker):
    """Ranks documents with a model of the ABCNN family (Yin, Schütze, Xiang & Zhou 2016).

    Convolutions over both texts that see how near each word of one is to each of the other. Otherwise an
    `AnswerRanker`, except that a checkpoint of another family is refused.

    ```python
    ABCNNRanker(model="checkpoints/faq", top_k=3).run(query="Where is my parcel?", documents=documents)
    ```
    """

    family = "abcnn"


def _bm25_scores(documents: list[Document]) -> list[float]:
    scores = [document.score for document in documents if document.score is not None]
    if len(scores) < len(documents):
        raise ValueError(
            f"fuse_scores needs the score that BM25 gave each document, but {len(documents) - len(scores)} of "
            f"{len(documents)} have none. Connect a BM25 retriever, or set fuse_scores to false."
        )
    return scores


def _check_limits(score_threshold: float | None, precision: float | None) -> None:
    if score_threshold is not None and precision is not None:
        raise ValueError(
            "score_threshold and precision both say which documents to leave out; expected one of them, but got "
            f"{score_threshold} and {precision}"
        )


def _check_top_k(top_k: int) -> None:
    if top_k <= 0:
        raise ValueError(f"top_k must be > 0, but got {top_k}")
