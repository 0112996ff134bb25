"""Scripts that no other test starts, as they train for long, still find what they import from the library."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest
from conftest import ROOT

OURS = ("ap_ranker", "haystack_integrations")
SCRIPTS = sorted(path for room in ("examples", "benchmarks", "docs") for path in (ROOT / room).rglob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_imported_names_are_there(script: Path) -> None:
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in OURS:
            module = importlib.import_module(node.module)
            for name in node.names:
                if not hasattr(module, name.name):
                    importlib.import_module(f"{node.module}.{name.name}")
