"""The rows of `results.json` and their tables: those of `results.md`, and the README's, which it prints as a script."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from protocols import PROTOCOLS

from ap_ranker.evaluation.evaluation_report import EvaluationReport
from ap_ranker.evaluation.markdown import markdown_table, spread

sys.path.append(str(Path(__file__).resolve().parents[1]))
from plain_cosine import report_cosine  # noqa: F401
from result_rows import ResultRow, at_hand, describe_settings, encoder_at_hand  # noqa: F401  for scripts beside this

MEASURES = ("MAP", "MRR", "P@1")
END_TO_END = {"Hit@1": "P@1", "MRR@100": "MRR"}
"""What is shown of the search over all answers, and its name where only the 100 best are ranked."""


@dataclass(frozen=True)
class Measured:
    """What a model's runs reached on one choice of candidates.

    Attributes:
        candidates: what was ranked, in words, for each seed: a model that finds candidates itself finds others.
        n_questions: questions with a right answer, which the means are over.
        unanswerable: questions without one.
        model: measure -> one value per seed.
        bm25: measure -> BM25's value on each seed's candidates.
        fused: measure -> one value per seed of model and BM25 together; the model's own where BM25 adds nothing.
    """

    candidates: list[str]
    n_questions: int
    unanswerable: int
    model: dict[str, list[float]]
    bm25: dict[str, list[float]]
    fused: dict[str, list[float]]

    @classmethod
    def of(cls, reports: Sequence[EvaluationReport]) -> Measured:
        """What the reports of several seeds say, on the same questions."""
        return cls(
            candidates=[report.candidates for report in reports],
            n_questions=reports[0].n_questions,
            unanswerable=reports[0].unanswerable,
            model=_per_seed([report.model for report in reports]),
            bm25=_per_seed([report.bm25 for report in reports]),
            fused=_per_seed([report.fused for report in reports]),
        )

    @property
    def fusion(self) -> dict[str, list[float]] | None:
        """`fused`, unless BM25 adds nothing with any seed."""
        return None if self.fused == self.model else self.fused


@dataclass(frozen=True)
class Row(ResultRow):
    """One model on one data set.

    Attributes:
        data: a key of `PROTOCOLS`.
        config: the configuration's name; with `data` what tells a row from another.
        model: the registry name.
        test: measured on the candidates that came with the data.
        end_to_end: measured on what BM25 fetched from all answers, where the protocol asks for it.
        training_seconds: per seed.
        machines: what each seed was trained on.
        commits: the version of the code that trained each seed; `+` marks changes that were not committed.
        command: what wrote this row, but for the seeds; paths shortened to their last part.
    """

    data: str
    config: str
    model: str
    test: Measured
    end_to_end: Measured | None
    training_seconds: list[float]
    machines: list[str]
    commits: list[str]
    command: str

    @property
    def key(self) -> tuple[str, str]:
        return self.data, self.config

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Row:
        search = fields["end_to_end"]
        parts = {"test": Measured(**fields["test"]), "end_to_end": None if search is None else Measured(**search)}
        return cls(**{**fields, **parts})


def _per_seed(each: Sequence[dict[str, float]]) -> dict[str, list[float]]:
    found = defaultdict(list)
    for measures in each:
        for measure, value in measures.items():
            found[measure].append(value)
    return dict(found)


def read_papers() -> dict[str, Any]:
    """The papers' numbers, from the file beside this one."""
    papers: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("papers.yaml").read_text(encoding="utf-8"))
    return papers


def render(rows: Iterable[Row], papers: Mapping[str, Any]) -> str:
    """`results.md`: for each data set a table of what was reached, the best MRR first, and one of how.

    Args:
        rows: in any order.
        papers: what `papers.yaml` holds.
    """
    parts = [
        "# Results\n\nWritten by `run.py` from `results.json`; [how to read it](README.md#how-to-read-the-tables)."
    ]
    for data, protocol in PROTOCOLS.items():
        own = sorted((row for row in rows if row.data == data), key=lambda row: -float(np.mean(row.test.model["MRR"])))
        if not own:
            continue
        known = papers.get(data, {})
        tables = [_quality(own, known)]
        if protocol.end_to_end:
            tables.append("End to end, without pools:\n\n" + _search(own))
        tables += [_origin(own), *([f"For comparison: {known['compare']}"] if "compare" in known else [])]
        parts.append("\n\n".join([f"## {protocol.title}", *tables]))
    return "\n\n".join(parts) + "\n"


