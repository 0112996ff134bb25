"""Trains on few questions of each FAQ and keeps what ranks all of its other questions, for `run.py`.

    python examples/training_gain/collect.py --shared DATA --public CLONES --output FOLDER

For each FAQ, number of questions and seed one file `FAQ-NUMBER-SEED.npz`; those that are there are not made again.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import typer
from faqs import read_faqs

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.data.split import split_questions
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.ranking.priors import random_scores
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.text.near_copies import near_any, near_groups
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.train import train
from ap_ranker.training.untrained import write_untrained

SIZES = (100, 30, 10, 300)
"""Numbers of questions that the owner of a FAQ has; of each, a share is set aside, as `train` does."""

MOST_TEST = 120
"""Number of questions to measure on."""

MOST_DEV = {100: 300}
"""Number of further questions, no near copies of those to learn from, which weights may be fitted to."""

LEARNT, ASIDE, FURTHER, TEST = range(4)
"""Parts of a FAQ's questions: learnt from, set aside by the training, further dev questions, test questions."""


def parts_of(data: Dataset, size: int, seed: int) -> tuple[Dataset, Dataset, Dataset, Dataset]:
    """The four parts. Test questions are drawn as users ask: some are near copies of others."""
    drawn = list(data.questions)
    random.Random(seed).shuffle(drawn)
    tested = min(MOST_TEST, int(0.4 * len(drawn)))
    test, rest = drawn[:tested], drawn[tested:]
    first = replace(data, questions=rest[:size])
    learnt, aside = split_questions(first, TrainingConfig().dev_share, seed)
    texts = {question.text for question in rest}
    near = near_any(texts, {question.text for question in learnt.questions})
    further = [question for question in rest[size:] if question.text not in near][: MOST_DEV.get(size, 0)]
    return learnt, aside, replace(data, questions=further), replace(data, questions=test)


def arrays_of(ranker: Ranker, asked: EvaluationSet) -> dict[str, Any]:
    """What ranks the candidates of all questions by a model: (Q, N) scores and cosines, (Q, C) vectors."""
    scores = asked.timed_scores(ranker)
    assert scores.cosines is not None
    assert scores.question_vectors is not None
    background = float(random_scores(ranker, [answer.text for answer in asked.dataset.answers]).mean())
    return {
        "model": np.stack(scores.by_question),
        "cosines": np.stack(scores.cosines),
        "vectors": scores.question_vectors,
        "background": np.array(background),
    }


def collect(data: Dataset, size: int, seed: int, path: Path) -> None:
    """Train on `size` questions, and keep what ranks all questions before and after."""
    parts = parts_of(data, size, seed)
    questions = [replace(question, candidates=None) for part in parts for question in part.questions]
    asked = EvaluationSet(replace(data, questions=questions), language="english")
    arrays: dict[str, Any] = {}
    texts = [answer.text for answer in data.answers]
    stored = any(answer.wordings for answer in data.answers)
    wordings = known_wordings(data.answers, [*parts[LEARNT].questions, *parts[ASIDE].questions])
    with TemporaryDirectory() as folder:
        before = write_untrained(Path(folder) / "before", texts, "english", stored=stored, wordings=wordings)
        prior = before.calibration["model"]
        arrays["before_prior"] = np.array([prior.score, prior.margin, prior.bias, prior.floor or -np.inf])
        arrays["before_thresholds"] = np.array([[float(name), value] for name, value in prior.thresholds.items()])
        arrays["before_wording"] = np.array(before.wording_weight)
        untrained = Ranker.from_pretrained(Path(folder) / "before", "cpu")
        arrays |= {f"before_{name}": each for name, each in arrays_of(untrained, asked).items()}
        started = perf_counter()
        config = TrainingConfig(language="english", seed=seed + 1)
        result = train(parts[LEARNT], parts[ASIDE], Path(folder) / "after", config, device="cpu")
        seconds = perf_counter() - started
        arrays |= {f"after_{name}": each for name, each in arrays_of(result.ranker, asked).items()}
    groups = near_groups([question.text for question in questions])
    right = np.stack(asked.right)
    np.savez_compressed(
        path,
        part=np.repeat(np.arange(len(parts)), [len(each.questions) for each in parts]),
        group=groups,
        right=right,
        bm25=np.stack(asked.bm25_scores),
        epoch=np.array(result.best_epoch),
        seconds=np.array(seconds),
        **arrays,
    )


def known_wordings(answers: list[Answer], questions: list[Question]) -> list[list[str]]:
    """The wordings of each entry: its stored question, and the questions that ask for it."""
    wordings = [list(answer.wordings) for answer in answers]
    for question in questions:
        for row in question.positives:
            wordings[row].append(question.text)
    return wordings


def main(
    output: Annotated[Path, typer.Option()],
    shared: Annotated[Path | None, typer.Option()] = None,
    public: Annotated[Path | None, typer.Option()] = None,
    seeds: Annotated[int, typer.Option()] = 1,
    sizes: Annotated[list[int] | None, typer.Option(help="Numbers of questions.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Names of FAQs, by default all.")] = None,
) -> None:
    """Make the files of all FAQs."""
    output.mkdir(parents=True, exist_ok=True)
    faqs = [data for data in read_faqs(shared, public) if not only or data.name in only]
    for seed in range(seeds):
        for size in sizes or SIZES:
            for data in faqs:
                path = output / f"{data.name}-{size}-{seed}.npz"
                if path.exists() or len(data.questions) * 0.6 < size:
                    continue
                started = perf_counter()
                collect(data, size, seed, path)
                typer.echo(f"{path.stem}: {perf_counter() - started:.0f} s")


if __name__ == "__main__":
    typer.run(main)
