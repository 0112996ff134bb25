"""The report of an audit: what each check has found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """An error ruins training or its measures, a warning costs quality, a note is worth knowing."""

    error = "error"
    warning = "warning"
    note = "note"


@dataclass(frozen=True)
class Finding:
    """The faults of a kind: how bad they are, what is wrong, as a phrase to follow their number, what to do.

    `fixed_by_fix` says whether `--fix` does it; `examples` are the first ones, each with its `place` and what was
    `found` there.
    """

    kind: str
    severity: Severity
    count: int
    meaning: str
    advice: str
    fixed_by_fix: bool = False
    examples: Sequence[Mapping[str, str]] = ()


@dataclass(frozen=True)
class AuditReport:
    """The result of an audit; `findings` are by their kinds, errors first."""

    data: str
    questions: int
    answers: int
    findings: Mapping[str, Finding]

    def counts(self, severity: Severity) -> dict[str, int]:
        """Kind -> number of its faults."""
        return {kind: finding.count for kind, finding in self.findings.items() if finding.severity == severity}

    def as_json(self) -> dict[str, Any]:
        """The report as basic types."""
        return asdict(self) | {"findings": list(map(asdict, self.findings.values()))}
