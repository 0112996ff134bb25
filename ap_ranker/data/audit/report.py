"""What an audit is made of: checks, each of which finds one kind of fault, and the report of what they found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ap_ranker.data.audit.audited_files import Data

EXAMPLES = 3
"""Number of faults of a kind that the report shows."""


class Severity(StrEnum):
    """An error ruins training or its measures, a warning costs quality, a note is worth knowing."""

    error = "error"
    warning = "warning"
    note = "note"


ERROR, WARNING, NOTE = Severity

Fault = tuple[str, str]
"""Its file and line, and what was found there."""

Find = Callable[[Data], Iterator[Fault]]


@dataclass(frozen=True)
class Check:
    """A check for one kind of fault.

    Attributes:
        severity: how bad it is.
        meaning: what is wrong, as a phrase to follow a number.
        advice: what to do; if `fixed`, what `--fix` does.
        find: finds the faults.
        fixed: whether `--fix` repairs it.
    """

    severity: Severity
    meaning: str
    advice: str
    find: Find
    fixed: bool = False


class Checks(dict[str, Check]):
    """Name of a kind of fault -> its check."""

    def __call__(
        self, severity: Severity, name: str, meaning: str, advice: str, *, fixed: bool = False
    ) -> Callable[[Find], Find]:
        """Decorate what finds a kind of fault; arguments as for `Check`."""

        def add(find: Find) -> Find:
            self[name] = Check(severity, meaning, advice, find, fixed)
            return find

        return add


@dataclass
class Finding:
    """All faults of a kind: their number, the first of them and, for texts that are too long, their share."""

    check: Check
    count: int
    examples: list[Fault]
    share: float | None = None


@dataclass
class AuditReport:
    """The result of an audit; `findings` are by the name of the kind."""

    data: str
    questions: int
    answers: int
    findings: dict[str, Finding] = field(default_factory=dict)

    def of(self, severity: Severity) -> dict[str, Finding]:
        """The findings of a severity."""
        return {name: finding for name, finding in self.findings.items() if finding.check.severity == severity}

    def counts(self, severity: Severity) -> dict[str, int]:
        """Kind -> number of its faults."""
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
                    "meaning": finding.check.meaning,
                    "advice": finding.check.advice,
                    "fixed_by_fix": finding.check.fixed,
                    "examples": [{"place": place, "found": found} for place, found in finding.examples],
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
