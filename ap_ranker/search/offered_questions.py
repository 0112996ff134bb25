"""What a page offers before anything is asked: texts to suggest, questions to browse; read alike in all stores."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from haystack import Document

from ap_ranker.search.sources import source_of
from ap_ranker.text.reading import bare, fold

LONGEST_SUGGESTION = 150
"""Maximum length of a suggestion in characters."""

LONGEST_QUESTION = 300
"""Maximum number of characters of a question that is browsed."""


def suggested_line(text: str) -> str:
    """A text as it is suggested, in one line; empty if it is too long for that."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_SUGGESTION else ""


def suggestion_key(text: str) -> str:
    """What texts have in common that differ by case, accents and punctuation alone: their words."""
    return fold(bare(text))


def needed_beginnings(words: Iterable[str]) -> list[str]:
    """The words, each once and sorted, without those that begin another one.

    These say nothing more, and 500 of them would take seconds.
    """
    distinct = sorted(set(words))
    needed = []
    for word, following in pairwise([*distinct, ""]):
        if not following.startswith(word):
            needed.append(word)
    return needed


def browsed_question(document: Document) -> str:
    """Its stored question, or the titles above it, without the first one if there are others; empty if too long."""
    question = str(document.meta.get("question") or "")
    if not question:
        source = source_of(document)
        if source is not None and source.title:
            titles = source.title.split(" > ")
            question = " > ".join(titles[1:] or titles)
    return question if len(question) <= LONGEST_QUESTION else ""
