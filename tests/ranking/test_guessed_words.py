"""Words run together and words without vowels; no ordinary question gets another first answer by them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT

from ap_ranker.data.reader import read_dataset
from ap_ranker.data.tables import read_table
from ap_ranker.ranking.bm25 import BM25

ENTRIES = (
    "How do I cancel my order?",
    "Where is my parcel? How do I track it?",
    "How do I get a refund?",
    "Change my password",
    "Delivery and payment",
)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("howdoicancelmyorder", 0),
        ("How-do-I-cancelmyorder?", 0),
        ("cancelorder", 0),
        ("whereismyparcel", 1),
        ("trackmyparcel", 1),
        ("HOWDOIGETAREFUND", 2),
        ("changepassword", 3),
        ("hw cn i cncl my ordr", 0),
        ("cncl", 0),
        ("trckng", 1),
        ("rfnd plz", 2),
        ("chng pswrd", 3),
        ("dlvry", 4),
        ("pymnt", 4),
    ],
)
@pytest.mark.parametrize("language", [None, "english"])
def test_it_is_read_as_what_is_known(question: str, expected: int, language: str | None) -> None:
    if question == "trckng" and language is None:
        pytest.skip("without a stemmer, the ending belongs to the word")
    scores = BM25(ENTRIES, language=language).scores(question)
    assert scores.argmax() == expected
    assert scores.max() > 0


@pytest.mark.parametrize("question", ["DHL", "xyz", "cancelx", "therapist", "hhhhhhhhhh", "aaaaaaaaaaaa", "in" * 20])
def test_other_unknown_words_stay_unknown(question: str) -> None:
    assert not BM25(ENTRIES, language="english").scores(question).any()


def _example() -> tuple[list[str], list[str]]:
    dataset = read_dataset(ROOT / "examples" / "faq" / "test.csv", "test")
    return [answer.text for answer in dataset.answers], [question.text for question in dataset.questions]


def _public(answers: Path, questions: Path) -> tuple[list[str], list[str]]:
    texts = [row.get("answer") for row in read_table(answers).rows]
    return texts, list(dict.fromkeys(row.get("question") for row in read_table(questions).rows))


@pytest.mark.parametrize("name", ["example", "insuranceqa", "covid"])
def test_no_ordinary_question_gets_another_first_answer(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "example":
        texts, questions = _example()
    else:
        folder = ROOT.parent / "shared" / "data"
        faq = folder / "faq_public" / "covid-faq-en.csv.gz"
        files = (
            (faq, faq) if name == "covid" else tuple(folder / name / f"{part}.tsv.gz" for part in ("answers", "test"))
        )
        if not files[0].exists():
            pytest.skip(f"{files[0]} is absent")
        texts, questions = _public(*files)
    index = BM25(texts, language="english")
    guessing = [index.scores(question) for question in questions]
    monkeypatch.setattr(BM25, "_guessed", lambda *_, **__: [])
    plain = [index.scores(question) for question in questions]
    changed = [
        question
        for question, one, other in zip(questions, guessing, plain, strict=True)
        if other.max() > 0 and one.argmax() != other.argmax()
    ]
    assert len(questions) > 100
    assert not changed, f"{len(changed)} of {len(questions)}; {changed[:20]}"
    assert all(np.isfinite(scores).all() for scores in guessing)
