"""How well small models rank that learn from a large one, and what they cost: train each, measure it, write it down.

python examples/distill/run.py checkpoints/teacher --data examples/faq --language english
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ap_ranker.cli.epoch_lines import EpochLines
from ap_ranker.cli.errors import report_user_errors
from ap_ranker.cli.options import Device, Language
from ap_ranker.data.dataset import Dataset
from ap_ranker.data.reader import read_dataset
from ap_ranker.data.wordings import with_wordings
from ap_ranker.errors import InputError
from ap_ranker.evaluation.evaluation_report import EvaluationReport
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.markdown import markdown_table, spread
from ap_ranker.models.registry import model_spec
from ap_ranker.ranking.cache import EncodingCache
from ap_ranker.ranking.checkpoint import is_checkpoint
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.settings import read_fields
from ap_ranker.training.config import TrainingConfig, read_settings
from ap_ranker.training.distill import distill
from ap_ranker.training.teacher import CACHE_BYTES
from ap_ranker.training.train import train
from benchmarks.number_lists import whole_numbers

sys.path.append(str(Path(__file__).resolve().parents[1]))
from result_rows import ResultRow, describe_settings

HERE = Path(__file__).resolve().parent

TEACHER = "teacher"
"""The name of the teacher's row."""

MEASURES = ("MRR", "P@1")

ENOUGH = 0.95
"""The share of the teacher's MRR that a student must keep to take its place."""

console = Console(soft_wrap=True)


@dataclass(frozen=True)
class Student:
    """A row of the table.

    Attributes:
        name: its key in `students.yaml`.
        taught: whether it learns from the teacher, or from the labels alone.
        config: all settings but the seed.
        words_of: another student, with whose word vectors it begins.
    """

    name: str
    taught: bool
    config: TrainingConfig
    words_of: Student | None = None


@dataclass(frozen=True)
class Row(ResultRow):
    """A system's test results.

    Attributes:
        data: the data set's name, and whether the teacher is untrained.
        name: a key of `students.yaml`, or `teacher`.
        n_questions: test questions, which the means are over.
        candidates: what was ranked, in words.
        model: measure -> the model's mean, with the known wordings if it can compare them.
        fused: measure -> the mean of its score together with BM25's; the model's own where BM25 adds nothing.
        bm25: measure -> BM25's mean.
        milliseconds: to encode a question and match it with its encoded candidates, one question at a time.
        bytes_per_answer: of what is kept of an answer; mean over the answers.
        training_seconds: of each run, with that of the student whose word vectors it begins with.
    """

    data: str
    name: str
    n_questions: int
    candidates: str
    model: dict[str, list[float]]
    fused: dict[str, list[float]]
    bm25: dict[str, float]
    milliseconds: list[float]
    bytes_per_answer: list[float]
    training_seconds: list[float]

    @property
    def key(self) -> tuple[str, str]:
        return self.data, self.name


def command(
    teacher: Annotated[Path, typer.Argument(help="The checkpoint to learn from.")],
    data: Annotated[Path, typer.Option(help="A folder with train.*, dev.* or valid.*, and test.*.")],
    language: Language = None,
    students: Annotated[str | None, typer.Option(help="Rows, separated by commas; all if not given.")] = None,
    seeds: Annotated[str, typer.Option(help="Of the runs, separated by commas.")] = "1",
    runs: Annotated[Path, typer.Option(help="A folder for the checkpoints; finished ones are not trained again.")] = (
        Path("checkpoints/distill")
    ),
    settings: Annotated[Path, typer.Option(help="The rows: a file like students.yaml.")] = HERE / "students.yaml",
    device: Device = "auto",
) -> None:
    """Train each student with every seed, measure it beside the teacher, add its row to the results."""
    known = read_students(settings, language)
    chosen = students.split(",") if students else list(known)
    if unknown := [name for name in chosen if name not in known]:
        raise InputError(f"Expected --students among {', '.join(known)}; found {unknown[0]!r}.")
    measure(teacher, data, [known[name] for name in chosen], whole_numbers("--seeds", seeds), runs, device, HERE)


