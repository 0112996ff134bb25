"""The settings of the page: what a company may say, what is refused, and what the browser gets of it."""

from __future__ import annotations

import re
from html import unescape
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from starlette.testclient import TestClient
from typer.testing import CliRunner

from ap_ranker.cli.main import app
from ap_ranker.errors import InputError
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.web.app import build_app
from ap_ranker.web.page.files import page_files
from ap_ranker.web.page.settings import PageSettings, read_page_settings

from .visiting import judgements_of

SVG = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"><path style="fill: red" d="M0 0h1v1z"/></svg>'
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


def read(folder: Path, text: str) -> PageSettings:
    (folder / "page.yaml").write_text(text)
    return read_page_settings(folder / "page.yaml")


def contrast(one: str, other: str) -> float:
    """Of two colours such as `#0b57d0`, from 1 to 21, as the accessibility guidelines define it."""
    parts = [[int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)] for colour in (one, other)]
    linear = [[p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in colour] for colour in parts]
    low, high = sorted(0.2126 * red + 0.7152 * green + 0.0722 * blue for red, green, blue in linear)
    return (high + 0.05) / (low + 0.05)


def test_the_contrast_of_this_test() -> None:
    """The numbers that the guidelines' own examples and checkers give."""
    found = [contrast("#000000", "#ffffff"), contrast("#767676", "#ffffff"), contrast("#0000ff", "#ffffff")]
    assert found == pytest.approx([21, 4.54, 8.59], abs=0.005)


def test_the_style_sheet_is_readable() -> None:
    sheet = (files("ap_ranker.web.page") / "static" / "colours.css").read_text().partition("@supports")[0]
    for part in sheet.split("@media"):
        colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", part))
        for text in ("ink", "quiet", "good", "accent"):
            assert min(contrast(colours[text], colours[background]) for background in ("paper", "card")) >= 4.5, text
        assert contrast(colours["accent"], colours["on-accent"]) >= 4.5
        assert contrast(colours["edge"], colours["card"]) >= 3  # of a field's border


PAINTED = """() => {
    const context = new OffscreenCanvas(1, 1).getContext("2d");
    const colour = (name) => {
        const probe = document.body.appendChild(document.createElement("i"));
        probe.style.color = `var(--${name})`;
        context.fillStyle = getComputedStyle(probe).color;
        context.fillRect(0, 0, 1, 1);
        probe.remove();
        return "#" + [...context.getImageData(0, 0, 1, 1).data.slice(0, 3)]
            .map((part) => part.toString(16).padStart(2, "0")).join("");
    };
    return ["accent", "paper", "card", "on-accent"].map(colour);
}"""


def test_any_accent_is_readable(browser: Any) -> None:
    """And stays as it is if it was."""
    sheet = (files("ap_ranker.web.page") / "static" / "colours.css").read_text()
    page = browser.new_page()
    page.set_content(f"<style>{sheet}</style>")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for colour in ("#ffd500", "#ff0000", "#00ff00", "#777777", "#0b57d0", "#8ab4f8", "#ffffff", "#000000"):
            page.evaluate("c => document.documentElement.style.setProperty('--brand', c)", colour)
            page.evaluate("c => document.documentElement.style.setProperty('--brand-dark', c)", colour)
            accent, *backgrounds = page.evaluate(PAINTED)
            assert min(contrast(accent, background) for background in backgrounds) >= 4.5, (colour, accent)
            if min(contrast(colour, background) for background in backgrounds[:2]) >= 4.6:
                assert contrast(accent, colour) < 1.02


def test_all_settings(tmp_path: Path) -> None:
    (tmp_path / "logo.svg").write_text(SVG)
    settings = read(
        tmp_path,
        "name: Fjord <b>\nlink: https://fjord.example\nlogo: logo.svg\naccent: '#074'\naccent_dark: '#0fA'\n"
        "introduction: Ask **us**.\nnothing_found: |\n  Call us.\n\n  - or write\ncategories: topic\n"
        'contact: https://fjord.example/?to="us"&ask={question}\n',
    )
    assert settings.nothing_found == "Call us.\n\n- or write"
    served = page_files(settings)
    assert "<title>Fjord &lt;b&gt;</title>" in served["/"].content.decode()
    page = served["/"].content.decode()
    heading = re.search(r"<h1[^>]*>(.*)</h1>", page)
    assert heading is not None
    home = '<a href="https://fjord.example" rel="noopener noreferrer">'
    assert heading[1] == f'{home}<img src="page/logo" alt="">Fjord &lt;b&gt;</a>'
    assert "<p>Ask <strong>us</strong>.</p>" in page
    assert "<p>Call us.</p>\n<ul>\n<li>or write</li>\n</ul>" in page
    assert served["/page/colours.css"].content.decode().endswith(":root { --brand: #074; --brand-dark: #0fa; }\n")
    addresses = [unescape(address) for address in re.findall(r'data-address="([^"]*)"', page)]
    assert addresses == ['https://fjord.example/?to="us"&ask={question}']
    logo = served["/page/logo"]
    assert (logo.content.decode(), logo.media_type) == (SVG, "image/svg+xml")
    assert "default-src 'none'" in logo.headers["Content-Security-Policy"]


