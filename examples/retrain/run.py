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
from ap_ranker.web.changes import Action, Change, append_change, apply_changes
from ap_ranker.web.database import open_database

HERE = Path(__file__).resolve().parent
FAQ = HERE.parent / "faq"

SHARE = 3
"""One in so many wordings is in the FAQ's file, which the first checkpoint learns; the others come at the desk."""

console = Console(soft_wrap=True)


def write_wordings(path: Path, asked: list[tuple[str, str]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("question", "answer_ids"), *asked])
    return path


def run(folder: Path, *arguments: str) -> int:
    """A command as users type it."""
    console.print(f"$ ap-ranker {' '.join(arguments)}", markup=False)
    return subprocess.run([sys.executable, "-m", "ap_ranker", *arguments], cwd=folder, check=False).returncode


def simulate(folder: Path, options: list[str]) -> str:
    """Train, accept, retrain; the rows of the table, on the test questions."""
    rows = [row for row in read_table(FAQ / "train.csv").rows if row.get("answer_ids")]
    asked = [(row.need("question"), row.need("answer_ids")) for row in rows]
    first, entries = asked[::SHARE], read_faq(FAQ / "answers.csv")

    def wordings_of(entry: Entry, pairs: list[tuple[str, str]]) -> tuple[str, ...]:
        return tuple(question for question, names in pairs if entry.other["aid"] in names.split())

    own = [Entry(each.question, each.answer, each.other, each.place, wordings_of(each, first)) for each in entries]
    write_entries(own, folder / "FAQ.csv")
    run(folder, "train", "FAQ.csv", "--output", "checkpoints/faq", *options)
    live, former = folder / "checkpoints" / "faq", folder / "checkpoints" / "faq.earlier" / "1"
    database, later = open_database(folder / "FAQ.db"), [pair for pair in asked if pair not in set(first)]
    for keyed in apply_changes(read_faq(folder / "FAQ.csv"), []).entries:
        if texts := wordings_of(keyed.entry, later):
            of = keyed.entry.question
            append_change(database, Change.make(Action.add_wordings, entry=keyed.key, of=of, wordings=texts))
    code = run(folder, "retrain", "FAQ.csv")
    files = [write_wordings(folder / f"{number}.csv", pairs) for number, pairs in enumerate([first, asked])]
    stages = [("a third", former if code == 0 else live, files[0]), ("all", former if code == 0 else live, files[1])]
    stages += [("all", live, files[1])] if code == 0 else []
    reports = [
        evaluate(checkpoint, FAQ, answers=FAQ / "answers.csv", wordings=known) for _, checkpoint, known in stages
    ]
    names = ["live", "live", "retrained"]
    lines = [f"| BM25 | - | {reports[0].bm25['MRR']:.3f} | {reports[0].bm25['P@1']:.3f} |"]
    for name, (known, *_), report in zip(names, stages, reports, strict=False):
        lines.append(f"| {name} | {known} | {report.fused['MRR']:.3f} | {report.fused['P@1']:.3f} |")
    each = [(report.fusion_each or report.model_each)["MRR"] for report in reports]
    p_value = randomisation_test(each[-1], each[-2]) if code == 0 else 1.0
    head = f"{reports[0].n_questions} test questions; {len(first)} wordings at first, {len(later)} accepted.\n\n"
    table = "| checkpoint | known wordings | MRR | P@1 |\n| --- | --- | --: | --: |\n" + "\n".join(lines)
    said = f"\n\nThe last two differ with p = {p_value:.4f}.\n" if code == 0 else "\n\nNot shown to be better.\n"
    return head + table + said


def main(
    quick: Annotated[bool, typer.Option("--quick", help="Leave the encoder as it is.")] = False,
    epochs: Annotated[int | None, typer.Option(help="Maximum number of epochs.")] = None,
    output: Annotated[Path | None, typer.Option(help="The Markdown file to write.")] = None,
) -> None:
    """Print, or write, MRR before and after."""
    options = [*(["--quick"] if quick else []), *(["--epochs", str(epochs)] if epochs is not None else [])]
    with report_user_errors(), tempfile.TemporaryDirectory() as folder:
        found = f"# Retrained\n\n`python examples/retrain/run.py{''.join(f' {each}' for each in options)}`: "
        found += simulate(Path(folder), options)
    if output is None:
        console.print(found, markup=False)
    else:
        write_text_atomically(output, found)


if __name__ == "__main__":
    typer.run(main)
