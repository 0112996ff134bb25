"""The card of a checkpoint that the command trained: every number read back, every example run."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from haystack import Document, Pipeline
from huggingface_hub import ModelCard
from refusals import refused
from typer.testing import CliRunner

from ap_ranker.cli.main import app
from ap_ranker.data.reader import read_dataset
from ap_ranker.data.wordings import with_wordings
from ap_ranker.evaluation.dev_choice import DevChoice, Epoch
from ap_ranker.evaluation.evaluation_report import EvaluationReport
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.significance import randomisation_test
from ap_ranker.ranking.checkpoint import CheckpointConfig, read_checkpoint_config
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.training.card import HUB_METRICS, About, model_card
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.train import train

WORDS = ["parcel", "refund", "battery", "helmet", "invoice", "account", "brake", "lease", "light", "wheel"]
PATTERNS = {
    "train": ["where is my {}", "the {} is gone", "help with a {}"],
    "dev": ["my {} never came", "is a {} broken"],
}
TIME = 0.01234


def timed_card(checkpoint: CheckpointConfig, report: EvaluationReport, *rest: Any) -> str:
    return model_card(checkpoint, replace(report, seconds_per_question=TIME), *rest)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data with a fault, a checkpoint that has learnt hardly anything, so that BM25 helps it, and its card."""
    place = tmp_path_factory.mktemp("my data")
    for split, patterns in PATTERNS.items():
        rows = [
            (p.format(w), f"all about the {w} " + "we know " * row) for row, w in enumerate(WORDS) for p in patterns
        ]
        rows += [("what about <b>wheels</b>", "nothing")] * (split == "train")
        (place / f"{split}.csv").write_text("question,answer\n" + "".join(f"{q},{a}\n" for q, a in rows))
    (place / "c.yaml").write_text(
        "model: qa-cnn\noptions: {filters: 8}\nembedding_size: 8\nepochs: 1\nlearning_rate: 1.e-9\nmax_tokens: 12\n"
    )
    command = ["train", str(place), "--config", str(place / "c.yaml"), "--output", str(place / "ranker")]
    command += ["--license", "cc-by-4.0", "--device", "cpu"]
    with (
        patch.object(sys, "argv", ["/somewhere/bin/ap-ranker", *command]),
        patch("ap_ranker.training.train.model_card", timed_card),
    ):
        result = CliRunner().invoke(app, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return place


@pytest.fixture
def card(folder: Path) -> str:
    return (folder / "ranker" / "README.md").read_text()


@pytest.fixture
def report(folder: Path) -> EvaluationReport:
    """With each question ranked by weights that were fitted to others, as the card has it."""
    asked = read_dataset(folder, "dev")
    dev = with_wordings(with_wordings(asked, read_dataset(folder, "train")), asked)
    ranker = Ranker.from_pretrained(folder / "ranker", "cpu")
    dev_set = EvaluationSet(dev, language=ranker.bm25_language)
    return DevChoice.of([Epoch.of(1, dev_set, ranker, dev_set.timed_scores(ranker))]).report()


def table(card: str) -> Iterator[dict[str, str]]:
    """The rows of the first table."""
    lines = [line.strip("| ").split(" | ") for line in card.splitlines() if line.startswith("|")]
    titles = ["", *lines[0]]
    return (dict(zip(titles, line, strict=False)) for line in lines[2:])


def test_the_table_is_what_evaluate_finds(card: str, report: EvaluationReport) -> None:
    rows = {row[""]: row for row in table(card)}
    assert report.fusion is not None and report.fusion_each is not None
    for name, values in (("BM25", report.bm25), ("this model", report.model), ("both scores added", report.fusion)):
        assert {measure: rows[name][measure] for measure in values} == {m: f"{v:.3f}" for m, v in values.items()}
    # Holm's correction of two tests: the smaller p-value twice, the larger at least that.
    alone, fused = (randomisation_test(each["MRR"], report.bm25_each["MRR"]) for each in _tested(report))
    small, large = min(1.0, 2 * min(alone, fused)), max(alone, fused, min(1.0, 2 * min(alone, fused)))
    expected = (small, large) if alone <= fused else (large, small)
    assert (rows["this model"]["p"], rows["both scores added"]["p"]) == tuple(f"{p:.4f}" for p in expected)
    gains = [values["MRR"] - report.bm25["MRR"] for values in (report.model, report.fusion)]
    assert f"(alone MRR {gains[0]:+.3f}, p = {expected[0]:.4f}; with BM25's score added MRR {gains[1]:+.3f}" in card
    assert f"Results on the {report.n_questions} dev questions" in card
    assert f"Candidates: {report.candidates}." in card


def _tested(report: EvaluationReport) -> list[Any]:
    return [report.model_each, report.fusion_each]


def test_the_front_matter_is_the_hubs(card: str, report: EvaluationReport) -> None:
    data = ModelCard(card).data
    assert data.license == "cc-by-4.0"
    assert data.to_dict()["library_name"] == "ap-ranker"
    assert data.pipeline_tag == "text-ranking"
    found = {result.metric_name: result for result in data.eval_results}
    assert report.fusion is not None
    for measure, metric in HUB_METRICS.items():
        assert found[measure].metric_type == metric
        assert found[measure].metric_value == pytest.approx(report.model[measure], abs=5e-5)
        fused = found[f"{measure}, with BM25's score added"]
        assert fused.metric_value == pytest.approx(report.fusion[measure], abs=5e-5)


def test_what_else_it_says(card: str, folder: Path) -> None:
    assert f"{TIME * 1000:.2f} ms per question" in card
    assert "mean of\n20 dev questions" in card
    assert f"Trained on 31 question-answer pairs ({folder / 'train.csv'})" in card
    assert "0 errors, 1 warnings (html 1), " in card
    assert "Licence: cc-by-4.0." in card
    # "all about the w" and row times "we know": more than 12 words from the fifth answer on.
    assert "Texts are truncated to 12 tokens: 5 of the 11 answers were." in card
    expected = f"ap-ranker train '{folder}' --config '{folder}/c.yaml' --output '{folder}/ranker' --license cc-by-4.0"
    assert f"```bash\n{expected} --device cpu\n```" in card
    assert "## Calibration\n\nA scaled score is the probability" in card  # on the 20 dev questions
    settings = read_checkpoint_config(folder / "ranker").training
    assert f"epoch {settings['best_epoch']} was the best" in card


def test_the_examples_run(card: str, folder: Path) -> None:
    blocks = re.findall(r"```(python|yaml)\n(.*?)```", card, flags=re.DOTALL)
    assert [language for language, _ in blocks] == ["python", "yaml", "python"]
    for language, text in blocks:
        code = text.replace("CHECKPOINT", str(folder / "ranker"))
        if language == "python":
            exec(code, {})
        else:
            pipeline = Pipeline.loads(code)
            documents = [Document(content="one answer"), Document(content="another answer")]
            ranked = pipeline.run({"ranker": {"query": "question", "documents": documents}})
            assert len(ranked["ranker"]["documents"]) == 2


def test_from_python(tmp_path: Path, folder: Path) -> None:
    data = read_dataset(folder, "dev")
    train(data, data, tmp_path / "c", TrainingConfig("bm25"), device="cpu")
    card = (tmp_path / "c" / "README.md").read_text()
    assert "Trained from Python." in card
    assert "Licence: not stated." in card
    assert "not checked for faults" in card
    assert "license" not in ModelCard(card).data.to_dict()
    assert "both scores added" not in card
    assert "Adding BM25's score does not help" in card


@pytest.mark.parametrize("licence", ["", "Apache 2.0", "MIT\nevil: true"])
def test_no_licence(licence: str) -> None:
    with refused(f"{licence!r}"):
        About(licence=licence)
