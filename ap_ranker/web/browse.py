"""What the page opens with: questions of the FAQ and its topics; nothing that a visitor has typed is among them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, zip_longest

from haystack import Document

from ap_ranker.search.elasticsearch.offering_index import OfferingIndex
from ap_ranker.search.offered_questions import browsed_question
from ap_ranker.search.sources import category_of
from ap_ranker.text.near_copies import near_groups

COUNT = 6
"""Number of questions that the page opens with: more would hide its topics on a phone."""

MAX_TOPICS = 100
"""Maximum number of topics: beyond it nobody browses."""

MAX_QUESTIONS = 500
"""Maximum number of questions of a topic."""


class Catalogue:
    """The questions of documents by topic, in their order; of nearly equal ones the first.

    A passage without a question counts by the titles above it. `category` is the column of topics, as `category_of`.
    """

    def __init__(self, documents: Iterable[Document], category: str = "") -> None:
        questions_of: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for document in documents:
            questions = questions_of[category_of(document, category)]
            if len(questions) < MAX_QUESTIONS:
                question = browsed_question(document)
                if question:
                    questions[question] = None
        topics = [topic for topic, questions in questions_of.items() if questions]
        self.by_topic = {topic: _distinct(list(questions_of[topic])) for topic in topics[:MAX_TOPICS]}

    @property
    def topics(self) -> dict[str, int]:
        """The topics that have a name, each with its number of questions."""
        return {topic: len(questions) for topic, questions in self.by_topic.items() if topic}

    def questions_of(self, topic: str) -> list[str]:
        """The questions of a topic; none if there is no such topic."""
        return self.by_topic.get(topic, [])

    def beginning(self, preferred: Sequence[str] = ()) -> list[str]:
        """Those of these questions that are here, then the first of each topic, the second, and so on."""
        rounds = zip_longest(*self.by_topic.values())
        in_turn = [question for question in chain.from_iterable(rounds) if question]
        questions = dict.fromkeys([*self._here(preferred, in_turn), *in_turn])
        return list(questions)[:COUNT]

    def _here(self, preferred: Sequence[str], in_turn: Sequence[str]) -> list[str]:
        """Those of the preferred questions that are among all these."""
        return [question for question in preferred if question in in_turn]


class IndexCatalogue(Catalogue):
    """The catalogue of an index: it has the first questions of each topic, and asks the index for more.

    Its topics are the largest. Nearly equal questions of a topic count each, up to `MAX_QUESTIONS`.
    """

    def __init__(self, index: OfferingIndex) -> None:
        self._index = index
        self._counts: dict[str, int] = {}
        first_documents: list[Document] = []
        for topic, count, documents in index.topics(MAX_TOPICS, COUNT):
            self._counts[topic] = min(count, MAX_QUESTIONS)
            first_documents += documents
        super().__init__(first_documents, index.category)

    @property
    def topics(self) -> dict[str, int]:
        """As of a `Catalogue`."""
        return {topic: count for topic, count in self._counts.items() if topic}

    def questions_of(self, topic: str) -> list[str]:
        """As of a `Catalogue`, those of now."""
        questions: dict[str, None] = {}  # as a set in order
        for document in self._index.documents_about(topic, MAX_QUESTIONS):
            questions[browsed_question(document)] = None
        return _distinct(list(questions))

    def _here(self, preferred: Sequence[str], in_turn: Sequence[str]) -> list[str]:
        documents = self._index.documents_with(preferred)
        in_index = set(map(browsed_question, documents))
        return [question for question in preferred if question in in_index]


def _distinct(texts: Sequence[str]) -> list[str]:
    """The texts without near copies of earlier ones; with other numbers it is another text: zone 1 is not zone 2."""
    first_texts: dict[tuple[int, str], str] = {}
    for group_number, text in zip(near_groups(texts).tolist(), texts, strict=True):
        numbers_in_text = " ".join(re.findall(r"\d+", text))
        first_texts.setdefault((group_number, numbers_in_text), text)
    return list(first_texts.values())
