"""The shape of the house: rooms import one way, and the packaging says what the code needs."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

import ap_ranker
from ap_ranker.models.registry import FILES as MODEL_FILES

GROUND = [
    "errors",
    "settings",
    "files",
    "kept_results",
    "progress",
    "watched_file",
    "processes",
    "child_process",
    "safe_open",
    "threads",
]
"""Single files that any room may use, lowest first."""

ROOMS = [
    "text",
    "models",
    "data",
    "documents",
    "ranking",
    "evaluation",
    "training",
    "haystack_integrations",
    "search",
    "web",
    "cli",
]
"""Lowest floor first; a room imports from itself, from those before it, and from the ground."""

MOST_FILE_LINES = 500
"""Lines of a file; one that is longer has two concerns. The whole has no limit: its size is judged by concepts."""

FLOORS = [*GROUND, *ROOMS]

FILES = sorted((ROOT / "ap_ranker").rglob("*.py"))
COMPONENTS = sorted((ROOT / "haystack_integrations").rglob("*.py"))


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_of(path): path for path in [*FILES, *COMPONENTS]}


def imported_modules(path: Path, *, types: bool = True) -> set[str]:
    """Our modules that a file imports anywhere in it; with `types`, also those that only annotations need."""
    package = module_of(path) if path.name == "__init__.py" else module_of(path).rpartition(".")[0]
    names: set[str] = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" and not types:
            node.body = []
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                names |= {alias.name for alias in node.names}
            case ast.ImportFrom(level=level, module=module):
                above = ".".join(package.split(".")[: len(package.split(".")) - level + 1]) if level else ""
                source = ".".join(filter(None, [above, module]))
                names |= {source, *(f"{source}.{alias.name}" for alias in node.names)}
    return names & MODULES.keys()


def room_of(module: str) -> str:
    parts = module.split(".")
    return parts[0] if parts[0] == "haystack_integrations" else parts[1]


FRONT_DOORS = ["__init__", "__main__"]
"""Of the package and of the command line: they may lead into every room."""


@pytest.mark.parametrize(
    "path",
    [path for path in MODULES.values() if path.parent != ROOT / "ap_ranker" or path.stem not in FRONT_DOORS],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_imports_run_one_way(path: Path) -> None:
    floor = FLOORS.index(room_of(module_of(path)))
    assert {room_of(module) for module in imported_modules(path) - {"ap_ranker"}} <= set(FLOORS[: floor + 1])


def test_the_rooms_are_all_there_are() -> None:
    folders = {path.name for path in (ROOT / "ap_ranker").iterdir() if (path / "__init__.py").is_file()}
    files = {path.stem for path in (ROOT / "ap_ranker").glob("*.py")} - set(FRONT_DOORS)
    assert (folders | {"haystack_integrations"}, files) == (set(ROOMS), set(GROUND))


def test_no_modules_import_each_other() -> None:
    """Within a room either, nor for annotations alone."""
    needs = {module: imported_modules(path) - {module} for module, path in MODULES.items()}
    del needs["ap_ranker"]
    circle: set[str] = set()
    while circle != needs.keys():  # without those that need none of the others, or that none of the others needs
        circle = set(needs)
        needed = set().union(*needs.values())
        needs = {module: below & circle for module, below in needs.items() if below & circle and module in needed}
    assert not circle


def test_no_file_has_two_concerns() -> None:
    lines = {path: path.read_text(encoding="utf-8").count("\n") for path in MODULES.values()}
    assert {str(path): count for path, count in lines.items() if count > MOST_FILE_LINES} == {}


@pytest.mark.parametrize("path", [p for p in FILES if p.parent.name == "models"], ids=lambda path: path.stem)
def test_no_model_imports_another_family(path: Path) -> None:
    """Families share the other files of the room."""
    assert not imported_modules(path) & {f"ap_ranker.models.{file}" for file in MODEL_FILES}


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
        "haystack_integrations/common",
        "haystack_integrations/components",
        "haystack_integrations/components/embedders",
        "haystack_integrations/components/rankers",
        "haystack_integrations/components/retrievers",
        "haystack_integrations/components/routers",
        "haystack_integrations/document_stores",
        "haystack_integrations/tools",
    ):
        assert not (ROOT / folder / "__init__.py").exists()


def test_the_front_door_opens_without_torch() -> None:
    """And no module of the same name takes a function's place."""
    code = """
import sys
import ap_ranker
assert set(ap_ranker.__all__) == set(ap_ranker._HOMES) <= set(dir(ap_ranker))
assert not {"torch", "haystack", "transformers"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
    importlib.import_module("ap_ranker.cli.main")
    for name, home in ap_ranker._HOMES.items():
        found = getattr(ap_ranker, name)
        assert found.__module__.startswith(home) and found.__name__ == name, name


def test_the_packages_are_typed() -> None:
    kinds = ("embedders", "rankers", "retrievers", "routers")
    leaves = ("common", "document_stores", "tools", *(f"components/{kind}" for kind in kinds))
    for package in (ROOT / "ap_ranker", *(ROOT / "haystack_integrations" / leaf / "ap_ranker" for leaf in leaves)):
        assert (package / "py.typed").is_file()
