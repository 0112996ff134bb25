"""The kinds of faults, and what finds them."""

from __future__ import annotations

import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path

from ap_ranker.data.audit.audited_files import Asked, Data, T, firsts, right_ids
from ap_ranker.data.audit.repairs import repaired
from ap_ranker.data.audit.report import Finding, Severity
from ap_ranker.data.reader import SPLITS, UNANSWERABLE, Layout
from ap_ranker.data.rows import Row
from ap_ranker.data.tables import Table
from ap_ranker.text.language_detection import LANGUAGES, detect_language
from ap_ranker.text.near_copies import near_earlier
from ap_ranker.text.nearly_equal import nearly_equal_pairs
from ap_ranker.text.reading import normalized
from ap_ranker.text.tokenizer import split_words

_KINDS = tomllib.loads(Path(__file__).with_name("kinds.toml").read_text(encoding="utf-8"))

CHECKS: dict[str, Finding] = {}
for _severity in Severity:
    for _kind, _explanation in _KINDS[_severity].items():
        CHECKS[_kind] = Finding(_kind, _severity, 0, **_explanation)
"""Kind of fault -> what it means, in the order of the report, without any found."""

_NOTHING = re.compile(
    r"[\W_]*+(?:n\W?a|none|null|nan|tbd|tba|todo|to do|xxx+|test|lorem ipsum\b.*|(?<=#)(?:ref!?|value!?|name\??))?"
    r"[\W_]*+",
    re.IGNORECASE | re.DOTALL,
)

Fault = tuple[str, str, str]
"""Its kind, its file and line, and what was found there."""


def find_faults(data: Data, on_progress: Callable[[str, int, int], None], *, near_answers: bool) -> Iterator[Fault]:
    """All faults of data, those of a kind in the order of the files; nearly equal answers only if asked for."""
    finders = [_texts, _rows, _ids, _answers_by_id, _labels, _copies, _near_questions, _leaks]
    finders += [_near_answers] if near_answers else []
    for done, find in enumerate(finders):
        on_progress(f"looking for faults in {len(data.questions):,} questions", done, len(finders))
        yield from find(data)
    on_progress("looking for faults", len(finders), len(finders))


def quote(text: str, length: int = 80) -> str:
    """The beginning of a text, with invisible characters escaped."""
    return repr(text if len(text) <= length else text[: length - 1] + "…")


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
        if name and (first := first_of.setdefault(name, item)) is not item:
            yield first, item


def nearly_equal_rows(rows: Iterable[Row]) -> Iterator[tuple[Row, Row]]:
    """Each different row whose answer is nearly equal to an earlier one, once: the first of those, and the row."""
    distinct = firsts(rows, lambda row: normalized(row.get("answer")))
    earlier_of: dict[int, int] = {}
    for earlier, later in nearly_equal_pairs([row.get("answer") for row in distinct]).tolist():
        earlier_of.setdefault(later, earlier)
    return ((distinct[earlier], distinct[later]) for later, earlier in earlier_of.items())


def _texts(data: Data) -> Iterator[Fault]:
    """Texts that are garbled, meaningless, too long or in another language."""
    texts = [*data.questions, *data.answers]
    languages = [detect_language(text.text) for text in texts]
    [(main, _)] = Counter(filter(None, languages)).most_common(1) or [("", 0)]
    for text, code in zip(texts, languages, strict=True):
        kinds = repaired(text.text)[1]
        if "\ufffd" in text.text:
            kinds.append("lost-character")
        elif _NOTHING.fullmatch(text.text):
            kinds.append("placeholder")
        yield from ((kind, text.place, quote(text.text)) for kind in kinds)
        if code and code != main:
            yield "other-language", text.place, f"{LANGUAGES[code]}, most are {LANGUAGES[main]}: {quote(text.text)}"
    most = data.max_tokens
    for kind, some in (("long-question", data.questions), ("long-answer", data.answers)):
        for text in some:
            if len(text.matched) > most and (words := len(split_words(text.matched))) > most:
                yield kind, text.place, f"{words:,} words, of which the first {most} are read"


def _rows(data: Data) -> Iterator[Fault]:
    """Rows with an empty text, or with an answer that repeats the question."""
    rows: list[tuple[Row, Layout | None]] = []
    for file in data.files:
        rows += [(row, file.layout) for row in file.table.rows]
    rows += [(row, None) for row in data.stored_rows]
    for row, layout in rows:
        question = row.get("question")
        answer = row.get("answer")
        if not question and layout:
            yield "empty-text", row.place, "no question"
        if not answer and layout != Layout.by_id:
            yield "empty-text", row.place, "no answer"
        if answer and layout != Layout.by_id and normalized(question) == normalized(answer):
            yield "answer-repeats-question", row.place, quote(answer)


