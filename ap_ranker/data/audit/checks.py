"""The kinds of faults, and what finds them."""

from __future__ import annotations

import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import unescape
from operator import methodcaller
from pathlib import Path

from ap_ranker.data.audit.audited_files import Asked, Data, QuestionFile, T, Text, firsts, right_ids
from ap_ranker.data.audit.repairs import repaired, repaired_line, shows_html
from ap_ranker.data.audit.report import Finding, Severity
from ap_ranker.data.faq import DEFAULT_MATCH, finished, wording_lines, wordings_of
from ap_ranker.data.html_cells import shown_text
from ap_ranker.data.placeholders import says_nothing
from ap_ranker.data.reader import SPLITS, Layout, forms_of_answer, is_unanswerable
from ap_ranker.data.rows import Row
from ap_ranker.data.tables import Table
from ap_ranker.errors import one_line
from ap_ranker.text.language_detection import LANGUAGES, detect_language
from ap_ranker.text.near_copies import near_earlier
from ap_ranker.text.nearly_equal import nearly_equal_pairs
from ap_ranker.text.question_keys import question_key
from ap_ranker.text.reading import normalized
from ap_ranker.text.tokenizer import split_words

_KINDS = tomllib.loads(Path(__file__).with_name("kinds.toml").read_text(encoding="utf-8"))

CHECKS: dict[str, Finding] = {}
for _severity in Severity:
    for _kind, _explanation in _KINDS[_severity].items():
        CHECKS[_kind] = Finding(_kind, _severity, 0, **_explanation)
"""Kind of fault -> what it means, in the order of the report, without any found."""

SIGNS_BETWEEN = re.compile("[;|；｜]")
"""Signs that other programs put between the values of a cell, and that hardly any question has."""

Fault = tuple[str, str, str]
"""Its kind, its file and line, and what was found there."""


def find_faults(data: Data, on_progress: Callable[[str, int, int], None], *, near_answers: bool) -> Iterator[Fault]:
    """All faults of data, those of a kind in the order of the files; nearly equal answers only if asked for."""
    finders = [_texts, _rows, _ids, _answers_of_pairs, _answers_by_id, _labels, _copies]
    finders += [_joined_wordings, _shared_wordings, _near_questions, _leaks]
    if near_answers:
        finders.append(_near_answers)
    for done, find in enumerate(finders):
        on_progress(f"looking for faults in {len(data.questions):,} questions", done, len(finders))
        yield from find(data)
    on_progress("looking for faults", len(finders), len(finders))


def quote(text: str, length: int = 80) -> str:
    """The beginning of a text, with invisible characters escaped."""
    if len(text) > length:
        text = text[: length - 1] + "…"
    return repr(text)


def where(other: str, place: str) -> str:
    """The place `other` as seen from `place`: without the file's name if both are in the same file."""
    file, _, line = other.rpartition(", ")
    if file == place.rpartition(", ")[0]:
        return line
    return other


def repeats(items: Iterable[T], key: Callable[[T], str]) -> Iterator[tuple[T, T]]:
    """Each item whose key an earlier one has: the first of those, and the item; empty keys are none."""
    first_of: dict[str, T] = {}
    for item in items:
        name = key(item)
        if not name:
            continue
        first = first_of.setdefault(name, item)
        if first is not item:
            yield first, item


def nearly_equal_rows(rows: Iterable[Row]) -> Iterator[tuple[Row, Row]]:
    """Each different row whose answer is nearly equal to an earlier one, once: the first of those, and the row."""
    distinct = firsts(rows, _normalized_answer)
    earlier_of: dict[int, int] = {}
    for earlier, later in nearly_equal_pairs([row.get("answer") for row in distinct]).tolist():
        earlier_of.setdefault(later, earlier)
    for later, earlier in earlier_of.items():
        yield distinct[earlier], distinct[later]


_qid = methodcaller("get", "qid")
"""The question id of a row."""


def _normalized_question(row: Row) -> str:
    return normalized(row.get("question"))


