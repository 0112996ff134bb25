"""Join several FAQs into one, whose model may then start the training on another FAQ.

python examples/encoders/join_faqs.py DATA/robo_en DATA/openstreetmap --output joined
ap-ranker train joined --language english --output checkpoints/general
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Annotated

import typer

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.data.tables import read_table

TRAINING = "train"


def command(
    folders: Annotated[list[Path], typer.Argument(help="Each with answers.csv and questions.csv.")],
    output: Annotated[Path, typer.Option(help="A folder for answers.csv and train.csv.")],
) -> None:
    """Write the answers and the training questions of all; a name before an id tells whose it is."""
    output.mkdir(parents=True)
    with (
        (output / "answers.csv").open("w", encoding="utf-8", newline="") as answers_file,
        (output / "train.csv").open("w", encoding="utf-8", newline="") as training_file,
    ):
        answers = csv.writer(answers_file)
        training = csv.writer(training_file)
        answers.writerow(["aid", "question", "answer"])
        training.writerow(["question", "answer_ids"])
        for folder in folders:
            for row in read_table(folder / "answers.csv").rows:
                answers.writerow([f"{folder.name}-{row.need('aid')}", row.need("question"), row.need("answer")])
            for row in read_table(folder / "questions.csv").rows:
                if row.need("split") == TRAINING:
                    ids = [f"{folder.name}-{name}" for name in row.need("answer_ids").split()]
                    training.writerow([row.need("question"), " ".join(ids)])


if __name__ == "__main__":
    with report_user_errors():
        typer.run(command)
