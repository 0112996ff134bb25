"""What a newcomer does: install a wheel, run the README's commands in an empty directory, on files of their own."""

from __future__ import annotations

import csv
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from browser import find_browser
from conftest import ROOT
from exported import EXPORTS, IMPORTS
from handbook import FOUND, write_handbook
from search_server import served

pytestmark = pytest.mark.slow
EXAMPLE = ROOT / "examples" / "faq"
ANSWERS, WORDINGS = 45, 6
"""Of the spreadsheet: enough for the calibration that the README has."""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of an environment with the wheel; all else is that of this environment."""
    place = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", place, ROOT], check=True)
    (wheel,) = place.glob("*.whl")
    venv.create(place / "env", with_pip=False, symlinks=True)
    python = place / "env" / "bin" / "python"
    subprocess.run([*pip, "--python", python, "install", "--no-deps", wheel], check=True)
    (packages,) = (place / "env").glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")  # its own .pth files do not count
    return python


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of its own, from which nothing of the clone is imported."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def spreadsheet(path: Path) -> None:
    """A FAQ of which each row has a question that users ask, and its answer."""
    with (EXAMPLE / "answers.csv").open(encoding="utf-8", newline="") as file:
        answers = {row["aid"]: row["answer"] for row in csv.DictReader(file)}
    with (EXAMPLE / "train.csv").open(encoding="utf-8", newline="") as file:
        asked = [(row["question"], row["answer_ids"].split()[0]) for row in csv.DictReader(file) if row["answer_ids"]]
    counts: Counter[str] = Counter()
    rows = [("question", "answer")]
    for question, name in asked:
        if counts[name] < WORDINGS and (name in counts or len(counts) < ANSWERS):
            counts[name] += 1
            rows.append((question, answers[name]))
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)


def readme_commands() -> Iterator[list[str]]:
    """The commands of the README's part on own data, as it has them."""
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## Train, evaluate, ask")[1].split("\n## ")[0]
    for block in re.findall(r"```bash\n(.*?)```", section, re.DOTALL):
        yield from (shlex.split(line, comments=True) for line in block.splitlines())


def test_the_readme_on_a_spreadsheet(python: Path, empty: Path) -> None:
    """Every question is measured against the whole FAQ, and training has seen none of those."""
    spreadsheet(empty / "FAQ.csv")
    outputs: dict[str, str] = {}
    for program, *arguments in readme_commands():
        if arguments[0] == "serve":  # the same search as `ask`; the next test serves
            continue
        command = [python.parent / program, *arguments]
        ended = subprocess.run(command, check=False, cwd=empty, capture_output=True, text=True, timeout=900)
        assert ended.returncode == 0, ended.stderr
        outputs[arguments[0]] = ended.stdout
    assert outputs.keys() == {"split", "train", "evaluate", "ask", "calibrate"}
    assert f"all {ANSWERS} answers are candidates" in outputs["split"]
    assert f"Candidates: all {ANSWERS} answers." in outputs["evaluate"]
    assert "Warning" not in outputs["evaluate"]
    parts = [(empty / "data" / f"{name}.csv").read_text(encoding="utf-8") for name in ("train", "dev", "test")]
    questions = [{row["question"] for row in csv.DictReader(part.splitlines())} for part in parts]
    assert sum(map(len, questions)) == len(set().union(*questions)) > 200
    assert re.search(r"1\. 0\.\d{3} ", outputs["ask"])


def test_the_first_week(python: Path, empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All commands of its page in their order; those who visit the last search ask what no entry answers."""
    spreadsheet(empty / "FAQ.csv")
    text = (ROOT / "docs" / "first_week.md").read_text(encoding="utf-8")
    (page,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    (empty / "page.yaml").write_text(page, encoding="utf-8")
    monkeypatch.delenv("AP_RANKER_DATABASE", raising=False)
    lines = [line for block in re.findall(r"```bash\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    ran: list[str] = []
    for name, *arguments in (words[1:] for line in lines if (words := shlex.split(line, comments=True))[0] != "export"):
        if name == "install":
            continue
        ran.append(name)
        if name == "owner":
            ran[-1] = f"owner {arguments[0]}"
        if name == "serve":
            with served(*arguments, folder=empty, python=python) as server:
                for question in ("asdfgh qwertz", "when do I get my refund"):
                    reply = httpx.post(f"{server.address}api/search", json={"question": question}, timeout=60)
                    assert reply.status_code == 200, reply.text
            continue
        ended = subprocess.run(
            [python, "-m", "ap_ranker", name, *arguments], check=False, cwd=empty, capture_output=True, text=True
        )
        if name == "retrain":  # nothing was accepted in this week
            assert "wordings that are new to it, half of them to compare on, found 0" in " ".join(ended.stderr.split())
            continue
        assert ended.returncode == 0, f"{name}: {ended.stderr}"
    once = ("check", "ask", "split", "train", "evaluate", "calibrate", "retrain")
    once += tuple(f"owner {name}" for name in ("keys", "report", "gaps", "changes"))
    assert Counter(ran) == {"doctor": 2, "serve": 3} | dict.fromkeys(once, 1)
    assert "asdfgh" in (empty / "week.html").read_text(encoding="utf-8")
    assert "asdfgh" in (empty / "gaps.csv").read_text(encoding="utf-8")
    assert (empty / "NEW.csv").read_text(encoding="utf-8").count("refund")


def test_a_folder_becomes_a_page(python: Path, empty: Path) -> None:
    """By one command: a passage of each kind of file is found, with its source; what cannot be read stops nothing."""
    pytest.importorskip("playwright", reason="playwright is not installed")
    browser = find_browser()
    from playwright.sync_api import expect, sync_playwright

    write_handbook(empty / "handbook")
    with (
        served("handbook", folder=empty, python=python) as server,
        sync_playwright() as playwright,
    ):
        page = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"]).new_page()
        page.goto(server.address)
        for words, (title, file, number) in FOUND.items():
            page.get_by_label("Your question").fill(words)
            page.keyboard.press("Enter")
            cards = page.locator("#answers article", has_text=file)
            for part in [*(title or "").split(" > "), f"page {number}" if number else ""]:
                cards = cards.filter(has_text=part)
            expect(cards.first, words).to_be_visible(timeout=30_000)
        page.get_by_label("Your question").fill("kayak Etikett")
        page.keyboard.press("Enter")
        expect(page.locator("#answers .source a[href='https://help.example/returns']").first).to_be_attached()


def test_what_a_company_has_becomes_a_page(python: Path, empty: Path) -> None:
    """Exports of help centres and wikis, other tables: each is found, with its source."""
    for module, reason in (("playwright", "playwright is not installed"), ("python_calamine", "no extra excel")):
        pytest.importorskip(module, reason=reason)
    browser = find_browser()
    from playwright.sync_api import expect, sync_playwright

    shutil.copytree(EXPORTS, empty / "exports")
    with served("exports", folder=empty, python=python) as server, sync_playwright() as playwright:
        page = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"]).new_page()
        page.goto(server.address)
        for question, answer, _ in IMPORTS.values():
            page.get_by_label("Your question").fill(question)
            page.keyboard.press("Enter")
            expect(page.locator("#answers", has_text=answer), question).to_be_visible(timeout=30_000)
        page.get_by_label("Your question").fill(IMPORTS["zendesk.json"][0])
        page.keyboard.press("Enter")
        link = page.locator("#answers a[href='https://x.zendesk.com/hc/en-us/articles/1']").first
        expect(link).to_be_visible()
