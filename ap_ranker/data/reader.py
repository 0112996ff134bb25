"""From files to a `Dataset`, recognised by their columns.

(a) question, answer                           pairs
(b) question, answer, label [, qid]            judged candidates: 1 or 0; or Good, PotentiallyUseful, Bad
(c) qid, question, answer_ids  with  aid, answer [, question]  and, optionally, pools  qid, candidate_ids
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from pathlib import Path

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.data.faq import DEFAULT_MATCH, Entry, Match
from ap_ranker.data.tables import Row, Table, is_table, read_table
from ap_ranker.errors import InputError, one_line

SPLITS = {"train": ("train",), "dev": ("dev", "valid", "validation"), "test": ("test",)}
"""The file names that a folder uses for each split."""

UNANSWERABLE = ("0", "no", "false")
"""Values of the column `answerable` that say: no answer of the data is right."""

GRADED_CLASSES = ("Bad", "PotentiallyUseful", "Good")
"""The classes of SemEval's community question answering, from worst to best; only Good is a right answer."""

GRADES = {"good": 2, "potentiallyuseful": 1, "potential": 1, "bad": 0, "dialogue": 0, "not english": 0, "other": 0}
"""Its labels as positions in these classes; those of 2015 that 2016 gave up count as what they became."""

LABELS = {"1": 1, "1.0": 1, "true": 1, "0": 0, "0.0": 0, "false": 0}
"""Labels of judged candidates that have no grades; a number as a table of fractions writes it, too."""


class Layout(StrEnum):
    """How a file says which answers are right for which question: (a), (b) and (c) above."""

    pairs = "pairs"
    judged = "judged candidates"
    by_id = "by id"


_LAYOUTS = (
    "expected the columns (a) question, answer; (b) question, answer, label; "
    "or (c) qid, question, answer_ids beside a file of answers with aid, answer"
)


def read_dataset(
    path: str | Path,
    split: str,
    *,
    answers: Path | None = None,
    pools: Path | None = None,
    match: Match = DEFAULT_MATCH,
) -> Dataset:
    """Read questions and answers.

    Args:
        path: a file, or a folder that holds one for the split (`train.tsv.gz`, `dev.csv` or `valid.csv`, `test.jsonl`).
        split: `train`, `dev` or `test`: which file of a folder is meant.
        answers: the answers of layout (c); by default the file `answers.*` beside the questions.
        pools: the candidate pools of layout (c); by default `<split>-pools*.*` in the folder. Without, every answer is
            a candidate of every question.
        match: which text of an answer that has a stored question is matched.

    Raises:
        InputError: the data cannot be used as it is; names file, row, what was expected and what was found.
    """
    source = Path(path)
    if source.is_dir():
        found = find_split(source, split)
        if found is None:
            names = ", ".join(f"{name}.*" for name in SPLITS[split])
            present = ", ".join(sorted(file.name for file in source.iterdir())) or "nothing"
            raise InputError(f"{source}: expected a file {names} for the {split} questions, found {present}.")
        pools = pools or find_pools(source, split)
        source = found
    table = read_table(source)
    layout = find_layout(table)
    if layout == Layout.judged:
        return _judged(table)
    if layout == Layout.pairs:
        return _pairs(table)
    stored = read_table(answers or find_answers(source))
    data = _by_id(table, stored, read_table(pools) if pools else None, match)
    return _with_stored_questions(data, stored) if split == "train" else data


def find_layout(table: Table) -> Layout:
    """What the columns of a file of questions say.

    Raises:
        InputError: they are of no layout.
    """
    columns = set(table.columns)
    if {"question", "answer_ids"} <= columns:
        return Layout.by_id
    if {"question", "answer", "label"} <= columns:
        return Layout.judged
    if {"question", "answer"} <= columns:
        return Layout.pairs
    raise InputError(f"{table.path}: {_LAYOUTS}; found {table.header}.")


def find_answers(questions: Path) -> Path:
    """The file of answers beside the questions that name them by id.

    Raises:
        InputError: there is none.
    """
    found = next(_tables(questions.parent, "answers"), None)
    if found is None:
        raise InputError(
            f"{questions}: its answer_ids need a file of answers (aid, answer): found no answers.* in "
            f"{str(questions.parent)!r}, and none was given with --answers."
        )
    return found


def find_pools(folder: Path, split: str) -> Path | None:
    """The folder's candidate pools for a split, if it has any."""
    return next((file for name in SPLITS[split] for file in _tables(folder, f"{name}-pools")), None)


def find_split(folder: Path, split: str) -> Path | None:
    """The folder's file for a split, if it has one."""
    files = [file for name in SPLITS[split] for file in _tables(folder, name) if file.name.split(".")[0] == name]
    return files[0] if files else None


def _tables(folder: Path, stem: str) -> Iterator[Path]:
    """The folder's readable files whose name begins with `stem`; the shortest name first."""
    files = (file for file in folder.glob(f"{stem}*") if is_table(file))
    exact = sorted(files, key=lambda file: (len(file.name), file.name))
    return iter(exact)


