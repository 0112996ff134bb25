"""Question -> candidates -> encode -> match -> ranked answers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path

import torch
from torch import Tensor

from ap_ranker.errors import InputError, one_line
from ap_ranker.models.base import AnswerModel, States
from ap_ranker.ranking.cache import EncodingCache
from ap_ranker.ranking.checkpoint import CheckpointConfig, find_checkpoint, load_checkpoint
from ap_ranker.ranking.encodings import Encodings, fingerprint
from ap_ranker.ranking.explanation import Explanation, Token, no_attention, tokens_of
from ap_ranker.ranking.policy import AnswerPolicy
from ap_ranker.ranking.quantization import QuantizedStates, StateDtype
from ap_ranker.text.batch import TokenBatch
from ap_ranker.text.subwords import AnyTokenizer

logger = logging.getLogger(__name__)

BATCH_SIZE = 64
"""Answers encoded at once: beyond this a CPU gains no speed, only memory."""


@dataclass(frozen=True)
class RankedAnswer:
    """One answer in a ranking.

    Attributes:
        index: its position among the candidates given.
        text: the candidate.
        score: higher is better: the model's score, unless fusion or scaling was asked for.
    """

    index: int
    text: str
    score: float


class Ranker:
    """A model with its tokenizer, on a device. Any number of threads may use it at once.

    Example:
        >>> ranker = Ranker.from_pretrained("checkpoints/faq")
        >>> ranker.rank("Where is my parcel?", ["We ship daily.", "Open the tracking link."], top_k=1)
        [RankedAnswer(index=1, text='Open the tracking link.', score=0.71)]

    Attributes:
        config: what the checkpoint says of the model; `None` for a model that is still being trained.
        cache: states of answers that were ranked before; `None` for none.
        encodings: states of a corpus, encoded beforehand; `None` for none.
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
        if cache is not None and not model.supports_quantization:
            cache.dtype = StateDtype.float32
        self._warned_of_cuts = False
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
        """Load a checkpoint.

        Args:
            source: a checkpoint folder, or the name of a hub repository.
            device: `None` takes the GPU if there is one.
            token: for private repositories.
            cache: keeps the states of answers for the next question; none by default.
            encodings: a folder that `ap-ranker encode` wrote with this checkpoint; none by default.

        Raises:
            InputError: no such checkpoint, a damaged one, encodings of another one, no such device.
        """
        chosen = resolve_device(device)
        folder = find_checkpoint(source, token)
        config, model, tokenizer = load_checkpoint(folder)
        ranker = cls(model, tokenizer, chosen, config, cache=cache)
        ranker.source = str(source)
        try:
            ranker._try()
        except Exception as error:  # whatever files lead to that are whole but do not belong together
            raise InputError(
                f"{folder}: expected a checkpoint that can encode a text, found one that cannot "
                f"({one_line(repr(error))})."
            ) from error
        if encodings is not None:
            ranker.encodings = ranker.open_encodings(encodings, fingerprint(folder))
        return ranker

    @torch.inference_mode()
    def _try(self) -> States:
        """The states of a text without words."""
        return self.encode_answers(self.tokenize([""]))

    def open_encodings(self, folder: str | Path, checkpoint_fingerprint: str) -> Encodings:
        """Open what `ap-ranker encode` wrote with this checkpoint.

        Raises:
            InputError: no such folder, a damaged one, or the states of another checkpoint.
        """
        opened = Encodings.open(folder, checkpoint_fingerprint)
        opened.check(self.reduced(self._try(), opened.manifest.dtype), len(self.tokenizer.words))
        return opened

    def rank(
        self,
        question: str,
        answers: Sequence[str],
        top_k: int | None = None,
        *,
        bm25_scores: Sequence[float] | None = None,
        precision: float | None = None,
        score_threshold: float | None = None,
        scale_score: bool = False,
    ) -> list[RankedAnswer]:
        """The answers from best to worst, without those that are not good enough; equal scores keep the given order.

        Args:
            question: what the user asked.
            answers: N candidates; an empty text counts as one unknown word.
            top_k: how many to return; all by default.
            bm25_scores: N scores of BM25, added to the model's with the weight that training found best (0 where it
                does not help); by default nothing is added.
            precision: the share of first answers that are to be right, such as 0.9: leave out answers that are not good
                enough for it. The checkpoint must be calibrated for this value.
            score_threshold: leave out answers with a lower score, after scaling, if any.
            scale_score: return scores from 0 to 1, in the same order: probabilities if the checkpoint is calibrated.

        Returns:
            An empty list where no answer is good enough.

        Raises:
            ValueError: `top_k` is not positive, `bm25_scores` are not N finite numbers, or both `precision` and
                `score_threshold` are given.
            InputError: the checkpoint was not calibrated for `precision`.
        """
        if top_k is not None and top_k <= 0:
            raise ValueError(f"top_k must be > 0, but got {top_k}")
        given = self.answer_policy().answers(
            self.score(question, answers),
            bm25_scores,
            top_k=top_k,
            scale_score=scale_score,
            score_threshold=score_threshold,
            precision=precision,
        )
        return [RankedAnswer(row, answers[row], score) for row, score in given]

    def answer_policy(self, *, fuse_scores: bool = True) -> AnswerPolicy:
        """What the checkpoint says of fusion and calibration; without one, scores are only sorted.

        Args:
            fuse_scores: whether BM25's scores are added, where they are known and where training found that it helps.
        """
        weight = self.config.bm25_weight if self.config and fuse_scores else 0.0
        return AnswerPolicy(self.source, weight, self.config.calibration if self.config else {}, self.model.scale)

    @torch.inference_mode()
    def score(self, question: str, answers: Sequence[str], batch_size: int = BATCH_SIZE) -> Tensor:
        """(N,) scores of one question with N answers, on the CPU.

        Raises:
            InputError: `batch_size` is not positive, or a score is not a finite number.
        """
        batches = self.answer_states(answers, batch_size)
        if not answers:
            return torch.empty(0)
        state = self.encode_questions([question])
        scores = torch.full((len(answers),), torch.nan)
        for rows, states in batches:
            scores[rows] = self.model.match(state, states)[0].float().cpu()
        finite = scores.isfinite()
        if not finite.all():
            raise InputError(
                f"{self._name}: expected finite scores, found {int((~finite).sum())} of {len(answers)} that are not: "
                "its weights or its encodings hold numbers too large to count with. Train it or encode again."
            )
        return scores

    def explain(self, question: str, answer: str) -> Explanation:
        """The answer's score, and how much each word of the question and of the answer counted for it.

        Raises:
            InputError: the model weighs no words.
        """
        return Explanation(self.score(question, [answer]).item(), *self.attention_weights(question, answer))

    @torch.inference_mode()
    def attention_weights(self, question: str, answer: str) -> tuple[list[Token], list[Token]]:
        """The tokens of both texts, as `explain` has them, without the score.

        Raises:
            InputError: the model weighs no words.
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

        Answers of similar length share a batch, so little time goes into padding. States are taken from the cache and
        the encodings, where there are any, and made otherwise; with a cache, each text by one thread only.

        Raises:
            InputError: `batch_size` is not positive.
        """
        if not isinstance(batch_size, Integral) or isinstance(batch_size, bool) or batch_size < 1:
            raise InputError(f"Expected batch_size as a whole number above 0, found {batch_size!r}.")
        return self._answer_states(answers, batch_size)

    def _answer_states(self, answers: Sequence[str], batch_size: int) -> Iterator[tuple[list[int], States]]:
        left = list(range(len(answers)))
        for source in (self.cache, self.encodings):
            if source is None or not left:
                continue
            lengths = dict(zip(left, source.lengths([answers[row] for row in left]), strict=True))
            left = [row for row, length in lengths.items() if not length]
            for rows in _by_length({row: length for row, length in lengths.items() if length}, batch_size):
                texts = [answers[row] for row in rows]
                states = source.states(texts)
                if states is None:  # another thread's texts have taken the place of one of them
                    left += rows
                    continue
                if source is self.encodings and self.cache is not None:
                    states = states.converted(self.cache.dtype, self.device)
                    self.cache.put(texts, states)
                yield rows, states.dequantize(self.device)
        rows_of: dict[str, list[int]] = {}
        for row in left:
            rows_of.setdefault(answers[row], []).append(row)
        tokens = self.tokenize(list(rows_of)) if left else []
        same_text = list(rows_of.items())
        for places in _by_length(dict(enumerate(map(len, tokens))), batch_size):
            texts = [same_text[place][0] for place in places]
            for chosen, made in self._encoded(texts, [tokens[place] for place in places]):
                rows_of_each = [rows_of[texts[number]] for number in chosen]
                numbers = [number for number, rows in enumerate(rows_of_each) for _ in rows]
                rows = [row for rows in rows_of_each for row in rows]
                yield rows, made if len(numbers) == len(chosen) else made[numbers]

    def _encoded(self, texts: Sequence[str], tokens: Sequence[list[int]]) -> Iterator[tuple[list[int], States]]:
        """The states of tokenised texts, in parts with the places of their texts, and into the cache if there is one.

        They are the same now as when they come from the cache.
        """
        if self.cache is None:
            yield list(range(len(texts))), self.encode_answers(tokens)
            return
        made = self.cache.encoded_once(texts, lambda places: self.encode_answers([tokens[place] for place in places]))
        for places, states in made:
            yield places, states.dequantize(self.device)

    def reduced(self, states: States, dtype: StateDtype) -> QuantizedStates:
        """The states in this dtype; in float32 whatever is asked if the model needs it."""
        return QuantizedStates.quantize(states, dtype if self.model.supports_quantization else StateDtype.float32)

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids; the first time a text is too long for the model, a warning says so."""
        ids, cut = self.tokenizer.encode(texts)
        if cut and self._first_cut():
            logger.warning(
                "%d of %d texts are longer than %d tokens and were cut there. Later cuts are not reported.",
                cut,
                len(texts),
                self.tokenizer.max_tokens,
            )
        return ids

    def encode_questions(self, texts: Sequence[str]) -> States:
        """States of B questions."""
        self._stop_training()
        return self.model.encode_questions(TokenBatch.from_lists(self.tokenize(texts), self.device))

    def encode_answers(self, tokens: Sequence[Sequence[int]]) -> States:
        """States of N tokenised answers."""
        self._stop_training()
        return self.model.encode_answers(TokenBatch.from_lists(tokens, self.device))

    @property
    def _name(self) -> str:
        return self.config.model if self.config else type(self.model).__name__

    def _first_cut(self) -> bool:
        with self._lock:
            first, self._warned_of_cuts = not self._warned_of_cuts, True
        return first

    def _stop_training(self) -> None:
        with self._lock:  # while one thread tells its modules, the model itself says already that it does not train
            if self.model.training:  # else for nothing: half a millisecond for the modules of a transformer
                self.model.eval()


def _by_length(lengths: Mapping[int, int], batch_size: int) -> Iterator[list[int]]:
    """The positions of texts in batches of similar length."""
    order = sorted(lengths, key=lengths.__getitem__)
    for start in range(0, len(order), batch_size):
        yield order[start : start + batch_size]


def resolve_device(device: torch.device | str | None) -> torch.device:
    """A usable device: the given one, or, for `None` and `auto`, the GPU if there is one.

    Raises:
        InputError: it does not exist here.
    """
    if device is None or str(device) == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
        torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).split("\n")[0]
        raise InputError(f"Expected a device such as auto, cpu or cuda:0, found {str(device)!r} ({reason}).") from error
    return chosen
