"""Cells that hold more than one text: lists of questions, languages side by side, line ends that were escaped."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from ap_ranker.data.column_names import PAIRS, SEVERAL_ANSWERS, base_name, plain, split_language
from ap_ranker.data.rows import WORDING_COLUMNS, Row
from ap_ranker.errors import InputError

logger = logging.getLogger(__name__)

FURTHER_ANSWERS = "further answers"
"""The column of those answers of a list that are not shown."""

_ESCAPES = {"\\r\\n": "\n", "\\n": "\n", "\\r": "\n", "\\t": "\t"}
_ESCAPED = re.compile(r"\\r\\n|\\n|(?<!\w)\\[rt]|(?<=\\[nrt])\\[rt]|\\[rt](?!\w)")
"""The two characters of an escape; not a backslash between two words, as in cheap\\reasonable."""

_OTHER_BACKSLASH = re.compile(r"(?<![A-Za-z])[A-Za-z]:\\|\\(?![nrt])")
"""A path of Windows, or a backslash before another sign: then those before n, r and t belong to the text, too."""


def with_line_ends(rows: list[Row]) -> list[Row]:
    """The rows with their escaped line ends as line ends, if none of their texts has a real one."""
    if not any(map(_has_backslash, rows)):
        return rows
    texts = chain.from_iterable(row.fields.values() for row in rows)
    if any("\n" in text.strip() for text in texts):
        return rows
    return [_with_texts(row, _unescaped) if _has_backslash(row) else row for row in rows]


def _has_backslash(row: Row) -> bool:
    return any("\\" in text for text in row.fields.values())


def _with_texts(row: Row, change: Callable[[str], str]) -> Row:
    lists = {name: tuple(map(change, texts)) for name, texts in row.lists.items()}
    return replace(row, fields={name: change(text) for name, text in row.fields.items()}, lists=lists)


def _unescaped(text: str) -> str:
    if "\\" not in text or _OTHER_BACKSLASH.search(text):
        return text
    return _ESCAPED.sub(lambda match: _ESCAPES[match[0]], text)


def with_lists(rows: list[Row], answer: str, file: str) -> list[Row]:
    """The rows of a table of pairs with lists of questions as a stored question and its further wordings.

    `answer` is what the file calls its answers: a list of "answers" holds several, the first of which is shown, and a
    list called "answer" the paragraphs of one.
    """
    is_several = plain(base_name(answer)) in SEVERAL_ANSWERS
    one_only = {"label", "answer_ids"}
    n_several = 0
    read: list[Row] = []
    has_wordings = any(len(row.lists.get("question", ())) > 1 for row in rows)
    for row in rows:
        fields = dict(row.fields)
        questions = row.lists.get("question", ())
        answers = row.lists.get("answer", ())
        if len(questions) > 1 and one_only & fields.keys():
            raise InputError(f"{row.place}: expected one question, found a list of {len(questions):,}.")
        if questions:
            fields["question"] = questions[0]
        if has_wordings:
            further = [" ".join(text.split()) for text in questions[1:]]
            fields["wordings"] = "\n".join(filter(None, (fields.get("wordings", ""), *further)))
        if answers and is_several:
            n_several += len(answers) > 1
            fields["answer"] = answers[0]
            fields[FURTHER_ANSWERS] = "\n\n".join(answers[1:])
        elif answers:
            fields["answer"] = "\n\n".join(answers)
        for name, texts in row.lists.items():
            if WORDING_COLUMNS.fullmatch(name) and name != "wordings":
                fields[name] = "\n".join(" ".join(text.split()) for text in texts)
        read.append(replace(row, fields=fields))
    if n_several:
        kept = f"the first is shown, the others are kept in the column {FURTHER_ANSWERS!r}"
        advice = f"Are they paragraphs of one? Call the field 'answer' in place of {answer!r}"
        logger.info("%s: %s entries have several answers; %s. %s.", file, f"{n_several:,}", kept, advice)
    return read


def entries_by_language(columns: Sequence[str], rows: list[Row]) -> Iterator[Row]:
    """A row for each language of a row, if columns hold questions and answers in languages; else none.

    An entry is found in each of its languages, and shown in that of the question. A question in a language without an
    answer is a wording of the first one.
    """
    pair = _columns_by_language(columns)
    if pair is None or {"aid", "answer_ids", "label"} & {*columns}:
        return
    questions, answers = pair
    own = {*questions.values(), *answers.values()}
    for row in rows:
        others = {name: text for name, text in row.fields.items() if name not in own}
        written = [language for language, name in answers.items() if row.get(name)] or [next(iter(answers))]
        asked = {language: name for language, name in questions.items() if row.get(name)}
        for place, language in enumerate(written):
            texts: dict[str, str] = {}
            lists: dict[str, tuple[str, ...]] = {}
            names = [asked[key] for key in (language, "") if key in asked][:1]
            if place == 0:  # and all questions that no answer has the language of
                names += [name for key, name in asked.items() if key not in written and name not in names]
            if not names and place == 0:
                names = [*asked.values()][:1]
            several: list[str] = []
            for name in names:
                several += row.lists.get(name) or [row.get(name)]
            texts["question"] = several[0] if several else ""
            lists["question"] = tuple(several)
            texts["answer"] = row.fields.get(answers[language], "")
            if answers[language] in row.lists:
                lists["answer"] = row.lists[answers[language]]
            of_language = {"language": language} if language else {}
            at = f"{row.place}, {language}" if len(written) > 1 else row.place
            yield Row(of_language | others | texts, at, row.written, dict(row.lists) | lists)


def _columns_by_language(columns: Sequence[str]) -> tuple[dict[str, str], dict[str, str]] | None:
    """The columns of questions and of answers by their languages, empty for one without; `None` if there are none."""
    split = [(column, *split_language(column)) for column in columns]
    for asked, answered in PAIRS:
        questions = {language.lower(): column for column, base, language in split if plain(base) in asked}
        answers = {language.lower(): column for column, base, language in split if plain(base) in answered}
        is_whole = "" in questions and "" in answers  # then a translation of one side alone is another column
        if questions and answers and (any(questions) or any(answers)):
            if is_whole and not any(questions.keys() & answers.keys()):
                return None
            return questions, answers
    return None
