"""`Ranker`: question and candidates -> encode -> match -> ranked answers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import normalize

from ap_ranker.errors import InputError, one_line
from ap_ranker.models.base import AnswerModel, States
from ap_ranker.ranking.cache import EncodingCache
from ap_ranker.ranking.checkpoint import CheckpointConfig, find_checkpoint
from ap_ranker.ranking.encodings import Encodings
from ap_ranker.ranking.exact_match import is_exact_match
from ap_ranker.ranking.explanation import Explanation, Token, no_attention, tokens_of
from ap_ranker.ranking.kept_encodings import KeptEncodings
from ap_ranker.ranking.loaded_checkpoints import LoadedCheckpoint, load_shared
from ap_ranker.ranking.policy import AnswerPolicy
from ap_ranker.ranking.quantization import QuantizedStates, StateDtype
from ap_ranker.ranking.trained_questions import find_trained
from ap_ranker.ranking.wordings import WordingVectors, add_wordings
from ap_ranker.text.batch import TokenBatch
from ap_ranker.text.repetition import without_repetition
from ap_ranker.text.subwords import AnyTokenizer

logger = logging.getLogger(__name__)

BATCH_SIZE = 64
"""Answers encoded at once: larger batches need more memory and are not faster on a CPU."""


STORED_AT_ONCE = 128
"""Cached answers matched at once: more need more memory; with 25 to 50, `run` of 100 took a fifth longer or more."""


@dataclass(frozen=True)
class RankedAnswer:
    """One answer in a ranking.

    Attributes:
        index: its position among the candidates.
        text: the candidate.
        score: the model's score, unless fusion or scaling was requested; higher is better.
        wording: the known wording that the question was found by; `None` if the answer itself is more like it.
    """

    index: int
    text: str
    score: float
    wording: str | None = None


@dataclass(frozen=True)
class EntryScores:
    """Scores of one question with N entries.

    Attributes:
        scores: (N,) the model's scores, with the best wordings if the checkpoint has a weight for them.
        wordings: each entry's best wording, if it raised the entry's score; otherwise `None`.
    """

    scores: Tensor
    wordings: list[str | None]


class Ranker:
    """A model with its tokenizer, on a device. Several threads may use it at once.

    Example:
        >>> ranker = Ranker.from_pretrained("checkpoints/faq")
        >>> ranker.rank("Where is my parcel?", ["We ship daily.", "Open the tracking link."], top_k=1)
        [RankedAnswer(index=1, text='Open the tracking link.', score=0.71)]

    Attributes:
        config: the checkpoint's configuration; `None` for a model that is still being trained.
        cache: states of answers that were ranked before; `None` for no cache.
        encodings: precomputed states of a corpus; `None` for none.
        wording_vectors: vectors of known wordings; all rankers with the same loaded checkpoint share them.
        source: the checkpoint's name, for messages.
    """

    source = "CHECKPOINT"

    def __init__(
        self,
        model: AnswerModel,
        tokenizer: AnyTokenizer,
        device: torch.device | str = "cpu",
        config: CheckpointConfig | None = None,
        *,
        cache: EncodingCache | None = None,
        encodings: Encodings | None = None,
    ) -> None:
        self.model = model.to(device)
        self.tokenizer = tokenizer
        self.device = torch.device(device)
        self.config = config
        self.cache = cache
        self.encodings = encodings
        if cache is not None:
            cache.dtype = self.state_dtype(cache.dtype)
        self.wording_vectors = WordingVectors()
        self._loaded: LoadedCheckpoint | None = None
        self._has_warned_of_cuts = False
        self._lock = threading.Lock()

    @classmethod
    def from_pretrained(
        cls,
        source: str | Path,
        device: torch.device | str | None = None,
        token: str | None = None,
        *,
        cache: EncodingCache | None = None,
        encodings: str | Path | None = None,
    ) -> Ranker:
        """Load a checkpoint. All rankers of a process that load the same one on the same device share its model.

        Args:
            source: a checkpoint folder, or the name of a hub repository.
            device: `None` selects the GPU if there is one.
            token: access token for private repositories.
            cache: keeps the states of answers for the next question; none by default.
            encodings: a folder that `ap-ranker encode` wrote with this checkpoint; none by default.

        Raises:
            InputError: the checkpoint does not exist or is damaged, the encodings belong to another checkpoint, or the
                device does not exist.
        """
        resolved_device = resolve_device(device)
        folder = find_checkpoint(source, token)
        loaded = load_shared(folder, resolved_device)
        ranker = cls(loaded.model, loaded.tokenizer, resolved_device, loaded.config, cache=cache)
        ranker.source, ranker._loaded, ranker.wording_vectors = str(source), loaded, loaded.wordings
        try:
            states = ranker._encode_empty_text()
        except Exception as error:  # intact files that do not belong together can raise anything
            raise InputError(
                f"{folder}: expected a checkpoint that can encode a text, found one that cannot "
                f"({one_line(repr(error))})."
            ) from error
        if encodings is not None:
            ranker.encodings = ranker.open_encodings(encodings, ranker.fingerprint)
        if cache is not None:  # now, rather than for the first question, a model compiles what reads the cache
            ranker.model.reads_stored(ranker.quantize(states, ranker.stored_dtype).dtypes)
        return ranker

    def share_cache(self, max_bytes: int | None = None, dtype: StateDtype | None = None) -> None:
        """Keep the states of answers in a cache that all rankers of this checkpoint share if they ask for the same one.

        Args:
            max_bytes: its size; `None` takes any that there is.
            dtype: of its states; `None` as for `state_dtype`.

        Raises:
            InputError: the model does not come from a checkpoint.
        """
        if self._loaded is None:
            raise InputError("Expected a model from a checkpoint, whose rankers share a cache, found another.")
        self.cache = self._loaded.cache(max_bytes, self.state_dtype(dtype))
        self.model.reads_stored(self.quantize(self._encode_empty_text(), self.stored_dtype).dtypes)  # compiles, now

    def _kept_answers(self) -> KeptEncodings | None:
        """The states of answers that outlive the process, as they are stored in the cache; `None` if there are none."""
        if self._loaded is None or self.cache is None:
            return None
        dtype = self.stored_dtype
        kind = f"answers on {self.device.type}"
        return self._loaded.kept(kind, dtype, lambda: self.quantize(self._encode_empty_text(), dtype))

    @torch.inference_mode()
    def _encode_empty_text(self) -> States:
        return self.encode_answers(self.tokenize([""]))

    @property
    def fingerprint(self) -> str:
        """A hash of the checkpoint's weights, vocabulary and sizes.

        Raises:
            InputError: the model does not come from a checkpoint.
        """
        if self._loaded is None:
            raise InputError("Expected a model from a checkpoint, which has a fingerprint, found another. Save it.")
        return self._loaded.fingerprint

    def seen_in_training(self, questions: Sequence[str]) -> list[bool] | None:
        """Whether the checkpoint has learnt from each question; `None` if that is unknown, as for `find_trained`."""
        return None if self._loaded is None else find_trained(self._loaded.folder, questions)

    def open_encodings(self, folder: str | Path, checkpoint_fingerprint: str) -> Encodings:
        """Open what `ap-ranker encode` wrote with this checkpoint.

        Raises:
            InputError: the folder does not exist, is damaged, or contains the states of another checkpoint.
        """
        encodings = Encodings.open(folder, checkpoint_fingerprint)
        example = self.quantize(self._encode_empty_text(), encodings.manifest.dtype)
        encodings.check(example, len(self.tokenizer.words))
        return encodings

    def rank(
        self,
        question: str,
        answers: Sequence[str],
        top_k: int | None = None,
        *,
        wordings: Sequence[Sequence[str]] | None = None,
        bm25_scores: Sequence[float] | None = None,
        precision: float | None = None,
        score_threshold: float | None = None,
        scale_score: bool = False,
    ) -> list[RankedAnswer]:
        """The answers from best to worst, without those below a threshold; ties keep the given order.

        Args:
            question: the question of the user.
            answers: N candidates; an empty text counts as one unknown word.
            top_k: maximum number of answers to return; all by default.
            wordings: for each of the N candidates, the questions that are known to ask for it, maybe none. The most
                similar one raises the candidate's score by the weight that training found best. A candidate of which
                one is the question itself comes first and is never left out.
            bm25_scores: N scores of BM25, added to the model's with the weight that training found best (0 if it does
                not help); by default nothing is added.
            precision: target share of right first answers, such as 0.9: answers below the calibrated threshold are left
                out. The checkpoint must be calibrated for this value.
            score_threshold: minimum score of an answer, after scaling, if any.
            scale_score: return scores from 0 to 1, in the same order: probabilities if the checkpoint is calibrated.

        Returns:
            The answers; an empty list if all are below the threshold.

        Raises:
            ValueError: `top_k` is not positive, `bm25_scores` are not N finite numbers, `wordings` are not N lists, or
                both `precision` and `score_threshold` are given.
            InputError: the checkpoint was not calibrated for `precision`.
        """
        if top_k is not None and top_k <= 0:
            raise ValueError(f"top_k must be > 0, but got {top_k}")
        entries = self.score_entries(question, answers, wordings)
        selected = self.answer_policy().answers(
            entries.scores,
            bm25_scores,
            verbatim=is_exact_match(question, wordings or ()) or None,
            top_k=top_k,
            scale_score=scale_score,
            score_threshold=score_threshold,
            precision=precision,
        )
        return [RankedAnswer(row, answers[row], score, entries.wordings[row]) for row, score in selected]

    @property
    def bm25_language(self) -> str | None:
        """The language of the stemmer of BM25 that the checkpoint was trained beside; `None` for no stemmer."""
        return self.config.bm25_language if self.config else None

    def answer_policy(self, *, fuse_scores: bool = True) -> AnswerPolicy:
        """The checkpoint's fusion and calibration; without a checkpoint, scores are only sorted.

        Args:
            fuse_scores: whether to add BM25's scores, if they are known and training found that it helps.
        """
        weight = self.config.bm25_weight if self.config and fuse_scores else 0.0
        return AnswerPolicy(self.source, weight, self.config.calibration if self.config else {}, self.model.scale)

    def score(self, question: str, answers: Sequence[str], batch_size: int = BATCH_SIZE) -> Tensor:
        """(N,) the model's scores of one question with N answers, on the CPU.

        Raises:
            InputError: `batch_size` is not positive, or a score is not a finite number.
        """
        return self.score_entries(question, answers, batch_size=batch_size).scores

    @torch.inference_mode()
    def score_entries(
        self,
        question: str,
        answers: Sequence[str],
        wordings: Sequence[Sequence[str]] | None = None,
        batch_size: int = BATCH_SIZE,
    ) -> EntryScores:
        """Score one question with N entries: their answers and, as in `rank`, their known wordings.

        Raises:
            ValueError: `wordings` are not N lists.
            InputError: `batch_size` is not positive, or a score is not a finite number.
        """
        if wordings is not None and len(wordings) != len(answers):
            raise ValueError(f"wordings must be {len(answers)} lists, one for each candidate, but got {len(wordings)}")
        _check_batch_size(batch_size)
        if not answers:
            return EntryScores(torch.empty(0), [])
        state = self.encode_question(question)
        weight = self.config.wording_weight if self.config and wordings and any(wordings) else 0.0
        vector = self.model.text_vectors(state) if weight else None
        scores, cosines = torch.full((2, len(answers)), torch.nan)
        remaining = range(len(answers)) if weight else self._score_stored(state, answers, scores)
        for places, kept in self._kept_states([answers[row] for row in remaining], batch_size):
            rows = [remaining[place] for place in places]
            if vector is None and isinstance(kept, QuantizedStates) and self.model.reads_stored(kept.dtypes):
                scores[rows] = self.model.match_stored(state, kept.stored())
                continue
            states = self._dequantized(kept)
            scores[rows] = self.model.match(state, states)[0].float().cpu()
            if vector is not None and (others := self.model.text_vectors(states)) is not None:
                cosines[rows] = (others @ vector[0]).float().cpu()
        self._check_finite(scores)
        if vector is None or wordings is None:
            return EntryScores(scores, [None] * len(answers))
        best = self.wording_vectors.best(vector[0].float().cpu().numpy(), wordings, self.embed_wordings)
        better = torch.from_numpy(best.cosines) > cosines
        raised = add_wordings(scores, torch.maximum(cosines, torch.from_numpy(best.cosines)), weight)
        return EntryScores(raised, [text if b else None for text, b in zip(best.texts, better.tolist(), strict=True)])

    def _score_stored(self, question: States, answers: Sequence[str], scores: Tensor) -> Sequence[int]:
        """Fill in the scores of cached answers, if the model reads them as they are stored; return the other rows."""
        if self.cache is None or not self.model.reads_stored(self.cache.dtypes):
            return range(len(answers))
        for start in range(0, len(answers), STORED_AT_ONCE):
            rows, states = self.cache.stored(answers[start : start + STORED_AT_ONCE])
            if states is not None:
                scores[start + torch.tensor(rows)] = self.model.match_stored(question, states)
        return scores.isnan().nonzero().flatten().tolist()

    def _check_finite(self, scores: Tensor) -> None:
        finite = scores.isfinite()
        if not finite.all():
            raise InputError(
                f"{self._name}: expected finite scores, found {int((~finite).sum())} of {len(scores)} that are not: "
                "its weights or its encodings contain too large numbers. Train it or encode again."
            )

    def explain(self, question: str, answer: str) -> Explanation:
        """The answer's score, and the attention weight of each word of the question and of the answer.

        Raises:
            InputError: the model has no attention weights.
        """
        return Explanation(self.score(question, [answer]).item(), *self.attention_weights(question, answer))

    @torch.inference_mode()
    def attention_weights(self, question: str, answer: str) -> tuple[list[Token], list[Token]]:
        """The tokens of both texts with their weights, as in `explain`, without the score.

        Raises:
            InputError: the model has no attention weights.
        """
        self._stop_training()
        batches = [TokenBatch.from_lists(self.tokenize([text]), self.device) for text in (question, answer)]
        attention = self.model.attention_weights(*batches)
        if attention is None:
            raise no_attention(self._name)
        return (
            tokens_of(question, self.tokenizer.spans(question), attention.questions),
            tokens_of(answer, self.tokenizer.spans(answer), attention.answers),
        )

    def answer_states(self, answers: Sequence[str], batch_size: int = BATCH_SIZE) -> Iterator[tuple[list[int], States]]:
        """The states of N answers in batches, each with the positions of its answers.

        Answers of similar length share a batch, which keeps padding short. States come from the cache or the encodings
        if possible and are computed otherwise; with a cache, only one thread computes those of a text.

        Raises:
            InputError: `batch_size` is not positive.
        """
        _check_batch_size(batch_size)
        return ((rows, self._dequantized(kept)) for rows, kept in self._kept_states(answers, batch_size))

    def _dequantized(self, states: QuantizedStates | States) -> States:
        return states.dequantize(self.device) if isinstance(states, QuantizedStates) else states

    def _kept_states(
        self, answers: Sequence[str], batch_size: int
    ) -> Iterator[tuple[list[int], QuantizedStates | States]]:
        """As `answer_states`; what comes from the cache or the encodings, or goes into the cache, as it is stored."""
        remaining, outlives = list(range(len(answers))), self._kept_answers()
        for source in (self.cache, self.encodings, outlives):
            if source is None or not remaining:
                continue
            lengths = dict(zip(remaining, source.lengths([answers[row] for row in remaining]), strict=True))
            remaining = [row for row, length in lengths.items() if not length]
            for rows in _by_length({row: length for row, length in lengths.items() if length}, batch_size):
                texts = [answers[row] for row in rows]
                states = source.states(texts)
                if states is None:  # another thread has evicted one of them meanwhile
                    remaining += rows
                    continue
                if source is not self.cache and self.cache is not None:
                    states = states.converted(self.stored_dtype, self.device)
                    self.cache.put(texts, states)
                yield rows, states
        rows_of: dict[str, list[int]] = {}
        for row in remaining:
            rows_of.setdefault(answers[row], []).append(row)
        texts = list(rows_of)
        tokens = self.tokenize(texts) if texts else []
        for batch in _by_length(dict(enumerate(map(len, tokens))), batch_size):
            for indices, encoded in self._encode_batch([texts[i] for i in batch], [tokens[i] for i in batch]):
                row_lists = [rows_of[texts[batch[index]]] for index in indices]
                rows = [row for equal_texts in row_lists for row in equal_texts]
                repeated = [i for i, equal_texts in enumerate(row_lists) for _ in equal_texts]
                yield rows, encoded if len(rows) == len(indices) else encoded[repeated]

    def _encode_batch(
        self, texts: Sequence[str], tokens: Sequence[list[int]]
    ) -> Iterator[tuple[list[int], QuantizedStates | States]]:
        """The states of tokenized texts, in parts with the indices of their texts; they are also cached.

        With a cache they are quantized, so that they are the same as when they come from the cache.
        """
        if self.cache is None:
            states = self.encode_answers(tokens)
            exact = self.quantize(states, StateDtype.float32)
            # As a cache would give them: a model that reads stored states rounds differently when it matches others.
            yield list(range(len(texts))), exact if self.model.reads_stored(exact.dtypes) else states
            return
        outlives = self._kept_answers()
        for indices, encoded in self.cache.encoded_once(
            texts, lambda indices: self.encode_answers([tokens[i] for i in indices])
        ):
            if outlives is not None:
                outlives.add([texts[index] for index in indices], encoded)
            yield indices, encoded

    def state_dtype(self, wanted: StateDtype | None, otherwise: StateDtype = StateDtype.float32) -> StateDtype:
        """The data type in which states are stored.

        Args:
            wanted: by whoever stores them; `None`: that with the fewest bits that cost the model nothing.
            otherwise: if any costs something, and none is wanted.
        """
        if not self.model.supports_quantization:
            return StateDtype.float32
        return wanted or {8: StateDtype.int8, 4: StateDtype.int4}.get(self.model.stored_bits, otherwise)

    @property
    def stored_dtype(self) -> StateDtype:
        """The data type of the states in the cache; without one, in which a cache would store them."""
        return self.state_dtype(self.cache.dtype if self.cache else None)

    def quantize(self, states: States, dtype: StateDtype) -> QuantizedStates:
        """The states in this dtype, or in float32 if the model supports no other."""
        return QuantizedStates.quantize(states, self.state_dtype(dtype))

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of texts. The first time that a text is too long for the model, a warning is logged."""
        ids, cut = self.tokenizer.encode(texts)
        if cut and self._is_first_cut():
            logger.warning(
                "%d of %d texts are longer than %d tokens and were cut there. Later cuts are not reported.",
                cut,
                len(texts),
                self.tokenizer.max_tokens,
            )
        return ids

    @cached_property
    def has_vectors(self) -> bool:
        """Whether the model has a vector for each text, so that `embed_questions` works."""
        return self.model.text_vectors(self._encode_empty_text()) is not None

    @torch.inference_mode()
    def embed_questions(self, texts: Sequence[str]) -> Tensor:
        """(B, C) vectors of B questions, of length 1, on the CPU: the cosine of two is their dot product.

        Raises:
            InputError: the model has no vectors of whole texts.
        """
        if len(texts) == 1:
            return self._vectors([self.encode_question(texts[0])])
        batches = (texts[start : start + BATCH_SIZE] for start in range(0, len(texts), BATCH_SIZE))
        return self._vectors([self.encode_questions(batch) for batch in batches])

    @torch.inference_mode()
    def embed_answers(self, texts: Sequence[str], batch_size: int = BATCH_SIZE) -> Tensor:
        """(N, C) vectors of N answers, as `embed_questions`.

        Raises:
            InputError: the model has no vectors of whole texts, or `batch_size` is not positive.
        """
        _check_batch_size(batch_size)
        order: list[int] = []
        parts = []
        for rows, kept in self._kept_states(texts, batch_size):
            order += rows
            if isinstance(kept, QuantizedStates):  # a vector needs none of the tokens' states
                states = QuantizedStates(kept.lengths, {}, kept.per_text).dequantize(self.device)
            else:
                states = kept
            parts.append(States(states.mask[:, :0], per_text=states.per_text))
        return normalize(self._vectors(parts)[torch.tensor(order, dtype=torch.long).argsort()], dim=1)

    @torch.inference_mode()
    def embed_wordings(self, texts: Sequence[str]) -> Tensor:
        """(B, C) as `embed_questions`, of known wordings, whose vectors may outlive the process; no user's question."""
        if self._loaded is None:
            return self.embed_questions(texts)
        outlives = self._loaded.kept(f"wordings on {self.device.type}", StateDtype.float32, self._example_vector)
        if outlives is None:
            return self.embed_questions(texts)
        lengths = outlives.lengths(texts)
        new, old = ([row for row, length in enumerate(lengths) if (length > 0) == known] for known in (False, True))
        encoded = self.embed_questions([texts[row] for row in new])
        if new:
            outlives.add([texts[row] for row in new], _as_states(encoded))
        states = outlives.states([texts[row] for row in old]) if old else None
        if states is not None:
            encoded = torch.cat([encoded, states.per_text["vector"]])
        return encoded[torch.tensor([*new, *old], dtype=torch.long).argsort()]

    def _example_vector(self) -> QuantizedStates:
        return _as_states(self.embed_questions([""]))

    def _vectors(self, parts: Sequence[States]) -> Tensor:
        vectors = [self.model.text_vectors(part) for part in parts or [self._encode_empty_text()[:0]]]
        known = [vector.float().cpu() for vector in vectors if vector is not None]
        if not known:
            raise InputError(
                f"Expected a model with a vector for each text, such as ap-transformer, found {self._name}, which "
                "compares texts token by token."
            )
        return torch.cat(known)

    def encode_question(self, text: str) -> States:
        """States of one question; one of the last questions is not encoded again."""
        if self._loaded is None:
            return self.encode_questions([text])
        return self._loaded.questions.get(text, self.encode_questions)

    def encode_ahead(self, texts: Sequence[str]) -> None:
        """Encode together some questions that will be ranked next; without a checkpoint, nothing is kept of them."""
        if self._loaded is not None:
            with torch.inference_mode():
                self._loaded.questions.encode_ahead(texts, self.encode_questions)

    def encode_questions(self, texts: Sequence[str]) -> States:
        """States of B questions; one that repeats itself is encoded once (`without_repetition`)."""
        self._stop_training()
        tokens = self.tokenize([without_repetition(text) for text in texts])
        return self.model.encode_questions(TokenBatch.from_lists(tokens, self.device))

    def encode_answers(self, tokens: Sequence[Sequence[int]]) -> States:
        """States of N tokenized answers."""
        self._stop_training()
        return self.model.encode_answers(TokenBatch.from_lists(tokens, self.device))

    @property
    def _name(self) -> str:
        return self.config.model if self.config else type(self.model).__name__

    def _is_first_cut(self) -> bool:
        with self._lock:
            is_first, self._has_warned_of_cuts = not self._has_warned_of_cuts, True
        return is_first

    def _stop_training(self) -> None:
        with self._lock:  # `eval` sets the model's own flag before those of its modules
            if self.model.training:  # `eval` takes half a millisecond for the modules of a transformer
                self.model.eval()


def _as_states(vectors: Tensor) -> QuantizedStates:
    """(N, C) vectors in the form in which encodings are written."""
    return QuantizedStates(torch.ones(len(vectors), dtype=torch.long), {}, {"vector": vectors.contiguous()})


def _check_batch_size(batch_size: int) -> None:
    if not isinstance(batch_size, Integral) or isinstance(batch_size, bool) or batch_size < 1:
        raise InputError(f"Expected batch_size as a whole number above 0, found {batch_size!r}.")


def _by_length(lengths: Mapping[int, int], batch_size: int) -> Iterator[list[int]]:
    """The positions of texts in batches of similar length."""
    order = sorted(lengths, key=lengths.__getitem__)
    for start in range(0, len(order), batch_size):
        yield order[start : start + batch_size]


def resolve_device(device: torch.device | str | None) -> torch.device:
    """The given device; for `None` and `auto` the GPU if there is one, else the CPU.

    Raises:
        InputError: the device does not exist.
    """
    if device is None or str(device) == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device)
        torch.empty(0, device=resolved)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).split("\n")[0]
        raise InputError(
            f"Expected a device such as auto, cpu or cuda:0, found {str(device)!r} ({reason}). Try auto."
        ) from error
    return resolved
