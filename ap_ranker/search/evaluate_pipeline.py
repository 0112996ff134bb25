"""Evaluates a search as it is served: what its retriever does not fetch, its ranker cannot put on top."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from haystack import Document

from ap_ranker.data.dataset import Dataset, answerable
from ap_ranker.data.faq import Match
from ap_ranker.data.reader import find_answers
from ap_ranker.documents import read_entries
from ap_ranker.errors import InputError
from ap_ranker.evaluation.metrics import means, measure_each
from ap_ranker.evaluation.question_kinds import AS_ASKED, COPIES, NEW
from ap_ranker.progress import Progress, untold
from ap_ranker.ranking.wordings import is_exact_match
from ap_ranker.search.declared_pipeline import NO_THRESHOLD, DeclaredPipeline
from ap_ranker.search.load_pipeline import report_store_errors
from ap_ranker.search.recognized_answers import RecognizedAnswers
from haystack_integrations.common.ap_ranker.entries import wordings_in_meta

ALL = 10**6  # as `top_k`: every document that was fetched


@dataclass(frozen=True)
class PipelineReport:
    """The means of measures over the questions that a pipeline was asked.

    `measures` are over all of them, `new` over those that are new alone, `near_copies` over near copies of what the
    search has seen; the latter two are `None` if all are new or none is. `recall` is the share of questions for which a
    right answer was fetched, and `fetched` the mean number of documents that were.
    """

    pipeline: str
    measures: dict[str, float]
    new: dict[str, float] | None
    recall: float
    fetched: float
    near_copies: dict[str, float] | None = None

    def means_of(self, kind: str) -> dict[str, float] | None:
        """The means over the questions of a kind, as an `EvaluationReport` has them."""
        return {AS_ASKED: self.measures, NEW: self.new, COPIES: self.near_copies}[kind]


def evaluate_pipeline(
    path: Path,
    dataset: Dataset,
    *,
    checkpoint: str,
    faq: Path | None = None,
    columns: tuple[str, str] | None = None,
    match: Match,
    wordings: Sequence[Path] = (),
    near: np.ndarray | None = None,
    on_progress: Progress = untold,
) -> PipelineReport:
    """Put the answerable questions of a data set to the pipeline of a YAML file.

    Its own `top_k`, `precision` and `score_threshold` are left aside: everything that it fetches is ranked.
    A document is recognized among the answers of the data set by its text. `faq` is a file to write into the stores; by
    default it is that of the data set's answers, if there is one; otherwise the stores are searched as they are.
    `near` (Q,) are the questions that are not new; neither are those that the pipeline knows word for word. The other
    arguments are those of `set_up`, and `checkpoint` the one that the pipeline's ranker has to have. InputError if the
    pipeline cannot be run, ranks with another, or has none of the answers; or if candidates were judged one by one.
    `on_progress` gets the step in words, how many answers are read or questions asked, and their number.
    """
    questions = answerable(dataset)
    dataset.require_shared_answers("Leave out --pipeline.")
    search = DeclaredPipeline.load(path)
    ranker = search.ranker()
    if ranker is not None and Path(ranker.model).resolve() != Path(checkpoint).resolve():
        raise InputError(
            f"{path}: expected a pipeline that ranks with {checkpoint}, found one that ranks with {ranker.model}. "
            "Name that checkpoint, or change the file's model."
        )
    search.add_wordings(wordings)
    answers = RecognizedAnswers(dataset)
    if faq is None and not dataset.own_answers:
        faq = find_answers(Path(dataset.name))
    rankings: list[tuple[np.ndarray, np.ndarray, int]] = []
    is_known: list[bool] = []
    with report_store_errors(path, search.place):
        entries = None if faq is None else read_entries(faq, columns, on_progress)
        search.fill(entries, match)
        search.prepare(on_progress)
        for n_asked, question in enumerate(questions):
            on_progress("asking the pipeline", n_asked, len(questions))
            if ranker is None:  # what a foreign ranker returns
                documents = search.run(question.text)
                exact = is_exact_match(question.text, [wordings_in_meta(document) for document in documents])
            else:  # all that is fetched
                documents = search.run(question.text, NO_THRESHOLD, ALL)
                exact = ranker.exact_matches(question.text, documents)
            hits = answers.right(documents, question)
            rankings.append((-_levels(documents, exact), hits, len(question.positives)))
            is_known.append(any(exact))
    on_progress("asking the pipeline", len(questions), len(questions))
    if not answers.found_any:
        raise InputError(
            f"{path}: expected documents among the answers of {dataset.name}, found none. Name the FAQ with --answers."
        )
    measures = measure_each(rankings)
    is_new = ~np.array(is_known)
    if near is not None:
        is_new &= ~near
    new = copies = None
    if 0 < is_new.sum() < len(is_new):
        new = _means_of(measures, is_new)
        copies = _means_of(measures, ~is_new)
    recall = float(np.mean([hits.any() for _, hits, _ in rankings]))
    fetched = float(np.mean([len(hits) for _, hits, _ in rankings]))
    return PipelineReport(str(path), means(measures), new=new, recall=recall, fetched=fetched, near_copies=copies)


def _means_of(values: Mapping[str, np.ndarray], rows: np.ndarray) -> dict[str, float]:
    """The means of some questions; measure -> (Q,) values of all."""
    return means({name: of_all[rows] for name, of_all in values.items()})


def _levels(documents: Sequence[Document], exact: Sequence[bool]) -> np.ndarray:
    """(N,) levels of documents in order: those with equal scores share one, word-for-word answers are above others."""
    scores = [document.score for document in documents]
    keys = list(zip(scores, exact, strict=True))
    is_below: list[bool] = []
    for (score, is_exact), below in pairwise(keys):
        is_below.append(score is None or (score, is_exact) != below)
    return np.cumsum([0, *is_below])[: len(keys)]
