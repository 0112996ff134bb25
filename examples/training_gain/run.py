"""Learns the priors of the weights and of what a training gains from the files of `collect.py`, and judges them.

python examples/training_gain/run.py weights FOLDER    # the best weights of each FAQ, and MRR by dev questions
python examples/training_gain/run.py gains FOLDER      # what trainings gained, by their number of questions
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from collect import ASIDE, FURTHER, LEARNT, TEST
from faqs import read_faqs
from numpy.typing import NDArray

from ap_ranker.evaluation import weight_fit
from ap_ranker.evaluation.metrics import Levels
from ap_ranker.evaluation.weight_fit import WeightPrior, fit_weight, log_likelihood
from ap_ranker.ranking.decision import Decider
from ap_ranker.ranking.rule import (
    FUSED,
    MODEL,
    SOFTNESS,
    Basis,
    Calibration,
    Signals,
    Weights,
    rank,
    ranked_scores,
    threshold_key,
)
from ap_ranker.text.near_copies import near_groups
from ap_ranker.training.recommendation import MRR, UTILITY, Served

NUMBERS = (0, 10, 30, 75, 300)
"""Numbers of dev questions that weights are fitted to."""

DRAWS = 4
"""Of the dev questions, for each number."""

BEFORE, AFTER = "before", "after"

Rows = NDArray[np.int64]
Fit = Callable[[list[Signals], list[NDArray[np.bool_]]], Weights]

app = typer.Typer(add_completion=False)
Folder = Annotated[Path, typer.Argument(help="What collect.py wrote.")]


@dataclass(frozen=True)
class Run:
    """A training: its FAQ, the number of questions that its owner had, and the arrays of the file."""

    faq: str
    size: int
    arrays: Mapping[str, NDArray[Any]]

    def rows_of(self, *parts: int) -> Rows:
        """The questions of some parts."""
        return np.flatnonzero(np.isin(self.arrays["part"], parts))

    def signals(self, model: str, asked: Rows, known: Rows) -> list[Signals]:
        """What ranks all entries for the questions asked, while others are known; none meets its own text."""
        vectors = self.arrays[f"{model}_vectors"].astype(np.float64)
        near = vectors[asked] @ vectors[known].T
        near[asked[:, None] == known[None, :]] = -np.inf
        entries = self.arrays["right"].shape[1]
        wordings = np.full((len(asked), entries), -1.0)
        for entry in range(entries):
            own = near[:, self.arrays["right"][known, entry]]
            if own.shape[1]:
                best = own.max(axis=1)
                any_left = np.isfinite(best)
                total = np.exp((own[any_left] - best[any_left, None]) / SOFTNESS).sum(axis=1)
                wordings[any_left, entry] = best[any_left] + SOFTNESS * np.log(total)
        scores, cosines = (self.arrays[f"{model}_{name}"][asked].astype(np.float64) for name in ("model", "cosines"))
        each = zip(scores, cosines, wordings, self.arrays["bm25"][asked], strict=True)
        return [Signals(own, cosine, wording, bm25) for own, cosine, wording, bm25 in each]

    def right(self, rows: Rows) -> list[NDArray[np.bool_]]:
        """Which entries are right for each question."""
        return list(self.arrays["right"][rows])


def read_runs(folder: Path) -> list[Run]:
    """All trainings of a folder."""
    found = []
    for path in sorted(folder.glob("*.npz")):
        faq, size, _ = path.stem.rsplit("-", 2)
        with np.load(path) as file:
            found.append(Run(faq, int(size), {name: file[name] for name in file.files}))
    return found


def mrr_of(signals: Sequence[Signals], right: Sequence[NDArray[np.bool_]], weights: Weights) -> float:
    """The mean over the questions."""
    ranks = [
        Levels.of(-rank(each, weights).levels, relevant).reciprocal_rank()
        for each, relevant in zip(signals, right, strict=True)
    ]
    return float(np.mean(ranks))


def likeliest(run: Run) -> tuple[float, float]:
    """The weights that are best for all questions that the training has not learnt from; of BM25 in its unit."""
    rows = run.rows_of(FURTHER, TEST)
    signals, right = run.signals(AFTER, rows, run.rows_of(LEARNT, ASIDE)), run.right(rows)
    best: dict[str, float] = {}
    weights = Weights()
    for name, values in (("wording", np.geomspace(0.05, 20, 25)), ("bm25", np.geomspace(0.004, 4, 21))):
        unit = 1.0 if name == "wording" else weight_fit._unit_of_bm25(signals, weights)
        tried = [replace(weights, **{name: float(value * unit)}) for value in values]
        totals = [log_likelihood([ranked_scores(each, own) for each in signals], right) for own in tried]
        place = int(np.argmax(totals))
        best[name], weights = float(values[place]), tried[place]
    return best["wording"], best["bm25"]


def drawn(run: Run, number: int, seed: int) -> Rows:
    """Dev questions in whole groups of near copies, at most so many."""
    rows = run.rows_of(ASIDE, FURTHER)
    groups = run.arrays["group"][rows]
    taken: list[int] = []
    for group in np.random.default_rng(seed).permutation(np.unique(groups)):
        members = rows[groups == group].tolist()
        if len(taken) + len(members) <= number:
            taken += members
    return np.array(sorted(taken), dtype=np.int64)


def most_probable(priors: Mapping[str, WeightPrior]) -> Fit:
    """The rule, with priors of other FAQs."""

    def fit(signals: list[Signals], right: list[NDArray[np.bool_]]) -> Weights:
        shipped = dict(weight_fit.PRIORS)
        weight_fit.PRIORS.update(priors)
        try:
            weights = fit_weight(signals, right, Weights(priors["wording"].median), "wording")
            return fit_weight(signals, right, weights, "bm25")
        finally:
            weight_fit.PRIORS.update(shipped)

    return fit


def tested(signals: list[Signals], right: list[NDArray[np.bool_]]) -> Weights:
    """The earlier rule: none beside a trained model, unless a test on at least ten questions says that it helps."""
    weights = Weights()
    if len(signals) < 10:
        return weights
    for name in ("wording", "bm25"):
        values = [each.best_wording if name == "wording" else each.bm25 for each in signals]
        spread = np.mean([ranked_scores(each, weights).std() for each in signals])
        unit = spread / np.mean([each.std() for each in values if each is not None])
        tried = [replace(weights, **{name: float(each * unit)}) for each in (0.0, *np.geomspace(0.02, 50, 35))]
        totals = [log_likelihood([ranked_scores(each, own) for each in signals], right) for own in tried]
        best = tried[int(np.argmax(totals))]
        is_better = max(totals) > totals[0] + 1 and mrr_of(signals, right, best) > mrr_of(signals, right, weights)
        weights = best if is_better else weights
    return weights


@app.command("weights")
def weights_of(folder: Folder, size: Annotated[int, typer.Option()] = 100) -> None:
    """Print the best weights of each FAQ, and the MRR of test questions with weights by so many dev questions."""
    runs = [run for run in read_runs(folder) if run.size == size]
    best = {run.faq: likeliest(run) for run in runs}
    for faq, (wording, bm25) in best.items():
        typer.echo(f"{faq}: wordings {wording:.2f}, BM25 {bm25:.3f}")
    typer.echo("| FAQ | dev questions | fixed (0.3, 0) | by a test | most probable |\n|---|---:|---:|---:|---:|")
    for run in runs:
        others = np.log([weights for faq, weights in best.items() if faq != run.faq])
        medians, shipped = np.exp(np.median(others, axis=0)), weight_fit.PRIORS
        priors = {
            name: WeightPrior(float(median), shipped[name].deviation)
            for name, median in zip(("wording", "bm25"), medians, strict=True)
        }
        for number in NUMBERS:
            cells = [np.mean(each) for each in zip(*_measured(run, number, most_probable(priors)), strict=True)]
            typer.echo(f"| {run.faq} | {number} | " + " | ".join(f"{each:.3f}" for each in cells) + " |")


def _measured(run: Run, number: int, prior_rule: Fit) -> Iterator[tuple[float, float, float]]:
    """For each draw of dev questions, the MRR of the test questions by each rule; the dev questions are known then."""
    test = run.rows_of(TEST)
    for seed in range(DRAWS if 0 < number < 300 else 1):
        dev = drawn(run, number, seed)
        learnt = run.rows_of(LEARNT)
        known = np.concatenate([learnt, dev])
        asked, right = run.signals(AFTER, test, known), run.right(test)
        own = run.right(dev)
        rules = [
            Weights(0.3),
            tested(run.signals(AFTER, dev, learnt), own),
            prior_rule(run.signals(AFTER, dev, known), own),
        ]
        fixed, by_test, probable = (mrr_of(asked, right, weights) for weights in rules)
        yield fixed, by_test, probable


@app.command("noise")
def noise_of(folder: Folder, size: Annotated[int, typer.Option()] = 100) -> None:
    """Print what BM25's weight costs if its scores are shuffled among the entries, so that they say nothing."""
    losses: defaultdict[str, list[float]] = defaultdict(list)
    for run in (run for run in read_runs(folder) if run.size == size):
        draw = np.random.default_rng(0)
        shuffled = replace(run, arrays={**run.arrays, "bm25": draw.permuted(run.arrays["bm25"], axis=1)})
        test = run.rows_of(TEST)
        for number in (10, 30, 75):
            for seed in range(DRAWS):
                dev = drawn(run, number, seed)
                known = np.concatenate([run.rows_of(LEARNT), dev])
                asked, right = shuffled.signals(AFTER, test, known), run.right(test)
                for name, rule in (("by a test", tested), ("most probable", most_probable(weight_fit.PRIORS))):
                    weights = rule(shuffled.signals(AFTER, dev, known), run.right(dev))
                    without = mrr_of(asked, right, replace(weights, bm25=0.0))
                    losses[name].append(without - mrr_of(asked, right, weights))
    for name, values in losses.items():
        typer.echo(
            f"{name}: MRR lost {np.mean(values):.4f} on average, {max(values):.4f} at most, {len(values)} trials"
        )


