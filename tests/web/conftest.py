"""The FAQ search of tests/searches.py, a model without attention, and a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from browser import find_browser
from conftest import write_checkpoint, write_faq
from postgres import programs, running_postgres
from searches import filled, write_pipeline

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.web.database import Database, open_database


@pytest.fixture
def search(tmp_path: Path, checkpoint: Path) -> DeclaredPipeline:
    return filled(write_pipeline(tmp_path, checkpoint))


@pytest.fixture(scope="module")
def searched_folder(tmp_path_factory: pytest.TempPathFactory, checkpoint: Path) -> Path:
    """A FAQ and a pipeline that searches it."""
    folder = tmp_path_factory.mktemp("searched")
    write_faq(folder / "faq.csv")
    write_pipeline(folder, checkpoint)
    return folder


@pytest.fixture(scope="session")
def blind_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a model without attention."""
    return write_checkpoint("qa-cnn", tmp_path_factory.mktemp("blind") / "ranker")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One for all windows of a module: each that is opened knows nothing of the others."""
    path = find_browser()
    playwright_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a new server of PostgreSQL, with the place {name} for that of a database; skips without one."""
    if programs() is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    with running_postgres() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a new, empty database may be: a path of SQLite, or a URL of PostgreSQL."""
    if request.param == "sqlite":
        return str(tmp_path / "faq.db")
    import psycopg

    url: str = request.getfixturevalue("postgres")
    name = f"test_{uuid4().hex[:12]}"
    with psycopg.connect(url.format(name="postgres"), autocommit=True) as connection:
        connection.execute(f"create database {name}")
    return url.format(name=name)


@pytest.fixture
def website(place: str) -> Iterator[Database]:
    """A new, empty database of a website, in SQLite and in PostgreSQL."""
    database = open_database(place)
    yield database
    database.close()
