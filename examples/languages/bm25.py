"""BM25 on small FAQs of eleven languages, with a stemmer where there is one and without.

python examples/languages/bm25.py                 # the FAQs of this folder
python examples/languages/bm25.py --shared DATA   # also DATA/faq_public/covid-faq-multilingual.csv.gz, by language
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.data.dataset import Dataset, Question
from ap_ranker.data.faq import Match
from ap_ranker.data.reader import read_dataset, read_pairs
from ap_ranker.data.tables import read_table
from ap_ranker.errors import InputError
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.markdown import markdown_table
from ap_ranker.ranking.bm25 import bm25_name
from ap_ranker.text.languages import check_language

FAQS = Path(__file__).resolve().parent / "faqs"
COVID = Path("faq_public") / "covid-faq-multilingual.csv.gz"
CODES = {"de": "german", "en": "english", "it": "italian", "pl": "polish", "sv": "swedish"}
"""Value of its column `lang` -> language."""


@dataclass(frozen=True)
class Found:
    """What BM25 finds, over Q questions.

    Attributes:
        strangers: number of questions that share no term with a right answer.
        first: P@1, and
        mrr: MRR; answers with the same score are ranked in random order, and these are the expected values.
    """

    strangers: int
    first: float
    mrr: float

    @property
    def cells(self) -> list[str]:
        """As a table shows it."""
        return [f"{self.strangers}", f"{self.first:.3f}", f"{self.mrr:.3f}"]


def measure(data: Dataset, language: str | None) -> Found:
    """Rank all answers of a data set by BM25 with a language's stemmer, `None` for none."""
    asked = EvaluationSet(data, language=language)
    pairs = list(zip(asked.questions, asked.bm25_scores, strict=True))
    strangers = sum(not scores[list(question.positives)].any() for question, scores in pairs)
    return Found(strangers, asked.bm25["P@1"], asked.bm25["MRR"])


def rows(name: str, language: str, by_match: list[Dataset]) -> Iterator[list[str]]:
    """A row of the table without a stemmer, and one with that of the language, or with its words, if there is one."""
    for stemmer in [None, language] if is_usable(language) else [None]:
        cells = [cell for data in by_match for cell in measure(data, stemmer).cells]
        title = bm25_name(stemmer).removeprefix("BM25, ") if stemmer else "no stemmer"
        yield [f"{name}, {title}", f"{len(by_match[0].answerable)}", *cells]


def is_usable(language: str) -> bool:
    """Whether BM25 has a stemmer or words of a language here."""
    try:
        check_language(language)
    except InputError:  # Chinese, Japanese and Korean; Thai without its extra
        return False
    return True


def read_covid(path: Path) -> Iterator[tuple[str, Dataset]]:
    """The pairs of each language: its name, and its questions among all its answers."""
    table = read_table(path)
    for code, language in CODES.items():
        yield language, read_pairs(replace(table, rows=[row for row in table.rows if row.get("lang") == code]))


def one_faq(path: Path) -> tuple[list[str], list[list[str]]]:
    """The MRR of all languages' entries in one FAQ, with no stemmer and with that of one language: titles and rows."""
    table = read_table(path)
    data = read_pairs(replace(table, rows=[row for row in table.rows if row.get("lang") in CODES]))
    questions_of: dict[str, Sequence[Question]] = {"all": data.questions}
    for language, of_language in read_covid(path):
        texts = set(of_language.question_texts)
        questions_of[language] = [question for question in data.questions if question.text in texts]
    titles = [f"stemmer, {len(data.answers)} answers"]
    titles += [f"{len(asked)} {name}" for name, asked in questions_of.items()]
    lines: list[list[str]] = []
    for stemmer in (None, "german", "english"):
        found = [measure(replace(data, questions=asked), stemmer) for asked in questions_of.values()]
        lines.append([stemmer or "none", *(f"{each.mrr:.3f}" for each in found)])
    return titles, lines


def command(
    shared: Annotated[Path | None, typer.Option(help=f"A folder with {COVID}.")] = None,
) -> None:
    """Print what BM25 finds in each FAQ."""
    numbers = ["share no term", "P@1", "MRR"]
    lines = [
        line
        for folder in sorted(FAQS.iterdir())
        for line in rows(
            *(folder.name, folder.name),
            [read_dataset(folder, "test", match=match) for match in (Match.both, Match.answer)],
        )
    ]
    titles = ["FAQ", "questions", *numbers, *(f"{name}, answers alone" for name in numbers)]
    sys.stdout.write(markdown_table(titles, lines) + "\n")
    if shared:
        lines = [line for language, data in read_covid(shared / COVID) for line in rows(language, language, [data])]
        titles = ["covid-faq-multilingual, answers alone", "questions", *numbers]
        sys.stdout.write("\n" + markdown_table(titles, lines) + "\n")
        sys.stdout.write("\n" + markdown_table(*one_faq(shared / COVID)) + "\n")


if __name__ == "__main__":
    with report_user_errors():
        typer.run(command)
