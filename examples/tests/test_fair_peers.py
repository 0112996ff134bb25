"""Ours beside tuned peers, on a toy data set with encoders of random weights; the tables, from numbers known here."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from conftest import ROOT, imported
from random_encoders import BERT, library, pooled, word_pieces, write
from refusals import refused

from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.significance import holm, randomisation_test

HERE = ROOT / "examples" / "fair_peers"
NAMES = ("fair_data", "late_interaction", "fair_systems", "fair_cells", "fair_tables")
HAS_LATE_INTERACTION = hasattr(library, "MultiVectorEncoder")

ANSWERS = ("It arrives in five days.", "Charge it overnight.", "Bring it to our shop.", "Yes, within a month.")
QUESTIONS = ("when does my parcel arrive", "how is the battery charged", "who repairs my bike", "may I send it back")


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    monkeypatch.syspath_prepend(str(HERE))
    path = list(sys.path)
    yield {name: __import__(name) for name in NAMES}
    sys.path[:] = path
    for name in NAMES:
        sys.modules.pop(name, None)


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    """Toy data as WikiQA has it: each question with its right answer and two wrong ones."""
    folder = tmp_path / "data" / "wikiqa"
    folder.mkdir(parents=True)
    for split in ("train", "dev", "test"):
        lines = ["qid\tquestion\tanswer\tlabel"]
        for number, question in enumerate(QUESTIONS):
            for place in range(3):
                answer = ANSWERS[(number + place) % len(ANSWERS)]
                lines.append(f"{number}\t{question} {split}?\t{answer}\t{int(not place)}")
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return folder.parent


@pytest.fixture
def small_grids(modules: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch) -> None:
    """Little to learn, and two systems where four would take a minute."""
    systems = modules["fair_systems"]
    ours = {"epochs": [1], "encoder_learning_rate": [1e-5, 1e-4]}
    peer = {"epochs": [1], "learning_rate": [1e-5, 1e-3], "batch_size": [4], "wrong_answers": [2]}
    for name in list(systems.GRIDS):
        monkeypatch.delitem(systems.GRIDS, name)
    monkeypatch.setitem(systems.GRIDS, systems.OURS, ours)
    monkeypatch.setitem(systems.GRIDS, systems.BI_ENCODER, peer)
    monkeypatch.setattr(modules["fair_cells"], "SYSTEMS", (*systems.GRIDS, systems.UNTRAINED))


@pytest.mark.usefixtures("small_grids")
def test_a_run_that_was_stopped_goes_on(
    modules: dict[str, ModuleType], judged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No finished cell is trained again; the JSON file has what its systems measure, and the page its tables."""
    encoder = write(tmp_path, BERT | {"max_position_embeddings": 256}, word_pieces(), pooled("mean"))
    (tmp_path / "README.md").write_text((HERE / "README.md").read_text())
    cells = modules["fair_cells"]
    measure = cells.Cells.measure
    measured: list[str] = []

    def stop_at_fourth(own: Any, cell: Any) -> Any:
        if len(measured) == 3:
            raise KeyboardInterrupt
        measured.append(cell.name)
        return measure(own, cell)

    def count(own: Any, cell: Any) -> Any:
        measured.append(cell.name)
        return measure(own, cell)

    with imported(HERE / "run.py") as run:
        monkeypatch.setattr(run, "DEFAULT_ENCODER", str(encoder))
        arguments = {"data": judged, "seeds": "1,2", "trials": 2, "encoder": str(encoder), "device": "cpu"}
        places = {"output": tmp_path / "out", "results": tmp_path}
        run.command(["wikiqa"], **arguments, **places, plan=True)
        assert not list(tmp_path.glob("*.json"))
        monkeypatch.setattr(cells.Cells, "measure", stop_at_fourth)
        with pytest.raises(KeyboardInterrupt):
            run.command(["wikiqa"], **arguments, **places, plan=False)
        monkeypatch.setattr(cells.Cells, "measure", count)
        untrained = "bi-encoder, untrained"
        run.command(["wikiqa"], **arguments, **places, plan=False, system=[untrained])
        assert not list(tmp_path.glob("*.json"))  # nothing of ours to compare it with
        run.command(["wikiqa"], **arguments, **places, plan=False, system=["ap-transformer"])
        assert json.loads((tmp_path / "wikiqa.json").read_text())["systems"].keys() == {"ap-transformer", untrained}
        with refused("a system … bi-encoder … bm25"):
            run.command(["wikiqa"], **arguments, **places, plan=False, system=["bm25"])
        run.command(["wikiqa"], **arguments, **places, plan=False)
        assert [*json.loads((tmp_path / "wikiqa.json").read_text())["systems"]] == [
            "ap-transformer",
            "bi-encoder",
            untrained,
        ]
        ours = ["ap-transformer-trial-1", "ap-transformer-trial-2", "ap-transformer-seed-1", "ap-transformer-seed-2"]
        peers = [name.replace("ap-transformer", "bi-encoder") for name in ours]
        assert measured == [*ours[:3], "bi-encoder-untrained-seed-1", ours[3], *peers]
        assert not list(tmp_path.rglob("*.run"))
    result = json.loads((tmp_path / "wikiqa.json").read_text())
    with imported(HERE / "run.py") as run:
        monkeypatch.setattr(run, "DEFAULT_ENCODER", str(encoder))
        places["output"] = tmp_path / "another machine"
        run.command(["wikiqa"], **arguments, **places, plan=False, system=[untrained])
        again = json.loads((tmp_path / "wikiqa.json").read_text())
        assert again["systems"].keys() == result["systems"].keys()
        assert again["tests"] == result["tests"]
        del again["ranks"]  # as files of earlier releases
        del again["origin"]
        (tmp_path / "wikiqa.json").write_text(json.dumps(again))
        run.command(["wikiqa"], **arguments, **places, plan=False, system=[untrained])
        assert json.loads((tmp_path / "wikiqa.json").read_text()) == again, "nothing is lost"
        (tmp_path / "wikiqa.json").write_text(json.dumps(result))
        places["output"] = tmp_path / "out"
    plain = library.SentenceTransformer(str(encoder))
    asked = modules["fair_data"].read_fair_data("wikiqa", judged, tmp_path, str(encoder)).test_set
    vectors = plain.encode(asked.dataset.answer_texts, normalize_embeddings=True)
    scores = []
    for text, pool in zip(asked.question_texts, asked.pools, strict=True):
        scores.append(vectors[list(pool)] @ plain.encode(text, normalize_embeddings=True))
    untrained = result["systems"]["bi-encoder, untrained"]["rows"]["answers alone"]
    assert untrained["MRR"] == [pytest.approx(asked.measures(scores)["MRR"])]
    peer = result["systems"]["bi-encoder"]
    assert peer["seeds"] == [1, 2]
    assert peer["chosen"] == max(peer["trials"], key=lambda trial: trial["dev"])["settings"]
    assert peer["rows"].keys() == {"answers alone", "answers alone, with BM25"}  # nobody knows any wordings here
    assert len(result["tests"]) == 4
    page = (tmp_path / "README.md").read_text()
    assert modules["fair_tables"].render([result]) in page
    assert page.startswith("# Fair peers")
    assert str(tmp_path) not in json.dumps(result)
    larger = write(tmp_path / "larger", BERT | {"max_position_embeddings": 256}, word_pieces(), pooled("mean"))
    measured.clear()
    with imported(HERE / "run.py") as run:
        run.command(["wikiqa"], **{**arguments, "encoder": str(larger), "seeds": "1"}, **places, plan=False)
        assert measured == ["ap-transformer-seed-1", "bi-encoder-seed-1", "bi-encoder-untrained-seed-1"]
        of_larger = json.loads((tmp_path / "wikiqa-encoder.json").read_text())
        assert of_larger["systems"]["bi-encoder"]["chosen"] == peer["chosen"]
        with refused("wikiqa.json … default encoder … without --encoder"):
            run.read_chosen(tmp_path / "none" / "wikiqa.json")
        monkeypatch.setattr(run, "DEFAULT_ENCODER", str(encoder))
        (judged / "wikiqa" / "dev.tsv").write_text((judged / "wikiqa" / "test.tsv").read_text())
        with refused("ap-transformer-trial-1.json … same origin"):
            run.command(["wikiqa"], **arguments, **places, plan=False)


