from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from conftest import TEXTS, write_checkpoint, write_encoder
from refusals import refused

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.data.wordings import with_wordings
from ap_ranker.errors import InputError
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.significance import randomisation_test
from ap_ranker.models.registry import MODELS
from ap_ranker.ranking.cache import EncodingCache
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.training import compare as module
from ap_ranker.training import train as train_module
from ap_ranker.training.compare import ALONE, WITH_BM25, Comparison, Contender, compare, run_folder
from ap_ranker.training.config import TrainingConfig

DATA = Dataset(
    "pairs",
    [Answer(str(i), text) for i, text in enumerate(TEXTS)],
    [Question(str(i), text, (i + 1,)) for i, text in enumerate(TEXTS[:-1])],
)
CONFIG = TrainingConfig(epochs=1, embedding_size=8, batch_size=4)
CONTENDERS = Contender.parse_all("ap-cnn:filters=6,qa-bilstm:hidden=3:similarity=gesd")


def run(output: Path, config: TrainingConfig = CONFIG) -> Comparison:
    return compare(CONTENDERS, DATA, DATA, DATA, output, config, seeds=[1, 2], device="cpu")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Comparison]:
    """A comparison and its folder, which no test changes."""
    folder = tmp_path_factory.mktemp("finished") / "c"
    return folder, run(folder)


def test_contenders_are_named_with_their_options() -> None:
    assert CONTENDERS[1].model == "qa-bilstm"
    assert CONTENDERS[1].options == {"hidden": 3, "similarity": "gesd"}
    assert [contender.label for contender in Contender.parse_all("all")] == sorted(MODELS)
    assert [contender.label for contender in Contender.parse_all("ap-cnn, qa-cnn, ap-cnn")] == ["ap-cnn", "qa-cnn"]


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("ap-cn", "ap-cn"),
        ("ap-cnn:filters", "NAME:option=value … ap-cnn:filters"),
        ("ap-cnn:filter=3", "filter"),
        ("qa-cnn:similarity=near", "similarity … cosine … gesd … near"),
    ],
)
def test_bad_contenders(text: str, facts: str) -> None:
    with refused(facts):
        Contender.parse_all(f"qa-cnn,{text}")


def test_the_table_holds_what_the_checkpoints_measure(finished: tuple[Path, Comparison]) -> None:
    folder, comparison = finished
    alone = EvaluationSet(DATA)
    with_known = EvaluationSet(with_wordings(DATA, DATA))  # as a search that knows the training questions
    assert comparison.bm25 == alone.bm25
    labels = {contender.label for contender in CONTENDERS}
    with_vectors = CONTENDERS[1].label  # the attention of the other one compares no question with a known wording
    fused = {label + WITH_BM25 for label in labels}
    assert {result.label for result in comparison.results} == labels | fused | {with_vectors + ALONE}
    raw = []
    for result in comparison.results:
        evaluation_set = alone if result.label.endswith(ALONE) else with_known
        name = result.label.removesuffix(ALONE).removesuffix(WITH_BM25).replace(":", ",")
        rankers = [Ranker.from_pretrained(folder / f"{name}-seed{seed}") for seed in (1, 2)]
        reports = [evaluation_set.report(ranker) for ranker in rankers]
        if result.label in fused:
            reports = [replace(report, model_each=report.fusion_each or report.model_each) for report in reports]
        assert result.measures["MRR"] == [report.model["MRR"] for report in reports]
        assert result.mean("MRR") == pytest.approx(np.mean(result.measures["MRR"]))
        each = np.mean([report.model_each["MRR"] for report in reports], axis=0)
        raw.append((randomisation_test(each, evaluation_set.bm25_each["MRR"]), result.p_values["BM25"]))
    highest = 0.0
    for place, (p_value, corrected) in enumerate(sorted(raw)):  # Holm: the smallest of n counts n times
        highest = max(highest, min(1, (len(raw) - place) * p_value))
        assert corrected == pytest.approx(highest)


def test_answers_alone_rank_as_evaluate_says(tmp_path: Path) -> None:
    """By the states as they are stored, in 8 bits; the row once had those of float32, and another P@1."""
    ranker = Ranker.from_pretrained(write_checkpoint("ap-transformer", tmp_path / "c"), "cpu", cache=EncodingCache(0))
    assert ranker.config is not None
    ranker.config = replace(ranker.config, wording_weight=0.5)
    row = module._rows_of(Contender.parse("ap-transformer"), ranker)["ap-transformer, answers alone"]
    data = replace(DATA, answers=[replace(answer, wordings=(answer.text.upper(),)) for answer in DATA.answers])
    evaluation_set = EvaluationSet(data)
    expected, found = evaluation_set.report(ranker), evaluation_set.report(row)
    assert found.model == expected.without_wordings
    for question in TEXTS:
        assert row.score(question, TEXTS).tolist() == ranker.score(question, TEXTS).tolist()


