"""What few pairs are worth: the draws, the split of a messy FAQ, the tables, and a whole toy run."""

from __future__ import annotations

import csv
import hashlib
import json
import statistics
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest
import yaml
from conftest import ROOT, imported
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from sampling import draw, read_covid, read_folder
from tables import Row, render

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.data.faq import DEFAULT_MATCH
from ap_ranker.evaluation.evaluate import evaluate
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.training import train as train_module
from ap_ranker.training.config import read_training_config
from ap_ranker.training.train import train_or_load

HERE = ROOT / "examples" / "small_data"


@pytest.fixture(scope="module")
def run() -> Iterator[ModuleType]:
    with imported(HERE / "run.py") as module:
        yield module


right = st.lists(st.integers(0, 4), max_size=3, unique=True).map(tuple)


@given(st.lists(right, min_size=1, max_size=30), st.integers(0, 40), st.integers(0, 40), st.integers(0, 9))
def test_a_smaller_draw_is_part_of_a_larger_one(positives: list[Any], one: int, other: int, seed: int) -> None:
    questions = [Question(str(number), f"question {number}", rows) for number, rows in enumerate(positives)]
    data = Dataset("all", [Answer(str(row), f"answer {row}") for row in range(5)], questions)
    small, large = (draw(data, size, seed) for size in sorted((one, other)))
    assert list(large.questions[: len(small.questions)]) == list(small.questions)
    assert draw(data, one, seed) == (small if one <= other else large), "same seed, same draw"
    assert small.answers == data.answers
    ids = [question.id for question in large.questions]
    assert len(set(ids)) == len(ids)
    assert {(q.id, q.positives) for q in large.questions} <= {(q.id, q.positives) for q in questions if q.positives}
    wanted = max(one, other)
    if wanted >= data.pairs:
        assert large.pairs == data.pairs
    else:
        assert wanted - 3 < large.pairs <= wanted, "only a question of several answers may fail to fit"


def test_draws_differ_by_seed_and_say_what_they_are() -> None:
    data = Dataset("all", [Answer("0", "a")], [Question(str(i), str(i), (0,)) for i in range(100)])
    first, second = draw(data, 50, 1), draw(data, 50, 2)
    assert [first.pairs, second.pairs] == [50, 50]
    assert {q.id for q in first.questions} != {q.id for q in second.questions}
    assert {q.id for q in first.questions} != {str(i) for i in range(50)}
    assert first.name == "all, 50 pairs drawn with seed 1"


def test_the_example_faq_keeps_its_dev_and_test_questions() -> None:
    parts = read_folder(ROOT / "examples" / "faq", DEFAULT_MATCH)
    few = draw(parts.training, 50, 1)
    assert [few.pairs, len(few.answers), parts.training.pairs] == [50, 168, 1848]
    assert [len(parts.dev.questions), len(parts.test.questions)] == [364, 565]
    assert not {q.text for q in few.questions} & {q.text for part in (parts.dev, parts.test) for q in part.questions}