def _normalized_answer(row: Row) -> str:
    return normalized(row.get("answer"))


def _texts(data: Data) -> Iterator[Fault]:
    """Texts that are garbled, meaningless, too long or in another language."""
    texts = [*data.questions, *data.answers]
    for text in texts:
        yield from _garbled(text, repaired)
    for text in data.wordings:
        yield from _garbled(text, repaired_line)
    languages = [detect_language(text.text) for text in texts]  # wordings may be in any language
    [(main, _)] = Counter(filter(None, languages)).most_common(1) or [("", 0)]  # without any, no text is in another
    for text, code in zip(texts, languages, strict=True):
        if code and code != main:
            yield "other-language", text.place, f"{LANGUAGES[code]}, most are {LANGUAGES[main]}: {quote(text.text)}"
    yield from _long_texts("long-question", [*data.questions, *data.wordings], most=data.max_tokens)
    yield from _long_texts("long-answer", data.answers, most=data.max_tokens)


def _garbled(text: Text, repair: Callable[[str], tuple[str, list[str]]]) -> Iterator[Fault]:
    """What is wrong with the characters of a text, or that it says nothing."""
    _, kinds = repair(text.text)
    if shows_html(text.text):
        kinds.append("shown-html")
    if "\ufffd" in text.text:
        kinds.append("lost-character")
    elif says_nothing(text.text):
        kinds.append("placeholder")
    for kind in kinds:
        yield kind, text.place, quote(text.text)


def _long_texts(kind: str, texts: Iterable[Text], most: int) -> Iterator[Fault]:
    """Texts of more words than are read."""
    for text in texts:
        if len(text.matched) <= most:  # a word has a character
            continue
        n_words = len(split_words(text.matched))
        if n_words > most:
            yield kind, text.place, f"{n_words:,} words, of which the first {most} are read"


def _rows(data: Data) -> Iterator[Fault]:
    """Rows with an empty text, or with an answer that repeats the question."""
    for file in data.files:
        for row in file.table.rows:
            needs_answer = file.layout != Layout.by_id and not is_unanswerable(row)
            yield from _texts_of_row(row, needs_question=True, needs_answer=needs_answer)
    for row in data.stored_rows:
        yield from _texts_of_row(row, needs_question=False, needs_answer=True)


def _texts_of_row(row: Row, *, needs_question: bool, needs_answer: bool) -> Iterator[Fault]:
    question = row.get("question")
    answer = row.get("answer")
    if needs_question and not question:
        yield "empty-text", row.place, "no question"
    if needs_answer and not answer:
        yield "empty-text", row.place, "no answer"
    if needs_answer and answer and normalized(question) == normalized(answer):
        yield "answer-repeats-question", row.place, quote(answer)


def _ids(data: Data) -> Iterator[Fault]:
    """Ids that two rows share, and questions that share one."""
    tables: list[tuple[Table | None, str, bool]] = [(data.answer_table, "aid", False), (data.answer_table, "id", False)]
    for file in data.files:
        judged = file.layout == Layout.judged
        own = {Layout.by_id: "qid", Layout.pairs: "aid"}.get(file.layout, "")
        tables.append((file.table, own, False))
        tables.append((file.table, "id", judged))
        tables.append((file.pools, "qid", False))
    for table, column, judged in tables:
        if table:
            yield from _repeated_ids(table, column, judged=judged)
    for file in data.files:
        if file.layout == Layout.by_id:
            continue
        rows = [row for row in file.table.rows if row.get("question")]
        for first, row in repeats(rows, _qid):
            if _normalized_question(first) != _normalized_question(row):
                texts = f"{quote(first.get('question'))}, here {quote(row.get('question'))}"
                yield "id-with-two-questions", row.place, f"qid {row.get('qid')!r}: {texts}"


