"""Texts that are empty, garbled, meaningless, too long or in another language."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from ap_ranker.data.audit.language import language
from ap_ranker.data.audit.original_files import Data
from ap_ranker.data.audit.repairs import repaired
from ap_ranker.data.audit.report import Fault, quote
from ap_ranker.data.reader import Layout
from ap_ranker.text.keys import normalized
from ap_ranker.text.tokenizer import split_words

_NOTHING = re.compile(
    r"[\W_]*(?:n\W?a|none|null|nan|tbd|tba|todo|to do|xxx+|test|lorem ipsum\b.*|#ref!?|#value!?|#name\??)?[\W_]*",
    re.IGNORECASE | re.DOTALL,
)


def check(data: Data, max_tokens: int) -> Iterator[Fault]:
    """Check each text by itself."""
    yield from _empty(data)
    for text in (*data.questions, *data.answers):
        _, kinds = repaired(text.text)
        for kind in kinds:
            yield Fault(kind, text.place, quote(text.text))
        if "\ufffd" in text.text:
            yield Fault("lost-character", text.place, quote(text.text))
        elif _NOTHING.fullmatch(text.text):
            yield Fault("placeholder", text.place, quote(text.text))
    for kind, texts in (("long-question", data.questions), ("long-answer", data.answers)):
        for text in texts:
            if len(text.matched) > max_tokens and (words := len(split_words(text.matched))) > max_tokens:
                yield Fault(kind, text.place, f"{words:,} words, of which the first {max_tokens} are read")
    yield from _repeating(data)
    yield from _languages(data)


def _empty(data: Data) -> Iterator[Fault]:
    tables = [
        (source.table, ("question",) if source.layout == Layout.by_id else ("question", "answer"))
        for source in data.sources
    ]
    if data.stored:
        tables.append((data.stored, ("answer",)))
    for table, columns in tables:
        for row in table.rows:
            for column in columns:
                if not row.get(column):
                    yield Fault("empty-text", row.place, f"no {column}")


def _repeating(data: Data) -> Iterator[Fault]:
    for table in data.answer_tables:
        for row in table.rows:
            if row.get("answer") and normalized(row.get("question")) == normalized(row.get("answer")):
                yield Fault("answer-repeats-question", row.place, quote(row.get("answer")))


def _languages(data: Data) -> Iterator[Fault]:
    languages = [(text, language(text.text)) for text in (*data.questions, *data.answers)]
    counts = Counter(name for _, name in languages if name)
    if len(counts) < 2:
        return
    main = counts.most_common(1)[0][0]
    for text, name in languages:
        if name and name != main:
            yield Fault("other-language", text.place, f"{name}, most are {main}: {quote(text.text)}")
