"""A period's questions as a page for an e-mail: one file, without scripts, whose styles mail programs show."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from jinja2 import Environment

SHARES = {"answer": "got an answer", "maybe": "got a maybe", "none": "got nothing", "helped": "judged answers helped"}


def summary(usage: Mapping[str, Any]) -> list[list[str]]:
    """The lines of a table of what `usage_of` has counted: what, and how often in the period and in the one before."""
    both = usage["current"], usage["before"]
    counts = {name: [f"{counted[name]:,}" for counted in both] for name in ("questions", "judged")}
    shares = {name: [counted["shares"][name] for counted in both] for name in SHARES}
    lines = [[SHARES[name], *("–" if one is None else f"{one:.0%}" for one in each)] for name, each in shares.items()]
    return [["questions", *counts["questions"]], *lines, ["judgements", *counts["judged"]]]


def report_page(usage: Mapping[str, Any]) -> str:
    """The page of what `usage_of` has counted; all that users and owners say is text in it."""
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string((files("ap_ranker.web") / "report.html").read_text(encoding="utf-8"))
    return template.render(usage, lines=summary(usage))
