"""Cells that hold more than one text: lists of questions, languages side by side, line ends that were escaped."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

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
    if any(map(_has_line_end, rows)):
        return rows
    return list(map(_unescaped_row, rows))


def _has_backslash(row: Row) -> bool:
    return any("\\" in text for text in row.fields.values())


def _has_line_end(row: Row) -> bool:
    return any("\n" in text.strip() for text in row.fields.values())


def _unescaped_row(row: Row) -> Row:
    if not _has_backslash(row):
        return row
    fields = {name: _unescaped(text) for name, text in row.fields.items()}
    lists = {name: tuple(map(_unescaped, texts)) for name, texts in row.lists.items()}
    return replace(row, fields=fields, lists=lists)


def _unescaped(text: str) -> str:
    if "\\" not in text or _OTHER_BACKSLASH.search(text):
        return text
    return _ESCAPED.sub(_unescaped_match, text)


def _unescaped_match(match: re.Match[str]) -> str:
    return _ESCAPES[match[0]]


def _as_line(text: str) -> str:
    return " ".join(text.split())


def with_lists(rows: list[Row], answer: str, file: str) -> list[Row]:
    """The rows of a table of pairs with lists of questions as a stored question and its further wordings.

    `answer` is what the file calls its answers: a list of "answers" holds several, the first of which is shown, and a
    list called "answer" the paragraphs of one.
    """
    is_several = plain(base_name(answer)) in SEVERAL_ANSWERS
    columns_of_one_question = {"label", "answer_ids"}
    n_several = 0
    flat_rows: list[Row] = []
    has_wordings = any(len(row.lists.get("question", ())) > 1 for row in rows)
    for row in rows:
        fields = dict(row.fields)
        questions = row.lists.get("question", ())
        answers = row.lists.get("answer", ())
        if len(questions) > 1 and columns_of_one_question & fields.keys():
            raise InputError(f"{row.place}: expected one question, found a list of {len(questions):,}.")
        if questions:
            fields["question"] = questions[0]
        if has_wordings:
            lines = [fields.get("wordings", ""), *map(_as_line, questions[1:])]
            fields["wordings"] = "\n".join(filter(None, lines))
        if answers and is_several:
            n_several += len(answers) > 1
            fields["answer"] = answers[0]
            fields[FURTHER_ANSWERS] = "\n\n".join(answers[1:])
        elif answers:
            fields["answer"] = "\n\n".join(answers)
        for name, texts in row.lists.items():
            if WORDING_COLUMNS.fullmatch(name) and name != "wordings":
                fields[name] = "\n".join(map(_as_line, texts))
        flat_rows.append(replace(row, fields=fields))
    if n_several:
        notice = f"{n_several:,} entries have several answers; the first is shown, the others are kept in the column"
        advice = f"Are they paragraphs of one? Call the field 'answer' in place of {answer!r}"
        logger.info("%s: %s %r. %s.", file, notice, FURTHER_ANSWERS, advice)
    return flat_rows


def entries_by_language(columns: Sequence[str], rows: list[Row]) -> Iterator[Row]:
    """A row for each language of a row, if columns hold questions and answers in languages; else none.

    An entry is found in each of its languages, and shown in that of the question. A question in a language without an
    answer is a wording of the first one.
    """
    pair = _columns_by_language(columns)
    if pair is None or not {"aid", "answer_ids", "label"}.isdisjoint(columns):
        return
    question_columns, answer_columns = pair
    for row in rows:
        fields = dict(row.fields)
        for column in (*question_columns.values(), *answer_columns.values()):
            fields.pop(column, None)
        answered_in = _columns_with_text(row, answer_columns)
        languages = list(answered_in) or list(answer_columns)[:1]
        asked_in = _columns_with_text(row, question_columns)
        for language in languages:
            columns_of_language: list[str] = []
            if language in asked_in:
                columns_of_language.append(asked_in[language])
            elif "" in asked_in:
                columns_of_language.append(asked_in[""])
            if language == languages[0]:
                columns_of_language += _columns_without_answer(asked_in, languages, columns=columns_of_language)
            questions: list[str] = []
            for column in columns_of_language:
                questions += row.lists.get(column) or [row.get(column)]
            answer_column = answer_columns[language]
            lists = dict(row.lists)
            lists["question"] = tuple(questions)
            if answer_column in row.lists:
                lists["answer"] = row.lists[answer_column]
            of_language: dict[str, str] = {}
            if language:
                of_language["language"] = language
            of_language |= fields  # where a column "language" counts more
            of_language["question"] = questions[0] if questions else ""
            of_language["answer"] = row.fields.get(answer_column, "")
            place = f"{row.place}, {language}" if len(languages) > 1 else row.place
            yield Row(of_language, place, written=row.written, lists=lists)


def _columns_with_text(row: Row, column_of: Mapping[str, str]) -> dict[str, str]:
    """Those languages, with their columns, in which a row has a text."""
    return {language: column for language, column in column_of.items() if row.get(column)}


def _columns_without_answer(
    asked_in: Mapping[str, str], languages: Collection[str], columns: Collection[str]
) -> list[str]:
    """The columns of questions in languages of no answer, beside the first language's own `columns`.

    If there are neither, it is the first column of all.
    """
    of_other_languages = []
    for language, column in asked_in.items():
        if language not in languages and column not in columns:
            of_other_languages.append(column)
    if of_other_languages or columns:
        return of_other_languages
    return list(asked_in.values())[:1]


def _columns_by_language(columns: Sequence[str]) -> tuple[dict[str, str], dict[str, str]] | None:
    """The columns of questions and of answers by their languages, empty for one without; `None` if there are none."""
    split_columns: list[tuple[str, str, str]] = []  # each with its name alone, as it is compared, and its language
    for column in columns:
        base, language = split_language(column)
        split_columns.append((column, plain(base), language.lower()))
    for question_names, answer_names in PAIRS:
        questions: dict[str, str] = {}
        answers: dict[str, str] = {}
        for column, base, language in split_columns:
            if base in question_names:
                questions[language] = column
            if base in answer_names:
                answers[language] = column
        is_whole = "" in questions and "" in answers  # then a translation of one side alone is another column
        if questions and answers and (any(questions) or any(answers)):
            if is_whole and not any(questions.keys() & answers.keys()):
                return None
            return questions, answers
    return None
