"""Several models on the same data: each trained with every seed, all ranked beside BM25 on the same candidates."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from transformers import TrainerCallback

from ap_ranker.data.dataset import Dataset
from ap_ranker.data.wordings import with_wordings
from ap_ranker.errors import InputError
from ap_ranker.evaluation.evaluation_report import EvaluationReport
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.metrics import MEASURES
from ap_ranker.evaluation.significance import holm, randomisation_test
from ap_ranker.models.pretrained import DEFAULT_ENCODER, find_encoder
from ap_ranker.models.registry import MODELS, complete_options, count_parameters, model_spec
from ap_ranker.models.spec import ModelSpec
from ap_ranker.ranking.bm25 import bm25_name
from ap_ranker.ranking.cache import EncodingCache
from ap_ranker.ranking.ranker import Ranker, resolve_device
from ap_ranker.safe_open import parse_yaml
from ap_ranker.text.word_vectors import PretrainedVectors
from ap_ranker.training.card import About
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.peers import check_fine_tuning, train_or_load_peer
from ap_ranker.training.train import train_or_load

logger = logging.getLogger(__name__)

MEASURE = "MRR"
"""The measure that sorts the table, is tested for significance and chooses the epoch."""


ALONE = ", answers alone"
"""Ends the label of the row that ranks without the known wordings."""

POOLED = ", pooled cosine"
"""Ends the label of the row that ranks with the pooled vectors of a contender's checkpoint alone."""


@dataclass(frozen=True)
class Contender:
    """A model with its options, as the user named it."""

    label: str
    model: str
    options: Mapping[str, Any]

    @classmethod
    def parse(cls, text: str) -> Contender:
        """Read `ap-cnn` or `ap-cnn:filters=200:window=2`.

        Raises:
            InputError: no such model, option or value.
        """
        model, *settings = text.strip().split(":")
        model_spec(model)
        options = {}
        for setting in settings:
            name, equals, value = setting.partition("=")
            if not equals:
                raise InputError(f"Expected a model as NAME or NAME:option=value:option=value, found {text!r}.")
            options[name] = parse_yaml(value, text)
        complete_options(model, options)
        return cls(text.strip(), model, options)

    @classmethod
    def parse_all(cls, text: str) -> list[Contender]:
        """Read several, separated by commas; `all` stands for all registered models whose encoder is available."""
        if text.strip() != "all":
            return [cls.parse(name) for name in dict.fromkeys(text.split(","))]
        return [cls.parse(name) for name in sorted(MODELS) if _is_available(MODELS[name])]


def _is_available(spec: ModelSpec) -> bool:
    """Whether the pretrained encoder of a model, if it has one, is installed or can be downloaded."""
    if spec.pretrained:
        try:
            find_encoder(spec.options["encoder"].default)
        except InputError as error:
            logger.warning("%s is left out: %s", spec.name, error)
            return False
    return True


@dataclass(frozen=True)
class Result:
    """A row of the comparison: the runs of a contender or of a peer, one per seed.

    Attributes:
        label: as the user named it.
        measures: measure -> one value per seed.
        p_values: of the difference to each baseline in the questions' mean MRR over the seeds, Holm-corrected.
        parameters: number of learnt parameters without the word vectors.
        training_seconds: duration of a run; mean over the seeds.
        seconds_per_question: time to encode a question and match it with its encoded candidates; mean over the seeds.
        bytes_per_answer: of what is kept of an answer; mean over the answers. 0 where nothing can be.
    """

    label: str
    measures: dict[str, list[float]]
    p_values: dict[str, float]
    parameters: int
    training_seconds: float
    seconds_per_question: float
    bytes_per_answer: float

    def mean(self, measure: str) -> float:
        return float(np.mean(self.measures[measure]))

    def deviation(self, measure: str) -> float:
        """The sample standard deviation over the seeds; 0 with one seed."""
        values = self.measures[measure]
        return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


@dataclass(frozen=True)
class Comparison:
    """The whole table.

    Attributes:
        data: what was ranked, in words.
        n_questions: number of questions with a right answer.
        seeds: the seeds of each contender's runs.
        random: measure -> mean over random orders.
        bm25: measure -> mean of BM25.
        bm25_name: BM25 as the table names it, with its stemmer.
        baselines: what each row is tested against: BM25, the peers, and pooled vectors alone.
        results: the best row first.
    """

    data: str
    n_questions: int
    seeds: list[int]
    random: dict[str, float]
    bm25: dict[str, float]
    bm25_name: str
    baselines: list[str]
    results: list[Result]

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"