def test_the_cross_encoder_reads_what_was_found_first(modules: dict[str, ModuleType], judged: Path) -> None:
    """Its order comes first; the others follow as they were found."""
    systems = modules["fair_systems"]
    asked = modules["fair_data"].read_fair_data("wikiqa", judged, judged).test_set
    orders = [list(reversed(pool)) for pool in asked.pools]

    class Library:
        """Prefers the answers with a high number."""

        def score(self, read: EvaluationSet) -> Any:
            assert [list(pool) for pool in read.pools] == [order[:2] for order in orders]
            by_question = [np.array([-float(row) for row in pool]) for pool in read.pools]
            return systems.CandidateScores(by_question, 0.0, 0.0)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(systems, "RERANKED", 2)
        patched.setattr(systems, "hard_candidates", lambda *_: orders)
        scores = systems.Reranker(Library(), None).score(asked, wordings=False)
    for pool, order, values in zip(asked.pools, orders, scores.by_question, strict=True):
        ranking = [pool[place] for place in np.argsort(-values)]
        assert ranking == [*sorted(order[:2]), *order[2:]]


def test_trials_are_as_many_for_each_and_begin_with_the_defaults(modules: dict[str, ModuleType]) -> None:
    systems = modules["fair_systems"]
    for name, grid in systems.GRIDS.items():
        trials = systems.trials_of(name, 6)
        assert len(trials) == 6
        assert trials == systems.trials_of(name, 9)[:6]
        assert trials[0] == ({} if name == systems.OURS else systems.RECIPE)
        assert len({json.dumps(trial, sort_keys=True) for trial in trials}) == 6
        for trial in trials[1:]:
            assert all(trial[setting] in values for setting, values in grid.items())


