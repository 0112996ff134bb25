"""The prior of all checkpoints, trained or not: fitted, judged on other FAQs, with few questions, and with age.

python examples/no_answer/general.py fit --kept FOLDER --encoder A --encoder B   # writes general_prior.json
python examples/no_answer/general.py measure --kept FOLDER --shared DATA    # trained on each FAQ, judged by the others
python examples/no_answer/general.py hubs --kept FOLDER --shared DATA       # entries that are near to every question
python examples/no_answer/general.py few --kept FOLDER --shared DATA        # 1 to 300 questions to calibrate on
python examples/no_answer/general.py ageing --kept FOLDER --shared DATA     # entries, topics and questions that change

All rank each FAQ's questions once, into FOLDER (`ranked.py`); only FAQs of at most --largest entries are used.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from faqs import DOCUMENTS, WORDINGS
from numpy.typing import NDArray
from ranked import Table, tables
from rich.console import Console
from run import TARGETS, Shared, joined, share, weighted
from scipy.special import expit, logit

from ap_ranker.evaluation.calibration_fit import Rankings, fit, threshold, top_answers
from ap_ranker.evaluation.markdown import markdown_table
from ap_ranker.files import write_text_atomically
from ap_ranker.models.pretrained import DEFAULT_ENCODER
from ap_ranker.ranking.priors import GENERAL, USUAL, Prior, floor_of
from ap_ranker.ranking.rule import Calibration, Signals, threshold_key

BETWEEN = 0.6
"""Standard deviation, in logits, of what the prior says of one FAQ about what is true there: thresholds are those of
the probabilities expected over it. It is what was seen (`README.md`); with .9 or more, .8 was exceeded by .025 to .044
with trained checkpoints (`measure`)."""

CANDIDATES = 6
"""Best candidates of a question that are kept: what decides are the two best different ones."""

app = typer.Typer(add_completion=False)
console = Console(soft_wrap=True)
Kept = Annotated[Path, typer.Option(help="A folder to keep the rankings in.")]
Encoders = Annotated[list[str] | None, typer.Option("--encoder", help="A name or a folder; may be repeated.")]
Largest = Annotated[int, typer.Option(help="Leave out larger FAQs, whose training takes long.")]


def read_tables(kept: Path, shared: Path | None, encoders: Sequence[str] | None, largest: int) -> list[Table]:
    """Those of every encoder, by default of the default one."""
    return [table for encoder in encoders or [DEFAULT_ENCODER] for table in tables(kept, shared, encoder, largest)]


def rankings(
    table: Table,
    kinds: Sequence[str],
    *,
    hubs: bool = False,
    aware: bool = True,
    entries: NDArray[np.bool_] | None = None,
    questions: NDArray[np.bool_] | None = None,
) -> tuple[Rankings, float]:
    """Questions of some kinds, their scores in the prior's units, and the floor.

    With the added entries (`hubs`), among some `entries`, of some `questions`; unless it is `aware`, all entries have
    the same background.
    """
    total = len(table.ids)
    kept = np.ones(total, bool) if entries is None else entries.copy()
    kept[total - table.hubs :] = hubs
    rows = np.flatnonzero(kept)
    random = table.fused[table.kinds == "random"][:, rows].astype(np.float64)
    ground, unit = random.mean(), random.std()
    backgrounds = table.model[table.kinds == "random"][:, rows].astype(np.float64).mean(axis=0)
    excess = (backgrounds - np.quantile(backgrounds, USUAL)) / unit
    signals, right, answerable = [], [], []
    chosen = np.isin(table.kinds, kinds) if questions is None else np.isin(table.kinds, kinds) & questions
    for question in np.flatnonzero(chosen):
        scores, relevant = table.fused[question, rows].astype(np.float64), table.right[question, rows]
        best = np.argsort(-scores, kind="stable")[:CANDIDATES]
        own = excess[best] if aware else np.zeros(len(best))
        texts = [table.texts[rows[row]].tolist() for row in best]
        signals.append(Signals((scores[best] - ground) / unit, answers=texts, background_of=own.__getitem__))
        right.append(relevant[best])
        answerable.append(bool(relevant.any()))
    floor = (floor_of(random.max(axis=1)) - ground) / unit
    return Rankings(signals, right, np.array(answerable, bool), np.ones(len(signals))), float(floor)


def general(parts: Sequence[Rankings], between: float = BETWEEN) -> Calibration:
    """The prior of these FAQs, all with the same weight."""
    together = joined((part, 0.0) for part in parts)
    calibration = fit(together, [], background=0.0)
    answers, wider = top_answers(calibration, together), np.sqrt(1 + np.pi * between**2 / 8)  # MacKay 1992
    sure = np.clip(answers.probabilities, 1e-9, 1 - 1e-9)
    expected = replace(answers, probabilities=expit(logit(sure) / wider))
    least = {threshold_key(target): np.clip(threshold(expected, target), 1e-9, 1 - 1e-9) for target in TARGETS}
    return replace(calibration, thresholds={name: float(expit(logit(value) * wider)) for name, value in least.items()})


def of_users(table: Table) -> Rankings:
    """All its users' questions, a tenth of them without an answer."""
    return weighted(rankings(table, ["dev", "test"])[0])


