"""Draws docs/images/path.svg, from a question to its decision, and docs/images/house.svg, the rooms of the code.

    python docs/diagrams.py

Both are drawn from the texts below, upright, so that they can be read on a phone, on white, so that they can be read
in dark mode. Their text stays text: it can be searched, and it is drawn with a font of the reader's machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import typer
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Polygon, Rectangle

IMAGES = Path(__file__).resolve().parent / "images"

INK = "#1f2933"
GREY = "#52606d"
BLUE = "#e3eefa"
GREEN = "#e2f4e8"
YELLOW = "#fdf3d4"
RED = "#fbe4e4"
WHITE = "#ffffff"

SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "ap-ranker",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],
}
"""The same text makes the same file, but for another version of matplotlib."""

WIDTH = 420
"""Width of both pictures in points, which is that of a phone."""

BIG, SMALL = 13, 11
"""Sizes of type in points."""

ROOMS = {
    "cli": "the command: options in, one call, output",
    "web": "search page, API, owner's desk, database",
    "search": "a search as a library, no web framework",
    "haystack_integrations": "Haystack's components, thin",
    "training": "objectives, trainer, tuning, comparison",
    "evaluation": "metrics, significance, fits, reports",
    "ranking": "checkpoint, cache, BM25, rule, decision",
    "documents": "files and folders become passages",
    "data": "tables become entries and wordings",
    "models": "one file for each model or tight family",
    "text": "how any text becomes words and tokens",
}
"""Room -> what it holds, highest floor first; tests/test_house.py holds their order."""


@dataclass
class Picture:
    """A page of `WIDTH` by `height` points, on which (0, 0) is below on the left."""

    height: float

    def __post_init__(self) -> None:
        self.figure = Figure(figsize=(WIDTH / 72, self.height / 72), facecolor=WHITE)
        self.axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set(xlim=(0, WIDTH), ylim=(0, self.height))
        self.axes.axis("off")

    def text(self, x: float, y: float, text: str, size: float = SMALL, **style: str) -> None:
        """Write around a point."""
        style = {"color": INK, "ha": "center", "va": "center"} | style
        self.axes.text(x, y, text, fontsize=size, linespacing=1.35, **style)

    def box(self, x: float, y: float, width: float, height: float, lines: list[str], colour: str) -> None:
        """Draw a box whose left lower corner is at (x, y): its name, and below it what it does."""
        shape = "round,pad=0,rounding_size=5"
        self.axes.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=shape, facecolor=colour, edgecolor=INK))
        name, *does = lines
        middle = x + width / 2
        if not does:
            self.text(middle, y + height / 2, name, BIG, weight="bold")
            return
        self.text(middle, y + height - 15, name, BIG, weight="bold")
        self.text(middle, y + (height - 24) / 2, "\n".join(does))

    def arrow(self, start: tuple[float, float], end: tuple[float, float], **style: str) -> None:
        """Draw an arrow between two points."""
        style = {"color": INK, "arrowstyle": "-|>"} | style
        self.axes.add_patch(FancyArrowPatch(start, end, mutation_scale=12, shrinkA=0, shrinkB=0, **style))

    def line(self, *points: tuple[float, float], **style: str) -> None:
        """Draw a line through points."""
        self.axes.plot(*zip(*points, strict=True), linewidth=1, **({"color": INK} | style))

    def svg(self, title: str) -> str:
        """The picture as a file's content."""
        written = StringIO()
        self.figure.savefig(written, format="svg", metadata={"Date": None, "Title": title})
        return "\n".join(line.rstrip() for line in written.getvalue().splitlines()) + "\n"


def path() -> str:
    """From a question to its decision, and from a click to a known wording."""
    picture = Picture(680)
    picture.box(130, 634, 160, 34, ["question"], WHITE)
    picture.arrow((210, 634), (110, 602))
    picture.arrow((210, 634), (282, 602))
    picture.box(24, 550, 150, 52, ["words", "read in one way"], BLUE)
    picture.box(190, 550, 186, 52, ["encode once", "a vector, token states"], BLUE)

    picture.arrow((80, 550), (80, 516))
    picture.arrow((240, 550), (210, 516))
    picture.arrow((310, 550), (328, 516))
    picture.box(24, 448, 112, 68, ["BM25", "finds by", "words"], YELLOW)
    picture.box(148, 448, 112, 68, ["vectors", "find by", "meaning"], YELLOW)
    picture.box(272, 448, 112, 68, ["wordings", "that are known", "for an entry"], YELLOW)

    for x in (80, 204, 328):
        picture.arrow((x, 448), (x if x == 204 else x + (1 if x < 204 else -1) * 30, 414))
    picture.box(24, 362, 360, 52, ["candidates", "every entry that one of the three has found"], GREEN)
    picture.arrow((204, 362), (204, 334))
    match = ["match", "the question's token states with those of each", "answer, which were encoded once and kept"]
    picture.box(24, 266, 360, 68, match, GREEN)
    picture.arrow((204, 266), (204, 238))
    picture.box(24, 186, 360, 52, ["rule", "one order, one probability for each answer"], GREEN)
    picture.arrow((204, 186), (204, 158))
    picture.text(204, 148, "decision", BIG, weight="bold")
    for x in (80, 204, 328):
        picture.arrow((204, 138), (x, 122))
    picture.box(24, 88, 112, 34, ["answer"], GREEN)
    picture.box(148, 88, 112, 34, ["maybe"], YELLOW)
    picture.box(272, 88, 112, 34, ["none"], RED)

    dashed = {"linestyle": "dashed", "color": GREY}
    picture.line((204, 88), (204, 62), **dashed)
    picture.box(24, 10, 360, 52, ["the owner", "reads clicks and questions, accepts a wording"], WHITE)
    picture.line((384, 36), (404, 36), (404, 482), **dashed)
    picture.arrow((404, 482), (384, 482), **dashed)
    return picture.svg("From a question to its decision")


def house() -> str:
    """The rooms, one floor each."""
    floor, ground = 46, 100
    picture = Picture(ground + floor * len(ROOMS) + 96)
    top = ground + floor * len(ROOMS)
    roof = [(18, top), (WIDTH - 18, top), (WIDTH / 2, top + 84)]
    picture.axes.add_patch(Polygon(roof, facecolor=RED, edgecolor=INK, joinstyle="round"))
    picture.text(WIDTH / 2, top + 38, "ap-ranker", BIG + 2, weight="bold")
    picture.text(WIDTH / 2, top + 16, "a room imports from itself and from those below")
    for number, (name, holds) in enumerate(ROOMS.items()):
        below = top - floor * (number + 1)
        colour = BLUE if number % 2 else WHITE
        picture.axes.add_patch(Rectangle((30, below), WIDTH - 60, floor, facecolor=colour, edgecolor=INK))
        picture.text(42, below + floor - 15, name, BIG, weight="bold", ha="left")
        picture.text(42, below + 13, holds, ha="left")
    picture.axes.add_patch(Rectangle((18, ground - 40), WIDTH - 36, 40, facecolor=YELLOW, edgecolor=INK))
    picture.text(WIDTH / 2, ground - 20, "single files that any room may use: errors, files, settings")
    picture.text(WIDTH / 2, 40, "benchmarks, examples", BIG, weight="bold")
    picture.text(WIDTH / 2, 20, "beside the house: they prove it, and are not in the wheel", color=GREY)
    return picture.svg("The rooms of ap-ranker")


PICTURES = {"path.svg": path, "house.svg": house}


def main() -> None:
    """Draw both pictures."""
    with rc_context(SETTINGS):
        for name, draw in PICTURES.items():
            (IMAGES / name).write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
