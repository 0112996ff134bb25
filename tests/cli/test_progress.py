"""What takes seconds shows on standard error how far it is, and of how much, in each command that has such a step."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from command_line import run
from conftest import write_checkpoint, write_encoder, write_faq
from searches import write_pipeline

from ap_ranker.cli.main import COMMANDS
from ap_ranker.ranking.outcome import Outcome
from ap_ranker.web import connections
from ap_ranker.web.database import open_database
from ap_ranker.web.question_log import QuestionLog

PAIRS = "question,answer\n" + "".join(
    f"{pattern.format(topic)},All about your {topic} [and more].\n"
    for topic in ("parcel", "refund", "battery", "helmet")
    for pattern in ("where is my {}", "the {} is gone", "help with a {}")
)
SETTINGS = "model: ap-cnn\noptions: {filters: 8}\nembedding_size: 8\nepochs: 1\n"
TRAINED = ("--config", "settings.yaml", "--device", "cpu")

SHOWN = {
    "ask": (["ask", "where?", "--documents", "FAQ.csv", "--model", "encoder_ranker"], "encoding the answers", 3),
    "serve": (["serve", "FAQ.csv", "--model", "encoder_ranker", "--port", 0], "loading the checkpoint", 1),
    "split": (["split", "pairs.csv", "--output", "parts"], "looking for near copies", 12),
    "train": (["train", "pairs.csv", *TRAINED, "--output", "t"], "looking for near copies", 12),
    "evaluate": (["evaluate", "ranker", "pairs.csv"], "reading the answers", 4),
    "evaluate --pipeline": (
        ["evaluate", "ranker", "pairs.csv", "--answers", "pairs.csv", "--pipeline", "search.yaml"],
        "asking the pipeline",
        12,
    ),
    "calibrate": (["calibrate", "ranker", "pairs.csv", "--answers", "pairs.csv"], "reading the answers", 12),
    "doctor": (["doctor", "FAQ.csv", "--model", "encoder_ranker"], "examining", 7),
    "check": (["check", "pairs.csv"], "looking for faults in 12 questions", 12),
    "check of documents": (["check", "texts"], "reading documents", 2),
    "extract": (["extract", "texts", "--output", "asked.csv"], "reading documents", 2),
    "synonyms": (
        ["synonyms", "words.txt", "--documents", "pairs.csv", "--questions", "pairs.csv"],
        "searching",
        12,
    ),
    "init": (
        ["init", "--documents", "texts", "--encoder", "encoder", "--output", "i"],
        "reading a sample of the texts",
        None,
    ),
    "distill": (["distill", "ranker", "pairs.csv", *TRAINED, "--output", "d"], "scoring with the teacher", None),
    "tune": (
        ["tune", "pairs.csv", *TRAINED, "--space", "space.yaml", "--output", "s", "--trials", 2],
        "epochs of trial 2 of 2",
        1,
    ),
    "compare": (
        ["compare", "pairs.csv", "--test", "pairs.csv", "--models", "bow-idf,bm25", "--epochs", 1, "--output", "c"],
        "run 2 of 2: scoring the test questions",
        4,
    ),
    "index": (["index", "texts", "--pipeline", "index.yaml"], "reading documents", 2),
    "encode": (["encode", "ranker", "texts", "--output", "e"], "encoding", 2),
    "explain": (
        ["explain", "ranker", "--question", "a", "--answer", "b", "--output", "e.html"],
        "loading libraries",
        None,
    ),
    "retrain": (["retrain", "FAQ.csv", "--model", "encoder_ranker"], "loading the checkpoint", 1),
    "owner gaps": (["owner", "gaps", "FAQ.csv", "--model", "encoder_ranker"], "looking up groups", None),
}
"""Command -> its arguments, a step that it shows, and of how many; `None` where that is not told in the table."""

AT_ONCE = {"models", "push", "pipelines"}
"""Commands that take no two seconds, or whose bars are those of the hub's library."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all that the commands are given."""
    folder = tmp_path_factory.mktemp("progress")
    write_faq(folder / "FAQ.csv")
    (folder / "pairs.csv").write_text(PAIRS)
    (folder / "settings.yaml").write_text(SETTINGS)
    (folder / "space.yaml").write_text("learning_rate: [0.01, 0.02]\n")
    (folder / "words.txt").write_text("parcel = package\n")
    (folder / "texts").mkdir()
    for name in ("a", "b"):
        (folder / "texts" / f"{name}.md").write_text(f"# Where is {name}?\n\nIt is in the yard of {name}.\n")
    write_checkpoint("ap-cnn", folder / "ranker")
    write_checkpoint("ap-transformer", folder / "encoder_ranker")
    write_encoder(folder / "encoder", max_position_embeddings=202)
    write_pipeline(folder, Path("ranker"))
    stored = (folder / "search.yaml").read_text().replace("index: ", "path: store\n        unused: ")
    (folder / "index.yaml").write_text(stored)
    website = open_database(str(folder / "FAQ.db"))
    log = QuestionLog(website)
    for topic in ("parcel", "refund"):
        log.add(f"where is my {topic}", "network", Outcome.NONE, [])
    log.close()
    website.close()
    return folder


def test_each_command_is_in_the_table() -> None:
    named = {command.__name__ for commands in COMMANDS.values() for command in commands}
    assert named <= {*SHOWN, *AT_ONCE}


@pytest.mark.parametrize("command", SHOWN)
def test_a_terminal_shows_the_step_and_what_is_left(command: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments, step, total = SHOWN[command]
    monkeypatch.setenv("FORCE_COLOR", "1")  # as in a terminal
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(connections, "run", lambda app, listening: None)  # a server that ends at once
    ended = run(*arguments, folder=place)
    shown = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", ended.errors)
    assert step in shown, shown
    of_all = r"[\d?]+" if total is None else str(total)
    assert re.search(rf"{re.escape(step)}[^\n]*\d/{of_all}", shown), shown
    assert step not in ended.output


def test_what_is_no_terminal_shows_nothing(place: Path) -> None:
    ended = run("check", "pairs.csv", folder=place)
    assert ended.errors == ""
