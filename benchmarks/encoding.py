"""What does reading texts cost beside sentence-transformers, which reads them with the same encoder?

python -m benchmarks.encoding --encoder sentence-transformers/all-MiniLM-L6-v2 --encoder FOLDER

A question is read alone, answers are read together, tokenizing included, by three readers in turn: `ap-transformer`
with our own forward pass, `ap-transformer` with the plain one, and sentence-transformers, which makes a vector of a
text but no states of its words. Milliseconds are medians: elapsed ones, with `--busy` those of one thread's processor
time, which other programs disturb less.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Any
from unittest.mock import patch

import torch
import typer

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.data.reader import read_dataset
from ap_ranker.evaluation.markdown import markdown_table
from ap_ranker.models.fast_forward import FastTransformer
from ap_ranker.models.pretrained import DEFAULT_ENCODER, read_encoder
from ap_ranker.models.registry import build_model, complete_options
from ap_ranker.ranking.ranker import Ranker

OURS, PLAIN, THEIRS = "ours", "plain", "sentence-transformers"
MAX_TOKENS = 200  # of a text, for all of them, as `ap-ranker train` cuts it

Clock = Callable[[], float]


@dataclass(frozen=True)
class Reader:
    """Reads one question, or many answers."""

    question: Callable[[str], Any]
    answers: Callable[[Sequence[str]], Any]


@torch.inference_mode()
def load_readers(encoder: str) -> dict[str, Reader]:
    """By name, with an untrained encoder of the hub or a folder; InputError if there is none."""
    folder, tokenizer, inputs = read_encoder(encoder, MAX_TOKENS)
    readers = {}
    for name in (OURS, PLAIN):
        model = build_model("ap-transformer", inputs, complete_options("ap-transformer", {"encoder": encoder}))
        model.load_pretrained(folder, [])
        reader = _reader_of(Ranker(model, tokenizer))
        if name == OURS:
            reader.question("warm")
        else:
            with patch.object(FastTransformer, "checked", return_value=None):
                reader.question("warm")
        readers[name] = reader
    from sentence_transformers import SentenceTransformer

    theirs = SentenceTransformer(str(folder), device="cpu")
    theirs.max_seq_length = tokenizer.max_tokens
    readers[THEIRS] = Reader(
        lambda text: theirs.encode(text, show_progress_bar=False),
        lambda texts: theirs.encode(list(texts), show_progress_bar=False),
    )
    return readers


def _reader_of(ranker: Ranker) -> Reader:
    return Reader(lambda text: ranker.encode_questions([text]), lambda texts: list(ranker.answer_states(texts)))


@torch.inference_mode()
def medians(
    readers: Mapping[str, Reader], questions: Sequence[str], answers: Sequence[str], rounds: int, clock: Clock
) -> dict[str, tuple[float, float]]:
    """Milliseconds of each reader for a question and for an answer; the readers alternate in each of the rounds."""
    for reader in readers.values():
        reader.question(questions[0])
        reader.answers(answers[:2])
    of_questions: dict[str, list[float]] = {name: [] for name in readers}
    of_answers: dict[str, list[float]] = {name: [] for name in readers}
    for number in range(rounds):
        for question in questions[number::rounds]:
            for name, reader in readers.items():
                of_questions[name].append(_seconds(clock, reader.question, question))
        for name, reader in readers.items():
            of_answers[name].append(_seconds(clock, reader.answers, answers) / len(answers))
    return {name: (1000 * median(of_questions[name]), 1000 * median(of_answers[name])) for name in readers}


def _seconds(clock: Clock, read: Callable[[Any], Any], texts: Any) -> float:
    started = clock()
    read(texts)
    return clock() - started


def main(
    encoder: Annotated[list[str], typer.Option(help="Names on the hub, or folders.")] = [DEFAULT_ENCODER],  # noqa: B006
    data: Annotated[Path, typer.Option(help="A data set whose texts are read.")] = Path("examples/faq"),
    questions: Annotated[int, typer.Option(min=1, help="Number of questions, each read once.")] = 30,
    answers: Annotated[int, typer.Option(min=1, help="Number of answers, all read in every round.")] = 64,
    rounds: Annotated[int, typer.Option(min=1, help="Number of rounds.")] = 3,
    busy: Annotated[bool, typer.Option("--busy", help="Measure one thread's processor time.")] = False,
) -> None:
    """Print the milliseconds of a question and of an answer, and how many times as fast ours are."""
    if busy:
        torch.set_num_threads(1)
    test = read_dataset(data, "test")
    asked = list(dict.fromkeys(question.text for question in test.questions))[:questions]
    told = [answer.text for answer in test.answers][:answers]
    rows = []
    for name in encoder:
        found = medians(load_readers(name), asked, told, rounds, time.process_time if busy else time.perf_counter)
        for row, kind in enumerate(("a question", f"an answer, {len(told)} at once")):
            ours, plain, theirs = (found[reader][row] for reader in (OURS, PLAIN, THEIRS))
            times = [f"{ours:.1f}", f"{plain:.1f}", f"{theirs:.1f}", f"{plain / ours:.1f}", f"{theirs / ours:.1f}"]
            rows.append([f"`{Path(name).name}`", kind, *times])
    heads = ["encoder", "milliseconds of", OURS, PLAIN, THEIRS, f"times as fast as {PLAIN}", f"as {THEIRS}"]
    typer.echo(markdown_table(heads, rows))


if __name__ == "__main__":
    with report_user_errors():
        typer.run(main)
