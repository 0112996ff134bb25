"""Pages of a space that Confluence has exported as HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bs4 import BeautifulSoup

SPACE_AND_HOME = 2
"""Number of pages above every other one, whose names say nothing."""


def keep_page(soup: BeautifulSoup) -> str:
    """Keep only the title and the text of an exported page; returns the names of the pages above it, as a title path.

    Who made it, attachments and comments go, and all of the export's table of contents. Other HTML stays as it is.
    """
    title, body = soup.find(id="title-text"), soup.body
    if title is None or body is None or soup.find(class_="pagetitle") is None:
        return ""
    above = [" ".join(link.get_text().split()) for link in soup.select("#breadcrumbs a")]
    text = " ".join(title.get_text().split())
    heading, content = soup.new_tag("h1"), soup.find(id="main-content", class_="wiki-content")
    heading.string = text.removeprefix(f"{above[0]} : ") if above else text
    body.clear()
    if content is not None:
        body.extend([heading, content])
        for contents in content.select(".toc-macro"):
            contents.decompose()
    return " > ".join(above[SPACE_AND_HOME:])
