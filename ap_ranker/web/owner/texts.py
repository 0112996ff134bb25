"""The words of the owner's page, of its form to log in and of the report: one file for each language, `page/texts`."""

from __future__ import annotations

import json
from importlib.resources import files
from operator import attrgetter
from typing import Any


def _read_texts() -> dict[str, dict[str, Any]]:
    """The files of all languages, in the order of their names."""
    folder = files("ap_ranker.web.owner") / "page" / "texts"
    texts = {}
    for file in sorted(folder.iterdir(), key=attrgetter("name")):
        language = file.name.removesuffix(".json")
        texts[language] = json.loads(file.read_text(encoding="utf-8"))
    return texts


TEXTS = _read_texts()
"""Language -> name of a text -> the text; a further language is one more file with the same names."""
