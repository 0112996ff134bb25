"""What training on titles is worth: without any question of a user to learn from, is a trained model better?

python examples/titles/run.py --data examples/faq
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from ap_ranker.cli.epoch_lines import EpochLines
from ap_ranker.cli.errors import report_user_errors
from ap_ranker.cli.options import Device
from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.data.faq import Match, read_faq
from ap_ranker.data.reader import read_dataset
from ap_ranker.errors import InputError
from ap_ranker.evaluation.evaluate import evaluate
from ap_ranker.evaluation.evaluation_report import EvaluationReport
from ap_ranker.evaluation.markdown import markdown_table
from ap_ranker.evaluation.significance import holm, randomisation_test
from ap_ranker.files import write_text_atomically
from ap_ranker.text.reading import normalized
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.train import train_or_load

HERE = Path(__file__).resolve().parent
MEASURES = ("MRR", "P@1")
UNTRAINED, QUICK, NORMAL = "untrained", "titles, --quick", "titles"

console = Console(soft_wrap=True)


def command(
    data: Annotated[Path, typer.Option(help="A folder with dev.*, test.* and answers.*.")],
    language: Annotated[str, typer.Option(help="Of BM25's stemmer.")] = "english",
    seed: Annotated[int, typer.Option(help="Of the runs.")] = 1,
    runs: Annotated[Path, typer.Option(help="A folder for the checkpoints; finished ones are not trained again.")] = (
        Path("checkpoints/titles")
    ),
    quick: Annotated[bool, typer.Option("--quick", help="Leave out the default training: minutes.")] = False,
    device: Device = "auto",
) -> None:
    """Train on the stored questions of a FAQ alone, and compare on its test questions."""
    faq = data / "answers.csv"
    training = read_titles(faq)
    dev, test = (without_questions(read_dataset(data, split, match=Match.answer)) for split in ("dev", "test"))
    check_leaks(training, test)
    base = TrainingConfig("ap-transformer", language=language, match=Match.answer, seed=seed)
    configs = {
        UNTRAINED: replace(base, epochs=0),
        QUICK: replace(base, effort="quick"),
        NORMAL: base,
    }
    if quick:
        del configs[NORMAL]
    reports = {}
    for name, config in configs.items():
        folder = runs / name.replace(", --", "-") / str(seed)
        ranker = train_or_load(training, dev, folder, config, device=device, callbacks=(EpochLines(console),))
        reports[name] = evaluate(ranker, test)
        console.print(f"{name}: test MRR {reports[name].model['MRR']:.3f}")
        results = {
            "data": data.resolve().name,
            "language": language,
            "seed": seed,
            "pairs": training.pairs,
            "questions": reports[name].n_questions,
            "answers": len(test.answers),
            "rows": rows_of(reports, language),
        }
        write_text_atomically(HERE / "results.json", json.dumps(results, indent=2) + "\n")
        write_text_atomically(HERE / "results.md", render(results))


def read_titles(faq: Path) -> Dataset:
    """Each stored question of a FAQ with its answer, unless that repeats it."""
    entries = [
        each for each in read_faq(faq) if each.question and normalized(each.question) not in normalized(each.answer)
    ]
    pairs = [(entry.question, entry.answer) for entry in entries]
    rows = {answer: i for i, answer in enumerate(dict.fromkeys(answer for _, answer in pairs))}
    questions = [Question(f"title-{i}", title, (rows[answer],)) for i, (title, answer) in enumerate(pairs)]
    return Dataset(f"titles of {faq.name}", [Answer(str(i), answer) for answer, i in rows.items()], questions)


def without_questions(data: Dataset) -> Dataset:
    """The answers as passages, which have no stored questions."""
    return replace(data, answers=[replace(answer, wordings=()) for answer in data.answers])


def check_leaks(training: Dataset, test: Dataset) -> None:
    """Refuse test questions that are titles."""
    titles = {" ".join(question.text.casefold().split()) for question in training.questions}
    if same := [question.id for question in test.questions if " ".join(question.text.casefold().split()) in titles]:
        raise InputError(f"Expected test questions that are no titles, found {', '.join(same[:3])}.")


def rows_of(reports: dict[str, EvaluationReport], language: str) -> list[dict[str, Any]]:
    """The rows of the table; p-values of differences in MRR, corrected for their number by Holm."""
    each = {f"BM25, {language} stemmer": reports[UNTRAINED].bm25_each}
    for name, report in reports.items():
        each[f"ap-transformer, {name}"] = report.model_each
        if report.fusion_each is not None:
            each[f"ap-transformer, {name}, and BM25"] = report.fusion_each
    names = list(each)
    pairs = [(names[0], name) for name in names[1:]]
    pairs += [(untrained, name) for name in names[1:] if (untrained := _untrained(name)) in names and name != untrained]
    corrected = holm([randomisation_test(each[one]["MRR"], each[other]["MRR"]) for one, other in pairs])
    p_values = {(one, other): p for (one, other), p in zip(pairs, corrected, strict=True)}
    return [
        {
            "name": name,
            **{measure: float(np.mean(values[measure])) for measure in MEASURES},
            "p to BM25": p_values.get((names[0], name)),
            "p to untrained": p_values.get((_untrained(name), name)),
        }
        for name, values in each.items()
    ]


def _untrained(name: str) -> str:
    """The row that a row is compared with: untrained, and with BM25's score if it has that."""
    return f"ap-transformer, {UNTRAINED}" + (", and BM25" if name.endswith(", and BM25") else "")


def render(results: dict[str, Any]) -> str:
    """The results as a table."""
    lines = [
        [
            row["name"],
            *(f"{row[measure]:.3f}" for measure in MEASURES),
            *("" if row[p] is None else f"{row[p]:.4f}" for p in ("p to BM25", "p to untrained")),
        ]
        for row in results["rows"]
    ]
    return markdown_table(["", "MRR", "Hit@1", "p to BM25", "p to untrained"], lines) + "\n"


if __name__ == "__main__":
    with report_user_errors():
        typer.run(command)
