"""Tables of the measured steps, and whether one of them makes a search worse."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from measured_steps import BASELINES, CALIBRATED, STATES, TRAINED, UNTRAINED, WORDINGS, Measured
from numpy.typing import NDArray
from public_faqs import PublicFaq
from scipy.stats import norm

from ap_ranker.evaluation.significance import LEVEL, holm, randomisation_test
from ap_ranker.ranking.outcome import Outcome
from ap_ranker.ranking.verdict import WRONG_COSTS

OTHER_SHARE = 0.1
"""Share of a search's questions that count as being about other matters, as `calibrate` assumes."""

POWER = 0.8
"""Of the smallest loss that a test could see: the probability that it would be seen."""

STEPS = (WORDINGS, TRAINED, CALIBRATED)
"""Each is compared with the search before it."""

Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Judged:
    """The measures of one search, as shares; `None` where there is nothing to be a share of."""

    first_right: float
    mrr: float
    answered: float | None = None
    precision: float | None = None
    precision_higher: float | None = None
    other_answered: float | None = None
    other_none: float | None = None
    utility: float | None = None


@dataclass(frozen=True)
class Step:
    """What a step changes for one FAQ, question by question: (Q,) utilities, weighted so that their mean is the change.

    `is_taken` is false where the product refuses the step or does not recommend it: the search stays as it was.
    """

    faq: str
    size: int
    name: str
    before: Numbers
    after: Numbers
    mrr_before: float
    mrr_after: float
    is_taken: bool

    @property
    def key(self) -> tuple[str, int, str]:
        """Which step it is."""
        return self.faq, self.size, self.name

    @property
    def change(self) -> float:
        """Of the utility for each question."""
        return float(self.after.mean() - self.before.mean())

    @property
    def p_value(self) -> float:
        """Of the paired randomisation test, uncorrected."""
        return randomisation_test(self.after, self.before)

    @property
    def differs(self) -> bool:
        """Whether any outcome counts otherwise than before."""
        return not np.array_equal(self.before, self.after)

    def smallest_loss(self, tests: int) -> float | None:
        """The loss that a test at Holm's strictest level would see with `POWER`; `None` if no question differs."""
        if not self.differs:
            return None
        differences = self.after - self.before
        error = differences.std(ddof=1) / np.sqrt(len(differences))
        return float((norm.isf(LEVEL / 2 / tests) + norm.ppf(POWER)) * error)


Grouped = Mapping[tuple[str, int], Mapping[str, Measured]]
"""(FAQ, size) -> state -> what was measured; the untrained search with documents alone is there for each size."""


def render(cells: Sequence[Measured], faq_of: Mapping[str, PublicFaq]) -> str:
    """All tables as Markdown."""
    parts = []
    for hubs in sorted({each.cell.hubs for each in cells}):
        chosen = grouped([each for each in cells if each.cell.hubs == hubs])
        parts.append(f"## {'With entries that are near to everything' if hubs else 'The FAQs as they are'}\n")
        steps = list(steps_of(chosen))
        parts.append(pooled_table(steps))
        parts.append(taken_table(steps))
        parts.append(precision_table(chosen))
        parts.append(step_table(steps))
        parts.append(cell_table(chosen, faq_of))
    return "\n".join(parts)


def summary(cells: Sequence[Measured], faq_of: Mapping[str, PublicFaq]) -> str:
    """The measures of each cell and the changes of each step, as JSON."""
    rows: list[dict[str, Any]] = []
    changes: list[dict[str, Any]] = []
    for hubs in sorted({each.cell.hubs for each in cells}):
        chosen = grouped([each for each in cells if each.cell.hubs == hubs])
        for (faq, size), states in chosen.items():
            for state, measured in states.items():
                row = {"faq": faq, "entries": len(faq_of[faq].entries), "size": size, "state": state, "hubs": hubs}
                row |= asdict(judged(measured))
                rows.append(row | {"recommended": measured.recommended, "refused": measured.refused})
        for step in steps_of(chosen):
            change = {"faq": step.faq, "size": step.size, "step": step.name, "hubs": hubs, "taken": step.is_taken}
            changes.append(change | {"change": step.change, "p_value": step.p_value})
    return json.dumps({"cells": rows, "steps": changes}, indent=1) + "\n"