@app.command("repeats")
def repeats_of(
    shared: Annotated[Path | None, typer.Option()] = None, public: Annotated[Path | None, typer.Option()] = None
) -> None:
    """Print how many questions of each FAQ have a near copy among its others."""
    for data in read_faqs(shared, public):
        _, sizes = np.unique(near_groups([question.text for question in data.questions]), return_counts=True)
        copies = int(sizes[sizes > 1].sum())
        typer.echo(f"{data.name}: {copies} of {len(data.questions)} ({copies / len(data.questions):.1%})")


def served(run: Run, model: str) -> Served:
    """What the search gives the test questions: before, untrained; after, by weights of the questions set aside."""
    asked, known = run.rows_of(TEST), run.rows_of(LEARNT, ASIDE)
    weights = Weights(float(run.arrays["before_wording"]))
    if model == AFTER:
        dev = run.rows_of(ASIDE)
        weights = most_probable(weight_fit.PRIORS)(run.signals(AFTER, dev, known), run.right(dev))
    score, margin, bias, floor = run.arrays["before_prior"].tolist()
    higher = float(run.arrays[f"{model}_background"] - run.arrays["before_background"])
    thresholds = {threshold_key(target): least for target, least in run.arrays["before_thresholds"].tolist()}
    calibration = Calibration(score, margin, bias - score * higher, thresholds, floor=floor + higher, basis=Basis.PRIOR)
    decider = Decider(run.faq, weights, {MODEL: calibration, FUSED: calibration}, lambda scores: scores)
    signals = run.signals(model, asked, known)
    return Served.of(signals, run.right(asked), [decider] * len(signals))


