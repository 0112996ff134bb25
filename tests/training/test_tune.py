from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import optuna
import pytest
import torch
from conftest import write_encoder
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState
from refusals import absent, refused
from small_runs import of_topics

from ap_ranker.data.dataset import Dataset
from ap_ranker.errors import InputError
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.training import tune as module
from ap_ranker.training.config import TrainingConfig, read_training_config
from ap_ranker.training.search_space import Space, configure
from ap_ranker.training.train import train
from ap_ranker.training.tune import Search, tune

DATA = of_topics("where is my {}?", "the {} is gone")
BASE = TrainingConfig(
    "ap-cnn", {"filters": 8, "dropout": 0.0}, epochs=2, batch_size=4, embedding_size=8, answer_sentences=False
)
SPACE: Space = {"learning_rate": CategoricalDistribution((1e-9, 0.02)), "options.filters": IntDistribution(6, 9)}


def search(output: Path, trials: int, space: Space = SPACE, base: TrainingConfig = BASE, **other: Any) -> Search:
    return tune(DATA, DATA, space, output, base, trials=trials, device="cpu", **other)


def log(output: Path) -> optuna.Study:
    """The folder's log as optuna itself reads it."""
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(output / "trials.log")))
    return optuna.load_study(study_name=None, storage=storage)


def plant(output: Path, values: list[dict[str, Any]], measure: Any, epochs: int = 2) -> None:
    """Write complete trials into the log that nobody trained."""
    for params in values:
        log(output).add_trial(
            optuna.create_trial(
                params=params,
                distributions={name: SPACE[name] for name in params},
                value=measure(params),
                intermediate_values=dict.fromkeys(range(1, epochs + 1), measure(params)),
            )
        )


def files(output: Path) -> list[str]:
    return sorted(path.name for path in output.iterdir())


def same_weights(ranker: Ranker, other: Ranker) -> bool:
    weights = ranker.model.state_dict()
    others = other.model.state_dict()
    return weights.keys() == others.keys() and all(torch.equal(weights[name], others[name]) for name in weights)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[Search, Path, list[tuple[FrozenTrial, bool]]]:
    """A search of four trials, its folder, and what was told on the way."""
    told: list[tuple[FrozenTrial, bool]] = []
    output = tmp_path_factory.mktemp("tune") / "deep" / "out"
    result = search(output, 4, on_trial=lambda trial, best: told.append((trial, best)))
    return result, output, told


@pytest.fixture
def output(found: tuple[Search, Path, Any], tmp_path: Path) -> Path:
    """A copy of that folder."""
    return Path(shutil.copytree(found[1], tmp_path / "copy"))


def test_the_better_of_two_planted_settings_is_found(found: tuple[Search, Path, Any]) -> None:
    result, _, _ = found
    rates = {trial.params["learning_rate"]: trial.value for trial in result.trials}
    assert set(rates) == {1e-9, 0.02}  # both were tried
    assert result.best.params["learning_rate"] == 0.02
    assert result.best.value == max(trial.value or 0 for trial in result.trials)
    assert all(
        isinstance(t.params["options.filters"], int) and 6 <= t.params["options.filters"] <= 9 for t in result.trials
    )
    assert result.bm25 == EvaluationSet(DATA).bm25


def test_each_trial_is_told_once_with_the_best_so_far(
    found: tuple[Search, Path, list[tuple[FrozenTrial, bool]]],
) -> None:
    result, _, told = found
    assert [trial for trial, _ in told] == result.trials
    assert [trial.number for trial in result.trials] == [0, 1, 2, 3]
    measures = [trial.value or 0.0 for trial in result.trials]
    assert [best for _, best in told] == [
        all(mrr > earlier for earlier in measures[:i]) for i, mrr in enumerate(measures)
    ]


def test_the_best_checkpoint_and_its_settings_are_kept(found: tuple[Search, Path, Any], tmp_path: Path) -> None:
    result, output, _ = found
    assert files(output) == ["best.yaml", "checkpoint", "trials.log"]
    kept = Ranker.from_pretrained(output / "checkpoint", "cpu")
    config = read_training_config(output / "best.yaml", {})
    assert config == configure(BASE, result.best.params)
    again = train(DATA, DATA, tmp_path / "again", config, device="cpu")
    assert again.dev.model["MRR"] == result.best.value
    assert same_weights(kept, again.ranker)


