"""Reads files into a `Dataset`; their columns decide the layout.

(a) question, answer                           pairs
(b) question, answer, label [, qid]            judged candidates: 1 or 0; or Good, PotentiallyUseful, Bad
(c) qid, question, answer_ids  with  aid, answer [, question]  and, optionally, pools  qid, candidate_ids
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.data.faq import DEFAULT_MATCH, Entry, Match, finished, log_left_out, read_faq_table, wordings_of
from ap_ranker.data.html_cells import shown_text
from ap_ranker.data.rows import Row
from ap_ranker.data.tables import COLUMNS_OPTION, Table, is_table, read_columns, read_named_table
from ap_ranker.errors import InputError, one_line
from ap_ranker.text.question_keys import is_among, keys_of_questions
from ap_ranker.text.reading import normalized

SPLITS = {"train": ("train",), "dev": ("dev", "valid", "validation"), "test": ("test",)}
"""Split -> names of its file in a folder."""

UNANSWERABLE = ("0", "no", "false")
"""Values of the column `answerable` that mean: no answer of the data is right."""

GRADED_CLASSES = ("Bad", "PotentiallyUseful", "Good")
"""The classes of SemEval's community question answering, from worst to best; only Good is a right answer."""

GRADES = {"good": 2, "potentiallyuseful": 1, "potential": 1, "bad": 0, "dialogue": 0, "not english": 0, "other": 0}
"""Their labels as positions in `GRADED_CLASSES`; the labels of 2015 count as the classes of 2016 that replaced them."""

LABELS = {"1": 1, "1.0": 1, "true": 1, "0": 0, "0.0": 0, "false": 0}
"""Binary labels of judged candidates, also as a column of floats has them."""

NAMED = 3
"""Maximum number of rows that are named beside their count."""


class Layout(StrEnum):
    """How a file states the right answers: (a), (b) and (c) above."""

    pairs = "pairs"
    judged = "judged candidates"
    by_id = "by id"


def read_dataset(
    path: str | Path,
    split: str,
    *,
    answers: Path | None = None,
    pools: Path | None = None,
    match: Match = DEFAULT_MATCH,
    columns: tuple[str, str] | None = None,
) -> Dataset:
    """Read questions and answers.

    Args:
        path: a file, or a folder with one for the split (`train.tsv.gz`, `dev.csv` or `valid.csv`, `test.jsonl`).
        split: `train`, `dev` or `test`.
        answers: the file of all answers. Of layout (c) it is by default `answers.*` beside the questions. Of layout (a)
            it is the FAQ: a pair's answer is recognized among its entries by its text; by default the answers of
            all pairs are candidates. Layout (b) has none.
        pools: the candidate pools of layout (c); by default `<split>-pools*.*` in the folder. Without pools, every
            answer is a candidate of every question.
        match: the text to match, for answers with a stored question.
        columns: the names of the columns of questions and answers in layouts (a) and (b); by default they are
            recognized.

    Raises:
        InputError: the data cannot be used as it is; names file, row, what was expected and what was found.
    """
    source = Path(path)
    if source.is_dir():
        pools = pools or find_pools(source, split)
        file = find_split(source, split)
        if file is None:
            raise missing_split(source, split)
        source = file
    table = read_named_table(source, columns)
    layout = find_layout(table)
    if layout == Layout.judged:
        judged = _judged(table)
        if answers is not None:
            judged.require_shared_answers("Leave out --answers.")
        return judged
    if layout == Layout.by_id:
        stored = read_columns(answers or find_answers(source), "aid", "answer")
        pool_table = read_columns(pools, "qid", "candidate_ids") if pools else None
        data = _by_id(table, stored, pools=pool_table, match=match)
    elif answers is None:
        return read_pairs(table)
    else:
        data = _pairs_among(table, answers, match=match, columns=columns)
    if split == "train":
        return _with_stored_questions(data)
    return data


