"""What the documentation tells a user to type: commands and options exist, imports work, YAML can be read."""

from __future__ import annotations

import ast
import importlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer
import yaml
from conftest import ROOT, imported

from ap_ranker.cli.main import app
from ap_ranker.models.registry import MODELS

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*/README.md")])
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]+)")


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a language, without the indentation of a list."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [re.sub(rf"^{indent}", "", text, flags=re.MULTILINE) for indent, text in found]


def commands(page: Path) -> list[list[str]]:
    """The arguments of each `ap-ranker` that the page tells to run."""
    lines = [line for text in blocks(page, "bash") for line in text.replace("\\\n", " ").splitlines()]
    words = [shlex.split(line, comments=True) for line in lines]
    return [line[line.index("ap-ranker") + 1 :] for line in words if "ap-ranker" in line]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page(page: Path) -> None:
    group = typer.main.get_command(app)
    for name, *arguments in commands(page):
        command = group.commands[name]
        if hasattr(command, "commands"):  # a group of its own
            command = command.commands[arguments.pop(0)]
        parser = command.make_parser(type(group).context_class(command, info_name=name))
        if "--help" not in arguments:
            parser.parse_args(list(arguments))  # an unknown option raises
    for text in blocks(page, "python"):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(("ap_ranker", "haystack")):
                module = importlib.import_module(node.module)
                assert all(hasattr(module, alias.name) for alias in node.names), text
    for text in blocks(page, "yaml"):
        yaml.safe_load(text)
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_the_tables_of_models_are_those_of_the_code() -> None:
    """And the differences from the equations have a row for each model: python docs/model_tables.py"""
    with imported(ROOT / "docs" / "model_tables.py") as tables:
        page = tables.MODELS_PAGE.read_text(encoding="utf-8")
        assert tables.replaced(page, "models", tables.models()) == page
        page = tables.RECIPES_PAGE.read_text(encoding="utf-8")
        assert tables.replaced(page, "recipes", tables.recipes()) == page
        page_of_options = tables.OPTIONS_PAGE.read_text(encoding="utf-8")
        assert tables.replaced(page_of_options, "options", tables.options()) == page_of_options
        papers = yaml.safe_load(tables.PAPERS.read_text(encoding="utf-8"))
    differences = page.partition("<!-- differences")[2]
    measured = re.findall(r"^\| `([\w-]+)` \| \S+ \| \S+ \|$", differences, re.MULTILINE)
    assert set(papers) == set(measured) == set(MODELS)


@pytest.mark.parametrize("page", ["README.md", "docs/models.md"])
def test_the_number_of_models(page: str) -> None:
    """Wherever a page names it."""
    named = re.findall(r"\b(\d+) models\b", (ROOT / page).read_text(encoding="utf-8"))
    assert named
    assert set(named) == {str(len(MODELS))}


def test_make_docs_refuses_a_broken_anchor(tmp_path: Path) -> None:
    """Its options on a site of one page; with `--quiet`, no warning counts."""
    pytest.importorskip("mkdocs", reason="the extra docs is not installed")
    [options] = re.findall(r"^\t\$\(BIN\)/mkdocs (build .*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    site = {"site_name": "one page", "validation": settings["validation"]}
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump(site))
    (tmp_path / "docs").mkdir()
    codes = []
    for anchor in ("there", "nowhere"):
        (tmp_path / "docs" / "index.md").write_text(f"# There\n\n[A part](#{anchor})\n")
        command = [sys.executable, "-m", "mkdocs", *shlex.split(options)]
        codes.append(subprocess.run(command, cwd=tmp_path, check=False, capture_output=True).returncode)
    assert codes == [0, 1]


def test_there_are_commands_to_check() -> None:
    assert sum(len(commands(page)) for page in PAGES) > 25
    group = typer.main.get_command(app)
    command = group.commands["train"]
    parser = command.make_parser(type(group).context_class(command, info_name="train"))
    with pytest.raises(Exception, match="No such option"):
        parser.parse_args(["x.csv", "--modle", "ap-cnn"])
