"""Equal and nearly equal rows, questions and answers within a file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ap_ranker.data.audit.original_files import Asked, Data, Source, judgements
from ap_ranker.data.audit.report import Fault, quote, where
from ap_ranker.data.reader import Layout
from ap_ranker.data.rows import Row
from ap_ranker.text.keys import normalized
from ap_ranker.text.near import near_pairs


def check(data: Data, *, near_answers: bool) -> Iterator[Fault]:
    """Find duplicates and, with `near_answers`, answers that are nearly equal."""
    for source in data.sources:
        if source.layout != Layout.by_id:
            yield from _rows(source)
    for split in dict.fromkeys(asked.split for asked in data.asked):
        yield from _questions([asked for asked in data.asked if asked.split == split])
    if data.stored:
        yield from _stored(data.stored.rows)
    if not near_answers:
        return
    # Only answers that are candidates of the same question are compared: all of data by id, all of a file of pairs.
    for source in data.sources:
        if source.layout == Layout.pairs:
            yield from _near_answers(source.table.rows)
        elif source.layout == Layout.judged:
            yield from _near_candidates(source)
    if data.stored:
        yield from _near_answers(data.stored.rows)


def row_key(row: Row) -> tuple[str, ...]:
    """The fields that make two rows equal: `repeated-row` reports the second one, and `--fix` removes it."""
    return tuple(row.get(column) for column in ("qid", "aid", "question", "answer", "label"))


def _rows(source: Source) -> Iterator[Fault]:
    first: dict[tuple[str, ...], str] = {}
    for row in source.table.rows:
        if row.get("question") and row.get("answer"):
            earlier = first.setdefault(row_key(row), row.place)
            if earlier != row.place:
                yield Fault("repeated-row", row.place, f"as {where(earlier, row.place)}: {quote(row.get('question'))}")


def _questions(asked: list[Asked]) -> Iterator[Fault]:
    """Repeated questions. A repeated pair is left to `repeated-row`, unless its texts differ in case."""
    first: dict[str, Asked] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    for question in asked:
        pair = (question.text, frozenset(question.right))
        earlier = first.setdefault(normalized(question.text), question)
        if earlier is not question:
            details = f"as {where(earlier.place, question.place)}: {quote(question.text)}"
            if earlier.right and question.right and earlier.right != question.right:
                yield Fault("several-answers", question.place, details)
            elif earlier.right != question.right or question.layout != Layout.pairs or pair not in seen:
                yield Fault("repeated-question", question.place, details)
        seen.add(pair)
    distinct = list(first.values())
    for i, j in _near([question.text for question in distinct]):
        earlier, later = distinct[i], distinct[j]
        disjoint = earlier.right and later.right and not earlier.right & later.right
        kind = "near-question-other-answer" if disjoint else "near-question"
        details = f"{quote(later.text)}, {where(earlier.place, later.place)}: {quote(earlier.text)}"
        yield Fault(kind, later.place, details)


def _stored(rows: list[Row]) -> Iterator[Fault]:
    """Equal answers with different ids, whatever their stored questions."""
    first: dict[str, Row] = {}
    for row in rows:
        earlier = first.setdefault(normalized(row.get("answer")), row)
        if row.get("answer") and earlier.get("aid") != row.get("aid"):
            yield Fault("repeated-answer", row.place, f"as {earlier.get('aid')}, {where(earlier.place, row.place)}")


def _near_answers(rows: list[Row]) -> Iterator[Fault]:
    first: dict[str, Row] = {}
    for row in rows:
        if row.get("answer"):
            first.setdefault(normalized(row.get("answer")), row)
    distinct = list(first.values())
    for i, j in _near([row.get("answer") for row in distinct]):
        yield _near_answer("near-answer", distinct[i], distinct[j])


def _near_candidates(source: Source) -> Iterator[Fault]:
    """Judged candidates compete only with those of the same question."""
    candidates: dict[str, dict[str, tuple[Row, int]]] = defaultdict(dict)
    for row, label, _ in judgements(source.table):
        if row.get("question") and row.get("answer"):
            candidates[normalized(row.get("question"))].setdefault(normalized(row.get("answer")), (row, label))
    texts = list(dict.fromkeys(text for rows in candidates.values() for text in rows))
    near: dict[str, set[str]] = defaultdict(set)
    for i, j in near_pairs(texts):
        near[texts[i]].add(texts[j])
    for rows in candidates.values():
        for text, (row, label) in rows.items():
            for other_text in sorted(near[text] & rows.keys()):
                other, other_label = rows[other_text]
                kind = "near-answer" if label == other_label else "near-answer-judged-differently"
                yield _near_answer(kind, row, other)


def _near(texts: list[str]) -> list[tuple[int, int]]:
    """Each text that is near an earlier one, once: the positions of the first such text and of the text itself."""
    earlier_of: dict[int, int] = {}
    for earlier, later in near_pairs(texts).tolist():
        earlier_of.setdefault(later, earlier)
    return [(earlier, later) for later, earlier in earlier_of.items()]


def _near_answer(kind: str, earlier: Row, later: Row) -> Fault:
    return Fault(kind, later.place, f"{quote(later.get('answer'))}, as {where(earlier.place, later.place)}")
