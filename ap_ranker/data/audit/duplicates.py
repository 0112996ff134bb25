"""The same, or nearly the same, twice: rows, questions and answers within a file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ap_ranker.data.audit.near import near_pairs
from ap_ranker.data.audit.report import Fault, quote, where
from ap_ranker.data.audit.rows import Asked, Data, Source, judgements, same
from ap_ranker.data.reader import Layout
from ap_ranker.data.tables import Row


def check(data: Data, *, near_answers: bool) -> Iterator[Fault]:
    """Look for copies."""
    for source in data.sources:
        if source.layout != Layout.by_id:
            yield from _rows(source)
    for split in dict.fromkeys(asked.split for asked in data.asked):
        yield from _questions([asked for asked in data.asked if asked.split == split])
    if data.stored:
        yield from _stored(data.stored.rows)
    if near_answers:
        yield from _near_answers(data)
        for source in data.sources:
            if source.layout == Layout.judged:
                yield from _near_candidates(source)


def row_key(row: Row) -> tuple[str, ...]:
    """Equal for rows that say the same: what `repeated-row` means, and what `--fix` keeps once."""
    return tuple(row.get(column) for column in ("qid", "aid", "question", "answer", "label"))


def _rows(source: Source) -> Iterator[Fault]:
    first: dict[tuple[str, ...], str] = {}
    for row in source.table.rows:
        if row.get("question") and row.get("answer") and first.setdefault(row_key(row), row.place) != row.place:
            yield Fault(
                "repeated-row", row.place, f"as {where(first[row_key(row)], row.place)}: {quote(row.get('question'))}"
            )


def _questions(asked: list[Asked]) -> Iterator[Fault]:
    """The same question again; of pairs with the same answer again `repeated-row` tells, unless they differ in case."""
    first: dict[str, Asked] = {}
    texts: dict[str, set[tuple[str, frozenset[str]]]] = defaultdict(set)
    for each in asked:
        key, entry = same(each.text), (each.text, frozenset(each.right))
        before = first.setdefault(key, each)
        if before is not each:
            found = f"as {where(before.place, each.place)}: {quote(each.text)}"
            if before.right != each.right:
                if before.right and each.right:
                    yield Fault("several-answers", each.place, found)
                else:
                    yield Fault("repeated-question", each.place, found)
            elif each.layout != Layout.pairs or entry not in texts[key]:
                yield Fault("repeated-question", each.place, found)
        texts[key].add(entry)
    different = list(first.values())
    told: set[int] = set()
    for earlier, later in near_pairs([each.text for each in different]):
        one, other = different[earlier], different[later]
        if later not in told:
            told.add(int(later))
            apart = one.right and other.right and not one.right & other.right
            kind = "near-question-other-answer" if apart else "near-question"
            yield Fault(kind, other.place, f"{quote(other.text)}, {where(one.place, other.place)}: {quote(one.text)}")


def _stored(rows: list[Row]) -> Iterator[Fault]:
    """The same answer under two ids, whatever their stored questions."""
    first: dict[str, Row] = {}
    for row in rows:
        before = first.setdefault(same(row.get("answer")), row)
        if row.get("answer") and before.get("aid") != row.get("aid"):
            yield Fault("repeated-answer", row.place, f"as {before.get('aid')}, {where(before.place, row.place)}")


def _near_answers(data: Data) -> Iterator[Fault]:
    """Among answers that are candidates of the same questions: all of data by id, all of a file of pairs."""
    for source in data.sources:
        if source.layout == Layout.pairs:
            yield from _near_texts(source.table.rows)
    if data.stored:
        yield from _near_texts(data.stored.rows)


def _near_texts(rows: list[Row]) -> Iterator[Fault]:
    first: dict[str, Row] = {}
    for row in rows:
        if row.get("answer"):
            first.setdefault(same(row.get("answer")), row)
    different = list(first.values())
    told: set[int] = set()
    for earlier, later in near_pairs([row.get("answer") for row in different]):
        if later not in told:
            told.add(int(later))
            one, other = different[earlier], different[later]
            yield Fault("near-answer", other.place, f"{quote(other.get('answer'))}, as {where(one.place, other.place)}")


def _near_candidates(source: Source) -> Iterator[Fault]:
    """Judged candidates compete only with those of the same question."""
    candidates: dict[str, dict[str, tuple[Row, int]]] = defaultdict(dict)
    for row, label, _ in judgements(source.table):
        if row.get("question") and row.get("answer"):
            candidates[same(row.get("question"))].setdefault(same(row.get("answer")), (row, label))
    members = [(question, *found) for question, rows in candidates.items() for found in rows.values()]
    texts = list(dict.fromkeys(same(row.get("answer")) for _, row, _ in members))
    near = {(texts[one], texts[other]) for one, other in near_pairs(texts)}
    partners: dict[str, list[str]] = defaultdict(list)
    for one, other in near:
        partners[one].append(other)
    for rows in candidates.values():
        for text, (row, label) in rows.items():
            for partner in sorted(set(partners[text]) & rows.keys()):
                other, judged = rows[partner]
                kind = "near-answer" if label == judged else "near-answer-judged-differently"
                yield Fault(kind, other.place, f"{quote(other.get('answer'))}, as {where(row.place, other.place)}")
