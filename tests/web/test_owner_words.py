"""What visitors were looking for, on the owner's page: beside the question whose answer did not help."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("hypercorn", reason="the extra serve is not installed")
pytest.importorskip("playwright", reason="playwright is not installed")

from conftest import TEXTS, write_faq
from forked import served
from playwright.sync_api import Browser, expect
from searches import write_pipeline
from waiting import wait_until

from .browsing import ask, opened, wait_for_the_model
from .bytes_on_disk import bytes_of

KEY = "7c1f6a02d94be853b7a1"
WORDS = "<img src=x onerror=alert(1)> the parcel of Erika Mustermann"
OPTIONS = ("--documents", "faq.csv", "--pipeline", "search.yaml", "--score-threshold", "-1")


def test_words_stand_beside_the_question(
    browser: Browser, tmp_path: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a visitor to the owner, as text; one click deletes them with the question."""
    monkeypatch.setenv("AP_RANKER_OWNER_KEY", KEY)
    write_faq(tmp_path / "faq.csv")
    write_pipeline(tmp_path, checkpoint)
    with served(*OPTIONS, folder=tmp_path) as server:
        wait_for_the_model(server.address, TEXTS[0])
        with opened(browser, server.address, "en") as visitor:
            ask(visitor, "my parcel is late")
            first = visitor.locator("#answers article").first
            first.get_by_role("button", name="It did not").click()
            first.get_by_label("What were you looking for?").fill(WORDS)
            visitor.keyboard.press("Enter")
            expect(first.get_by_text("Thank you for telling us.")).to_be_visible()
        assert b"Mustermann" in bytes_of(str(tmp_path / "faq.db"))
        with opened(browser, f"{server.address}owner#unhelpful", "en", refused="/owner") as owner:
            owner.get_by_label("The owner's key").fill(KEY)
            owner.keyboard.press("Enter")
            expect(owner.get_by_role("button", name="Log out")).to_be_visible()
            owner.goto(f"{server.address}owner#unhelpful")
            row = owner.locator("#unhelpful .list > li").filter(has_text="my parcel is late")
            expect(row.locator(".words li")).to_have_text(WORDS)
            assert owner.locator("#unhelpful img").count() == 0
            row.get_by_role("button", name="Delete").click()
            expect(owner.locator("#unhelpful .list > li").filter(has_text="my parcel is late")).to_have_count(0)
            wait_until(lambda: b"Mustermann" not in bytes_of(str(tmp_path / "faq.db")))  # it can be undone for seconds
