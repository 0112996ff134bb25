"""A pipeline as it is served: what is not fetched is a miss."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from command_line import run
from conftest import ROOT, TEXTS, settings_of, write_checkpoint
from haystack import Document
from refusals import absent, refused

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.data.faq import Match
from ap_ranker.data.reader import read_dataset
from ap_ranker.evaluation.evaluate import evaluate
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.search.evaluate_pipeline import evaluate_pipeline
from ap_ranker.search.recognized_answers import RecognizedAnswers

ANSWERS = [f"All about the {word}." for word in ("parcel", "refund", "battery", "helmet", "brake", "lease")]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A FAQ whose answers BM25 finds by one word, and a pipeline that fetches two documents."""
    write_checkpoint("ap-cnn", tmp_path / "ranker")
    rows = "".join(f"About {number}?,{answer}\n" for number, answer in enumerate(ANSWERS))
    (tmp_path / "FAQ.csv").write_text("question,answer\n" + rows)
    questions = "".join(f"where is the {answer.split()[-1]},{answer.upper()}\n" for answer in ANSWERS[:3])
    (tmp_path / "Q.csv").write_text("question,answer\n" + questions + f"nothing in common,{ANSWERS[5]}\n")
    pipeline = yaml.safe_load((ROOT / "pipelines" / "faq_search.yaml").read_text())
    settings_of(pipeline)["ranker"] |= {"model": "ranker", "top_k": 1}
    retriever = settings_of(pipeline)["retriever"]
    retriever["top_k"] = 2
    del retriever["document_store"]["init_parameters"]["documents"]
    (tmp_path / "p.yaml").write_text(yaml.safe_dump(pipeline))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_is_not_fetched_is_a_miss(folder: Path) -> None:
    data = read_dataset("Q.csv", "test", answers=Path("FAQ.csv"))
    report = evaluate_pipeline(Path("p.yaml"), data, checkpoint="ranker", faq=Path("FAQ.csv"), match=Match.both)
    assert report.recall == 0.75  # "nothing in common" finds nothing
    assert report.fetched <= 2
    assert report.measures["MRR"] <= 0.75
    assert report.measures["MRR"] >= 0.75 / 2  # of two documents, the right one is the first or the second
    assert report.new is None
    near = np.array([True, False, False, True])
    half = evaluate_pipeline(
        Path("p.yaml"), data, checkpoint="ranker", faq=Path("FAQ.csv"), match=Match.both, near=near
    )
    assert half.measures == report.measures
    assert half.new is not None


def test_a_document_that_is_no_answer_and_one_that_comes_twice() -> None:
    answers = [Answer(name, text) for name, text in (("document 1", "On its way."), ("b", "Lost."), ("c", "lost."))]
    recognized = RecognizedAnswers(Dataset("data", answers, []))
    question = Question("1", "where is it", (0, 2))
    assert recognized.right([Document(content="Nothing known.")], question).tolist() == [False]
    assert not recognized.found_any
    documents = [
        Document(id=str(number), content=text)
        for number, text in enumerate(["On its way.", "Nothing known.", "On its way.", "Lost.", "Lost.", "Lost."])
    ]
    assert recognized.right(documents, question).tolist() == [True, False, False, True, False, False]
    assert recognized.found_any


