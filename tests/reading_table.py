"""What must hold of how texts are read: the rows of `tests/text/expectations`, and a table of how many hold.

    python tests/reading_table.py            # the number of rows of each kind, and how many fail
    python tests/reading_table.py --failing  # and each row that fails

The files were written beforehand, from Unicode's annexes, Lucene's analysers and what people type, not from the code.
Each is a kind. A line that begins with `#` gives the reason of the rows below it. A row is

    expected <tab> language <tab> text <tab> query <tab> twin <tab> note

where `expected` is

- found      BM25 of the text among `OTHERS`: the query's best text, with a score above 0;
- first      as `found`, with the twin among the others;
- not        BM25 gives the text the score 0;
- same       the query is the text, word for word;
- different  it is not;
- read       the words that a model reads in the query are those of the text, which it knows;
- unread     they are not.

`language` is that of BM25's stemmer, `-` for none. A note marks what reasonable people may see in another way.
Invisible characters, and those whose form matters, are written `\\u00AD` or `\\U000E0067`; a backslash is doubled.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ap_ranker.evaluation.markdown import markdown_table
from ap_ranker.ranking.bm25 import BM25
from ap_ranker.ranking.wordings import is_exact_match
from ap_ranker.text.question_keys import question_keys
from ap_ranker.text.tokenizer import WordTokenizer

FOLDER = Path(__file__).parent / "text" / "expectations"

OTHERS = (
    *("Pillows, duvets, mattresses", "Gardening gloves, watering hoses", "Wandfarbe, Pinsel, Malerkrepp"),
    *("Oreillers moelleux", "Almohadas blandas", "Мягкие подушки", "وسائد ناعمة", "बिस्तर की चादरें", "棉枕头与毛毯"),
    *("ふわふわまくらともうふ", "หมอนข้างนุ่มๆ", "푹신한 베개", "כריות רכות", "Μαξιλάρια ύπνου", "Yastık yorgan"),
)
"""Texts about something else, among which a text has to be found."""


@dataclass(frozen=True)
class Row:
    """An expectation; `place` is its file and line."""

    place: str
    kind: str
    expected: str
    language: str | None
    text: str
    query: str
    twin: str = ""
    note: str = ""

    @property
    def holds(self) -> bool:
        """Whether the product does what is expected."""
        return CHECKS[self.expected](self)

    def __str__(self) -> str:
        language = f" ({self.language})" if self.language else ""
        twin = f", not {self.twin!r}" if self.twin else ""
        return f"{self.place}: {self.query!r} {self.expected}{language}: {self.text!r}{twin}"


def read_table() -> list[Row]:
    """All rows, in the order of the files."""
    return [row for path in sorted(FOLDER.glob("*.tsv")) for row in _rows(path)]


def _rows(path: Path) -> Iterator[Row]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if number > 1 and not line.startswith("#"):
            expected, language, *texts = line.split("\t")
            yield Row(
                f"{path.name}:{number}",
                path.stem,
                expected,
                None if language == "-" else language,
                *map(unescaped, texts),
            )


def unescaped(cell: str) -> str:
    """The text that a cell stands for."""
    return re.sub(r"\\(?:u([0-9A-F]{4})|U([0-9A-F]{8})|(\\))", lambda m: m[3] or chr(int(m[1] or m[2], base=16)), cell)


def scripts(rows: list[Row]) -> Counter[str]:
    """The number of rows with letters of each script, by the first word of a letter's name."""
    return Counter(
        script
        for row in rows
        for script in {unicodedata.name(c, "?").split()[0] for c in row.text + row.query if c.isalpha()}
    )


def _is_first(row: Row) -> bool:
    others = [*OTHERS, row.twin] if row.twin else [*OTHERS]
    scores = BM25([*others, row.text], language=row.language).scores(row.query)
    return bool(scores[-1] > max(0.0, *scores[:-1]))


def _is_apart(row: Row) -> bool:
    return bool(BM25([*OTHERS, row.text], language=row.language).scores(row.query)[-1] == 0)


def _is_same(row: Row) -> bool:
    same = not {*question_keys(row.text)}.isdisjoint(question_keys(row.query))
    assert is_exact_match(row.query, [[], [row.text]]) == [False, same]
    return same


def _is_read(row: Row) -> bool:
    tokenizer = WordTokenizer.build([*OTHERS, row.text], max_tokens=50)
    (text, query), _ = tokenizer.encode([row.text, row.query])
    return text == query


CHECKS: dict[str, Callable[[Row], bool]] = {
    "found": _is_first,
    "first": _is_first,
    "not": _is_apart,
    "same": _is_same,
    "different": lambda row: not _is_same(row),
    "read": _is_read,
    "unread": lambda row: not _is_read(row),
}


def main(*, failing: bool) -> None:
    """Print how many rows of each kind fail."""
    rows = read_table()
    wrong = [row for row in rows if not row.holds]
    counted, failed = Counter(row.kind for row in rows), Counter(row.kind for row in wrong)
    lines = [[kind, f"{number}", f"{failed[kind]}"] for kind, number in counted.items()]
    lines.append(["all", f"{len(rows)}", f"{len(wrong)}"])
    sys.stdout.write(markdown_table(["kind", "rows", "failing"], lines) + "\n")
    for row in wrong if failing else ():
        sys.stdout.write(f"{row}{f'  [{row.note}]' if row.note else ''}\n")


if __name__ == "__main__":
    main(failing="--failing" in sys.argv[1:])