def fitting(every: Sequence[Table]) -> list[Table]:
    """What the prior is fitted to: each FAQ with stored questions, and each checkpoint, once."""
    return [each for each in every if each.known != DOCUMENTS and (each.family != "example" or each.known == WORDINGS)]


def without(parts: Sequence[tuple[Table, Rankings]], family: str, between: float = BETWEEN) -> Calibration:
    """The prior of the other families."""
    return general([part for table, part in parts if table.family != family], between)


def judged(calibration: Calibration, questions: Rankings) -> NDArray[np.float64]:
    """(T, 2) the precision (NaN if nothing is answered) and the answered share of each target."""
    answers, rows = top_answers(calibration, questions), []
    for target in TARGETS:
        kept = (answers.probabilities >= calibration.threshold(target)) & ~answers.below
        precision = share(answers.right, answers.weights, kept)
        answered = share(kept, answers.weights, np.ones(len(kept), bool))
        rows.append([np.nan if precision is None else precision, answered])
    return np.array(rows)


def cells(results: NDArray[np.float64]) -> list[str]:
    """The precision and the answered share of each target, pooled over (R, T, 2) results: each answer counts once."""
    answered = results[:, :, 1].sum(axis=0)
    right = np.nansum(results[:, :, 0] * results[:, :, 1], axis=0)
    precisions = np.divide(right, answered, out=np.full(len(TARGETS), np.nan), where=answered > 0)
    means = results[:, :, 1].mean(axis=0)
    return [f"{precision:.3f}, {mean:.0%}" for precision, mean in zip(precisions, means, strict=True)]