@pytest.mark.skipif(not HAS_LATE_INTERACTION, reason="sentence-transformers 6 is not installed")
def test_late_interaction_adds_up_the_best_token(modules: dict[str, ModuleType], judged: Path, tmp_path: Path) -> None:
    """Against sums of maxima, for answers and for the best wording but the question's own."""
    import torch

    encoder = write(tmp_path / "encoder", BERT, word_pieces(), pooled("mean"))
    peer = modules["late_interaction"].LateInteraction(encoder, torch.device("cpu"))
    asked = modules["fair_data"].read_fair_data("wikiqa", judged, judged).test_set
    answers = list(asked.dataset.answers)
    answers[0] = modules["fair_data"].replace(answers[0], wordings=(asked.question_texts[0], "is it here soon"))
    asked = EvaluationSet(modules["fair_data"].replace(asked.dataset, answers=answers))

    def similarity(question: str, text: str) -> float:
        (tokens,) = peer.model.encode_query([question])
        (others,) = peer.model.encode_document([text])
        return float((tokens @ others.T).max(dim=1).values.sum())

    for wordings in (False, True):
        scores = peer.score(asked, wordings=wordings).by_question
        for question, pool, values in zip(asked.question_texts, asked.pools, scores, strict=True):
            for row, value in zip(pool, values, strict=True):
                texts = [answers[row].text, *(answers[row].wordings if wordings else ())]
                expected = max(similarity(question, text) for text in texts if text != question)
                assert value == pytest.approx(expected, abs=1e-4)


def collected() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    ours = [" ".join(map(str, rng.integers(1, 3, 40))) for _ in range(3)]
    theirs = [" ".join(map(str, rng.integers(0, 5, 40))) for _ in range(3)]  # none of the right answers is found: 0
    ranks = {"ap-transformer": {"answers alone": ours, "wordings": ours}, "bi-encoder": {"answers alone": theirs}}
    systems: dict[str, Any] = {}
    for name, rows in ranks.items():
        measures = {row: {measure: [0.5, 0.6, 0.7] for measure in ("P@1", "MAP")} for row in rows}
        for row, seeds in rows.items():
            measures[row]["MRR"] = [float(np.mean(reciprocal(values))) for values in seeds]
        trials = [{"settings": {"epochs": 2}, "dev": 0.8}]
        systems[name] = {
            "trials": trials,
            "chosen": {"epochs": 2},
            "seeds": [1, 2, 3],
            "seconds": [60.0],
            "rows": measures,
        }
    facts = {"name": "toy", "title": "Toy", "encoder": "small", "questions": 40, "candidates": "all 9 answers"}
    bm25 = dict.fromkeys(("P@1", "MAP", "MRR"), 0.4)
    facts |= {"origin": {"training": "a"}, "grids": {"ap-transformer": {}, "bi-encoder": {}}}
    return {**facts, "bm25": bm25, "systems": systems, "ranks": ranks}


