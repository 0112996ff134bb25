"""How each data set is read and measured, as the papers do."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from ap_ranker.cli.console import describe
from ap_ranker.data.dataset import Dataset, Question
from ap_ranker.data.faq import Match
from ap_ranker.data.reader import read_dataset
from ap_ranker.data.tables import is_table
from ap_ranker.errors import InputError


@dataclass(frozen=True)
class Protocol:
    """What differs between the data sets.

    Attributes:
        title: of the table.
        measures: what papers report of it, the most telling first.
        train: the name of the training file, without its ending.
        clean: questions whose candidates are all right are left out of dev and test.
        end_to_end: measured a second time on what BM25 fetches from all answers.
        all_questions: the official scorer's means are over all questions; one without a right answer counts 0.
    """

    title: str
    measures: tuple[str, str] = ("MAP", "MRR")
    train: str = "train"
    clean: bool = False
    end_to_end: bool = False
    all_questions: bool = False


PROTOCOLS = {
    "insuranceqa": Protocol("InsuranceQA V2, pools of 500 answers", ("P@1", "MRR"), end_to_end=True),
    "wikiqa": Protocol("WikiQA"),
    "trecqa": Protocol("TREC-QA, clean", train="train-all", clean=True),
    "semeval": Protocol("SemEval-2016 Task 3, subtask A", all_questions=True),
}
"""By the name of the folder that holds the configurations; tables stand in this order."""


@dataclass(frozen=True)
class Parts:
    """The data of a run.

    Attributes:
        training: to learn from.
        dev: chooses the epoch.
        test: what the table is about.
        search: the test questions without pools, where the protocol measures end to end.
    """

    training: Dataset
    dev: Dataset
    test: Dataset
    search: Dataset | None

    def describe(self) -> None:
        """Print what was read."""
        for title, part in (("Training data", self.training), ("Dev data", self.dev), ("Test data", self.test)):
            describe({title: part})


def read_parts(name: str, folder: Path, match: Match, *, train: str | None = None) -> Parts:
    """Read a data set as its protocol says.

    Args:
        name: a key of `PROTOCOLS`.
        folder: holds the files of training, dev and test.
        match: which text of a stored question and its answer is matched.
        train: the name of another training file than the protocol's, without its ending.

    Raises:
        InputError: a file is missing, or cannot be used.
    """
    protocol = PROTOCOLS[name]
    stem = train or protocol.train
    if not folder.is_dir():
        raise InputError(f"{folder}: expected a folder with {stem}.*, dev.* or valid.*, and test.*.")
    training = next((file for file in sorted(folder.glob(f"{stem}.*")) if is_table(file)), None)
    if training is None:
        present = ", ".join(sorted(file.name for file in folder.iterdir())) or "nothing"
        raise InputError(f"{folder}: expected a file {stem}.* to learn from, found {present}.")
    sources = ((training, "train"), (folder, "dev"), (folder, "test"))
    parts = [read_dataset(source, split, match=match) for source, split in sources]
    # Without the folder's own path, a run can be carried to another machine and goes on there.
    learnt, dev, test = (replace(part, name=f"{name}/{Path(part.name).name}") for part in parts)
    if protocol.clean:
        dev, test = clean(dev), clean(test)
    return Parts(learnt, dev, test, without_pools(test) if protocol.end_to_end else None)


def clean(data: Dataset) -> Dataset:
    """Leave out the questions whose candidates are all right, which every order ranks correctly.

    The answerable questions that remain are the "clean" ones of TREC-QA (Rao, He & Lin 2016). All answers stay, so that
    BM25's statistics do not change; `notes` has the number of questions left out.
    """

    def is_clean(question: Question) -> bool:
        candidates = range(len(data.answers)) if question.candidates is None else question.candidates
        return not question.positives or not set(question.positives).issuperset(candidates)

    kept = list(filter(is_clean, data.questions))
    left_out = {"questions whose candidates are all right left out": len(data.questions) - len(kept)}
    return replace(data, questions=kept, notes=data.notes + Counter(left_out))


def without_pools(data: Dataset) -> Dataset:
    """Ignore the data's pools: all answers are candidates, as in a search."""
    return replace(data, questions=[replace(question, candidates=None) for question in data.questions])