def write_faq(path: Path, rows: list[tuple[str, str]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["question", "answer", "source", "url"])
        writer.writerows([*row, "a body", "https://example.org"] for row in rows)
    return path


NAMES = [hashlib.sha256(str(i).encode()).hexdigest()[:12] for i in range(40)]  # no two of them near
MESSY = [
    *(
        (f"what is  thing {NAMES[i]}?" if i % 3 else f"What is thing {NAMES[i]}?", f"thing {NAMES[i]} is {i}")
        for i in range(40)
    ),
    *((f"WHAT IS thing {NAMES[i]}?", f"it depends on {i}") for i in range(0, 40, 4)),
    *((f"how many of thing {NAMES[i]}?", "Ask the help desk.") for i in range(10)),
    *((f"How many of thing {NAMES[i]}?", "Ask the help desk.") for i in range(10)),
]


def key(text: str) -> str:
    return " ".join(text.casefold().split())


def test_no_question_text_is_on_two_sides(tmp_path: Path) -> None:
    parts = read_covid(write_faq(tmp_path / "messy.csv", MESSY), DEFAULT_MATCH)
    sides = [{key(question.text) for question in part.questions} for part in (parts.training, parts.dev, parts.test)]
    assert [len(side) for side in sides] == [33, 5, 12], "of 50: a tenth for dev, a quarter for testing"
    assert set.union(*sides) == {key(question) for question, _ in MESSY}
    assert sum(map(len, sides)) == 50
    answers = [answer.text for answer in parts.test.answers]
    assert sorted(answers) == sorted({answer for _, answer in MESSY}), "one answer for one text"
    known = {(key(question), answer) for question, answer in MESSY}
    found = {
        (key(question.text), answers[row])
        for part in (parts.training, parts.dev, parts.test)
        for question in part.questions
        for row in question.positives
    }
    assert found == known
    for part in (parts.dev, parts.test):
        assert all(sorted(question.candidates or ()) == list(range(len(answers))) for question in part.questions)


@pytest.mark.benchmark_data
def test_the_covid_faq(benchmarks: Path) -> None:
    path = benchmarks / "faq_public" / "covid-faq-en.csv.gz"
    parts = read_covid(path, DEFAULT_MATCH)
    sides = [{key(question.text) for question in part.questions} for part in (parts.training, parts.dev, parts.test)]
    assert sum(map(len, sides)) == len(set.union(*sides)) == 1453
    assert [len(side) for side in sides[1:]] == [145, 363]
    assert len(parts.training.answers) > 1000, "more than BM25 would let pass"
    assert len(parts.test.questions[0].candidates or ()) == len(parts.test.answers)


def row(method: str, size: int, mrr: list[float], with_bm25: list[float] | None = None, data: str = "faq") -> Row:
    """A row of one or more seeds."""
    n = len(mrr)
    return Row(
        *(data, method, size, [size] * n, 504, "all 168 answers"),
        seeds=list(range(1, n + 1)),
        settings=method,
        model={"MRR": mrr, "P@1": [0.1] * n},
        fused={"MRR": with_bm25 or mrr, "P@1": [0.2] * n},
        bm25={"MRR": 0.521, "P@1": 0.435},
        best_epochs=[3] * n,
        training_seconds=[1.5] * n,
    )


def lines(text: str) -> dict[str, list[str]]:
    """The cells of a table's lines by their first one."""
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return {cells[0]: cells[1:] for cells in found}


def test_a_table_of_methods_by_sizes() -> None:
    three, together = [0.4, 0.45, 0.41], [0.55, 0.6, 0.62]
    rows = [row("new", 150, [0.9]), row("glove", 2000, [0.7]), row("scratch", 150, three, together)]
    found = lines(render(rows, ["scratch", "unmeasured", "glove"]))
    assert list(found) == ["method", "---", "BM25", "scratch", "glove", "new"], "in the order given, unknown ones last"
    assert found["method"] == ["150 pairs", "with BM25", "2,000 pairs", "with BM25"]
    assert found["BM25"] == ["0.521", "", "0.521", ""]
    expected = [f"{statistics.mean(each):.3f} ± {statistics.stdev(each):.3f}" for each in (three, together)]
    assert found["scratch"] == [*expected, "", ""]
    assert found["glove"] == ["", "", "0.700", "0.700"]


def test_a_table_for_each_data_set() -> None:
    text = render([row("glove", 50, [0.3]), row("glove", 50, [0.2], data="covid")], ["glove"])
    assert text.index("## covid") < text.index("| glove | 0.200 |") < text.index("## faq") < text.index("| 0.300 |")
    assert "Test MRR over 504 questions; candidates: all 168 answers." in text


def test_a_row_takes_the_place_of_its_predecessor(tmp_path: Path) -> None:
    rows = [row("glove", 50, [0.3]), row("glove", 150, [0.4]), row("glove", 50, [0.35])]
    for each in rows:
        each.add(tmp_path, partial(render, methods=["glove"]))
    assert Row.read(tmp_path / "results.json") == [rows[2], rows[1]]
    assert (tmp_path / "results.md").read_text() == render(rows[1:], ["glove"])


def test_the_readme_shows_what_was_measured() -> None:
    rows = Row.read(HERE / "results.json")
    written = (HERE / "results.md").read_text(encoding="utf-8")
    assert written == render(rows, list(yaml.safe_load((HERE / "methods.yaml").read_text(encoding="utf-8"))))
    tables = [part for part in written.split("\n\n") if part.startswith("|")]
    readme = (ROOT / "docs" / "archive" / "results_small_data.md").read_text(encoding="utf-8")
    assert tables
    assert all(table.strip() in readme for table in tables)


def test_the_methods_are_what_their_names_say(run: ModuleType) -> None:
    methods = run.read_methods(HERE / "methods.yaml")
    scratch, glove = methods["scratch"], methods["glove"]
    assert scratch.config == glove.config
    assert [scratch.embeddings, glove.embeddings] == ["none", "glove-50d"]
    transformers = [methods[f"transformer-{kind}"].config for kind in ("untrained", "frozen", "fine-tuned")]
    assert {config.model for config in transformers} == {"ap-transformer"}
    assert [config.epochs == 0 for config in transformers] == [True, False, False]
    assert [bool(config.options.get("frozen")) for config in transformers] == [False, True, False]
    fine_tuned, demo = transformers[-1], read_training_config(ROOT / "examples" / "faq" / "settings.yaml", {})
    assert fine_tuned == replace(demo, language=None)  # the other data set is not the example's


def test_the_cosine_of_a_method_has_its_checkpoint(run: ModuleType) -> None:
    methods = run.read_methods(HERE / "methods.yaml")
    cosine, whole = methods["mpnet-cosine"], methods["mpnet-untrained"]
    assert (cosine.config, cosine.cosine_of, whole.cosine_of) == (whole.config, whole.name, "")
    begun = run.started(cosine, Path("other"))
    assert begun.cosine_of == run.started(whole, Path("other")).name


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("a: {model: ap-cnn}", "methods.yaml, a … embeddings: none"),
        ("a: 3", "methods.yaml, a"),
        ("a: {cosine_of: b}", "methods.yaml, a"),
        ("a: {embeddings: none, epoch: 3}", "methods.yaml, a … 'epoch'"),
    ],
)
def test_bad_methods(run: ModuleType, tmp_path: Path, text: str, facts: str) -> None:
    (tmp_path / "methods.yaml").write_text(text)
    with refused(facts):
        run.read_methods(tmp_path / "methods.yaml")


