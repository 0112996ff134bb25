"""BM25 by the statistics of an engine gives the scores of our own index."""

from __future__ import annotations

import csv
from collections.abc import Sequence

import numpy as np
import pytest
from conftest import ROOT
from reading_table import read_table

from ap_ranker.ranking.bm25 import BM25, COMPOUNDING, asked_words, compounds_of, parts_of, text_terms
from ap_ranker.ranking.bm25_statistics import AskedWords, CountedTerms, Statistics


def rows(name: str, column: str) -> list[str]:
    with (ROOT / "examples" / "faq" / name).open(encoding="utf-8", newline="") as file:
        return [row[column] for row in csv.DictReader(file)]


def scores(question: str, texts: Sequence[str], language: str | None) -> list[float]:
    """As of an engine that counts documents by their terms, and knows of no question beforehand."""
    terms = [text_terms(text, language) for text in texts]
    vocabulary = {term for each in terms for term in each}
    ends = {}
    for word in asked_words(question, language) if language in COMPOUNDING else ():
        if not any(term in vocabulary for form in word for term in form):
            ends[word] = [part for each in compounds_of(word) for part in parts_of(each) if part in vocabulary]
    asked = AskedWords.of(question, language, ends)
    frequencies = {term: sum(term in each for each in terms) for term in asked.terms}
    statistics = Statistics(len(texts), float(np.mean([len(each) for each in terms])), frequencies)
    return statistics.scores(asked, list(map(CountedTerms.of, terms)))


@pytest.mark.parametrize("language", [None, "english"])
def test_of_the_example(language: str | None) -> None:
    texts, questions = rows("answers.csv", "answer"), rows("test.csv", "question")
    questions = [*questions[:60], " ".join(questions[:20]), "refund refund refund refund refund now", "?!"]
    index = BM25(texts, language=language)
    for question in questions:
        assert scores(question, texts, language) == pytest.approx(index.scores(question).tolist(), rel=1e-5, abs=1e-6)


def test_of_all_expectations_of_reading() -> None:
    """All languages, compounds and words of several forms."""
    table = [row for row in read_table() if row.expected in ("found", "first", "not")]
    assert len(table) > 700
    for row in table:
        texts = [row.text, row.query, *([row.twin] if row.twin else []), "Pillows and duvets"]
        expected = BM25(texts, language=row.language).scores(row.query).tolist()
        assert scores(row.query, texts, row.language) == pytest.approx(expected, rel=1e-5, abs=1e-6), row
