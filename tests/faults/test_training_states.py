"""A run that is killed, runs out of disk or meets another run: what is saved is whole, and `--resume` goes on."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from disks import MountError, fill, small_disk
from naive import SMALL
from refusals import absent, refused
from transformers import TrainerCallback
from typer.testing import CliRunner

from ap_ranker.cli.main import app
from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.errors import InputError
from ap_ranker.files import WriteError, locked
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.resume_folder import ResumeFolder
from ap_ranker.training.train import train
from ap_ranker.training.training_data import read_training_data

WORDS = ["parcel", "refund", "battery", "helmet"]
DATA = Dataset(
    "tiny",
    [Answer(word, f"all about the {word}") for word in WORDS],
    [Question(f"{word}{i}", f"{ask} {word}", (row,)) for row, word in enumerate(WORDS) for i, ask in enumerate("ab")],
)
EPOCHS = 3
CONFIG = TrainingConfig("ap-cnn", SMALL["ap-cnn"], batch_size=4, embedding_size=4, epochs=EPOCHS, patience=9)


class Killed(BaseException):
    """What a kill does to the code that runs, but for what it leaves to clean up: tests below plant that."""


class After(TrainerCallback):
    """Does something when the state of an epoch has been saved."""

    def __init__(self, epoch: int, what: Callable[[], object]) -> None:
        self.epoch, self.what = epoch, what

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if round(state.epoch) == self.epoch:
            self.what()


def die() -> None:
    raise Killed


def run(
    output: Path, *, resume: bool = False, after: After | None = None, data: tuple[Dataset, Dataset] = (DATA, DATA)
) -> Ranker:
    callbacks = () if after is None else (after,)
    return train(*data, output, CONFIG, device="cpu", resume=resume, callbacks=callbacks).ranker


def equal(first: Ranker, second: Ranker) -> bool:
    a, b = first.model.state_dict(), second.model.state_dict()
    return all(torch.equal(a[name], b[name]) for name in a)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Ranker:
    return run(tmp_path_factory.mktemp("unbroken") / "c")


def newest(output: Path) -> Path:
    last = ResumeFolder(output).last
    assert last is not None
    return last


def in_the_middle_of_a_file(output: Path) -> None:
    """What a kill leaves while the Trainer saves: the newest folder lacks files, and one of them ends early."""
    half = ResumeFolder(output).of_step(99)
    shutil.copytree(newest(output), half)
    (half / "trainer_state.json").unlink()
    os.truncate(half / "optimizer.pt", 100)


def in_the_middle_of_the_notes(output: Path) -> None:
    in_the_middle_of_a_file(output)
    (ResumeFolder(output).of_step(99) / "trainer_state.json").write_text('{"best_global_step": 2, "log_')


def moved_to_another_place(output: Path) -> None:
    """The Trainer notes where the best state was, and forgets it without a word if it is not there."""
    state = json.loads((newest(output) / "trainer_state.json").read_text())
    state["best_model_checkpoint"] = "somewhere/else"
    (newest(output) / "trainer_state.json").write_text(json.dumps(state))


@pytest.mark.parametrize("left", [in_the_middle_of_a_file, in_the_middle_of_the_notes, moved_to_another_place])
@pytest.mark.parametrize("epoch", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_resume_takes_the_newest_whole_state(
    left: Callable[[Path], None], epoch: int, unbroken: Ranker, tmp_path: Path
) -> None:
    with pytest.raises(Killed):
        run(tmp_path / "c", after=After(epoch, die))
    left(tmp_path / "c")
    assert equal(run(tmp_path / "c", resume=True), unbroken)
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_a_state_without_the_best_one_is_none(unbroken: Ranker, tmp_path: Path) -> None:
    """Its run could not end with the best weights."""
    with pytest.raises(Killed):
        run(tmp_path / "c", after=After(2, die))
    states = ResumeFolder(tmp_path / "c")
    noted = json.loads((newest(tmp_path / "c") / "trainer_state.json").read_text())
    noted["best_global_step"] = 77
    (newest(tmp_path / "c") / "trainer_state.json").write_text(json.dumps(noted))
    assert states.last != states.of_step(noted["global_step"])
    assert equal(run(tmp_path / "c", resume=True), unbroken)


OTHER_ANSWERS = replace(DATA, answers=[replace(DATA.answers[0], text="all about the bottle"), *DATA.answers[1:]])


@pytest.mark.parametrize(
    ("data", "dev", "settings", "found"),
    [
        (DATA, DATA, {"options": {**SMALL["ap-cnn"], "filters": 3}}, "options"),
        (DATA, DATA, {"optimizer": "sgd"}, "optimizer"),
        (DATA, DATA, {"batch_size": 2, "seed": 2}, "batch_size, seed"),
        (OTHER_ANSWERS, DATA, {}, "data"),  # the same number of words: the weights would fit, each to another word
        (DATA, replace(DATA, questions=DATA.questions[1:]), {}, "dev"),
    ],
    ids=["shape", "optimizer", "batches", "data", "dev"],
)
def test_another_run_is_not_resumed(
    data: Dataset, dev: Dataset, settings: dict[str, Any], found: str, tmp_path: Path
) -> None:
    with pytest.raises(Killed):
        run(tmp_path / "c", after=After(1, die))
    before = newest(tmp_path / "c")
    with refused(f"c.training … {found} … remove"):
        train(data, dev, tmp_path / "c", replace(CONFIG, **settings), device="cpu", resume=True)
    assert newest(tmp_path / "c") == before


def test_a_run_may_end_later_than_it_was_to(tmp_path: Path) -> None:
    """One of before `run.json` was kept goes on, too."""
    for kept in (True, False):
        output = tmp_path / str(kept)
        with pytest.raises(Killed):
            run(output, after=After(1, die))
        if not kept:
            (ResumeFolder(output).folder / "run.json").unlink()
        train(DATA, DATA, output, replace(CONFIG, epochs=4, patience=7), device="cpu", resume=True)
        assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".training")] == []


class Evaluated(TrainerCallback):
    """The epochs that were evaluated."""

    def __init__(self) -> None:
        self.epochs: list[int] = []

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.epochs.append(round(state.epoch))


@pytest.mark.parametrize("killed", [2, 3, 4])
def test_a_resumed_run_has_waited_for_a_better_epoch_before(killed: int, tmp_path: Path) -> None:
    """The first of them is the best, so that the fourth is the last; perhaps it was killed just after that one."""
    config = replace(CONFIG, learning_rate=1e-9, epochs=9, patience=3)
    evaluated = Evaluated()
    with pytest.raises(Killed):
        train(DATA, DATA, tmp_path / "c", config, device="cpu", callbacks=(evaluated, After(killed, die)))
    result = train(DATA, DATA, tmp_path / "c", config, device="cpu", resume=True, callbacks=(evaluated,))
    assert (result.best_epoch, evaluated.epochs) == (1, [1, 2, 3, 4])


def test_a_run_without_a_state_resumes_as_any_other(tmp_path: Path) -> None:
    """It was killed before its first epoch ended: nothing of it is gone on from."""
    killed = patch("ap_ranker.training.train.initialize_model", side_effect=Killed)
    with pytest.raises(Killed), killed, patch.object(ResumeFolder, "remove"):  # as a kill leaves it
        run(tmp_path / "c")
    assert (tmp_path / "c.training" / "run.json").is_file()
    train(DATA, DATA, tmp_path / "c", replace(CONFIG, seed=2), device="cpu", resume=True)


@pytest.mark.parametrize("call", [1, 6, *(pytest.param(call, marks=pytest.mark.slow) for call in (4, 5, 7, 8, 12))])
def test_killed_at_any_write_of_a_state(call: int, unbroken: Ranker, tmp_path: Path) -> None:
    """At no moment is there less than before: once a state was saved, one can be gone on from."""
    saved, calls, save = 0, 0, torch.save

    def dying(*arguments: Any, **options: Any) -> None:
        nonlocal calls, saved
        calls += 1
        if calls == call:
            raise Killed
        save(*arguments, **options)

    def count() -> None:
        nonlocal saved
        saved += 1

    with patch("torch.save", dying), pytest.raises(Killed):
        train(
            *(DATA, DATA, tmp_path / "c", CONFIG),
            device="cpu",
            callbacks=tuple(After(epoch, count) for epoch in range(1, EPOCHS + 1)),
        )
    states = ResumeFolder(tmp_path / "c")
    assert (states.last is not None) == (saved > 0)
    assert equal(run(tmp_path / "c", resume=saved > 0), unbroken)


@pytest.mark.parametrize("remembered", ["best", "last"])
def test_the_best_state_and_the_last_one_are_kept_and_no_others(remembered: str, tmp_path: Path) -> None:
    with pytest.raises(Killed):
        run(tmp_path / "c", after=After(EPOCHS, die))
    noted = json.loads((newest(tmp_path / "c") / "trainer_state.json").read_text())
    steps = {"best": noted["best_global_step"], "last": noted["global_step"]}
    states = ResumeFolder(tmp_path / "c")
    assert states.of_step(steps[remembered]).is_dir()
    kept = {states.of_step(step).name for step in steps.values()}
    scores = {path.name for path in states.folder.glob("dev-scores-*.safetensors")}
    assert len(scores) == EPOCHS  # of each epoch: parts of the dev questions have epochs of their own
    assert {path.name for path in states.folder.iterdir()} == {"run.json", *kept, *scores}
    run(tmp_path / "c", resume=True)
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_a_full_disk_stops_the_run_and_the_next_one_goes_on(unbroken: Ranker, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    try:
        with small_disk(disk, 4096):
            with refused("c.training", by=WriteError):
                run(disk / "c", after=After(1, lambda: fill(disk, leave=8)))
            assert newest(disk / "c")
            with pytest.raises(WriteError):
                run(disk / "c", resume=True)
            (disk / "filler").unlink()
            assert equal(run(disk / "c", resume=True), unbroken)
    except MountError as reason:
        pytest.skip(f"nothing can be mounted here: {reason}")


def test_an_output_that_cannot_be_written_is_refused_before_training(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with refused(f"{tmp_path / 'file'}", by=WriteError), patch("ap_ranker.training.train.initialize_model", die):
        run(tmp_path / "file" / "c")


def test_a_run_that_fails_before_its_first_state_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        train(DATA, DATA, tmp_path / "c", TrainingConfig("ap-cnn", {"no_such_option": 1}), device="cpu")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rows = [f"{question.text},{DATA.answers[question.positives[0]].text}\n" for question in DATA.questions]
    for name in ("train.csv", "dev.csv"):
        (tmp_path / name).write_text("question,answer\n" + "".join(rows))
    (tmp_path / "settings.yaml").write_text(
        f"model: ap-cnn\noptions: {json.dumps(dict(SMALL['ap-cnn']))}\nbatch_size: 4\nembedding_size: 4\n"
        f"epochs: {EPOCHS}\npatience: 9\n"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(*options: str) -> tuple[str, int]:
    arguments = ["train", ".", "--config", "settings.yaml", "--output", "c", "--device", "cpu", *options]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "400"})
    return f"{result.output}{result.exception or ''}", result.exit_code


@pytest.mark.parametrize(
    "option", [("--resume",), *(pytest.param(each, marks=pytest.mark.slow) for each in ((), ("--overwrite",)))]
)
def test_killed_before_the_first_state(option: tuple[str, ...], folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """There is nothing to choose: every way trains, and --resume says that it starts over."""
    (folder / "c.training" / "checkpoint-2").mkdir(parents=True)
    said, code = command(*option)
    assert (code, (folder / "c").is_dir(), (folder / "c.training").exists()) == (0, True, False), said
    anew = "c.training: no epoch of the unfinished run was saved; it starts over."
    assert (anew in caplog.text) == (option == ("--resume",))


def test_messages_name_the_ways_to_go_on(folder: Path) -> None:
    data = read_training_data(folder, None, None, CONFIG)
    with pytest.raises(Killed):
        run(folder / "c", after=After(1, die), data=data)
    assert not absent("c.training … --resume … --overwrite", command()[0])
    said, code = command("--resume")
    assert code == 0, said
    with pytest.raises(Killed):
        run(folder / "c", after=After(1, die), data=data)
    assert not absent("--overwrite … --resume --overwrite", command()[0])
    said, code = command("--resume", "--overwrite")
    assert code == 0, said
    assert not absent("--overwrite", command()[0])


def test_two_runs_for_one_output(folder: Path) -> None:
    """Whichever options the second one has, it stops at once and does no harm."""
    (folder / "c.training").mkdir()
    with locked(folder / "c.training"):
        for options in ((), ("--resume",), ("--overwrite",)):
            with patch("ap_ranker.cli.train.read_training_data", die):  # it stops before it reads anything
                said, code = command(*options)
            assert code != 0
            assert not absent("c.training", said)
    with refused("d.training"):
        run(folder / "d", after=After(2, lambda: run(folder / "d")))
    said, code = command()
    assert code == 0, said


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Sums of several threads differ in their last bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
