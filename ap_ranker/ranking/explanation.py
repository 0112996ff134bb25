"""Why an answer was chosen: how much each word of the question and of the answer counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor

from ap_ranker.errors import InputError
from ap_ranker.models.registry import MODELS
from ap_ranker.text.batch import Span


@dataclass(frozen=True)
class Token:
    """One token of a text, as the model reads it.

    Attributes:
        text: the text's characters from `start` to `end`, not lower-cased; empty for a special token of an encoder and
            for the unknown word that stands for an empty text.
        start: its first character.
        end: the one after its last.
        weight: its share in the score; `None` where the model does not weigh this side.
    """

    text: str
    start: int
    end: int
    weight: float | None


@dataclass(frozen=True)
class Explanation:
    """The tokens of a question and of one answer; the weights of either side sum to 1.

    Attributes:
        score: the model's score of the answer; higher is better.
        question: its tokens in order; a text that is too long for the model ends where it was cut.
        answer: likewise.
    """

    score: float
    question: list[Token]
    answer: list[Token]

    def to_dict(self) -> dict[str, Any]:
        """The same as basic types."""
        return asdict(self)


def tokens_of(text: str, spans: Sequence[Span], weights: Tensor | None) -> list[Token]:
    """The tokens of a text with their (1, 1, T) weights, if it has any."""
    shares = [None] * len(spans) if weights is None else weights.flatten().tolist()
    return [Token(text[start:end], start, end, share) for (start, end), share in zip(spans, shares, strict=True)]


def pieces(tokens: Sequence[Token]) -> Iterator[tuple[int, int, float]]:
    """Each stretch of a text that has tokens, and its heat: its weight beside the largest, 0 to 1.

    Tokens that share characters, as the bytes of an emoji do, are one stretch and add their weights; those that stand
    for no character are left out.
    """
    found: list[tuple[int, int, float]] = []
    for token in tokens:
        start, end, weight = token.start, token.end, token.weight or 0.0
        if start == end:
            continue
        if found and start < found[-1][1]:
            before = found.pop()
            start, end, weight = before[0], max(end, before[1]), weight + before[2]
        found.append((start, end, weight))
    largest = max((weight for _, _, weight in found), default=0.0) or 1.0
    return ((start, end, weight / largest) for start, end, weight in found)


def no_attention(found: str) -> InputError:
    """What to tell of a model whose scores come from no weights of words."""
    able = ", ".join(spec.name for spec in MODELS.values() if spec.attention_over)
    return InputError(
        f"Expected a model that weighs the words of a text, of which it can be shown how much each counted ({able}), "
        f"found {found}, which has no such weights."
    )