def show(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table of precisions and answered shares."""
    console.print(f"\n{title}\n")
    console.print(markdown_table([*heads, *(f"target {target:g}: precision, answered" for target in TARGETS)], rows))


@app.command("fit")
def fit_general(kept: Kept, shared: Shared = None, encoder: Encoders = None, largest: Largest = 200) -> None:
    """Fit the prior to all FAQs and checkpoints, and write it."""
    used = fitting(read_tables(kept, shared, encoder, largest))
    parts = [of_users(each) for each in used]
    found = general(parts)
    names = sorted({each.family for each in used})
    total = sum(len(part.signals) for part in parts)
    prior = Prior(found.score, found.margin, found.bias, found.thresholds, None, names, total)
    path = Path(__file__).resolve().parents[2] / "ap_ranker" / "ranking" / GENERAL
    write_text_atomically(path, json.dumps(asdict(prior), indent=2) + "\n")
    console.print(prior)


@app.command()
def measure(kept: Kept, shared: Shared = None, encoder: Encoders = None, largest: Largest = 200) -> None:
    """Judge the prior on each FAQ and checkpoint, fitted to the other families, without added entries and with them."""
    parts = [(each, of_users(each)) for each in fitting(read_tables(kept, shared, encoder, largest))]
    priors = {family: without(parts, family) for family in {table.family for table, _ in parts}}
    rows = []
    for checkpoint in dict.fromkeys(table.checkpoint for table, _ in parts):
        for hubs in (False, True):
            results = []
            for table in (table for table, _ in parts if table.checkpoint == checkpoint):
                questions, floor = rankings(table, ["dev", "test"], hubs=hubs)
                results.append(judged(replace(priors[table.family], floor=floor), weighted(questions)))
                if not hubs:
                    rows.append([f"{checkpoint}, {table.family}", "", *cells(results[-1][None])])
            rows.append([f"**{checkpoint}, all**", "with hubs" if hubs else "", *cells(np.array(results))])
    show("A prior of other FAQs", ["checkpoint, FAQ", "added entries"], rows)


@app.command()
def hubs(kept: Kept, shared: Shared = None, encoder: Encoders = None, largest: Largest = 200) -> None:
    """With and without the rule: other matters that are answered, and the added entries' own questions."""
    parts = [(each, of_users(each)) for each in fitting(read_tables(kept, shared, encoder, largest))]
    rows = []
    for table, _ in parts:
        prior = without(parts, table.family)
        for aware in (False, True):
            row = [f"{table.checkpoint}, {table.family}", "yes" if aware else "no"]
            for kinds in (["off", "other"], ["hub"]):
                questions, floor = rankings(table, kinds, hubs=True, aware=aware)
                answers = top_answers(replace(prior, floor=floor), questions)
                kept_ = (answers.probabilities >= prior.threshold(0.8)) & ~answers.below
                counted = kept_ & answers.right if kinds == ["hub"] else kept_
                row.append(f"{counted.sum()} of {len(counted)}")
            rows.append(row)
    heads = ["checkpoint, FAQ", "backgrounds of entries", "other matters answered at 0.8", "theirs answered right"]
    console.print(markdown_table(heads, rows))


@app.command()
def few(
    kept: Kept,
    shared: Shared = None,
    encoder: Encoders = None,
    largest: Largest = 200,
    draws: int = 20,
    checkpoint: str = "quick",
) -> None:
    """Calibrate the example on some of its questions, and judge on the others."""
    parts = [(each, of_users(each)) for each in fitting(read_tables(kept, shared, encoder, largest))]
    table = next(each for each, _ in parts if each.family == "example" and each.checkpoint == checkpoint)
    prior = without(parts, "example")
    questions, floor = rankings(table, ["dev", "test"])
    rng, rows = np.random.default_rng(0), []
    for count in (0, 1, 3, 10, 30, 100, 300):
        results = []
        for _ in range(draws):
            order = rng.permutation(len(questions.signals))
            own = fit(questions.of(order[:count]), TARGETS, prior) if count else prior
            results.append(judged(replace(own, floor=floor), questions.of(order[count:])))
        low = np.nanquantile(np.array(results)[:, 1, 0], 0.05)
        rows.append([str(count), f"{low:.3f}", *cells(np.array(results))])
    show(f"The example, {checkpoint}, mean of {draws} draws", ["questions", "0.9: worst twentieth"], rows)


def changes(table: Table, rng: np.random.Generator) -> Iterator[tuple[str, NDArray[np.bool_], NDArray[np.bool_]]]:
    """What changes, the entries when it was calibrated, and those of today."""
    total = len(table.ids)
    for replaced in (0.0, 0.1, 0.3, 0.6):
        order = rng.permutation(total - table.hubs)
        half = len(order) // 2
        gone = round(replaced * half)
        before, today = np.zeros((2, total), bool)
        before[order[:half]] = True
        today[order[gone : half + gone]] = True
        yield f"{replaced:.0%} of the entries replaced", before, today
    topics = np.array([name.rpartition("-")[0] for name in table.ids])
    topic = rng.choice(np.unique(topics[: total - table.hubs]))
    everything = np.ones(total, bool)
    yield "a topic added", topics != topic, everything


@app.command()
def ageing(
    kept: Kept,
    shared: Shared = None,
    encoder: Encoders = None,
    largest: Largest = 200,
    draws: int = 10,
    checkpoint: str = "quick",
) -> None:
    """Calibrate the example as it was, and judge on questions of today; beside it the prior for today's entries."""
    parts = [(each, of_users(each)) for each in fitting(read_tables(kept, shared, encoder, largest))]
    table = next(each for each, _ in parts if each.family == "example" and each.checkpoint == checkpoint)
    prior, rng = without(parts, "example"), np.random.default_rng(0)
    results: dict[str, list[tuple[NDArray[np.float64], NDArray[np.float64]]]] = {}
    for _ in range(draws):
        drawn = rng.random(len(table.kinds)) < 0.5  # to calibrate on; the others are asked today
        for name, before, today in changes(table, rng):
            asked = [_answered(table, before) & drawn, _answered(table, today) & ~drawn]
            results.setdefault(name, []).append(_aged(table, prior, (before, today), asked))
        topics = np.array([table.ids[row.argmax()].rpartition("-")[0] for row in table.right])
        season = np.isin(topics, rng.permutation(np.unique(topics))[: len(np.unique(topics)) // 2])
        everything, lost = np.ones(len(table.ids), bool), ~table.right.any(axis=1)
        asked = [(season | lost) & drawn, (~season | lost) & ~drawn]
        results.setdefault("questions of another season (topics)", []).append(
            _aged(table, prior, (everything, everything), asked)
        )
    rows = []
    for name, pairs in results.items():
        for kind, place in (("calibrated before", 0), ("the prior, today", 1)):
            rows.append([name, kind, *cells(np.array([pair[place] for pair in pairs]))])
    show(f"The example, {checkpoint}, mean of {draws} draws", ["what changed", "decided by"], rows)


def _answered(table: Table, entries: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The questions that some entries answer, and those that no entry does."""
    return (table.right & entries).any(axis=1) | ~table.right.any(axis=1)


def _aged(
    table: Table,
    prior: Calibration,
    entries: tuple[NDArray[np.bool_], NDArray[np.bool_]],
    asked: Sequence[NDArray[np.bool_]],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What a calibration of before does today, and the prior.

    Scores are in the units of before: a served calibration knows no others.
    """
    before, floor = rankings(table, ["dev", "test"], entries=entries[0], questions=asked[0])
    today, own_floor = rankings(table, ["dev", "test"], entries=entries[1], questions=asked[1])
    calibration = replace(fit(before, TARGETS, prior), floor=floor)
    moved = _in_units_of(table, entries[0], entries[1])
    then = replace(today, signals=[replace(each, model=moved(each.model)) for each in today.signals])
    return judged(calibration, then), judged(replace(prior, floor=own_floor), today)


def _in_units_of(
    table: Table, before: NDArray[np.bool_], today: NDArray[np.bool_]
) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """Turns scores in today's units into those of before."""
    random = table.fused[table.kinds == "random"][:, : len(table.ids) - table.hubs].astype(np.float64)
    one, other = random[:, before[: random.shape[1]]], random[:, today[: random.shape[1]]]
    return lambda scores: (scores * other.std() + other.mean() - one.mean()) / one.std()


if __name__ == "__main__":
    app()
