"""Keeps how each epoch of a run scores the dev questions, so that each part has an epoch that the others choose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from ap_ranker.evaluation.dev_choice import Epoch
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.scoring import CandidateScores
from ap_ranker.files import atomic_file
from ap_ranker.processes import process_number
from ap_ranker.training.resume_folder import DEV_SCORES

MOST_BYTES = 256 * 10**6
"""Of the scores of all epochs: beyond that, those with the lowest MRR go. An epoch of 500 questions with 1,000
candidates each has 12 MB."""

LISTS = ("by_question", "cosines", "wordings")
"""The fields of `CandidateScores` with an array for each question."""

SECONDS = "seconds"
BYTES = "bytes_per_answer"


class EpochScores:
    """The epochs of a run by their last step: in memory and, for a run that is interrupted, in files of its folder."""

    def __init__(self, evaluation_set: EvaluationSet, folder: Path) -> None:
        self.evaluation_set = evaluation_set
        self.folder = folder
        self._epochs: dict[int, Epoch] = {}

    def add(self, step: int, epoch: Epoch) -> None:
        """Keep an epoch, and drop the worst ones if that are too many."""
        self._epochs[step] = epoch
        if process_number() == 0:
            with atomic_file(self._file(step)) as draft:
                save_file(arrays_of(epoch.scores), draft)
        while len(self._epochs) > 2 and sum(map(_size, self._epochs.values())) > MOST_BYTES:
            worst = min(self._epochs, key=lambda number: self._epochs[number].mrr())
            del self._epochs[worst]
            if process_number() == 0:
                self._file(worst).unlink(missing_ok=True)

    def load(self, last_step: int, steps_of_epoch: int) -> None:
        """Read the epochs of a run that goes on after this step; what was kept later is made again."""
        for file in self.folder.glob(f"{DEV_SCORES}*"):
            step = int(file.stem.rpartition("-")[2])
            if step <= last_step:
                scores = scores_of(load_file(file), [len(pool) for pool in self.evaluation_set.pools])
                self._epochs[step] = Epoch(round(step / steps_of_epoch), self.evaluation_set, scores)

    def of_step(self, step: int) -> Epoch | None:
        """The epoch that ends with a step; `None` if it was not kept."""
        return self._epochs.get(step)

    @property
    def epochs(self) -> list[Epoch]:
        """All that are kept, in their order."""
        return [self._epochs[step] for step in sorted(self._epochs)]

    def _file(self, step: int) -> Path:
        return self.folder / f"{DEV_SCORES}{step}.safetensors"


def arrays_of(scores: CandidateScores) -> dict[str, np.ndarray]:
    """The scores as arrays by name, those of all questions in one."""
    lists = {name: getattr(scores, name) for name in LISTS}
    arrays = {name: np.concatenate(values) for name, values in lists.items() if values is not None}
    arrays[SECONDS] = np.array([scores.encode_seconds, scores.question_seconds])
    arrays[BYTES] = np.array([scores.bytes_per_answer])
    return arrays


def scores_of(arrays: Mapping[str, np.ndarray], sizes: Sequence[int]) -> CandidateScores:
    """The scores of such arrays, given the number of candidates of each question."""
    ends = np.cumsum(sizes)[:-1]
    lists = {name: np.split(arrays[name], ends) for name in LISTS if name in arrays}
    encode_seconds, question_seconds = arrays[SECONDS].tolist()
    return CandidateScores(
        lists["by_question"],
        encode_seconds,
        question_seconds,
        float(arrays[BYTES][0]),
        cosines=lists.get("cosines"),
        wordings=lists.get("wordings"),
    )


def _size(epoch: Epoch) -> int:
    total = 0
    for name in LISTS:
        total += sum(values.nbytes for values in getattr(epoch.scores, name) or ())
    return total
