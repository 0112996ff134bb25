"""Writes the table of docs/reference.md with the options of all models.

python docs/option_tables.py
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from ap_ranker.models.registry import MODELS
from ap_ranker.models.spec import Option

PAGE = Path(__file__).resolve().parent / "reference.md"


def values_of(option: Option) -> str:
    """What an option can be."""
    if option.choices:
        return ", ".join(f"`{choice}`" for choice in option.choices)
    kind = type(option.default)
    if kind in (int, float):
        return f"{option.least:,} to {option.most:,}"
    return {str: "text", bool: "`true`, `false`"}[kind]


def rows() -> list[str]:
    """A row for each option, with the models that have it."""
    models: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, spec in MODELS.items():
        for key, option in spec.options.items():
            default = str(option.default).lower() if isinstance(option.default, bool) else str(option.default)
            cells = (f"`{key}`", f"`{default}`" if default else "empty", values_of(option), option.meaning)
            models[cells].append(f"`{name}`")
    table = ["| option | default | values | meaning | models |", "|---|---|---|---|---|"]
    for cells, names in sorted(models.items()):
        table.append(f"| {' | '.join([*cells, ', '.join(names)])} |")
    return table


def replaced(page: str) -> str:
    """The page with the table of now."""
    table = "\n".join(rows())
    marked = re.compile(r"(<!-- options -->\n).*?(<!-- /options -->)", re.DOTALL)
    return marked.sub(lambda match: f"{match[1]}{table}\n{match[2]}", page)


if __name__ == "__main__":
    PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
