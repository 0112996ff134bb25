"""Texts that are empty, garbled, meaningless, too long or in another language."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

from ap_ranker.data.audit.audited_files import Data, Text
from ap_ranker.data.audit.language import language
from ap_ranker.data.audit.report import ERROR, NOTE, WARNING, Checks, Fault, quote
from ap_ranker.data.reader import Layout
from ap_ranker.text.keys import normalized
from ap_ranker.text.tokenizer import split_words

check = Checks()

_NOTHING = re.compile(
    r"[\W_]*(?:n\W?a|none|null|nan|tbd|tba|todo|to do|xxx+|test|lorem ipsum\b.*|#ref!?|#value!?|#name\??)?[\W_]*",
    re.IGNORECASE | re.DOTALL,
)


@check(ERROR, "empty-text", "rows with an empty question or answer", "write one, or remove the row", fixed=True)
def _empty(data: Data) -> Iterator[Fault]:
    tables = [(file.table, ("question", "answer")[: 1 + (file.layout != Layout.by_id)]) for file in data.files]
    for table, columns in [*tables, (data.stored, ("answer",))]:
        for row in table.rows if table else ():
            yield from ((row.place, f"no {column}") for column in columns if not row.get(column))


def _repairable(kind: str, data: Data) -> Iterator[Fault]:
    return ((text.place, quote(text.text)) for text, kinds in data.repairable if kind in kinds)


for _severity, _kind, _meaning, _advice in (
    (WARNING, "mojibake", "texts in a wrong encoding (Ã© for é)", "decode them as UTF-8"),
    (WARNING, "html", "texts with HTML tags or entities", "keep the text only"),
    (WARNING, "control-character", "texts with control characters", "remove them"),
    (NOTE, "invisible-character", "texts with zero-width characters or soft hyphens", "remove them"),
    (
        WARNING,
        "decomposed-accent",
        "texts with accents as separate characters, which make other words for a model",
        "compose them (NFC)",
    ),
):
    check(_severity, _kind, _meaning, _advice, fixed=True)(partial(_repairable, _kind))


@check(WARNING, "lost-character", "texts with the replacement character �", "write the lost character")
def _lost(data: Data) -> Iterator[Fault]:
    return ((text.place, quote(text.text)) for text in data.texts if "\ufffd" in text.text)


@check(WARNING, "placeholder", "texts that say nothing (N/A, TODO, ???)", "write a text, or remove the row")
def _placeholders(data: Data) -> Iterator[Fault]:
    for text in data.texts:
        if _NOTHING.fullmatch(text.text) and "\ufffd" not in text.text:
            yield text.place, quote(text.text)


@check(WARNING, "answer-repeats-question", "answers that only repeat their question", "write the answer")
def _repeating(data: Data) -> Iterator[Fault]:
    for table in data.answer_tables:
        for row in table.rows:
            if row.get("answer") and normalized(row.get("question")) == normalized(row.get("answer")):
                yield row.place, quote(row.get("answer"))


@check(NOTE, "long-answer", "answers longer than training reads", "put the important part first, or split them")
def _long_answers(data: Data) -> Iterator[Fault]:
    return _long(data.answers, data.max_tokens)


@check(NOTE, "long-question", "questions longer than training reads", "check that they are questions")
def _long_questions(data: Data) -> Iterator[Fault]:
    return _long(data.questions, data.max_tokens)


def _long(texts: Sequence[Text], most: int) -> Iterator[Fault]:
    for text in texts:
        if len(text.matched) > most and (words := len(split_words(text.matched))) > most:
            yield text.place, f"{words:,} words, of which the first {most} are read"


@check(
    NOTE,
    "other-language",
    "texts in another language than most",
    "train one model per language, or a multilingual --encoder",
)
def _languages(data: Data) -> Iterator[Fault]:
    languages = [(text, language(text.text)) for text in data.texts]
    [(main, _), *others] = Counter(name for _, name in languages if name).most_common() or [("", 0)]
    for text, name in languages if others else ():
        if name and name != main:
            yield text.place, f"{name}, most are {main}: {quote(text.text)}"