def _repeated_ids(table: Table, name: str, *, judged: bool) -> Iterator[Fault]:
    """Repeated ids of the column of this name, in any case; judged candidates may share the id of their question."""
    column = ""
    for candidate in table.columns:
        if candidate.strip().casefold() == name:
            column = candidate
            break
    is_of_question = judged
    if judged:
        repeated_questions = repeats(table.rows, _normalized_question)
        is_of_question = all(first.get(column) == row.get(column) for first, row in repeated_questions)
    for first, row in repeats(table.rows, methodcaller("get", column)):
        if not is_of_question or _normalized_question(first) != _normalized_question(row):
            details = f"{column.strip()} {row.get(column)!r}, first at {where(first.place, row.place)}"
            yield "repeated-id", row.place, details


def _answers_of_pairs(data: Data) -> Iterator[Fault]:
    """Pairs whose answer is not that of an entry of the FAQ that they are compared with."""
    if data.by_id or data.answer_table is None:
        return
    entries, _ = finished(data.answer_table)
    known_answers: set[str] = set()
    for entry in entries:
        known_answers |= forms_of_answer(entry, DEFAULT_MATCH)
    for file in data.files:
        for row in file.table.rows:
            answer = row.get("answer")
            if answer and normalized(shown_text(answer)) not in known_answers:
                yield "unknown-answer", row.place, f"{quote(answer)} is not in {data.answer_table.path}"


def _answers_by_id(data: Data) -> Iterator[Fault]:
    """Missing and unknown ids, pools without a right answer, and answers that are superfluous."""
    if not data.by_id:
        return
    answer_ids = {row.get("aid") for row in data.stored_rows}
    for file in data.files:
        if file.layout == Layout.by_id:
            yield from _answers_of_questions(file, answer_ids)
    for first, row in repeats(data.stored_rows, _normalized_answer):
        if first.get("aid") != row.get("aid"):
            yield "repeated-answer", row.place, f"as {first.get('aid')}, {where(first.place, row.place)}"
    ever_right: set[str] = set()
    for question in data.asked:
        ever_right |= question.right
    for row in data.stored_rows:
        if row.get("aid") not in ever_right and row.get("answer"):
            yield "answer-never-right", row.place, f"{row.get('aid')}: {quote(row.get('answer'))}"


def _answers_of_questions(file: QuestionFile, answer_ids: set[str]) -> Iterator[Fault]:
    """What is wrong with the ids of a file of questions, and of its pools."""
    pools: dict[str, list[str]] = {}
    if file.pools:
        for row in file.pools.rows:
            pools[row.get("qid")] = row.get("candidate_ids").split()
    for row in file.table.rows:
        qid = row.get("qid")
        right_answers = list(dict.fromkeys(right_ids(row)))
        for answer_id in right_answers:
            if answer_id not in answer_ids:
                yield "unknown-id", row.place, f"answer_ids: {answer_id!r}"
        if not row.get("answer_ids") and not is_unanswerable(row):
            yield "missing-answer-ids", row.place, quote(row.get("question"))
        if file.pools and qid not in pools:
            yield "missing-pool", row.place, f"qid {qid!r} is not in {file.pools.path}"
        pool = pools.get(qid, answer_ids)
        outside = [answer_id for answer_id in right_answers if answer_id in answer_ids and answer_id not in pool]
        if outside:
            yield "right-answer-outside-pool", row.place, f"{outside[0]!r} is not in the pool of {qid!r}"
    if file.pools:
        for row in file.pools.rows:
            candidate_ids = set(row.get("candidate_ids").split())
            for answer_id in sorted(candidate_ids - answer_ids):
                yield "unknown-id", row.place, f"candidate_ids: {answer_id!r}"


