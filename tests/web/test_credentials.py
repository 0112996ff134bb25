"""No message tells a password."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ap_ranker.errors import InputError
from ap_ranker.search.load_pipeline import describe_store, load_pipeline, report_store_errors, without_credentials

SECRET = "hunter2/x@y"


@pytest.mark.parametrize(
    "text",
    [
        "https://elastic:hunter2@search.example:9200",
        "https://elastic:hunt@hunter2@search.example:9200/faq",
        "https://hunter2@search.example",
        "['https://elastic:hunter2@one.example', 'https://elastic:hunter2@two.example']",
        "GET https://search.example/_search?api_key=hunter2&size=1 failed",
        "https://search.example/?pretty&access_token=hunter2",
        "{'hosts': 'search.example', 'basic_auth': ['elastic', 'hunter2'], 'index': 'faq'}",
        "{'http_auth': ('elastic', 'hunter2')}",
        '{"api_key": "hunter2", "index": "faq"}',
        "{'api_key': {'type': 'token', 'token': 'hunter2'}}",
        "api_key: hunter2",
        "password=hunter2",
        "'client_secret': 'hunter2'",
        "Authorization: Basic hunter2hunter2==",
        "headers {'Authorization': 'ApiKey hunter2hunter2'}",
    ],
)
def test_passwords_are_hidden(text: str) -> None:
    shown = without_credentials(text)
    assert "hunter" not in shown
    assert "***" in shown


@pytest.mark.parametrize(
    "text",
    [
        "index 'faq' of http://127.0.0.1:9200",
        "expected a server, found none that can be reached (Connection refused). Start it (docker compose up)",
        "Set ELASTIC_API_KEY to a valid key, and ELASTIC_API_KEY_ID if the key has an id of its own.",
        "expected 20 tokens, found 3: authors write to me@example.org",
        "BM25SDocumentStore at 'faq-index'",
    ],
)
def test_the_rest_stays(text: str) -> None:
    assert without_credentials(text) == text


@pytest.mark.parametrize(
    "hosts", [f"https://me:{SECRET}@h.example:9200", [f"https://me:{SECRET}@h.example", "https://two.example"]]
)
def test_a_store_tells_its_place_without_the_password(hosts: Any) -> None:
    store = SimpleNamespace(to_dict=lambda: {"init_parameters": {"hosts": hosts, "index": "faq"}})
    place = describe_store(store)
    assert "hunter2" not in place
    assert "h.example" in place


def test_errors_of_a_server_and_of_its_file(tmp_path: Path) -> None:
    elasticsearch = pytest.importorskip("elasticsearch", reason="elasticsearch-haystack is not installed")
    with (
        pytest.raises(InputError) as failed,
        report_store_errors(tmp_path / "search.yaml", "index 'faq'"),
    ):
        cause = OSError(f"Connection to https://me:{SECRET}@h.example:9200 refused")
        raise elasticsearch.ConnectionError("Connection error", errors=(cause,))
    assert "hunter2" not in str(failed.value)
    assert "h.example:9200 refused" in str(failed.value)


def test_a_pipeline_that_cannot_be_loaded(tmp_path: Path) -> None:
    """Haystack's message quotes all of a component's settings."""
    path = tmp_path / "search.yaml"
    path.write_text(
        "components:\n  writer:\n    type: haystack.components.writers.document_writer.DocumentWriter\n"
        "    init_parameters:\n      document_store:\n"
        "        type: haystack.document_stores.in_memory.document_store.InMemoryDocumentStore\n"
        f"        init_parameters: {{hosts: 'https://me:{SECRET}@h', basic_auth: [me, {SECRET}]}}\n"
    )
    with pytest.raises(InputError) as failed:
        load_pipeline(path)
    assert "hunter2" not in str(failed.value)