def test_a_resumed_search_is_the_unbroken_one(found: tuple[Search, Path, Any], tmp_path: Path) -> None:
    unbroken, output, _ = found
    with patch.object(module, "train", wraps=train) as trained:
        search(tmp_path / "out", 1)
        resumed = search(tmp_path / "out", 4)
        assert trained.call_count == 4
        assert search(tmp_path / "out", 2).best == resumed.best  # all done: only the result
        assert trained.call_count == 4
    assert [(t.params, t.value) for t in resumed.trials] == [(t.params, t.value) for t in unbroken.trials]
    assert (tmp_path / "out" / "best.yaml").read_text() == (output / "best.yaml").read_text()


def test_other_seeds_draw_otherwise(tmp_path: Path) -> None:
    """Nor does a seed repeat another's draws, one trial later."""
    space = {"temperature": FloatDistribution(0.01, 0.1)}
    draws = {
        trial.params["temperature"]
        for seed in (1, 2)
        for trial in search(tmp_path / str(seed), 2, space, replace(BASE, epochs=1, seed=seed)).trials
    }
    assert len(draws) == 4


def killed(*args: Any, **kwargs: Any) -> Any:
    raise KeyboardInterrupt


def test_killed_while_training(tmp_path: Path) -> None:
    """The interrupted trial does not count, and nothing of it is left."""
    output = tmp_path / "out"
    search(output, 1)
    with patch.object(module.EvaluationSet, "timed_scores", killed), pytest.raises(KeyboardInterrupt):
        search(output, 3)
    assert [trial.state for trial in log(output).trials] == [TrialState.COMPLETE, TrialState.RUNNING]
    assert "trial-1.training" not in files(output)  # it had no state to go on from
    result = search(output, 3)
    assert [trial.number for trial in result.trials] == [0, 2, 3]
    assert [trial.state for trial in log(output).trials][1] == TrialState.FAIL
    assert files(output) == ["best.yaml", "checkpoint", "trials.log"]


def test_killed_before_the_log_knows_of_a_checkpoint(tmp_path: Path) -> None:
    """A complete checkpoint of a trial that never ended is not the best one's."""
    output = tmp_path / "out"
    with patch.object(optuna.Study, "tell", killed), pytest.raises(KeyboardInterrupt):
        search(output, 1)
    assert "trial-0" in files(output)
    result = search(output, 1)
    assert [trial.number for trial in result.trials] == [1]
    assert "number 2" in (output / "best.yaml").read_text()


@pytest.mark.parametrize("step", ["copytree", "write_text_atomically"])
def test_killed_before_the_checkpoint_is_in_its_place(step: str, tmp_path: Path) -> None:
    output = tmp_path / "out"
    search(output, 1, {"learning_rate": CategoricalDistribution((0.02,))})
    (output / "best.yaml").unlink()
    place = module.shutil if step == "copytree" else module
    work = log(output).trials[0]
    again = train(DATA, DATA, output / "trial-0", configure(BASE, work.params), device="cpu")
    with patch.object(place, step, killed), pytest.raises(KeyboardInterrupt):
        search(output, 1, {"learning_rate": CategoricalDistribution((0.02,))})
    result = search(output, 1, {"learning_rate": CategoricalDistribution((0.02,))})
    assert again.dev.model["MRR"] == result.best.value
    assert same_weights(Ranker.from_pretrained(output / "checkpoint", "cpu"), again.ranker)
    assert files(output) == ["best.yaml", "checkpoint", "trials.log"]


def test_a_line_that_was_cut_short_is_dropped(output: Path) -> None:
    with (output / "trials.log").open("a") as file:
        file.write('{"op_code":4,"wor')
    assert [trial.number for trial in search(output, 5).trials] == [0, 1, 2, 3, 4]
    assert [trial.number for trial in search(output, 5).trials] == [0, 1, 2, 3, 4]


