"""Explanations of a score: the attention weight of each word of the question and of the answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from ap_ranker.text.tokenizer import Span


@dataclass(frozen=True)
class Token:
    """One token of a text, as the model reads it: the characters from `start` to `end`, not lower-cased.

    They are none for a special token of an encoder and for the unknown word that stands for an empty text; the weight
    is `None` if the model has none for this side.
    """

    text: str
    start: int
    end: int
    weight: float | None


@dataclass(frozen=True)
class Explanation:
    """The model's score of an answer, and the tokens of both texts as the model reads them.

    The weights of either side sum to 1; what the model cut off has none.
    """

    score: float
    question: list[Token]
    answer: list[Token]


def tokens_of(text: str, spans: Sequence[Span], weights: Tensor | None) -> list[Token]:
    """The tokens of a text with their (1, 1, T) weights, if it has any."""
    values = [None] * len(spans) if weights is None else weights.flatten().tolist()
    tokens: list[Token] = []
    for (start, end), weight in zip(spans, values, strict=True):
        tokens.append(Token(text[start:end], start, end, weight))
    return tokens


def pieces(tokens: Sequence[Token]) -> Iterator[tuple[int, int, float]]:
    """The (start, end, heat) of each piece of a text; heat is its weight divided by the largest, 0 to 1.

    Tokens that share characters, such as the bytes of an emoji, become one piece with the sum of their weights. Tokens
    without characters are left out.
    """
    merged: list[tuple[int, int, float]] = []
    for token in tokens:
        start = token.start
        end = token.end
        weight = token.weight or 0.0
        if start == end:
            continue
        if merged and start < merged[-1][1]:
            previous_start, previous_end, previous_weight = merged.pop()
            start = previous_start
            end = max(end, previous_end)
            weight = weight + previous_weight
        merged.append((start, end, weight))
    largest = max((weight for _, _, weight in merged), default=0.0) or 1.0
    return ((start, end, weight / largest) for start, end, weight in merged)
