"""What is measured is what is served: `evaluate`, `Ranker.rank`, `AnswerRanker` and every search rank alike.

And a copy of an answer, such as one that was indexed twice, silences nothing.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import yaml
from conftest import ROOT, reconfigure, settings_of
from faq_checkpoint import ANSWERS, FAQ, FITS, write_small
from haystack import Document
from haystack.utils import ComponentDevice

from ap_ranker.data.dataset import Dataset
from ap_ranker.data.faq import Match, read_faq
from ap_ranker.data.wordings import WordingFiles, read_with_wordings
from ap_ranker.evaluation.evaluate import evaluate
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.models.base import States
from ap_ranker.ranking.cache import EncodingCache
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.text_encoder import TextEncoder
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.text.question_keys import question_key
from haystack_integrations.common.ap_ranker.entries import to_document, wordings_in_meta
from haystack_integrations.components.rankers.ap_ranker import AnswerRanker
from haystack_integrations.components.retrievers.ap_ranker import BM25SRetriever, FAQSearch
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

WORDINGS = FAQ / "train.csv"
CPU = ComponentDevice.from_str("cpu")
TRAINED = ROOT / "checkpoints" / "faq"
SAME = 1e-6
ALL = 10**6
ENCODED: dict[object, States] = {}
"""The states of the current checkpoint's texts: every search reads the same ones."""


@pytest.fixture(scope="module", params=["small", pytest.param("trained", marks=pytest.mark.slow)])
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One with weights for BM25 and wordings, of random numbers or from `make demo`."""
    folder = tmp_path_factory.mktemp(request.param) / "faq"
    ENCODED.clear()
    if request.param == "small":
        write_small(folder)
    elif not TRAINED.is_dir():
        pytest.skip("there is no checkpoints/faq, which `make demo` trains")
    else:
        shutil.copytree(TRAINED, folder)
    return reconfigure(folder, wording_weight=0.38, bm25_weight=0.02, bm25_language="english", calibration=FITS)


@pytest.fixture
def data(checkpoint: Path) -> Dataset:
    """The test questions: all for the trained checkpoint, every ninth one for the small one, which takes seconds."""
    data = read_with_wordings(FAQ, "test")
    return data if checkpoint.parent.name.startswith("trained") else replace(data, questions=data.questions[::9])


@pytest.fixture(autouse=True)
def texts_are_encoded_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the rule can make a difference, and not in which batch a text was encoded."""
    questions, answers = TextEncoder.encode_questions, TextEncoder.encode_answers

    def alone(texts: Sequence[Any], encode: Callable[[Any], States]) -> States:
        keys = [text if isinstance(text, str) else tuple(text) for text in texts]
        ENCODED.update({key: encode([text]) for key, text in zip(keys, texts, strict=True) if key not in ENCODED})
        return States.stack([ENCODED[key] for key in keys])

    def questions_alone(self: TextEncoder, texts: Sequence[str]) -> States:
        return alone(texts, partial(questions, self))

    def answers_alone(self: TextEncoder, tokens: Sequence[Sequence[int]]) -> States:
        return alone(tokens, partial(answers, self))

    monkeypatch.setattr(TextEncoder, "encode_questions", questions_alone)
    monkeypatch.setattr(TextEncoder, "encode_answers", answers_alone)


class Ranked(NamedTuple):
    """The ids of a question's candidates as they were fetched, and those of its answers, with their probabilities."""

    fetched: list[str]
    answers: dict[str, float]


Search = Callable[[str], Ranked]


def ids(documents: Iterable[Document]) -> list[str]:
    return [document.meta["aid"] for document in documents]


def ranked(fetched: Sequence[Document], answers: Sequence[Document]) -> Ranked:
    return Ranked(ids(fetched), {document.meta["aid"]: document.score or 0.0 for document in answers})


def behind_bm25(checkpoint: Path, top_k: int) -> Search:
    store = BM25SDocumentStore(documents=ANSWERS, language="english")
    retriever = BM25SRetriever(store, top_k=top_k, wordings=str(WORDINGS))
    ranker = AnswerRanker(model=checkpoint, device=CPU, top_k=ALL, fuse_scores=True, wordings=WORDINGS)

    def search(question: str) -> Ranked:
        fetched = retriever.run(question)["documents"]
        return ranked(fetched, ranker.run(query=question, documents=fetched)["documents"])

    return search


