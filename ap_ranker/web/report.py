"""A period's questions as a page for an e-mail: one file, without scripts, whose styles mail programs show."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from importlib.resources import files
from typing import Any

from jinja2 import Environment

from ap_ranker.errors import InputError
from ap_ranker.web.owner.texts import TEXTS

SHARES = ("answer", "maybe", "none", "helped")


class Report:
    """What `usage_of` has counted, in a language of the owner's page (InputError if it has not got that)."""

    def __init__(self, usage: Mapping[str, Any], language: str = "en") -> None:
        self.language = language.lower()
        if self.language not in TEXTS:
            raise InputError(f"Expected a language of the report, {' or '.join(TEXTS)}, found {language!r}.")
        self.texts = TEXTS[self.language]
        self._usage = usage

    def summary(self) -> list[list[str]]:
        """The lines of a table: what, and how often in the period and in the one before."""
        both = self._usage["current"], self._usage["before"]
        counts = {name: [self._number(counted[name]) for counted in both] for name in ("questions", "judged")}
        shares = {name: [self._share(counted["shares"][name]) for counted in both] for name in SHARES}
        lines = {"questions": counts["questions"], **shares, "judged": counts["judged"]}
        return [[self.texts["names"][name], *values] for name, values in lines.items()]

    def days(self) -> str:
        """A sentence with the days that are counted, and those before."""
        periods = self._usage["period"], self._usage["period_before"]
        days, before = (" – ".join(map(self._day, (each["first"], each["last"]))) for each in periods)
        said: str = self.texts["period"].format(days=days, before=before)
        return said

    def page(self) -> str:
        """The page; all that users and owners say is text in it."""
        environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
        environment.filters["number"] = self._number
        template = environment.from_string((files("ap_ranker.web") / "report.html").read_text(encoding="utf-8"))
        known = {"texts": self.texts, "language": self.language, "days": self.days(), "lines": self.summary()}
        return template.render({**self._usage, **known})

    def _number(self, value: int) -> str:
        return f"{value:,}".replace(",", self.texts["writing"]["thousands"])

    def _share(self, value: float | None) -> str:
        return "–" if value is None else self.texts["writing"]["share"].format(percent=f"{100 * value:.0f}")

    def _day(self, day: date) -> str:
        month = self.texts["writing"]["months"][day.month - 1]
        return str(self.texts["writing"]["day"].format(day=day.day, month=month, year=day.year))
