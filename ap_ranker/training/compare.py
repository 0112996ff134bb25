"""Several models on the same data: each trained with every seed, all ranked beside BM25 on the same candidates."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ap_ranker.data.dataset import Dataset
from ap_ranker.data.wordings import with_wordings
from ap_ranker.errors import InputError
from ap_ranker.evaluation.evaluation_report import EvaluationReport
from ap_ranker.evaluation.evaluation_set import ALONE as NO_HELP
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.metrics import MEASURES
from ap_ranker.evaluation.question_kinds import AS_ASKED
from ap_ranker.evaluation.scoring import CandidateScores
from ap_ranker.evaluation.significance import holm, randomisation_test
from ap_ranker.evaluation.weight_fit import fit_weight
from ap_ranker.models.pretrained import DEFAULT_ENCODER, find_encoder
from ap_ranker.models.registry import MODELS, complete_options, count_parameters, model_spec
from ap_ranker.progress import Progress, untold
from ap_ranker.ranking.bm25 import bm25_name
from ap_ranker.ranking.cache import EncodingCache
from ap_ranker.ranking.ranker import Ranker, resolve_device
from ap_ranker.ranking.rule import Weights
from ap_ranker.safe_open import parse_yaml
from ap_ranker.text.near_copies import near_any
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.dev_set import dev_set_of, with_all_wordings
from ap_ranker.training.peers import BiEncoder, Peer, check_peers, is_ready_peer, ready_peer, train_or_load_peer
from ap_ranker.training.train import train_or_load

logger = logging.getLogger(__name__)

MEASURE = "MRR"
"""The measure that sorts the table, is tested for significance and chooses the epoch."""

ALONE = ", answers alone"
POOLED = ", pooled cosine"
INDEXED = ", wordings indexed"
WITH_BM25 = ", with BM25"
"""Ends of the labels of the rows that rank without the known wordings, and with the pooled vectors alone; of a
bi-encoder, by an entry's best text, its answer or a known wording; and with BM25's score added."""


@dataclass(frozen=True)
class Contender:
    """A model with its options, as the user named it."""

    label: str
    model: str
    options: Mapping[str, Any]

    @classmethod
    def parse(cls, text: str) -> Contender:
        """Read `ap-cnn` or `ap-cnn:filters=200:window=2`."""
        model, *settings = text.strip().split(":")
        model_spec(model)
        if not all("=" in setting for setting in settings):
            raise InputError(f"Expected a model as NAME or NAME:option=value:option=value, found {text!r}.")
        options: dict[str, Any] = {}
        for setting in settings:
            name, _, value = setting.partition("=")
            options[name] = parse_yaml(value, text)
        complete_options(model, options)
        return cls(text.strip(), model, options)

    @classmethod
    def parse_all(cls, text: str) -> list[Contender]:
        """Read several, separated by commas; `all` stands for all registered models whose encoder is available."""
        if text.strip() != "all":
            names = dict.fromkeys(map(str.strip, text.split(",")))
            return [cls.parse(name) for name in names]
        contenders = []
        for name, spec in sorted(MODELS.items()):
            try:
                if spec.pretrained:
                    find_encoder(spec.options["encoder"].default)
                contenders.append(cls.parse(name))
            except InputError as error:
                logger.warning("%s is left out: %s", name, error)
        return contenders


@dataclass(frozen=True)
class Result:
    """A row of the comparison: the runs of a contender or of a peer, one per seed; times are means over the seeds.

    `measures` are those on the questions of the headline, `kinds` those on each kind of questions. `p_values` are of
    the difference to each baseline in the questions' mean MRR over the seeds, Holm-corrected; the `parameters` do not
    count word vectors; 0 bytes: nothing can be kept.
    """

    label: str
    measures: dict[str, list[float]]
    p_values: dict[str, float]
    parameters: int
    training_seconds: float
    seconds_per_question: float
    bytes_per_answer: float
    kinds: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def mean(self, measure: str) -> float:
        return _mean(self.measures[measure])


@dataclass(frozen=True)
class Comparison:
    """The whole table, the best row first; each is tested against the `baselines`.

    `n_questions` and all measures are of the `headline`, a kind of questions: new ones, if there are any. `n_of_kind`
    counts the questions of each kind; `bm25_kinds` has BM25's measures on each.
    """

    data: str
    n_questions: int
    seeds: list[int]
    random: dict[str, float]
    bm25: dict[str, float]
    bm25_name: str
    baselines: list[str]
    results: list[Result]
    headline: str = AS_ASKED
    n_of_kind: dict[str, int] = field(default_factory=dict)
    bm25_kinds: dict[str, dict[str, float] | None] = field(default_factory=dict)


@dataclass(frozen=True)
class _Run:
    """A row of the table with one seed."""

    report: EvaluationReport
    training_seconds: float
    parameters: int


def compare(
    contenders: Sequence[Contender],
    data: Dataset,
    dev: Dataset,
    test: Dataset,
    output: Path,
    config: TrainingConfig,
    *,
    seeds: Sequence[int],
    peers: Sequence[str] = (),
    device: str | None = None,
    on_run: Callable[[str, int, EvaluationReport], None] = lambda *_: None,
    on_progress: Progress = untold,
    **others: Any,
) -> Comparison:
    """Train each contender with each seed on `data`, `dev` choosing the epochs, and rank the `test` questions.

    All runs have the settings of `config`, but for the model, its options and the seed. Checkpoints of an earlier
    comparison in `output` are reused, if their settings are the same. Peers start from the pretrained encoder of the
    first contender that has one, or else from the default encoder; ready ones (KIND:NAME) rank as they are.
    `on_progress` gets the run and its step in words, how much of it is done, and of how much. All `others` are
    arguments of `train`.
    """
    check_peers(peers)
    evaluation_set = EvaluationSet(with_wordings(test, data), language=config.language)
    runs: defaultdict[str, list[_Run]] = defaultdict(list)
    near = _near_copies(evaluation_set, data)

    def add(label: str, seed: int, report: EvaluationReport, *, training_seconds: float, parameters: int) -> None:
        report = replace(report, near=near)
        runs[label].append(_Run(report, training_seconds, parameters))
        on_run(label, seed, report)

    n_runs = len(contenders) * len(seeds)
    for number, (contender, seed) in enumerate(product(contenders, seeds), start=1):
        told = partial(_tell_of_run, on_progress, f"run {number} of {n_runs}")
        settings = replace(config, model=contender.model, options=contender.options, seed=seed)
        if MODELS[contender.model].pretrained:
            settings = replace(settings, embeddings=None)
        folder = run_folder(output, contender.label, seed)
        ranker = train_or_load(data, dev, folder, settings, device=device, on_progress=told, **others)
        assert ranker.config is not None
        training_seconds = ranker.config.training["seconds"]
        tell = partial(told, "scoring the test questions")
        for label, report, parameters in _reports_of_ours(contender, ranker, evaluation_set, tell):
            add(label, seed, report, training_seconds=training_seconds, parameters=parameters)
    encoder = _encoder_of_peers(contenders)
    dev_set = dev_set_of(with_all_wordings(dev, data), config)
    place = resolve_device(device)
    of_peers = list(product(peers, seeds))
    for done, (name, seed) in enumerate(of_peers):
        on_progress("training peers", done, len(of_peers))
        folder = run_folder(output, name, seed)
        peer, training_seconds = _peer(name, encoder, data, dev_set, folder, seed=seed, device=place)
        on_progress("training peers", len(of_peers), len(of_peers))  # what is told of it now is no bar
        n_parameters = sum(weights.numel() for weights in peer.model.parameters())
        for label, report in _reports_of(name, peer, dev_set, evaluation_set).items():
            add(label, seed, report, training_seconds=training_seconds, parameters=n_parameters)
    bm25 = replace(evaluation_set.report_of_bm25(), near=near)
    rows = bm25.rows_of[bm25.headline]
    reciprocal_ranks: dict[str, np.ndarray] = {}
    for label, own_runs in runs.items():
        ranks_of_seeds = [run.report.model_each[MEASURE][rows] for run in own_runs]
        reciprocal_ranks[label] = np.mean(ranks_of_seeds, axis=0)
    baselines = {"BM25": bm25.bm25_each[MEASURE][rows]}
    baselines |= _further_baselines(reciprocal_ranks, contenders, peers)
    p_values = _p_values(reciprocal_ranks, baselines)
    results: list[Result] = []
    for label, own_runs in runs.items():
        reports = [run.report for run in own_runs]
        measures_of_kinds = {kind: _measures(reports, kind) for kind in bm25.rows_of}
        results.append(
            Result(
                label,
                measures_of_kinds[bm25.headline],
                p_values=p_values[label],
                parameters=own_runs[-1].parameters,
                training_seconds=_mean([run.training_seconds for run in own_runs]),
                seconds_per_question=_mean([report.seconds_per_question for report in reports]),
                bytes_per_answer=_mean([report.bytes_per_answer for report in reports]),
                kinds=measures_of_kinds,
            )
        )
    equal_scores = [np.zeros(len(pool)) for pool in evaluation_set.pools]  # of which the expected values are measured
    random = evaluation_set.measures_each(equal_scores)
    n_of_kind: dict[str, int] = {}
    bm25_kinds: dict[str, dict[str, float] | None] = {}
    for kind, rows_of_kind in bm25.rows_of.items():
        n_of_kind[kind] = int(rows_of_kind.sum())
        bm25_kinds[kind] = bm25.means_of(kind, bm25.bm25_each)
    return Comparison(
        data=f"{test.name}; candidates: {evaluation_set.candidates}",
        n_questions=int(rows.sum()),
        seeds=list(seeds),
        random=bm25.means_of(bm25.headline, random) or {},
        bm25=bm25.means_of(bm25.headline, bm25.bm25_each) or {},
        bm25_name=bm25_name(config.language),
        baselines=list(baselines),
        results=sorted(results, key=lambda result: -result.mean(MEASURE)),
        headline=bm25.headline,
        n_of_kind=n_of_kind,
        bm25_kinds=bm25_kinds,
    )


def _peer(
    name: str, encoder: str, data: Dataset, dev: EvaluationSet, folder: Path, *, seed: int, device: torch.device
) -> tuple[Peer, float]:
    """A peer, ready or fine-tuned from an encoder, and the seconds of its training."""
    if is_ready_peer(name):
        return ready_peer(name, device), 0.0
    return train_or_load_peer(name, find_encoder(encoder), data, dev, folder, seed=seed, device=device)


def _tell_of_run(on_progress: Progress, run: str, step: str, done: int, total: int) -> None:
    on_progress(f"{run}: {step}", done, total)


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def _further_baselines(
    reciprocal_ranks: Mapping[str, np.ndarray], contenders: Sequence[Contender], peers: Sequence[str]
) -> dict[str, np.ndarray]:
    """The rows that all others are tested against: the pooled vectors of each contender, then the peers."""
    baselines: dict[str, np.ndarray] = {}
    for contender in contenders:
        label = contender.label + POOLED
        if label in reciprocal_ranks:
            baselines[label] = reciprocal_ranks[label]
    for label, ranks in reciprocal_ranks.items():
        if label.startswith(tuple(peers)):
            baselines[label] = ranks
    return baselines


def _p_values(
    reciprocal_ranks: Mapping[str, np.ndarray], baselines: Mapping[str, np.ndarray]
) -> dict[str, dict[str, float]]:
    """Row -> each other baseline -> the p-value of the difference; those with a baseline are corrected together."""
    p_values: dict[str, dict[str, float]] = {label: {} for label in reciprocal_ranks}
    for baseline, ranks_of_baseline in baselines.items():
        rivals = [label for label in reciprocal_ranks if label != baseline]
        uncorrected = [randomisation_test(reciprocal_ranks[label], ranks_of_baseline) for label in rivals]
        for label, p_value in zip(rivals, holm(uncorrected), strict=True):
            p_values[label][baseline] = p_value
    return p_values


def _near_copies(evaluation_set: EvaluationSet, data: Dataset) -> np.ndarray:
    """(Q,) whether each question is a near copy of one that the contenders learn from, or of a known wording."""
    seen = set(data.question_texts)
    seen |= evaluation_set.dataset.wordings
    texts = evaluation_set.question_texts
    near = near_any(set(texts), seen)
    return np.array([text in near for text in texts])


def _encoder_of_peers(contenders: Sequence[Contender]) -> str:
    """The encoder of the first contender that has one."""
    for contender in contenders:
        options = complete_options(contender.model, contender.options)
        if "encoder" in options:
            return str(options["encoder"])
    return DEFAULT_ENCODER


def _measures(reports: Sequence[EvaluationReport], kind: str) -> dict[str, list[float]]:
    """Measure -> its values on the questions of a kind, one per seed; none without such questions."""
    measures: dict[str, list[float]] = {}
    for report in reports:
        means = report.means_of(kind, report.model_each)
        if means:
            for measure in MEASURES:
                measures.setdefault(measure, []).append(means[measure])
    return measures


def _rows_of(contender: Contender, ranker: Ranker) -> dict[str, Ranker]:
    """The rows of a contender: itself, without known wordings, and the cosine that its attention must beat."""
    rows = {contender.label: ranker}
    if ranker.config and ranker.config.wording_weight:
        as_stored = EncodingCache(0)  # as `ap-ranker evaluate` measures it
        rows[contender.label + ALONE] = Ranker(ranker.model, ranker.tokenizer, ranker.device, cache=as_stored)
    pooled = ranker.model.pooled_only()
    if pooled is not None:
        rows[contender.label + POOLED] = Ranker(pooled, ranker.tokenizer, ranker.device)
    return rows


def _reports_of_ours(
    contender: Contender, ranker: Ranker, evaluation_set: EvaluationSet, on_progress: Callable[[int, int], None]
) -> Iterator[tuple[str, EvaluationReport, int]]:
    """The rows of a contender with their numbers of parameters; one more with BM25, as its checkpoint is served."""
    for label, row in _rows_of(contender, ranker).items():
        report = evaluation_set.report(row, on_progress)
        parameters = count_parameters(row.model)
        yield label, report, parameters
        if label == contender.label:
            yield label + WITH_BM25, fused(report), parameters


def _reports_of(
    name: str, peer: Peer, dev: EvaluationSet, evaluation_set: EvaluationSet
) -> dict[str, EvaluationReport]:
    """The rows of a peer: itself and, if there are known wordings, a bi-encoder that knows them as well.

    A bi-encoder that knows all it can has one more row, with BM25 added by a weight that the dev questions choose, as
    ours have it.
    """
    rows = {name: evaluation_set.report_of(peer.score(evaluation_set))}
    if isinstance(peer, BiEncoder):
        label = name
        wordings = bool(evaluation_set.dataset.wordings)
        if wordings:
            label += INDEXED
        scores = peer.score(evaluation_set, wordings=wordings)
        weights = bm25_weight(dev, peer.score(dev, wordings=wordings))
        report = evaluation_set.report_of(scores, weights)
        rows[label] = report
        rows[label + WITH_BM25] = fused(report)
    return rows


def bm25_weight(dev: EvaluationSet, scores: CandidateScores, weights: Weights = NO_HELP) -> Weights:
    """The weights with that of BM25 which is the most probable by the scores of the dev questions."""
    signals, right = dev.informative(scores)
    return fit_weight(signals, right, weights, "bm25")


def fused(report: EvaluationReport) -> EvaluationReport:
    """The report as if model and BM25 together were the model."""
    return replace(report, model_each=report.fusion_each or report.model_each, fusion_each=None)


def run_folder(output: Path, label: str, seed: int) -> Path:
    return output / f"{label.replace(':', ',')}-seed{seed}"