def _pairs(table: Table) -> Dataset:
    """(a): the same answer text is one answer; the same question text is one question."""
    answers: dict[str, int] = {}
    positives: dict[str, dict[int, None]] = {}
    notes: Counter[str] = Counter()
    for row in table.rows:
        question, answer = row.need("question"), row.need("answer")
        right = positives.setdefault(question, {})
        number = answers.setdefault(answer, len(answers))
        if number in right:
            notes["repeated question-answer pairs merged"] += 1
        right[number] = None
    return Dataset(
        name=str(table.path),
        answers=[Answer(str(number), text) for text, number in answers.items()],
        questions=[Question(str(i), text, tuple(right)) for i, (text, right) in enumerate(positives.items())],
        notes=notes,
    )


def _judged(table: Table) -> Dataset:
    """(b): each question is ranked against the candidates judged for it."""
    has_id = "qid" in table.columns
    classes = label_classes(table)
    answers: list[Answer] = []
    judged: dict[str, tuple[str, dict[str, tuple[int, int]]]] = {}
    notes: Counter[str] = Counter()
    for row in table.rows:
        text, answer, label = row.need("question"), row.need("answer"), read_label(row, classes)
        key = row.need("qid") if has_id else text
        _, candidates = judged.setdefault(key, (text, {}))
        known = candidates.get(answer)
        if known is None:
            candidates[answer] = (len(answers), label)
            answers.append(Answer(str(len(answers)), answer))
        elif known[1] == label:
            notes["repeated candidates of a question merged"] += 1
        else:
            candidates[answer] = (known[0], max(known[1], label))
            notes["candidates judged twice, differently; the better label taken"] += 1
    questions = []
    for number, (key, (text, candidates)) in enumerate(judged.items()):
        rows, labels = zip(*candidates.values(), strict=True)
        positives = tuple(row for row, label in candidates.values() if label == len(classes) - 1)
        questions.append(Question(key if has_id else str(number), text, positives, rows, labels))
    return Dataset(str(table.path), answers, questions, judged=True, classes=classes, notes=notes)


def label_classes(table: Table) -> tuple[str, ...]:
    """Which of the two sets of labels the table uses: the first row says it."""
    first = next(iter(table.rows), None)
    graded = first is not None and first.get("label").casefold() in GRADES
    return GRADED_CLASSES if graded else ("wrong", "right")


def read_label(row: Row, classes: tuple[str, ...]) -> int:
    """The row's label as a position in the classes.

    Raises:
        InputError: it is none of them.
    """
    value = row.need("label").casefold()
    if len(classes) > 2:
        if value in GRADES:
            return GRADES[value]
    elif value in LABELS:
        return LABELS[value]
    graded = ", ".join(reversed(GRADED_CLASSES))
    expected = f"{graded}, as in the first row" if len(classes) > 2 else f"1 or 0 (or true, false; or {graded})"
    raise InputError(f"{row.place}: expected a label {expected}, found {one_line(repr(row.get('label')))}.")


def _by_id(questions: Table, answers: Table, pools: Table | None, match: Match) -> Dataset:
    """(c): answers by id, shared by all questions."""
    for table, columns in ((answers, ("aid", "answer")), (pools, ("qid", "candidate_ids"))):
        if table and (missing := [column for column in columns if column not in table.columns]):
            raise InputError(f"{table.path}: expected a column {missing[0]!r}, found {table.header}.")
    position: dict[str, int] = {}
    texts: list[Answer] = []
    for row in answers.rows:
        aid = row.need("aid")
        if aid in position:
            raise InputError(f"{row.place}: expected each aid once, found {one_line(repr(aid))} again.")
        position[aid] = len(texts)
        texts.append(Answer(aid, Entry.of(row).text(match)))
    candidates = {row.need("qid"): _positions(row, "candidate_ids", position) for row in pools.rows} if pools else {}
    result: list[Question] = []
    seen: set[str] = set()
    for row in questions.rows:
        qid, text = row.get("qid") or str(len(result)), row.need("question")
        if qid in seen:
            raise InputError(f"{row.place}: expected each qid once, found {one_line(repr(qid))} again.")
        seen.add(qid)
        if row.get("answerable").lower() in UNANSWERABLE:
            right: tuple[int, ...] = ()
        else:
            right = _positions(row, "answer_ids", position)
        if pools and qid not in candidates:
            raise InputError(f"{row.place}: expected a pool for question {qid!r} in {pools.path}, found none.")
        result.append(Question(qid, text, right, candidates.get(qid)))
    return Dataset(str(questions.path), texts, result)


def _with_stored_questions(data: Dataset, answers: Table) -> Dataset:
    """The stored question of each answer is one more wording to learn from."""
    stored = [
        Question(f"stored-{row.get('aid')}", text, (place,), stored=True)
        for place, row in enumerate(answers.rows)
        if (text := row.get("question"))
    ]
    if not stored:
        return data
    notes = data.notes + Counter({"stored questions added to learn from": len(stored)})
    return replace(data, questions=[*data.questions, *stored], notes=notes)


def _positions(row: Row, column: str, position: dict[str, int]) -> tuple[int, ...]:
    ids = dict.fromkeys(row.need(column).split())
    if unknown := [aid for aid in ids if aid not in position]:
        raise InputError(
            f"{row.place}: expected ids of known answers in {column!r}, found {one_line(repr(unknown[0]))}."
        )
    return tuple(position[aid] for aid in ids)