def summary(rows: Iterable[Row], papers: Mapping[str, Any]) -> str:
    """The tables of docs/archive/results_papers.md: BM25, then the models of a data set, the best first.

    Args:
        rows: in any order.
        papers: what `papers.yaml` holds.
    """
    parts = []
    for data, protocol in PROTOCOLS.items():
        names, searched = protocol.measures, list(END_TO_END.values()) if protocol.end_to_end else []
        own = sorted(
            (row for row in rows if row.data == data), key=lambda row: -float(np.mean(row.test.model[names[0]]))
        )
        lines = []
        for row in own:
            share = _answered(row.test) if protocol.all_questions else 1.0
            found = [*_cells(row.test.model, names, share), *_cells(row.test.fusion, names, share)]
            found += _cells(row.end_to_end.fused if row.end_to_end else None, searched)
            if not lines:
                bm25, search = row.test.bm25, next((row.end_to_end.bm25 for row in own if row.end_to_end), {})
                values = [_mean(bm25[name], share) for name in names], [_mean(search[name]) for name in searched]
                lines.append(["BM25", "", *values[0], *("" for _ in names), *values[1], ""])
            lines.append([f"`{row.config}`", str(len(row.seeds)), *found, _paper(row, papers.get(data, {}))])
        if lines:
            titles = [
                *names,
                *(f"with BM25: {name}" for name in names),
                *(f"end to end: {name}" for name in END_TO_END if searched),
            ]
            parts.append(f"## {protocol.title}\n\n" + markdown_table(["", "seeds", *titles, "paper"], lines))
    return "\n\n".join(parts) + "\n"


def _cells(values: Mapping[str, list[float]] | None, names: Iterable[str], share: float = 1.0) -> list[str]:
    return [spread([share * value for value in values[name]]) if values else "" for name in names]


def _mean(values: Sequence[float], share: float = 1.0) -> str:
    """BM25's mean: without a seed of its own, it has no deviation to show."""
    return f"{share * np.mean(values):.3f}"


def _answered(test: Measured) -> float:
    """The share of questions with a right answer, by which means over all questions are lower."""
    return test.n_questions / (test.n_questions + test.unanswerable)


def _quality(rows: list[Row], papers: Mapping[str, Any]) -> str:
    official = PROTOCOLS[rows[0].data].all_questions
    titles = ["model", "seeds", *MEASURES]
    if official:
        asked = rows[0].test.n_questions + rows[0].test.unanswerable
        titles += [f"{measure}, all {asked} questions" for measure in MEASURES[:2]]
    lines = []
    for row in rows:
        test = row.test
        cells = [row.config, str(len(row.seeds)), *_cells(test.model, MEASURES)]
        if official:
            cells += _cells(test.model, MEASURES[:2], _answered(test))
        lines.append([*cells, *_beside(test, MEASURES), _paper(row, papers), _seconds(row)])
    return markdown_table([*titles, *_titles_beside(MEASURES), "paper", "training"], lines)


def _search(rows: list[Row]) -> str:
    measures = tuple(END_TO_END.values())
    lines = [
        [
            row.config,
            *_cells(row.end_to_end.model, measures),
            *_beside(row.end_to_end, measures),
        ]
        for row in rows
        if row.end_to_end is not None
    ]
    return markdown_table(["model", *END_TO_END, *_titles_beside(END_TO_END)], lines)


def _origin(rows: list[Row]) -> str:
    lines = [
        [
            row.config,
            "; ".join(dict.fromkeys(row.machines)),
            ", ".join(dict.fromkeys(row.commits)),
            f"`{row.command} --seeds {','.join(map(str, row.seeds))}`",
        ]
        for row in rows
    ]
    return markdown_table(["model", "trained on", "commit", "command"], lines)


def _titles_beside(measures: Iterable[str]) -> list[str]:
    names = " / ".join(measures)
    return [f"BM25: {names}", f"fused with BM25: {names}"]


def _beside(measured: Measured, measures: Iterable[str]) -> list[str]:
    """BM25 and the fusion on the same candidates."""
    fusion = measured.fusion
    return [
        " / ".join(_mean(measured.bm25[measure]) for measure in measures),
        " / ".join(spread(fusion[measure]) for measure in measures) if fusion else "",
    ]


def _paper(row: Row, papers: Mapping[str, Any]) -> str:
    """What the paper reports: a value, or one for each of its test sets; a dash where it has none."""
    numbers = papers.get("models", {})
    found = numbers.get(row.config, numbers.get(row.model))
    if found is None:
        return "–"
    note = f" ({found['note']})" if "note" in found else ""
    values = {name: value if isinstance(value, list) else [value] for name, value in found.items() if name != "note"}
    return ", ".join(f"{name} " + " / ".join(f"{v:.3f}" for v in each) for name, each in values.items()) + note


def _seconds(row: Row) -> str:
    return f"{np.mean(row.training_seconds):,.0f} s"


if __name__ == "__main__":
    sys.stdout.write(summary(Row.read(Path(__file__).with_name("results.json")), read_papers()))
