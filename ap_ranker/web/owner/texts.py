"""The words of the owner's page, of its form to log in and of the report: one file for each language, `page/texts`."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

TEXTS: dict[str, dict[str, Any]] = {
    entry.name.removesuffix(".json"): json.loads(entry.read_text(encoding="utf-8"))
    for entry in sorted((files("ap_ranker.web.owner") / "page" / "texts").iterdir(), key=lambda entry: entry.name)
}
"""Language -> name of a text -> the text; a further language is one more file with the same names."""