def reciprocal(ranks: str) -> list[float]:
    return [1 / float(rank) if float(rank) else 0.0 for rank in ranks.split()]


def test_a_file_keeps_what_was_measured_before(modules: dict[str, ModuleType]) -> None:
    """A system that is measured later stands beside the others, in the same order; not beside those of other data."""
    tables = modules["fair_tables"]
    whole = collected()
    parts = []
    for name in whole["systems"]:
        only = {part: {name: whole[part][name]} for part in ("systems", "ranks")}
        parts.append(collected() | only)
    ours, peer = parts
    assert tables.with_tests(tables.with_earlier(peer, ours)) == tables.with_tests(whole)
    assert list(tables.with_earlier(peer, ours)["systems"]) == list(whole["systems"])
    assert tables.with_earlier(peer, ours | {"origin": {"training": "b"}}) == peer
    assert tables.with_earlier(whole, parts[1] | {"ranks": {"bi-encoder": {}}}) == whole, "the new one stands"


def test_ranks_are_written_as_they_are_read(modules: dict[str, ModuleType]) -> None:
    values = [1.0, 0.5, 1 / 3, 0.0, 1 / 67, 1 / 499]
    assert modules["fair_tables"].ranks_text(values) == "1 2 3 0 67 499"
    shared = modules["fair_tables"].ranks_text([0.75, (1 / 2 + 1 / 3) / 2])  # the mean of two orders of equal scores
    assert [1 / float(rank) for rank in shared.split()] == pytest.approx([0.75, 5 / 12], rel=1e-6)


def test_the_p_values_of_the_files_follow_from_their_ranks(modules: dict[str, ModuleType]) -> None:
    tables = modules["fair_tables"]
    with_ranks = [result for result in tables.read_results() if "ranks" in result]
    assert with_ranks
    for result in with_ranks:
        assert tables.with_tests(result)["tests"] == result["tests"]
        for name, rows in result["ranks"].items():
            for row, seeds in rows.items():
                mrr = [float(np.mean(reciprocal(line))) for line in seeds]
                assert mrr == pytest.approx(result["systems"][name]["rows"][row]["MRR"]), (name, row)


def test_equal_rows_are_compared_and_no_others(modules: dict[str, ModuleType]) -> None:
    tables = modules["fair_tables"]
    measured = collected()
    result = tables.with_tests(measured)
    (test,) = result["tests"]
    assert (test["row"], test["system"]) == ("answers alone", "bi-encoder")
    means: list[np.ndarray] = []
    for name in ("ap-transformer", "bi-encoder"):
        means.append(np.mean([reciprocal(line) for line in measured["ranks"][name]["answers alone"]], axis=0))
    first, second = means
    assert test["gain"] == pytest.approx(first.mean() - second.mean())
    assert test["p_value"] == holm([randomisation_test(first, second)])[0]
    assert result["systems"]["bi-encoder"]["deviations"]["answers alone"]["MAP"] == pytest.approx(0.1)
    lines = [line.split(" | ") for line in tables.render([result]).splitlines() if line.startswith("| ")]
    assert [line[:2] for line in lines[2:6]] == [
        ["| BM25", ""],
        ["| answers alone", "`ap-transformer`"],
        ["| answers alone", "`bi-encoder`"],
        ["| wordings", "`ap-transformer`"],
    ]
    assert lines[4][3] == "0.600 ± 0.100"
    assert lines[4][5] == f"{test['p_value']:.4f} |"