def faq_search(checkpoint: Path, candidates: int) -> Search:
    component = FAQSearch(model=checkpoint, documents=ANSWERS, candidates=candidates, wordings=WORDINGS, device=CPU)

    def search(question: str) -> Ranked:
        component.warm_up()
        fetched = component.retriever.run(query=question)["documents"]
        return ranked(fetched, component.run(query=question, top_k=ALL)["documents"])

    return search


def declared(checkpoint: Path, name: str, folder: Path, **retriever: int) -> Search:
    pipeline = yaml.safe_load((ROOT / "pipelines" / f"{name}.yaml").read_text())
    parts = settings_of(pipeline)
    parts["ranker"] |= {"model": str(checkpoint), "device": None}
    parts["retriever"] |= retriever
    if "model" in parts["retriever"]:
        parts["retriever"]["model"] = str(checkpoint)
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(pipeline))
    served = DeclaredPipeline.load(path)
    served.fill(read_faq(ANSWERS), Match.both)
    served.add_wordings([WORDINGS])
    fetching = served.pipeline.get_component("search").retriever

    def search(question: str) -> Ranked:
        return ranked(fetching.run(question)["documents"], served.run(question, top_k=ALL))

    return search


SEARCHES: dict[str, Callable[[Path, Path], Search]] = {
    "AnswerRanker behind BM25, 100": lambda checkpoint, _: behind_bm25(checkpoint, 100),
    "AnswerRanker behind BM25, all": lambda checkpoint, _: behind_bm25(checkpoint, 168),
    "faq_search.yaml": lambda checkpoint, folder: declared(checkpoint, "faq_search", folder),
    "faq_search_hybrid.yaml, all": lambda checkpoint, folder: declared(checkpoint, "faq_search_hybrid", folder),
    "faq_search_hybrid.yaml, 100": lambda c, folder: declared(c, "faq_search_hybrid", folder, rank_all=0, top_k=60),
    "FAQSearch": lambda checkpoint, _: faq_search(checkpoint, 100),
}


def assert_same(found: dict[str, float], expected: dict[str, float]) -> None:
    """The same probabilities, and the same order but for those that rounding may exchange."""
    assert found == pytest.approx(expected, abs=SAME, rel=0)
    if list(found) != list(expected):
        values = [expected[name] for name in found]
        assert min(np.diff(values[::-1]), default=0.0) >= -SAME


def evaluated(ranker: Ranker, data: Dataset, pools: Sequence[Sequence[str]]) -> list[dict[str, float]]:
    """The probabilities by which an evaluation ranks these candidates of each question, best first."""
    row_of = {answer.id: row for row, answer in enumerate(data.answers)}
    rows = [tuple(row_of[name] for name in pool) for pool in pools]
    asked = [replace(question, candidates=each) for question, each in zip(data.questions, rows, strict=True)]
    data, language = replace(data, questions=asked), ranker.bm25_language
    rankings = EvaluationSet(data, unanswerable=True, as_new=False, language=language).report(ranker).served
    found = []
    for pool, ranking in zip(pools, rankings, strict=True):
        assert ranking.probabilities is not None
        found.append({pool[place]: float(ranking.probabilities[place]) for place in ranking.order})
    return found


SLOW = ("AnswerRanker behind BM25, all", "faq_search_hybrid.yaml, 100")


@pytest.mark.parametrize("name", [pytest.param(each, marks=[pytest.mark.slow] * (each in SLOW)) for each in SEARCHES])
def test_served_is_what_is_measured(name: str, checkpoint: Path, data: Dataset, tmp_path: Path) -> None:
    """All test questions, also those without an answer: the same order and probabilities of the same candidates."""
    search = SEARCHES[name](checkpoint, tmp_path)
    answers = [search(question.text) for question in data.questions]
    ranker = Ranker.from_pretrained(checkpoint, "cpu", cache=EncodingCache(10**8))
    measured = evaluated(ranker, data, [each.fetched for each in answers])
    by_id = {answer.id: answer for answer in data.answers}
    bm25 = EvaluationSet(data, unanswerable=True, language="english").bm25_scores
    row_of = {answer.id: row for row, answer in enumerate(data.answers)}
    for number, (question, each) in enumerate(zip(data.questions, answers, strict=True)):
        assert_same(each.answers, measured[number])
        one = ranker.rank(
            question.text,
            [by_id[name].text for name in each.fetched],
            wordings=[by_id[name].wordings for name in each.fetched],
            bm25_scores=[bm25[number][row_of[name]] for name in each.fetched],
            scale_score=True,
        )
        assert_same({each.fetched[answer.index]: answer.score for answer in one}, each.answers)
    if name == "faq_search_hybrid.yaml, all":
        assert {len(each.fetched) for each in answers} == {168}


