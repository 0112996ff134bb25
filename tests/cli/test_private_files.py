"""What may hold visitors' words is written for its user alone: every command that writes it, whatever the umask is."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from conftest import TEXTS, write_checkpoint, write_faq
from owner_changes import append_change
from typer.testing import CliRunner

from ap_ranker.cli.main import app
from ap_ranker.data.split import DEV
from ap_ranker.evaluation.explanation_page import write_explanation
from ap_ranker.ranking.checkpoint import CONFIG, checkpoint_draft
from ap_ranker.ranking.earlier_checkpoints import alone, exchange
from ap_ranker.ranking.outcome import Outcome
from ap_ranker.web.changes import Action, Change
from ap_ranker.web.database import open_database
from ap_ranker.web.judgements import Judgements
from ap_ranker.web.question_log import QuestionLog

SAID = "Erika Mustermann asks where her parcel is"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A FAQ, whose database has what a visitor asked and said, and a change that has accepted it; any umask."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AP_RANKER_DATABASE", raising=False)
    write_faq(tmp_path / "faq.csv")
    website = open_database(tmp_path / "faq.db")
    log = QuestionLog(website)
    for question in (SAID, "does Erika Mustermann rent bikes"):  # of which the change knows the first
        log.add(question, "n", Outcome.NONE, [])
    log.close()
    Judgements(website).keep(question=SAID, answer=TEXTS[1], stored_question=TEXTS[0], helped=True, network="n")
    append_change(website, Change.make(Action.add_entry, question=SAID, answer="Wait.", wordings=("so",)))
    before = os.umask(0)
    yield tmp_path
    os.umask(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("is_there", [False, True])
@pytest.mark.parametrize(
    "command",
    [
        "owner gaps faq.csv --model ranker --output out.csv",
        "owner changes faq.csv --output out.csv",
        "owner report faq.csv --output out.html",
        "owner feedback export out.csv --database faq.db",
        "owner feedback export out.jsonl --database faq.db",
    ],
)
def test_the_owners_files(folder: Path, command: str, is_there: bool) -> None:
    write_checkpoint("ap-cnn", folder / "ranker")
    (path,) = (folder / word for word in command.split() if word.startswith("out."))
    if is_there and "feedback" not in command:
        path.write_text("older")
        path.chmod(0o666)
    result = CliRunner().invoke(app, command.split(), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "Mustermann" in path.read_text(encoding="utf-8")
    assert mode_of(path) == 0o600


def test_what_is_made_of_private_files(folder: Path) -> None:
    said = folder / "said.jsonl"
    rows = [{"question": SAID, "answer": TEXTS[1], "label": "1"}] * 2
    for mode in (0o600, 0o644):
        said.write_text("".join(json.dumps(row) + "\n" for row in rows))
        said.chmod(mode)
        for file in folder.glob("out*"):
            file.unlink()
        CliRunner().invoke(app, ["check", "said.jsonl", "--fix", "out.csv", "--json", "out.json"])
        written = [*folder.glob("out*")]
        assert len(written) >= 2
        assert {mode_of(path) for path in written} == {0o600 if mode == 0o600 else 0o666}


def test_an_explanation(folder: Path) -> None:
    checkpoint = write_checkpoint("ap-cnn", folder / "ranker")
    write_explanation(checkpoint, SAID, TEXTS[1], folder / "page.html")
    assert mode_of(folder / "page.html") == 0o600


def test_dev_questions_of_checkpoints(folder: Path) -> None:
    """Also of earlier ones, and where a new one is trained."""
    live, new = folder / "live", folder / "new"
    for place in (live, new):
        write_checkpoint("ap-cnn", place)
        with checkpoint_draft(place) as draft:
            for file in ("config.json", "model.safetensors", "tokenizer.json"):
                (draft / file).write_bytes((place / file).read_bytes())
            (draft / DEV).write_text(SAID + place.name)
            (draft / "README.md").write_text(place.name)
    with alone(live) as work:
        assert mode_of(work) == 0o700
        exchange(live, new, live)
    written = [*folder.rglob(DEV)]
    assert len(written) == 3
    assert {mode_of(path) for path in written} == {0o600}
    assert mode_of(live / CONFIG) == 0o666
