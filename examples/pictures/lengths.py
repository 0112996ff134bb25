"""P@1 of a model and of BM25 against the length of the right answers: do long ones make a model fail?

python examples/pictures/lengths.py CHECKPOINT DATA --output lengths.png
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from matplotlib.figure import Figure

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.cli.options import Answers
from ap_ranker.data.dataset import answerable
from ap_ranker.evaluation.evaluate import evaluate
from ap_ranker.evaluation.evaluation_report import EvaluationReport
from ap_ranker.files import atomic_file
from ap_ranker.text.tokenizer import split_words

LENGTH_GROUPS = 6


def command(
    checkpoint: Annotated[str, typer.Argument(help="A checkpoint folder or a hub name.")],
    data: Annotated[Path, typer.Argument(help="A file of questions, or a folder with test.*")],
    output: Annotated[Path, typer.Option(help="The PNG file to write.")],
    answers: Answers = None,
) -> None:
    """Draw P@1 against the answers' length."""
    report = evaluate(checkpoint, data, answers=answers)
    plot_lengths(by_length(report), report.model_name, output)


def by_length(report: EvaluationReport) -> list[dict[str, float]]:
    """P@1 by the length of the right answers (dos Santos et al. 2016, figure 4).

    Up to `LENGTH_GROUPS` groups of similar size, shortest answers first; equally long ones share a group: its mean
    lengths in words, the `shortest` and the `longest`; its `n_questions`; P@1 of `model` and `bm25`.
    """
    words = [len(split_words(answer.text)) for answer in report.dataset.answers]
    lengths = np.array([np.mean([words[row] for row in q.positives]) for q in answerable(report.dataset)])
    limits = np.unique(np.quantile(lengths, np.linspace(0, 1, LENGTH_GROUPS + 1)[1:-1], method="lower"))
    group_of = np.searchsorted(limits, lengths)  # a length equal to a limit belongs below it
    groups = []
    for rows in (group_of == group for group in np.unique(group_of)):
        p_at_1 = {name: float(getattr(report, f"{name}_each")["P@1"][rows].mean()) for name in ("model", "bm25")}
        group = {"shortest": float(lengths[rows].min()), "longest": float(lengths[rows].max())}
        groups.append(group | {"n_questions": int(rows.sum())} | p_at_1)
    return groups


def plot_lengths(groups: Sequence[Mapping[str, float]], name: str, path: Path) -> None:
    """Plot P@1 of the model and of BM25 against the length of the right answers."""
    figure = Figure(figsize=(7.5, 4.5), layout="constrained")
    axes = figure.subplots()
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    ranges = ["{shortest:.0f} - {longest:.0f}\n{n_questions:,} questions".format(**group) for group in groups]
    axes.plot([group["model"] for group in groups], color="tab:blue", marker="o", label=name)
    axes.plot([group["bm25"] for group in groups], color="tab:orange", marker="o", label="BM25")
    axes.set_xticks(range(len(groups)), ranges, fontsize=8)
    axes.set(xlabel="mean length of a question's right answers, in words", ylabel="P@1")
    axes.legend(frameon=False)
    with atomic_file(path) as draft:
        figure.savefig(draft, format="png", dpi=150)


if __name__ == "__main__":
    with report_user_errors():
        typer.run(command)