def test_evaluate_reports_what_is_served(checkpoint: Path, data: Dataset) -> None:
    """Also a question that is a known wording, word for word: the first training question."""
    known = read_with_wordings(FAQ, "train").questions[0]
    some = replace(data, questions=[*data.questions[:40], known])
    report = evaluate(checkpoint, some, device="cpu")
    ranker = Ranker.from_pretrained(checkpoint, "cpu", cache=EncodingCache(0))
    expected = evaluated(ranker, some, [[answer.id for answer in data.answers]] * 41)
    by_text = {question.text: each for question, each in zip(some.questions, expected, strict=True)}
    for question, ranking in zip(some.answerable, report.served, strict=True):
        assert [data.answers[row].id for row in ranking.order] == list(by_text[question.text])
    assert report.n_known == 1
    assert report.served[-1].order[0] == known.positives[0]


# --- copies -----------------------------------------------------------------------------------------------------------


def test_a_copy_silences_nothing(checkpoint: Path, data: Dataset) -> None:
    """Every answer that precision .9 returns first stays, with its probability, when its document is there again."""
    ranker = AnswerRanker(model=checkpoint, device=CPU, top_k=1, wordings=WORDINGS)
    documents = [to_document(entry, Match.both) for entry in read_faq(ANSWERS)]
    lost, answered = [], 0
    copies: list[Callable[[Document], list[Document]]] = [
        lambda one: [again(one, one.content or "")],
        lambda one: [again(one, (one.content or "").upper())],
        lambda one: [again(one, (one.content or "").replace(" ", "  ").replace(".", "!"))],
        lambda one: [again(one, (one.content or "").replace(" the ", " our ", 1))],
        lambda one: [again(one, one.content or "", number=n) for n in range(3)],
        lambda one: [again(one, one.content or "", wordings=[*wordings_in_meta(one), "something else"])],
    ]
    for question in data.questions[:: 7 if checkpoint.parent.name.startswith("trained") else 3]:
        [best, *_] = ranker.run(query=question.text, documents=documents, top_k=1)["documents"]
        assert best.score is not None
        answered += best.score >= 0.67
        original = next(document for document in documents if document.id == best.id)
        for number, copied in enumerate(copies):
            for more in ([*copied(original), *documents], [*documents, *copied(original)]):
                [found] = ranker.run(query=question.text, documents=more)["documents"]
                assert found.score is not None
                # A copy whose text differs may itself score a little higher, and then it is the answer.
                lost += [(question.text, number, best.score, found.score)] if found.score < best.score - SAME else []
    assert not lost
    assert answered >= (30 if checkpoint.parent.name.startswith("trained") else 0)


def again(document: Document, content: str, **meta: object) -> Document:
    """A copy with another id, and other meta."""
    return Document(content=content, meta={**document.meta, "source": "second import", "aid": "copy", **meta})


def test_another_answer_to_the_same_question_is_no_copy(checkpoint: Path) -> None:
    question = "May I bring my bike back to the shop after I have ridden it for some weeks in the city?"
    yes, no = (Document(content=f"{question}\n{a}", meta={"question": question, "answer": a}) for a in ("Yes.", "No."))
    other = Document(content="We open at nine.", meta={"answer": "We open at nine."})
    ranker = AnswerRanker(model=checkpoint, device=CPU)

    def probability(documents: list[Document]) -> float:
        asked = "can a used bike be returned"
        assert question_key(asked) != question_key(question)
        return float(ranker.run(query=asked, documents=documents)["documents"][0].score or 0.0)

    alone = probability([yes, other])
    assert probability([yes, again(yes, yes.content or ""), other]) == pytest.approx(alone, abs=SAME)
    assert probability([yes, no, other]) < alone - 0.01


def test_files_of_wordings_are_read_as_in_an_evaluation() -> None:
    """Else the searches above would differ by their data."""
    files = WordingFiles().now([str(WORDINGS)])
    for answer in read_with_wordings(FAQ, "test").answers:
        assert set(answer.wordings[1:]) == set(files.of(answer.id)) - {answer.wordings[0]}
