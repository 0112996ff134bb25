"""A release is tested, built and checked before it is published, without a token; on PyPI, its links lead somewhere."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import yaml
from conftest import ROOT

WORKFLOWS = ROOT / ".github" / "workflows"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def workflow(name: str) -> dict[str, Any]:
    text = (WORKFLOWS / name).read_text(encoding="utf-8")
    return yaml.load(text, yaml.BaseLoader)  # YAML 1.1 reads the key `on` as true


def test_nothing_is_published_untested() -> None:
    jobs = workflow("release.yml")["jobs"]
    assert set(jobs["publish"]["needs"]) == {"test", "build"}
    tests = jobs["test"]["uses"].rpartition("/")[2]
    assert "workflow_call" in workflow(tests)["on"]
    built = "\n".join(step.get("run", "") for step in jobs["build"]["steps"])
    places = [built.index(step) for step in ("python -m build", "twine check --strict", "pip install dist/*.whl")]
    assert places == sorted(places)


def test_publishing_is_trusted() -> None:
    """The one job that publishes may ask for an identity, nothing else may do anything, and there is no secret."""
    release = workflow("release.yml")
    assert release["permissions"] == {"contents": "read"}
    allowed = {name: job["permissions"] for name, job in release["jobs"].items() if "permissions" in job}
    assert allowed == {"publish": {"id-token": "write"}}
    assert release["jobs"]["publish"]["environment"]["name"] == "pypi"
    assert "secrets" not in (WORKFLOWS / "release.yml").read_text(encoding="utf-8")


def test_the_changelog_begins_with_the_version() -> None:
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == PROJECT["project"]["version"]


def test_on_pypi_no_link_is_relative() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for rule in PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(rule["pattern"], rule["replacement"], text)
    links = re.findall(r"(!?)\[[^]]*\]\(([^)]+)\)", text)
    assert len(links) > 20
    for picture, target in links:
        assert target.startswith(("https://", "#")), target
        in_repository = re.match(r"https://(?:raw|github)[^/]*/ap-ranker/ap-ranker/(?:blob/)?main/([^#]+)", target)
        assert in_repository is None or (ROOT / in_repository[1]).exists(), target
        assert not picture or "raw." in target, target
