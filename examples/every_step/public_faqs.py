"""The FAQs of the table: entries, users' questions to train on and to test with, and questions about other matters."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from public_sources import SOURCES

from ap_ranker.errors import InputError
from ap_ranker.files import csv_text

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "no_answer"))

from faqs import rows_of  # noqa: E402

QUESTIONS = HERE / "questions"
WRITTEN = HERE.parent / "no_answer" / "data"
"""Of examples/no_answer: questions about the shared FAQs, each searched in all of their rows, and off-topic ones."""

SHARED = {
    "jhu_en": ("covid-faq-en", "covid_en", "english"),
    "deepset_de": ("covid-faq-multilingual", "covid_de", "german"),
}
"""FAQ of public data -> its file in faq_public, its questions, its language."""

Row = dict[str, str]


@dataclass(frozen=True)
class Asked:
    """A user's question, with the ids of its right entries."""

    text: str
    right: tuple[str, ...]


@dataclass(frozen=True)
class PublicFaq:
    """A FAQ that others wrote: `entries` are (id, stored question, answer).

    Those to train on are in a fixed order, so that the first 30 are among the first 100.
    """

    name: str
    language: str
    entries: Sequence[tuple[str, str, str]]
    training: Sequence[Asked]
    test: Sequence[Asked]
    other_matters: Sequence[str]

    def with_hubs(self) -> PublicFaq:
        """The same with entries that are near to every question: "Contact", "Need more help?", a nearly empty one."""
        hubs = [row for row in rows_of(QUESTIONS / "hubs.csv") if row["language"] == self.language]
        added = [(f"hub-{place}", row["question"], row["answer"]) for place, row in enumerate(hubs)]
        return replace(self, entries=[*self.entries, *added])

    def table(self, size: int) -> str:
        """The owner's table, as CSV, which knows the first `size` training questions as wordings."""
        wordings: dict[str, list[str]] = {name: [] for name, _, _ in self.entries}
        for question in self.training[:size]:
            for name in question.right:
                wordings[name].append(question.text)
        rows = ((name, asked, answer, "\n".join(wordings[name])) for name, asked, answer in self.entries)
        return csv_text(("aid", "question", "answer", "wordings"), rows)


def read_public_faqs(data: Path, shared: Path | None) -> list[PublicFaq]:
    """All of them: from the tables that `prepare_tables.py` wrote, and from `shared`, if there is that folder."""
    off_topic = [row["question"] for row in rows_of(WRITTEN / "off_topic.csv") if row["split"] == "test"]
    near_misses = rows_of(QUESTIONS / "other_matters.csv")
    faqs = []
    for source in SOURCES:
        folder = data / source.name
        if not folder.is_dir():
            advice = f"Make them: python examples/every_step/prepare_tables.py CLONES {data}"
            raise InputError(f"{folder}: expected the tables of {source.name}, found none. {advice}")
        entries = [(row["aid"], row["question"], row["answer"]) for row in rows_of(folder / "answers.csv")]
        asked = rows_of(folder / "questions.csv") if source.has_questions else _written(source.name)
        training = [_asked(row) for row in asked if row["split"] == "train"]
        test = [_asked(row) for row in asked if row["split"] == "test"]
        missed = [row["question"] for row in near_misses if row["faq"] == source.name]
        faqs.append(PublicFaq(source.name, source.language, entries, training, test, [*missed, *off_topic]))
    if shared is not None:
        for name, (file, questions, language) in SHARED.items():
            faqs.append(_shared(name, shared / "faq_public" / f"{file}.csv.gz", questions, language, off_topic))
    return faqs


def _written(name: str) -> list[Row]:
    """Questions that were written for a FAQ whose users' questions are unknown: all are to test with."""
    return [row | {"split": "test"} for row in rows_of(QUESTIONS / f"{name}.csv")]


def _shared(name: str, path: Path, questions: str, language: str, off_topic: Sequence[str]) -> PublicFaq:
    numbered = [(str(number), row) for number, row in enumerate(rows_of(path))]
    kept = [(number, row) for number, row in numbered if language == "english" or row["lang"] == "de"]
    entries = [(number, row["question"], row["answer"]) for number, row in kept]
    written = [row for row in rows_of(WRITTEN / f"{questions}_questions.csv") if row["split"] == "test"]
    test = [Asked(row["question"], tuple(row["rows"].split())) for row in written if row["answerable"] == "yes"]
    missed = [row["question"] for row in written if row["answerable"] == "no"]
    return PublicFaq(name, language, entries, [], test, [*missed, *off_topic])


def _asked(row: Row) -> Asked:
    return Asked(row["question"], tuple(row["answer_ids"].split()))
