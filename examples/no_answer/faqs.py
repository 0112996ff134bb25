"""The FAQs on which decisions are fitted and judged, each as a search may have it: with stored questions, or not."""

from __future__ import annotations

import csv
import gzip
import io
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.data.faq import Entry

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(__file__).parent / "data"
EXAMPLE = ROOT / "examples" / "faq"
LANGUAGES = ROOT / "examples" / "languages" / "faqs"

DOCUMENTS, STORED, WORDINGS = "documents", "stored questions", "wordings"
"""What is known of a FAQ: answers alone; one question for each; many."""


Asked = tuple[str, str, Sequence[str]]  # split, question, ids of the right answers


@dataclass(frozen=True)
class Faq:
    """A FAQ with questions of a split: `known` is one of the three, `family` is shared by those with the same texts."""

    family: str
    known: str
    language: str | None
    data: Dataset

    @property
    def name(self) -> str:
        """For tables."""
        return f"{self.family}, {self.known}"


def rows_of(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file, compressed or not."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    return list(csv.DictReader(io.StringIO(text, newline="")))


def off_topic(split: str) -> list[str]:
    """Questions that no FAQ here answers."""
    return [row["question"] for row in rows_of(DATA / "off_topic.csv") if row["split"] == split]


def read_faqs(shared: Path | None) -> Iterator[Faq]:
    """All FAQs, their questions' ids beginning with the split; those of public data only if their folder is given."""
    answers = rows_of(EXAMPLE / "answers.csv")
    texts = [(row["aid"], row["question"], row["answer"]) for row in answers]
    questions = [
        (split, row["question"], row["answer_ids"].split())
        for split in ("dev", "test")
        for row in rows_of(EXAMPLE / f"{split}.csv")
    ]
    wordings: defaultdict[str, list[str]] = defaultdict(list)
    for row in rows_of(EXAMPLE / "train.csv"):
        for name in row["answer_ids"].split():
            wordings[name].append(row["question"])
    yield from _both("example", "english", texts, questions)
    yield Faq("example", WORDINGS, "english", _dataset("example", texts, questions, wordings))
    if shared is not None:
        for family, file, language in (
            ("covid_en", "covid-faq-en", "english"),
            ("covid_de", "covid-faq-multilingual", "german"),
        ):
            rows = rows_of(shared / "faq_public" / f"{file}.csv.gz")
            kept = [(str(n), row["question"], row["answer"]) for n, row in enumerate(rows)]
            kept = [each for each, row in zip(kept, rows, strict=True) if row.get("lang", "de") == "de"]
            yield from _both(family, language, kept, _written(family, "rows"))
    for family, language in (("coworking", "english"), ("pool_de", "german")):
        table = rows_of(DATA / f"{family}.csv")
        texts = [(row["aid"], row["question"], row["answer"]) for row in table]
        yield from _both(family, language, texts, _written(family, "answer_ids"))
    yield Faq("docs", DOCUMENTS, "english", _docs())
    for language in ("french", "spanish", "turkish"):  # to fit to, with no questions to judge by
        folder = LANGUAGES / language
        texts = [(row["aid"], row["question"], row["answer"]) for row in rows_of(folder / "answers.csv")]
        asked = [("dev", row["question"], row["answer_ids"].split()) for row in rows_of(folder / "test.csv")]
        yield from _both(language, language, texts, asked)


def _written(family: str, column: str) -> list[Asked]:
    rows = rows_of(DATA / f"{family}_questions.csv")
    return [(row["split"], row["question"], row[column].split() if row["answerable"] == "yes" else []) for row in rows]


def _both(
    family: str,
    language: str | None,
    texts: Sequence[tuple[str, str, str]],
    questions: Sequence[Asked],
) -> Iterator[Faq]:
    yield Faq(family, STORED, language, _dataset(family, texts, questions))
    bare = [(name, "", answer) for name, _, answer in texts]
    yield Faq(family, DOCUMENTS, language, _dataset(family, bare, questions))


def _dataset(
    name: str,
    texts: Sequence[tuple[str, str, str]],
    questions: Sequence[Asked],
    wordings: Mapping[str, Sequence[str]] | None = None,
) -> Dataset:
    known = wordings or {}
    answers = [
        Answer(
            key, "\n".join(filter(None, (stored, answer))), tuple(filter(None, (stored, *known.get(key, ())))), answer
        )
        for key, stored, answer in texts
    ]
    row_of = {answer.id: row for row, answer in enumerate(answers)}
    asked = [
        Question(f"{split}-{n}", text, tuple(row_of[each] for each in right))
        for n, (split, text, right) in enumerate(questions)
    ]
    return Dataset(name, answers, asked)


def _docs() -> Dataset:
    """The project's own documentation as it was on 30 November 2026: passages below headings answer what is asked.

    The pages change, and what is asked about them names their headings.
    """
    answers: list[Answer] = []
    below: defaultdict[str, list[int]] = defaultdict(list)
    for number, row in enumerate(rows_of(DATA / "docs_passages.csv")):
        entry = Entry(row["question"], row["answer"], other={}, place=row["page"], title=row["title"])
        for heading in {entry.title.split(" > ")[-1], entry.question}:
            below[f"{entry.place}#{heading}"].append(number)
        answers.append(Answer(f"{entry.place}:{number}", entry.text("both"), entry.questions, entry.answer))
    questions = []
    for row in rows_of(DATA / "docs_questions.csv"):
        headings = [heading.strip() for heading in row["answer_ids"].split("|") if heading.strip()]
        right = sorted({place for heading in headings for place in below.get(heading, ())})
        if right or row["answerable"] == "no":
            questions.append(Question(f"{row['split']}-{row['qid']}", row["question"], tuple(right)))
    return Dataset("docs", answers, questions)
