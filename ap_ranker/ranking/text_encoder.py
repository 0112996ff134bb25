"""The states and vectors of texts: from a cache, from encodings on disk, or encoded now, each text once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from numbers import Integral
from operator import is_
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ap_ranker.errors import InputError, one_line
from ap_ranker.models.base import AnswerModel, States
from ap_ranker.ranking.cache import CACHE_BYTES, TOGETHER, EncodingCache
from ap_ranker.ranking.checkpoint import CheckpointConfig
from ap_ranker.ranking.loaded_checkpoints import LoadedCheckpoint
from ap_ranker.ranking.quantization import QuantizedStates, StateDtype, state_dtype
from ap_ranker.ranking.state_bytes import StateSealer, layout_of
from ap_ranker.ranking.state_store import StateStore
from ap_ranker.ranking.stored_encodings import DATABASE, Encodings, KeptEncodings
from ap_ranker.ranking.wordings import WordingVectors
from ap_ranker.text.reading import without_repetition
from ap_ranker.text.tokenizer import AnyTokenizer, Span, SubwordTokenizer, TokenBatch, WordsOfTexts

logger = logging.getLogger(__name__)

BATCH_SIZE = 64
"""Answers encoded at once: larger batches need more memory and are not faster on a CPU."""

_lock = threading.Lock()

STORED_AT_ONCE = 128
"""Cached answers matched at once: more need more memory; with 25 to 50, `run` of 100 took a fifth longer or more."""

MOST_TOGETHER = 4 * 10**6
"""Bytes of the cached states of a question's candidates up to which these are kept in batches, ready to be matched with
the next question: those of 1,000 answers of ap-transformer, 16 MB in float32."""

_Batches = Sequence[tuple[list[int], QuantizedStates]]
_NOTHING: tuple[list[int], list[QuantizedStates], int, _Batches] = [], [], 0, []


class RestoredOnce(QuantizedStates):
    """States that several questions are matched with, all on one device."""

    def dequantize(self, device: torch.device) -> States:
        """As of any states, but computed once."""
        if "_restored" not in vars(self):
            vars(self)["_restored"] = super().dequantize(device)
        return cast(States, vars(self)["_restored"])


def warn_of_cut_texts(n_cut: int, n_texts: int, max_tokens: int) -> None:
    """Log how many texts are too long for the model."""
    logger.warning(
        "%d of %d texts are longer than %d tokens and were cut there: put what matters first, or split them.",
        *(n_cut, n_texts, max_tokens),
    )


class TextEncoder:
    """A model with its tokenizer, on a device, that encodes questions and answers. Several threads may use it at once.

    Without `config`, a checkpoint's, the model is still being trained.
    """

    def __init__(
        self,
        model: AnswerModel,
        tokenizer: AnyTokenizer,
        device: torch.device | str = "cpu",
        config: CheckpointConfig | None = None,
        *,
        cache: EncodingCache | None = None,
    ) -> None:
        self.model = model.to(device)
        self.tokenizer = tokenizer
        self.device = torch.device(device)
        self.config = config
        self.cache = cache
        self.encodings: Encodings | None = None
        if cache is not None:
            cache.dtype = self.state_dtype(cache.dtype)
        self.wording_vectors = WordingVectors()
        self._loaded: LoadedCheckpoint | None = None
        self._filled: EncodingCache | StateStore | None = None
        self._last = _NOTHING  # of the cache's states: their rows, each text's, the batch size, and the batches

    def __getstate__(self) -> dict[str, Any]:
        """A copy ranks the same with a model of its own; what is cached of texts is not copied."""
        return vars(self) | {"_last": _NOTHING}

    def answer_states(
        self, answers: Sequence[str], batch_size: int = BATCH_SIZE, *, rounded: bool = False
    ) -> Iterator[tuple[list[int], States]]:
        """The states of N answers in batches, each with the positions of its answers.

        Answers of similar length share a batch, which keeps padding short. States come from the cache or the encodings
        if possible and are computed otherwise; with a cache, only one thread computes those of a text. With `rounded`,
        what is encoded now is rounded as a cache would store it: so a checkpoint ranks.
        """
        check_number("batch_size", batch_size, 1)
        kept_states = self._kept_states(answers, batch_size, rounded=rounded)
        return ((rows, kept.dequantize(self.device)) for rows, kept in kept_states)

    def _kept_states(
        self, answers: Sequence[str], batch_size: int, *, rounded: bool = False
    ) -> Iterator[tuple[list[int], QuantizedStates]]:
        """As `answer_states`, in the dtype in which they are stored."""
        missing = list(range(len(answers)))
        cached = {} if self.cache is None else self.cache.find(answers)
        if cached:
            missing = [row for row in missing if row not in cached]
            yield from self._joined(cached, batch_size)
            if not missing:
                return
        for source in (self.encodings, None if self.cache is None else self._kept_answers()):
            if source is None or not missing:
                continue
            stored, missing = _stored_and_missing(source, answers, missing)
            for rows in _by_length(stored, batch_size):
                texts = [answers[row] for row in rows]
                states = source.states(texts)
                if states is None:
                    missing += rows
                    continue
                if self.cache is not None:
                    states = states.converted(self.stored_dtype, self.device)
                    self.cache.put(texts, states)
                yield rows, states
        rows_of: dict[str, list[int]] = {}
        for row in missing:
            rows_of.setdefault(answers[row], []).append(row)
        texts = list(rows_of)
        tokens = self.tokenize(texts) if texts else []
        lengths = dict(enumerate(map(len, tokens)))
        for batch in _by_length(lengths, batch_size):
            texts_of_batch = [texts[i] for i in batch]
            tokens_of_batch = [tokens[i] for i in batch]
            for indices, encoded in self._encode_batch(texts_of_batch, tokens_of_batch, rounded):
                batch_rows: list[int] = []
                repeated: list[int] = []  # for each of the rows, its place among those that were encoded
                for place, index in enumerate(indices):
                    rows_of_text = rows_of[texts_of_batch[index]]
                    batch_rows += rows_of_text
                    repeated += [place] * len(rows_of_text)
                yield batch_rows, encoded if len(batch_rows) == len(indices) else encoded[repeated]

    def _joined(self, cached: Mapping[int, QuantizedStates], batch_size: int) -> _Batches:
        """Cached states in batches; those of the question before if it had the same candidates, as in a small FAQ."""
        rows = [*cached]
        parts = [*cached.values()]
        known_rows, known_parts, size, batches = self._last
        if size != batch_size or known_rows != rows or not all(map(is_, known_parts, parts)):
            # What is made for inference cannot be used where gradients are.
            is_kept = torch.is_inference_mode_enabled() and sum(part.nbytes for part in parts) <= MOST_TOGETHER
            together = STORED_AT_ONCE if self._reads(parts[0]) else batch_size
            if self._is_on_gpu:
                together = len(parts)  # `match_in_parts` divides them
            by_length = _by_length({row: int(text.lengths[0]) for row, text in cached.items()}, together)
            kind = RestoredOnce if is_kept else QuantizedStates
            batches = []
            for batch in by_length:
                batches.append((batch, kind.joined([cached[row] for row in batch])))
            self._last = (rows, parts, batch_size, batches) if is_kept else _NOTHING
        return batches

    def _encode_batch(
        self, texts: Sequence[str], tokens: Sequence[list[int]], rounded: bool
    ) -> list[tuple[list[int], QuantizedStates]]:
        """The states of tokenized texts, in parts with the indices of their texts; they are also cached and kept."""
        if self.cache is None:
            states = self.encode_answers(tokens)
            exact = self.quantize(states, StateDtype.float32)
            if self._filled is not None:
                self._filled.put(texts, exact)
            everything = list(range(len(texts)))
            if rounded and self.config is not None:  # training ranks by exact states
                return [(everything, self.quantize(states, self.stored_dtype))]
            return [(everything, exact)]

        def encode(rows: Sequence[int]) -> States:
            return self.encode_answers([tokens[row] for row in rows])

        parts = self.cache.encoded_once(texts, encode)
        kept_answers = self._kept_answers()
        if kept_answers is not None:
            for indices, stored in parts:
                kept_answers.add([texts[index] for index in indices], stored)
        return parts

    def _reads(self, states: QuantizedStates) -> bool:
        """Whether the model matches these states as they are stored."""
        return self.model.reads_stored({name: value.dtype for name, value in states.per_token.items()})

    def state_dtype(self, wanted: StateDtype | None, otherwise: StateDtype = StateDtype.float32) -> StateDtype:
        """As `quantization.state_dtype`, of this model."""
        return state_dtype(self.model, wanted, otherwise)

    @property
    def stored_dtype(self) -> StateDtype:
        """The data type of the states in the cache; without one, in which a cache would store them."""
        return self.state_dtype(self.cache.dtype if self.cache else None)

    def quantize(self, states: States, dtype: StateDtype) -> QuantizedStates:
        """The states in this dtype, or in float32 if the model supports no other."""
        return QuantizedStates.quantize(states, self.state_dtype(dtype))

    def tokenize(self, texts: Sequence[str], *, questions: bool = False) -> list[list[int]]:
        """Token ids of texts. The first time that a text is too long for the model, a warning is logged."""
        ids, cut = self.tokenizer.encode(texts, questions=questions)
        if cut and not self.tokenizer.told_of_cuts:  # which all rankers of a run, or of a checkpoint, share
            self.tokenizer.told_of_cuts = True
            warn_of_cut_texts(cut, len(texts), self.tokenizer.max_tokens)
        return ids

    @property
    def _is_on_gpu(self) -> bool:
        return self.device.type == "cuda"

    @cached_property
    def has_vectors(self) -> bool:
        """Whether the model has a vector for each text, so that `embed_questions` works."""
        return self.model.text_vectors(self._encode_empty_text()) is not None

    @torch.inference_mode()
    def embed_questions(self, texts: Sequence[str]) -> Tensor:
        """(B, C) vectors of B questions, of length 1, on the CPU; an InputError if the model has none."""
        if len(texts) == 1:
            return self.question_vectors(texts)
        states: list[States] = []
        for start in range(0, len(texts), BATCH_SIZE):
            states.append(self.encode_questions(texts[start : start + BATCH_SIZE]))
        return self._vectors(states)

    @torch.inference_mode()
    def question_vectors(self, texts: Sequence[str]) -> Tensor:
        """(B, C) as `embed_questions`, of B users' questions, whose states are kept for who ranks answers to them."""
        return self._vectors([self.question_states(texts)])

    @torch.inference_mode()
    def embed_answers(self, texts: Sequence[str], batch_size: int = BATCH_SIZE) -> Tensor:
        """(N, C) vectors of N answers, as `embed_questions`."""
        check_number("batch_size", batch_size, 1)

        def embed(new: Sequence[str]) -> Tensor:
            order: list[int] = []
            parts = []
            for rows, kept in self._kept_states(new, batch_size):
                order += rows
                no_tokens = torch.ones(len(rows), 0, dtype=torch.bool)  # the vectors need none
                parts.append(States(no_tokens, per_text=kept.texts(self.device)))
            return self._vectors(parts)[_inverse(order)]

        # States of a cache are rounded: their vectors are not to be kept as if they were exact.
        if self.cache is not None or self._loaded is None:
            return embed(texts)
        return self._loaded.states.vectors("answers", texts, embed)

    @torch.inference_mode()
    def sealed_states(self, texts: Sequence[str], batch_size: int = BATCH_SIZE) -> list[str | None]:
        """The states of N answers as their documents carry them, in the dtype that most rankers read.

        What `embed_answers` has just encoded, after `fill_cache`, is not encoded again. `None`: those of this text
        cannot travel (`StateSealer.seal`).
        """
        sealed: list[str | None] = [None] * len(texts)
        reader = self._reader
        for rows, states in reader._kept_states(texts, batch_size):
            batch = self._sealer.seal([texts[row] for row in rows], states, reader.stored_dtype)
            for row, field in zip(rows, batch, strict=True):
                sealed[row] = field
        return sealed

    @torch.inference_mode()
    def take_states(self, texts: Sequence[str], sealed: Sequence[Any]) -> int:
        """Let this checkpoint's rankers read states that came with N documents.

        `sealed` is what their fields have, whatever that is; these are the texts as the model reads them. Returns the
        number of those that a ranker cannot use, whose texts are encoded when they are ranked.
        """
        try:
            sealer = self._sealer
        except InputError:  # another checkpoint has taken its place, and nothing tells what this one was
            return len(texts)
        n_usable = 0
        for dtype, (opened, states) in sealer.open(texts, sealed).items():
            if self._checkpoint.states.take(opened, states.converted(dtype, self.device), dtype):
                n_usable += len(opened)
        return len(set(texts)) - n_usable

    @property
    def reads_states(self) -> bool:
        """Whether a ranker of this process keeps states of this checkpoint in memory."""
        return self._checkpoint.states.is_read

    def lacking_states(self, texts: Sequence[str]) -> list[int]:
        """The places of texts that such a ranker would have to encode, or read from elsewhere."""
        return self._checkpoint.states.lacking(texts)

    @cached_property
    def _reader(self) -> TextEncoder:
        """Reads the states that rankers read, and fills their cache."""
        reader = TextEncoder(self.model, self.tokenizer, self.device, self.config)
        reader._loaded = self._loaded
        reader.use_cache(0 if self.reads_states else CACHE_BYTES)  # a ranker's own limit stays
        return reader

    @cached_property
    def _sealer(self) -> StateSealer:
        example = self._encode_empty_text()
        layouts = {dtype: layout_of(self.quantize(example, dtype)) for dtype in StateDtype}
        return StateSealer(self._checkpoint.files.fingerprint, layouts, self.tokenizer.largest_id)

    @torch.inference_mode()
    def embed_wordings(self, texts: Sequence[str]) -> Tensor:
        """(B, C) as `embed_questions`, of known wordings, whose vectors may outlive the process; no user's question."""
        if self._loaded is None:
            return self.embed_questions(texts)
        return self._loaded.states.vectors("wordings", texts, self.embed_questions)

    def _vectors(self, parts: Sequence[States]) -> Tensor:
        vectors: list[Tensor] = []
        for part in parts or [self._encode_empty_text()[:0]]:  # of no text, too, it tells whether the model has any
            vectors_of_part = self.model.text_vectors(part)
            if vectors_of_part is not None:
                vectors.append(vectors_of_part.float().cpu())  # each at once, as a GPU may have no room for all
        if not vectors:
            raise InputError(
                f"Expected a model with a vector for each text, such as ap-transformer, found {self.name}, which "
                "compares texts token by token."
            )
        return torch.cat(vectors)

    def question_states(self, texts: Sequence[str]) -> States:
        """States of B questions of users; those of the last questions are not encoded again, the others together."""
        encode = self.encode_questions
        if self._loaded is None:
            return encode(texts)
        kept_questions = self._loaded.states.questions
        parts: list[States] = []
        for start in range(0, len(texts), TOGETHER):
            parts.append(kept_questions.get_all(texts[start : start + TOGETHER], encode))
        return parts[0] if len(parts) == 1 else States.stack(parts)

    def encode_ahead(self, texts: Sequence[str]) -> None:
        """Encode together some questions that will be ranked next; without a checkpoint, nothing is kept of them."""
        if self._loaded is not None:
            with torch.inference_mode():
                self._loaded.states.questions.encode_ahead(texts, self.encode_questions)

    def encode_questions(self, texts: Sequence[str]) -> States:
        """States of B questions."""
        self._stop_training()
        tokens = self.tokenize_questions(texts)
        if self._loaded is not None and self._loaded.captured is not None:
            return self._loaded.captured.encode_questions(tokens, self.device)
        return self.model.encode_questions(TokenBatch.from_lists(tokens, self.device))

    def tokenize_questions(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of B questions; one that repeats itself is read once (`without_repetition`), typing errors are
        mended (`WordsOfTexts`)."""
        words = self._words
        questions = [without_repetition(text) for text in texts]
        if words is not None:
            questions = [words.mend(text) for text in questions]
        return self.tokenize(questions, questions=True)

    def question_spans(self, text: str) -> list[Span]:
        """The spans, in a question, of the tokens that `tokenize_questions` returns."""
        words = self._words
        without_repeats = without_repetition(text)
        if words is None:
            return self.tokenizer.spans(without_repeats, questions=True)
        return words.unmended(without_repeats, self.tokenizer.spans(words.mend(without_repeats), questions=True))

    @cached_property
    def _words(self) -> WordsOfTexts | None:
        """Of the texts that the checkpoint has counted, if a pretrained encoder reads them; else `None`."""
        if self.model.statistics is None or not isinstance(self.tokenizer, SubwordTokenizer):
            return None
        return WordsOfTexts(self.tokenizer, self.model.statistics.document_frequency.tolist())

    def encode_answers(self, tokens: Sequence[Sequence[int]]) -> States:
        """States of N tokenized answers."""
        self._stop_training()
        return self.model.encode_answers(TokenBatch.from_lists(tokens, self.device))

    def use_cache(self, max_bytes: int, dtype: StateDtype | None = None) -> None:
        """Keep the states of answers in memory, in a cache that others with this checkpoint may share."""
        self.cache = self._checkpoint.states.answers(self.state_dtype(dtype), max_bytes)
        self._reads(self.quantize(self._encode_empty_text(), self.stored_dtype))  # compiles what does so

    def keep_states(self, folder: Path) -> None:
        """Keep what is encoded in this folder, for the next process, and read what an earlier one or `ap-ranker encode`
        wrote there for this checkpoint; called before `use_cache`."""
        self._checkpoint.states.keep_in(folder)
        if self.encodings is None and (folder / DATABASE).exists():
            try:
                self.encodings = Encodings.open(folder, self._checkpoint.files.fingerprint)
            except InputError as error:  # as after training: they are encoded again
                logger.warning("%s", error)

    def fill_cache(self, cache: EncodingCache | None = None) -> None:
        """Add what is encoded to a cache, by default of all rankers of this checkpoint; do not read it, as it is
        rounded."""
        self._filled = self._checkpoint.states if cache is None else cache

    @property
    def _checkpoint(self) -> LoadedCheckpoint:
        if self._loaded is None:
            raise InputError("Expected a model from a checkpoint, which has a fingerprint, found another. Save it.")
        return self._loaded

    def _kept_answers(self) -> KeptEncodings | None:
        """The states of answers that outlive the process, as they are in the cache; `None` if there are none."""
        if self._loaded is None or self.cache is None:
            return None
        return self._loaded.states.kept_answers(self.stored_dtype)

    @torch.inference_mode()
    def _encode_empty_text(self) -> States:
        return self.encode_answers(self.tokenize([""]))

    @property
    def name(self) -> str:
        """The model's registry name; without a checkpoint, that of its class."""
        if self.config:
            return self.config.model
        return type(self.model).__name__

    def _stop_training(self) -> None:
        with _lock:  # `eval` sets the model's own flag before those of its modules
            if self.model.training:  # `eval` takes half a millisecond for the modules of a transformer
                self.model.eval()


def _inverse(order: Sequence[int]) -> Tensor:
    """What brings rows in this order back into theirs."""
    return torch.tensor(order, dtype=torch.long).argsort()


def float32_array(values: Tensor) -> NDArray[np.float32]:
    """The numbers in float32, on the CPU."""
    array: NDArray[np.float32] = values.float().cpu().numpy()
    return array


def fetched(parts: Sequence[Tensor]) -> list[NDArray[np.float32]]:
    """Some (B, ·) numbers in float32, on the CPU: a GPU copies them together, so that it is waited for once."""
    if not parts:
        return []
    together = float32_array(torch.cat([part.float() for part in parts], dim=1))
    return np.split(together, np.cumsum([part.shape[1] for part in parts])[:-1], axis=1)


def check_number(what: str, value: object, minimum: int) -> None:
    """Refuse (InputError) what is no whole number, or too small a one."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < minimum:
        raise InputError(f"Expected {what} as a whole number of {minimum} or more, found {one_line(repr(value), 80)}.")


def _stored_and_missing(
    source: Encodings | KeptEncodings, answers: Sequence[str], rows: Sequence[int]
) -> tuple[dict[int, int], list[int]]:
    """Of some rows of the answers: row -> length of those that the source has, and the others."""
    stored: dict[int, int] = {}
    missing: list[int] = []
    lengths = source.lengths([answers[row] for row in rows])
    for row, length in zip(rows, lengths, strict=True):
        if length:
            stored[row] = length
        else:
            missing.append(row)
    return stored, missing


def _by_length(lengths: Mapping[int, int], batch_size: int) -> Iterator[list[int]]:
    order = sorted(lengths, key=lengths.__getitem__)
    for start in range(0, len(order), batch_size):
        yield order[start : start + batch_size]
