"""What `run.py` measured, for docs/decisions.md: precision against the share that is answered, and a table of FAQs.

python examples/no_answer/decision_plot.py    # draws docs/images/decisions.png, prints the table
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.files import atomic_file

HERE = Path(__file__).parent
PICTURE = HERE.parents[1] / "docs" / "images" / "decisions.png"

DRAWN = "example, stored questions"
"""The FAQ with the most questions, and with users' questions of its own to calibrate on."""

CURVES = {
    "users' questions": ("ap-ranker, calibrated on users' questions", "tab:green", "-"),
    "prior": ("ap-ranker, uncalibrated: other FAQs", "tab:blue", "-"),
    "bi-encoder, users' questions": ("the encoder's cosine, calibrated", "tab:orange", "--"),
    "BM25, users' questions": ("BM25, calibrated", "dimgrey", ":"),
}
"""Strategy -> its name, colour and line."""

ROWS = (
    ("example, stored questions", "results.json", "168 entries, stored questions"),
    ("example, documents", "results.json", "the same, answers alone"),
    ("example, wordings", "results.json", "the same, all wordings"),
    ("covid_en, stored questions", "results.json", "1,472 entries, often near copies"),
    ("covid_en, documents", "results.json", "the same, answers alone"),
    ("coworking, stored questions", "results.json", "28 entries, stored questions"),
    ("pool_de, stored questions", "results.json", "28 entries in German"),
    ("pool_de, stored questions", "results_multilingual.json", "the same, multilingual-e5-small"),
)
"""FAQ, file, name on the page."""

TARGETS = (0.8, 0.9, 0.95)


def table() -> str:
    """A row for each FAQ before any calibration of its own: answered, and right among these, at each target."""
    columns = "".join(f" {target:g}: answered | right |" for target in TARGETS)
    lines = [f"| FAQ |{columns} other matters: none |", "|---|" + "---:|" * (2 * len(TARGETS) + 1)]
    for faq, file, name in ROWS:
        shares: list[float | None] = []
        for target in TARGETS:
            searched = (faq, "prior", target)
            [row] = [row for row in _results(file) if (row["faq"], row["strategy"], row["target"]) == searched]
            shares += [row["answer"], row["precision"]]
        shares.append(row["none of off-topic"])  # the floor is the same at each target
        cells = ["–" if share is None else f"{share:.0%}" for share in shares]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def plot_decisions(rows: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Draw a line for each strategy through the target precisions that it reaches."""
    figure = Figure(figsize=(7.5, 4.4), layout="constrained")
    axes = figure.subplots()
    drawn = [row for row in rows if row["faq"] == DRAWN and row["precision"] is not None]
    for strategy, (name, colour, line) in CURVES.items():
        own = [row for row in drawn if row["strategy"] == strategy]
        answered = [row["answer"] for row in own]
        precision = [row["precision"] for row in own]
        axes.plot(answered, precision, color=colour, linestyle=line, marker="o", label=name)
    for target in sorted({row["target"] for row in drawn}):
        axes.axhline(target, color="lightgrey", linewidth=1, zorder=0)
    axes.set(xlabel="share of questions that get an answer", ylabel="share of answers that are right")
    axes.set(xlim=(0, 0.8), ylim=(0.7, 1))
    axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper right", edgecolor="none", framealpha=1)
    with atomic_file(path) as draft:
        figure.savefig(draft, format="png", dpi=130)


def command(output: Annotated[Path, typer.Option(help="The PNG file to write.")] = PICTURE) -> None:
    """Draw the picture, print the table."""
    plot_decisions(_results("results.json"), output)
    typer.echo(table(), nl=False)


def _results(file: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((HERE / file).read_text(encoding="utf-8"))
    return rows


if __name__ == "__main__":
    with report_user_errors():
        typer.run(command)
