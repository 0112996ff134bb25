"""One FAQ of several data sets: questions of their training parts, and the answers that are right for these.

python examples/transfer/combine.py insuranceqa wikiqa trecqa semeval covid-faq-en.csv.gz --output combined
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.data.dataset import Answer, Dataset, Question, sample_questions
from ap_ranker.data.faq import DEFAULT_MATCH
from ap_ranker.data.reader import read_dataset
from ap_ranker.data.split import check_is_new, split_questions, write_parts
from ap_ranker.errors import InputError

sys.path.append(str(Path(__file__).resolve().parents[1] / "reproduce"))
sys.path.append(str(Path(__file__).resolve().parents[1] / "small_data"))
from protocols import PROTOCOLS, read_parts
from sampling import read_covid

SHARES = {"train": 1.0, "dev": 0.1, "test": 0.25}
"""Maximum number of questions of each part, as a share of that of training questions."""

SEED = 1
"""Of the draws."""

console = Console(soft_wrap=True)


def command(
    sources: Annotated[
        list[Path],
        typer.Argument(
            help="Folders as `examples/reproduce` reads them, named as there; FAQs with train.csv, test.csv and "
            "answers.csv; files of question, answer."
        ),
    ],
    output: Annotated[Path, typer.Option(help="The folder to write.")],
    most: Annotated[int, typer.Option(help="Maximum number of training questions of each.", min=10)] = 700,
) -> None:
    """Write train.csv, dev.csv, test.csv and answers.csv."""
    check_is_new(output)
    row_of: dict[str, int] = {}  # answer -> its position
    questions: dict[str, list[Question]] = {name: [] for name in SHARES}
    for source in sources:
        for (name, share), data in zip(SHARES.items(), read_source(source), strict=True):
            chosen = sample_questions(data, round(most * share), SEED).questions
            for question in chosen:
                rows = [row_of.setdefault(data.answers[row].text, len(row_of)) for row in question.positives]
                questions[name].append(Question(f"{source.name}-{question.id}", question.text, tuple(rows)))
            console.print(f"{source.name}, {name}: {len(chosen):,} questions")
    answers = [Answer(f"answer-{row + 1}", text) for text, row in row_of.items()]
    write_parts({name: Dataset(name, answers, part) for name, part in questions.items()}, answers, output)
    console.print(f"{output}: {len(answers):,} answers")


def read_source(source: Path) -> tuple[Dataset, Dataset, Dataset]:
    """Training, dev and test questions, as the tables of the papers and of small data have them.

    Of a FAQ in a folder, a tenth of the training questions are the dev questions.

    Raises:
        InputError: neither a folder of `examples/reproduce`, nor a FAQ, nor a file, or it cannot be used.
    """
    if source.is_file():
        faq = read_covid(source, DEFAULT_MATCH)
        return faq.training, faq.dev, faq.test
    if (source / "train.csv").is_file():
        training, dev = split_questions(read_dataset(source, "train"), SHARES["dev"], SEED)
        return training, dev, read_dataset(source, "test")
    if source.name not in PROTOCOLS:
        known = ", ".join(PROTOCOLS)
        raise InputError(f"{source}: expected a file, a folder with train.csv, or one that is named {known}.")
    parts = read_parts(source.name, source, DEFAULT_MATCH)
    return parts.training, parts.dev, parts.test


if __name__ == "__main__":
    with report_user_errors():
        typer.run(command)