@dataclass
class _Runs:
    """The runs of one row so far."""

    reports: list[EvaluationReport] = field(default_factory=list)
    training_seconds: list[float] = field(default_factory=list)
    parameters: int = 0

    def add(self, report: EvaluationReport, training_seconds: float, parameters: int) -> None:
        self.reports.append(report)
        self.training_seconds.append(training_seconds)
        self.parameters = parameters

    @property
    def each(self) -> np.ndarray:
        """(Q,) each question's MRR, mean over the seeds."""
        values: np.ndarray = np.mean([report.model_each[MEASURE] for report in self.reports], axis=0)
        return values

    def result(self, label: str, p_values: dict[str, float]) -> Result:
        return Result(
            label=label,
            measures={measure: [report.model[measure] for report in self.reports] for measure in MEASURES},
            p_values=p_values,
            parameters=self.parameters,
            training_seconds=float(np.mean(self.training_seconds)),
            seconds_per_question=float(np.mean([report.seconds_per_question for report in self.reports])),
            bytes_per_answer=float(np.mean([report.bytes_per_answer for report in self.reports])),
        )


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
    vectors: PretrainedVectors | None = None,
    device: str | None = None,
    callbacks: tuple[TrainerCallback, ...] = (),
    about: About = About(),  # noqa: B008
    on_run: Callable[[str, int, EvaluationReport], None] = lambda *_: None,
) -> Comparison:
    """Train each contender with each seed and rank the test questions.

    Args:
        contenders: the models to train.
        data: the questions to learn from.
        dev: the questions that choose each run's epoch.
        test: the questions to compare on.
        output: a folder for the checkpoints; those of an earlier comparison with the same settings are reused, so that
            an interrupted comparison continues where it stopped.
        config: the settings of all runs; `model`, `options` and `seed` are the contenders'.
        seeds: of the runs.
        peers: names of `PEERS`, trained from the pretrained encoder of the first contender that has one, or else from
            the default encoder.
        vectors: pre-trained word vectors, for the models without a pretrained encoder.
        device: as in `train`.
        callbacks: as in `train`.
        about: as in `train`.
        on_run: called after each run with the row's label, the seed and the results on the test questions.

    Raises:
        InputError: `output` holds a run with other settings; a peer is unknown or its package is missing.
    """
    check_fine_tuning(peers)
    evaluation_set = EvaluationSet(with_wordings(test, data), language=config.language)
    runs: dict[str, _Runs] = {}

    def add(label: str, seed: int, report: EvaluationReport, training_seconds: float, parameters: int) -> None:
        runs.setdefault(label, _Runs()).add(report, training_seconds, parameters)
        on_run(label, seed, report)

    for contender in contenders:
        for seed in seeds:
            settings = replace(config, model=contender.model, options=contender.options, seed=seed)
            if model_spec(contender.model).pretrained:
                settings = replace(settings, embeddings=None)
            folder = run_folder(output, contender.label, seed)
            ranker = train_or_load(
                data, dev, folder, settings, vectors=vectors, device=device, callbacks=callbacks, about=about
            )
            assert ranker.config is not None
            training_seconds = ranker.config.training["seconds"]
            for label, row in _rows_of(contender, ranker).items():
                add(label, seed, evaluation_set.report(row), training_seconds, count_parameters(row.model))
    for name in peers:
        for seed in seeds:
            encoder, folder = find_encoder(_encoder(contenders)), run_folder(output, name, seed)
            peer, training_seconds = train_or_load_peer(name, encoder, data, folder, seed, resolve_device(device))
            report = evaluation_set.report_of(peer.score(evaluation_set))
            add(name, seed, report, training_seconds, peer.parameters)
    results = [row.result(label, {}) for label, row in runs.items()]
    baselines = {"BM25": evaluation_set.bm25_each[MEASURE]}
    names = [*(contender.label + POOLED for contender in contenders), *peers]
    baselines |= {name: runs[name].each for name in names if name in runs}
    for baseline, each in baselines.items():
        others = [result for result in results if result.label != baseline]
        corrected = holm([randomisation_test(runs[result.label].each, each) for result in others])
        for result, p_value in zip(others, corrected, strict=True):
            result.p_values[baseline] = p_value
    return Comparison(
        data=f"{test.name}; candidates: {evaluation_set.candidates}",
        n_questions=len(evaluation_set.questions),
        seeds=list(seeds),
        random=evaluation_set.random(),
        bm25=evaluation_set.bm25,
        bm25_name=bm25_name(config.language),
        baselines=list(baselines),
        results=sorted(results, key=lambda result: -result.mean(MEASURE)),
    )


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


def _encoder(contenders: Sequence[Contender]) -> str:
    """The pretrained encoder that the contenders, and so the peers, start from."""
    for contender in contenders:
        if MODELS[contender.model].pretrained:
            return str(complete_options(contender.model, contender.options)["encoder"])
    return DEFAULT_ENCODER


def run_folder(output: Path, label: str, seed: int) -> Path:
    """The folder in which `compare` keeps the run of a row."""
    return output / f"{label.replace(':', ',')}-seed{seed}"