def grouped(cells: Sequence[Measured]) -> Grouped:
    """The cells by FAQ and size, with the untrained search beside each size."""
    groups: defaultdict[tuple[str, int], dict[str, Measured]] = defaultdict(dict)
    for each in sorted(cells, key=lambda each: (each.cell.faq, each.cell.size)):
        groups[each.cell.faq, each.cell.size][each.cell.state] = each
    for (faq, _), states in groups.items():
        documents = groups.get((faq, 0), {}).get(UNTRAINED)
        if documents is not None:
            states.setdefault(UNTRAINED, documents)
    return groups


def weights_of(measured: Measured) -> Numbers:
    """(Q,) of the test questions, then those about other matters; their sum is 1."""
    own, other = len(measured.outcomes), len(measured.other)
    return np.concatenate([np.full(own, (1 - OTHER_SHARE) / own), np.full(other, OTHER_SHARE / other)])


def asserted(measured: Measured, *, higher: bool = False) -> Flags:
    """(Q,) whether each question gets an answer, with the default precision or the higher one."""
    outcomes = [*measured.outcomes_higher, *measured.other_higher] if higher else [*measured.outcomes, *measured.other]
    if not outcomes:  # the search has no threshold for it
        outcomes = [Outcome.MAYBE] * (len(measured.outcomes) + len(measured.other))
    return np.array([outcome == Outcome.ANSWER for outcome in outcomes])


def right(measured: Measured) -> Flags:
    """(Q,) whether the first answer to each question is right."""
    return np.array([*(rank == 1 for rank in measured.ranks), *([False] * len(measured.other))])


def utilities(measured: Measured) -> Numbers:
    """(Q,) 1 for a right answer, -3 for a wrong one, else 0; weighted, so that the mean is the utility."""
    values = np.where(right(measured), 1.0, -WRONG_COSTS) * asserted(measured)
    return np.asarray(values * weights_of(measured) * len(values))


def judged(measured: Measured) -> Judged:
    """The measures of a search."""
    ranks = np.array(measured.ranks)
    found = ranks > 0
    reciprocal = np.where(found, 1 / np.maximum(ranks, 1), 0.0)
    ranking = Judged(float((ranks == 1).mean()), float(reciprocal.mean()))
    if not measured.outcomes:
        return ranking
    own = len(measured.ranks)
    answered = asserted(measured)
    return Judged(
        ranking.first_right,
        ranking.mrr,
        answered=float(answered[:own].mean()),
        precision=precision(measured),
        precision_higher=precision(measured, higher=True),
        other_answered=float(answered[own:].mean()),
        other_none=float(np.mean([outcome == Outcome.NONE for outcome in measured.other])),
        utility=float(utilities(measured).mean()),
    )


def precision(measured: Measured, *, higher: bool = False) -> float | None:
    """The share of what is asserted that is right, where a tenth of all questions is about other matters."""
    kept = weights_of(measured) * asserted(measured, higher=higher)
    return float(kept[right(measured)].sum() / kept.sum()) if kept.any() else None


def is_taken(trained: Measured) -> bool:
    """Whether `serve` takes a trained checkpoint by itself."""
    return not trained.refused and trained.recommended is not False


def served(states: Mapping[str, Measured]) -> Measured | None:
    """What `serve` runs before `calibrate`: the trained checkpoint only if it is taken."""
    before = states.get(WORDINGS, states.get(UNTRAINED))
    trained = states.get(TRAINED)
    return trained if trained is not None and is_taken(trained) else before