def test_a_hopeless_run_is_ended_early(tmp_path: Path) -> None:
    """Five trials were perfect from the first epoch on; one that hardly learns is ended when the rule may judge it."""
    space, base, output = (
        {"learning_rate": CategoricalDistribution((1e-9,))},
        replace(BASE, epochs=8, patience=8),
        tmp_path / "out",
    )
    with patch.object(module, "train", killed), pytest.raises(KeyboardInterrupt):
        search(output, 1, space, base)
    plant(output, [{}] * 4, lambda _: 1.0, epochs=8)
    fifth = search(output, 5, space, base).trials[-1]
    assert (fifth.state, fifth.last_step) == (TrialState.COMPLETE, 8)  # four are too few to judge by
    plant(output, [{}], lambda _: 1.0, epochs=8)
    last = search(output, 7, space, base).trials[-1]
    assert (last.state, last.last_step) == (TrialState.PRUNED, 3)
    assert last.value == last.intermediate_values[3] < 1.0
    assert files(output) == ["trials.log"]  # the best ones were planted


def test_values_that_do_not_fit_each_other_fail_the_trial_and_the_search_goes_on(tmp_path: Path) -> None:
    """Each is valid alone: a frozen encoder may have last layers that learn, and one that learns may not."""
    options = {"encoder": str(write_encoder(tmp_path / "encoder")), "size": 4}
    base = TrainingConfig("ap-transformer", options, epochs=1, max_tokens=20)
    space: Space = {
        "options.frozen": CategoricalDistribution((False,)),
        "options.trained_layers": CategoricalDistribution((1, 0)),
    }
    trials = search(tmp_path / "out", 4, space, base).trials
    states = {(trial.params["options.trained_layers"], trial.state) for trial in trials}
    assert states == {(1, TrialState.FAIL), (0, TrialState.COMPLETE)}
    failed = next(trial for trial in trials if trial.state == TrialState.FAIL)
    assert not absent("frozen: true … trained_layers: 1", failed.user_attrs["error"])


@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param({}, id="many steps", marks=pytest.mark.slow),
        pytest.param({"batch_size": 64, "epochs": 1}, id="at the only step"),
    ],
)
@pytest.mark.usefixtures("diverging")
def test_numbers_that_overflow_fail_the_trial_and_the_search_goes_on(sizes: dict[str, int], tmp_path: Path) -> None:
    space = {"learning_rate": CategoricalDistribution((10.0, 0.02))}
    result = search(tmp_path / "out", 5, space, replace(BASE, optimizer="sgd", **sizes))
    states = {trial.params["learning_rate"]: (trial.state, trial.user_attrs) for trial in result.trials}
    assert states[0.02] == (TrialState.COMPLETE, {})
    assert states[10.0][0] == TrialState.FAIL
    assert "The model has diverged" in states[10.0][1]["error"]
    assert len(result.trials) == 5  # failed ones count, or such a search might never end


@pytest.mark.parametrize("error", [InputError("no such thing\nat all"), torch.OutOfMemoryError("too large")])
def test_settings_that_training_refuses(error: Exception, tmp_path: Path) -> None:
    runs: list[Path] = []

    def refuse_the_first(*args: Any, **kwargs: Any) -> Any:
        runs.append(args[2])
        if len(runs) == 1:
            raise error
        return train(*args, **kwargs)

    with patch.object(module, "train", refuse_the_first):
        result = search(tmp_path / "out", 2)
    first, second = result.trials
    assert (first.state, first.value) == (TrialState.FAIL, None)
    assert first.user_attrs == {"error": str(error).split("\n")[0]}
    assert second == result.best


@pytest.mark.usefixtures("diverging")
def test_no_trial_succeeds(tmp_path: Path) -> None:
    with refused("2 … diverged"):
        search(tmp_path / "out", 2, {"learning_rate": CategoricalDistribution((10.0,))}, replace(BASE, optimizer="sgd"))


