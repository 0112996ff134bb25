"""A period's questions as a page for an e-mail: one file, without scripts, whose styles mail programs show."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
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
        self._usage = usage
        self.language = language
        self.texts = TEXTS[language]
        self.days = self.texts["period"].format(days=self._range("period"), before=self._range("period_before"))

    def summary(self) -> list[list[str]]:
        """The lines of a table: what, and how often in the period and in the one before."""
        return [self._count_line("questions"), *map(self._share_line, SHARES), self._count_line("judged")]

    def _count_line(self, name: str) -> list[str]:
        current = self.number(self._usage["current"][name])
        before = self.number(self._usage["before"][name])
        return [self.texts["names"][name], current, before]

    def _share_line(self, name: str) -> list[str]:
        current = self._share(self._usage["current"]["shares"][name])
        before = self._share(self._usage["before"]["shares"][name])
        return [self.texts["names"][name], current, before]

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
        first = self._day(self._usage[period]["first"])
        last = self._day(self._usage[period]["last"])
        return f"{first} – {last}"

    def _day(self, day: date) -> str:
        writing = self.texts["writing"]
        month = writing["months"][day.month - 1]
        return writing["day"].format(day=day.day, month=month, year=day.year)