def read_students(path: Path, language: str | None) -> dict[str, Student]:
    """The students of a YAML file by their names: `taught` and attributes of `TrainingConfig` under each.

    `words_of` names a student above, whose word vectors this one begins with.

    Raises:
        InputError: unreadable, an unknown setting, no `taught`, an unknown `words_of`; names the file and the student.
    """
    students: dict[str, Student] = {}
    for name, entry in read_settings(path).items():
        where = f"{path}, {name}"
        if not isinstance(entry, dict) or not isinstance(entry.get("taught"), bool):
            raise InputError(f"{where}: expected settings with 'taught: true' or 'taught: false'.")
        first = entry.get("words_of")
        if first is not None and first not in list(students):
            raise InputError(f"{where}: expected words_of among {', '.join(students)}, found {first!r}.")
        values = {key: value for key, value in entry.items() if key not in ("taught", "words_of")}
        config = read_fields(TrainingConfig, {"language": language, **values}, where)
        if not (entry["taught"] or config.embeddings or model_spec(config.model).pretrained):
            config = replace(config, embeddings="encoder")
        students[name] = Student(name, entry["taught"], config, None if first is None else students[first])
    return students


def measure(
    teacher: Path,
    folder: Path,
    students: Sequence[Student],
    seeds: Sequence[int],
    runs: Path,
    device: str,
    results: Path,
) -> None:
    """Measure the teacher and each student; each row is written when it is done.

    Args:
        teacher: its checkpoint.
        folder: of the data.
        students: to train.
        seeds: of the runs.
        runs: a folder for the checkpoints.
        device: `auto`, `cpu`, `cuda:0`.
        results: the folder of `results.json` and `results.md`.

    Raises:
        InputError: bad data or a bad checkpoint.
    """
    where = None if device == "auto" else device
    ranker = Ranker.from_pretrained(teacher, where, cache=EncodingCache(CACHE_BYTES))
    name, order = folder.resolve().name, [TEACHER, *(student.name for student in students)]
    own = students[0].config if students else TrainingConfig()
    parts = [read_dataset(folder, split, match=own.match) for split in ("train", "dev", "test")]
    test = EvaluationSet(with_wordings(parts[2], parts[0]), language=own.language)
    learnt = ranker.config.training if ranker.config else {}
    kind = "" if learnt.get("best_epoch") else ", untrained teacher"
    add = partial(_add, name=name + kind, results=results, order=order)
    seconds = [learnt.get("seconds", 0.0)]  # none of one that `ap-ranker init` wrote
    add([test.report(ranker)], seconds, TEACHER, [learnt.get("seed", 1)], str([learnt.get("epochs", 0)]))
    for student in students:
        console.print(f"{name}: {student.name}")
        trained = [_trained(parts, ranker, student, seed, runs / name, device) for seed in seeds]
        reports = [test.report(ranker) for ranker, _ in trained]
        settings = describe_settings(student.config)
        if student.words_of is not None:
            settings += f", words of {student.words_of.name}: {describe_settings(student.words_of.config)}"
        add(reports, [seconds for _, seconds in trained], student.name, seeds, settings)


def _trained(
    parts: Sequence[Dataset],
    teacher: Ranker,
    student: Student,
    seed: int,
    runs: Path,
    device: str,
) -> tuple[Ranker, float]:
    """The ranker of a finished run, or a new run's, and the seconds that it took with what it begins with.

    The folder's name has a hash of all that the run depends on.
    """
    config = replace(student.config, seed=seed)
    console.print(f"{student.name}, seed {seed}")
    first = _trained(parts, teacher, student.words_of, seed, runs, device) if student.words_of else None
    sources = [*([teacher] if student.taught else []), *([first[0]] if first else ())]
    origin = (describe_settings(config), *(ranker.fingerprint for ranker in sources))
    digest = hashlib.sha256(repr(origin).encode()).hexdigest()[:8]
    folder = runs / f"{student.name}-{digest}-seed{seed}"
    if first:
        config = replace(config, embeddings=str(first[0].source))
    if not is_checkpoint(folder):
        lines = (EpochLines(console),)
        if student.taught:
            distill(teacher, parts[0], parts[1], folder, config, device=device, callbacks=lines)
        else:
            train(parts[0], parts[1], folder, config, device=device, callbacks=lines)
    ranker = Ranker.from_pretrained(folder, None if device == "auto" else device, cache=EncodingCache(0))
    assert ranker.config is not None
    return ranker, ranker.config.training["seconds"] + (first[1] if first else 0.0)