def test_options_of_a_model_are_drawn_for_that_model_only(tmp_path: Path) -> None:
    space = {
        "options.hidden": IntDistribution(3, 4),
        "options.filters": IntDistribution(6, 9),
        "model": CategoricalDistribution(("qa-bilstm", "qa-cnn")),
        "learning_rate": CategoricalDistribution((0.02,)),
    }
    result = search(tmp_path / "out", 4, space)
    drawn = {trial.params["model"]: set(trial.params) for trial in result.trials}
    assert drawn == {
        "qa-bilstm": {"model", "learning_rate", "options.hidden"},
        "qa-cnn": {"model", "learning_rate", "options.filters"},
    }
    assert Ranker.from_pretrained(tmp_path / "out" / "checkpoint", "cpu").config is not None
    assert read_training_config(tmp_path / "out" / "best.yaml", {}).model == result.best.params["model"]


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        ({"space": {"learning_rate": CategoricalDistribution((0.02,))}}, "space learning_rate, space options.filters"),
        ({"base": replace(BASE, epochs=3)}, "setting epochs"),
        ({"base": replace(BASE, seed=2)}, "setting seed"),
        ({"data": replace(DATA, questions=DATA.questions[1:])}, "data training questions"),
        ({"dev": replace(DATA, questions=DATA.questions[1:])}, "data dev questions"),
        ({"base": replace(BASE, embeddings="v.txt")}, "setting embeddings"),
    ],
)
def test_another_search_is_not_mixed_in(
    change: dict[str, Any],
    facts: str,
    found: tuple[Search, Path, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, output, _ = found
    (tmp_path / "v.txt").write_text("parcel 1 2 3\nrefund 4 5 6\n")
    monkeypatch.chdir(tmp_path)
    arguments: dict[str, Any] = {"data": DATA, "dev": DATA, "space": SPACE, "base": BASE, **change}
    before = (output / "trials.log").read_bytes()
    with refused(facts) as raised:
        tune(output=output, trials=9, device="cpu", **arguments)
    assert str(output) in str(raised.value)
    assert (output / "trials.log").read_bytes() == before


def test_the_same_data_elsewhere_is_the_same_search(found: tuple[Search, Path, Any]) -> None:
    result, output, _ = found
    moved = replace(DATA, name="elsewhere")
    assert tune(moved, moved, SPACE, output, BASE, trials=4, device="cpu").trials == result.trials


def test_a_folder_that_holds_something_else(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with refused("folder"):
        search(tmp_path, 1)
    assert files(tmp_path) == ["notes.txt"]


@pytest.mark.parametrize("definition", [3, [1], {"space": 3}])
def test_a_log_with_another_definition(definition: Any, output: Path) -> None:
    log(output).set_user_attr("definition", definition)
    with refused(str(output)):
        search(output, 5)


def test_a_log_of_trials_that_nothing_defines(tmp_path: Path) -> None:
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(tmp_path / "trials.log")))
    optuna.create_study(study_name="tune", storage=storage, direction="maximize").ask()
    with refused("setting epochs"):
        search(tmp_path, 1)


def test_a_damaged_log(output: Path) -> None:
    (output / "trials.log").write_text("no json\n" + (output / "trials.log").read_text())
    with refused("trials.log"):
        search(output, 2)


def test_nothing_is_begun_with_a_mistake(tmp_path: Path) -> None:
    output, nothing = tmp_path / "out", Dataset("none", DATA.answers, [])
    with refused("cuda:99"):
        tune(DATA, DATA, SPACE, output, BASE, device="cuda:99")
    for data, dev in ((nothing, DATA), (DATA, nothing)):
        with refused("none … right"):
            tune(data, dev, SPACE, output, BASE, device="cpu")
    with refused("nowhere.txt"):
        search(output, 1, base=replace(BASE, embeddings="nowhere.txt"))
    assert not output.exists()


def test_optuna_is_quiet_and_then_as_before(
    found: tuple[Search, Path, Any], capfd: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder
) -> None:
    _, output, _ = found
    before = optuna.logging.get_verbosity()
    search(output, 4)
    assert optuna.logging.get_verbosity() == before
    assert capfd.readouterr() == ("", "")
    assert not [warning for warning in recwarn if "xperimental" in str(warning.message)]


def test_the_log_is_lines_of_json(found: tuple[Search, Path, Any]) -> None:
    _, output, _ = found
    lines = (output / "trials.log").read_text().splitlines()
    assert all(isinstance(json.loads(line), dict) for line in lines)
