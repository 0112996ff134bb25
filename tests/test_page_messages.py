"""Messages that a page quotes are those that the program prints."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from conftest import ROOT

PROGRAM = (ROOT / "ap_ranker", ROOT / "haystack_integrations")

HEADS = ("it says", "message", "what goes wrong")
"""First cells of tables whose rows begin with what the program says; in the last one, if it stands in quotes."""

COMPOSED = {"No pretrained encoder": "`models/pretrained.py` fills in what there is none of"}
"""Messages of which no text of the program has all words, and why."""

VALUES = re.compile(r"…|\.\.\.|'[^']*'|\b\d+\b|\bFAQ\.csv\b|\bcheckpoints/faq\b|\bGerman\b")
"""What stands in a quoted message in the place of the reader's own names and numbers."""


def program_texts() -> str:
    """All texts of the program's code and of its pages, in lower case, on one line, without backquotes."""
    texts: list[str] = []
    for folder in PROGRAM:
        for path in folder.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    texts.append(node.value)
        texts += [path.read_text(encoding="utf-8") for path in folder.rglob("*.json")]
        texts += [path.read_text(encoding="utf-8") for path in folder.rglob("*.js")]
    return " ".join(" ".join(texts).replace("`", "").split()).lower()


def quoted() -> Iterator[tuple[str, str]]:
    """The pages' names and what they quote in the first column of such tables."""
    for path in sorted((ROOT / "docs").glob("*.md")):
        head = ""
        for line in path.read_text(encoding="utf-8").splitlines():
            first = line.strip("| ").split(" | ")[0] if line.startswith("|") else ""
            if not head:
                head = first
            elif not first:
                head = ""
            elif head in HEADS and not first.startswith("--") and (head != HEADS[-1] or first.startswith('"')):
                yield path.name, re.sub(r"\([^)]*\)$", "", first).strip(' `"')


def test_quoted_messages_are_printed() -> None:
    texts = program_texts()
    messages = list(quoted())
    assert len(messages) > 20
    unknown: list[tuple[str, str]] = []
    for page, message in messages:
        parts = [part.strip(" .,:`").lower() for part in VALUES.split(message)]
        if message not in COMPOSED and any(part not in texts for part in parts if " " in part):
            unknown.append((page, message))
    assert unknown == []
