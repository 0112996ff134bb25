"""The documentation's drawn pictures are those that its commands draw, and tell what the code and the example tell."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import pytest
from conftest import ROOT, imported
from test_house import ROOMS

DOCS = ROOT / "docs"
IMAGES = DOCS / "images"
TEXT = "{http://www.w3.org/2000/svg}text"


def texts(picture: str) -> list[str]:
    return ["".join(element.itertext()) for element in ElementTree.fromstring(picture).iter(TEXT)]


def without_version(picture: str) -> str:
    return re.sub(r"Matplotlib v[\d.]+", "", picture)


@pytest.mark.parametrize("name", ["path.svg", "house.svg"])
def test_diagrams(name: str) -> None:
    """To the last byte by the same version of matplotlib, which may draw a line otherwise in the next one."""
    committed = (IMAGES / name).read_text(encoding="utf-8")
    with imported(DOCS / "diagrams.py") as diagrams, matplotlib.rc_context(diagrams.SETTINGS):
        drawn = diagrams.PICTURES[name]()
        assert drawn == diagrams.PICTURES[name](), "drawn twice, it differs"
    assert texts(committed) == texts(drawn)
    if f"Matplotlib v{matplotlib.__version__}," in committed:
        assert committed == drawn


def test_the_house_has_the_rooms_of_the_code() -> None:
    with imported(DOCS / "diagrams.py") as diagrams:
        assert [*diagrams.ROOMS] == ROOMS[::-1]


def test_the_terminal() -> None:
    with imported(DOCS / "terminal.py") as terminal:
        assert terminal.drawn(terminal.PRINTED.read_text(encoding="utf-8")) == terminal.PICTURE.read_text("utf-8")


def test_the_terminal_shows_the_demo() -> None:
    """The command and the questions of the Makefile, entries of the example, and answers that are visibly shortened."""
    demo = (ROOT / "Makefile").read_text(encoding="utf-8").split("\ndemo:")[1].split("\n\n")[0]
    asked = re.findall(r'^\t  "(.+?)"', demo, re.MULTILINE)
    command, *blocks = (IMAGES / "demo.txt").read_text(encoding="utf-8").split("\n\n")
    for option in re.findall(r"--\S+ [^\s\\]+", command):
        assert option in demo
    with (ROOT / "examples" / "faq" / "answers.csv").open(encoding="utf-8", newline="") as file:
        answer_of = {row["question"]: row["answer"] for row in csv.DictReader(file)}
    assert [block.splitlines()[0] for block in blocks] == asked
    for block in blocks:
        *_, title, shortened = block.splitlines()
        answer = answer_of[title.split("  ")[2]]
        assert shortened.endswith(" …")
        assert answer.startswith(shortened.strip().removesuffix(" …"))


@pytest.mark.parametrize("path", sorted(IMAGES.glob("*.svg")), ids=lambda path: path.name)
def test_a_picture_asks_no_other_host(path: Path) -> None:
    picture = path.read_text(encoding="utf-8")
    assert not re.search(r"""(?:url\(|href=|src=|@import)\s*["']?https?:""", picture)
