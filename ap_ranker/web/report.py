"""A period's questions as a page for an e-mail: one file, without scripts, whose styles mail programs show."""

from __future__ import annotations

from importlib.resources import files

from jinja2 import Environment

from ap_ranker.ranking.outcome import Outcome
from ap_ranker.web.usage import Usage

LABELS = {
    Outcome.ANSWER: "got an answer",
    Outcome.MAYBE: "got a maybe",
    Outcome.NONE: "got nothing",
    "helped": "judged answers helped",
}
"""What shares are of."""

MOST_CHARACTERS = 200
"""Of a question in the page: of more than 100 kB, some mail programs show only the beginning."""


def percent(share: float | None) -> str:
    """Format a share; a dash for that of nothing."""
    return "–" if share is None else f"{share:.0%}"


def summary(usage: Usage) -> list[tuple[str, str, str]]:
    """The lines of a table: what was counted, in the period, and in the one before."""
    both = usage.current, usage.before
    lines = [("questions", *(f"{counts.questions:,}" for counts in both))]
    lines += [(label, *(percent(counts.shares[name]) for counts in both)) for name, label in LABELS.items()]
    return [*lines, ("judgements", *(f"{counts.judged:,}" for counts in both))]


def report_page(usage: Usage) -> str:
    """The page; all that users and owners say is text in it."""
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"percent": percent, "day": lambda day: f"{day.day} {day:%B %Y}"}
    template = environment.from_string((files("ap_ranker.web") / "report.html").read_text(encoding="utf-8"))
    return template.render(usage=usage, lines=summary(usage), labels=LABELS, most=MOST_CHARACTERS)
