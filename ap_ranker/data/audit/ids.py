"""Repeated, missing and unknown ids, and pools without a right answer."""

from __future__ import annotations

from collections.abc import Iterator

from ap_ranker.data.audit.audited_files import Data, repeats, right_ids
from ap_ranker.data.audit.report import ERROR, NOTE, WARNING, Checks, Fault, quote, where
from ap_ranker.data.reader import UNANSWERABLE, Layout
from ap_ranker.data.rows import Row
from ap_ranker.data.tables import Table
from ap_ranker.text.keys import normalized

check = Checks()


@check(ERROR, "repeated-id", "ids that two rows of a file share", "give each row its own")
def _repeated(data: Data) -> Iterator[Fault]:
    if data.stored:
        yield from _repeated_in(data.stored, "aid")
        yield from _repeated_in(data.stored, _id_column(data.stored))
    for file in data.files:
        if file.layout != Layout.judged:
            yield from _repeated_in(file.table, "qid" if file.layout == Layout.by_id else "aid")
        yield from _repeated_in(file.table, _id_column(file.table), judged=file.layout == Layout.judged)
        if file.pools:
            yield from _repeated_in(file.pools, "qid")


def _repeated_in(table: Table, column: str, *, judged: bool = False) -> Iterator[Fault]:
    """Repeated ids of a column; judged candidates may share the id of their question, or have one each."""

    def question(row: Row) -> str:
        return normalized(row.get("question"))

    shared = judged and all(first.get(column) == row.get(column) for first, row in repeats(table.rows, question))
    for first, row in repeats(table.rows, lambda row: row.get(column)):
        if not shared or question(first) != question(row):
            yield row.place, f"{column.strip()} {row.get(column)!r}, first at {where(first.place, row.place)}"


def _id_column(table: Table) -> str:
    """The column `id`, in any case, of other systems' tables; empty if there is none."""
    return next((column for column in table.columns if column.strip().casefold() == "id"), "")


@check(ERROR, "id-with-two-questions", "rows whose qid belongs to another question", "give each question its own qid")
def _two_questions(data: Data) -> Iterator[Fault]:
    for file in data.files:
        rows = [row for row in file.table.rows if row.get("question")] if file.layout != Layout.by_id else []
        for first, row in repeats(rows, lambda row: row.get("qid")):
            other, text = first.get("question"), row.get("question")
            if normalized(other) != normalized(text):
                yield row.place, f"qid {row.get('qid')!r}: {quote(other)}, here {quote(text)}"


@check(ERROR, "unknown-id", "ids of answers that do not exist", "correct the id, or add the answer")
def _unknown(data: Data) -> Iterator[Fault]:
    for file in data.files if data.stored else ():
        for row in file.table.rows if file.layout == Layout.by_id else ():
            unknown = [name for name in dict.fromkeys(right_ids(row)) if name not in data.known]
            yield from ((row.place, f"answer_ids: {name!r}") for name in unknown)
        for row in file.pools.rows if file.pools else ():
            unknown = sorted(set(row.get("candidate_ids").split()) - data.known)
            yield from ((row.place, f"candidate_ids: {name!r}") for name in unknown)


@check(ERROR, "missing-answer-ids", "questions without answer_ids", "name the right answer, or set answerable to no")
def _missing_ids(data: Data) -> Iterator[Fault]:
    for file in data.files:
        for row in file.table.rows if file.layout == Layout.by_id else ():
            if not row.get("answer_ids") and row.get("answerable").lower() not in UNANSWERABLE:
                yield row.place, quote(row.get("question"))


@check(ERROR, "missing-pool", "questions without a pool in a split that has pools", "add the pool")
def _missing_pools(data: Data) -> Iterator[Fault]:
    for file in data.files:
        if file.pools:
            known = {row.get("qid") for row in file.pools.rows}
            for row in file.table.rows:
                if row.get("qid") not in known:
                    yield row.place, f"qid {row.get('qid')!r} is not in {file.pools.path}"


@check(WARNING, "right-answer-outside-pool", "questions whose pool lacks a right answer", "add it to the pool")
def _outside_pools(data: Data) -> Iterator[Fault]:
    for file in data.files:
        pools = {row.get("qid"): row.get("candidate_ids").split() for row in file.pools.rows} if file.pools else {}
        for row in file.table.rows:
            name = row.get("qid")
            outside = [aid for aid in right_ids(row) if aid in data.known and aid not in pools.get(name, data.known)]
            if outside:
                yield row.place, f"{outside[0]!r} is not in the pool of {name!r}"


@check(NOTE, "answer-never-right", "answers that are right for no question", "add a question or a stored question")
def _never_right(data: Data) -> Iterator[Fault]:
    named = {name for asked in data.asked for name in asked.right}
    for row in data.stored.rows if data.stored else ():
        if row.get("aid") not in named and row.get("answer"):
            yield row.place, f"{row.get('aid')}: {quote(row.get('answer'))}"
