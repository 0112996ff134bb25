"""The shape of the house: rooms import one way, and the packaging says what the code needs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

ROOMS = [
    "errors",
    "locks",
    "files",
    "processes",
    "reading",
    "text",
    "models",
    "data",
    "ranking",
    "evaluation",
    "training",
    "explain",
    "serving",
    "benchmark",
    "cli",
]
"""Lowest floor first; a room imports from itself and from those before it."""

FILES = sorted((ROOT / "ap_ranker").rglob("*.py"))


def imported_rooms(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    modules = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    return {module.split(".")[1] for module in modules if module.startswith("ap_ranker.")}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_run_one_way(path: Path) -> None:
    place = path.relative_to(ROOT / "ap_ranker")
    if place.name == "__init__.py" and len(place.parts) == 1:
        return  # the front door re-exports lazily
    room = place.parts[0].removesuffix(".py")
    assert imported_rooms(path) <= set(ROOMS[: ROOMS.index(room) + 1])


SHARED = {
    "alignment",
    "attentive",
    "base",
    "classifier",
    "encoders",
    "pooling",
    "siamese",
    "similarity",
    "spec",
    "statistics",
    "weights",
}
"""What several families of models share; every other file of the room is one family."""


@pytest.mark.parametrize("path", [p for p in FILES if p.parent.name == "models"], ids=lambda path: path.stem)
def test_no_model_imports_another_family(path: Path) -> None:
    if path.stem == "registry":
        return
    modules = [n.module or "" for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.ImportFrom)]
    inside = {module.removeprefix("ap_ranker.models.") for module in modules if module.startswith("ap_ranker.models.")}
    assert inside <= SHARED


def test_nothing_pickled_is_loaded() -> None:
    for path in [*FILES, *(ROOT / "haystack_integrations").rglob("*.py")]:
        text = path.read_text(encoding="utf-8")
        assert "torch.load" not in text, path
        assert "import pickle" not in text, path
        assert "allow_pickle=True" not in text, path


def test_components_live_in_a_namespace_package() -> None:
    for folder in (
        "haystack_integrations",
        "haystack_integrations/components",
        "haystack_integrations/components/rankers",
        "haystack_integrations/components/retrievers",
        "haystack_integrations/document_stores",
    ):
        assert not (ROOT / folder / "__init__.py").exists()


def test_the_front_door_opens_without_torch() -> None:
    """And no module of the same name takes a function's place."""
    code = """
import sys
import ap_ranker
assert set(ap_ranker.__all__) == set(ap_ranker._HOMES) <= set(dir(ap_ranker))
assert not {"torch", "haystack", "transformers"} & set(sys.modules)
from ap_ranker import *
import ap_ranker.cli.main
for name, home in ap_ranker._HOMES.items():
    found = getattr(ap_ranker, name)
    assert (found.__module__, found.__name__) == (home, name), name
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_the_packages_are_typed() -> None:
    leaves = ("components/rankers", "components/retrievers", "document_stores")
    for package in (ROOT / "ap_ranker", *(ROOT / "haystack_integrations" / leaf / "ap_ranker" for leaf in leaves)):
        assert (package / "py.typed").is_file()
