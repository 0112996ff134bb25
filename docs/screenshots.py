"""Takes the documentation's pictures: the search page on a computer and on a phone, the widget, the owner's page.

python docs/screenshots.py      # into docs/images/, with the checkpoint of `make demo`

It needs a browser (Debian: apt-get install chromium) and pip install ".[dev,serve]".
"""

from __future__ import annotations

import csv
import os
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Annotated

import httpx
import typer
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright
from sqlalchemy import func, select, update

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.errors import InputError
from ap_ranker.files import atomic_file
from ap_ranker.web.database import Database, judgements, open_database, questions
from ap_ranker.web.visitors import DAY

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "examples" / "serve_load"))

from search_server import served  # noqa: E402

COLOURS = 128
"""Of a picture: so its file has a third of the size, and nobody sees it."""

BROWSERS = ("chromium", "chromium-browser", "google-chrome")

FAQ = ROOT / "examples" / "faq"
GAPS = ROOT / "examples" / "gaps" / "planted_test.csv"

SHOP = """<!DOCTYPE html>
<html lang="en">
<title>Fjordline bikes</title>
<meta name="viewport" content="width=device-width">
<style>
  :root {{ color-scheme: light dark; font-family: system-ui, sans-serif; }}
  body {{ max-width: 44rem; margin: 2rem auto; padding: 0 1rem; line-height: 1.6; }}
  ap-ranker-search {{ --ap-ranker-accent: light-dark(#0f6b5c, #6fc3b3); }}
</style>
<h1>Fjordline bikes</h1>
<p>Bikes for every weather, built in Bergen. Free delivery from 50 euros, thirty days to return, two years of
warranty.</p>
<h2>Questions?</h2>
{script}
</html>"""
"""A page of another site."""

OWNER_KEY = secrets.token_hex(16)


def ask(page: Page) -> None:
    """A question, its answers, and the words that counted for the first."""
    page.get_by_label("Your question").fill("my bike got stolen last night, what now")
    page.keyboard.press("Enter")
    first = page.locator("#answers article").first
    first.get_by_role("button", name="Which words counted?").click()
    first.locator(".reasons mark").first.wait_for()


def say_no(page: Page) -> None:
    """An answer that did not help."""
    page.get_by_label("Your question").fill("when do I get my refund")
    page.keyboard.press("Enter")
    first = page.locator("#answers article").first
    first.get_by_role("button", name="It did not").click()
    first.locator(".comment").wait_for()


def open_it(page: Page) -> None:
    """What the page opens with."""
    page.locator("#opening .topics a").first.wait_for()


def embed(page: Page) -> None:
    """The widget in a page of a shop, which stands for another site: it has the server's address here."""
    script = f'<script src="{page.url}widget.js" data-question="What would you like to know?"></script>'
    page.route("**/shop", lambda route: route.fulfill(body=SHOP.format(script=script), content_type="text/html"))
    page.goto(f"{page.url}shop")
    page.get_by_role("textbox").fill("my bike got stolen last night, what now")
    page.keyboard.press("Enter")
    page.locator("details").first.wait_for()


def begin(page: Page) -> None:
    """The beginning of a question, with suggestions."""
    page.get_by_label("Your question").press_sequentially("how do i")
    page.get_by_role("option").first.wait_for()
    page.keyboard.press("ArrowDown")


def ask_in_vain(page: Page) -> None:
    """A question without an answer that can be asserted."""
    page.get_by_label("Your question").fill("do you rent out canoes")
    page.keyboard.press("Enter")
    page.locator("#status.heading").wait_for()


