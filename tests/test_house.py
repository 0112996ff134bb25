"""The shape of the house: rooms import one way, and the packaging says what the code needs."""

from __future__ import annotations

import ast
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
    "benchmark",
    "serving",
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
    "coordinate_ascent",
    "encoders",
    "pooling",
    "pretrained",
    "siamese",
    "similarity",
    "spec",
    "statistics",
    "transformer_encoder",
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


def test_no_one_outside_asks_what_model_it_is() -> None:
    """A model is known by the contract of `models/base.py` alone."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}
    classes = {
        node.name
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if path.parent.name == "models" and isinstance(node, ast.ClassDef)
    }
    for path in [*FILES, *(ROOT / "haystack_integrations").rglob("*.py"), *(ROOT / "examples").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if path.parent.name != "models" else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass", "type"):
                names = {leaf.id for leaf in ast.walk(node) if isinstance(leaf, ast.Name)}
                assert not names & classes, f"{path}:{node.lineno}"


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
