"""Measures the searches that an owner has on the way: untrained, with wordings, trained, calibrated, each as served.

Every search is set up in a folder of its own, which holds the owner's table, as `ap-ranker serve FAQ.csv` does there.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from public_faqs import PublicFaq

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.data.faq import DEFAULT_MATCH, have_questions, read_faq
from ap_ranker.errors import InputError
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.models.pretrained import DEFAULT_ENCODER, find_encoder
from ap_ranker.ranking.checkpoint import is_checkpoint, read_checkpoint_config
from ap_ranker.search.declared_pipeline import DeclaredPipeline, Limits
from ap_ranker.search.setup import SearchSetup, set_up
from ap_ranker.training.calibrate import calibrate
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.peers import BiEncoder
from ap_ranker.training.train import train
from ap_ranker.training.training_data import read_training_data
from ap_ranker.training.untrained import write_untrained

UNTRAINED, WORDINGS, TRAINED, CALIBRATED = "untrained", "wordings", "trained", "calibrated"
STATES = (UNTRAINED, WORDINGS, TRAINED, CALIBRATED)
BM25, BI_ENCODER = "BM25", "bi-encoder"
BASELINES = (BM25, BI_ENCODER)

FAQ = Path("FAQ.csv")
TRAINED_CHECKPOINT, CALIBRATED_CHECKPOINT = Path("trained"), Path("calibrated")
HIGHER = 0.9
"""The target precision beside the default one."""

RANKED = 10
"""Number of answers that are asked for: a right one below counts as not found."""


@dataclass(frozen=True)
class Cell:
    """A search of a FAQ with so many training questions, in one state; `quick` is of its training."""

    faq: str
    size: int
    state: str
    hubs: bool
    encoder: str
    quick: bool = False


@dataclass(frozen=True)
class Measured:
    """What a search does with each test question, and with each question about another matter.

    Attributes:
        cell: which search.
        ranks: the rank of the first right answer, 0 if none was found, for each test question.
        outcomes: what is shown for each by default, as an `Outcome`.
        outcomes_higher: the same with the target precision .9; empty if the search refuses that.
        other: what is shown by default for each question about other matters.
        other_higher: the same with .9.
        recommended: what the training says of its own checkpoint; `None` if it says nothing.
        refused: why there is no such search, in the words of the command; the one before it is measured then.
        seconds: of processor time for this state, with its training.
    """

    cell: Cell
    ranks: Sequence[int]
    outcomes: Sequence[str] = ()
    outcomes_higher: Sequence[str] = ()
    other: Sequence[str] = ()
    other_higher: Sequence[str] = ()
    recommended: bool | None = None
    refused: str = ""
    seconds: float = 0.0

    def as_line(self) -> str:
        """A line of JSON."""
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def of_line(cls, line: str) -> Measured:
        """From a line of JSON."""
        fields = json.loads(line)
        return cls(**{**fields, "cell": Cell(**fields["cell"])})


@dataclass(frozen=True)
class Way:
    """An owner's way with one table, and what to measure on it.

    With `hubs`, entries that are near to everything are put into the table after the training. Trained checkpoints are
    kept in the folder `checkpoints`, and one that is there is not trained again.
    """

    faq: PublicFaq
    size: int
    hubs: bool
    encoder: str
    states: Sequence[str]
    quick: bool
    checkpoints: Path

    @property
    def served_faq(self) -> PublicFaq:
        """The FAQ that is searched."""
        return self.faq.with_hubs() if self.hubs else self.faq

    def measure(self) -> Iterator[Measured]:
        """The states that are wanted, each in a working directory of its own, in which the owner's table lies."""
        torch.set_num_threads(1)
        if UNTRAINED in self.states:
            with self.working_directory(0):
                yield self.asked(UNTRAINED)
        if WORDINGS in self.states:
            with self.working_directory(self.size):
                yield self.asked(WORDINGS)
        if {TRAINED, CALIBRATED} & set(self.states):
            with self.working_directory(self.size):
                yield from self.trained()
        if set(BASELINES) & set(self.states):
            with self.working_directory(self.size):
                yield from self.baselines()

    @contextmanager
    def working_directory(self, size: int) -> Iterator[None]:
        """A new one, with the table of so many training questions."""
        with TemporaryDirectory(prefix="every-step-") as folder, chdir(folder):
            FAQ.write_text(self.served_faq.table(size), encoding="utf-8")
            yield

    def trained(self) -> Iterator[Measured]:
        """The trained checkpoint, named by its path, and what is served after `calibrate`."""
        started = time.process_time()
        recommended = None
        refused = ""
        try:
            self.train()
            verdict = read_checkpoint_config(TRAINED_CHECKPOINT).verdict
            recommended = None if verdict is None else verdict.recommended
        except InputError as error:
            refused = str(error)
        is_taken = not refused and recommended is not False
        if TRAINED in self.states:
            measured = self.asked(TRAINED, None if refused else TRAINED_CHECKPOINT, started)
            yield replace(measured, recommended=recommended, refused=refused)
        if CALIBRATED in self.states:
            started = time.process_time()
            refused = self.calibrate(is_trained=is_taken)
            measured = self.asked(CALIBRATED, CALIBRATED_CHECKPOINT, started)
            yield replace(measured, recommended=recommended, refused=refused)

    def train(self) -> None:
        """As `ap-ranker train FAQ.csv`, but into a folder that no search takes by itself; or take what is kept."""
        name = f"{self.faq.name}-{self.size}-{Path(self.encoder).name}"
        if self.quick:
            name += "-quick"
        checkpoint = self.checkpoints / name
        if not is_checkpoint(checkpoint):
            config = TrainingConfig(effort="quick" if self.quick else "auto")
            if self.encoder != DEFAULT_ENCODER:
                config = replace(config, options={**config.options, "encoder": self.encoder})
            plain = Path("plain") / FAQ
            plain.parent.mkdir()
            plain.write_text(self.faq.table(self.size), encoding="utf-8")
            with chdir(plain.parent):  # so that the checkpoint calls its FAQ by the name that it has in the search
                training, development = read_training_data(FAQ, None, None, config)
                train(training, development, checkpoint, config, device="cpu")
        shutil.copytree(checkpoint, TRAINED_CHECKPOINT)

    def calibrate(self, *, is_trained: bool) -> str:
        """Calibrate a copy of the checkpoint that is served, and return why not if `calibrate` refuses.

        A trained one is calibrated with the questions that its training has set aside, an untrained one with wordings.
        """
        if is_trained:
            shutil.copytree(TRAINED_CHECKPOINT, CALIBRATED_CHECKPOINT)
        else:
            with self.search() as setup:
                shutil.copytree(str(setup.checkpoint), CALIBRATED_CHECKPOINT)
        try:
            calibrate(CALIBRATED_CHECKPOINT, answers=None if is_trained else FAQ, device="cpu")
        except InputError as error:
            return str(error)
        return ""

    @contextmanager
    def search(self, checkpoint: Path | None = None) -> Iterator[SearchSetup]:
        """What `serve FAQ.csv` runs: with a checkpoint by its path, or without any, as on the first day."""
        if checkpoint is None and self.encoder != DEFAULT_ENCODER:
            checkpoint = self.encoder_alone()
        with set_up(FAQ, model=None if checkpoint is None else str(checkpoint)) as setup:
            yield setup

    def encoder_alone(self) -> Path:
        """The checkpoint of another encoder, as `ap-ranker init` writes it."""
        folder = Path("encoder")
        if not folder.exists():
            entries = read_faq(FAQ)
            write_untrained(
                folder,
                [entry.text(DEFAULT_MATCH) for entry in entries],
                stored=have_questions(entries),
                options={"encoder": self.encoder},
                wordings=[entry.questions for entry in entries],
            )
        return folder

    def asked(self, state: str, checkpoint: Path | None = None, started: float | None = None) -> Measured:
        """Put all questions to a search, with the default precision and with the higher one."""
        started = time.process_time() if started is None else started
        questions = [question.text for question in self.faq.test]
        with self.search(checkpoint) as setup:
            search, _ = setup.load()
            search.prepare()
            shown, outcomes = ask(search, questions)
            _, other = ask(search, self.faq.other_matters)
            try:
                _, outcomes_higher = ask(search, questions, HIGHER)
                _, other_higher = ask(search, self.faq.other_matters, HIGHER)
            except InputError:  # nothing is calibrated for it
                outcomes_higher, other_higher = [], []
        ranks = [first_rank(answers, right) for answers, right in zip(shown, self.right_answers(), strict=True)]
        seconds = round(time.process_time() - started, 1)
        return Measured(self.cell(state), ranks, outcomes, outcomes_higher, other, other_higher, seconds=seconds)

    def right_answers(self) -> list[set[str]]:
        """The texts of the right answers of each test question, as the product reads them."""
        texts = {entry.other["aid"]: entry.answer for entry in read_faq(FAQ)}
        return [{texts[name] for name in question.right} for question in self.faq.test]

    def baselines(self) -> Iterator[Measured]:
        """BM25 with the stemmer of the FAQ's language, and a bi-encoder that indexes answers and wordings."""
        entries = read_faq(FAQ)
        row_of = {entry.other["aid"]: row for row, entry in enumerate(entries)}
        answers = [
            Answer(str(row), entry.text(DEFAULT_MATCH), entry.questions, entry.answer)
            for row, entry in enumerate(entries)
        ]
        everything = tuple(range(len(answers)))
        questions = [
            Question(str(place), question.text, tuple(row_of[name] for name in question.right), everything)
            for place, question in enumerate(self.faq.test)
        ]
        asked = EvaluationSet(Dataset(self.faq.name, answers, questions), language=self.faq.language)
        if BM25 in self.states:
            started = time.process_time()
            yield self.ranked(BM25, asked.bm25_scores, asked, started)
        if BI_ENCODER in self.states:
            started = time.process_time()
            peer = BiEncoder(find_encoder(self.encoder), torch.device("cpu"))
            yield self.ranked(BI_ENCODER, peer.score(asked, wordings=True).by_question, asked, started)

    def ranked(self, state: str, scores: Sequence[np.ndarray], asked: EvaluationSet, started: float) -> Measured:
        """The ranks by scores of all entries; nothing decides."""
        ranks = []
        for values, right in zip(scores, asked.right, strict=True):
            best = values[right].max()
            above = int((values > best).sum())
            level = int(((values == best) & ~right).sum())
            rank = 1 + above + (level + 1) // 2  # of equal scores, the middle place
            ranks.append(rank if rank <= RANKED else 0)
        return Measured(self.cell(state), ranks, seconds=round(time.process_time() - started, 1))

    def cell(self, state: str) -> Cell:
        """Which cell of the table a state is."""
        return Cell(self.faq.name, self.size, state, self.hubs, self.encoder, self.quick)


def ask(
    search: DeclaredPipeline, questions: Sequence[str], precision: float | None = None
) -> tuple[list[list[str]], list[str]]:
    """The best answers for each question, and what is decided, as `search_faq` gets both."""
    limits: Limits = {} if precision is None else {"precision": precision}
    shown, outcomes = [], []
    for question in questions:
        documents, decision = search.answer(question, limits, RANKED)
        shown.append([str(document.meta.get("answer") or document.content or "") for document in documents])
        outcomes.append(str(decision.outcome))
    return shown, outcomes


def first_rank(answers: Sequence[str], right: set[str]) -> int:
    """From 1; 0 if none is right."""
    return next((place for place, answer in enumerate(answers, start=1) if answer in right), 0)
