"""What an audit can find, and what it has found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

EXAMPLES = 3


class Severity(StrEnum):
    """How bad: an error ruins training or its measures, a warning costs quality, a note is worth knowing."""

    error = "error"
    warning = "warning"
    note = "note"


@dataclass(frozen=True)
class Kind:
    """A kind of fault.

    Attributes:
        severity: how bad one is.
        meaning: what is wrong, after a number of cases.
        advice: what to do; what `--fix` does, where `fixed`.
        fixed: whether `--fix` repairs it.
    """

    severity: Severity
    meaning: str
    advice: str
    fixed: bool = False


def _error(meaning: str, advice: str, *, fixed: bool = False) -> Kind:
    return Kind(Severity.error, meaning, advice, fixed)


def _warning(meaning: str, advice: str, *, fixed: bool = False) -> Kind:
    return Kind(Severity.warning, meaning, advice, fixed)


def _note(meaning: str, advice: str, *, fixed: bool = False) -> Kind:
    return Kind(Severity.note, meaning, advice, fixed)


KINDS = {
    # texts
    "empty-text": _error("rows with an empty question or answer", "write it, or drop the row", fixed=True),
    "mojibake": _warning("texts in a wrong encoding (Ã© for é)", "encode them anew", fixed=True),
    "html": _warning("texts with HTML tags or entities", "take the text out of it", fixed=True),
    "control-character": _warning("texts with control characters", "drop them", fixed=True),
    "invisible-character": _note("texts with zero-width characters or soft hyphens", "drop them", fixed=True),
    "decomposed-accent": _warning(
        "texts with accents as characters of their own: other words to a model", "compose them (NFC)", fixed=True
    ),
    "lost-character": _warning("texts with the replacement character �", "write what was lost"),
    "placeholder": _warning("texts that say nothing (N/A, TODO, ???)", "write a text, or drop the row"),
    "answer-repeats-question": _warning("answers that only repeat their question", "write the answer"),
    "long-answer": _note("answers longer than training reads", "put what matters first, or split them"),
    "long-question": _note("questions longer than training reads", "see whether they are questions"),
    "other-language": _note("texts in another language than most", "train a language at a time, or mean it"),
    # ids
    "repeated-id": _error("ids that two rows of a file have", "give each its own"),
    "id-with-two-questions": _error("rows whose qid belongs to another question", "give each question its own qid"),
    "unknown-id": _error("ids of answers that are not there", "correct the id, or add the answer"),
    "missing-answer-ids": _error("questions without answer_ids", "name the right answer, or say answerable = no"),
    "missing-pool": _error("questions without a pool, in a split that has pools", "add the pool"),
    "right-answer-outside-pool": _warning("questions whose pool lacks a right answer", "add it to the pool"),
    "answer-never-right": _note("answers without a question", "ask for them, or give them a stored question"),
    # labels
    "bad-label": _error("rows with an unknown label", "correct it"),
    "judged-both-ways": _error("answers judged differently for the same question", "decide which is true"),
    "no-right-answer": _warning("questions without a right answer, of no use in training", "find one, or mean it"),
    "only-right-answers": _note("questions whose candidates are all right: no order is wrong", "add wrong ones"),
    "unbalanced": _note("classes far from balanced", "collect more of what is rare"),
    # duplicates
    "repeated-row": _warning("rows that stand in the file before", "keep the first", fixed=True),
    "repeated-question": _warning("questions that stand in the file before, as another entry", "keep one"),
    "several-answers": _warning("questions with another right answer than elsewhere in the file", "keep the true one"),
    "repeated-answer": _warning("answers under two ids: one counts as wrong where the other is right", "keep one"),
    "near-answer": _warning("answers nearly the same as another", "merge them, or say more clearly what differs"),
    "near-answer-judged-differently": _warning(
        "nearly the same answers judged differently for a question", "decide which is true"
    ),
    "near-question": _note("questions nearly the same as another with the same answer", "keep them: they add little"),
    "near-question-other-answer": _warning(
        "questions nearly the same as another with other answers", "see whether both are right"
    ),
    # splits
    "leaked-question": _error(
        "questions that an earlier split (train, dev, test) has, too: measures flatter", "take them out of one"
    ),
    "near-leaked-question": _warning(
        "questions nearly the same as one of an earlier split: measures may flatter", "take them out of one"
    ),
}
"""Every kind of fault by its name."""


@dataclass(frozen=True)
class Fault:
    """One case: the name of its kind, the file and line, and what was found."""

    kind: str
    place: str
    found: str


@dataclass
class Finding:
    """All faults of a kind: how many, and the first of them; `share` of the texts, where that says something."""

    count: int = 0
    examples: list[Fault] = field(default_factory=list)
    share: float | None = None


@dataclass
class AuditReport:
    """What an audit has found; `findings` by the name of the kind."""

    data: str
    questions: int
    answers: int
    findings: dict[str, Finding] = field(default_factory=dict)

    def add(self, faults: Iterable[Fault]) -> None:
        """Count the faults, and keep the first of each kind as examples."""
        for fault in faults:
            finding = self.findings.setdefault(fault.kind, Finding())
            finding.count += 1
            if len(finding.examples) < EXAMPLES:
                finding.examples.append(fault)
        for kind, all_of_them in (("long-answer", self.answers), ("long-question", self.questions)):
            if kind in self.findings:
                self.findings[kind].share = self.findings[kind].count / all_of_them

    def of(self, severity: Severity) -> dict[str, Finding]:
        """The findings of a severity, in the order of `KINDS`."""
        return {
            name: self.findings[name]
            for name, kind in KINDS.items()
            if kind.severity == severity and name in self.findings
        }

    def as_json(self) -> dict[str, Any]:
        """Everything, for other programs."""
        return {
            "data": self.data,
            "questions": self.questions,
            "answers": self.answers,
            "findings": [
                {
                    "kind": name,
                    "severity": severity.value,
                    "count": finding.count,
                    **({} if finding.share is None else {"share": finding.share}),
                    "meaning": KINDS[name].meaning,
                    "advice": KINDS[name].advice,
                    "fixed_by_fix": KINDS[name].fixed,
                    "examples": [{"place": fault.place, "found": fault.found} for fault in finding.examples],
                }
                for severity in Severity
                for name, finding in self.of(severity).items()
            ],
        }


def quote(text: str, length: int = 80) -> str:
    """The beginning of a text, with whatever cannot be seen written out."""
    shown = text if len(text) <= length else text[: length - 1] + "…"
    return repr(shown)


def where(other: str, place: str) -> str:
    """Another place as seen from one: without the file's name if it is the same file."""
    file, _, line = other.rpartition(", ")
    return line if file == place.rpartition(", ")[0] else other
