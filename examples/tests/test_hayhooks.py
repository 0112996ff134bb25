"""Plain Hayhooks answers from what a YAML names, and by the example's wrapper in a chat and as a tool."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import ROOT, TEXTS, write_faq
from refusals import absent

pytest.importorskip("hayhooks", reason="Hayhooks is not installed")

from ap_ranker.search.default_pipelines import BY_WORDS

HAYHOOKS = Path(sys.executable).with_name("hayhooks")
EXAMPLE = ROOT / "examples" / "hayhooks"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
START_SECONDS = 120.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, checkpoint: Path) -> Path:
    """Where Hayhooks runs: a FAQ and a checkpoint, where the default pipeline and the example expect them."""
    place = tmp_path_factory.mktemp("hayhooks")
    shutil.copytree(checkpoint, place / "checkpoints" / "faq")
    write_faq(place / "FAQ.csv")
    return place


@contextmanager
def running(folder: Path, *command: str) -> Iterator[str]:
    """Within, a server of Hayhooks listens at the address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    with subprocess.Popen(
        [HAYHOOKS, *command, "--host", "127.0.0.1", "--port", str(port)], cwd=folder, env=ENVIRONMENT
    ) as process:
        try:
            end = time.monotonic() + START_SECONDS
            while True:
                try:
                    httpx.get(f"{address}/status").raise_for_status()
                    break
                except httpx.HTTPError:
                    assert process.poll() is None, "it ended"
                    assert time.monotonic() < end, "it does not start"
                    time.sleep(0.2)
            yield address
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[str]:
    with running(folder, "run", "--pipelines-dir", "deployed") as address:
        yield address


def deploy(server: str, *arguments: object) -> str:
    port = server.rpartition(":")[2]
    result = subprocess.run(
        [HAYHOOKS, "pipeline", *map(str, arguments)],
        env={**ENVIRONMENT, "HAYHOOKS_HOST": "127.0.0.1", "HAYHOOKS_PORT": port},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def deployed(server: str) -> str:
    """The server with the example."""
    assert "successfully deployed" in deploy(server, "deploy-files", "--name", "faq", EXAMPLE)
    return server


def ask(address: str, **body: Any) -> httpx.Response:
    return httpx.post(address, json=body, timeout=60)


def test_the_packaged_pipeline_answers_from_the_documents_it_names(server: str) -> None:
    assert "successfully deployed" in deploy(server, "deploy-yaml", BY_WORDS)
    found = ask(f"{server}/faq_search/run", query="battery").json()["result"]["search"]["documents"]
    assert [document["meta"]["answer"] for document in found] == [TEXTS[5]]
    assert ask(f"{server}/faq_search/run", query="zebra").json()["result"]["search"]["documents"] == []


def test_documents_that_are_not_there(server: str, tmp_path: Path) -> None:
    path = tmp_path / "elsewhere.yaml"
    path.write_text(BY_WORDS.read_text(encoding="utf-8").replace("FAQ.csv", "missing/FAQ.csv"), encoding="utf-8")
    deploy(server, "deploy-yaml", path)
    response = ask(f"{server}/elsewhere/run", query="battery")
    assert response.status_code == 500
    assert not absent("'missing/FAQ.csv'", response.json()["detail"])


def test_a_rest_route(deployed: str) -> None:
    (found,) = ask(f"{deployed}/faq/run", question=" battery ").json()["result"]["answers"]
    assert (found["question"], found["answer"]) == (TEXTS[4], TEXTS[5])
    assert 0 < found["score"] < 1
    assert ask(f"{deployed}/faq/run", question="zebra").json() == {"result": {"answers": []}}
    many = ask(f"{deployed}/faq/run", question=" ".join(TEXTS[::2])).json()["result"]["answers"]
    assert sorted(entry["answer"] for entry in many) == sorted(TEXTS[1::2])
    assert len(ask(f"{deployed}/faq/run", question=" ".join(TEXTS[::2]), top_k=1).json()["result"]["answers"]) == 1
    for question in ("", " ", "x" * 1001, None):
        assert ask(f"{deployed}/faq/run", question=question).status_code == 422
    for top_k in (0, -1, 101, "many"):
        assert ask(f"{deployed}/faq/run", question="battery", top_k=top_k).status_code == 422


@pytest.mark.parametrize(
    "content",
    ["Which battery?", [{"type": "text", "text": "Which battery?"}, {"type": "image_url", "image_url": {"url": "x"}}]],
    ids=["text", "parts"],
)
def test_a_chat(deployed: str, content: Any) -> None:
    """The last question counts, and the other entries that were found are named."""
    assert [model["id"] for model in httpx.get(f"{deployed}/v1/models").json()["data"]].count("faq") == 1
    history = [{"role": "user", "content": "parcel"}, {"role": "assistant", "content": "Open the link."}]
    messages = [*history, {"role": "user", "content": content}]
    body = {"model": "faq", "messages": messages}
    answer = ask(f"{deployed}/v1/chat/completions", **body).json()["choices"][0]["message"]["content"]
    assert answer == TEXTS[5]
    streamed = ask(f"{deployed}/v1/chat/completions", **body, stream=True).text
    assert TEXTS[5] in streamed
    messages[-1] = {"role": "user", "content": " ".join(TEXTS[::2])}
    answer = ask(f"{deployed}/v1/chat/completions", **body).json()["choices"][0]["message"]["content"]
    best, others = answer.split("\n\nSee also:\n- ")
    assert {best, *others.split("\n- ")} in [
        {TEXTS[n + 1], *(text for text in TEXTS[::2] if text != TEXTS[n])} for n in (0, 2, 4)
    ]


@pytest.mark.parametrize("content", ["zebra", "", " "])
def test_a_chat_without_an_answer(deployed: str, content: str) -> None:
    body = {"model": "faq", "messages": [{"role": "user", "content": content}]}
    answer = ask(f"{deployed}/v1/chat/completions", **body).json()["choices"][0]["message"]["content"]
    assert answer == "The FAQ has no answer to this question."


async def test_a_tool_for_agents(folder: Path) -> None:
    """The example, and the wrapper of a YAML pipeline that the documentation has; the YAML alone is none."""
    pytest.importorskip("mcp", reason='MCP is not installed (pip install "hayhooks[mcp]")')
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    shutil.copytree(EXAMPLE, folder / "tools" / "faq", dirs_exist_ok=True)
    (folder / "tools" / "wrapped").mkdir()
    shutil.copy(BY_WORDS, folder / "tools" / "wrapped" / "faq_search.yaml")
    shutil.copy(BY_WORDS, folder / "tools" / "yaml_alone.yml")
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "api.md").read_text("utf-8"), re.DOTALL)
    (wrapper,) = (block for block in blocks if "BasePipelineWrapper" in block)
    (folder / "tools" / "wrapped" / "pipeline_wrapper.py").write_text(wrapper, encoding="utf-8")
    with running(folder, "mcp", "run", "--pipelines-dir", "tools") as address:
        async with (
            streamable_http_client(f"{address}/mcp/") as (reading, writing, _),
            ClientSession(reading, writing) as session,
        ):
            await session.initialize()
            tools = {tool.name: tool for tool in (await session.list_tools()).tools}
            assert "yaml_alone" not in tools, "then the documentation need not explain it any more"
            tool = tools["faq"]
            assert tool.description == "Search the company's FAQ for the answers to a question."
            assert tool.inputSchema["required"] == ["question"]
            results = [await session.call_tool(name, {"question": "battery"}) for name in ("faq", "wrapped")]
    for result in results:
        assert not result.isError
        assert TEXTS[5] in result.content[0].text  # type: ignore[union-attr]