def _labels(data: Data) -> Iterator[Fault]:
    """Unknown and contradictory labels, and questions of no use for training."""
    for file in data.files:
        judged_places = {row.place for row, _, _ in file.judgements}
        if file.layout == Layout.judged:
            for row in file.table.rows:
                if row.place not in judged_places:
                    yield "bad-label", row.place, quote(row.get("label"))
        for first, row in _judged_both_ways(file):
            details = f"otherwise at {where(first.place, row.place)}: {quote(row.get('answer'))}"
            yield "judged-both-ways", row.place, details
    for question in data.asked:
        if question.layout == Layout.judged and not question.right:
            yield "no-right-answer", question.place, quote(question.text)
        elif question.layout == Layout.judged and question.right >= question.wrong:
            yield "only-right-answers", question.place, quote(question.text)


def _judged_both_ways(file: QuestionFile) -> Iterator[tuple[Row, Row]]:
    """Of each candidate with different labels: its first row, and the first row that has another label than this."""
    first_of: dict[tuple[str, str], tuple[Row, int]] = {}
    contradicted: set[tuple[str, str]] = set()
    for row, label, _ in file.judgements:
        if not (row.get("question") and row.get("answer")):
            continue
        key = (_normalized_question(row), _normalized_answer(row))
        first, first_label = first_of.setdefault(key, (row, label))
        if label != first_label and key not in contradicted:
            contradicted.add(key)
            yield first, row


def row_key(row: Row) -> str:
    """Equal for rows that are equal in all columns: `repeated-row` reports the second one, and `--fix` removes it."""
    filled = sorted(column for column in row.fields if row.get(column))  # a record of JSON may lack a field
    return "\0".join(f"{column}\0{row.get(column)}" for column in filled)


def _key_of_texts(row: Row) -> str:
    """Equal for rows that say the same of question and answer."""
    return "\0".join(row.get(column) for column in ("qid", "aid", "question", "answer", "label"))


def _copies(data: Data) -> Iterator[Fault]:
    """Equal rows and questions; a repeated pair is a row, unless its texts differ in case."""
    for file in data.files:
        if file.layout == Layout.by_id:
            continue
        rows = [row for row in file.table.rows if row.get("question") and row.get("answer")]
        for first, row in repeats(rows, row_key):
            yield "repeated-row", row.place, f"as {where(first.place, row.place)}: {quote(row.get('question'))}"
        for first, row in repeats(firsts(rows, row_key), _key_of_texts):
            differing = [column for column in {**first.fields, **row.fields} if first.get(column) != row.get(column)]
            names = one_line(", ".join(file.table.written.get(column, column) for column in differing))
            details = f"as {where(first.place, row.place)}, but for {names}: {quote(row.get('question'))}"
            yield "repeated-texts", row.place, details
    pairs = [question for question in data.asked if question.layout == Layout.pairs]
    copies = {id(copy) for _, copy in repeats(pairs, _exact_pair)}  # which were told of as rows
    for before, question in repeats(data.asked, _question_of_split):
        differ = before.right != question.right
        if differ or id(question) not in copies:
            has_two_answers = differ and before.right and question.right
            kind = "several-answers" if has_two_answers else "repeated-question"
            yield kind, question.place, f"as {where(before.place, question.place)}: {quote(question.text)}"


def _exact_pair(question: Asked) -> str:
    return f"{question.split} {question.text}\0{question.right}"


def _question_of_split(question: Asked) -> str:
    return f"{question.split} {normalized(question.text)}"


def _tables_of_entries(data: Data) -> list[Sequence[Row]]:
    """The rows of each table that has entries: files of pairs, and the file of answers."""
    tables: list[Sequence[Row]] = [file.table.rows for file in data.files if file.layout == Layout.pairs]
    return [*tables, data.stored_rows]


def _joined_wordings(data: Data) -> Iterator[Fault]:
    """Lines of wordings that are read as one, and look like several with a sign between them."""
    for rows in _tables_of_entries(data):
        for row in rows:
            for line in wording_lines(row):
                texts = SIGNS_BETWEEN.split(unescape(shown_text(line)))  # also of an entity that was escaped twice
                if sum(any(map(str.isalpha, text)) for text in texts) > 1:
                    yield "joined-wordings", row.place, quote(line)