def test_nothing_needs_to_be_set(tmp_path: Path) -> None:
    assert read(tmp_path, "") == PageSettings()
    assert "/page/logo" not in page_files(PageSettings())
    assert 'data-text="title"' in page_files(PageSettings())["/"].content.decode()  # in the reader's language
    assert "<title>Questions and answers</title>" in page_files(PageSettings())["/"].content.decode()


def test_the_example(tmp_path: Path) -> None:
    settings = read_page_settings(ROOT / "examples" / "faq" / "page.yaml")
    assert settings.name == "Fjordline Help"
    assert settings.logo is not None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a", "found ['a']"),
        ("nmae: x", "Did you mean 'name'?"),
        ("name: 3", "name to be a valid string, found 3"),
        ("name: ' '", "Expected name"),
        ("name: 'a\0b'", "page.yaml"),
        ("name: 'two\n\n  lines'", "Expected name"),
        (f"name: {'x' * 121}", "name to have at most 120 characters"),
        (f"introduction: {'x' * 2001}", "introduction to have at most 2000 characters"),
        ("link: fjord.example", "link: expected an address that begins with https://"),
        ("link: 'javascript:alert(1)'", "link: expected an address that begins with https://"),
        ("link: 'http://['", "link: expected an address that begins with https://"),
        ("contact: 'javascript:alert(1)//a@b.example'", "contact: expected an e-mail address, or one with https://"),
        ("contact: a@b.example?bcc=c@d.example", "contact: expected an e-mail address"),
        ("accent: #0b57d0", "accent: expected a colour in quotation marks"),
        ("accent: blue", "such as '#0b57d0', found 'blue'"),
        ("accent_dark: '#00'", "accent_dark: expected a colour"),
        ("logo: none.png", "none.png"),
        ("logo: .", "found a folder"),
        ("logo: text.png", "text.png: expected a picture of at most 100,000 bytes, as PNG, JPEG, WebP or SVG, found"),
        ("logo: large.png", "large.png: expected a picture of at most 100,000 bytes"),
        ("logo: page.html", "page.html: expected a picture"),
    ],
)
def test_wrong_settings_are_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "text.png").write_text("a text")
    (tmp_path / "page.html").write_text("<html/>")
    (tmp_path / "large.png").write_bytes(PNG + b"\0" * 100_000)
    with pytest.raises(InputError, match=re.escape(message)) as error:
        read(tmp_path, text)
    assert "\n" not in str(error.value)
    assert "page.yaml" in str(error.value)


def test_the_command_refuses_a_wrong_file(tmp_path: Path, faq: Path) -> None:
    (tmp_path / "page.yaml").write_text("accent: fff\n")
    result = CliRunner().invoke(app, ["serve", str(faq), "--page", str(tmp_path / "page.yaml")])
    assert isinstance(result.exception, InputError)
    assert "accent: expected a colour" in str(result.exception)


def test_served_with_the_servers_headers(search: DeclaredPipeline, tmp_path: Path) -> None:
    (tmp_path / "logo.svg").write_text(SVG)
    settings = read(tmp_path, "name: Fjord\nlogo: logo.svg\n")
    client = TestClient(
        build_app(search, judgements_of(search), page=settings, api_key="k" * 16),
        "http://localhost",
    )
    logo = client.get("/page/logo")
    assert (logo.text, logo.headers["content-type"]) == (SVG, "image/svg+xml")
    assert logo.headers["x-content-type-options"] == "nosniff"
    policy = logo.headers["content-security-policy"].split("; ")
    assert {"default-src 'none'", "sandbox"} <= {*policy}  # no program in it runs, whoever opens it alone
    assert 'alt="">Fjord</h1>' in client.get("/").text
    assert client.get("/page/__init__.py").status_code == 401  # nothing but the files of the page
