"""Repeated, missing and unknown ids, and pools without a right answer."""

from __future__ import annotations

from collections.abc import Iterator

from ap_ranker.data.audit.original_files import Data, Source, right_ids
from ap_ranker.data.audit.report import Fault, quote, where
from ap_ranker.data.reader import UNANSWERABLE, Layout
from ap_ranker.data.rows import Row
from ap_ranker.data.tables import Table
from ap_ranker.text.keys import normalized


def check(data: Data) -> Iterator[Fault]:
    """Check the ids of each file, and that the answers they name exist."""
    known = {row.get("aid") for row in data.stored.rows} if data.stored else set()
    if data.stored:
        yield from _repeated(data.stored, "aid")
        yield from _repeated(data.stored, _id_column(data.stored))
    for source in data.sources:
        own = _id_column(source.table)
        if source.layout != Layout.by_id:
            yield from _two_questions(source.table)
        if source.layout == Layout.judged:
            yield from _repeated(source.table, own, by_question=_names_questions(source.table, own))
            continue
        yield from _repeated(source.table, "qid" if source.layout == Layout.by_id else "aid")
        yield from _repeated(source.table, own)
        if source.layout == Layout.by_id:
            yield from _answer_ids(source, known)
            yield from _pools(source, known)
    if data.stored:
        named = {aid for asked in data.asked for aid in asked.right}
        for row in data.stored.rows:
            if row.get("aid") not in named and row.get("answer"):
                yield Fault("answer-never-right", row.place, f"{row.get('aid')}: {quote(row.get('answer'))}")


def _id_column(table: Table) -> str:
    """The column `id`, in any case, of other systems' tables; empty if there is none."""
    return next((column for column in table.columns if column.strip().casefold() == "id"), "")


def _names_questions(table: Table, column: str) -> bool:
    """Whether judged candidates share the id of their question, rather than have one each."""
    ids: dict[str, str] = {}
    return all(
        ids.setdefault(normalized(row.get("question")), row.get(column)) == row.get(column) for row in table.rows
    )


def _repeated(table: Table, column: str, *, by_question: bool = False) -> Iterator[Fault]:
    first: dict[str, Row] = {}
    for row in table.rows:
        name = row.get(column)
        if not name or (earlier := first.setdefault(name, row)) is row:
            continue
        if not by_question or normalized(earlier.get("question")) != normalized(row.get("question")):
            yield Fault(
                "repeated-id", row.place, f"{column.strip()} {name!r}, first at {where(earlier.place, row.place)}"
            )


def _two_questions(table: Table) -> Iterator[Fault]:
    first: dict[str, str] = {}
    for row in table.rows:
        name, text = row.get("qid"), row.get("question")
        if name and text and normalized(first.setdefault(name, text)) != normalized(text):
            yield Fault("id-with-two-questions", row.place, f"qid {name!r}: {quote(first[name])}, here {quote(text)}")


def _answer_ids(source: Source, known: set[str]) -> Iterator[Fault]:
    for row in source.table.rows:
        for aid in dict.fromkeys(right_ids(row)):
            if aid not in known:
                yield Fault("unknown-id", row.place, f"answer_ids: {aid!r}")
        if not row.get("answer_ids") and row.get("answerable").lower() not in UNANSWERABLE:
            yield Fault("missing-answer-ids", row.place, quote(row.get("question")))


def _pools(source: Source, known: set[str]) -> Iterator[Fault]:
    if source.pools is None:
        return
    yield from _repeated(source.pools, "qid")
    pools: dict[str, set[str]] = {}
    for row in source.pools.rows:
        pools[row.get("qid")] = set(row.get("candidate_ids").split())
        for aid in sorted(pools[row.get("qid")] - known):
            yield Fault("unknown-id", row.place, f"candidate_ids: {aid!r}")
    for row in source.table.rows:
        name = row.get("qid")
        if name not in pools:
            yield Fault("missing-pool", row.place, f"qid {name!r} is not in {source.pools.path}")
        elif outside := [aid for aid in right_ids(row) if aid in known and aid not in pools[name]]:
            yield Fault("right-answer-outside-pool", row.place, f"{outside[0]!r} is not in the pool of {name!r}")
