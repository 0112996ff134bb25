"""What pyproject.toml declares is what the code imports, and where an extra is missing the user reads its name."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

import pytest
from conftest import ROOT
from oldest import declared, lowest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from refusals import refused

CODE = sorted(path for tree in ("ap_ranker", "haystack_integrations") for path in (ROOT / tree).rglob("*.py"))
TESTS = sorted(path for tree in ("tests", "examples", "benchmarks") for path in (ROOT / tree).rglob("*.py"))
EXTRAS = sorted(set(declared()) - {"", "dev", "docs", "mutants"})

INDIRECT = {
    "psycopg": "SQLAlchemy imports it",
}
"""What the code needs and never imports, and why."""

DOORS = {
    "ap_ranker/documents/exports/__init__.py": "ap_ranker/documents/convert.py",
    "ap_ranker/documents/html.py": "ap_ranker/documents/convert.py",
    "ap_ranker/documents/markup_questions.py": "ap_ranker/documents/convert.py",
    "ap_ranker/documents/question_paragraphs.py": "ap_ranker/documents/convert.py",
    "ap_ranker/web": "ap_ranker/cli/serve.py",
    "ap_ranker/web/page": "ap_ranker/cli/serve.py",
    "ap_ranker/web/owner": "ap_ranker/cli/serve.py",
    "ap_ranker/training/tune.py": "ap_ranker/training/search_space.py",
}
"""A file or folder that needs an extra from its first line, and the file that asks for the extra before."""


def imports(path: Path) -> Iterator[str]:
    """The modules that a file imports, also by a name in quotes."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom(level=0, module=str(module)):
                yield module
            case ast.Call(
                func=ast.Name(id="import_module") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name))],
            ):
                yield name


def is_ours(module: str) -> bool:
    folder = module.replace(".", "/")
    return any((ROOT / place / f"{folder}{end}").exists() for place in (".", "tests") for end in ("", ".py"))


PROVIDERS = packages_distributions()


@cache
def distributions_of(module: str) -> frozenset[str]:
    """Those that bring a module of somebody else; a namespace package is brought by several, a module in it by one."""
    names = set(PROVIDERS.get(module.split(".", maxsplit=1)[0], ()))
    if len(names) > 1:
        folder = module.replace(".", "/")
        names = {name for name in names if any(str(f).startswith(folder) for f in distribution(name).files or ())}
    return frozenset(canonicalize_name(name) for name in names)


def third_party(path: Path) -> Iterator[tuple[str, frozenset[str]]]:
    """Each module of somebody else that a file imports, with the distributions that bring it."""
    for module in imports(path):
        if module.split(".")[0] not in sys.stdlib_module_names and not is_ours(module):
            yield module, distributions_of(module)


def names(*extras: str) -> set[str]:
    return {canonicalize_name(requirement.name) for extra in extras for requirement in declared()[extra]}


@pytest.mark.parametrize("path", CODE, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_is_imported_is_declared(path: Path) -> None:
    for module, brought_by in third_party(path):
        assert brought_by & names("", *EXTRAS), f"{module} comes from {set(brought_by) or 'nowhere'}"


SKIPPED_WITHOUT = {"qdrant", "pgvector"}
"""Other stores that tests/pipelines tries where somebody has installed them; a client of each would be much to ask."""


def test_what_the_tests_import_is_declared() -> None:
    everything = names(*declared())
    local = {path.stem for path in TESTS} | {path.parent.name for path in TESTS}  # scripts beside each other
    missing = {
        module
        for path in TESTS
        for module, brought_by in third_party(path)
        if module.split(".")[0] not in local and module.split(".")[-1] not in SKIPPED_WITHOUT
        if not brought_by & everything
    }
    assert not missing


def test_what_is_declared_is_imported() -> None:
    measuring = sorted((ROOT / "benchmarks").rglob("*.py"))  # with the extra of `compare --peers`
    used = {name for path in [*CODE, *measuring] for _, brought_by in third_party(path) for name in brought_by}
    assert names("", *EXTRAS) - used == INDIRECT.keys()


def told_by(path: Path) -> set[str]:
    """The extras that a file's messages name."""
    return set(re.findall(r'(?:pip install "ap-ranker\[|extra_for\(.*, ")(\w+)', path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", CODE, ids=lambda path: str(path.relative_to(ROOT)))
def test_an_optional_import_names_its_extra(path: Path) -> None:
    """The file that imports it, or the only one that leads there, tells how to install what is missing."""
    place = path.relative_to(ROOT)
    door = ROOT / DOORS.get(str(place), DOORS.get(str(place.parent), str(place)))
    told = told_by(door)
    for module, brought_by in third_party(path):
        if not brought_by & names(""):
            assert brought_by & names(*told), f"{module}: nothing tells how to install {set(brought_by)}"


def test_messages_name_extras_that_exist() -> None:
    told = {name for path in CODE for name in told_by(path)}
    assert told == set(EXTRAS)


WITHOUT_EXTRAS = """
import pkgutil, sys
sys.modules.update(dict.fromkeys(sys.argv[1:]))  # as if these were not installed
import ap_ranker
from ap_ranker.errors import InputError
for module in pkgutil.walk_packages(ap_ranker.__path__, "ap_ranker."):
    try:
        __import__(module.name)
    except (ImportError, InputError) as error:
        print(module.name, error)
"""


@pytest.mark.slow  # it loads everything once more
def test_without_extras_every_module_loads_but_those_behind_a_door() -> None:
    needed_by_core = {"pydantic"}  # by Haystack
    modules = {
        module
        for path in CODE
        for module, brought_by in third_party(path)
        if brought_by and not brought_by & (names("") | needed_by_core)
    }
    hidden = {module if module.startswith("haystack_integrations.") else module.split(".")[0] for module in modules}
    run = subprocess.run([sys.executable, "-c", WITHOUT_EXTRAS, *hidden], capture_output=True, text=True, check=True)
    behind = tuple(folder.replace("/", ".") + "." for folder in DOORS)
    refused = [line for line in run.stdout.splitlines() if not line.startswith(behind)]
    assert all('pip install "ap-ranker[' in line for line in refused), refused


def test_every_requirement_has_one_lower_bound() -> None:
    lines = [line for group in declared().values() for line in lowest(group)]
    assert "transformers==5.0" in lines


@pytest.mark.parametrize("line", ["numpy", "numpy<3", "numpy!=2.0"])
def test_a_requirement_without_a_lower_bound_is_named(line: str) -> None:
    with refused(f"numpy … '{line}'", by=ValueError):
        list(lowest([Requirement(line)]))


def test_the_makefile_installs_every_extra_and_the_lowest_torch() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    extras = re.search(r"^EXTRAS := (.*)$", makefile, re.MULTILINE)
    torch = re.search(r"^TORCH \?= torch==([\d.]+)$", makefile, re.MULTILINE)
    assert extras and torch
    assert set(extras[1].split(",")) == set(declared()) - {"", "mutants"}
    bound = next(requirement for requirement in declared()[""] if requirement.name == "torch")
    assert torch[1] in bound.specifier
    assert torch[1].startswith(next(lowest([bound])).removeprefix("torch=="))


def test_the_lowest_python_is_the_one_that_is_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["requires-python"] == ">=3.11"
    assert "\tpython3.11 -m venv" in (ROOT / "Makefile").read_text(encoding="utf-8")
