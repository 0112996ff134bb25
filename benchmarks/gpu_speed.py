"""How fast does a GPU answer questions and read answers? python -m benchmarks.gpu_speed insuranceqa --device cuda:0

One run has all that is compared, in turn, each with the same encoder: `ap-transformer` with CUDA graphs and without,
and sentence-transformers' bi-encoder and cross-encoder. The candidates are cached, and no question comes twice. The
weights are random where they do not change the time.
"""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any
from unittest.mock import patch

import torch
import typer
from rich.console import Console

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.cli.options import Device
from ap_ranker.data.reader import read_dataset
from ap_ranker.evaluation.markdown import markdown_table
from ap_ranker.models.ap_transformer import PooledTransformer
from ap_ranker.models.pretrained import DEFAULT_ENCODER, find_encoder
from ap_ranker.ranking.cache import EncodingCache
from ap_ranker.ranking.ranker import Ranker, resolve_device
from ap_ranker.ranking.ranking_request import RankingRequest
from ap_ranker.training.compare import Contender
from benchmarks.latency import Times
from benchmarks.machine import describe_machine
from benchmarks.systems import CACHE_MEGABYTES, MAX_TOKENS, write_checkpoints

READ_AT_ONCE = 2_000
"""Answers after which the time is looked at."""

console = Console(soft_wrap=True)


class Searcher(ABC):
    """Ranks cached candidates for questions.

    Attributes:
        name: in the tables.
        reads: whether it can read answers beforehand, in a way of its own.
    """

    name: str
    reads: bool = True

    @abstractmethod
    def rank(self, questions: Sequence[str]) -> Any:
        """Scores of all candidates for each question, on the CPU."""

    def read(self, answers: Sequence[str]) -> None:
        """Encode answers."""
        raise NotImplementedError


class Ours(Searcher):
    """`ap-transformer`, with graphs or without, which only questions notice."""

    def __init__(self, checkpoint: Path, device: torch.device, candidates: Sequence[str], *, graphs: bool) -> None:
        self.name = "ap-transformer" if graphs else "ap-transformer, no graphs"
        self.reads = graphs
        with patch.object(PooledTransformer, "capturable", graphs):
            self._ranker = Ranker.from_pretrained(checkpoint, device, cache=EncodingCache(CACHE_MEGABYTES * 10**6))
        self._candidates = candidates

    def rank(self, questions: Sequence[str]) -> Any:
        return self._ranker.score_batch([RankingRequest(text, self._candidates) for text in questions])

    @torch.inference_mode()
    def read(self, answers: Sequence[str]) -> None:
        for _ in self._ranker.answer_states(answers):
            pass


class BiEncoder(Searcher):
    """The cosines of vectors."""

    name = "bi-encoder"

    def __init__(self, encoder: Path, device: torch.device, candidates: Sequence[str]) -> None:
        from sentence_transformers import SentenceTransformer

        self._model = SentenceTransformer(str(encoder), device=str(device))
        self._model.max_seq_length = MAX_TOKENS
        self._candidates = self._vectors(candidates)

    def _vectors(self, texts: Sequence[str]) -> torch.Tensor:
        vectors: torch.Tensor = self._model.encode(list(texts), convert_to_tensor=True, show_progress_bar=False)
        return vectors

    def rank(self, questions: Sequence[str]) -> Any:
        return (self._vectors(questions) @ self._candidates.T).cpu()

    def read(self, answers: Sequence[str]) -> None:
        self._vectors(answers)


class CrossEncoder(Searcher):
    """Reads each question with each candidate."""

    name = "cross-encoder"
    reads = False

    def __init__(self, encoder: Path, device: torch.device, candidates: Sequence[str]) -> None:
        from sentence_transformers import CrossEncoder as Library

        self._model = Library(str(encoder), num_labels=1, device=str(device), max_length=MAX_TOKENS)
        self._candidates = candidates

    def rank(self, questions: Sequence[str]) -> Any:
        pairs = [(question, answer) for question in questions for answer in self._candidates]
        return self._model.predict(pairs, show_progress_bar=False)


def searchers(encoder: str, device: torch.device, candidates: Sequence[str], folder: Path) -> list[Searcher]:
    """All that is compared, the checkpoints in this folder; InputError if there is no such encoder."""
    contender = Contender("ap-transformer", "ap-transformer", {"encoder": encoder})
    ours = []
    for graphs in (True, False):  # each of a checkpoint of its own: rankers share what is loaded of one
        [checkpoint] = write_checkpoints([contender], candidates, folder / str(graphs)).values()
        ours.append(Ours(checkpoint, device, candidates, graphs=graphs))
    place = find_encoder(encoder)
    return [*ours, BiEncoder(place, device, candidates), CrossEncoder(place, device, candidates)]