def _add(
    reports: Sequence[EvaluationReport],
    training_seconds: Sequence[float],
    student: str,
    seeds: Sequence[int],
    settings: str,
    *,
    name: str,
    results: Path,
    order: Sequence[str],
) -> None:
    row = Row(
        data=name,
        name=student,
        seeds=list(seeds),
        settings=settings,
        n_questions=reports[0].n_questions,
        candidates=reports[0].candidates,
        model={measure: [report.model[measure] for report in reports] for measure in MEASURES},
        fused={measure: [report.fused[measure] for report in reports] for measure in MEASURES},
        bm25={measure: reports[0].bm25[measure] for measure in MEASURES},
        milliseconds=[report.seconds_per_question * 1000 for report in reports],
        bytes_per_answer=[report.bytes_per_answer for report in reports],
        training_seconds=list(training_seconds),
    )
    written = row.add(results, partial(render, order=order))
    console.print(f"{name}, {student}: test MRR {spread(written.model['MRR'])}")


def render(rows: Iterable[Row], order: Sequence[str]) -> str:
    """`results.md`: for each data set a table, and the student of least cost that keeps enough.

    Args:
        rows: in any order.
        order: of a table's rows; others stand last.
    """
    by_data: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: (row.data, order.index(row.name) if row.name in order else len(order))):
        by_data.setdefault(row.data, []).append(row)
    parts = ["# Results\n\nWritten by `run.py` from `results.json`; [how to read it](README.md)."]
    for data, own in by_data.items():
        about = f"{own[0].n_questions} test questions; candidates: {own[0].candidates}."
        parts.append(f"## {data}\n\n{about}\n\n{_table(own)}\n\n{cheapest(own)}")
    return "\n\n".join(parts) + "\n"


def _table(rows: Sequence[Row]) -> str:
    teacher = _mrr(next((row for row in rows if row.name == TEACHER), rows[0]))
    bm25 = rows[0].bm25
    lines = [
        ["BM25", *(f"{bm25[measure]:.3f}" for measure in MEASURES), "", f"{bm25['MRR'] / teacher:.1%}", "", "", ""]
    ]
    for row in rows:
        cells = [spread(row.model[measure]) for measure in MEASURES] + [spread(row.fused["MRR"])]
        cost = [f"{_mean(row.milliseconds):.2f}", f"{_mean(row.bytes_per_answer):,.0f}"]
        lines.append([row.name, *cells, f"{_mrr(row) / teacher:.1%}", *cost, f"{_mean(row.training_seconds):.0f}"])
    titles = [
        "",
        *MEASURES,
        "MRR with BM25",
        "of the teacher's MRR",
        "ms per question",
        "bytes per answer",
        "training, s",
    ]
    return markdown_table(titles, lines)


def cheapest(rows: Sequence[Row]) -> str:
    """Names the student with the least time per question that keeps `ENOUGH` of the teacher's MRR."""
    teacher = next((row for row in rows if row.name == TEACHER), None)
    if teacher is None:
        return "The teacher was not measured."
    wanted = ENOUGH * _mrr(teacher)
    able: Callable[[Row], bool] = lambda row: row is not teacher and _mrr(row) >= wanted  # noqa: E731
    students = sorted(filter(able, rows), key=lambda row: _mean(row.milliseconds))
    if not students:
        return f"No student keeps {ENOUGH:.0%} of the teacher's MRR."
    return f"The student of least cost that keeps {ENOUGH:.0%} of the teacher's MRR: `{students[0].name}`."


def _mrr(row: Row) -> float:
    return _mean(row.model["MRR"])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


if __name__ == "__main__":
    with report_user_errors():
        typer.run(command)
