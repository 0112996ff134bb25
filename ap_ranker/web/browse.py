"""What the page opens with: questions of the FAQ and its topics; nothing that a visitor has typed is among them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, zip_longest

from haystack import Document

from ap_ranker.search.sources import source_of
from ap_ranker.text.near_copies import near_groups
from ap_ranker.web.presentation import category_of

COUNT = 6
"""Number of questions that the page opens with: more would hide its topics on a phone."""

MAX_TOPICS, MAX_QUESTIONS, MAX_LENGTH = 100, 500, 300
"""Maximum number of topics, of questions of one, and of characters of a question: beyond it nobody browses."""


class Catalogue:
    """The questions of documents by topic, in their order; of nearly equal ones the first.

    A passage without a question counts by the titles above it. `category` is the column of topics, as `category_of`.
    """

    def __init__(self, documents: Iterable[Document], category: str = "") -> None:
        found: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for document in documents:
            questions = found[category_of(document, category)]
            if len(questions) < MAX_QUESTIONS and 0 < len(question := _question_of(document)) <= MAX_LENGTH:
                questions[question] = None
        topics = [topic for topic, questions in found.items() if questions][:MAX_TOPICS]
        self.by_topic = {topic: _distinct([*found[topic]]) for topic in topics}

    def beginning(self, preferred: Sequence[str] = ()) -> list[str]:
        """Those of these questions that are here, then the first of each topic, the second, and so on."""
        others = [*filter(None, chain.from_iterable(zip_longest(*self.by_topic.values())))]
        return [*dict.fromkeys([*(each for each in preferred if each in others), *others])][:COUNT]


def _question_of(document: Document) -> str:
    """Its stored question, or the titles above it, without the first one if there are others."""
    source, question = source_of(document), document.meta.get("question")
    titles = source.title.split(" > ") if source and source.title else []
    return str(question or "") or " > ".join(titles[1:] or titles)


def _distinct(texts: Sequence[str]) -> list[str]:
    first: dict[tuple[int, str], str] = {}
    for number, text in zip(near_groups(texts).tolist(), texts, strict=True):
        first.setdefault((number, " ".join(re.findall(r"\d+", text))), text)  # zone 1 is not zone 2
    return [*first.values()]
