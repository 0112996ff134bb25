"""The words of the page in each language: all of them, with the same places to fill in, in every form of a number."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from ap_ranker.web.changes import Action
from ap_ranker.web.owner.decisions import DISMISSAL, REJECTION
from ap_ranker.web.owner.texts import TEXTS as OWNERS

STATIC = files("ap_ranker.web.page") / "static"
TEXTS: dict[str, dict[str, Any]] = {
    entry.name.removesuffix(".json"): json.loads(entry.read_text(encoding="utf-8"))
    for entry in (STATIC / "texts").iterdir()
}
ALL = {"ar", "de", "en", "es", "fr", "hi", "it", "ja", "nl", "pl", "pt", "tr", "zh"}
SCRIPTS = {
    "ar": r"[\u0600-\u06ff]",
    "hi": r"[\u0900-\u097f]",
    "ja": r"[\u3040-\u30ff\u4e00-\u9fff]",
    "zh": r"[\u4e00-\u9fff]",
}
PLURALS = ("found", "also")
OWNER = files("ap_ranker.web.owner") / "page"


def said(table: dict[str, Any], path: str = "") -> Iterator[tuple[str, list[str]]]:
    """Each name of a text, and the forms that it has."""
    for name, text in table.items():
        if isinstance(text, dict) and "other" not in text:
            yield from said(text, f"{path}{name}.")
        else:
            yield f"{path}{name}", [*text.values()] if isinstance(text, dict) else [text]


def places(text: str) -> set[str]:
    return set(re.findall(r"\{\w+\}", text))


def test_all_languages_are_there() -> None:
    declared = re.search(r"LANGUAGES = (\[.*?\])", (STATIC / "languages.js").read_text(encoding="utf-8"))
    assert declared is not None
    assert set(json.loads(declared[1])) == set(TEXTS) == ALL


@pytest.mark.parametrize("language", sorted(ALL))
def test_a_language_says_everything(language: str) -> None:
    english, own = dict(said(TEXTS["en"])), dict(said(TEXTS[language]))
    assert list(own) == list(english)
    for name, forms in own.items():
        assert all(text.strip() == text and text for text in forms), name
        expected = places(english[name][-1])
        if len(forms) == 1:
            assert places(forms[0]) == expected, name
        else:  # "one answer" names no number
            assert places(forms[-1]) == expected, name
            assert all(places(text) <= expected for text in forms), name
    if language in SCRIPTS:
        letters = {name: " ".join(forms) for name, forms in own.items() if name not in ("direction", "bm25", "page")}
        assert [name for name, text in letters.items() if not re.search(SCRIPTS[language], text)] == []
    same = [name for name, forms in own.items() if language != "en" and forms == english[name]]
    assert len(same) < 6, same  # such as "Suggestions" in French


def test_the_owners_page_and_its_report_say_everything() -> None:
    declared = re.search(r"choose\(.*?(\[.*\])\)", (OWNER / "texts.js").read_text(encoding="utf-8"))
    assert declared is not None
    assert set(json.loads(declared[1])) == set(OWNERS)
    english = dict(said(OWNERS["en"]))
    for table in OWNERS.values():
        own = dict(said(table))
        assert list(own) == list(english)
        assert {name: places(str(forms[-1])) for name, forms in own.items()} == {
            name: places(str(forms[-1])) for name, forms in english.items()
        }
    assert set(OWNERS["en"]["actions"]) == {*Action, REJECTION, DISMISSAL}
    code = "".join(each.read_text() for each in OWNER.iterdir() if Path(each.name).suffix in (".js", ".html"))
    code += "".join((files("ap_ranker.web") / name).read_text() for name in ("report.html", "report.py"))
    hints = (files("ap_ranker.web.owner") / "hints.py").read_text()  # the server names them, the page has their words
    unused = [
        name
        for name in OWNERS["en"]
        if not re.search(rf"\btexts\.{name}\b|texts\[\"{name}\"\]|data-(?:text|label)=\"{name}\"", code)
        and f'"{name}"' not in hints
    ]
    assert not unused


def test_the_direction_of_writing() -> None:
    assert {language for language, table in TEXTS.items() if table["direction"] == "rtl"} == {"ar"}
    styles = [entry.read_text() for entry in STATIC.iterdir() if entry.name.endswith(".css")]
    styles.append((files("ap_ranker.web.page") / "widget.js").read_text())
    sided = (
        r"(?:margin|padding|border)-(?:left|right)|(?<![\w-])(?:left|right)\s*:|(?:float|text-align):\s*(?:left|right)"
    )
    for style in styles:
        assert not re.search(sided, style)  # sides are those of the direction


def test_every_form_of_a_number_in_a_browser(browser: Any) -> None:
    """Each number has the form that its language wants, by the browser's own rules (CLDR)."""
    page = browser.new_page()
    for language, table in TEXTS.items():
        script = "language => new Intl.PluralRules(language).resolvedOptions().pluralCategories"
        wanted = set(page.evaluate(script, language))
        for name, text in table.items():
            if isinstance(text, dict) and "other" in text:
                assert set(text) == wanted, (language, name)
    assert all(isinstance(TEXTS[language][name], dict) for language in ALL for name in PLURALS)


def test_no_key_is_left_over() -> None:
    """Each text is one that the page says."""
    code = "".join(entry.read_text() for entry in STATIC.iterdir() if Path(entry.name).suffix in (".js", ".html"))
    unused = [name for name in TEXTS["en"] if not re.search(rf"\btexts\.{name}\b|data-(?:text|label)=\"{name}\"", code)]
    assert unused == ["direction"]  # of the root
