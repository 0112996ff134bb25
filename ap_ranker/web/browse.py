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

MAX_TOPICS = 100
"""Maximum number of topics: beyond it nobody browses."""

MAX_QUESTIONS = 500
"""Maximum number of questions of a topic."""

MAX_LENGTH = 300
"""Maximum number of characters of a question."""


class Catalogue:
    """The questions of documents by topic, in their order; of nearly equal ones the first.

    A passage without a question counts by the titles above it. `category` is the column of topics, as `category_of`.
    """

    def __init__(self, documents: Iterable[Document], category: str = "") -> None:
        questions_of: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for document in documents:
            questions = questions_of[category_of(document, category)]
            if len(questions) < MAX_QUESTIONS:
                question = _question_of(document)
                if 0 < len(question) <= MAX_LENGTH:
                    questions[question] = None
        topics = [topic for topic, questions in questions_of.items() if questions]
        self.by_topic = {topic: _distinct(list(questions_of[topic])) for topic in topics[:MAX_TOPICS]}

    def beginning(self, preferred: Sequence[str] = ()) -> list[str]:
        """Those of these questions that are here, then the first of each topic, the second, and so on."""
        rounds = zip_longest(*self.by_topic.values())
        in_turn = [question for question in chain.from_iterable(rounds) if question]
        preferred_here = [question for question in preferred if question in in_turn]
        questions = dict.fromkeys([*preferred_here, *in_turn])
        return list(questions)[:COUNT]


def _question_of(document: Document) -> str:
    """Its stored question, or the titles above it, without the first one if there are others."""
    question = document.meta.get("question")
    if question:
        return str(question)
    source = source_of(document)
    if source is None or not source.title:
        return ""
    titles = source.title.split(" > ")
    return " > ".join(titles[1:] or titles)


def _distinct(texts: Sequence[str]) -> list[str]:
    """The texts without near copies of earlier ones; with other numbers it is another text: zone 1 is not zone 2."""
    first_texts: dict[tuple[int, str], str] = {}
    for group_number, text in zip(near_groups(texts).tolist(), texts, strict=True):
        numbers_in_text = " ".join(re.findall(r"\d+", text))
        first_texts.setdefault((group_number, numbers_in_text), text)
    return list(first_texts.values())