@pytest.mark.parametrize(
    ("given", "facts"),
    [
        ({}, "--data … --covid"),
        ({"data": Path("faq"), "sizes": "50,many"}, "--sizes … 0 … 50,many"),
        ({"data": Path("faq"), "seeds": "0"}, "--seeds … '0'"),
        ({"data": Path("faq"), "methods": "glove,bert"}, "--methods … scratch … bert"),
    ],
)
def test_mistakes(run: ModuleType, given: dict[str, Any], facts: str) -> None:
    with refused(facts):
        run.command(**{"sizes": "50", "seeds": "1", **given})


METHODS = "tiny: {embeddings: none, model: ap-cnn, options: {filters: 4}, embedding_size: 4, epochs: 1}\n"


@pytest.mark.slow
def test_a_toy_run_twice(run: ModuleType, tmp_path: Path) -> None:
    """The second trains nothing and writes the same; the numbers are those of `evaluate`."""
    (tmp_path / "methods.yaml").write_text(METHODS)
    write_faq(tmp_path / "messy.csv", MESSY)

    def again(**other: Any) -> None:
        with patch.object(run, "HERE", tmp_path):
            given = {"covid": tmp_path / "messy.csv", "sizes": "6,12,500", "seeds": "1,2", "device": "cpu"}
            run.command(runs=tmp_path / "runs", **{**given, **other})

    again(sizes="6")
    assert [each.size for each in Row.read(tmp_path / "results.json")] == [6]
    again()
    rows, written = Row.read(tmp_path / "results.json"), (tmp_path / "results.json").read_text()
    assert [each.key for each in rows] == [("covid", "tiny", 6), ("covid", "tiny", 12)], "500 pairs there are not"
    test = read_covid(tmp_path / "messy.csv", DEFAULT_MATCH).test
    for number, seed in enumerate([1, 2]):
        report = evaluate(Ranker.from_pretrained(tmp_path / f"runs/covid/12/tiny,none-seed{seed}", "cpu"), test)
        assert rows[1].model["MRR"][number] == pytest.approx(report.model["MRR"])
        assert rows[1].model["P@1"][number] == pytest.approx(report.model["P@1"])
        assert rows[1].bm25["MRR"] == pytest.approx(report.bm25["MRR"])
    assert rows[1].n_questions == len(test.questions)
    assert str(tmp_path) not in written, "a user's paths are nobody's business"
    with patch.object(train_module, "train", side_effect=AssertionError("trained again")):
        (tmp_path / "results.json").write_text(json.dumps([]))
        again()
        assert (tmp_path / "results.json").read_text() == written
        with pytest.raises(AssertionError, match="trained again"):
            again(seeds="3")
        (tmp_path / "methods.yaml").write_text(METHODS.replace("epochs: 1", "epochs: 2"))
        with refused("epochs"):
            again()


