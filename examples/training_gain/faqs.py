"""FAQs with questions of users, on which the priors of weights and of what a training gains are learnt."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import yaml

from ap_ranker.data.dataset import Answer, Dataset, Question

ROOT = Path(__file__).resolve().parents[2]
LANGUAGES = ("german", "french", "spanish")

INSURANCE_QUESTIONS = 80
"""Number of questions drawn of InsuranceQA, where nobody asks for the same answer again."""


def read_faqs(shared: Path | None, public: Path | None) -> Iterator[Dataset]:
    """Each FAQ with all its users' questions; the public ones only where their folder is given.

    `shared` holds `insuranceqa/`; `public` holds clones of the repositories `BERT-FAQ` and `rasa-demo`.
    """
    yield _example()
    if public is not None:
        yield _covid(public / "BERT-FAQ" / "data" / "CovidFAQ" / "query_answer_pairs.json")
        yield _stack_exchange(public / "BERT-FAQ" / "data" / "StackFAQ" / "stackExchange-FAQ.json")
        yield _rasa(public / "rasa-demo" / "data" / "nlu")
    for language in LANGUAGES:
        yield _tables(language, ROOT / "examples" / "languages" / "faqs" / language, ["test"])
    if shared is not None:
        yield _insurance(shared / "insuranceqa")


def _example() -> Dataset:
    return _tables("example", ROOT / "examples" / "faq", ["train", "dev", "test"])


def _tables(name: str, folder: Path, splits: Sequence[str]) -> Dataset:
    entries = {row["aid"]: (row["question"], row["answer"]) for row in _rows(folder / "answers.csv")}
    asked = [(row["question"], row["answer_ids"].split()) for split in splits for row in _rows(folder / f"{split}.csv")]
    return _dataset(name, entries, asked)


def _covid(path: Path) -> Dataset:
    pairs = json.loads(path.read_text(encoding="utf-8"))
    entries = {row["answer"]: ("", row["answer"]) for row in pairs}
    asked = [(row["question"], [row["answer"]]) for row in pairs]
    return _dataset("covid", entries, asked)


def _stack_exchange(path: Path) -> Dataset:
    threads = json.loads(path.read_text(encoding="utf-8"))["root"]["qapair"]
    entries = {}
    asked = []
    for number, thread in enumerate(threads):
        first = thread["answer"][0] if isinstance(thread["answer"], list) else thread["answer"]
        entries[str(number)] = ("", first)
        asked += [(text, [str(number)]) for text in (thread["question"], *thread["rephr"]) if text]
    return _dataset("stack", entries, asked)


def _rasa(folder: Path) -> Dataset:
    intents = yaml.safe_load((folder / "faq.yml").read_text(encoding="utf-8"))["nlu"]
    responses = yaml.safe_load((folder / "responses" / "responses.yml").read_text(encoding="utf-8"))["responses"]
    entries = {}
    asked = []
    for intent in intents:
        name = intent["intent"]
        if f"utter_{name}" in responses:
            entries[name] = ("", responses[f"utter_{name}"][0]["text"])
            asked += [(line.strip("- ").strip(), [name]) for line in intent["examples"].splitlines()]
    return _dataset("rasa", entries, asked)


def _insurance(folder: Path) -> Dataset:
    texts = {row["aid"]: ("", row["answer"]) for row in _rows(folder / "answers.tsv.gz", "\t")}
    asked = [(row["question"], row["answer_ids"].split()) for row in _rows(folder / "train.tsv.gz", "\t")]
    drawn = random.Random(0).sample(asked, INSURANCE_QUESTIONS)
    return _dataset("insurance", {name: texts[name] for _, names in drawn for name in names}, drawn)


def _rows(path: Path, delimiter: str = ",") -> list[dict[str, str]]:
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    return list(csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter))


def _dataset(name: str, entries: Mapping[str, tuple[str, str]], asked: Sequence[tuple[str, Sequence[str]]]) -> Dataset:
    """The entries, and each question once, with all its right answers."""
    row_of = {key: row for row, key in enumerate(entries)}
    right: defaultdict[str, set[int]] = defaultdict(set)
    for written, names in asked:
        text = " ".join(written.split())
        if len(text) > 1 and names:
            right[text].update(row_of[each] for each in names)
    answers = [
        Answer(key, f"{stored}\n{answer}" if stored else answer, (stored,) if stored else (), answer)
        for key, (stored, answer) in entries.items()
    ]
    questions = [Question(f"{name}-{n}", text, tuple(sorted(rows))) for n, (text, rows) in enumerate(right.items())]
    return Dataset(name, answers, questions)
