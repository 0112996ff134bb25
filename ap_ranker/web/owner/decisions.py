"""What the owner decides about visitors' sentences: whether they are wordings of an entry, or none for the FAQ."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, and_, delete, func, insert, or_, select

from ap_ranker.text.question_keys import is_among
from ap_ranker.web.changes import Action, Change, insert_change
from ap_ranker.web.database import Database, decisions, judgements, now, questions, storable
from ap_ranker.web.judgements import EVERY_ANSWER, IS_OF_DECISION, key_of_question, unhelpful_answers
from ap_ranker.web.owner.current_entries import (
    ConflictError,
    EntryFacts,
    entry_of_key,
    question_keys_of,
)
from ap_ranker.web.question_log import clean_question, keys_in_log

GONE = "This sentence is not there any more. Load the page again."

REJECTION = "reject wordings"
"""The name of a rejection in the history, beside those of changes."""

DISMISSAL = "dismiss question"
"""That of a question which is none for the FAQ."""

_IS_REJECTION = decisions.c.change == ""
"""The condition that a sentence was rejected or dismissed: what accepts one is a change."""


class Judged(NamedTuple):
    """What names a visitor's sentence about an answer, and the sentence as the owner has seen it."""

    question_key: str
    answer_key: str
    wording: str

    @property
    def keys(self) -> dict[str, str]:
        """The two keys, by the names of their columns."""
        return {"question_key": self.question_key, "answer_key": self.answer_key}


class Asked(NamedTuple):
    """A visitor's question as the owner has seen it; the key of its judgements, if it is longer than what is shown."""

    text: str
    question_key: str = ""

    @property
    def keys(self) -> set[str]:
        """Those that the log and judgements have of it."""
        return {key_of_question(self.text), self.question_key or key_of_question(self.text)}


class Decisions:
    """The decisions in a database. `entries_in` gives the facts of all entries as a transaction sees them."""

    def __init__(self, database: Database, entries_in: Callable[[Connection], Sequence[EntryFacts]]) -> None:
        self._database = database
        self._entries_in = entries_in

    def accept(
        self, judged: Judged, entry: str, *, version: str = "", owner: str = "", overrules: bool = False
    ) -> Change:
        """Make a sentence a wording of the entry of this key, as `entry_of_key` finds it.

        ConflictError is raised if it is decided already, an entry knows it, its judgement or the entry is gone, or
        visitors say that this entry did not help. If the owner `overrules` them, what they say of the judged answer
        does not count.
        """
        overruled = {judged.answer_key} if overrules else set()
        with self._database.writing("changes", "decisions") as connection:
            _require_undecided(connection, judged)
            facts_of_entries = self._entries_in(connection)
            keyed = entry_of_key(entry, [facts.keyed for facts in facts_of_entries], version)
            require_helpful(
                connection, [judged.question_key], key=entry, facts_of_entries=facts_of_entries, overruled=overruled
            )
            if is_among(judged.wording, question_keys_of(facts_of_entries)):
                raise ConflictError("An entry knows this sentence already. Load the page again.")
            change = Change.make(
                Action.add_wordings, owner=owner, entry=entry, of=keyed.entry.question, wordings=(judged.wording,)
            )
            insert_change(connection, change)
            _keep(connection, judged.keys, change=change.id)  # which says what was accepted, and by whom
        return change

    def reject(self, sentences: Iterable[Judged], owner: str = "") -> int:
        """Reject sentences, and return how many; those that are decided already, or gone, are left as they are.

        ConflictError is raised if all of them are.
        """
        n_rejected = 0
        conflict: ConflictError | None = None
        with self._database.writing("decisions") as connection:
            for judged in sentences:
                try:
                    _require_undecided(connection, judged)
                except ConflictError as error:
                    conflict = error
                    continue
                _keep(connection, judged.keys, owner=owner, text=judged.wording)
                n_rejected += 1
        if conflict and not n_rejected:
            raise conflict
        return n_rejected

    def dismiss(self, asked: Iterable[Asked], owner: str = "") -> list[dict[str, str]]:
        """Keep that questions are none for the FAQ, and return the two keys of each, by which to take that back.

        Those that are dismissed already, or gone, are left as they are; ConflictError is raised if all of them are.
        """
        texts: dict[str, str] = {}
        for question in asked:
            for key in question.keys:
                texts.setdefault(key, question.text)
        dismissed = []
        with self._database.writing("decisions") as connection:
            for key, key_in_log in keys_in_log(connection).items():
                if key_in_log in texts:
                    texts.setdefault(key, texts[key_in_log])
            for key, text in texts.items():
                keys = {"question_key": key, "answer_key": EVERY_ANSWER}
                if not _is_left(connection, key) or _is_decided(connection, keys):
                    continue
                _keep(connection, keys, owner=owner, text=text)
                dismissed.append(keys)
        if not dismissed:
            raise ConflictError(GONE)
        return dismissed

    def take_back(self, keys_of_rejected: Iterable[Mapping[str, str]]) -> int:
        """Undo rejections or dismissals, by the two keys of each, and return how many; or ConflictError if none."""
        conditions = []
        for keys in keys_of_rejected:
            same_question = decisions.c.question_key == keys["question_key"]
            same_answer = decisions.c.answer_key == keys["answer_key"]
            conditions.append(and_(same_question, same_answer))
        with self._database.writing("decisions") as connection:
            deletion = delete(decisions).where(_IS_REJECTION, or_(*conditions))
            n_deleted = connection.execute(deletion).rowcount
            if not n_deleted:
                raise ConflictError("This is undone already. Load the page again.")
            self._database.note_deletion(connection)
        return n_deleted

    def rejections(self, most: int) -> list[dict[str, Any]]:
        """The latest rejections and dismissals, as the history shows them; with the keys by which to take one back."""
        judged = select(func.min(judgements.c.stored_question)).where(IS_OF_DECISION).scalar_subquery()
        latest = select(decisions, judged.label("stored_question")).where(_IS_REJECTION)
        with self._database.reading() as connection:
            rows = connection.execute(latest.order_by(decisions.c.time.desc()).limit(most)).mappings().all()
        rejections = []
        for row in rows:
            rejections.append(
                {
                    "id": "",  # it is no change
                    "action": DISMISSAL if row["answer_key"] == EVERY_ANSWER else REJECTION,
                    "time": row["time"],
                    "owner": clean_question(row["owner"]),
                    "of": row["stored_question"] or "",  # empty: the judgement is gone
                    "wordings": (clean_question(row["question"]),),
                    "question_key": row["question_key"],
                    "answer_key": row["answer_key"],
                    "is_undone": False,
                    "is_lapsed": False,
                }
            )
        return rejections


