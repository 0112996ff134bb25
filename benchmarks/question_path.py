"""What does a question of the default search cost beside encoding it and matching it?

python -m benchmarks.question_path --model checkpoints/faq --before ../earlier-checkout

Milliseconds of processor time of one thread, because other programs on the machine do not change it much; checkouts
answer in turn, question by question, and the median of each number counts. Encoding is making tokens and the model's
states of a question, matching is the model's score of it with the states of all candidates; all else is beside them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from time import thread_time
from typing import IO, Annotated, Any

import typer

ROOT = Path(__file__).parents[1]
FAQ = ROOT / "examples" / "faq" / "answers.csv"
QUESTIONS = ROOT / "examples" / "faq" / "test.csv"

WARM = 20  # questions before the first that counts
MEASURES = ("total ms", "encode ms", "match ms", "beside ms", "files", "calls", "changes of room")


def main(
    model: Annotated[Path, typer.Option(help="A checkpoint folder.")] = Path("checkpoints/faq"),
    documents: Annotated[Path, typer.Option(help="A FAQ.")] = FAQ,
    questions: Annotated[Path, typer.Option(help="Questions, as `ap-ranker evaluate` reads them.")] = QUESTIONS,
    before: Annotated[Path | None, typer.Option(help="Another checkout of this project to compare with.")] = None,
    number: Annotated[int, typer.Option(min=1, help="Number of questions.")] = 200,
) -> None:
    """Print a table of the milliseconds of a question, and of the project's files and calls on its path."""
    from ap_ranker.data.reader import read_dataset
    from ap_ranker.evaluation.markdown import markdown_table

    asked = [question.text for question in read_dataset(questions, "test").questions[: WARM + number]]
    checkouts = {"this": ROOT} | ({} if before is None else {"before": before.resolve()})
    with ExitStack() as stack:
        children = {
            name: stack.enter_context(_child(checkout, model.resolve(), documents.resolve()))
            for name, checkout in checkouts.items()
        }
        found = [{name: _ask(child, question) for name, child in children.items()} for question in asked][WARM:]
    cells = [
        [name, *(f"{median(each[name][measure] for each in found):.2f}" for measure in MEASURES)] for name in checkouts
    ]
    typer.echo(markdown_table(["checkout", *MEASURES], cells))


def _child(checkout: Path, model: Path, documents: Path) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, str(checkout), str(model), str(documents)]
    environment = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=checkout, env=environment, stdin=pipe, stdout=pipe, text=True)


def _ask(child: subprocess.Popen[str], question: str) -> dict[str, float]:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(json.dumps(question) + "\n")
    child.stdin.flush()
    answer: dict[str, float] = json.loads(child.stdout.readline())
    return answer


def answer_each(checkout: Path, model: str, documents: Path, questions: IO[str], answers: IO[str]) -> None:
    """In a process of a checkout: the measures of each question of a stream, as lines of JSON."""
    from walks import walk_of  # beside this file, which runs as a script there

    from ap_ranker.ranking.ranker import Ranker
    from ap_ranker.ranking.text_encoder import TextEncoder
    from ap_ranker.search.setup import set_up

    spent: dict[str, float] = {}
    with set_up(documents, model=model) as setup:
        search, filled = setup.load()
        setup.warm_up(search, filled)
        _timed(TextEncoder, "encode_questions", "encode", spent)
        for name in ("match", "match_stored"):
            _timed(type(Ranker.from_pretrained(model).model), name, "match", spent)
        for line in questions:
            question = json.loads(line)
            spent |= {"encode": 0.0, "match": 0.0}
            started = thread_time()
            search.run(question)
            total = thread_time() - started
            beside = total - spent["encode"] - spent["match"]
            times = (total, spent["encode"], spent["match"], beside)
            # With another end: it must be a question that is not encoded yet.
            walk = walk_of(partial(search.run, question + " please"), checkout)
            numbers = [*(1000 * each for each in times), len(walk.files), sum(walk.files.values()), walk.room_changes]
            answers.write(json.dumps(dict(zip(MEASURES, numbers, strict=True))) + "\n")
            answers.flush()


def _timed(owner: type, name: str, what: str, spent: dict[str, float]) -> None:
    """Add the processor time of a method to what is spent; a method that calls itself by super() counts once."""
    method: Callable[..., Any] = getattr(owner, name)

    def timed(*args: Any, **options: Any) -> Any:
        started = thread_time()
        try:
            return method(*args, **options)
        finally:
            spent[what] += thread_time() - started

    setattr(owner, name, timed)


if __name__ == "__main__":
    if len(sys.argv) == 4 and not sys.argv[1].startswith("-"):
        answer_each(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), sys.stdin, sys.stdout)
    else:
        typer.run(main)
