"""Takes the README's picture of the search page: a question, its answers, and the words that counted for the first.

python docs/screenshot.py      # into docs/search_page.png, with the checkpoint of pipelines/faq_search.yaml

It needs a browser (Debian: apt-get install chromium) and pip install ".[dev,plot,serve]". `--dark` and `--width
390` show the page as others see it.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Annotated

import typer
from PIL import Image
from playwright.sync_api import sync_playwright

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.errors import InputError
from ap_ranker.files import atomic_file

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "examples" / "serve_load"))

from search_server import served  # noqa: E402

COLOURS = 128
"""Of the picture: so its file has a third of the size, and nobody sees it."""

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def find_browser() -> str:
    """The machine's own.

    Raises:
        InputError: there is none.
    """
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        raise InputError(f"Expected one of {', '.join(BROWSERS)}, found none (Debian: apt-get install chromium).")
    return path


def take(address: str, question: str, output: Path, *, width: int, height: int, dark: bool) -> None:
    """Ask, open the first answer's heat map, and write what a window of this size (pixels) shows."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=["--no-sandbox"])
        page = browser.new_page(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            device_scale_factor=1.25,
        )
        page.goto(address)
        page.get_by_label("Your question").fill(question)
        page.keyboard.press("Enter")
        first = page.locator("#answers article").first
        first.get_by_role("button", name="Which words counted?").click()
        first.locator(".heat b").first.wait_for()
        page.evaluate("document.activeElement.blur(); window.scrollTo(0, 0)")
        with atomic_file(output) as draft:
            shot = Image.open(BytesIO(page.screenshot())).convert("RGB")
            shot.quantize(COLOURS).save(draft, format="png", optimize=True)
        browser.close()


def command(
    question: Annotated[str, typer.Option(help="What is asked.")] = "my bike got stolen last night, what now",
    documents: Annotated[Path, typer.Option(help="The FAQ.")] = ROOT / "examples" / "faq" / "answers.csv",
    pipeline: Annotated[Path, typer.Option(help="A YAML file with a Haystack pipeline.")] = Path(
        "pipelines/faq_search.yaml"
    ),
    output: Annotated[Path, typer.Option(help="A .png file.")] = ROOT / "docs" / "search_page.png",
    width: Annotated[int, typer.Option(help="Of the window.")] = 800,
    height: Annotated[int, typer.Option(help="Of the window.")] = 920,
    dark: Annotated[bool, typer.Option("--dark", help="As for a user who prefers dark colours.")] = False,
) -> None:
    """Serve the FAQ, ask, take the picture, end the server."""
    with report_user_errors(), tempfile.TemporaryDirectory() as folder:
        options = {"--documents": documents, "--pipeline": pipeline, "--feedback": Path(folder) / "feedback.jsonl"}
        with served(*(str(part) for option in options.items() for part in option)) as server:
            take(server.address, question, output, width=width, height=height, dark=dark)


if __name__ == "__main__":
    typer.run(command)
