"""A wheel brings the pipelines, so that `ap-ranker ask` and `serve` need no clone."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from conftest import ROOT

from ap_ranker.serving import stores
from ap_ranker.serving.stores import find_pipeline


def test_the_wheels_copy_is_found_where_there_is_no_clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packaged, here = tmp_path / "packaged", tmp_path / "here"
    for folder in (packaged, here):
        folder.mkdir()
    (packaged / "faq_search.yaml").touch()
    monkeypatch.setattr(stores, "PACKAGED", packaged)
    monkeypatch.chdir(here)
    wanted = Path("pipelines/faq_search.yaml")
    assert find_pipeline(wanted) == packaged / "faq_search.yaml"
    for other in (Path("faq_search.yaml"), Path("pipelines/other.yaml")):
        assert find_pipeline(other) == other
    (here / "pipelines").mkdir()
    (here / wanted).touch()
    assert find_pipeline(wanted) == wanted


def test_the_wheel_has_them() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = settings["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["force-include"] == {"pipelines": "ap_ranker/pipelines"}
    assert stores.PACKAGED.parts[-2:] == ("ap_ranker", "pipelines")
