"""The report of an audit: what each check has found."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """An error ruins training or its measures, a warning costs quality, a note is worth knowing."""

    error = "error"
    warning = "warning"
    note = "note"


@dataclass(frozen=True)
class Check:
    """A kind of fault: how bad it is, what is wrong, as a phrase to follow a number, what to do; if `--fix` does it."""

    severity: Severity
    meaning: str
    advice: str
    fixed: bool = False


@dataclass
class Finding:
    """All faults of a kind: their number, and the first ones (place, what was found there)."""

    check: Check
    count: int
    examples: list[tuple[str, str]]


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
        findings = [
            {
                "kind": name,
                "severity": severity.value,
                "count": finding.count,
                "meaning": finding.check.meaning,
                "advice": finding.check.advice,
                "fixed_by_fix": finding.check.fixed,
                "examples": [{"place": place, "found": found} for place, found in finding.examples],
            }
            for severity in Severity
            for name, finding in self.of(severity).items()
        ]
        return {"data": self.data, "questions": self.questions, "answers": self.answers, "findings": findings}
