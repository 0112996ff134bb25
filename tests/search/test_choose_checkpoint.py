"""Which checkpoint a search takes by itself, and what it says of one that is named."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from refusals import refused

from ap_ranker.errors import InputError
from ap_ranker.ranking.checkpoint import read_checkpoint_config, write_checkpoint_config
from ap_ranker.ranking.earlier_checkpoints import KEPT, earlier_checkpoints, go_back, keep_former
from ap_ranker.ranking.verdict import Verdict
from ap_ranker.search.choose_checkpoint import choose_checkpoint
from ap_ranker.search.setup import CHECKPOINT, set_up

BETTER = Verdict(True, "untrained", 40, 0.1, 0.4, 0.6, 0.7, 0.99)
WORSE = Verdict(False, "untrained", 40, 0.4, 0.1, 0.7, 0.6, 0.01)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory to work in, with a FAQ."""
    monkeypatch.chdir(tmp_path)
    Path("faq.csv").write_text(
        "question,answer\nWhere is my parcel?,Open the tracking link.\nWhen do you open?,At nine.\n"
    )
    return tmp_path


def put(folder: Path, checkpoint: Path, verdict: Verdict | None) -> None:
    """Let a checkpoint with this verdict be in a folder."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(checkpoint, folder)
    write_checkpoint_config(folder, replace(read_checkpoint_config(folder), verdict=verdict))


@pytest.mark.parametrize(
    ("verdict", "earlier", "chosen"),
    [
        (BETTER, {}, CHECKPOINT),
        (None, {}, CHECKPOINT),
        (WORSE, {}, None),
        (WORSE, {1: BETTER}, Path("checkpoints/faq.earlier/1")),
        (WORSE, {1: BETTER, 2: WORSE}, Path("checkpoints/faq.earlier/1")),
        (WORSE, {9: BETTER, 10: BETTER}, Path("checkpoints/faq.earlier/10")),
        (WORSE, {1: WORSE}, None),
        (BETTER, {1: BETTER}, CHECKPOINT),
    ],
)
def test_the_latest_recommended_one(
    place: Path, checkpoint: Path, verdict: Verdict | None, earlier: dict[int, Verdict], chosen: Path | None
) -> None:
    put(CHECKPOINT, checkpoint, verdict)
    for number, before in earlier.items():
        put(Path(f"{CHECKPOINT}.earlier/{number}"), checkpoint, before)
    assert choose_checkpoint(CHECKPOINT).folder == chosen


def test_without_a_checkpoint(place: Path) -> None:
    assert choose_checkpoint(CHECKPOINT).folder is None


def test_something_else_in_its_place(place: Path) -> None:
    CHECKPOINT.mkdir(parents=True)
    (CHECKPOINT / "notes.txt").write_text("mine")
    with refused("checkpoint"):
        choose_checkpoint(CHECKPOINT)


def test_a_damaged_earlier_one_is_passed_over(place: Path, checkpoint: Path) -> None:
    put(CHECKPOINT, checkpoint, WORSE)
    put(Path(f"{CHECKPOINT}.earlier/1"), checkpoint, BETTER)
    put(Path(f"{CHECKPOINT}.earlier/2"), checkpoint, BETTER)
    Path(f"{CHECKPOINT}.earlier/2/config.json").write_text("{")
    assert choose_checkpoint(CHECKPOINT).folder == Path(f"{CHECKPOINT}.earlier/1")


def test_a_search_chooses(place: Path, checkpoint: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The untrained encoder ranks in the place of what would be worse; once there is a better one, that one."""
    put(CHECKPOINT, checkpoint, WORSE)
    with set_up(Path("faq.csv")) as setup:
        assert setup.checkpoint == setup.current()
        assert setup.checkpoint is not None
        assert read_checkpoint_config(Path(setup.checkpoint)).training["epochs"] == 0
        assert "not recommended" in caplog.text
        put(CHECKPOINT, checkpoint, BETTER)
        assert setup.current() == str(CHECKPOINT)
        put(CHECKPOINT, checkpoint, WORSE)
        assert setup.current() == setup.checkpoint


def test_one_that_is_named_is_obeyed(place: Path, checkpoint: Path, caplog: pytest.LogCaptureFixture) -> None:
    put(Path("mine"), checkpoint, WORSE)
    with set_up(Path("faq.csv"), model="mine") as setup:
        assert setup.current() == "mine"
    assert [record.levelname for record in caplog.records if "not recommended" in record.message] == ["WARNING"]


def test_what_is_replaced_is_kept(place: Path, checkpoint: Path) -> None:
    """However often: once for each different checkpoint, the latest ones, and the way back is one step."""
    for number in range(KEPT + 2):
        put(CHECKPOINT, checkpoint, replace(BETTER, n_questions=number))
        keep_former(CHECKPOINT)
        keep_former(CHECKPOINT)
    kept = [read_checkpoint_config(folder).verdict for folder in earlier_checkpoints(CHECKPOINT)]
    assert [verdict.n_questions for verdict in kept if verdict is not None] == [2, 3, 4]
    put(CHECKPOINT, checkpoint, WORSE)
    go_back(CHECKPOINT)
    assert read_checkpoint_config(CHECKPOINT).verdict == replace(BETTER, n_questions=4)


def test_nothing_to_go_back_to(place: Path, checkpoint: Path) -> None:
    put(CHECKPOINT, checkpoint, WORSE)
    with pytest.raises(InputError):
        go_back(CHECKPOINT)