def test_another_draw_is_another_run(run: ModuleType, tmp_path: Path) -> None:
    """A finished run is not taken for one that learnt from other pairs."""
    (tmp_path / "methods.yaml").write_text(METHODS)
    method = run.read_methods(tmp_path / "methods.yaml")["tiny"]
    source = partial(read_covid, write_faq(tmp_path / "messy.csv", MESSY))
    run.add_rows("covid", source, method, [6], [1], tmp_path / "runs", "cpu", tmp_path, ["tiny"])
    parts = source(DEFAULT_MATCH)
    folder = tmp_path / "runs/covid/6/tiny,none-seed1"
    settings = replace(method.config, seed=1)
    with patch.object(train_module, "train", side_effect=AssertionError("trained again")):
        assert train_or_load(draw(parts.training, 6, 1), parts.dev, folder, settings) is not None
        with refused("data"):
            train_or_load(draw(parts.training, 6, 2), parts.dev, folder, settings)


def test_methods_that_start_from_a_checkpoint(run: ModuleType, tmp_path: Path) -> None:
    """Their rows are named after it, and a run from another checkpoint is another run."""
    (tmp_path / "methods.yaml").write_text(METHODS)
    write_faq(tmp_path / "messy.csv", MESSY)
    runs = tmp_path / "runs"

    def again(**other: Any) -> None:
        with patch.object(run, "HERE", tmp_path):
            given = {"covid": tmp_path / "messy.csv", "sizes": "6", "seeds": "1", "device": "cpu", "runs": runs}
            run.command(**{**given, **other})

    again()
    first = (runs / "covid/6/tiny,none-seed1").rename(tmp_path / "first")
    again(start=first, sizes="12")
    rows = Row.read(tmp_path / "results.json")
    assert [each.key for each in rows] == [("covid", "tiny", 6), ("covid", "tiny from first", 12)]
    second = runs / "covid/12/tiny from first,none-seed1"
    config = Ranker.from_pretrained(second, "cpu").config
    assert config is not None
    assert config.training["start"] == str(first)
    with patch.object(train_module, "train", side_effect=AssertionError("trained again")):
        again(start=first, sizes="12")
    data = draw(read_covid(tmp_path / "messy.csv", DEFAULT_MATCH).training, 12, 1)
    settings = run.read_methods(tmp_path / "methods.yaml")["tiny"].config
    with refused("start"):
        train_or_load(data, data, second, replace(settings, seed=1))
