"""What a visitor sees of a FAQ with one question for each entry.

    python examples/no_answer/shown.py --shared DATA --model CHECKPOINT

The written questions about the English COVID-19 FAQ, put to the default search; without `--model`, untrained.
`--write FAQ.csv` only writes the FAQ, for README's own path: `ap-ranker split`, `train`, `calibrate`.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from faqs import DATA, rows_of
from rich.console import Console

from ap_ranker.data.faq import Entry, write_entries
from ap_ranker.search.setup import search_faq, set_up
from ap_ranker.text.reading import normalized

SHOWN = 5
"""Number of answers, or maybes, on the page."""

console = Console(soft_wrap=True)


def command(
    shared: Annotated[Path, typer.Option(help="A folder with faq_public/.")],
    model: Annotated[str | None, typer.Option(help="A checkpoint; by default, none.")] = None,
    precision: Annotated[float, typer.Option(help="The target.")] = 0.9,
    split: Annotated[str, typer.Option(help="dev or test.")] = "test",
    write: Annotated[Path | None, typer.Option(help="Only write the FAQ to this file.")] = None,
) -> None:
    """Count the questions whose right entry is an answer, a maybe, or not shown, and those without an entry."""
    rows = rows_of(shared / "faq_public" / "covid-faq-en.csv.gz")
    faq = write or Path("covid_en.csv")
    write_entries([Entry(row["question"], row["answer"], {}, "") for row in rows], faq)
    if write is not None:
        return
    asked = [row for row in rows_of(DATA / "covid_en_questions.csv") if row["split"] == split]
    with set_up(faq, model=model, limits={"precision": precision}) as setup:
        found = search_faq([row["question"] for row in asked], setup, SHOWN)
    counts: Counter[str] = Counter()
    for row, result in zip(asked, found, strict=True):
        right = {normalized(rows[int(number)]["answer"]) for number in row["rows"].split()}
        places = [normalized(answer["answer"]) in right for answer in result["answers"]]
        seen = "first" if places[:1] == [True] else "shown" if any(places) else "not shown"
        counts[f"{result['outcome']}, right {seen}" if right else f"{result['outcome']}, no right entry"] += 1
    for name, count in sorted(counts.items()):
        console.print(f"{count:4} {name}")


if __name__ == "__main__":
    typer.run(command)
