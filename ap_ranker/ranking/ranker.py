"""Question -> candidates -> encode -> match -> ranked answers."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ap_ranker.errors import InputError
from ap_ranker.models.base import AnswerModel, States
from ap_ranker.ranking.checkpoint import CheckpointConfig, find_checkpoint, load_checkpoint
from ap_ranker.text.batch import TokenBatch
from ap_ranker.text.tokenizer import WordTokenizer

logger = logging.getLogger(__name__)

BATCH_SIZE = 64
"""Answers encoded at once: beyond this a CPU gains no speed, only memory."""


@dataclass(frozen=True)
class RankedAnswer:
    """One answer in a ranking.

    Attributes:
        index: its position among the candidates given.
        text: the candidate.
        score: the model's score; higher is better.
    """

    index: int
    text: str
    score: float


class Ranker:
    """A model with its tokenizer, on a device.

    Example:
        >>> ranker = Ranker.from_pretrained("checkpoints/faq")
        >>> ranker.rank("Where is my parcel?", ["We ship daily.", "Open the tracking link."], top_k=1)
        [RankedAnswer(index=1, text='Open the tracking link.', score=0.71)]

    Attributes:
        config: what the checkpoint says of the model; `None` for a model that is still being trained.
    """

    def __init__(
        self,
        model: AnswerModel,
        tokenizer: WordTokenizer,
        device: torch.device | str = "cpu",
        config: CheckpointConfig | None = None,
    ) -> None:
        self.model = model.to(device)
        self.tokenizer = tokenizer
        self.device = torch.device(device)
        self.config = config
        self._warned_of_cuts = False

    @classmethod
    def from_pretrained(
        cls, source: str | Path, device: torch.device | str | None = None, token: str | None = None
    ) -> Ranker:
        """Load a checkpoint.

        Args:
            source: a checkpoint folder, or the name of a hub repository.
            device: `None` takes the GPU if there is one.
            token: for private repositories.

        Raises:
            InputError: no such checkpoint, a damaged one, no such device.
        """
        chosen = resolve_device(device)
        config, model, tokenizer = load_checkpoint(find_checkpoint(source, token))
        return cls(model, tokenizer, chosen, config)

    def rank(self, question: str, answers: Sequence[str], top_k: int | None = None) -> list[RankedAnswer]:
        """The answers from best to worst; equal scores keep the given order.

        Args:
            question: what the user asked.
            answers: N candidates; an empty text counts as one unknown word.
            top_k: how many to return; all by default.

        Raises:
            ValueError: `top_k` is not positive.
        """
        if top_k is not None and top_k <= 0:
            raise ValueError(f"top_k must be > 0, but got {top_k}")
        scores = self.score(question, answers).tolist()
        order = sorted(range(len(answers)), key=lambda row: -scores[row])
        return [RankedAnswer(row, answers[row], scores[row]) for row in order[:top_k]]

    @torch.inference_mode()
    def score(self, question: str, answers: Sequence[str], batch_size: int = BATCH_SIZE) -> Tensor:
        """(N,) scores of one question with N answers, on the CPU."""
        if not answers:
            return torch.empty(0)
        state = self.encode_questions([question])
        tokens = self.tokenize(answers)
        # Answers of similar length share a batch, so little time goes into padding.
        order = sorted(range(len(answers)), key=lambda row: len(tokens[row]))
        scores = torch.empty(len(answers))
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            states = self.encode_answers([tokens[row] for row in rows])
            scores[rows] = self.model.match(state, states)[0].float().cpu()
        return scores

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids; the first time a text is too long for the model, a warning says so."""
        ids, cut = self.tokenizer.encode(texts)
        if cut and not self._warned_of_cuts:
            self._warned_of_cuts = True
            logger.warning(
                "%d of %d texts are longer than %d tokens and were cut there. Later cuts are not reported.",
                cut,
                len(texts),
                self.tokenizer.max_tokens,
            )
        return ids

    def encode_questions(self, texts: Sequence[str]) -> States:
        """States of B questions."""
        self.model.eval()
        return self.model.encode_questions(TokenBatch.from_lists(self.tokenize(texts), self.device))

    def encode_answers(self, tokens: Sequence[Sequence[int]]) -> States:
        """States of N tokenised answers."""
        self.model.eval()
        return self.model.encode_answers(TokenBatch.from_lists(tokens, self.device))


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
