"""Equal and nearly equal rows, questions and answers within a file, and questions that leak into another split."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ap_ranker.data.audit.audited_files import Asked, Data, firsts, near_earlier, repeats
from ap_ranker.data.audit.report import ERROR, NOTE, WARNING, Checks, Fault, quote, where
from ap_ranker.data.reader import SPLITS, Layout
from ap_ranker.data.rows import Row
from ap_ranker.text.keys import normalized
from ap_ranker.text.near import near_pairs

check = Checks()


def row_key(row: Row) -> str:
    """Equal for rows that are equal: `repeated-row` reports the second one, and `--fix` removes it."""
    return "\0".join(row.get(column) for column in ("qid", "aid", "question", "answer", "label"))


@check(WARNING, "repeated-row", "rows that repeat an earlier one of the file", "keep the first", fixed=True)
def _rows(data: Data) -> Iterator[Fault]:
    for file in data.files:
        rows = [row for row in file.table.rows if row.get("question") and row.get("answer")]
        for first, row in repeats(rows, row_key) if file.layout != Layout.by_id else ():
            yield row.place, f"as {where(first.place, row.place)}: {quote(row.get('question'))}"


@check(WARNING, "repeated-question", "questions that repeat an earlier one of the file, as another entry", "keep one")
def _questions(data: Data) -> Iterator[Fault]:
    """A repeated pair is left to `repeated-row`, unless its texts differ in case."""
    pairs = [one for one in data.asked if one.layout == Layout.pairs]
    copies = {id(copy) for _, copy in repeats(pairs, lambda one: f"{one.split} {one.text}\0{one.right}")}
    for first, asked in _same_questions(data):
        if not _differ(first, asked) and (first.right != asked.right or id(asked) not in copies):
            yield asked.place, f"as {where(first.place, asked.place)}: {quote(asked.text)}"


@check(WARNING, "several-answers", "questions with another right answer elsewhere in the file", "keep the right one")
def _several(data: Data) -> Iterator[Fault]:
    for first, asked in _same_questions(data):
        if _differ(first, asked):
            yield asked.place, f"as {where(first.place, asked.place)}: {quote(asked.text)}"


def _same_questions(data: Data) -> Iterator[tuple[Asked, Asked]]:
    return repeats(data.asked, lambda asked: f"{asked.split} {normalized(asked.text)}")


def _differ(first: Asked, asked: Asked) -> bool:
    return bool(first.right and asked.right and first.right != asked.right)


@check(WARNING, "repeated-answer", "answers with two ids: one counts as wrong where the other is right", "keep one")
def _answers(data: Data) -> Iterator[Fault]:
    rows = data.stored.rows if data.stored else []
    for first, row in repeats(rows, lambda row: normalized(row.get("answer"))):
        if first.get("aid") != row.get("aid"):
            yield row.place, f"as {first.get('aid')}, {where(first.place, row.place)}"


@check(WARNING, "near-answer", "answers nearly equal to another one", "merge them, or state the difference clearly")
def _near_answers(data: Data) -> Iterator[Fault]:
    """Only candidates of the same question are compared: all of data by id, all of a file of pairs."""
    tables = [file.table for file in data.files if file.layout == Layout.pairs]
    for table in [*tables, data.stored] if data.stored else tables:
        rows = list(firsts(table.rows, lambda row: normalized(row.get("answer"))).values())
        yield from (_near_answer(*pair) for pair in near_earlier(rows, lambda row: row.get("answer")))
    for file in data.files:
        yield from (_near_answer(row, other) for row, other, alike in file.near_candidates if alike)


@check(
    WARNING,
    "near-answer-judged-differently",
    "nearly equal answers judged differently for a question",
    "decide which is right",
)
def _near_judged_differently(data: Data) -> Iterator[Fault]:
    for file in data.files:
        yield from (_near_answer(row, other) for row, other, alike in file.near_candidates if not alike)


def _near_answer(earlier: Row, later: Row) -> Fault:
    return later.place, f"{quote(later.get('answer'))}, as {where(earlier.place, later.place)}"


@check(
    NOTE, "near-question", "questions nearly equal to another one with the same answer", "keep them; they add little"
)
def _near_questions(data: Data) -> Iterator[Fault]:
    return (_near_question(*pair) for pair in data.near_questions if not _disjoint(*pair))


@check(
    WARNING,
    "near-question-other-answer",
    "questions nearly equal to another one with other answers",
    "check that both are right",
)
def _near_questions_of_others(data: Data) -> Iterator[Fault]:
    return (_near_question(*pair) for pair in data.near_questions if _disjoint(*pair))


def _disjoint(first: Asked, later: Asked) -> bool:
    return bool(first.right and later.right and not first.right & later.right)


def _near_question(first: Asked, later: Asked) -> Fault:
    return later.place, f"{quote(later.text)}, {where(first.place, later.place)}: {quote(first.text)}"


@check(
    ERROR,
    "leaked-question",
    "questions also in an earlier split (train, dev, test): measures are too high",
    "remove them from one",
)
def _leaked(data: Data) -> Iterator[Fault]:
    for first, *others in _asked_by_split(data):
        for asked in others:
            yield asked.place, f"{quote(asked.text)}, {first.split}: {first.place}"


@check(
    WARNING,
    "near-leaked-question",
    "questions nearly equal to one of an earlier split: measures may be too high",
    "remove them from one",
)
def _near_leaked(data: Data) -> Iterator[Fault]:
    order = {split: i for i, split in enumerate(SPLITS)}
    earliest = [each[0] for each in _asked_by_split(data)]
    several = len({one.split for one in earliest}) > 1
    reported = set()
    for i, j in near_pairs([normalized(one.text) for one in earliest]) if several else ():
        source, asked = sorted((earliest[i], earliest[j]), key=lambda one: order[one.split])
        if source.split != asked.split and id(asked) not in reported:
            reported.add(id(asked))
            yield asked.place, f"{quote(asked.text)}, {source.split}: {quote(source.text)} ({source.place})"


def _asked_by_split(data: Data) -> list[list[Asked]]:
    """The same question in the splits that have it, in their order."""
    found: dict[str, dict[str, Asked]] = defaultdict(dict)
    for split in SPLITS:
        for asked in data.asked:
            if asked.split == split:
                found[normalized(asked.text)].setdefault(split, asked)
    return [list(by_split.values()) for by_split in found.values()]