@app.command("gains")
def gains_of(folder: Folder) -> None:
    """Print what trainings gained over the untrained search, and the constants `GAINS` by all of them."""
    found: defaultdict[str, list[tuple[float, float, float, float]]] = defaultdict(list)
    for run in read_runs(folder):
        before, after = served(run, BEFORE), served(run, AFTER)
        gains = {UTILITY: after.utility - before.utility, MRR: after.reciprocal_rank - before.reciprocal_rank}
        cells = []
        for measure, values in gains.items():
            mean, deviation = float(values.mean()), float(values.std())
            error = deviation / np.sqrt(len(values))
            found[measure].append((np.log1p(run.size), mean, error, deviation))
            cells.append(f"{measure} {mean:+.3f} ± {error:.3f}")
        typer.echo(
            f"{run.faq}, {run.size} questions, epoch {int(run.arrays['epoch'])}: {', '.join(cells)}; before: "
            f"{before.right.sum()} right, {before.wrong.sum()} wrong; after: {after.right.sum()}, {after.wrong.sum()}"
        )
    for measure, rows in found.items():
        steps, means, errors, deviations = np.array(rows).T
        slope = (steps * means).sum() / (steps**2).sum()
        between = ((means - slope * steps) ** 2 - errors**2).mean()  # what chance alone does not explain
        typer.echo(
            f"{measure}: slope {slope:.4f}, deviation {np.sqrt(max(between, 0)):.3f}, of a question "
            f"{deviations.mean():.2f}, {len(rows)} trainings"
        )


if __name__ == "__main__":
    app()