def seconds_of(work: Callable[[], Any]) -> float:
    """How long it takes, until its numbers are on the CPU."""
    started = perf_counter()
    work()
    return perf_counter() - started


def times_of_questions(
    compared: Sequence[Searcher], questions: Iterator[str], *, rounds: int, batch: int
) -> list[list[str]]:
    """Rows of the table: p50 and p95 of a question alone, and questions a second in batches.

    In each round, each searcher in turn has a batch of questions one by one, and another together. What comes before
    the rounds is the same and not counted: graphs are captured there.
    """
    alone: dict[str, list[float]] = {searcher.name: [] for searcher in compared}
    together: dict[str, list[float]] = {searcher.name: [] for searcher in compared}
    for number in range(-2, rounds):
        for searcher in compared:
            one_by_one = [seconds_of(lambda s=searcher: s.rank([next(questions)])) for _ in range(batch)]  # type: ignore[misc]
            asked = [next(questions) for _ in range(batch)]
            of_batch = seconds_of(lambda s=searcher, asked=asked: s.rank(asked))  # type: ignore[misc]
            if number >= 0:
                alone[searcher.name] += one_by_one
                together[searcher.name].append(of_batch)
    rows = []
    for searcher in compared:
        times = Times.of(alone[searcher.name])
        per_second = rounds * batch / sum(together[searcher.name])
        rows.append([searcher.name, f"{times.p50:.2f}", f"{times.p95:.2f}", f"{per_second:,.1f}"])
    return rows


def times_of_answers(compared: Sequence[Searcher], answers: Sequence[str], *, limit: float) -> list[list[str]]:
    """Rows of the table: how many answers each has read when a limit of seconds was over, and how many a second."""
    rows = []
    for searcher in compared:
        if not searcher.reads:
            continue
        n_read = 0
        taken = 0.0
        while n_read < len(answers) and taken < limit:
            part = answers[n_read : n_read + READ_AT_ONCE]
            taken += seconds_of(lambda s=searcher, part=part: s.read(part))  # type: ignore[misc]
            n_read += len(part)
        rows.append([searcher.name, f"{n_read:,}", f"{taken:.1f}", f"{n_read / taken:,.0f}"])
    return rows


def numbered(texts: Sequence[str]) -> Iterator[str]:
    """These texts again and again, each time with another number, so that none is known."""
    number = 0
    while True:
        for text in texts:
            number += 1
            yield f"{text} {number}"


def command(
    data: Annotated[Path, typer.Argument(help="A folder with answers and test questions, as for evaluate; or a file.")],
    encoder: Annotated[str, typer.Option(help="A name on the hub, or a folder.")] = DEFAULT_ENCODER,
    candidates: Annotated[int, typer.Option(min=1, help="Number of candidates of a question, all cached.")] = 100,
    batch: Annotated[int, typer.Option(min=1, help="Questions that are asked together.")] = 32,
    rounds: Annotated[int, typer.Option(min=1, help="Number of rounds.")] = 20,
    answers: Annotated[int, typer.Option(min=0, help="Answers that are read; 0 measures questions.")] = 0,
    limit: Annotated[float, typer.Option("--seconds", help="Maximum time of each reader of answers.")] = 200.0,
    device: Device = "auto",
) -> None:
    """Print milliseconds of a question and questions a second, or answers read a second."""
    with report_user_errors():
        place = resolve_device(device)
        dataset = read_dataset(data, "test")
        texts = [answer.text for answer in dataset.answers]
        questions = numbered([question.text for question in dataset.questions])
        with tempfile.TemporaryDirectory(prefix="ap-ranker-") as folder:
            compared = searchers(encoder, place, texts[:candidates], Path(folder))
            if answers:
                fresh = numbered(texts)
                read = [next(fresh) for _ in range(answers)]
                header = ["", "answers", "seconds", "answers/s"]
                rows = times_of_answers(compared, read, limit=limit)
            else:
                header = ["", "p50 of a question, ms", "p95", f"questions/s, {batch} at once"]
                rows = times_of_questions(compared, questions, rounds=rounds, batch=batch)
        console.print(f"{describe_machine(place)}; {Path(encoder).name}", highlight=False)
        console.print(markdown_table(header, rows), highlight=False, markup=False)


if __name__ == "__main__":
    typer.run(command)