def find_layout(table: Table) -> Layout:
    """The layout of a file of questions, by its columns; raises `InputError` if they fit none."""
    columns = {*table.columns}
    if {"question", "answer_ids"} <= columns:
        return Layout.by_id
    if {"question", "answer"} <= columns:
        if "label" in columns:
            return Layout.judged
        return Layout.pairs
    raise InputError(
        f"{table.path}: expected the columns question, answer; or question, answer, label; or qid, question, "
        f"answer_ids beside answers.*; found {table.header}. Name yours: {COLUMNS_OPTION}."
    )


def find_answers(questions: Path) -> Path:
    """The file of answers beside a file of questions; raises `InputError` if there is none."""
    answers = _first_table(questions.parent, "answers*")
    if answers:
        return answers
    raise InputError(
        f"{questions}: its answer_ids need a file of answers (aid, answer): found no answers.* in "
        f"{str(questions.parent)!r}, and none was given with --answers."
    )


def find_pools(folder: Path, split: str) -> Path | None:
    """The folder's candidate pools for a split, if it has any."""
    return _first_table(folder, *(f"{name}-pools*" for name in SPLITS[split]))


def find_split(folder: Path, split: str) -> Path | None:
    """The folder's file for a split; `None` if it has none, or is no folder."""
    return _first_table(folder, *(f"{name}.*" for name in SPLITS[split]))


def _first_table(folder: Path, *patterns: str) -> Path | None:
    """The table whose name fits the first of these patterns that any fits; of several, that with the shortest name."""
    for pattern in patterns:
        tables = list(filter(is_table, folder.glob(pattern)))
        if tables:
            return min(tables, key=_length_and_name)
    return None


def _length_and_name(file: Path) -> tuple[int, Path]:
    return len(file.name), file


def missing_split(folder: Path, *splits: str) -> InputError:
    """What to raise where a folder has a file of questions for none of these splits."""
    patterns: list[str] = []
    for split in splits:
        patterns += [f"{name}.*" for name in SPLITS[split]]
    names = sorted(path.name for path in folder.iterdir())
    present = one_line(", ".join(names), 60) or "nothing"
    expected = f"{folder}: expected a file {', '.join(patterns)} with questions"
    return InputError(f"{expected}, found {present}. Name a file of questions.")


def read_pairs(table: Table) -> Dataset:
    """The pairs of a table; equal answer texts are one answer, equal question texts are one question.

    Further wordings of a row (columns `wordings`, `wording 2` ...) are questions with the same answer. A row whose
    column `answerable` says no has questions without a right answer.
    """
    row_of: dict[str, int] = {}
    positives: defaultdict[str, dict[int, None]] = defaultdict(dict)
    notes: Counter[str] = Counter()
    for row in table.rows:
        if is_unanswerable(row):
            _add_unanswerable(row, positives)
            continue
        answer = row_of.setdefault(shown_text(row.need("answer")), len(row_of))
        for question in _asked(row):
            if answer in positives[question]:
                notes["repeated question-answer pairs merged"] += 1
            positives[question][answer] = None
    answers = [Answer(str(i), text) for text, i in row_of.items()]
    return _dataset(table, answers, positives=positives, notes=notes, file=table.path)


