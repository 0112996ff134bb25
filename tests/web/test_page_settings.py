"""The settings of the page: what a company may say, what is refused, and what the browser gets of it."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path

import pytest
from conftest import ROOT

pytest.importorskip("hayhooks", reason="the extra serve is not installed")

from starlette.testclient import TestClient
from typer.testing import CliRunner

from ap_ranker.cli.main import app
from ap_ranker.errors import InputError
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.web.app import build_app
from ap_ranker.web.clicks import FeedbackFile
from ap_ranker.web.page.colours import DARK, LIGHT, contrast, readable
from ap_ranker.web.page.files import page_files
from ap_ranker.web.page.settings import ACCENT, PageSettings, read_page_settings

SVG = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"><path style="fill: red" d="M0 0h1v1z"/></svg>'
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


def read(folder: Path, text: str) -> PageSettings:
    (folder / "page.yaml").write_text(text)
    return read_page_settings(folder / "page.yaml")


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [("#000", "#ffffff", 21.0), ("#ffffff", "#ffffff", 1.0), ("#767676", "#ffffff", 4.54), ("#0000ff", "#fff", 8.59)],
)
def test_contrast(one: str, other: str, expected: float) -> None:
    """The numbers that the guidelines' own examples and checkers give."""
    assert contrast(one, other) == pytest.approx(expected, abs=0.005)
    assert contrast(other, one) == contrast(one, other)


@pytest.mark.parametrize("colour", ["#ffd500", "#ff0000", "#00ff00", "#777777", "#0b57d0", "#ffffff"])
def test_the_nearest_readable_colour(colour: str) -> None:
    for backgrounds, towards in ((LIGHT, "#000000"), (DARK, "#ffffff")):
        found = readable(colour, backgrounds, towards)
        assert min(contrast(found, background) for background in backgrounds) >= 4.5
        if min(contrast(colour, background) for background in backgrounds) >= 4.5:
            assert found == colour


def test_the_style_sheet_has_the_colours_that_are_checked() -> None:
    sheet = (files("ap_ranker.web.page") / "static" / "colours.css").read_text()
    light, dark = sheet.split("@media")
    for part, (paper, card) in ((light, LIGHT), (dark, DARK)):
        colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", part))
        assert (colours["paper"], colours["card"]) == (paper, card)
        for text in ("ink", "quiet", "good", "accent"):
            assert min(contrast(colours[text], background) for background in (paper, card)) >= 4.5, text
        assert contrast(colours["accent"], colours["on-accent"]) >= 4.5
        assert contrast(colours["edge"], colours["card"]) >= 3  # of a field's border
    assert f"--accent: {ACCENT}" in light


def test_all_settings(tmp_path: Path) -> None:
    (tmp_path / "logo.svg").write_text(SVG)
    settings = read(
        tmp_path,
        "name: Fjord <b>\nlink: https://fjord.example\nlogo: logo.svg\naccent: '#074'\naccent_dark: '#0fA'\n"
        "introduction: Ask **us**.\nnothing_found: |\n  Call us.\n\n  - or write\ncategories: topic\n",
    )
    assert (settings.accent, settings.accent_dark) == ("#007744", "#00ffaa")
    assert settings.nothing_found == "Call us.\n\n- or write"
    served = page_files(settings)
    assert "<title>Fjord &lt;b&gt;</title>" in served["/"].content.decode()
    said = json.loads(served["/page/settings.js"].content.decode().partition("settings = ")[2].rstrip(";\n"))
    assert said == {
        "name": "Fjord <b>",
        "link": "https://fjord.example",
        "logo": True,
        "introduction": "Ask **us**.",
        "nothingFound": "Call us.\n\n- or write",
    }
    sheet = served["/page/colours.css"].content.decode()
    assert sheet.rindex("--accent: #007744") < sheet.rindex("prefers-color-scheme") < sheet.rindex("--accent: #00ffaa")
    logo = served["/page/logo"]
    assert (logo.content.decode(), logo.media_type) == (SVG, "image/svg+xml")
    assert "default-src 'none'" in logo.headers["Content-Security-Policy"]


def test_nothing_needs_to_be_set(tmp_path: Path) -> None:
    assert read(tmp_path, "") == PageSettings()
    assert "/page/logo" not in page_files(PageSettings())
    assert "<title>Questions and answers</title>" in page_files(PageSettings())["/"].content.decode()