def test_all_that_is_fetched_is_ranked_as_by_the_checkpoint(folder: Path) -> None:
    """A pipeline that fetches every entry has the measures of the checkpoint, though it would return one answer."""
    for name, questions in (("FAQ", ["x 1", "x 2", "x 3"]), ("Q", [f"the {text}" for text in TEXTS[::2]])):
        rows = [("question", "answer"), *zip(questions, TEXTS[1::2], strict=True)]
        with (folder / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows(rows)
    pipeline = yaml.safe_load((folder / "p.yaml").read_text())
    settings_of(pipeline)["retriever"]["top_k"] = 6
    (folder / "p.yaml").write_text(yaml.safe_dump(pipeline))
    result = run(
        *("evaluate", "ranker", "Q.csv", "--answers", "FAQ.csv", "--pipeline", "p.yaml", "--json", "r.json"),
        folder=folder,
    )
    assert result.code == 0, result.errors
    numbers = json.loads((folder / "r.json").read_text())
    assert numbers["pipeline"]["recall"] == 1
    assert numbers["pipeline"]["measures"] == pytest.approx(numbers["model"])
    assert numbers["model"] == pytest.approx(evaluate("ranker", "Q.csv", answers=Path("FAQ.csv")).model)
    assert not absent("3 documents … 100.0%", " ".join(result.output.split()))


def test_documents_with_equal_scores_count_at_the_mean_over_their_orders(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the question is a known wording of one, word for word, which is no tie."""
    data = read_dataset("Q.csv", "test", answers=Path("FAQ.csv"))
    run_pipeline = DeclaredPipeline.run
    equal = lambda *args: [replace(one, score=0.5) for one in run_pipeline(*args)]  # noqa: E731
    monkeypatch.setattr(DeclaredPipeline, "run", equal)
    report = evaluate_pipeline(Path("p.yaml"), data, checkpoint="ranker", faq=Path("FAQ.csv"), match=Match.both)
    assert report.fetched == 2 * report.recall
    assert report.measures["MRR"] == pytest.approx(report.recall * (1 + 1 / 2) / 2)
    assert report.measures["P@1"] == pytest.approx(report.recall / 2)
    (folder / "known.csv").write_text((folder / "Q.csv").read_text())
    known = evaluate_pipeline(
        Path("p.yaml"),
        data,
        checkpoint="ranker",
        faq=Path("FAQ.csv"),
        match=Match.both,
        wordings=[folder / "known.csv"],
    )
    assert known.measures["P@1"] == known.recall == 1


def test_data_by_id_brings_its_faq(folder: Path) -> None:
    (folder / "d").mkdir()
    rows = "".join(f"a{number},About {number}?,{answer}\n" for number, answer in enumerate(ANSWERS))
    (folder / "d" / "answers.csv").write_text("aid,question,answer\n" + rows)
    (folder / "d" / "test.csv").write_text("qid,question,answer_ids\n1,the battery,a2\n2,a helmet,a3\n")
    report = evaluate_pipeline(Path("p.yaml"), read_dataset("d", "test"), checkpoint="ranker", match=Match.both)
    assert report.recall == 1


def test_entries_with_the_same_answer_are_all_right(folder: Path) -> None:
    """A stored question is answered by its own entry, though others have the same answer."""
    rows = "".join(f"About {n} {answer.split()[-1]}?,{answer}\n" for n in range(3) for answer in ANSWERS)
    (folder / "FAQ.csv").write_text("question,answer\n" + rows)
    (folder / "Q.csv").write_text(f"question,answer\nabout 2 battery,{ANSWERS[2]}\nthe battery,{ANSWERS[2]}\n")
    pipeline = yaml.safe_load((folder / "p.yaml").read_text())
    settings_of(pipeline)["retriever"]["top_k"] = 3
    (folder / "p.yaml").write_text(yaml.safe_dump(pipeline))
    data = read_dataset("Q.csv", "test", answers=Path("FAQ.csv"))
    report = evaluate_pipeline(Path("p.yaml"), data, checkpoint="ranker", faq=Path("FAQ.csv"), match=Match.both)
    assert report.measures["MRR"] == report.measures["MAP"] == 1  # BM25 fetches the three entries with the word
    assert report.new == report.measures  # over the second question alone, as the first is a stored one


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (("other", "Q.csv", "--answers", "FAQ.csv"), "other"),
        (("ranker", "judged.csv"), "candidates"),
        (("ranker", "Q.csv"), "--documents"),
        (("ranker", "Q.csv", "--answers", "none.csv"), "none.csv"),
    ],
)
def test_mistakes(folder: Path, arguments: tuple[str, ...], facts: str) -> None:
    write_checkpoint("ap-cnn", folder / "other")
    (folder / "judged.csv").write_text("question,answer,label\nq,a,1\nq,b,0\n")
    result = run("evaluate", *arguments, "--pipeline", "p.yaml", folder=folder)
    assert result.code == 2
    assert not absent(facts, result.errors)


def test_a_store_with_another_faq_is_not_a_bad_ranking(folder: Path) -> None:
    (folder / "other.csv").write_text("question,answer\nq,the battery is mine\n")
    data = read_dataset("Q.csv", "test", answers=Path("FAQ.csv"))
    with refused("Q.csv … none"):
        evaluate_pipeline(Path("p.yaml"), data, checkpoint="ranker", faq=Path("other.csv"), match=Match.both)
