"""What `ap-ranker retrain` gains: the example FAQ with a checkpoint of a third of its wordings; the rest is accepted.

python examples/retrain/run.py --output examples/retrain/results.md      # --quick: the encoder stays as it is
"""

from __future__ import annotations

import csv
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.data.faq import Entry, read_faq, write_entries
from ap_ranker.data.tables import read_table
from ap_ranker.evaluation.evaluate import evaluate
from ap_ranker.evaluation.significance import randomisation_test
from ap_ranker.files import write_text_atomically
from ap_ranker.web.changes import Action, Change, apply_changes, insert_change
from ap_ranker.web.database import open_database

HERE = Path(__file__).resolve().parent
FAQ = HERE.parent / "faq"

SHARE = 3
"""One in so many wordings is in the FAQ's file, which the first checkpoint learns. The owner accepts the others."""

console = Console(soft_wrap=True)


def write_wordings(path: Path, asked: list[tuple[str, str]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("question", "answer_ids"), *asked])
    return path


def run(folder: Path, *arguments: str) -> int:
    """A command as users type it."""
    console.print(f"$ ap-ranker {' '.join(arguments)}", markup=False)
    return subprocess.run([sys.executable, "-m", "ap_ranker", *arguments], cwd=folder, check=False).returncode


def asked() -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """The example's training questions with the ids of their answers: those of the FAQ's file, and the others."""
    rows = [row for row in read_table(FAQ / "train.csv").rows if row.get("answer_ids")]
    pairs = [(row.need("question"), row.need("answer_ids")) for row in rows]
    return pairs[::SHARE], [pair for number, pair in enumerate(pairs) if number % SHARE]


def wordings_of(entry: Entry, pairs: list[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(question for question, names in pairs if entry.other["aid"] in names.split())


def simulate(folder: Path, options: list[str]) -> None:
    """Train on what is in the FAQ's file, accept the rest, retrain."""
    (first, later), entries = asked(), read_faq(FAQ / "answers.csv")
    own = [Entry(each.question, each.answer, each.other, each.place, wordings_of(each, first)) for each in entries]
    write_entries(own, folder / "FAQ.csv")
    run(folder, "train", "FAQ.csv", "--output", "checkpoints/faq", *options)
    database = open_database(folder / "FAQ.db")
    for keyed in apply_changes(read_faq(folder / "FAQ.csv"), []).entries:
        if texts := wordings_of(keyed.entry, later):
            of = keyed.entry.question
            change = Change.make(Action.add_wordings, entry=keyed.key, of=of, wordings=texts)
            with database.writing("changes") as connection:
                insert_change(connection, change)
    run(folder, "retrain", "FAQ.csv")


def measured(folder: Path) -> str:
    """The table of MRR on the test questions: before and after wordings were accepted, and retrained."""
    first, later = asked()
    served, former = folder / "checkpoints" / "faq", folder / "checkpoints" / "faq.earlier" / "1"
    has_switched = former.is_dir()
    known = {"a third": first, "all": first + later}
    files = {name: write_wordings(folder / f"{name}.csv", pairs) for name, pairs in known.items()}
    stages = [("first", former if has_switched else served, name) for name in known]
    stages += [("retrained", served, "all")] if has_switched else []
    reports = [evaluate(stage[1], FAQ, answers=FAQ / "answers.csv", wordings=files[stage[2]]) for stage in stages]
    lines = [f"| BM25 | - | {reports[0].bm25['MRR']:.3f} | {reports[0].bm25['P@1']:.3f} |"]
    for (checkpoint, _, name), report in zip(stages, reports, strict=True):
        lines.append(f"| {checkpoint} | {name} | {report.fused['MRR']:.3f} | {report.fused['P@1']:.3f} |")
    each = [(report.fusion_each or report.model_each)["MRR"] for report in reports]
    p_value = randomisation_test(each[-1], each[-2])
    head = f"{reports[0].n_questions} test questions; {len(first)} wordings at first, {len(later)} accepted.\n\n"
    table = "| checkpoint | known wordings | MRR | P@1 |\n| --- | --- | --: | --: |\n" + "\n".join(lines)
    said = "" if has_switched else " The retrained checkpoint was not shown to be better, and was not taken."
    return f"{head}{table}\n\nThe last two rows differ with p = {p_value:.4f}.{said}\n"


def main(
    quick: Annotated[bool, typer.Option("--quick", help="Leave the encoder as it is.")] = False,
    epochs: Annotated[int | None, typer.Option(help="Maximum number of epochs.")] = None,
    output: Annotated[Path | None, typer.Option(help="The Markdown file to write.")] = None,
) -> None:
    """Print, or write, MRR before and after."""
    options = [*(["--quick"] if quick else []), *(["--epochs", str(epochs)] if epochs is not None else [])]
    with report_user_errors(), tempfile.TemporaryDirectory() as folder:
        simulate(Path(folder), options)
        found = f"# Retrained\n\n`python examples/retrain/run.py{''.join(f' {each}' for each in options)}`: "
        found += measured(Path(folder))
    if output is None:
        console.print(found, markup=False)
    else:
        write_text_atomically(output, found)


if __name__ == "__main__":
    typer.run(main)
