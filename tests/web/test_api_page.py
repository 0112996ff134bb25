"""The API as `docs/api.md` and `/openapi.json` describe it: every example runs, and answers are as the schema says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, TEXTS, write_faq

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from forked import served
from jsonschema import Draft202012Validator
from searches import write_pipeline
from starlette.testclient import TestClient

from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.web.app import build_app
from ap_ranker.web.owner.routes import OwnersPage
from ap_ranker.web.owner.service import OwnerService
from ap_ranker.web.search_routes import API

from .visiting import QUESTION, client_of, judgements_of

PAGE = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
ADDRESS = "https://faq.example.com/"


def example(language: str) -> str:
    """The one block of a language that asks the server; those for Hayhooks do not."""
    blocks: list[str] = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    [code] = [block for block in blocks if ADDRESS in block]
    return code


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, checkpoint: Path) -> Iterator[str]:
    from .browsing import wait_for_the_model

    folder = tmp_path_factory.mktemp("api")
    write_pipeline(folder, checkpoint)
    write_faq(folder / "faq.csv")
    options = ("--documents", "faq.csv", "--pipeline", "search.yaml", "--score-threshold", "-1")
    with served(*options, folder=folder) as server:
        wait_for_the_model(server.address)
        yield server.address


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_curl(address: str) -> None:
    search, browse = example("bash").replace(ADDRESS, address).strip().splitlines()
    found = json.loads(run("bash", "-c", search))
    assert (found["outcome"], found["answers"][0]["answer"]) == ("answer", TEXTS[1])
    assert TEXTS[0] in json.loads(run("bash", "-c", browse))["questions"]


def test_python(address: str) -> None:
    printed = run(sys.executable, "-c", example("python").replace(ADDRESS, address)).splitlines()
    assert printed[0].endswith(f"{TEXTS[0]} {TEXTS[1]}")
    assert printed[-1] == "kept"


def test_javascript(address: str, browser: Any) -> None:
    pytest.importorskip("playwright", reason="playwright is not installed")
    from .browsing import opened

    printed: list[str] = []
    with opened(browser, address, "en", refused="evaluate") as page:
        code = example("javascript").replace(ADDRESS, address).replace("console.log(", "printed.push(")
        printed += page.evaluate(f"async () => {{ const printed = []; {code} return printed; }}")
    assert printed == ["answer", TEXTS[1]]


def schema_of(client: TestClient) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/openapi.json").json()
    return found


def test_the_schema_has_the_pages_routes_only(search: DeclaredPipeline) -> None:
    from ap_ranker.data.faq import Match

    judgements = judgements_of(search)
    owner = OwnersPage("7c1f6a02d94be853b7a1", OwnerService(search, None, Match.both, judgements.database))
    client = TestClient(build_app(search, judgements, owner=owner, api_key="k" * 20), "http://localhost")
    schema = schema_of(client)
    assert set(schema["paths"]) == set(API)
    assert "owner/" not in json.dumps(schema)
    for path, methods in schema["paths"].items():
        assert path in PAGE
        assert list(methods) == ["post"]
        assert set(methods["post"]["responses"]) == {"200", "default"}
    for name in schema["components"]["schemas"]["PresentedAnswer"]["properties"]:
        assert f"`{name}`" in PAGE, name
    Draft202012Validator.check_schema(schema["components"]["schemas"])


@pytest.mark.parametrize(
    ("path", "body", "name"),
    [("/api/search", {"question": QUESTION}, "SearchResponse"), ("/api/search", {"question": ""}, "Refusal")],
)
def test_answers_are_as_the_schema_says(search: DeclaredPipeline, path: str, body: Any, name: str) -> None:
    client = client_of(search)
    schema = schema_of(client)
    answer = client.post(path, json=body).json()
    Draft202012Validator({"$ref": f"#/components/schemas/{name}", "components": schema["components"]}).validate(answer)
    described = schema["components"]["schemas"]
    assert set(answer) == set(described[name]["properties"])
    for one in answer.get("answers", ()):
        assert set(one) == set(described["PresentedAnswer"]["properties"])
