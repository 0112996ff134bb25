"""SemEval's community question answering as train, dev and test: python examples/reproduce/semeval.py SOURCE TARGET

SOURCE holds the files of Task 3, subtask A, as tables with the columns qid, cid, subject, body, comment, label; TARGET
gets train.tsv.gz, dev.tsv.gz and test.tsv.gz with qid, question (subject and body), answer, label.
"""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.data.rows import Row
from ap_ranker.data.tables import read_table
from ap_ranker.errors import InputError
from ap_ranker.files import atomic_file

TRAIN = ("2015-train", "2015-dev-excl2016", "2015-test-excl2016", "2016-train-part2")
"""2016's second part of the training data, and what 2015 has beyond 2016's dev and test questions."""

DEV, TEST = "2016-dev", "2016-test"
COLUMNS = ("qid", "cid", "subject", "body", "comment", "label")

Comment = tuple[str, str, str, str]
"""qid, question, answer, label."""

console = Console(soft_wrap=True)


def prepare(
    source: Annotated[Path, typer.Argument(help="The folder with 2015-train.tsv.gz, 2016-dev.tsv.gz ...")],
    target: Annotated[Path, typer.Argument(help="The folder to write.")],
) -> None:
    """Write train, dev and test.

    Raises:
        InputError: a file or a column is missing.
    """
    notes: Counter[str] = Counter()
    dev, test = (list(_comments(source, name, notes)) for name in (DEV, TEST))
    known = {letters(question) for _, question, _, _ in [*dev, *test]}
    train = [comment for name in TRAIN for comment in _comments(source, name, notes)]
    again = {qid for qid, question, _, _ in train if letters(question) in known}
    notes["training questions dropped: their text occurs in dev or test"] = len(again)
    target.mkdir(parents=True, exist_ok=True)
    for name, comments in (("train", [c for c in train if c[0] not in again]), ("dev", dev), ("test", test)):
        _write(target / f"{name}.tsv.gz", comments)
        questions = len({comment[0] for comment in comments})
        console.print(f"{name}: {questions:,} questions, {len(comments):,} comments", highlight=False)
    for reason, count in notes.items():
        console.print(f"  {count:,} {reason}", highlight=False)


def letters(text: str) -> str:
    """What is compared: 2015 and 2016 give the same question with other punctuation and spaces."""
    return "".join(filter(str.isalnum, text.casefold()))


def _comments(source: Path, name: str, notes: Counter[str]) -> Iterable[Comment]:
    table = read_table(source / f"{name}.tsv.gz")
    if missing := [column for column in COLUMNS if column not in table.columns]:
        raise InputError(f"{table.path}: expected the columns {', '.join(COLUMNS)}, missing {', '.join(missing)}.")
    for row in table.rows:
        if row.get("comment"):
            # 2015's files number different questions alike, so the file belongs to the name.
            yield f"{name}:{row.need('qid')}", _question(row), row.need("comment"), row.need("label")
        else:
            notes["empty comments left out"] += 1


def _question(row: Row) -> str:
    text = f"{row.get('subject')} {row.get('body')}".strip()
    if not text:
        raise InputError(f"{row.place}: expected a subject or a body, found neither.")
    return text


def _write(path: Path, comments: Iterable[Comment]) -> None:
    lines = ["\t".join(fields) + "\n" for fields in (("qid", "question", "answer", "label"), *comments)]
    with atomic_file(path) as draft:
        draft.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))  # the same data, the same bytes


if __name__ == "__main__":
    with report_user_errors():
        typer.run(prepare)