def _pairs_among(table: Table, faq: Path, match: Match, columns: tuple[str, str] | None = None) -> Dataset:
    """The pairs of a table, with every entry of a FAQ as a candidate, as in a search.

    A pair's answer is recognized by its text, whatever its case and white space: it is the answer of an entry, its
    stored question and answer together, or the text that is matched. All entries with this answer are right. A pair
    whose answer is not in the FAQ is left out; `notes` counts these and names the first. `columns` are those of either
    file.

    An entry whose stored question is one of the table's is matched by its answer alone: a question must not meet its
    own text, or it would be found too easily. It stays a known wording, which is left out likewise where scores of
    wordings are compared.
    """
    entries, left_out = finished(read_faq_of_pairs(faq, columns))
    log_left_out(faq, left_out)
    entries_of: defaultdict[str, list[int]] = defaultdict(list)
    for i, entry in enumerate(entries):
        for form in forms_of_answer(entry, match):
            entries_of[form].append(i)
    asked_keys: set[str] = set()  # of all questions, also of pairs that are left out
    positives: defaultdict[str, dict[int, None]] = defaultdict(dict)
    missing: list[str] = []
    for row in table.rows:
        questions = _asked(row)
        asked_keys |= keys_of_questions(questions)
        if is_unanswerable(row):
            _add_unanswerable(row, positives)
            continue
        answer = shown_text(row.need("answer"))
        right = entries_of.get(normalized(answer))
        if right:
            for question in questions:
                positives[question] |= dict.fromkeys(right)
        else:
            missing.append(row.place.removeprefix(f"{table.path}, "))
    if not any(positives.values()):
        advice = "each answer must be that of an entry, word for word"
        raise InputError(f"{table.path}: expected answers of {faq}, found none of them: {advice}.")
    notes: Counter[str] = Counter()
    if missing:
        places = "; ".join(missing[:NAMED])
        if len(missing) > NAMED:
            places += f"; and {len(missing) - NAMED:,} more"
        notes[f"pairs left out, because their answer is not in {faq}: {places}"] = len(missing)
    answers = []
    for answer_id, entry in zip(_answer_ids(entries), entries, strict=True):
        meets_itself = is_among(entry.question, asked_keys)
        matched_entry = replace(entry, question="") if meets_itself else entry
        answers.append(Answer(answer_id, matched_entry.text(match), wordings=entry.questions, answer=entry.answer))
    return _dataset(table, answers, positives=positives, notes=notes, file=faq)


def _answer_ids(entries: Sequence[Entry]) -> list[str]:
    """The ids of a FAQ's entries: those of its column `aid` or, if some are missing or the same, their positions."""
    ids = [entry.other.get("aid", "") for entry in entries]
    if all(ids) and len(set(ids)) == len(ids):
        return ids
    return [str(position) for position, _ in enumerate(entries)]


def _asked(row: Row) -> tuple[str, ...]:
    """The question of a row and its further wordings."""
    return (shown_text(row.need("question")), *wordings_of(row))


def is_unanswerable(row: Row) -> bool:
    """Whether the column `answerable` says that no answer of the data is right for the row's question."""
    return row.get("answerable").lower() in UNANSWERABLE


def _add_unanswerable(row: Row, positives: defaultdict[str, dict[int, None]]) -> None:
    """Add the questions of a row without a right answer; those that have one in another row keep it."""
    if row.get("answer"):
        raise InputError(
            f"{row.place}: expected no answer, as its question is marked as unanswerable, found one. Remove the answer "
            "or the mark."
        )
    for question in _asked(row):
        positives[question] |= {}


def read_faq_of_pairs(faq: Path, columns: tuple[str, str] | None) -> Table:
    """The table of a FAQ, which may have the columns that are named for its pairs, or others that are recognized."""
    try:
        return read_faq_table(faq, columns)
    except InputError:
        if columns is None:
            raise
        return read_faq_table(faq)


def forms_of_answer(entry: Entry, match: Match) -> set[str]:
    """The texts by which the answer of a pair is recognized as that of an entry."""
    return set(map(normalized, (entry.answer, entry.text(Match.both), entry.text(match))))


def _dataset(
    table: Table, answers: list[Answer], positives: dict[str, dict[int, None]], notes: Counter[str], file: Path
) -> Dataset:
    questions: list[Question] = []
    for number, (text, right) in enumerate(positives.items()):
        questions.append(Question(str(number), text, tuple(right)))
    return Dataset(str(table.path), answers, questions, notes=notes, answers_file=str(file))


