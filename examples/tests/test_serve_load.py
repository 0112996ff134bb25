"""The load test for real, on a toy checkpoint; and what it says of a server that fails."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import forked
import pytest
from conftest import ROOT, imported
from searches import write_pipeline

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

HERE = ROOT / "examples" / "serve_load"


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with imported(HERE / "run.py") as module:
        yield module


@pytest.fixture
def run(tmp_path: Path, checkpoint: Path, faq: Path) -> Callable[..., str]:
    inputs = {"documents": faq, "questions": faq, "pipeline": write_pipeline(tmp_path, checkpoint)}
    given = [part for name, path in inputs.items() for part in (f"--{name}", str(path))]

    def run(script: str, *options: object) -> str:
        program = f"import runpy; runpy.run_path({str(HERE / script)!r}, run_name='__main__')"
        result = forked.run(program, *given, *options, folder=tmp_path)
        assert result.returncode == 0, result.stderr
        return result.stdout

    return run


def test_what_an_answer_costs(run: Callable[..., str]) -> None:
    [*_, row] = run("processor_time.py", "--turns", 1, "--users", 2).strip().splitlines()
    checkout, milliseconds, ratio = (cell.strip() for cell in row.strip("|").split("|"))
    assert checkout == str(ROOT)
    assert 0 < float(milliseconds) < 10_000
    assert float(ratio) == 1


@pytest.mark.slow
def test_a_few_users_for_a_moment(run: Callable[..., str], tmp_path: Path) -> None:
    run("run.py", "--output", tmp_path / "out", "--users", 3, "--seconds", 1.2)
    record = json.loads((tmp_path / "out" / "results.json").read_text())
    assert record["about"].startswith("3 answers, 3 questions, `ap-cnn`. ")
    many, alone = record["loads"]
    assert [many["users"], alone["users"]] == [3, 1]
    for each, seconds in ((many, 1.2), (alone, 0.3)):
        assert each["errors"] == {}
        assert each["requests"] >= each["users"]
        assert each["seconds"] >= seconds
        assert each["per_second"] == pytest.approx(each["requests"] / each["seconds"])
        assert 0 < each["p50"] <= each["p95"] <= 1000 * each["seconds"]
        assert all(50 < megabytes < 4000 for megabytes in each["megabytes"])
    written = (tmp_path / "out" / "results.md").read_text()
    rows = [line.split("|")[1:-1] for line in written.splitlines() if line.startswith("|")]
    assert [len(row) for row in rows] == [len(rows[0])] * 4
    assert [row[2].strip().replace(",", "") for row in rows[2:]] == [str(each["requests"]) for each in (many, alone)]
    assert not list(tmp_path.glob("**/*.db"))


def test_answers_and_errors_are_told_apart(script: ModuleType) -> None:
    """Every third request is refused, and every third connection breaks."""
    asked = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
            assert length
            assert json.loads(await reader.readexactly(int(length[1])))["question"] in {"a", "b"}
            asked += 1
            await asyncio.sleep(0.02)
            if asked % 3 == 0:
                break
            status = b"200 OK" if asked % 3 == 1 else b"503 Service Unavailable"
            writer.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 2\r\n\r\n{}")
        writer.close()

    async def measure() -> tuple[Any, Any]:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as listening:
            port = listening.sockets[0].getsockname()[1]
            server = SimpleNamespace(address=f"http://127.0.0.1:{port}/", process=SimpleNamespace(pid=os.getpid()))
            return await script.load(server, ["a", "b"], 1, 0.5)

    load, _ = asyncio.run(measure())
    assert load.requests == asked >= 6
    assert load.errors == {"503": (asked + 1) // 3, "RemoteProtocolError": asked // 3}
    answered = asked - sum(load.errors.values())
    assert load.per_second == pytest.approx(answered / load.seconds)
    assert 20 <= load.p50 <= 1000 * load.seconds