def _ids(data: Data) -> Iterator[Fault]:
    """Ids that two rows share, and questions that share one."""
    tables: list[tuple[Table | None, str, bool]] = [(data.stored, "aid", False), (data.stored, "id", False)]
    for file in data.files:
        judged = file.layout == Layout.judged
        own = {Layout.by_id: "qid", Layout.pairs: "aid"}.get(file.layout, "")
        tables += [(file.table, own, False), (file.table, "id", judged), (file.pools, "qid", False)]
    for table, column, judged in tables:
        yield from _repeated_ids(table, column, judged=judged) if table else ()
    for file in data.files:
        rows = []
        if file.layout != Layout.by_id:
            rows = [row for row in file.table.rows if row.get("question")]
        for first, row in repeats(rows, lambda row: row.get("qid")):
            other = first.get("question")
            text = row.get("question")
            if normalized(other) != normalized(text):
                yield "id-with-two-questions", row.place, f"qid {row.get('qid')!r}: {quote(other)}, here {quote(text)}"


def _repeated_ids(table: Table, name: str, *, judged: bool) -> Iterator[Fault]:
    """Repeated ids of the column of this name, in any case; judged candidates may share the id of their question."""

    def question(row: Row) -> str:
        return normalized(row.get("question"))

    column = next((header for header in table.columns if header.strip().casefold() == name), "")
    shared = judged and all(first.get(column) == row.get(column) for first, row in repeats(table.rows, question))
    for first, row in repeats(table.rows, lambda row: row.get(column)):
        if not shared or question(first) != question(row):
            details = f"{column.strip()} {row.get(column)!r}, first at {where(first.place, row.place)}"
            yield "repeated-id", row.place, details


def _answers_by_id(data: Data) -> Iterator[Fault]:
    """Missing and unknown ids, pools without a right answer, and answers that are superfluous."""
    answer_ids = {row.get("aid") for row in data.stored_rows}
    for file in data.files:
        if file.layout != Layout.by_id:
            continue
        pools = {}
        if file.pools:
            pools = {row.get("qid"): row.get("candidate_ids").split() for row in file.pools.rows}
        for row in file.table.rows:
            qid = row.get("qid")
            right = list(dict.fromkeys(right_ids(row)))
            yield from (("unknown-id", row.place, f"answer_ids: {name!r}") for name in right if name not in answer_ids)
            if not row.get("answer_ids") and row.get("answerable").lower() not in UNANSWERABLE:
                yield "missing-answer-ids", row.place, quote(row.get("question"))
            if file.pools and qid not in pools:
                yield "missing-pool", row.place, f"qid {qid!r} is not in {file.pools.path}"
            outside = [name for name in right if name in answer_ids and name not in pools.get(qid, answer_ids)]
            if outside:
                yield "right-answer-outside-pool", row.place, f"{outside[0]!r} is not in the pool of {qid!r}"
        for row in file.pools.rows if file.pools else ():
            unknown = sorted(set(row.get("candidate_ids").split()) - answer_ids)
            yield from (("unknown-id", row.place, f"candidate_ids: {name!r}") for name in unknown)
    for first, row in repeats(data.stored_rows, lambda row: normalized(row.get("answer"))):
        if first.get("aid") != row.get("aid"):
            yield "repeated-answer", row.place, f"as {first.get('aid')}, {where(first.place, row.place)}"
    named = set(chain.from_iterable(asked.right for asked in data.asked))
    for row in data.stored_rows:
        if row.get("aid") not in named and row.get("answer"):
            yield "answer-never-right", row.place, f"{row.get('aid')}: {quote(row.get('answer'))}"


def _labels(data: Data) -> Iterator[Fault]:
    """Unknown and contradictory labels, and questions of no use for training."""
    for file in data.files:
        judged_places = {row.place for row, _, _ in file.judgements}
        for row in file.table.rows if file.layout == Layout.judged else ():
            if row.place not in judged_places:
                yield "bad-label", row.place, quote(row.get("label"))
        keyed = [
            (f"{normalized(row.get('question'))}\n{normalized(row.get('answer'))}", row, label)
            for row, label, _ in file.judgements
            if row.get("question") and row.get("answer")
        ]
        repeated = repeats(keyed, lambda judgement: judgement[0])
        differing = [(before, after) for before, after in repeated if before[2] != after[2]]
        for (_, first, _), (_, row, _) in firsts(differing, lambda pair: pair[0][0]):
            details = f"otherwise at {where(first.place, row.place)}: {quote(row.get('answer'))}"
            yield "judged-both-ways", row.place, details
    for asked in data.asked:
        if asked.layout == Layout.judged and not asked.right:
            yield "no-right-answer", asked.place, quote(asked.text)
        elif asked.layout == Layout.judged and asked.right >= asked.wrong:
            yield "only-right-answers", asked.place, quote(asked.text)