def _judged(table: Table) -> Dataset:
    """(b): each question is ranked against the candidates judged for it."""
    has_id = "qid" in table.columns
    classes = label_classes(table)
    answers: list[Answer] = []
    texts: dict[str, str] = {}
    judged: defaultdict[str, dict[str, tuple[int, int]]] = defaultdict(dict)
    notes: Counter[str] = Counter()
    for row in table.rows:
        text = shown_text(row.need("question"))
        answer = shown_text(row.need("answer"))
        label = read_label(row, classes)
        key = row.need("qid") if has_id else text
        texts.setdefault(key, text)
        if answer not in judged[key]:
            judged[key][answer] = (len(answers), label)
            answers.append(Answer(str(len(answers)), answer))
            continue
        position, earlier = judged[key][answer]
        judged[key][answer] = (position, max(earlier, label))
        if earlier == label:
            notes["repeated candidates of a question merged"] += 1
        else:
            notes["candidates judged twice, differently; the better label taken"] += 1
    questions = []
    for i, (key, candidates) in enumerate(judged.items()):
        rows, labels = zip(*candidates.values(), strict=True)
        best = len(classes) - 1
        positives = tuple(row for row, label in candidates.values() if label == best)
        question_id = key if has_id else str(i)
        questions.append(Question(question_id, texts[key], positives=positives, candidates=rows, labels=labels))
    return Dataset(str(table.path), answers, questions, judged=True, classes=classes, notes=notes)


def label_classes(table: Table) -> tuple[str, ...]:
    """The classes of the table's labels: graded or binary, as the label of the first row."""
    graded = table.rows[0].get("label").casefold() in GRADES
    return GRADED_CLASSES if graded else ("wrong", "right")


def read_label(row: Row, classes: tuple[str, ...]) -> int:
    """The row's label as a position in `classes`; raises `InputError` if it is none."""
    value = row.need("label").casefold()
    labels = GRADES if len(classes) > 2 else LABELS
    if value in labels:
        return labels[value]
    graded = ", ".join(reversed(GRADED_CLASSES))
    expected = f"1 or 0 (or true, false; or {graded})"
    if len(classes) > 2:
        expected = f"{graded}, as in the first row"
    raise InputError(f"{row.place}: expected a label {expected}, found {one_line(repr(row.get('label')))}.")


def _by_id(questions: Table, answers: Table, pools: Table | None, match: Match) -> Dataset:
    """(c): answers by id, shared by all questions."""
    position: dict[str, int] = {}
    texts: list[Answer] = []
    for row in answers.rows:
        aid = _new(row, "aid", name=row.need("aid"), existing=position)
        entry = Entry.of(row)
        position[aid] = len(texts)
        texts.append(Answer(aid, entry.text(match), wordings=entry.questions, answer=entry.answer))
    candidates: dict[str, tuple[int, ...]] = {}
    if pools:
        for row in pools.rows:
            candidates[row.need("qid")] = _positions(row, "candidate_ids", position=position)
    result: dict[str, Question] = {}
    for row in questions.rows:
        qid = _new(row, "qid", name=row.get("qid") or str(len(result)), existing=result)
        text = shown_text(row.need("question"))
        right: tuple[int, ...] = ()
        if not is_unanswerable(row):
            right = _positions(row, "answer_ids", position=position)
        if pools and qid not in candidates:
            raise InputError(f"{row.place}: expected a pool for question {qid!r} in {pools.path}, found none.")
        result[qid] = Question(qid, text, positives=right, candidates=candidates.get(qid))
    return Dataset(str(questions.path), texts, list(result.values()), answers_file=str(answers.path))


def _new(row: Row, column: str, name: str, existing: Container[str]) -> str:
    if name in existing:
        raise InputError(f"{row.place}: expected each {column} once, found {one_line(repr(name))} again.")
    return name


def _positions(row: Row, column: str, position: dict[str, int]) -> tuple[int, ...]:
    ids = dict.fromkeys(row.need(column).split())
    unknown = [aid for aid in ids if aid not in position]
    if unknown:
        unknown_id = one_line(repr(unknown[0]))
        raise InputError(f"{row.place}: expected ids of known answers in {column!r}, found {unknown_id}.")
    return tuple(position[aid] for aid in ids)


def _with_stored_questions(data: Dataset) -> Dataset:
    """Add the stored question of each answer, and its further wordings, to learn from."""
    stored: list[Question] = []
    for row, answer in enumerate(data.answers):
        for text in answer.wordings:
            stored.append(Question(f"stored-{len(stored)}", text, (row,), stored=True))
    notes = data.notes + Counter({"stored questions added to learn from": len(stored)})
    return replace(data, questions=[*data.questions, *stored], notes=notes)
