"""What people call the columns of a table, in their languages: the names of `column_names.toml`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from ap_ranker.text.language_detection import LANGUAGES
from ap_ranker.text.languages import LONGEST_KEPT
from ap_ranker.text.normal_form import normal_form


def plain(name: str) -> str:
    """A column's name as it is compared: without upper case and marks around it."""
    return _kept_plain(name) if len(name) <= LONGEST_KEPT else _kept_plain.__wrapped__(name)


@lru_cache(maxsize=2**16)  # each name is compared with those of all languages
def _kept_plain(name: str) -> str:
    folded = normal_form("NFKC", name).casefold()
    return " ".join(folded.strip(" \t\r\n:*?.#\"'“”„«»\u200b\u200e\u200f\u2060\ufeff").split())


_NAMES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def _read_pairs() -> list[tuple[list[str], list[str]]]:
    pairs = []
    for question_names, answer_names in _NAMES["pairs"]:
        pairs.append((list(map(plain, question_names)), list(map(plain, answer_names))))
    return pairs


PAIRS = _read_pairs()
"""Names of the columns of questions and answers; a table has one of each side, as a name alone may mean anything."""


def find_pair(names: Iterable[str]) -> list[int]:
    """The places of a column of questions and of one of answers, by their names; empty if there are none."""
    place_of: dict[str, int] = {}
    for place, name in enumerate(map(plain, names)):
        place_of.setdefault(name, place)
    for question_names, answer_names in PAIRS:
        question = _first_place(question_names, place_of)
        answer = _first_place(answer_names, place_of)
        if question is not None and answer is not None:
            return [question, answer]
    return []


def _first_place(names: Iterable[str], place_of: Mapping[str, int]) -> int | None:
    """The first place at which one of these names stands."""
    return min([place_of[name] for name in names if name in place_of], default=None)


def _names_of_pairs(most_question_names: int | None = None) -> set[str]:
    """All names of `PAIRS`, or of the questions only as many of each pair."""
    names: set[str] = set()
    for question_names, answer_names in PAIRS:
        names.update(question_names[:most_question_names])
        names.update(answer_names)
    return names


ALONE = frozenset(_names_of_pairs(2))
"""Those that are no title where they stand alone, as "FAQ" is."""

LONGEST_NAMES = {"?": 15, "\uff1f": 5}
"""Question mark -> the length up to which a header that ends with it may be a name, such as "Your question?"."""

MOST_WORDS = 5
"""The maximum number of words of a name that is none of `PAIRS`."""

_IN_BRACKETS = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")
_FACT = re.compile(r"\d|://|@")
"""A number or an address, which answers have and names of columns seldom."""

_SENTENCE = re.compile(r".*\s.*[^\s.…][.!]|.*[。！]", re.DOTALL)
"""Several words that end as a sentence."""


def is_entry(question: str, answer: str) -> bool:
    """Whether the texts of a first row, where names of two columns should stand, are plainly an entry.

    In doubt they are names, as `Customer asks` and `We say` are; remarks in brackets do not count.
    """
    question = _IN_BRACKETS.sub("", question).strip()
    answer = _IN_BRACKETS.sub("", answer).strip()
    for mark, longest in LONGEST_NAMES.items():
        if question.endswith(mark) and (len(question) > longest or answer.endswith(mark)):
            return True
    if _is_named(answer):
        return False
    return _SENTENCE.fullmatch(answer) is not None or (not _is_named(question) and _are_texts(question, answer))


def _are_texts(question: str, answer: str) -> bool:
    """Whether two texts without a name of `PAIRS` are an entry: by a fact, a question mark, or many words."""
    is_numbered = re.sub(r"\d+", "", question) == re.sub(r"\d+", "", answer)  # such as Column 1 and Column 2
    has_fact = _FACT.search(answer) is not None and not is_numbered
    asks = question.endswith(tuple(LONGEST_NAMES))
    is_sentence = len(question.split()) > 1 or answer.endswith((".", "!"))
    n_words = max(len(question.split()), len(answer.split()))
    return has_fact or (asks and is_sentence) or n_words > MOST_WORDS


