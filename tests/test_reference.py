"""The reference is generated from the code: no component is missing."""

from __future__ import annotations

import importlib

from conftest import ROOT

PAGE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
COMPONENTS = "haystack_integrations.components"
PACKAGES = (
    *(f"{COMPONENTS}.{kind}.ap_ranker" for kind in ("embedders", "rankers", "retrievers", "routers")),
    "haystack_integrations.document_stores.ap_ranker",
    "haystack_integrations.tools.ap_ranker",
)


def test_all_components_are_described_once() -> None:
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in module.__all__:
            described = f"::: {getattr(module, name).__module__}.{name}\n"
            assert PAGE.count(described) == 1, described


def test_all_names_are_there() -> None:
    for line in PAGE.splitlines():
        if line.startswith("::: "):
            module, _, name = line.removeprefix("::: ").rpartition(".")
            assert hasattr(importlib.import_module(module), name), line