def steps_of(groups: Grouped) -> Iterator[Step]:
    """Each step of each FAQ, as served, where both searches were measured."""
    for (faq, size), states in groups.items():
        untrained, wordings = states.get(UNTRAINED), states.get(WORDINGS, states.get(UNTRAINED))
        pairs = {
            WORDINGS: (untrained, states.get(WORDINGS), True),
            TRAINED: (wordings, served(states) if TRAINED in states else None, served(states) is states.get(TRAINED)),
            CALIBRATED: (
                served(states),
                states.get(CALIBRATED),
                CALIBRATED in states and not states[CALIBRATED].refused,
            ),
        }
        for name, (before, after, taken) in pairs.items():
            if before is not None and after is not None:
                yield Step(
                    faq,
                    size,
                    name,
                    utilities(before),
                    utilities(after),
                    judged(before).mrr,
                    judged(after).mrr,
                    taken,
                )


def pooled(steps: Sequence[Step]) -> Step:
    """One step of several FAQs and sizes: each question counts once, as the mean of its sizes, each FAQ the same."""
    by_faq: defaultdict[str, list[Step]] = defaultdict(list)
    for step in steps:
        by_faq[step.faq].append(step)
    before, after = [], []
    total = sum(len(of_faq[0].before) for of_faq in by_faq.values())
    for of_faq in by_faq.values():
        scale = total / len(by_faq) / len(of_faq[0].before)
        before.append(scale * np.mean([step.before for step in of_faq], axis=0))
        after.append(scale * np.mean([step.after for step in of_faq], axis=0))
    return Step(
        f"{len(by_faq)} FAQs",
        -1,
        steps[0].name,
        np.concatenate(before),
        np.concatenate(after),
        float(np.mean([step.mrr_before for step in steps])),
        float(np.mean([step.mrr_after for step in steps])),
        is_taken=True,
    )


