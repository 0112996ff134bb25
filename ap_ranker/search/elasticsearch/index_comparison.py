"""Asks questions of the search in a new index, as it is served, and compares it with the search in the one before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ap_ranker.data.dataset import Dataset, Question, answerable
from ap_ranker.errors import InputError
from ap_ranker.evaluation.evaluate import near_known_wordings
from ap_ranker.ranking.checkpoint import is_checkpoint
from ap_ranker.ranking.earlier_checkpoints import earlier_checkpoints
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.search.elasticsearch.index_changes import IndexComparison
from ap_ranker.search.evaluate_pipeline import ALL
from ap_ranker.search.recognized_answers import RecognizedAnswers
from ap_ranker.text.near_copies import near_groups
from ap_ranker.training.recommendation import Served, verdict
from ap_ranker.training.search_before import SearchBefore
from haystack_integrations.components.retrievers.ap_ranker import ElasticsearchFAQRetriever

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class _IndexedSearch:
    """A pipeline, and the retriever of it that searches the index of its checkpoint."""

    pipeline: DeclaredPipeline
    retriever: ElasticsearchFAQRetriever

    @classmethod
    def load(cls, path: Path, checkpoint: Path | None = None) -> _IndexedSearch:
        """That of a file, with its own checkpoint or another; InputError if it searches no index of a checkpoint."""
        pipeline = DeclaredPipeline.load(path, None if checkpoint is None else str(checkpoint))
        retriever = pipeline.index_retriever()
        if retriever is None:
            raise InputError(
                f"{path}: expected an ElasticsearchFAQRetriever, whose index --test asks, found none. Leave --test "
                "out, and evaluate the search afterwards: ap-ranker evaluate CHECKPOINT FILE --pipeline FILE.yaml"
            )
        retriever.takes_unfinished = True
        return cls(pipeline, retriever)

    @property
    def learnt(self) -> SearchBefore:
        """What the checkpoint has learnt from."""
        return SearchBefore.of(self.retriever.loaded())

    def served(self, questions: Sequence[Question], answers: RecognizedAnswers, on_progress: Progress) -> Served:
        """What it gives the questions."""
        self.pipeline.prepare()
        self.pipeline.encode_ahead([question.text for question in questions])
        outcomes = []
        for place, question in enumerate(questions):
            on_progress(place, len(questions))
            documents, decision = self.pipeline.answer(question.text, top_k=ALL)
            outcomes.append((decision.outcome, answers.right(documents, question).tolist()))
        return Served.of_shown(outcomes)


class IndexTest:
    """Questions that a new index is asked before the FAQ's name means it."""

    def __init__(self, path: Path, dataset: Dataset, on_progress: Progress = lambda done, total: None) -> None:
        """Of a data set with the same FAQ. InputError if the pipeline's file searches no index of a checkpoint."""
        dataset.require_shared_answers("Leave out --test.")
        self._path = path
        self._dataset = dataset
        self._on_progress = on_progress
        self._new = _IndexedSearch.load(path)

    def compare(self, index: str, before: str | None, notes: Mapping[str, Any]) -> IndexComparison:
        """
        Ask a new index, and the one that the FAQ's name means, of which these are the notes, if it is another one.

        InputError if the new one has no answer of the data set.
        """
        if before is None:
            reason = "no index was searched before"
        elif before == index:
            reason = "the index that is searched is the checkpoint's own"
        else:
            earlier = self._earlier(before, notes)
            comparison = None if earlier is None else self._compared_with(earlier, before)
            if comparison is not None:
                return comparison
            reason = f"no question is new to both its checkpoint and that of {before}"
            if earlier is None:
                reason = f"the checkpoint of {before} ({notes.get('checkpoint', 'unknown')}) is not there"
        asked = self._new_to(self._new)
        served = self._asked(self._new, asked)
        if not asked:
            return IndexComparison(0, 0.0, 0.0, reason=reason)
        mrr = float(served.reciprocal_rank.mean())
        utility = float(served.utility.mean())
        return IndexComparison(len(asked), mrr, utility, reason=reason)

    def _compared_with(self, earlier: _IndexedSearch, name: str) -> IndexComparison | None:
        """`None` if no question is new to both."""
        asked = self._new_to(self._new, earlier)
        if not asked:
            return None
        comparison = verdict(
            self._asked(earlier, asked),
            self._asked(self._new, asked),
            near_groups([question.text for question in asked]).tolist(),
            name,
            learnt=self._new.learnt.learnt,
            learnt_before=earlier.learnt.learnt,
        )
        return IndexComparison(len(asked), comparison.mrr_after, comparison.utility_after, comparison)

    def _new_to(self, *searches: _IndexedSearch) -> list[Question]:
        """The answerable questions that are new to all of the searches, and no near copies of known wordings."""
        questions = answerable(self._dataset)
        texts = [question.text for question in questions]
        is_new = ~near_known_wordings(self._dataset, texts)
        for search in searches:
            is_new &= search.learnt.new_to_it(texts)
        return [questions[row] for row in np.flatnonzero(is_new).tolist()]

    def _asked(self, search: _IndexedSearch, questions: Sequence[Question]) -> Served:
        answers = RecognizedAnswers(self._dataset)
        served = search.served(questions, answers, self._on_progress)
        if questions and not answers.found_any:
            raise InputError(
                f"{self._dataset.name}: expected questions about the entries of {search.retriever.index!r}, found none "
                "of their answers there. Name questions of this FAQ with --test."
            )
        return served

    def _earlier(self, index: str, notes: Mapping[str, Any]) -> _IndexedSearch | None:
        """The search in an index with the checkpoint that made it; `None` if that is nowhere."""
        for folder in _folders(notes.get("checkpoint"), self._new.retriever.model):
            search = _IndexedSearch.load(self._path, folder)
            if search.retriever.index == index:
                return search
        return None


def _folders(*checkpoints: str | None) -> Iterator[Path]:
    """Folders of checkpoints, and of those that were there before, the latest first."""
    for name in dict.fromkeys(filter(None, checkpoints)):
        current = Path(name)
        for folder in (current, *reversed(earlier_checkpoints(current))):
            if is_checkpoint(folder):
                yield folder
