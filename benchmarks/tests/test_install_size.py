"""What an installation needs is closed under the requirements that apply here, and its size is that of its files."""

from __future__ import annotations

import re
from importlib.metadata import distribution
from pathlib import Path

import pytest
import torch
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from refusals import refused

from benchmarks.install_size import megabytes, needed

README = Path(__file__).parents[2] / "README.md"


def names_of(name: str) -> set[str]:
    wanted = map(Requirement, distribution(name).requires or ())
    return {canonicalize_name(one.name) for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})}


def test_what_is_needed_is_closed() -> None:
    found = needed("haystack-ai")
    assert {"haystack-ai", "numpy", "pydantic-core"} <= found.keys(), "also what is needed by others alone"
    assert set().union(*map(names_of, found)) <= found.keys()
    assert "pytest" not in found


def test_an_extra_brings_what_it_names() -> None:
    pytest.importorskip("mkdocstrings", reason="the extra docs is not installed")
    assert "mkdocstrings-python" in needed("mkdocstrings[python]").keys() - needed("mkdocstrings").keys()


def test_what_is_not_installed_is_named() -> None:
    with refused("no-such-package-anywhere"):
        needed("no-such-package-anywhere")


def test_the_size_is_that_of_the_files() -> None:
    """Of a package in a folder of its own, without compiled files."""
    one = distribution("networkx")
    folders = [Path(str(one.locate_file(name))) for name in ("networkx", f"networkx-{one.version}.dist-info")]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    others = [Path(str(one.locate_file(file))) for file in one.files or () if ".." in file.parts]
    expected = sum(path.stat().st_size for path in {*files, *others}) / 1e6
    assert megabytes([one]) == pytest.approx(expected, rel=0.01)


@pytest.mark.skipif(torch.version.cuda is not None, reason="README gives the size beside a torch for CPUs")
def test_the_readme_names_the_size_of_this_installation() -> None:
    [(gigabytes, of_torch)] = re.findall(
        r"core takes ([\d.]+) GB, (\d+) MB of it torch", " ".join(README.read_text().split())
    )
    assert float(gigabytes) == pytest.approx(megabytes(needed("ap-ranker").values()) / 1e3, rel=0.03)
    assert float(of_torch) == pytest.approx(megabytes(needed("torch").values()), rel=0.03)
