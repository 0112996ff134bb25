"""Tells which headings ask a question, in English and in German."""

from __future__ import annotations

import re

from ap_ranker.data.dataset import QUESTION_MARKS

_WORDS = re.compile(
    r"(how|what|when|where|which|who|whom|whose|why)(['\u2019]s|['\u2019]re)?"
    r"|was|wann|warum|weshalb|weswegen|wieso|wie|wieviele?|wo|wer|wem|wen|wessen|welche[mnrs]?"
    r"|wo(her|hin)|wo(r?(an|auf|aus|in|über|um|unter)|durch|für|gegen|mit|nach|von|vor|zu)",
    re.IGNORECASE,
)
"""Words that begin a question."""

_INVERTED = re.compile(
    r"(am|are|can|could|did|do|does|has|have|is|may|must|should|was|were|will|would)"
    r" (i|we|you|he|she|it|they|there|my|our|your|this|these|the|an?)"
    r"|(bin|ist|sind|kann|können|darf|dürfen|muss|müssen|soll|sollen|sollte|hat|habe|haben|wird|werde|werden|brauche"
    r"|brauchen|gibt|gilt|gelten|bekomme|erhalte|braucht)"
    r" (ich|wir|sie|er|es|man|ihr|mein|meine|der|die|das|ein|eine)",
    re.IGNORECASE,
)
"""A verb before its subject."""


def asks(heading: str) -> bool:
    """Whether a heading asks a question: by its mark, or by how it begins.

    Statements that begin alike, such as "How it works", count, too: users ask for them in the same words.
    """
    text = heading.strip(" \t\"'*_»«„“”()[]").lstrip("0123456789. ")
    if text.endswith(QUESTION_MARKS):
        return any(map(str.isalpha, text))
    first, _, rest = text.partition(" ")
    second = rest.partition(" ")[0]
    return bool((rest and _WORDS.fullmatch(first)) or _INVERTED.fullmatch(f"{first} {second}"))