def test_the_summary_has_a_line_for_each_system_of_a_row(modules: dict[str, ModuleType]) -> None:
    """An empty cell where a data set lacks the row; an asterisk where the difference is no chance; no line of what was
    not trained."""
    tables = modules["fair_tables"]
    first = tables.with_tests(collected())
    first["systems"]["untrained"] = first["systems"]["bi-encoder"] | {"trials": []}
    second = tables.with_tests(collected()) | {"title": "Other"}
    del second["systems"]["ap-transformer"]["rows"]["wordings"]
    second["tests"][0]["p_value"] = 0.05
    mrr = tables.spread(first["systems"]["bi-encoder"]["rows"]["answers alone"]["MRR"])
    ours = tables.spread(first["systems"]["ap-transformer"]["rows"]["wordings"]["MRR"])
    assert tables.summary([first, second]).splitlines() == [
        "| MRR | Toy | Other |",
        "| --- | ---: | ---: |",
        "| BM25 | 0.400 | 0.400 |",
        f"| answers alone: `ap-transformer` | {ours} | {ours} |",
        f"| answers alone: `bi-encoder` | {mrr} * | {mrr} |",
        f"| known wordings: `ap-transformer` | {ours} |  |",
    ]


def test_the_front_pages_have_the_summary_of_the_files(modules: dict[str, ModuleType]) -> None:
    tables = modules["fair_tables"]
    pages = tables.summaries(tables.read_results())
    assert len(pages) == 2
    for path, text in pages.items():
        page = path.read_text()
        assert tables.START in page
        assert tables.replaced(page, text) == page


def test_the_page_has_the_tables_of_the_files(modules: dict[str, ModuleType]) -> None:
    tables = modules["fair_tables"]
    results = [json.loads(path.read_text()) for path in sorted(HERE.glob("*.json"))]
    page = (HERE / "README.md").read_text()
    assert tables.replaced(page, tables.render(results)) == page


def test_what_is_missing_is_named(modules: dict[str, ModuleType], tmp_path: Path) -> None:
    data = modules["fair_data"]
    with refused("data set … example … wikiqa … squad"):
        data.read_fair_data("squad", tmp_path, tmp_path)
    with refused("wikiqa … --data"):
        data.read_fair_data("wikiqa", None, tmp_path)
    with refused("covid_questions … questions.csv … prepare_tables.py"):
        data.read_fair_data("covid_questions", tmp_path, tmp_path)


def test_a_public_faq_becomes_a_folder(modules: dict[str, ModuleType], tmp_path: Path) -> None:
    """As the product reads one: dev questions are set aside, training questions become wordings, test ones do not."""
    folder = tmp_path / "data" / "robo_en"
    folder.mkdir(parents=True)
    entries = ["aid,question,answer"]
    for number, (question, answer) in enumerate(zip(QUESTIONS, ANSWERS, strict=True)):
        entries.append(f'{number},{question}?,"{answer}"')
    (folder / "answers.csv").write_text("\n".join(entries) + "\n")
    words = ("blue", "tall", "round", "early", "cheap", "wooden", "loud", "frozen")
    lines = [f"train,{word} thing number {n} of {word} {n * 7},{n % 4}" for n, word in enumerate(words)]
    lines += [f"test,{question} today and tomorrow,{n}" for n, question in enumerate(QUESTIONS)]
    (folder / "questions.csv").write_text("split,question,answer_ids\n" + "\n".join(lines) + "\n")
    found = modules["fair_data"].read_fair_data("robo_en", folder.parent, tmp_path / "tables")
    assert [len(part.questions) for part in (found.dev, found.test)] == [2, 4]
    learnt = {question.text for question in found.training.questions if not question.stored}
    assert len(learnt) == 6
    assert learnt | set(found.dev.question_texts) == {line.split(",")[1] for line in lines[:8]}
    known = found.test_set.dataset.wordings
    assert learnt <= known
    assert known.isdisjoint(found.test.question_texts)


@pytest.mark.benchmark_data
def test_trec_learns_from_the_questions_that_people_judged(
    modules: dict[str, ModuleType], benchmarks: Path, tmp_path: Path
) -> None:
    trec = modules["fair_data"].read_fair_data("trecqa", benchmarks, tmp_path)
    assert (len(trec.training.answerable), trec.training.name) == (83, "trecqa/train.tsv.gz")
    assert (len(trec.dev.answerable), len(trec.test.answerable)) == (65, 68)
