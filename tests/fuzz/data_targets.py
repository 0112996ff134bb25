"""Readers of questions, answers, judgements, word vectors and settings."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import handbook
import numpy as np
import openpyxl
import pyarrow
import pyarrow.parquet
import yaml
from conftest import TEXTS
from optuna.distributions import CategoricalDistribution

from ap_ranker.data.audit import audit
from ap_ranker.data.audit.fix import fix
from ap_ranker.data.dataset import Dataset
from ap_ranker.data.faq import Match, read_faq
from ap_ranker.data.feedback import add_feedback
from ap_ranker.data.reader import read_dataset
from ap_ranker.data.tables import read_table
from ap_ranker.documents import read_documents
from ap_ranker.documents.passages import LENGTH
from ap_ranker.models.registry import MODELS, build_model, complete_options
from ap_ranker.models.spec import Inputs
from ap_ranker.text.word_vectors import read_vectors
from ap_ranker.training.config import TrainingConfig, read_training_config
from ap_ranker.training.search_space import configure, read_space

from .mutations import mutate_folder
from .naive_tables import naive_rows, named_rows
from .target import Target, expect, expect_finite

QUESTIONS, ANSWERS = (
    TEXTS[::2],
    [*TEXTS[1::2][:-1], "Nur der „große“ Akku passt, 中文 — its number\nstands on the frame."],
)
FORMATS = (".csv", ".tsv", ".jsonl", ".parquet", ".csv.gz", ".tsv.gz", ".jsonl.gz", ".parquet.gz", ".xlsx")
JUDGEMENTS = (
    "1",
    "0",
    "true",
    "false",
    "good",
    "potentiallyuseful",
    "potential",
    "bad",
    "dialogue",
    "not english",
    "other",
)
SPLITS = ("train", "dev", "test")

Rows = Sequence[Mapping[str, str]]

PAIRS: Rows = [{"question": q, "answer": a, "topic": "bikes"} for q, a in zip(QUESTIONS, ANSWERS, strict=True)]
JUDGED: Rows = [
    {"qid": str(i), "question": q, "answer": a, "label": str(int(i == j))}
    for i, q in enumerate(QUESTIONS)
    for j, a in enumerate(ANSWERS)
]
GRADED: Rows = [{**row, "label": ("Bad", "Good")[int(row["label"])]} for row in JUDGED]
BY_ID: dict[str, Rows] = {
    "train": [
        {"qid": f"q{i}", "question": q, "answer_ids": f"a{i} a0", "answerable": "1"} for i, q in enumerate(QUESTIONS)
    ],
    "answers": [{"aid": f"a{i}", "answer": a, "question": QUESTIONS[i]} for i, a in enumerate(ANSWERS)],
    "train-pools": [{"qid": f"q{i}", "candidate_ids": "a0 a1 a2"} for i in range(len(QUESTIONS))],
}
FEEDBACK: Rows = [
    {"question": f"{q} please", "answer": ANSWERS[(i + n) % 3], "label": str(int(n == 0)), "stored_question": ""}
    for i, q in enumerate(QUESTIONS)
    for n in range(2)
]


def table(rows: Rows, suffix: str) -> bytes:
    """A sound file of these records."""
    if suffix.endswith(".gz"):
        return gzip.compress(table(rows, suffix.removesuffix(".gz")), mtime=0)
    if suffix == ".parquet":
        file = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist([dict(row) for row in rows]), file)
        return file.getvalue()
    if suffix == ".xlsx":
        book, file = openpyxl.Workbook(), io.BytesIO()
        for values in (list(rows[0]), *(list(row.values()) for row in rows)):
            book.active.append(values)
        book.save(file)
        return file.getvalue()
    if suffix == ".jsonl":
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    values = [list(rows[0]), *(list(row.values()) for row in rows)]
    if suffix == ".tsv":
        return "".join("\t".join(row).replace("\n", " ") + "\n" for row in values).encode()
    text = io.StringIO(newline="")
    csv.writer(text).writerows(values)
    return text.getvalue().encode()


def _file(rows: Rows, suffix: str, folder: Path) -> None:
    (folder / f"train{suffix}").write_bytes(table(rows, suffix))


def _by_id(suffix: str, folder: Path) -> None:
    for name, rows in BY_ID.items():
        (folder / f"{name}{suffix}").write_bytes(table(rows, suffix))


def _splits(rows: Rows, folder: Path) -> None:
    for split in SPLITS:
        (folder / f"{split}.csv").write_bytes(table(rows, ".csv"))


def _each_format(write: Callable[[str, Path], None]) -> dict[str, Callable[[Path], None]]:
    return {suffix: partial(write, suffix) for suffix in FORMATS}


def _named(folder: Path, stem: str) -> Path:
    """The file that a name without its ending means; a mutation may have taken it away."""
    return next((file for file in sorted(folder.iterdir()) if file.name.split(".")[0] == stem), folder / f"{stem}.csv")


def use_table(folder: Path) -> None:
    """Texts exactly as a second reader finds them, row by row."""
    path = _named(folder, "train")
    rows = [row.fields for row in read_table(path).rows]
    expected = naive_rows(path)
    expect(len(rows) == len(expected), f"{len(rows)} rows were read of {len(expected)}")
    for found, wanted in zip(rows, expected, strict=True):
        # A record of JSON that lacks a field is read as one whose field is empty.
        texts = {name: text for name, text in found.items() if text}
        wanted_texts = {name: text for name, text in wanted.items() if text}
        expect(texts == wanted_texts, f"read as {found}, but the file says {wanted}")
        "".join((*found, *found.values())).encode()  # what UTF-8 cannot hold could never be written


def use_faq(folder: Path) -> None:
    path = _named(folder, "train")
    entries = read_faq(path)
    finished = [row for row in named_rows(path) if row["answer"].strip()]
    for entry, row in zip(entries, finished, strict=True):
        expect(bool(entry.answer), f"an empty answer was read for {row['answer']!r}")
        if not {*"&<"} & {*row["answer"], *row.get("question", "")}:  # as HTML is read, tests/data/test_html_cells.py says
            expect(entry.answer == row["answer"].strip(), f"{entry.answer!r} was read for {row['answer']!r}")
            expect(entry.question == row.get("question", "").strip(), f"{entry.question!r} was read as question")
        expect(bool(entry.text(Match.question)), "an entry without text")


def use_dataset(folder: Path) -> None:
    """Questions, answers and who is right, as the rows say."""
    data = read_dataset(folder, "train")
    path = _named(folder, "train")
    rows = named_rows(path)
    expect_sound(data)
    columns = set(rows[0])
    if {"question", "answer_ids"} <= columns:
        _expect_by_id(data, rows, named_rows(_named(folder, "answers"), guess=False))
    elif "label" in columns:
        for row in rows:
            label = row["label"].strip().casefold()
            expect(label in JUDGEMENTS or _is_binary(label), f"a label was taken that is none: {label!r}")
        key = "qid" if "qid" in columns else "question"
        wanted = {(row[key].strip(), row["answer"].strip()) for row in rows}
        found = {
            (q.id if key == "qid" else q.text, data.answers[place].text)
            for q in data.questions
            for place in q.candidates or ()
        }
        expect(found == wanted, f"candidates {found ^ wanted} are in one of file and data only")
    else:
        wanted = {(row["question"].strip(), row["answer"].strip()) for row in rows}
        found = {(q.text, data.answers[a].text) for q in data.questions for a in q.positives}
        expect(found == wanted, f"pairs {found ^ wanted} are in one of file and data only")


def _is_binary(label: str) -> bool:
    """1, 0, 1.0 and so on; how a program writes two classes."""
    try:
        return float(label) in (0, 1)
    except ValueError:
        return False


def _expect_by_id(data: Dataset, rows: list[dict[str, str]], answers: list[dict[str, str]]) -> None:
    expect(len(data.answers) == len(answers), f"{len(data.answers)} answers were read of {len(answers)}")
    for answer, row in zip(data.answers, answers, strict=True):
        expect(answer.text.endswith(row["answer"].strip()), f"{answer.text!r} was read for {row['answer']!r}")
    for question, row in zip(data.questions, rows, strict=False):  # stored questions follow
        expect(question.text == row["question"].strip(), f"{question.text!r} was read for {row['question']!r}")
        right = {data.answers[place].id for place in question.positives}
        expect(right in ({*row["answer_ids"].split()}, set()), f"{right} were read for {row['answer_ids']!r}")


def expect_sound(data: Dataset) -> None:
    """Texts where there should be some, and positions that exist."""
    n = len(data.answers)
    expect(all(answer.text for answer in data.answers), "an answer without text")
    for question in data.questions:
        expect(bool(question.text), "a question without text")
        places = (*question.positives, *(question.candidates or ()))
        expect(all(0 <= place < n for place in places), f"positions {places} among {n} answers")
        expect(all(0 <= label < len(data.classes) for label in question.labels), f"labels {question.labels}")


def use_audit(folder: Path) -> None:
    report = audit(folder, max_tokens=20)
    json.dumps(report.as_json(), allow_nan=False).encode()
    tables = [named_rows(path) for path in (_named(folder, name) for name in SPLITS) if path.is_file()]
    if any("answer_ids" in rows[0] for rows in tables):
        tables.append(named_rows(_named(folder, "answers"), guess=False))
    questions = sum(len({row.get("question", "").strip() for row in rows} - {""}) for rows in tables)
    expect(report.questions == questions, f"{report.questions} question texts were counted of {questions}")
    expect(all(finding.count > 0 for finding in report.findings.values()), f"{report.findings}")


def use_fix(folder: Path) -> None:
    """The repaired copy can be read, and has nothing left to repair; rows without a fault are as they were."""
    path, output = _named(folder, "train"), folder / "fixed.csv"
    repaired, log = fix(path, output)
    before, after = read_table(path), read_table(output)
    changes = [json.loads(line) for line in log.read_text().split("\n") if line]
    expect(set(after.columns) >= set(before.columns), f"columns {before.columns} became {after.columns}")
    changed = {change["place"] for change in changes}
    blank = dict.fromkeys(after.columns, "")
    kept = [blank | row.fields for row in before.rows if row.place not in changed]
    found = [row.fields for row in after.rows]
    expect(all(row in found for row in kept), "a row without a fault has changed")
    expect(sum(repaired.values()) == len(changes), f"{repaired} repairs, {len(changes)} changes")
    again, _ = fix(output, folder / "again.csv")
    expect(not again, f"the repaired copy was repaired again: {again}")


def use_feedback(folder: Path) -> None:
    training = read_dataset(folder / "pairs.csv", "train")
    dev = replace(training, questions=training.questions[:1])
    path = folder / "feedback.jsonl"
    learnt = add_feedback(training, dev, path)
    expect_sound(learnt)
    helped = {row["question"].strip() for row in naive_rows(path) if row.get("label", "").strip() == "1"}
    new = {question.text for question in learnt.questions} - {question.text for question in training.questions}
    expect(new <= helped, f"{new - helped} was learnt from, which nobody said")


def _help(folder: Path) -> None:
    (folder / "help.html").write_text(handbook.HELP, encoding="utf-8")


def _guide(folder: Path) -> None:
    (folder / "guide.md").write_text(handbook.MARKDOWN, encoding="utf-8")


def _rules(folder: Path) -> None:
    (folder / "rules.pdf").write_bytes(handbook.pdf([["Parking"], ["Bicycles stand in the", "yard."]]))


DOCUMENTS: dict[str, Callable[[Path], None]] = {
    "html": _help,
    "md": _guide,
    "pdf": _rules,
    "docx": lambda folder: handbook.word(folder / "handbook.docx"),
    "pptx": lambda folder: handbook.slides(folder / "slides.pptx"),
    "xlsx": lambda folder: handbook.workbook(
        folder / "phones.xlsx", [("Plant", "Phone", "Room"), ("Graz", 4711.0, "7")]
    ),
}


def use_documents(folder: Path) -> None:
    """Passages of a length that a model reads, each with its file."""
    reading = read_documents(folder)
    expect(bool(reading.entries), "nothing was read, without a word")
    for entry in reading.entries:
        expect(0 < len(entry.answer) <= LENGTH, f"a passage of {len(entry.answer)} characters")
        expect(os.path.lexists(folder / entry.other["file_path"]), f"a passage of {entry.other['file_path']}")
        entry.text(Match.both).encode()


VECTOR_WORDS = ["the", "parcel", "größe", "battery"]
VECTORS = np.arange(12, dtype=np.float32).reshape(4, 3) / 8


def _vectors_text(header: str, suffix: str, folder: Path) -> None:
    rows = zip(VECTOR_WORDS, VECTORS.tolist(), strict=True)
    lines = [f"{word} {' '.join(map(str, vector))}\n" for word, vector in rows]
    content = (header + "".join(lines)).encode()
    (folder / f"vectors{suffix}").write_bytes(gzip.compress(content, mtime=0) if suffix.endswith("gz") else content)


def _vectors_binary(suffix: str, folder: Path) -> None:
    content = b"4 3\n"
    for word, vector in zip(VECTOR_WORDS, VECTORS, strict=True):
        content += word.encode() + b" " + struct.pack("<3f", *vector) + b"\n"
    (folder / f"vectors{suffix}").write_bytes(gzip.compress(content, mtime=0) if suffix.endswith("gz") else content)


def use_vectors(folder: Path) -> None:
    path = next((file for file in folder.iterdir() if file.name.startswith("vectors")), folder / "vectors.txt")
    vectors = read_vectors(path)
    expect(vectors.matrix.shape == (len(vectors.words), vectors.dimensions), f"{vectors.matrix.shape}")
    expect(bool(np.isfinite(vectors.matrix).all()), "word vectors with numbers that are none")
    expect(len(vectors.words) > 0 < vectors.dimensions, f"{len(vectors.words)} words, {vectors.dimensions} dimensions")
    expect(bool(np.isfinite(vectors.table(["", "parcel"], np.random.default_rng(0))).all()), "a table of no numbers")
    if ".bin" not in path.name:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        lines = [line.split(b" ") for line in content.split(b"\n") if line.strip()]
        expect(len(vectors.words) == len(lines) - _is_header(lines[0]), f"{len(vectors.words)} of {len(lines)} lines")


def _is_header(fields: list[bytes]) -> bool:
    """As word2vec and fastText begin: how many words of how many numbers."""
    return len(fields) == 2 and all(field.strip().isdigit() for field in fields)


def _settings(name: str, folder: Path) -> None:
    spec = MODELS[name]
    settings = {
        **{"model": name, "options": {}, "match": "answer", "seed": 3, "learning_rate": 0.01, "batch_size": 8},
        **{"embedding_size": 20, "max_tokens": 30, "dev_share": 0.2, "epochs": 2, "patience": 1, "temperature": 0.1},
        **{"weight_decay": 0.0, "negatives": 2, "schedule": "constant"},
    }
    settings["options"] = {key: option.default for key, option in spec.options.items()}
    (folder / "settings.yaml").write_text(yaml.safe_dump(settings, sort_keys=False))


POSITIVE = ("batch_size", "embedding_size", "max_tokens", "patience", "learning_rate", "temperature", "dev_questions")


def use_settings(folder: Path) -> None:
    """What is accepted can be trained with: numbers in range, a model that can be built."""
    config = read_training_config(folder / "settings.yaml", {})
    recipe = config.training_recipe(judged=False)
    json.dumps(config.without_defaults(), allow_nan=False)
    for name in POSITIVE:
        value = getattr(config, name)
        expect(value is None or 0 < value < math.inf, f"{name}: {value!r} was accepted")
    expect_finite(recipe.learning_rate, recipe.margin, recipe.weight_decay)
    expect(recipe.batch_size >= 1, f"batch_size {recipe.batch_size}")
    expect(config.negatives is None or config.negatives >= 0, f"negatives: {config.negatives}")
    expect(0 <= config.seed < 2**63, f"seed: {config.seed}")
    if not MODELS[config.model].pretrained:
        build_model(
            config.model, Inputs(["", "?", "parcel"], config.embedding_size or 100, config.max_tokens), config.options
        )
    else:
        complete_options(config.model, config.options)


SPACE = {
    "model": ["ap-cnn", "qa-cnn"],
    "learning_rate": {"low": 0.001, "high": 0.1, "log": True},
    "batch_size": {"low": 8, "high": 64, "step": 8},
    "options.filters": [100, 200],
    "objective": ["softmax", "hinge"],
}


def _space(folder: Path) -> None:
    (folder / "space.yaml").write_text(yaml.safe_dump(SPACE, sort_keys=False))


def use_space(folder: Path) -> None:
    """Every value that may be tried is one that training takes."""
    base = TrainingConfig()
    for name, setting in read_space(folder / "space.yaml", base).items():
        values = setting.choices if isinstance(setting, CategoricalDistribution) else (setting.low, setting.high)
        for value in values:
            json.dumps(value, allow_nan=False)
            if name == "model":
                configure(base, {name: value}).training_recipe(judged=False)
        if not isinstance(setting, CategoricalDistribution):
            expect_finite(setting.low, setting.high)
            expect(setting.low <= setting.high, f"a range from {setting.low} to {setting.high}")


def _feedback(folder: Path) -> None:
    (folder / "pairs.csv").write_bytes(table(PAIRS, ".csv"))
    (folder / "feedback.jsonl").write_bytes(table(FEEDBACK, ".jsonl"))


DATASETS = {
    **{f"pairs{suffix}": partial(_file, PAIRS, suffix) for suffix in FORMATS},
    **{f"judged{suffix}": partial(_file, JUDGED, suffix) for suffix in FORMATS},
    **{f"graded{suffix}": partial(_file, GRADED, suffix) for suffix in (".csv", ".jsonl")},
    **{f"by-id{suffix}": partial(_by_id, suffix) for suffix in FORMATS},
}
TARGETS = [
    Target("table", _each_format(partial(_file, PAIRS)), use_table, weight=4),
    Target("faq", _each_format(partial(_file, PAIRS)), use_faq),
    Target("dataset", DATASETS, use_dataset, weight=6),
    Target("documents", DOCUMENTS, use_documents),
    Target("audit", {**DATASETS, "splits": partial(_splits, JUDGED)}, use_audit, weight=3),
    Target("fix", {name: write for name, write in DATASETS.items() if "by-id" not in name}, use_fix),
    Target("feedback", {"": _feedback}, use_feedback, partial(mutate_folder, only="feedback.jsonl")),
    Target(
        "vectors",
        {
            **{f"glove{suffix}": partial(_vectors_text, "", suffix) for suffix in (".txt", ".txt.gz")},
            **{f"word2vec{suffix}": partial(_vectors_text, "4 3\n", suffix) for suffix in (".txt", ".txt.gz")},
            **{f"binary{suffix}": partial(_vectors_binary, suffix) for suffix in (".bin", ".bin.gz")},
        },
        use_vectors,
    ),
    Target("settings", {name: partial(_settings, name) for name in sorted(MODELS)}, use_settings, weight=4),
    Target("space", {"": _space}, use_space),
]