def row_key(row: Row) -> str:
    """Equal for rows that are equal: `repeated-row` reports the second one, and `--fix` removes it."""
    return "\0".join(row.get(column) for column in ("qid", "aid", "question", "answer", "label"))


def _copies(data: Data) -> Iterator[Fault]:
    """Equal rows and questions; a repeated pair is a row, unless its texts differ in case."""
    for file in data.files:
        rows = [row for row in file.table.rows if row.get("question") and row.get("answer")]
        for first, row in repeats(rows, row_key) if file.layout != Layout.by_id else ():
            yield "repeated-row", row.place, f"as {where(first.place, row.place)}: {quote(row.get('question'))}"
    pairs = [asked for asked in data.asked if asked.layout == Layout.pairs]
    repeated_pairs = repeats(pairs, lambda asked: f"{asked.split} {asked.text}\0{asked.right}")
    copies = {id(copy) for _, copy in repeated_pairs}
    for before, asked in repeats(data.asked, lambda asked: f"{asked.split} {normalized(asked.text)}"):
        differ = before.right != asked.right
        if differ or id(asked) not in copies:
            kind = "several-answers" if differ and before.right and asked.right else "repeated-question"
            yield kind, asked.place, f"as {where(before.place, asked.place)}: {quote(asked.text)}"


def _near_answers(data: Data) -> Iterator[Fault]:
    """Only candidates of the same question are compared: all of data by id, all of a file of pairs."""
    kind = "near-answer"
    for rows in [*(file.table.rows for file in data.files if file.layout == Layout.pairs), data.stored_rows]:
        for first, row in nearly_equal_rows(rows):
            yield kind, row.place, f"{quote(row.get('answer'))}, as {where(first.place, row.place)}"
    for file in data.files:
        candidates: defaultdict[str, dict[str, tuple[Row, int]]] = defaultdict(dict)
        for row, label, _ in file.judgements:
            if row.get("question") and row.get("answer"):
                candidates[normalized(row.get("question"))].setdefault(normalized(row.get("answer")), (row, label))
        texts = list(dict.fromkeys(chain.from_iterable(candidates.values())))
        near: defaultdict[str, set[str]] = defaultdict(set)
        for i, j in nearly_equal_pairs(texts):
            near[texts[i]].add(texts[j])
        for judged in candidates.values():
            for text, (first, label) in judged.items():
                for row, other in (judged[near_text] for near_text in sorted(near[text] & judged.keys())):
                    kind = "near-answer" if label == other else "near-answer-judged-differently"
                    yield kind, row.place, f"{quote(row.get('answer'))}, as {where(first.place, row.place)}"


def _near_questions(data: Data) -> Iterator[Fault]:
    """Different questions of a split that are near copies."""
    for split in SPLITS:
        of_split = [asked for asked in data.asked if asked.split == split]
        distinct = firsts(of_split, lambda asked: normalized(asked.text))
        for place, earlier in near_earlier([asked.text for asked in distinct]).items():
            first = distinct[earlier]
            later = distinct[place]
            disjoint = first.right and later.right and not first.right & later.right
            kind = "near-question-other-answer" if disjoint else "near-question"
            yield kind, later.place, f"{quote(later.text)}, {where(first.place, later.place)}: {quote(first.text)}"


def _leaks(data: Data) -> Iterator[Fault]:
    """Questions that are also, exactly or nearly, in an earlier split."""
    order = list(SPLITS)
    by_text: defaultdict[str, dict[str, Asked]] = defaultdict(dict)
    for asked in sorted(data.asked, key=lambda asked: order.index(asked.split)):
        by_text[normalized(asked.text)].setdefault(asked.split, asked)
    earliest = []  # in the order of the splits
    for by_split in by_text.values():
        first, *others = by_split.values()
        earliest.append(first)
        for asked in others:
            yield "leaked-question", asked.place, f"{quote(asked.text)}, {first.split}: {first.place}"
    near = {}
    if len({asked.split for asked in earliest}) > 1:
        near = near_earlier([asked.text for asked in earliest])
    for place, earlier in near.items():
        source = earliest[earlier]
        later = earliest[place]
        if source.split != later.split:  # the first near one is of the earliest split
            details = f"{quote(later.text)}, {source.split}: {quote(source.text)} ({source.place})"
            yield "near-leaked-question", later.place, details
