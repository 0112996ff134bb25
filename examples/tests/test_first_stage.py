"""What finds the candidates: beside plain loops over the scores of a toy corpus."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from conftest import ROOT, imported
from random_encoders import BERT, pooled, word_pieces, write

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.scoring import CandidateScores
from ap_ranker.ranking.bm25 import BM25
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.rule import Weights
from ap_ranker.training.untrained import write_untrained

HERE = ROOT / "examples" / "reproduce"
THINGS = ("parcel", "battery", "repair", "return", "saddle", "brake", "helmet", "lamp")
ANSWERS = [f"All about your {thing}, and how a {thing} is sent." for thing in THINGS]


@pytest.fixture
def first_stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(HERE))
    with imported(HERE / "first_stage.py") as module:
        yield module


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    encoder = write(tmp_path, BERT | {"max_position_embeddings": 256}, word_pieces(), pooled("mean"))
    write_untrained(tmp_path / "checkpoint", ANSWERS, options={"encoder": str(encoder)})
    return tmp_path / "checkpoint"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    answers = [f"{number}\t{text}" for number, text in enumerate(ANSWERS)]
    (folder / "answers.tsv").write_text("\n".join(["aid\tanswer", *answers]) + "\n")
    for split, words in (("train", "when is my {} sent"), ("valid", "what of a {}"), ("test", "a {}")):
        lines = [f"{number}\t{words.format(thing)}\t{number}" for number, thing in enumerate(THINGS)]
        (folder / f"{split}.tsv").write_text("\n".join(["qid\tquestion\tanswer_ids", *lines]) + "\n")
    return folder


def test_the_lines_are_those_of_loops(
    first_stage: ModuleType, checkpoint: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The candidates by each part's own scores; the first answer by the model's, without BM25's to keep loops plain."""
    monkeypatch.setattr(first_stage, "DEPTHS", (2,))
    monkeypatch.setattr(first_stage, "fit_weight", lambda signals, right, weights, added: weights)
    first_stage.command(checkpoint, data, tmp_path / "lines.json", questions=len(THINGS))
    lines = {line["first_stage"]: line for line in json.loads((tmp_path / "lines.json").read_text())}
    ranker = Ranker.from_pretrained(checkpoint, "cpu")
    asked = [f"what of a {thing}" for thing in THINGS]
    words = BM25(ANSWERS)
    questions = ranker.embed_questions(asked).numpy()
    by_vector = questions @ ranker.embed_answers(ANSWERS).numpy().T
    by_wording = questions @ ranker.embed_questions([f"when is my {thing} sent" for thing in THINGS]).numpy().T
    found_of: dict[str, list[list[int]]] = {"BM25": [], "vectors": [], "wordings": []}
    for number, question in enumerate(asked):
        scores = words.scores(question)
        found_of["BM25"].append([row for row in np.argsort(-scores, kind="stable")[:2].tolist() if scores[row] > 0])
        found_of["vectors"].append(np.argsort(-by_vector[number], kind="stable")[:2].tolist())
        found_of["wordings"].append(np.argsort(-by_wording[number], kind="stable")[:2].tolist())
    for parts in (["BM25"], ["vectors"], ["BM25", "vectors"], ["BM25", "vectors", "wordings"]):
        pools = [{row for part in parts for row in found_of[part][number]} for number in range(len(asked))]
        hits = []
        for number, pool in enumerate(pools):
            rows = sorted(pool)
            scores = ranker.score(asked[number], [ANSWERS[row] for row in rows]).numpy()
            hits.append(bool(rows) and rows[int(scores.argmax())] == number)
        line = lines[" and ".join(parts)]
        assert line["candidates"] == pytest.approx(np.mean([len(pool) for pool in pools]))
        assert line["found"] == pytest.approx(np.mean([number in pool for number, pool in enumerate(pools)]))
        assert line["hit"] == pytest.approx(np.mean(hits))
        assert line["hit"] <= line["mrr"] <= line["found"]
    assert lines["BM25"]["found"] == 1.0, "only one answer has the question's word"


def test_the_other_half_chooses_the_weight(first_stage: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each question is ranked with what was fitted to the others, of which it is none."""
    answers = [Answer(str(number), text) for number, text in enumerate(ANSWERS)]
    questions = [Question(str(number), f"a {thing}", (number,)) for number, thing in enumerate(THINGS[:4])]
    asked = EvaluationSet(Dataset("toy", answers, questions))
    wrong = [np.eye(len(ANSWERS))[number - 1] for number in range(4)]  # the model puts another one first
    fitted_to: list[int] = []

    def fit(signals: list[object], right: list[object], weights: Weights, added: str) -> Weights:
        fitted_to.append(len(signals))
        return Weights(bm25=100.0 if len(fitted_to) == 2 else 0.0)  # for the second half alone

    monkeypatch.setattr(first_stage, "fit_weight", fit)
    measures = first_stage.cross_fitted(asked, CandidateScores(wrong, 0.0, 0.0))
    assert fitted_to == [2, 2]
    assert measures["P@1"].tolist() == [0.0, 1.0, 0.0, 1.0]


def test_the_page_has_the_lines_of_the_file(first_stage: ModuleType) -> None:
    lines = [first_stage.Line(**line) for line in json.loads((HERE / "first_stage.json").read_text())]
    assert first_stage.table(lines) in (HERE / "README.md").read_text()
    by_name = {(line.first_stage, line.depth): line for line in lines}
    assert round(by_name["vectors", 100].found, 2) == 0.94
    ranked = [line.hit for line in lines if line.first_stage != "BM25"]
    assert {round(hit, 2) for hit in ranked} == {0.41}