def test_parameters_are_counted_without_word_vectors(finished: tuple[Path, Comparison]) -> None:
    found = {result.label: result.parameters for result in finished[1].results}
    assert found["ap-cnn:filters=6"] == (3 * 8 * 6 + 6) + 6 * 6  # the convolution and U
    assert found["qa-bilstm:hidden=3:similarity=gesd"] == 2 * 4 * (8 * 3 + 3 * 3 + 2 * 3)


def test_an_interrupted_comparison_goes_on(finished: tuple[Path, Comparison], tmp_path: Path) -> None:
    """What is finished is not trained again; the result is the same."""
    _, whole = finished
    calls = []

    def stop_at_third(*args: object, **kwargs: object) -> object:
        calls.append(args)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return train(*args, **kwargs)  # type: ignore[arg-type]

    train = train_module.train
    with patch.object(train_module, "train", stop_at_third), pytest.raises(KeyboardInterrupt):
        run(tmp_path / "broken")
    with patch.object(train_module, "train", wraps=train) as again:
        resumed = run(tmp_path / "broken")
    assert again.call_count == 2
    assert [result.measures for result in resumed.results] == [result.measures for result in whole.results]


def test_other_settings_are_not_mixed_in(finished: tuple[Path, Comparison]) -> None:
    folder, _ = finished
    with refused("ap-cnn,filters=6-seed1 … epochs"):
        run(folder, replace(CONFIG, epochs=2))


@pytest.mark.parametrize("part", ["data", "dev"])
def test_runs_on_other_data_are_not_mixed_in(part: str, finished: tuple[Path, Comparison]) -> None:
    """A file that was edited has the same name."""
    folder, _ = finished
    edited = replace(DATA, questions=DATA.questions[1:])
    data, dev = (edited, DATA) if part == "data" else (DATA, edited)
    with refused(f"ap-cnn,filters=6-seed1 … another {part}"):
        compare(CONTENDERS, data, dev, DATA, folder, CONFIG, seeds=[1, 2], device="cpu")


def test_random_order_by_hand(finished: tuple[Path, Comparison]) -> None:
    """One right answer among six: the expected MRR is the mean of 1, 1/2 ... 1/6."""
    assert finished[1].random["MRR"] == pytest.approx(np.mean([1 / r for r in range(1, 7)]))


def test_word_vectors_are_for_the_models_without_an_encoder(tmp_path: Path) -> None:
    texts = [answer.text for answer in DATA.answers]
    encoder = write_encoder(tmp_path / "encoder", texts)
    (tmp_path / "v.txt").write_text("parcel 1 2 3\nzebra 4 5 6\n")
    contenders = [
        Contender("ap-transformer", "ap-transformer", {"encoder": str(encoder), "size": 4}),
        Contender("ap-cnn", "ap-cnn", {"filters": 6}),
    ]
    config = replace(CONFIG, max_tokens=24, embeddings=str(tmp_path / "v.txt"))
    compare(contenders, DATA, DATA, DATA, tmp_path / "out", config, seeds=[1], device="cpu")
    pretrained, words = (
        Ranker.from_pretrained(run_folder(tmp_path / "out", contender.label, 1), "cpu") for contender in contenders
    )
    assert "zebra" not in pretrained.tokenizer.words
    assert words.model.embedding is not None
    assert words.model.embedding.vectors.weight.shape[1] == 3


def test_all_are_those_whose_encoder_can_be_had(caplog: pytest.LogCaptureFixture) -> None:
    with patch.object(module, "find_encoder", Path):
        assert [contender.model for contender in Contender.parse_all("all")] == sorted(MODELS)
    with patch.object(module, "find_encoder", side_effect=InputError("no such encoder")):
        without = [contender.model for contender in Contender.parse_all("all")]
        assert [contender.model for contender in Contender.parse_all("ap-transformer")] == ["ap-transformer"]
    assert without == sorted(name for name, spec in MODELS.items() if not spec.pretrained)
    assert caplog.messages == ["ap-transformer is left out: no such encoder"]
