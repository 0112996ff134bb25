"""The owner's page in a browser: logging in, its sections, its cards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, Page, expect

from .browsing import opened

KEY = "7c1f6a02d94be853b7a1"


@contextmanager
def logged_in(browser: Browser, address: str, name: str = "", section: str = "new", **options: Any) -> Iterator[Page]:
    """The page after logging in; that the form to do so has status 401, the browser says in the console."""
    with opened(browser, f"{address}owner", options.pop("locale", "en-GB"), refused="/owner", **options) as page:
        page.locator("#key").fill(KEY)
        page.locator("#name").fill(name)
        page.keyboard.press("Enter")
        expect(page.locator("#overview")).to_be_visible()
        go(page, section)
        yield page


def go(page: Page, section: str) -> None:
    """Show a section, as its link does."""
    page.locator(f"#sections a[href='#{section}']").click()
    expect(page.locator(f"#{section}")).to_be_visible()


def card(page: Page, section: str, text: str) -> Any:
    """The card of a section that contains a text."""
    return page.locator(f"#{section} .list > li").filter(has_text=text)


def save_preview(page: Page) -> None:
    """Save what the preview shows once it has been tried."""
    expect(page.locator("#preview .tried li").first).to_be_visible()
    page.locator("#preview").get_by_role("button", name="Save").click()
    expect(page.locator("#preview")).to_be_hidden()
