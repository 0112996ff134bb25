from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import reconfigure, write_checkpoint
from refusals import absent, refused
from typer.testing import CliRunner

from ap_ranker.cli.main import app
from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.data.reader import read_dataset
from ap_ranker.data.split import split_file
from ap_ranker.evaluation.calibration_fit import outcome, rankings_by_kind, top_answers
from ap_ranker.ranking.checkpoint import read_checkpoint_config
from ap_ranker.ranking.faq_sketch import FAQSketch
from ap_ranker.ranking.fingerprint import fingerprint
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.rule import Basis, Calibration
from ap_ranker.search.setup import set_up
from ap_ranker.training.calibrate import calibrate
from ap_ranker.training.calibration_gain import CalibrationGain

ANSWERS = "aid,answer\n1,open the tracking link\n2,the refund arrives\n3,the original battery fits\n"
WORDS = ["tracking link", "refund arrives", "battery fits"]
QUESTIONS = [f"{number},{pattern} {WORDS[number % 3]},{number % 3 + 1}" for number, pattern in enumerate(["the"] * 30)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkpoint with a weight of BM25, and questions of which a sixth have no answer, or none."""
    write_checkpoint("ap-cnn", tmp_path / "ranker", bm25_weight=0.2)
    (tmp_path / "answers.csv").write_text(ANSWERS)
    head = "qid,question,answer_ids,answerable\n"
    lost = [f"{number},where is my bike {number},1,no" for number in range(30, 36)]
    for name, rows in {
        "dev": [*(row + ",yes" for row in QUESTIONS), *lost],
        "test": [*(row + ",yes" for row in QUESTIONS[:10]), *lost[:2]],
        "all": [row + ",yes" for row in QUESTIONS],
        "few": [row + ",yes" for row in QUESTIONS[:5]],
    }.items():
        (tmp_path / f"{name}.csv").write_text(head + "\n".join(rows) + "\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["calibrate", *map(str, arguments), "--device", "cpu"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_calibrate(folder: Path) -> None:
    before = read_checkpoint_config(folder / "ranker")
    printed = run("ranker", ".", "--test", ".", "--precision", "0.3,0.6", "--json", "numbers.json")
    assert not absent("6 … 36 … dev.csv", printed)
    assert "36 questions of dev.csv, each by a fit to others" in printed
    assert "12 questions of test.csv" in printed
    config = read_checkpoint_config(folder / "ranker")
    assert replace(config, calibration={}, prior={}, faq=None, uncalibrated=None) == before
    assert {each.basis for each in config.prior.values()} == {Basis.PRIOR}
    answers = read_dataset(folder, "test").answers
    assert config.faq == FAQSketch.with_language([answer.text for answer in answers])
    assert set(config.calibration) == {"model", "fused"}
    numbers = json.loads((folder / "numbers.json").read_text())
    rankings = rankings_by_kind(Ranker.from_pretrained(folder / "ranker", "cpu"), read_dataset(folder, "test"))
    for kind, fit in config.calibration.items():
        found = numbers["test"][kind]["thresholds"]
        assert set(found) == {"-", *fit.thresholds}
        for wished, least in fit.thresholds.items():
            expected = outcome(top_answers(fit, rankings[kind]), least)
            assert found[wished]["threshold"] == least
            assert found[wished]["answered"] == pytest.approx(expected["answered"])
            assert found[wished]["rejected"] == pytest.approx(expected["rejected"])
            if wished != "0.8":  # which has a threshold in any case
                assert f"{expected['answered']:.1%}" in printed
    card = (folder / "ranker" / "README.md").read_text()
    assert card.startswith("# card\n")
    assert "12 questions of test.csv." in card
    for kind, name in (("model", "the model's score"), ("fused", "BM25's score added")):
        for wished, each in numbers["test"][kind]["thresholds"].items():
            shares = (each[part] for part in ("precision", "answered", "rejected"))
            shown = ["-" if share is None else f"{share:.1%}" for share in shares]
            assert f"| {name} | {wished} | {each['threshold']:.3f} | {' | '.join(shown)} |" in card
        assert f"{name} {numbers['test'][kind]['calibration_error']:.3f}" in card
    assert any(fit.thresholds for fit in config.calibration.values())
    assert not list(folder.rglob(".*.part"))


@pytest.mark.parametrize("is_of_an_earlier_release", [False, True])
def test_what_is_encoded_stays_good(folder: Path, is_of_an_earlier_release: bool) -> None:
    """Whatever FAQ it is calibrated on, and how often: indexes and states are found by the fingerprint."""
    config = folder / "ranker" / "config.json"
    if is_of_an_earlier_release:  # which wrote fewer settings
        values = json.loads(config.read_text())
        for name in ("prior", "faq", "floor", "verdict", "uncalibrated"):
            values.pop(name, None)
        config.write_text(json.dumps(values))
    before = fingerprint(folder / "ranker")
    contents = set()
    for answers in (ANSWERS, ANSWERS + "4,a bell for each child's bicycle\n", ANSWERS):
        (folder / "answers.csv").write_text(answers)
        run("ranker", "dev.csv", "--answers", "answers.csv", "--precision", "0.3")
        contents.add(config.read_bytes())
        assert fingerprint(folder / "ranker") == before
    assert len(contents) == 2
    reconfigure(folder / "ranker", max_tokens=7)
    assert fingerprint(folder / "ranker") != before


@pytest.mark.parametrize(("options", "shown"), [((), "10%"), (("--share", 0.3), "30%")])
def test_data_without_unanswerable_questions(folder: Path, options: tuple[object, ...], shown: str) -> None:
    printed = run("ranker", "all.csv", "--json", "numbers.json", *options)
    assert not absent("30 … all.csv", printed)
    assert f"count as {shown} of the questions" in printed
    assert "all.csv, each by a fit to others; each is counted again" in (folder / "ranker" / "README.md").read_text()
    everything = json.loads((folder / "numbers.json").read_text())["dev"]["model"]["thresholds"]["-"]
    assert (everything["answered"], everything["rejected"]) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (["ranker", "dev.csv", "--precision", "high"], "--precision … high"),
        (["ranker", "dev.csv", "--precision", "0.9,95"], "precisions … [0.9, 95.0]"),
        (["ranker", "dev.csv", "--share", "0.2"], "dev.csv … share"),
        (["ranker", "all.csv", "--share", "1"], "share … 0 … 1 … 1.0"),
        (["some/model", "dev.csv"], "some/model"),
        (["ranker", "nowhere.csv"], "nowhere.csv"),
        ([".", "dev.csv"], "config.json"),
    ],
)
def test_mistakes_change_nothing(folder: Path, arguments: list[str], facts: str) -> None:
    before = (folder / "ranker" / "config.json").read_bytes()
    with refused(facts):
        run(*arguments)
    assert (folder / "ranker" / "config.json").read_bytes() == before


def test_again_on_the_same_questions_changes_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The encoder's prior counts beside them each time, as it was; what the first time made of it is no further one."""
    sure = Calibration(3.0, 3.0, -2.0, {}, basis=Basis.PRIOR)
    reconfigure(folder / "ranker", calibration={"model": sure, "fused": sure})
    monkeypatch.setattr(CalibrationGain, "is_loss", False)
    made = []
    for data in ("dev.csv", "dev.csv", "all.csv", "dev.csv"):
        run("ranker", data, "--answers", "answers.csv", "--precision", "0.3")
        made.append(read_checkpoint_config(folder / "ranker"))
    assert made[0].calibration["model"].basis is Basis.QUESTIONS
    assert made[0] == made[1] == made[3] != made[2]


def test_any_number_of_questions_will_do(folder: Path) -> None:
    """Each target then has a threshold and says how certain it is; the more questions, the more certain."""
    (folder / "one.csv").write_text("qid,question,answer_ids\n" + QUESTIONS[0] + "\n")
    doubts = []
    for name, count in (("one", 1), ("few", 5), ("all", 30)):
        report = calibrate("ranker", folder / f"{name}.csv", answers=Path("answers.csv"), device="cpu")
        assert set(report.certainty) == {"0.8", "0.9", "0.95"}
        for certainty in report.certainty.values():
            assert 0 <= certainty.lower <= certainty.expected <= 1
        doubts.append(report.certainty["0.8"].expected - report.certainty["0.8"].lower)
        config = read_checkpoint_config(folder / "ranker")
        for fit in config.calibration.values():
            assert (fit.basis, fit.questions) == (Basis.QUESTIONS, count)
            leasts = [fit.thresholds[target] for target in ("0.8", "0.9", "0.95")]
            assert leasts == sorted(leasts)
    assert doubts[0] > doubts[-1]
    printed = run("ranker", "one.csv", "--answers", "answers.csv")
    assert not absent("0.95 … Expected precision … 95 % … 1 question … 99", printed)


def test_wrong_first_answers_are_not_asserted(folder: Path) -> None:
    """Every other question has another right answer than the one that its words name."""
    rows = (f"{n},the {WORDS[n % 3]},{(n + n // 3 % 2) % 3 + 1}\n" for n in range(36))
    (folder / "mixed.csv").write_text("qid,question,answer_ids\n" + "".join(rows))
    run("ranker", "mixed.csv", "--precision", "0.9", "--json", "numbers.json")
    for score in json.loads((folder / "numbers.json").read_text())["dev"].values():
        assert score["thresholds"]["0.9"]["answered"] < 0.1


def test_pairs_are_ranked_among_the_faq(folder: Path) -> None:
    """As by id, but for the answers of the pairs: without the FAQ, these are all there is."""
    texts = dict(line.split(",") for line in ANSWERS.splitlines()[1:])
    rows = (line.split(",") for line in [*QUESTIONS, *QUESTIONS] if not line.endswith(",3"))
    pairs = (f"{question} {number},{texts[aid].upper()}\n" for number, (_, question, aid) in enumerate(rows))
    (folder / "pairs.csv").write_text("question,answer\n" + "".join(pairs))
    printed = run("ranker", "pairs.csv", "--answers", "answers.csv", "--precision", "0.6")
    assert "Candidates: 3 per question." in printed
    printed = run("ranker", "pairs.csv", "--precision", "0.6")
    assert "Candidates: 2 per question." in printed
    assert not absent("2 … pairs.csv", printed)
    assert not absent("--answers FAQ.csv", printed)


def test_as_a_function(folder: Path) -> None:
    data = read_dataset("all.csv", "dev")
    report = calibrate("ranker", data, precisions=[0.6, 0.3], share=0.2)
    [measured] = report.splits.values()
    assert (measured.n_questions, measured.unanswerable, measured.hidden_share) == (30, 0, 0.2)
    run("ranker", "all.csv", "--share", 0.2, "--precision", "0.3,0.6", "--json", "numbers.json")
    assert report.as_json() == json.loads((folder / "numbers.json").read_text())
    with refused("precisions … [95]"):
        calibrate("ranker", data, precisions=[95])


def test_questions_that_are_their_entrys_only_wording_are_not_fitted_to(folder: Path) -> None:
    """A FAQ whose stored questions are all there is keeps what was learnt from other FAQs; users' questions count."""
    answers: dict[str, str] = dict(line.split(",") for line in ANSWERS.splitlines()[1:])
    stored = [Question(f"s{aid}", f"stored question {aid}", (row,)) for row, aid in enumerate(answers)]
    entries = [Answer(aid, text, (f"stored question {aid}",)) for aid, text in answers.items()]
    faq = Dataset("faq", entries, stored)
    report = calibrate("ranker", faq)
    kept = read_checkpoint_config(folder / "ranker")
    assert {each.basis for each in kept.calibration.values()} == {Basis.PRIOR}
    assert kept.calibration == kept.prior
    assert report.certainty.keys() == {"0.8", "0.9", "0.95"}
    asked = [*stored, *(Question(f"u{aid}", f"another question {aid}", (row,)) for row, aid in enumerate(answers))]
    assert calibrate("ranker", replace(faq, questions=asked)).splits["dev"].n_questions == len(answers)
    assert {each.basis for each in read_checkpoint_config(folder / "ranker").calibration.values()} == {Basis.QUESTIONS}


@pytest.mark.parametrize(("wordings", "basis"), [(1, Basis.PRIOR), (4, Basis.QUESTIONS)])
def test_questions_of_split_count_as_in_training(folder: Path, wordings: int, basis: Basis) -> None:
    """The FAQ that is searched has the dev questions, too: of an entry with one question, that is its only wording."""
    topics = ["parcel", "refund", "battery", "saddle", "invoice", "courier", "helmet", "voucher", "pedal", "brake"]
    patterns = ["where is my {}", "who repairs a {} of yours", "{} prices please", "the colour of this {} is wrong"]
    rows = [f"{pattern.format(topic)},all about the {topic}\n" for topic in topics for pattern in patterns[:wordings]]
    (folder / "faq.csv").write_text("question,answer\n" + "".join(rows))
    split_file(folder / "faq.csv", folder / "data")
    run("ranker", "data")
    calibrated = read_checkpoint_config(folder / "ranker").calibration
    assert {each.basis for each in calibrated.values()} == {basis}


FAQ_WITH_WORDINGS = """question,answer,wordings
where is the bike,open the tracking link,"tracking link please
link of the tracking"
,the refund arrives,"refund when
arrives the refund
refund"
which battery,the original battery fits,"battery fits
original battery"
"""


def test_wordings_are_asked_of_the_entries_that_are_searched(folder: Path) -> None:
    """Of answers with their stored questions, where there are some, and also of an entry without one."""
    (folder / "faq.csv").write_text(FAQ_WITH_WORDINGS)
    report = calibrate("ranker", answers=Path("faq.csv"), device="cpu")
    with set_up(Path("faq.csv"), model="ranker") as setup:
        searched = [answer.text for answer in setup.faq().answers]
    assert searched[:2] == ["where is the bike\nopen the tracking link", "the refund arrives"]
    config = read_checkpoint_config(folder / "ranker")
    assert config.faq == FAQSketch.with_language(searched)
    assert {each.basis for each in config.calibration.values()} <= {Basis.WORDINGS, Basis.PRIOR}
    assert report.splits["dev"].n_questions == 6