def _is_named(text: str) -> bool:
    """Whether a text is, or begins or ends with, a name of `PAIRS`, such as `Your question`."""
    words = plain(text.rstrip("!")).split()
    if " ".join(words) in _ANY_NAME:
        return True
    ends = {plain(word) for word in (*words[:1], *words[-1:]) if len(word) > 1}  # "a" is a word, too
    return not ends.isdisjoint(_ANY_NAME)


_ANY_NAME = frozenset(_names_of_pairs())

CATEGORIES = frozenset(map(plain, _NAMES["categories"]))
"""Names of a column whose values group the answers."""

OF_FORMS = frozenset(map(plain, _NAMES["of_forms"]))
"""Names of columns that Google Forms adds to what was asked."""

SEVERAL_ANSWERS = frozenset(map(plain, _NAMES["several_answers"]))
"""Names of a list whose texts are answers of their own, not the paragraphs of one."""

TITLES = list(map(plain, _NAMES["titles_that_ask"][0]))
"""Names of columns that hold questions if most titles ask."""

THEIR_TEXTS = list(map(plain, _NAMES["titles_that_ask"][1]))
"""Names of columns that then hold the answers."""

FURTHER_WORDINGS = frozenset(map(plain, _NAMES["wordings"]))
"""Names of columns of further wordings of a question."""

LANGUAGE_CODES = frozenset(_NAMES["language_codes"].split())
"""Two letters -> a language, as ISO 639 has them."""

_LANGUAGE_NAMES = {name.casefold(): code for code, name in LANGUAGES.items()}

_NO_LANGUAGES = ("id", "no")  # behind a name: its number; Indonesian and Norwegian elsewhere

_CODE = re.compile(r"[A-Za-z]{2}(?:[-_][A-Za-z]{2,4})?")
_IN_LANGUAGE = re.compile(
    r"(?P<base>.*?[^\s._(\[-])(?:[\s._-]+|\s*[(\[]\s*)(?P<code>[A-Za-z]{2}(?:[-_][A-Za-z]{2,4})?)[)\]]?"
)


def is_language(name: str) -> bool:
    """Whether a name is the code of a language, such as `en` or `pt-BR`."""
    match = _CODE.fullmatch(name)
    return match is not None and name[:2].lower() in LANGUAGE_CODES


@lru_cache(maxsize=4_096)
def split_language(name: str) -> tuple[str, str]:
    """A column's name without the language behind it, and that language: `answer_de`, `Answer (DE)`, `answer.de`."""
    first, _, last = name.strip().strip(")]").rpartition(" ")
    if first and last.lstrip("([").casefold() in _LANGUAGE_NAMES:
        return first, _LANGUAGE_NAMES[last.lstrip("([").casefold()]
    match = _IN_LANGUAGE.fullmatch(name.strip())
    if match is None or not is_language(match["code"]) or match["code"].lower() in _NO_LANGUAGES:
        return name, ""
    return match["base"], match["code"]


def base_name(name: str) -> str:
    """A column's name without the language behind it."""
    return split_language(name)[0]


_ROLES = CATEGORIES | FURTHER_WORDINGS | _names_of_pairs()
_WORDINGS = re.compile(r"wordings?( ?[0-9]+)?", re.IGNORECASE)


@lru_cache(maxsize=4_096)
def has_role(name: str, columns: tuple[str, str] | None = None) -> bool:
    """Whether a name is one of a question, an answer, wordings or a category, or one of these `columns`."""
    base = base_name(name)
    if columns is not None and named_pair([name, base], columns, some=True):
        return True
    return plain(base) in _ROLES or _WORDINGS.fullmatch(base) is not None


def is_category(name: str) -> bool:
    """Whether a name is one of a column that groups the answers."""
    return plain(base_name(name)) in CATEGORIES


def named_pair(names: Sequence[str], columns: tuple[str, str], *, some: bool = False) -> bool:
    """Whether both of `columns`, or `some` of them, are among names, but for case and marks around them."""
    plain_names = set(map(plain, names))
    is_among = []
    for column in columns:
        forms = {plain(column), plain(base_name(column))}
        is_among.append(not plain_names.isdisjoint(forms))
    return any(is_among) if some else all(is_among)