def test_the_example(tmp_path: Path) -> None:
    settings = read_page_settings(ROOT / "examples" / "faq" / "page.yaml")
    assert settings.name == "Fjordline Help"
    assert settings.logo is not None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a", "expected 'name: value' lines, found list"),
        ("nmae: x", "found 'nmae'. Did you mean 'name'?"),
        ("name: 3", "name: expected a text, found 3"),
        ("name: ' '", "name: expected a text"),
        ("name: 'a\0b'", "page.yaml"),
        (f"name: {'x' * 121}", "name: expected at most 120 characters, found 121"),
        (f"introduction: {'x' * 2001}", "introduction: expected at most 2,000 characters, found 2,001"),
        ("link: fjord.example", "link: expected an address that begins with https://"),
        ("link: 'javascript:alert(1)'", "link: expected an address that begins with https://"),
        ("link: 'http://['", "link: expected an address that begins with https://"),
        ("accent: #0b57d0", "put the colour in quotation marks"),
        ("accent: blue", "accent: expected a colour such as '#0b57d0', found 'blue'"),
        ("accent: '#ffd500'", "found #ffd500 with 1.3 to 1. The nearest that is readable: '#"),
        ("accent_dark: '#00336f'", "accent_dark: expected a colour with a contrast of at least 4.5 to 1"),
        ("logo: none.png", "none.png"),
        ("logo: .", "expected a file, found a folder"),
        ("logo: text.png", "expected a picture of the format PNG, JPEG, WebP or SVG, found another"),
        ("logo: large.png", "expected a logo of at most 100,000 bytes"),
        ("logo: script.svg", "expected an SVG file without programs and links, found 'script'"),
        ("logo: click.svg", "expected an SVG file without programs and links, found 'onclick'"),
        ("logo: link.svg", "without programs and links, found 'https://else.example'"),
        ("logo: bomb.svg", "without a DOCTYPE"),
        ("logo: html.svg", "found XML of another kind (html)"),
        ("logo: broken.svg", "found invalid XML"),
    ],
)
def test_wrong_settings_are_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "text.png").write_text("a text")
    (tmp_path / "large.png").write_bytes(PNG + b"\0" * 100_000)
    for name, inside in (
        ("script", "<script>alert(1)</script>"),
        ("click", '<a onclick="alert(1)"/>'),
        ("link", '<a xmlns:x="http://www.w3.org/1999/xlink" x:href="https://else.example"/>'),
        ("broken", "<g>"),
    ):
        (tmp_path / f"{name}.svg").write_text(SVG.replace("</svg>", f"{inside}</svg>"))
    (tmp_path / "bomb.svg").write_text(f'<!DOCTYPE svg [<!ENTITY a "b">]>{SVG}')
    (tmp_path / "html.svg").write_text("<html/>")
    with pytest.raises(InputError, match=re.escape(message)) as error:
        read(tmp_path, text)
    assert "\n" not in str(error.value)
    assert "page.yaml" in str(error.value)


def test_the_command_refuses_a_wrong_file(tmp_path: Path, faq: Path) -> None:
    (tmp_path / "page.yaml").write_text("accent: '#fff'\n")
    result = CliRunner().invoke(app, ["serve", str(faq), "--page", str(tmp_path / "page.yaml")])
    assert isinstance(result.exception, InputError)
    assert "accent: expected a colour with a contrast" in str(result.exception)


def test_served_with_the_servers_headers(search: DeclaredPipeline, tmp_path: Path) -> None:
    (tmp_path / "logo.png").write_bytes(PNG)
    settings = read(tmp_path, "name: Fjord\nlogo: logo.png\n")
    client = TestClient(
        build_app(search, FeedbackFile(tmp_path / "feedback.jsonl"), page=settings, api_key="k" * 16),
        "http://localhost",
    )
    logo = client.get("/page/logo")
    assert (logo.content, logo.headers["content-type"]) == (PNG, "image/png")
    assert logo.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in logo.headers["content-security-policy"]
    assert '"Fjord"' in client.get("/page/settings.js").text
    assert client.get("/page/__init__.py").status_code == 401  # nothing but the files of the page