def _keep(
    connection: Connection, keys: Mapping[str, str], *, change: str = "", owner: str = "", text: str = ""
) -> None:
    """Keep a decision; the `owner` and the visitor's `text` are those of one that is no `change`."""
    values = {"change": change, "owner": storable(owner), "question": storable(text), "time": now()}
    connection.execute(insert(decisions).values(**keys, **values))


def _require_undecided(connection: Connection, judged: Judged) -> None:
    """ConflictError if the owner has decided about a judgement, or if it is gone."""
    keys_of_dismissal = judged.keys | {"answer_key": EVERY_ANSWER}
    if _is_decided(connection, judged.keys) or _is_decided(connection, keys_of_dismissal):
        raise ConflictError("This sentence is decided already. Load the page again.")
    judgement = connection.scalar(select(judgements.c.id).filter_by(**judged.keys).limit(1))
    if judgement is None:
        raise ConflictError(GONE)


def _is_decided(connection: Connection, keys: Mapping[str, str]) -> bool:
    """Whether there is a decision with these two keys."""
    return connection.scalar(select(decisions.c.time).filter_by(**keys).limit(1)) is not None


def _is_left(connection: Connection, question_key: str) -> bool:
    """Whether visitors' question is still there: what was deleted must not come back with a decision about it."""
    for table in (questions, judgements):
        if connection.scalar(select(table.c.id).where(table.c.question_key == question_key).limit(1)) is not None:
            return True
    return False


def require_helpful(
    connection: Connection,
    question_keys: Iterable[str],
    *,
    key: str,
    facts_of_entries: Iterable[EntryFacts],
    overruled: Collection[str] = (),  # keys of answers of which the owner knows better
) -> None:
    """ConflictError if visitors say that the entry of a key, with the text that it has now, did not help a question."""
    answer_keys = {facts.answer_key for facts in facts_of_entries if facts.keyed.key == key}.difference(overruled)
    for unhelpful in unhelpful_answers(connection, list(question_keys)).values():
        if answer_keys & unhelpful:
            raise ConflictError(
                "Visitors say that this entry did not help them. Choose another one, or change its answer first."
            )
