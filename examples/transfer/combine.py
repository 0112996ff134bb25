"""One FAQ of several data sets: questions of their training parts, and the answers that are right for these.

python examples/transfer/combine.py combined insuranceqa wikiqa trecqa semeval covid-faq-en.csv.gz --most 700
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.data.dataset import Dataset, sample_questions
from ap_ranker.data.faq import DEFAULT_MATCH
from ap_ranker.errors import InputError
from ap_ranker.files import atomic_directory, csv_text

sys.path.append(str(Path(__file__).resolve().parents[1] / "reproduce"))
sys.path.append(str(Path(__file__).resolve().parents[1] / "small_data"))
from protocols import PROTOCOLS, read_parts
from sampling import read_covid

DEV_SHARE, TEST_SHARE = 0.1, 0.25
"""Numbers of dev and test questions, as shares of the largest number of training questions."""

PARTS = ("train", "dev", "test")

SEED = 1
"""Of the draws."""

console = Console(soft_wrap=True)


def command(
    target: Annotated[Path, typer.Argument(help="The folder to write.")],
    sources: Annotated[
        list[Path],
        typer.Argument(
            help="Folders as `examples/reproduce` reads them, named as there, and files of question, answer."
        ),
    ],
    most: Annotated[int, typer.Option(help="Maximum number of training questions of each.", min=10)] = 700,
) -> None:
    """Write train.csv, dev.csv, test.csv and answers.csv."""
    answers: dict[str, str] = {}  # text -> id
    rows: dict[str, list[list[str]]] = {name: [] for name in PARTS}
    for source in sources:
        parts = read_source(source)
        for name, data, share in zip(PARTS, parts, (1.0, DEV_SHARE, TEST_SHARE), strict=True):
            chosen = sample_questions(data, round(most * share), SEED).questions
            for question in chosen:
                texts = [data.answers[row].text for row in question.positives]
                ids = [answers.setdefault(text, f"answer-{len(answers) + 1}") for text in texts]
                rows[name].append([f"{source.name}-{question.id}", question.text, " ".join(ids)])
            console.print(f"{source.name}, {name}: {len(chosen):,} questions")
    with atomic_directory(target) as draft:
        for name in PARTS:
            (draft / f"{name}.csv").write_text(csv_text(["qid", "question", "answer_ids"], rows[name]), "utf-8")
        named = ([name, text] for text, name in answers.items())
        (draft / "answers.csv").write_text(csv_text(["aid", "answer"], named), "utf-8")
    console.print(f"{target}: {len(answers):,} answers")


def read_source(source: Path) -> tuple[Dataset, Dataset, Dataset]:
    """Training, dev and test questions, as the tables of the papers and of small data have them.

    Raises:
        InputError: neither a folder of `examples/reproduce` nor a file, or it cannot be used.
    """
    if source.is_file():
        faq = read_covid(source, DEFAULT_MATCH)
        return faq.training, faq.dev, faq.test
    if source.name not in PROTOCOLS:
        raise InputError(f"{source}: expected a file, or a folder named {', '.join(PROTOCOLS)}.")
    parts = read_parts(source.name, source, DEFAULT_MATCH)
    return parts.training, parts.dev, parts.test


if __name__ == "__main__":
    with report_user_errors():
        typer.run(command)
