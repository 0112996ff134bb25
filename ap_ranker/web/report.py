"""A period's questions as a page for an e-mail: one file, without scripts, whose styles mail programs show."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from ap_ranker.errors import check_known
from ap_ranker.files import html_text
from ap_ranker.web.owner.texts import TEXTS

SHARES = ("answer", "maybe", "none", "helped")


class Report:
    """What `usage_of` has counted, in a language of the owner's page (InputError: in another one)."""

    def __init__(self, usage: Mapping[str, Any], language: str = "en") -> None:
        check_known("the report's language", language, TEXTS)
        self._usage, self.language, self.texts = usage, language, TEXTS[language]
        self.days = self.texts["period"].format(days=self._range("period"), before=self._range("period_before"))

    def summary(self) -> list[list[str]]:
        """The lines of a table: what, and how often in the period and in the one before."""
        both = self._usage["current"], self._usage["before"]
        counts = {name: [self.number(counted[name]) for counted in both] for name in ("questions", "judged")}
        shares = {name: [self._share(counted["shares"][name]) for counted in both] for name in SHARES}
        lines = {"questions": counts["questions"], **shares, "judged": counts["judged"]}
        return [[self.texts["names"][name], *values] for name, values in lines.items()]

    def page(self) -> str:
        """The page; all that users and owners say is text in it."""
        template = (files("ap_ranker.web") / "report.html").read_text(encoding="utf-8")
        return html_text(template, {**self._usage, "report": self, "texts": self.texts})

    def number(self, value: int) -> str:
        """A number as the language writes it."""
        return f"{value:,}".replace(",", self.texts["writing"]["thousands"])

    def _share(self, value: float | None) -> str:
        return "–" if value is None else self.texts["writing"]["share"].format(percent=f"{100 * value:.0f}")

    def _range(self, period: str) -> str:
        rules, ends = self.texts["writing"], (self._usage[period]["first"], self._usage[period]["last"])
        months = rules["months"]
        return " – ".join(
            rules["day"].format(day=each.day, month=months[each.month - 1], year=each.year) for each in ends
        )
