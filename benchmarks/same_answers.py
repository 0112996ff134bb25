"""Does a change of the code change an answer? The same questions are put to two checkouts of this project.

python -m benchmarks.same_answers ../earlier-checkout --shared ../shared/data

All test questions of the example FAQ, with its training questions as known wordings; with --shared, also 200 of
JHU-COVID-QA, whose answers are searched without their stored questions, and 200 of InsuranceQA, among the answers of
as many more. Each checkout asks by `ap-ranker ask`, as users do. It ends with 1 if an outcome, a first answer or its
probability differs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.data.tables import read_table
from ap_ranker.errors import InputError
from ap_ranker.evaluation.markdown import markdown_table
from ap_ranker.files import csv_text

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "faq"

ASKED = 200
"""Number of questions of each data set beside the example."""

ENTRIES = 1000
"""Number of InsuranceQA's questions whose answers are searched."""

TOLERANCE = 1e-6
"""Probabilities that differ by less are equal: the order of a sum may differ."""


@dataclass(frozen=True)
class Search:
    """Questions, and what `ap-ranker ask` searches for their answers."""

    name: str
    questions: Sequence[str]
    options: Sequence[str]

    def ask(self, checkout: Path, model: str | None) -> list[dict[str, Any]]:
        """What a checkout says of each question; InputError if it fails."""
        arguments = ["-m", "ap_ranker", "ask", *self.questions, *self.options, "--json"]
        if model is not None:
            arguments += ["--model", model]
        environment = {**os.environ, "PYTHONPATH": str(checkout.resolve())}
        with TemporaryDirectory() as empty:  # so that no checkpoint of a working directory is taken
            done = subprocess.run(
                [sys.executable, *arguments], cwd=empty, env=environment, capture_output=True, text=True, check=False
            )
        if done.returncode:
            raise InputError(f"{checkout}: expected answers of {self.name}, found an error: {done.stderr[-500:]}")
        replies: list[dict[str, Any]] = json.loads(done.stdout)
        return replies


def main(
    before: Annotated[Path, typer.Argument(help="Another checkout of this project.")],
    shared: Annotated[Path | None, typer.Option(help="A folder with faq_public and insuranceqa.")] = None,
    model: Annotated[str | None, typer.Option(help="A checkpoint folder; by default, the untrained encoder.")] = None,
) -> None:
    """Print how many questions have another outcome, first answer or probability than before."""
    checkpoint = None if model is None else str(Path(model).resolve())
    rows = []
    with TemporaryDirectory() as work:
        for search in searches(Path(work), shared):
            earlier = search.ask(before, checkpoint)
            later = search.ask(EXAMPLE.parents[1], checkpoint)
            changed = changed_questions(earlier, later)
            rows.append([search.name, f"{len(later):,}", *(f"{len(texts):,}" for texts in changed.values())])
            for kind, texts in changed.items():
                for text in texts[:3]:
                    typer.echo(f"{search.name}, another {kind}: {text}", err=True)
    typer.echo(markdown_table(["data", "questions", "other outcome", "other first answer", "other probability"], rows))
    if any(row[2:] != ["0", "0", "0"] for row in rows):
        raise typer.Exit(1)


def changed_questions(earlier: list[dict[str, Any]], later: list[dict[str, Any]]) -> dict[str, list[str]]:
    """What has changed -> the questions of which it has."""
    changed: dict[str, list[str]] = {"outcome": [], "first answer": [], "probability": []}
    for was, now in zip(earlier, later, strict=True):
        if was["outcome"] != now["outcome"]:
            changed["outcome"].append(now["question"])
        if _first(was) != _first(now):
            changed["first answer"].append(now["question"])
        if abs(_probability(was) - _probability(now)) > TOLERANCE:
            changed["probability"].append(now["question"])
    return changed


def _first(reply: Mapping[str, Any]) -> str:
    """The first answer that is shown; empty if there is none."""
    answers = reply["answers"]
    return str(answers[0]["answer"]) if answers else ""


def _probability(reply: Mapping[str, Any]) -> float:
    """-1 if there is none."""
    probability = reply["probability"]
    return -1.0 if probability is None else float(probability)


def searches(work: Path, shared: Path | None) -> list[Search]:
    """All of them; their FAQs are written into a folder."""
    options = ["--documents", str(EXAMPLE / "answers.csv"), "--wordings", str(EXAMPLE / "train.csv")]
    options += ["--language", "english"]
    questions = [row.need("question") for row in read_table(EXAMPLE / "test.csv").rows]
    chosen = [Search("example", questions, options)]
    if shared is not None:
        chosen += [_covid(work, shared), _insurance(work, shared)]
    return chosen


def _covid(work: Path, shared: Path) -> Search:
    rows = read_table(shared / "faq_public" / "covid-faq-en.csv.gz").rows
    faq = _written(work / "covid.csv", [row.need("answer") for row in rows])
    questions = [row.need("question") for row in rows[:ASKED]]
    return Search("JHU-COVID-QA", questions, ["--documents", str(faq)])


def _insurance(work: Path, shared: Path) -> Search:
    folder = shared / "insuranceqa"
    text_of = {row.need("aid"): row.need("answer") for row in read_table(folder / "answers.tsv.gz").rows}
    rows = read_table(folder / "test.tsv.gz").rows[:ENTRIES]
    answers: dict[str, None] = {}  # each once, in a fixed order
    for row in rows:
        for answer_id in row.need("answer_ids").split():
            answers[text_of[answer_id]] = None
    faq = _written(work / "insurance.csv", list(answers))
    questions = [row.need("question") for row in rows[:ASKED]]
    return Search("InsuranceQA", questions, ["--documents", str(faq)])


def _written(path: Path, answers: Sequence[str]) -> Path:
    path.write_text(csv_text(["answer"], [[answer] for answer in answers]), encoding="utf-8")
    return path


if __name__ == "__main__":
    with report_user_errors():
        typer.run(main)