def pooled_table(steps: Sequence[Step]) -> str:
    """The change of each step over all FAQs, for each size and for all of them."""
    lines = ["| step | training questions | FAQs | utility before | change | ± | p | MRR before | after |"]
    lines.append("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for name in STEPS:
        chosen = [step for step in steps if step.name == name]
        sizes: list[int | None] = [*sorted({step.size for step in chosen})]
        for size in [*sizes, None] if chosen else []:
            part = [step for step in chosen if size in (None, step.size)]
            all_of_them = pooled(part)
            differences = all_of_them.after - all_of_them.before
            error = 1.96 * differences.std(ddof=1) / np.sqrt(len(differences))
            cells = [name, "all" if size is None else str(size), all_of_them.faq.removesuffix(" FAQs")]
            cells += [shown(all_of_them.before.mean()), f"{all_of_them.change:+.3f}", shown(error)]
            cells += [f"{all_of_them.p_value:.4f}", shown(all_of_them.mrr_before), shown(all_of_them.mrr_after)]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(["### Pooled: what each step changes, as served\n", *lines, ""])


def taken_table(steps: Sequence[Step]) -> str:
    """For how many FAQs training is taken, and gains."""
    lines = ["| training questions | FAQs | take the trained one | and gain utility | and gain MRR |"]
    lines.append("|---:|---:|---:|---:|---:|")
    trained = [step for step in steps if step.name == TRAINED]
    for size in sorted({step.size for step in trained}):
        part = [step for step in trained if step.size == size]
        taken = [step for step in part if step.is_taken]
        gain = sum(step.change > 0 for step in taken)
        mrr = sum(step.mrr_after > step.mrr_before for step in taken)
        lines.append(f"| {size} | {len(part)} | {len(taken)} | {gain} | {mrr} |")
    return "\n".join(["### How often training is taken\n", *lines, ""])


def precision_table(groups: Grouped) -> str:
    """The precision of what is asserted over all FAQs, in each state, with 95 % bounds by the questions."""
    lines = ["| state | precision at .8 | ± | precision at .9 | ± | cells |", "|---|---:|---:|---:|---:|---:|"]
    for state in STATES:
        chosen = [states[state] for states in groups.values() if state in states]
        chosen = [each for each in chosen if each.cell.state == state]
        if state == UNTRAINED:
            chosen = [each for each in chosen if each.cell.size == 0]
            chosen = list({each.cell: each for each in chosen}.values())
        cells = [state]
        for higher in (False, True):
            cells += [shown(value) for value in pooled_precision(chosen, higher=higher)]
        lines.append(f"| {' | '.join([*cells, str(len(chosen))])} |")
    return "\n".join(["### Precision of what is asserted, pooled\n", *lines, ""])


def pooled_precision(cells: Sequence[Measured], *, higher: bool) -> tuple[float | None, float | None]:
    """The precision over all cells, each FAQ the same, and half of its interval; a question counts once."""
    by_faq: defaultdict[str, list[Measured]] = defaultdict(list)
    for each in cells:
        by_faq[each.cell.faq].append(each)
    kept, good = [], []
    for of_faq in by_faq.values():
        weight = weights_of(of_faq[0])
        kept.append(weight * np.mean([asserted(each, higher=higher) for each in of_faq], axis=0))
        good.append(weight * np.mean([asserted(each, higher=higher) & right(each) for each in of_faq], axis=0))
    if not kept or not np.concatenate(kept).any():
        return None, None
    all_kept, all_good = np.concatenate(kept), np.concatenate(good)
    share = float(all_good.sum() / all_kept.sum())
    error = np.sqrt(((all_good - share * all_kept) ** 2).sum()) / all_kept.sum()
    return share, float(1.96 * error)


def step_table(steps: Sequence[Step]) -> str:
    """Each step of each FAQ, tested over all of them together that change an outcome."""
    tested = [step for step in steps if step.differs]
    p_values = holm([step.p_value for step in tested]) if tested else []
    corrected = {step.key: p_value for step, p_value in zip(tested, p_values, strict=True)}
    lines = ["| FAQ | training questions | step | taken | utility before | change | p (Holm) | smallest loss seen |"]
    lines.append("|---|---:|---|---|---:|---:|---:|---:|")
    lost = 0
    for step in steps:
        p_value = corrected.get(step.key, 1.0)
        is_loss = step.change < 0 and p_value < LEVEL
        lost += is_loss
        taken = "yes" if step.is_taken else "no"
        cells = [step.faq, str(step.size), step.name, taken, shown(step.before.mean()), f"{step.change:+.3f}"]
        cells += [f"{p_value:.4f}{' worse' if is_loss else ''}", shown(step.smallest_loss(len(tested)))]
        lines.append(f"| {' | '.join(cells)} |")
    seen = [loss for step in tested if (loss := step.smallest_loss(len(tested))) is not None]
    said = f"{lost} of {len(steps)} steps lose utility (Holm over the {len(tested)} that differ, {LEVEL:g})."
    if seen:
        said += f" The median test would see a loss of {np.median(seen):.3f} for each question in {POWER:.0%} of tries."
    return "\n".join(["### Each step\n", said + "\n", *lines, ""])


def cell_table(groups: Grouped, faq_of: Mapping[str, PublicFaq]) -> str:
    """Each search of each FAQ; what `serve` takes by itself is marked."""
    heads = ["FAQ", "entries", "training questions", "search", "served", "P@1", "MRR", "answered", "precision at .8"]
    heads += ["at .9", "others answered", "others none", "utility"]
    lines = [f"| {' | '.join(heads)} |", f"|---|---:|---:|---|---|{'---:|' * 8}"]
    for (faq, size), states in groups.items():
        for state in (*STATES, *BASELINES):
            measured = states.get(state)
            if measured is None or (state == UNTRAINED and size != 0):
                continue
            numbers = judged(measured)
            marks = ["served" if measured is served(states) else ""]
            cells = [faq, str(len(faq_of[faq].entries)), str(size), state, *marks, shown(numbers.first_right)]
            cells += [shown(numbers.mrr), shown(numbers.answered), shown(numbers.precision)]
            cells += [shown(numbers.precision_higher), shown(numbers.other_answered), shown(numbers.other_none)]
            lines.append(f"| {' | '.join([*cells, shown(numbers.utility)])} |")
    return "\n".join(["### Each search\n", *lines, ""])


def shown(value: float | None) -> str:
    """A number of a table."""
    return "–" if value is None else f"{value:.3f}"