def fill_log(address: str, database: Database) -> None:
    """Two weeks of questions, some of which the FAQ does not answer, and what visitors said of answers.

    The last ones are asked more often, so that there is something to see.
    """
    asked = []
    for path in (GAPS, FAQ / "dev.csv"):
        with path.open(encoding="utf-8", newline="") as file:
            asked += [row["question"] for row in csv.DictReader(file)][:60]
    asked += [question for number, question in enumerate(asked) for _ in range(number % 9 // 3)]
    with httpx.Client(base_url=address, timeout=60) as client:
        for number, question in enumerate(asked):
            found = client.post("/api/search", json={"question": question}).json()
            if found["outcome"] == "answer":
                best = {name: found["answers"][0][name] for name in ("id", "receipt")}
                said = best | {"question": question, "helped": number % 5 > 0, "visit": str(number)}
                client.post("/api/feedback", json=said).raise_for_status()
    logged = 0
    while logged < len(asked):
        time.sleep(0.1)
        with database.reading() as connection:
            logged = connection.scalar(select(func.count()).select_from(questions)) or 0
    with database.writing("questions", "judgements") as connection:
        for table in (questions, judgements):
            connection.execute(update(table).values(time=table.c.time - table.c.id * 11 % 14 * DAY))


def own(page: Page) -> None:
    """What was asked, on the owner's page."""
    page.goto(f"{page.url}owner")
    page.get_by_label("The owner's key").fill(OWNER_KEY)
    page.keyboard.press("Enter")
    page.locator("#overview").wait_for()
    page.locator("#sections a[href='#usage']").click()
    page.locator("#top tbody tr").first.wait_for()


def lack(page: Page) -> None:
    """The part of the owner's page about what the FAQ lacks."""
    own(page)
    page.locator("#sections a[href='#gaps']").click()
    page.locator("#gaps .card").first.wait_for()


@dataclass(frozen=True)
class Picture:
    """A picture of the page.

    Attributes:
        name: of its file.
        show: brings the page into the state to show.
        width: of the window, in pixels of the page.
        height: likewise.
        dark: as for a reader who prefers dark colours.
    """

    name: str
    show: Callable[[Page], None]
    width: int
    height: int
    dark: bool = False


PICTURES = (
    Picture("search_page_opening", open_it, 860, 960),
    Picture("widget", embed, 860, 720),
    Picture("widget_phone_dark", embed, 390, 860, dark=True),
    Picture("search_page", ask, 860, 980),
    Picture("search_page_dark", ask, 860, 980, dark=True),
    Picture("search_page_phone", say_no, 390, 960),
    Picture("search_page_phone_dark", say_no, 390, 960, dark=True),
    Picture("search_page_suggestions", begin, 860, 560),
    Picture("search_page_nothing_found", ask_in_vain, 860, 640),
    Picture("owners_page", own, 960, 1080),
    Picture("owners_page_gaps", lack, 960, 860),
)


def find_browser() -> str:
    """The machine's own.

    Raises:
        InputError: there is none.
    """
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        raise InputError(f"Expected one of {', '.join(BROWSERS)}, found none (Debian: apt-get install chromium).")
    return path


def take(browser: Browser, address: str, picture: Picture, folder: Path) -> None:
    """Write what a window shows."""
    page = browser.new_page(
        viewport={"width": picture.width, "height": picture.height},
        color_scheme="dark" if picture.dark else "light",
        device_scale_factor=1.25,
        locale="en-GB",
    )
    page.set_default_timeout(120_000)  # questions are grouped meanwhile
    page.goto(address)
    picture.show(page)
    if picture.show not in (begin, lack):  # suggestions need the focus
        page.evaluate("document.activeElement.blur(); window.scrollTo(0, 0)")
    page.wait_for_timeout(300)  # for transitions
    with atomic_file(folder / f"{picture.name}.png") as draft:
        shot = Image.open(BytesIO(page.screenshot())).convert("RGB")
        shot.quantize(COLOURS).save(draft, format="png", optimize=True)
    page.close()


def command(
    model: Annotated[Path, typer.Option(help="A calibrated checkpoint.")] = ROOT / "checkpoints" / "faq",
    precision: Annotated[float, typer.Option(help="As of `ap-ranker serve`.")] = 0.9,
    output: Annotated[Path, typer.Option(help="A folder.")] = ROOT / "docs" / "images",
) -> None:
    """Serve the example FAQ, take all pictures, end the server."""
    with report_user_errors(), tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        output.mkdir(exist_ok=True)
        database = Path(folder) / "faq.db"
        options = {
            "--documents": FAQ / "answers.csv",
            "--page": FAQ / "page.yaml",
            "--model": model,
            "--precision": precision,
            "--database": database,
            "--rate": 0,
        }
        os.environ["AP_RANKER_OWNER_KEY"] = OWNER_KEY
        browser = playwright.chromium.launch(executable_path=find_browser(), args=["--no-sandbox"])
        with served("--log-questions", *(str(part) for option in options.items() for part in option)) as server:
            fill_log(server.address, open_database(database))
            for picture in PICTURES:
                take(browser, server.address, picture, output)
        browser.close()


if __name__ == "__main__":
    typer.run(command)
