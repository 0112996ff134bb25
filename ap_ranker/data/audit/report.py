"""The kinds of fault that an audit knows, and its report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any

EXAMPLES = 3


class Severity(StrEnum):
    """An error ruins training or its measures, a warning costs quality, a note is worth knowing."""

    error = "error"
    warning = "warning"
    note = "note"


@dataclass(frozen=True)
class Kind:
    """A kind of fault.

    Attributes:
        severity: how bad it is.
        meaning: what is wrong, as a phrase to follow a number.
        advice: what to do; if `fixed`, what `--fix` does.
        fixed: whether `--fix` repairs it.
    """

    severity: Severity
    meaning: str
    advice: str
    fixed: bool = False


_error, _warning, _note = (partial(Kind, severity) for severity in Severity)


KINDS = {
    # texts
    "empty-text": _error("rows with an empty question or answer", "write one, or remove the row", fixed=True),
    "mojibake": _warning("texts in a wrong encoding (Ã© for é)", "decode them as UTF-8", fixed=True),
    "html": _warning("texts with HTML tags or entities", "keep the text only", fixed=True),
    "control-character": _warning("texts with control characters", "remove them", fixed=True),
    "invisible-character": _note("texts with zero-width characters or soft hyphens", "remove them", fixed=True),
    "decomposed-accent": _warning(
        "texts with accents as separate characters, which make other words for a model",
        "compose them (NFC)",
        fixed=True,
    ),
    "lost-character": _warning("texts with the replacement character �", "write the lost character"),
    "placeholder": _warning("texts that say nothing (N/A, TODO, ???)", "write a text, or remove the row"),
    "answer-repeats-question": _warning("answers that only repeat their question", "write the answer"),
    "long-answer": _note("answers longer than training reads", "put the important part first, or split them"),
    "long-question": _note("questions longer than training reads", "check that they are questions"),
    "other-language": _note(
        "texts in another language than most", "train one model per language, or a multilingual --encoder"
    ),
    # ids
    "repeated-id": _error("ids that two rows of a file share", "give each row its own"),
    "id-with-two-questions": _error("rows whose qid belongs to another question", "give each question its own qid"),
    "unknown-id": _error("ids of answers that do not exist", "correct the id, or add the answer"),
    "missing-answer-ids": _error("questions without answer_ids", "name the right answer, or set answerable to no"),
    "missing-pool": _error("questions without a pool in a split that has pools", "add the pool"),
    "right-answer-outside-pool": _warning("questions whose pool lacks a right answer", "add it to the pool"),
    "answer-never-right": _note("answers that are right for no question", "add a question or a stored question"),
    # labels
    "bad-label": _error("rows with an unknown label", "correct it"),
    "judged-both-ways": _error("answers judged differently for the same question", "decide which is right"),
    "no-right-answer": _warning("questions without a right answer, of no use in training", "add one, unless intended"),
    "only-right-answers": _note("questions whose candidates are all right", "add wrong ones"),
    "unbalanced": _note("classes far from balanced", "collect more of what is rare"),
    # duplicates
    "repeated-row": _warning("rows that repeat an earlier one of the file", "keep the first", fixed=True),
    "repeated-question": _warning("questions that repeat an earlier one of the file, as another entry", "keep one"),
    "several-answers": _warning("questions with another right answer elsewhere in the file", "keep the right one"),
    "repeated-answer": _warning("answers with two ids: one counts as wrong where the other is right", "keep one"),
    "near-answer": _warning("answers nearly equal to another one", "merge them, or state the difference clearly"),
    "near-answer-judged-differently": _warning(
        "nearly equal answers judged differently for a question", "decide which is right"
    ),
    "near-question": _note("questions nearly equal to another one with the same answer", "keep them; they add little"),
    "near-question-other-answer": _warning(
        "questions nearly equal to another one with other answers", "check that both are right"
    ),
    # splits
    "leaked-question": _error(
        "questions also in an earlier split (train, dev, test): measures are too high", "remove them from one"
    ),
    "near-leaked-question": _warning(
        "questions nearly equal to one of an earlier split: measures may be too high", "remove them from one"
    ),
}
"""Name -> kind of fault."""


@dataclass(frozen=True)
class Fault:
    """One fault: the name of its kind, the file and line, and what was found."""

    kind: str
    place: str
    found: str


@dataclass
class Finding:
    """All faults of a kind: their number, the first of them and, for texts that are too long, their share."""

    count: int = 0
    examples: list[Fault] = field(default_factory=list)
    share: float | None = None


@dataclass
class AuditReport:
    """The result of an audit; `findings` are by the name of the kind."""

    data: str
    questions: int
    answers: int
    findings: dict[str, Finding] = field(default_factory=dict)

    def add(self, faults: Iterable[Fault]) -> None:
        """Count the faults, and keep the first ones of each kind as examples."""
        for fault in faults:
            finding = self.findings.setdefault(fault.kind, Finding())
            finding.count += 1
            if len(finding.examples) < EXAMPLES:
                finding.examples.append(fault)
        for kind, total in (("long-answer", self.answers), ("long-question", self.questions)):
            if kind in self.findings:
                self.findings[kind].share = self.findings[kind].count / total

    def of(self, severity: Severity) -> dict[str, Finding]:
        """The findings of a severity, in the order of `KINDS`."""
        return {
            name: self.findings[name]
            for name, kind in KINDS.items()
            if kind.severity == severity and name in self.findings
        }

    def counts(self, severity: Severity) -> dict[str, int]:
        """Kind -> number of its faults, in the order of `KINDS`."""
        return {name: finding.count for name, finding in self.of(severity).items()}

    def as_json(self) -> dict[str, Any]:
        """The report as basic types."""
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
    """The beginning of a text, with invisible characters escaped."""
    return repr(text if len(text) <= length else text[: length - 1] + "…")


def where(other: str, place: str) -> str:
    """The place `other` as seen from `place`: without the file's name if both are in the same file."""
    file, _, line = other.rpartition(", ")
    return line if file == place.rpartition(", ")[0] else other
