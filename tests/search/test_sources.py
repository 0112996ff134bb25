"""Each answer says where it comes from: in a search, on the page, and by the routes for other programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from handbook import FOUND, write_handbook
from haystack import Document
from haystack.components.preprocessors import DocumentSplitter, MarkdownHeaderSplitter
from hypothesis import given
from hypothesis import strategies as st
from searches import write_pipeline
from starlette.testclient import TestClient
from typer.testing import CliRunner

from ap_ranker.cli.main import app
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.search.setup import search_faq, set_up
from ap_ranker.search.sources import Source, source_of
from ap_ranker.web.app import build_app
from ap_ranker.web.database import open_database
from ap_ranker.web.judgements import Judgements


@pytest.fixture(scope="module")
def handbook(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_handbook(tmp_path_factory.mktemp("company") / "handbook")


@pytest.fixture(scope="module")
def results(handbook: Path, checkpoint: Path) -> dict[str, list[dict[str, Any]]]:
    """Question -> its answers, by one search for all of them."""
    pipeline = write_pipeline(handbook.parent, checkpoint, fuse_scores=False, top_k=100)
    with set_up(handbook, pipeline=pipeline) as setup:
        return {result["question"]: result["answers"] for result in search_faq(list(FOUND), setup)}


@pytest.mark.parametrize(("question", "place"), FOUND.items())
def test_a_search_names_the_source(
    results: dict[str, list[dict[str, Any]]], question: str, place: tuple[str | None, str, int | None]
) -> None:
    sources = [answer["source"] for answer in results[question]]
    assert place in [(source["title"], source["file"], source["page"]) for source in sources]


def test_the_command_prints_the_source(tmp_path: Path, handbook: Path, checkpoint: Path) -> None:
    pipeline = write_pipeline(tmp_path, checkpoint, fuse_scores=False)
    command = ["ask", "courtyard?", "kayak", "--documents", str(handbook / "guides"), "--pipeline", str(pipeline)]
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 0, shown.output
    assert "Help · help.html · https://help.example/returns" in shown.output
    found = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert {
        "title": "Help",
        "file": "help.html",
        "page": None,
        "url": "https://help.example/returns",
    } in [answer["source"] for answer in found[1]["answers"]]


def test_an_index_follows_a_folder(tmp_path: Path, checkpoint: Path) -> None:
    pipeline = write_pipeline(tmp_path, checkpoint)
    pipeline.write_text(pipeline.read_text().replace("documents: FAQ.csv", f"path: {tmp_path / 'store'}"))
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "a.md").write_text("# One\n\nfirst\n\n# Two\n\nsecond\n")
    (folder / "b.txt").write_text("third")

    def index() -> str:
        return (
            CliRunner().invoke(app, ["index", str(folder), "--pipeline", str(pipeline)], catch_exceptions=False).stdout
        )

    assert "3 added, 0 changed, 0 removed, 0 unchanged." in index()
    (folder / "a.md").write_text("# One\n\nfirst of all\n\n# Two\n\nsecond\n")
    (folder / "b.txt").rename(folder / "c.txt")
    assert "1 added, 1 changed, 1 removed, 1 unchanged." in index()


def client_of(pipeline: Path, documents: list[Document]) -> TestClient:
    search = DeclaredPipeline.load(pipeline)
    search.index(documents)
    return TestClient(build_app(search, Judgements(open_database(pipeline.with_name("faq.db")))), "http://localhost")


def test_documents_of_haystack_by_every_route(tmp_path: Path, checkpoint: Path) -> None:
    """Without answer and question in their meta."""
    text = "# Handbook\n\n## Parcels\n\nA parcel takes two days.\n"
    whole = Document(content=text, meta={"file_path": "/srv/secret/handbook.md", "url": "https://x.example/h?a=1&b=2"})
    parts = MarkdownHeaderSplitter(keep_headers=False).run([whole])["documents"]
    parts = DocumentSplitter(split_length=50).run(parts)["documents"]
    client = client_of(write_pipeline(tmp_path, checkpoint), parts)
    source = {"title": "Handbook > Parcels", "file": "handbook.md", "page": 1, "url": "https://x.example/h?a=1&b=2"}
    [answer] = client.post("/api/search", json={"question": "parcel"}).json()["answers"]
    assert (answer["question"], answer["answer"].strip(), answer["source"]) == ("", "A parcel takes two days.", source)
    response = client.post("/search/run", json={"query": "parcel"})
    [document] = response.json()["result"]["search"]["documents"]
    assert (document["content"].strip(), document["meta"], document["source"]) == (
        "A parcel takes two days.",
        {},
        source,
    )
    assert "secret" not in response.text
    given = {"question": "parcel", "id": answer["id"], "helped": True, "receipt": answer["receipt"]}
    assert client.post("/api/feedback", json=given).status_code == 200
    assert client.post("/api/explain", json={"question": "parcel", "id": answer["id"]}).status_code == 200


@pytest.mark.parametrize(
    ("meta", "source"),
    [
        ({}, None),
        ({"title": "", "file_path": " ", "page_number": 3, "url": ""}, None),
        ({"file_path": "a/b.pdf", "page_number": "3"}, Source(file="a/b.pdf", page=3)),
        ({"file_path": "C:\\Users\\me\\b.pdf", "page_number": 0}, Source(file="b.pdf")),
        ({"file_path": "b.pdf", "page_number": True}, Source(file="b.pdf")),
        ({"header": "Refunds", "parent_headers": ["Handbook", "Returns"]}, Source("Handbook > Returns > Refunds")),
        ({"header": ["x"], "parent_headers": 3, "title": 7}, None),
        ({"URL": " https://x.example/ü "}, Source(url="https://x.example/ü")),
        ({"url": "javascript:alert(1)"}, None),
        ({"url": "data:text/html,<script>alert(1)</script>"}, None),
        ({"url": "//x.example"}, None),
        ({"url": "https:x"}, None),
        ({"url": "http://["}, None),
    ],
)
def test_sources_of_metas(meta: dict[str, Any], source: Source | None) -> None:
    assert source_of(Document(content="x", meta=meta)) == source


VALUES = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=5)
NAMES = st.sampled_from(["title", "file_path", "page_number", "url", "URL", "header", "parent_headers"])


@given(meta=st.dictionaries(NAMES, VALUES))
def test_any_meta_has_a_source_or_none(meta: dict[str, Any]) -> None:
    source = source_of(Document(content="x", meta=meta)) or Source()
    assert source.url is None or urlsplit(source.url).scheme in ("http", "https")
    assert source.page is None or source.page > 0
    assert not set("\n\r") & set(str(source))
