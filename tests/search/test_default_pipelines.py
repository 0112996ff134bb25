"""A wheel brings the pipelines, so that `ap-ranker ask` and `serve` need no clone."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from conftest import ROOT
from refusals import refused

from ap_ranker.search import default_pipelines
from ap_ranker.search.default_pipelines import DEFAULTS, find_pipeline, write_pipelines


def test_the_wheels_copy_is_found_where_there_is_no_clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packaged, here = tmp_path / "packaged", tmp_path / "here"
    for folder in (packaged, here):
        folder.mkdir()
    (packaged / "faq_search.yaml").touch()
    monkeypatch.setattr(default_pipelines, "DEFAULTS", packaged)
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
    assert DEFAULTS == ROOT / "pipelines"  # of a clone


def test_copies_to_adapt(tmp_path: Path) -> None:
    written = write_pipelines(tmp_path / "mine")
    assert {path.name: path.read_bytes() for path in written} == {
        path.name: path.read_bytes() for path in (ROOT / "pipelines").iterdir()
    }
    mine = tmp_path / "mine" / "faq_search.yaml"
    mine.write_text("mine")
    (tmp_path / "mine" / "faq_search_hybrid.yaml").unlink()
    with refused("elasticsearch_index.json … mine … --overwrite"):
        write_pipelines(tmp_path / "mine")
    assert mine.read_text() == "mine"
    assert not (tmp_path / "mine" / "faq_search_hybrid.yaml").exists()
    write_pipelines(tmp_path / "mine", overwrite=True)
    assert mine.read_bytes() == (ROOT / "pipelines" / "faq_search.yaml").read_bytes()
