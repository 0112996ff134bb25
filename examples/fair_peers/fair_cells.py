"""The cells of a data set: its trials, then its seeds with the chosen settings, a file each."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from fair_data import FairData
from fair_systems import (
    CROSS_ENCODER,
    GRIDS,
    OURS,
    SYSTEMS,
    UNTRAINED,
    Settings,
    dev_mrr,
    mean_measures,
    measure_rows,
    train_system,
    trials_of,
)
from fair_tables import ranks_text

from ap_ranker.errors import InputError
from ap_ranker.evaluation.metrics import MEASURES
from ap_ranker.files import write_text_atomically
from ap_ranker.models.pretrained import find_encoder
from ap_ranker.training.compare import MEASURE
from ap_ranker.training.peer_lessons import RERANKED
from ap_ranker.training.peers import RECIPE, BiEncoder

TUNED_SEED = 1
"""Of all trials."""

PASSES = 3
"""A text that is learnt from costs as much as so many that are read: forwards, and backwards twice."""

PROBED, TRIES = 16, 8
"""Texts that are encoded to see how fast the machine is, and how often."""

CANDIDATES = 16
"""Answers of a question in a step of ours where candidates were judged."""

Result = dict[str, Any]
"""What a cell's file holds."""


@dataclass(frozen=True)
class Cell:
    """A trial or a run with a seed, of one system."""

    system: str
    settings: Settings
    seed: int
    is_trial: bool
    number: int

    @property
    def name(self) -> str:
        """That of its file."""
        kind = "trial" if self.is_trial else "seed"
        return f"{self.system.replace(', ', '-')}-{kind}-{self.number}"


@dataclass(frozen=True)
class Cells:
    """All cells of a data set, in a folder: what is finished there is not measured again.

    With settings that are `tuned` already, with another encoder, there are no trials.
    """

    data: FairData
    folder: Path
    device: torch.device
    tuned: Mapping[str, Settings] | None = None

    @property
    def origin(self) -> dict[str, str]:
        """What all cells of a folder must share."""
        parts = {"training": self.data.training, "dev": self.data.dev, "test": self.data.test}
        digests = {name: part.digest for name, part in parts.items()}
        return {"encoder": Path(self.data.encoder).name, **digests}

    def read(self, cell: Cell) -> Result | None:
        """The result of a finished cell; InputError if it is of other settings, data or another encoder."""
        path = self.folder / f"{cell.name}.json"
        if not path.is_file():
            return None
        result: Result = json.loads(path.read_text(encoding="utf-8"))
        expected = {"settings": dict(cell.settings), "seed": cell.seed, "origin": self.origin}
        different = [name for name, value in expected.items() if result[name] != value]
        if different:
            raise InputError(f"{path}: expected a cell of the same {different[0]}, found another. Name a new --output.")
        return result

    def measure(self, cell: Cell) -> Result:
        """Train and measure a cell, and write its file. Its checkpoint is removed then: many would fill a disk."""
        started = time.perf_counter()
        checkpoint = self.folder / f"{cell.name}.run"
        trained = train_system(cell.system, cell.settings, self.data, checkpoint, cell.seed, self.device)
        dev = self.data.dev_set(cell.seed)
        result: Result = {"settings": dict(cell.settings), "seed": cell.seed, "origin": self.origin}
        if cell.is_trial:
            result["dev"] = dev_mrr(trained, dev)
        else:
            rows = measure_rows(trained, dev, self.data.test_set)
            result["rows"] = mean_measures(rows)
            result["reciprocal_ranks"] = {name: values[MEASURE].tolist() for name, values in rows.items()}
        result["seconds"] = round(time.perf_counter() - started, 1)
        write_text_atomically(self.folder / f"{cell.name}.json", json.dumps(result) + "\n")
        shutil.rmtree(checkpoint, ignore_errors=True)
        return result

    def trials(self, system: str, count: int) -> list[Cell]:
        """Those that choose a system's settings; none of what has no settings."""
        if self.tuned is not None or system not in GRIDS:
            return []
        cells: list[Cell] = []
        for number, settings in enumerate(trials_of(system, count), start=1):
            cells.append(Cell(system, settings, TUNED_SEED, is_trial=True, number=number))
        return cells

    def chosen(self, system: str, count: int) -> Settings:
        """The settings of the trial with the highest MRR on the dev questions, the first of equal ones."""
        if self.tuned is not None:
            return self.tuned[system]
        results: list[Result] = []
        for cell in self.trials(system, count):
            result = self.read(cell)
            assert result is not None, cell.name
            results.append(result)
        if not results:
            return {}
        best: Settings = max(results, key=lambda result: result["dev"])["settings"]
        return best

    def of_seeds(self, system: str, settings: Settings, seeds: Sequence[int]) -> list[Cell]:
        """The runs with the chosen settings; without any training, all seeds are alike."""
        if system == UNTRAINED:
            seeds = seeds[:1]
        return [Cell(system, settings, seed, is_trial=False, number=seed) for seed in seeds]


