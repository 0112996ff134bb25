"""One run from data to result; readable top to bottom."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from ap_ranker.data.dataset import Dataset
from ap_ranker.errors import InputError
from ap_ranker.ranking.ranker import resolve_device
from ap_ranker.text.tokenizer import split_words
from ap_ranker.training.compare import Contender
from benchmarks.corpus import Corpus
from benchmarks.latency import FEW, SLOW_SECONDS, Latency, Ratio, Tell, copy_bandwidth, measure
from benchmarks.machine import describe_machine
from benchmarks.peers import CROSS_ENCODER, CROSS_ENCODER_LIMITED, load_peers, reading_dtype
from benchmarks.pipeline import measure_growth, measure_pipelines, store_of
from benchmarks.report import Benchmark
from benchmarks.systems import MAX_TOKENS, AnswerModelSystem, BM25System, System, write_checkpoints
from benchmarks.training import measure_epochs


def benchmark(
    contenders: Sequence[Contender],
    data: Dataset,
    *,
    candidates: Sequence[int],
    questions: int,
    peers: bool,
    epochs_of: Sequence[Contender] = (),
    training: tuple[Dataset, Dataset] | None = None,
    device: str | None = None,
    tell: Tell = lambda _: None,
) -> Benchmark:
    """Measure how long ranking, searching and training take.

    Args:
        contenders: our models, untrained; the first one is measured while the corpus grows, too.
        data: the answers, and the questions that are asked.
        candidates: how many answers are ranked per question, once for each number; those beyond the data's answers are
            left out.
        questions: how many are timed, if there are twice as many.
        peers: whether others' rankers are measured, too.
        epochs_of: the models to train for an epoch.
        training: what they learn from, and the dev data.
        device: `auto`, `cpu`, `cuda:0`; `None` as `auto`.
        tell: told what is being measured.

    Raises:
        InputError: no such device, too few answers or questions, or a package is missing.
    """
    place = resolve_device(device)
    corpus = Corpus.of(data, questions)
    possible = [n for n in candidates if n <= len(corpus.documents)]
    if not possible:
        raise InputError(
            f"{data.name}: expected at least {min(candidates)} different answers to rank, found "
            f"{len(corpus.documents)}. Give smaller numbers with --candidates."
        )
    with tempfile.TemporaryDirectory(prefix="ap-ranker-") as name, _quiet():
        folder = Path(name)
        tell("Loading")
        others = load_peers(folder, place) if peers else []
        checkpoints = write_checkpoints(contenders, corpus.texts, folder)
        store = store_of(corpus.documents)
        ours = [AnswerModelSystem(contender, checkpoints[contender.label], place) for contender in contenders]
        systems: list[System] = [*ours, *others, BM25System(store)]
        bandwidth = copy_bandwidth(place) if place.type == "cuda" else None
        latency = _with_ratios(measure(systems, corpus, possible, bandwidth, tell))
        for system in systems:
            system.forget()  # frees the memory of the cached answers
        first = contenders[0].label
        return Benchmark(
            data=corpus.name,
            answers=len(corpus.documents),
            questions=len(corpus.questions),
            machine=describe_machine(place),
            copy_bandwidth=bandwidth,
            latency=latency,
            pipeline=measure_pipelines(checkpoints, store, corpus, place, tell),
            growth_model=first,
            growth=measure_growth(checkpoints[first], corpus, place, tell),
            training=measure_epochs(epochs_of, *training, folder, place, tell) if training else [],
            notes=_notes(corpus, place, candidates, questions, latency, bandwidth),
        )


def _with_ratios(rows: Sequence[Latency]) -> list[Latency]:
    """How many times as fast as the cross-encoders each system is with the same candidates."""
    references = {(row.system, row.candidates): row for row in rows}
    completed = []
    for row in rows:
        ratios = {
            name: Ratio(warm=slow.warm.p50 / row.warm.p50, cold=slow.cold.p50 / row.cold.p50)
            for name in (CROSS_ENCODER, CROSS_ENCODER_LIMITED)
            if (slow := references.get((name, row.candidates)))
        }
        completed.append(replace(row, times_faster=ratios))
    return completed


def _notes(
    corpus: Corpus,
    device: torch.device,
    candidates: Sequence[int],
    questions: int,
    latency: Sequence[Latency],
    bandwidth: float | None,
) -> list[str]:
    lengths = [len(split_words(text)) for text in corpus.texts]
    cut = sum(length > MAX_TOKENS for length in lengths)
    timed = len(corpus.questions)
    notes = [
        f"Data: {corpus.name}, {len(lengths):,} different answers of {sum(lengths) / len(lengths):.0f} words on "
        f"average, punctuation marks included. Our models, and late interaction where it is measured, read the first "
        f"{MAX_TOKENS} tokens; {cut:,} answers have more words than that.",
        f"Machine: {describe_machine(device)}. Pretrained networks, ours and the others', multiply in "
        f"{str(reading_dtype(device)).removeprefix('torch.')}.",
        f"{timed} questions, each with the best answers of BM25 as candidates. Cold: none of them is cached. Warm: the "
        "same candidates once more, with another question. No system has seen either question before. Times are those "
        "of the component's `run` in ms, questions/s 1 / mean warm time of one process.",
        "Untrained weights: they do not change the time. Bytes per answer as the component keeps them by default: of "
        "our models with the text and Python's share, of the others their states alone.",
        "BM25 looks for the candidates itself and keeps nothing: one measurement stands in both columns.",
        "The pipeline's and the corpus' times are warm: another question has ranked the same documents just before. "
        "The rest is what the pipeline takes beyond its two components. Larger corpora hold the answers repeatedly, "
        "each time with another number in front.",
    ]
    if any(row.times_faster for row in latency):
        notes.append(
            "Faster: the p50 of the cross-encoder at its own limit of 512 tokens divided by the system's, with the "
            "same number of candidates. A cross-encoder can keep nothing: one measurement stands in both columns."
        )
    if left_out := [n for n in candidates if n > len(lengths)]:
        numbers = ", ".join(f"{n:,}" for n in left_out)
        notes.append(f"Left out: {numbers} candidates, for there are {len(lengths):,} different answers.")
    if timed < questions:
        notes.append(
            f"{timed} of {questions} questions timed: each needs a second one, which ranks the same candidates."
        )
    if slow := [row for row in latency if row.questions < timed]:
        rows = "; ".join(f"{row.system} with {row.candidates:,} candidates" for row in slow)
        notes.append(
            f"Systems that take over {SLOW_SECONDS:.0f} s per question are timed on the first {FEW} questions: {rows}."
        )
    if bandwidth:
        notes.append(
            "Of bandwidth: bytes kept of the candidates per warm second, as a share of the "
            f"{bandwidth / 1e9:,.0f} GB/s at which the device copies a gigabyte."
        )
    return notes


@contextmanager
def _quiet() -> Iterator[None]:
    """Without warnings that would come again and again: that answers are cut, which the notes say once, and that
    Haystack's cross-encoder calls its library in an old way."""
    loggers = [logging.getLogger(name) for name in ("ap_ranker.ranking", "sentence_transformers")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
