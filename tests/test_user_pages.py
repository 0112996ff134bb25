"""How the pages of the documentation are put: few words, one sentence at the top, what comes next at the end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT

MOST_WORDS = 24_000
"""Maximum number of words in all pages for users, code and tables included."""

LONGEST_SENTENCE = 30
"""Maximum number of words of a sentence outside of tables; a list has a line for each part."""

ALPHABET = "arabic, armenian, basque"
"""The beginning of the one list that stands in a line: names of languages."""

OTHER_PARTS = ("Contribute", "Reference")
"""Parts of the navigation that are for contributors, or that commands write."""

PAGES = sorted((ROOT / "docs").glob("*.md"))


def files(part: Any) -> Iterator[Path]:
    """Pages of a part of the navigation."""
    if isinstance(part, str):
        yield ROOT / "docs" / part
    else:
        for below in part:
            yield from files(next(iter(below.values())))


def user_pages() -> list[Path]:
    """README, and the pages of the navigation without `OTHER_PARTS`."""
    navigation = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    parts = [part for named in navigation for name, part in named.items() if name not in OTHER_PARTS]
    return [ROOT / "README.md", *(page for part in parts for page in files(part))]


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8").rstrip()


def sentences(page: Path) -> Iterator[str]:
    """Those of paragraphs and of items of lists, without the addresses of links."""
    text = re.sub(r"^ *```.*?^ *```$", "", text_of(page), flags=re.MULTILINE | re.DOTALL)
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*>]|\d+\.) )", text):
        if paragraph.lstrip().startswith(("|", ":::", "<!--", "#", "![", ALPHABET)):
            continue
        plain = re.sub(r"\]\([^)]*\)", "]", " ".join(paragraph.split()))
        yield from re.split(r"(?<=[.!?])[)*\"]*\s+|(?<=:)\s+(?=\W*[A-Z])", plain)


def test_the_pages_are_short() -> None:
    pages = user_pages()
    assert len(pages) > 20
    words = {page.name: len(text_of(page).split()) for page in pages}
    assert sum(words.values()) < MOST_WORDS, words


@pytest.mark.parametrize("page", user_pages(), ids=lambda page: page.name)
def test_sentences_are_short(page: Path) -> None:
    assert [found for found in sentences(page) if len(found.split()) > LONGEST_SENTENCE] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_first_sentence_says_what_the_page_is_for(page: Path) -> None:
    _, _, below = text_of(page).partition("\n\n")
    first = " ".join(below.partition("\n\n")[0].split())
    assert re.fullmatch(r"\*[^*]+[^*.]\.\*", first), first
    assert not re.search(r"[.?!] [A-Z]", first), first


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.name)
def test_the_last_line_names_the_next_page(page: Path) -> None:
    """By its own title, without a point."""
    last = text_of(page).splitlines()[-1]
    assert re.fullmatch(r"Next: \[[^]]+\]\([^)#]+\)(, (or )?\[[^]]+\]\([^)#]+\))*", last), last
    for name, target in re.findall(r"\[([^]]+)\]\(([^)]+)\)", last):
        assert text_of(page.parent / target).splitlines()[0] == f"# {name}", target