class Estimate:
    """How long a cell takes: by the texts that it reads and by what the encoder takes for one, until a cell is done.

    It is rough before the first cell of a system has finished, and by the mean of the finished ones afterwards.
    """

    def __init__(self, data: FairData, device: torch.device) -> None:
        self.data = data
        sample = data.training.answer_texts[:PROBED]
        encoder = BiEncoder(find_encoder(data.encoder), device)
        tries: list[float] = []
        for _ in range(TRIES):
            started = time.perf_counter()
            encoder.questions(sample)
            tries.append(time.perf_counter() - started)
        self._seconds_per_text = min(tries) / len(sample)  # other work of the machine only adds
        self._ratios: dict[str, list[float]] = {}

    def seconds(self, cell: Cell) -> float:
        """Those that a cell takes."""
        return self._by_texts(cell) * fmean(self._ratios.get(cell.system, [1.0]))

    def add(self, cell: Cell, seconds: float) -> None:
        """Take what a finished cell took into account."""
        self._ratios.setdefault(cell.system, []).append(seconds / self._by_texts(cell))

    def _by_texts(self, cell: Cell) -> float:
        settings: Mapping[str, Any] = dict(RECIPE) | dict(cell.settings)
        epochs = settings["epochs"]
        if cell.system == OURS:
            epochs = dict(cell.settings).get("epochs", self.data.base.epochs or epochs)
        training = self.data.training
        dev = self.data.dev_set(TUNED_SEED)
        read_once = len(dev.questions) + len(dev.dataset.answers) + len(dev.dataset.wordings)
        per_pair = 2.0 + settings["wrong_answers"]
        if cell.system == OURS:
            per_pair = 1.0 + CANDIDATES if training.judged else 2.0
        if cell.system == CROSS_ENCODER:
            per_pair = 2.0 * (1 + settings["wrong_answers"])  # each with the question beside it
            read_once = 2 * RERANKED * len(dev.questions)
        if cell.system == UNTRAINED:
            epochs = 0
        learnt = training.pairs * per_pair * epochs * PASSES
        return self._seconds_per_text * (learnt + read_once * (epochs + 2))


def run_cells(
    cells: Cells,
    systems: Sequence[str],
    trials: int,
    seeds: Sequence[int],
    estimate: Estimate,
    tell: Callable[[str], None],
) -> None:
    """Measure all cells that are not there yet: the trials of each system, then its seeds."""
    for system in systems:
        _run_all(cells, cells.trials(system, trials), estimate, tell)
        settings = cells.chosen(system, trials)
        _run_all(cells, cells.of_seeds(system, settings, seeds), estimate, tell)


def _run_all(cells: Cells, wanted: Sequence[Cell], estimate: Estimate, tell: Callable[[str], None]) -> None:
    for cell in wanted:
        result = cells.read(cell)
        if result is None:
            tell(f"{cells.data.name}, {cell.name}: about {estimate.seconds(cell) / 60:.0f} minutes")
            result = cells.measure(cell)
            tell(f"  {result['seconds'] / 60:.1f} minutes")
        estimate.add(cell, result["seconds"])


def planned(cells: Cells, systems: Sequence[str], trials: int, seeds: Sequence[int]) -> list[Cell]:
    """All cells; while nothing is chosen yet, those of seeds with the default settings."""
    plan: list[Cell] = []
    for system in systems:
        plan += cells.trials(system, trials)
        settings = trials_of(system, 1)[0] if cells.tuned is None else cells.tuned[system]
        plan += cells.of_seeds(system, settings, seeds)
    return plan


def finished_results(cells: Cells, wanted: Sequence[Cell]) -> list[Result] | None:
    """Their results; None if one is missing."""
    results: list[Result] = []
    for cell in wanted:
        result = cells.read(cell)
        if result is None:
            return None
        results.append(result)
    return results


def collect(cells: Cells, trials: int, seeds: Sequence[int]) -> Result:
    """All that was measured of a data set, as its JSON file holds it, but for the p-values.

    A system that is not finished is left out.
    """
    systems: dict[str, Any] = {}
    ranks: dict[str, Any] = {}
    for system in SYSTEMS:
        tried = finished_results(cells, cells.trials(system, trials))
        if tried is None:
            continue
        chosen = cells.chosen(system, trials)
        finished = finished_results(cells, cells.of_seeds(system, chosen, seeds))
        if finished is None:
            continue
        rows: dict[str, dict[str, list[float]]] = {}
        for name in finished[0]["rows"]:
            rows[name] = {measure: [run["rows"][name][measure] for run in finished] for measure in MEASURES}
        systems[system] = {
            "trials": [{"settings": trial["settings"], "dev": trial["dev"]} for trial in tried],
            "chosen": chosen,
            "seeds": [run["seed"] for run in finished],
            "seconds": [run["seconds"] for run in finished],
            "rows": rows,
        }
        ranks[system] = {name: [ranks_text(run["reciprocal_ranks"][name]) for run in finished] for name in rows}
    test = cells.data.test_set
    facts = {"name": cells.data.name, "title": cells.data.title, "encoder": Path(cells.data.encoder).name}
    facts |= {"questions": len(test.questions), "candidates": test.candidates}
    facts |= {"origin": cells.origin, "grids": GRIDS, "bm25": test.bm25}
    return {**facts, "systems": systems, "ranks": ranks}
