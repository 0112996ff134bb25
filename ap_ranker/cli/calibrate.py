"""`ap-ranker calibrate`: from scores to probabilities, and when to give no answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from ap_ranker.cli.console import Console
from ap_ranker.cli.options import Answers, Device
from ap_ranker.errors import InputError
from ap_ranker.explain.plots import check_plotting, plot_reliability
from ap_ranker.files import restore, write_text_atomically
from ap_ranker.ranking.calibration import FUSED, MODEL, key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ap_ranker.data.dataset import Dataset
    from ap_ranker.evaluation.calibration import Rankings, TopAnswers
    from ap_ranker.ranking.calibration import Calibration

console = Console(soft_wrap=True)

SCORES = {MODEL: "the model's score", FUSED: "BM25's score added"}


def calibrate(
    checkpoint: Annotated[Path, typer.Argument(help="A checkpoint folder; its config.json keeps the calibration.")],
    dev: Annotated[Path, typer.Argument(help="Questions, best some without an answer: a file, or a folder with dev.*")],
    test: Annotated[
        Path | None, typer.Option(help="Measure on other questions: a file, or a folder with test.*")
    ] = None,
    precision: Annotated[
        str, typer.Option(help="Shares of the given answers that are to be right; each gets a threshold.")
    ] = "0.8,0.9,0.95",
    share: Annotated[
        float | None,
        typer.Option(help="Questions without an answer among all, where the data has none; 0.1 by default."),
    ] = None,
    answers: Answers = None,
    plot: Annotated[Path | None, typer.Option(help="Draw how reliable the probabilities are (PNG) here.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the numbers here, too.")] = None,
    device: Device = "auto",
) -> None:
    """Fit the probability that an answer is right, and thresholds below which it is better to give none."""
    from dataclasses import replace

    from ap_ranker.data.faq import Match
    from ap_ranker.data.reader import read_dataset
    from ap_ranker.evaluation.calibration import HIDDEN_SHARE, calibration_error, fit, rank, reliability, top_answers
    from ap_ranker.ranking.checkpoint import CARD, read_checkpoint_config, write_checkpoint_config
    from ap_ranker.ranking.ranker import Ranker
    from ap_ranker.training.calibration_card import calibration_text, card_with_calibration

    wished = _precisions(precision)
    if share is not None and not 0 < share < 1:
        raise InputError(f"Expected --share above 0 and below 1, found {share:g}.")
    if plot:
        check_plotting()
    restore(checkpoint)
    if not checkpoint.is_dir():
        raise InputError(
            f"Expected a checkpoint folder on this machine, as calibrate writes into it; found none at "
            f"{str(checkpoint)!r}. Fetch one of the hub first: hf download NAME --local-dir DIR"
        )
    ranker = Ranker.from_pretrained(checkpoint, device)
    assert ranker.config is not None
    match = Match(ranker.config.training.get("match", Match.both))
    splits = {"dev": dev} if test is None else {"dev": dev, "test": test}
    data = {split: read_dataset(path, split, answers=answers, match=match) for split, path in splits.items()}
    if share is not None and all(len(dataset.answerable) < len(dataset.questions) for dataset in data.values()):
        raise InputError(
            f"{data['dev'].name}: it has questions without a right answer, so --share, which is for data without them, "
            "says nothing here. Leave it out."
        )
    ranked = {}
    for split, dataset in data.items():
        ranked[split] = _with_unanswerable(rank(ranker, dataset), dataset, share or HIDDEN_SHARE)
    fits = {kind: fit(rankings, wished) for kind, rankings in ranked["dev"].items()}
    report: dict[str, Any] = {}
    for split, rankings_of in ranked.items():
        given = {kind: top_answers(fits[kind], rankings) for kind, rankings in rankings_of.items()}
        fitted = ", fitted to them" if split == "dev" else ""
        title = f"{len(data[split].questions):,} questions of {data[split].name}{fitted}"
        report[split] = _print(title, fits, given, wished)
    if plot:
        bins = {kind: reliability(each) for kind, each in given.items()}  # of the test questions, if there are any
        curves = {f"{SCORES[kind]}, ECE {calibration_error(each):.3f}": each for kind, each in bins.items()}
        plot_reliability(curves, title, plot)
    if json_file:
        write_text_atomically(json_file, json.dumps(report, indent=2) + "\n")
    made = all(question.positives for question in data[split].questions)
    measured = title + ("; each counts once more with its right answers hidden" if made else "")
    card = card_with_calibration(checkpoint, calibration_text(measured, SCORES, report[split]))
    write_checkpoint_config(checkpoint, replace(read_checkpoint_config(checkpoint), calibration=fits))
    if card is not None:
        write_text_atomically(checkpoint / CARD, card)
    written = "config.json" if card is None else f"config.json and {CARD}"
    console.print(f"Wrote the calibration into {escape(str(checkpoint))}: {written}.", highlight=False)


def _precisions(text: str) -> list[float]:
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(0 < value < 1 for value in found):
        raise InputError(f"Expected --precision as numbers between 0 and 1, such as 0.9,0.95; found {text!r}.")
    return sorted(set(found))


def _with_unanswerable(rankings: dict[str, Rankings], dataset: Dataset, share: float) -> dict[str, Rankings]:
    """The rankings, with made questions that have no right answer where the data has none."""
    from ap_ranker.evaluation.calibration import with_hidden

    unanswerable = len(dataset.questions) - len(dataset.answerable)
    of = f"{len(dataset.questions):,} questions of {escape(dataset.name)}"
    if unanswerable:
        console.print(f"{unanswerable:,} of {of} have no right answer.", highlight=False)
        return rankings
    console.print(
        f"All {of} have a right answer. Each counts once more with its right answers hidden, all of these "
        f"as {share:.0%} of the questions.",
        highlight=False,
    )
    return {kind: with_hidden(each, share) for kind, each in rankings.items()}


def _print(
    title: str, fits: Mapping[str, Calibration], given: Mapping[str, TopAnswers], wished: list[float]
) -> dict[str, Any]:
    """Print what the thresholds do to these questions, and return it."""
    from dataclasses import asdict

    from ap_ranker.evaluation.calibration import calibration_error, outcome, reliability

    table = Table(title=escape(title))
    for column in ("ranked by", "wished precision", "threshold", "precision", "answered", "unanswerable rejected"):
        table.add_column(column, justify="left" if column == "ranked by" else "right")
    report: dict[str, Any] = {}
    for kind, top_answers in given.items():
        bins = reliability(top_answers)
        report[kind] = {"calibration_error": calibration_error(bins), "reliability": [asdict(each) for each in bins]}
        limits: dict[str, float | None] = {"-": 0.0}
        limits |= {key(value): fits[kind].threshold(value) for value in wished}
        for number, (value, least) in enumerate(limits.items()):
            name = SCORES[kind] if number == 0 else ""
            last = number == len(limits) - 1
            if least is None:
                table.add_row(name, value, "not reached", end_section=last)
                continue
            found = outcome(top_answers, least)
            report[kind].setdefault("thresholds", {})[value] = {"threshold": least, **asdict(found)}
            shares = (
                "-" if part is None else f"{part:.1%}" for part in (found.precision, found.answered, found.rejected)
            )
            table.add_row(name, value, f"{least:.3f}", *shares, end_section=last)
    console.print(table)
    errors = ", ".join(f"{SCORES[kind]} {each['calibration_error']:.3f}" for kind, each in report.items())
    console.print(f"Calibration error (ECE): {errors}.", highlight=False)
    return report
