"""Evaluates a search as it is served: what its retriever does not fetch, its ranker cannot put on top."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ap_ranker.data.dataset import Dataset, answerable
from ap_ranker.data.faq import Match
from ap_ranker.data.reader import find_answers
from ap_ranker.documents import read_entries
from ap_ranker.errors import InputError
from ap_ranker.evaluation.metrics import means, measure_each
from ap_ranker.ranking.wordings import is_exact_match
from ap_ranker.search.declared_pipeline import NO_THRESHOLD, DeclaredPipeline
from ap_ranker.search.load_pipeline import report_store_errors
from ap_ranker.text.keys import normalized
from haystack_integrations.document_stores.ap_ranker.entries import own_wordings

if TYPE_CHECKING:
    from haystack import Document

    from haystack_integrations.components.rankers.ap_ranker import AnswerRanker

ALL = 10**6
"""As `top_k`: every document that was fetched."""


@dataclass(frozen=True)
class PipelineReport:
    """The result of evaluating a pipeline.

    Attributes:
        pipeline: its file.
        measures: measure -> mean over the questions, of all documents that the pipeline ranks; a right answer that is
            not fetched counts as a miss.
        new: the same over the new questions; `None` if all are new, or none is.
        recall: share of the questions for which a right answer was fetched.
        fetched: mean number of documents that were fetched.
    """

    pipeline: str
    measures: dict[str, float]
    new: dict[str, float] | None
    recall: float
    fetched: float

    def as_json(self) -> dict[str, Any]:
        """The report as basic types."""
        return asdict(self)


def evaluate_pipeline(
    path: Path,
    dataset: Dataset,
    *,
    checkpoint: str,
    faq: Path | None = None,
    columns: tuple[str, str] | None = None,
    match: Match,
    wordings: Sequence[Path] = (),
    known: np.ndarray | None = None,
) -> PipelineReport:
    """Put the answerable questions of a data set to the pipeline of a YAML file.

    The pipeline's own `top_k`, `precision` and `score_threshold` are left aside: everything that it fetches is ranked.

    Args:
        path: the YAML file.
        dataset: questions and answers; a document is recognized among the answers by its text.
        checkpoint: the one that the pipeline's ranker has to have.
        faq: a file to write into the pipeline's stores; by default the file of the data set's answers, if there is
            one; otherwise the stores are searched as they are.
        columns: its columns of questions and answers; by default they are recognized.
        match: the text of an entry that is matched with the question.
        wordings: files of questions that are known to ask for an entry.
        known: (Q,) which questions are not new; neither are those that the pipeline knows word for word.

    Raises:
        InputError: the pipeline cannot be run, ranks with another checkpoint, or has none of the answers; or the
            candidates of the data set were judged one by one.
    """
    questions = answerable(dataset)
    if dataset.judged:
        raise InputError(
            f"{dataset.name}: expected questions about the entries of a FAQ, found candidates judged for each "
            "question: a search finds others, whose labels are unknown. Leave out --pipeline."
        )
    search = DeclaredPipeline.load(path)
    ranker = search.ranker()
    if ranker is not None and Path(ranker.model).resolve() != Path(checkpoint).resolve():
        raise InputError(
            f"{path}: expected a pipeline that ranks with {checkpoint}, the checkpoint to evaluate, found one that "
            f"ranks with {ranker.model}. Name that checkpoint, or change the file's model."
        )
    search.add_wordings(wordings)
    ids_of: defaultdict[str, list[str]] = defaultdict(list)
    for answer in dataset.answers:
        ids_of[normalized(answer.text)].append(answer.id)
    if faq is None and not dataset.own_answers:
        faq = find_answers(Path(dataset.name))
    answers = {answer.id for answer in dataset.answers}
    found: list[tuple[np.ndarray, np.ndarray, int]] = []
    is_known: list[bool] = []
    is_one_of_ours = False
    with report_store_errors(path, search.place):
        search.fill(None if faq is None else read_entries(faq, columns), match)
        for question in questions:
            # All that is fetched; of a foreign ranker, what it returns.
            documents = search.run(question.text) if ranker is None else search.run(question.text, NO_THRESHOLD, ALL)
            right = {dataset.answers[row].id for row in question.positives}
            ids, exact = _ids(documents, ids_of, right), _exact_matches(ranker, question.text, documents)
            hits = np.array([name in right for name in ids], dtype=bool)
            found.append((-_levels(documents, exact), hits, len(right)))
            is_known.append(any(exact))
            is_one_of_ours |= not answers.isdisjoint(ids)
    if not is_one_of_ours:
        raise InputError(
            f"{path}: expected documents among the answers of {dataset.name}, found none. Does its store hold this "
            "FAQ? Name the file with --answers."
        )
    each = measure_each(found)
    is_new = ~np.array(is_known) if known is None else ~(np.array(is_known) | known)
    new = None
    if 0 < is_new.sum() < len(is_new):
        new = means({name: values[is_new] for name, values in each.items()})
    return PipelineReport(
        str(path),
        means(each),
        new,
        float(np.mean([hits.any() for _, hits, _ in found])),
        float(np.mean([len(hits) for _, hits, _ in found])),
    )


def _exact_matches(ranker: AnswerRanker | None, question: str, documents: list[Document]) -> list[bool]:
    """Whether the question is a known wording of each document, word for word."""
    if ranker is not None:
        return ranker.exact_matches(question, documents)
    return is_exact_match(question, [list(own_wordings(document)) for document in documents])


def _levels(documents: Sequence[Document], exact: Sequence[bool]) -> np.ndarray:
    """(N,) levels of documents in order: those with equal scores share one, word-for-word answers are above others."""
    keys = [(document.score, known) for document, known in zip(documents, exact, strict=True)]
    falls = [one != other or one[0] is None for one, other in pairwise(keys)]
    return np.cumsum([0, *falls])[: len(keys)]


def _ids(documents: Sequence[Document], ids_of: Mapping[str, Sequence[str]], right: Container[str]) -> list[str]:
    """The ids of the answers that documents are, in order: of equal answers first the right ones, none twice."""
    ids: dict[str, None] = {}
    for rank, document in enumerate(documents):
        of_text = next((ids_of[form] for form in _forms(document) if form in ids_of), ())
        left = sorted((name for name in of_text if name not in ids), key=lambda name: name not in right)
        ids[left[0] if left else f"document {rank}"] = None
    return list(ids)


def _forms(document: Document) -> Iterator[str]:
    """The texts by which a document is known among the answers."""
    question, answer = (str(document.meta.get(name) or "") for name in ("question", "answer"))
    for text in (document.content or "", f"{question} {answer}", answer):
        if text.strip():
            yield normalized(text)