def _shared_wordings(data: Data) -> Iterator[Fault]:
    """Known wordings that are also a question or a wording of an entry with another answer."""
    for rows in _tables_of_entries(data):
        answered = [row for row in rows if row.get("answer")]
        first_of: dict[str, Row] = {}
        for row in answered:
            first_of.setdefault(question_key(shown_text(row.get("question"))), row)
        for row in answered:
            for wording in wordings_of(row):
                first = first_of.setdefault(question_key(wording), row)
                if _normalized_answer(first) != _normalized_answer(row):
                    yield "shared-wording", row.place, f"{quote(wording)}, as {where(first.place, row.place)}"


def _near_answers(data: Data) -> Iterator[Fault]:
    """Only candidates of the same question are compared: all of data by id, all of a file of pairs."""
    for rows in _tables_of_entries(data):
        for first, row in nearly_equal_rows(rows):
            yield "near-answer", row.place, f"{quote(row.get('answer'))}, as {where(first.place, row.place)}"
    for file in data.files:
        yield from _near_candidates(file)


def _near_candidates(file: QuestionFile) -> Iterator[Fault]:
    """Nearly equal answers that were judged for the same question."""
    candidates: defaultdict[str, dict[str, tuple[Row, int]]] = defaultdict(dict)
    texts: dict[str, None] = {}  # the answers of all questions, which are compared at once
    for row, label, _ in file.judgements:
        if row.get("question") and row.get("answer"):
            answer = _normalized_answer(row)
            candidates[_normalized_question(row)].setdefault(answer, (row, label))
    for of_question in candidates.values():
        texts.update(dict.fromkeys(of_question))
    distinct = list(texts)
    near: defaultdict[str, set[str]] = defaultdict(set)
    for i, j in nearly_equal_pairs(distinct):
        near[distinct[i]].add(distinct[j])
    for of_question in candidates.values():
        for text, (first, label) in of_question.items():
            for near_text in sorted(near[text] & of_question.keys()):
                row, near_label = of_question[near_text]
                kind = "near-answer" if label == near_label else "near-answer-judged-differently"
                yield kind, row.place, f"{quote(row.get('answer'))}, as {where(first.place, row.place)}"


def _near_questions(data: Data) -> Iterator[Fault]:
    """Different questions of a split that are near copies."""
    for split in SPLITS:
        of_split = [question for question in data.asked if question.split == split]
        distinct = firsts(of_split, _normalized_text)
        for place, earlier in near_earlier([question.text for question in distinct]).items():
            first = distinct[earlier]
            later = distinct[place]
            has_other_answer = first.right and later.right and first.right.isdisjoint(later.right)
            kind = "near-question-other-answer" if has_other_answer else "near-question"
            yield kind, later.place, f"{quote(later.text)}, {where(first.place, later.place)}: {quote(first.text)}"


def _normalized_text(question: Asked) -> str:
    return normalized(question.text)


def _order_of_split(question: Asked) -> int:
    return list(SPLITS).index(question.split)


def _leaks(data: Data) -> Iterator[Fault]:
    """Questions that are also, exactly or nearly, in an earlier split."""
    by_text: defaultdict[str, dict[str, Asked]] = defaultdict(dict)
    for question in sorted(data.asked, key=_order_of_split):
        by_text[normalized(question.text)].setdefault(question.split, question)
    earliest = []  # in the order of the splits
    for by_split in by_text.values():
        first, *later_questions = by_split.values()
        earliest.append(first)
        for question in later_questions:
            yield "leaked-question", question.place, f"{quote(question.text)}, {first.split}: {first.place}"
    near = {}
    if len({question.split for question in earliest}) > 1:
        near = near_earlier([question.text for question in earliest])
    for place, earlier in near.items():
        source = earliest[earlier]
        later = earliest[place]
        if source.split != later.split:  # the first near one is of the earliest split
            details = f"{quote(later.text)}, {source.split}: {quote(source.text)} ({source.place})"
            yield "near-leaked-question", later.place, details
