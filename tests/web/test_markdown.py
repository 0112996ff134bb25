"""Markdown becomes HTML that does nothing but show a text, whatever the text is."""

from __future__ import annotations

import re
import time
from html.parser import HTMLParser

import pytest

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from ap_ranker.web.page.markdown import MAX_CHARACTERS, to_html

LINK = 'rel="noopener noreferrer" target="_blank"'


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("", ""),
        ("a\nb\n\nc", "<p>a\nb</p><p>c</p>"),
        ("# A\n- b\n- c\n  d", '<p class="heading">A</p><ul><li>b</li><li>c\nd</li></ul>'),
        ("• a\n  • b\n\nc", "<ul><li>a\n<ul><li>b</li></ul></li></ul><p>c</p>"),
        ("3. a\n4. b", '<ol start="3"><li>a</li><li>b</li></ol>'),
        ("```\n**a** <b>\n```", "<pre><code>**a** &lt;b&gt;\n</code></pre>"),
        (
            "| b | **c** |\n|---|:-:|\n| d \\| e | <f> |",
            '<div class="table" tabindex="0"><table><thead><tr><th>b</th><th><strong>c</strong></th></tr></thead>'
            "<tbody><tr><td>d | e</td><td>&lt;f&gt;</td></tr></tbody></table></div>",
        ),
        ("| a | b |", "<p>| a | b |</p>"),
        (r"\*a\* **b *c* d**", "<p>*a* <strong>b <em>c</em> d</strong></p>"),
        ("a_b_c ** x ** 2 * 3 * 4", "<p>a_b_c ** x ** 2 * 3 * 4</p>"),
        ("[a](data:text/html,b) [c](/d)", "<p>[a](data:text/html,b) <span>c</span></p>"),
        ("[a](JaVaScRiPt:alert(1)) [b](vbscript:c)", "<p>[a](JaVaScRiPt:alert(1)) [b](vbscript:c)</p>"),
        ("[a](ftp://b.example)", "<p><span>a</span></p>"),
        ("[https://a.example](https://b.example)", f'<p><a href="https://b.example" {LINK}>https://a.example</a></p>'),
        (
            "(https://a.example/b_(c)).",
            f'<p>(<a href="https://a.example/b_(c)" {LINK}>https://a.example/b_(c)</a>).</p>',
        ),
        ("a.b@c.example!", '<p><a href="mailto:a.b@c.example" rel="noopener noreferrer">a.b@c.example</a>!</p>'),
        ("> a\n\n---\n\n    b &amp;", "<p>&gt; a</p><p>---</p><p>b &amp;amp;</p>"),
        ('<img src=x onerror="alert(1)">', "<p>&lt;img src=x onerror=&quot;alert(1)&quot;&gt;</p>"),
        ("![a](https://b.example/c.png)", f'<p><a href="https://b.example/c.png" {LINK}>a</a></p>'),
        (
            "![](https://b.example/c.png)",
            f'<p><a href="https://b.example/c.png" {LINK}>https://b.example/c.png</a></p>',
        ),
        ("[![a](https://b.example/c.png)](https://b.example)", f'<p><a href="https://b.example" {LINK}>a</a></p>'),
        ("![a <b>](c.png)", "<p><span>a &lt;b&gt;</span></p>"),
    ],
)
def test_what_a_text_becomes(text: str, html: str) -> None:
    assert re.sub(r"(?<=>)\n(?=<|$)", "", to_html(text)) == html


class Seen(HTMLParser):
    """Elements with their attributes, and addresses of links."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[tuple[str, str]] = set()
        self.addresses: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found |= {(tag, name) for name, _ in attrs} | {(tag, "")}
        self.addresses |= {value or "" for name, value in attrs if name == "href"}


TAGS = {"p", "ul", "ol", "li", "pre", "code", "div", "table", "thead", "tbody", "tr", "th", "td", "strong", "em", "br"}
ATTRIBUTES = {("p", "class"), ("ol", "start"), ("code", "class"), ("div", "class"), ("div", "tabindex")}
ATTRIBUTES |= {("a", "href"), ("a", "rel"), ("a", "target")}

HOSTILE = [
    "<script>alert(1)</script>",
    "<svg onload=alert(1)>",
    '[a](https://b.example "onclick=alert(1)")',
    '[a](https://b.example/"onclick="alert(1))',
    "[a](java\nscript:alert(1))",
    "[a](&#106;avascript:alert(1))",
    "[a](\x01javascript:alert(1))",
    "<javascript:alert(1)>",
    "https://a.example/<script>",
    'https://a.example/"onclick="alert(1)',
    "`<script>`",
    "```<script>\n</code><script>",
    "|a|\n|:-:|\n|<script>|",
    "[a]: javascript:alert(1)\n[a]",
    "![a](javascript:alert(1))",
    "<!-- --><![CDATA[<script>]]>",
    "**[a](javascript:alert(1))**",
]


def test_nothing_but_text_comes_out() -> None:
    seen = Seen()
    for one in HOSTILE:
        for other in HOSTILE:
            seen.feed(to_html(f"{one}\n{other}\n\n- {other} {one}"))
    seen.close()
    assert seen.found <= {(tag, "") for tag in [*TAGS, "a", "span"]} | ATTRIBUTES
    assert all(address.startswith(("https://", "mailto:")) for address in seen.addresses)


ENDLESS = ["*", "**a", "_a ", "*a _b ", "[", "[a](", "[a](<", "![", "`", "```\n", "\\", "<", "&", "#", "~", "|"]
ENDLESS += ["- ", "  - a\n", "• ", "1. ", "> ", "| a | b |\n|---|---|\n"]
ENDLESS += ["https://(", "https://", "https://a.b ", "a@", "a.b@c."]


@pytest.mark.parametrize("unit", ENDLESS)
@pytest.mark.parametrize("size", [MAX_CHARACTERS, 50_000])
def test_no_text_takes_long(unit: str, size: int) -> None:
    started = time.process_time()
    to_html((unit * size)[:size])
    assert time.process_time() - started < 3


@pytest.mark.parametrize(
    "text",
    [
        "- " * 4000 + "a",
        "\n".join("  " * level + "- a" for level in range(140)),
        "[" * 4000 + "a" + "](b)" * 4000,
        "**a " * 4000 + " b**" * 4000,
        "| a " * 5000 + "|\n" + "|-" * 5000 + "|\n" + "| b " * 5000 + "|",
        "| a | b |\n|---|---|\n" + "| cc | dd |\n" * 4000,
    ],
)
def test_no_nesting_takes_long(text: str) -> None:
    started = time.process_time()
    to_html(text)
    assert time.process_time() - started < 3


def test_a_long_text_stays_whole() -> None:
    text = "All of it. " * 10_000
    assert to_html(text) == f"<p>{text}</p>"


def test_a_text_is_read_once() -> None:
    text = "**All** of it is read. " * 400
    to_html(text)
    started = time.perf_counter()
    for _ in range(1000):
        to_html(text)
    assert time.perf_counter() - started < 0.5
