"""Each kind of fault, planted alone into clean data, is found, and nothing else is."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import pytest
from conftest import ROOT
from refusals import refused

from ap_ranker.data.audit import audit
from ap_ranker.data.audit.checks import CHECKS
from ap_ranker.data.audit.report import AuditReport, Severity

CLEAN = Path(__file__).parent / "clean"
END = ""  # planted at the end of the file
TESTED_ALONE = {"joined-wordings", "repeated-answer", "repeated-texts", "shared-wording", "unknown-answer"}
"""Below, and in test_fix.py."""
LONG = " ".join(["word"] * 201)
REFUND = "Send the goods to us within thirty days and we refund the full price."

PLANTED = [
    ("empty-text", "pairs.csv", "Do you ship abroad?", " "),
    ("empty-text", "by_id/answers.csv", END, 'more," "\n'),
    ("mojibake", "pairs.csv", "original battery", "original batterÃ©"),
    ("mojibake", "pairs.csv", "Where is my parcel?", "Whereâ€™s my parcel?"),
    ("mojibake", "judged.csv", "Where is my parcel?", "Whereâ\x80\x99s my parcel?"),
    ("html", "pairs.csv", "goods to us", "<b class='x'>goods</b> to us"),
    ("html", "by_id/train.csv", "my parcel", "my&nbsp;parcel"),
    ("shown-html", "pairs.csv", "goods to us", "goods &amp;amp; bill to us"),
    ("control-character", "pairs.csv", "every country", "every\x0bcountry"),
    ("invisible-character", "judged.csv", "original battery", "original bat\u200btery"),
    ("decomposed-accent", "pairs.csv", "European", "Europe\u0301an"),
    ("lost-character", "pairs.csv", "every country", "every countr\ufffd"),
    ("placeholder", "pairs.csv", "We deliver to every country of the European Union and to Norway.", "n/a"),
    ("placeholder", "judged.csv", "Gift cards are valid for three years.", "???"),
    ("answer-repeats-question", "pairs.csv", END, "Are you open on Sundays?,are you open on sundays?\n"),
    ("long-answer", "pairs.csv", END, f"Are you open on Sundays?,{LONG}\n"),
    ("long-question", "by_id/train.csv", END, f"4,{LONG},track,yes\n"),
    (
        "other-language",
        "pairs.csv",
        END,
        "Wann kommt mein Paket?,Das Paket ist bei dem Boten und kommt mit der Post.\n",
    ),
    ("other-language", "by_id/train.csv", END, "4,Когда придёт моя посылка?,track,yes\n"),
    ("repeated-id", "by_id/train.csv", END, "3,Will it rain tomorrow?,track,yes\n"),
    ("repeated-id", "by_id/answers.csv", END, "track,Ask the shop around the corner for help.\n"),
    ("id-with-two-questions", "judged.csv", END, "3,Something else entirely,Ask the shop.,0\n"),
    ("unknown-id", "by_id/train.csv", END, "4,Will it rain tomorrow?,weather,yes\n"),
    ("unknown-id", "by_id/test-pools.csv", "refund track", "refund weather"),
    ("missing-answer-ids", "by_id/train.csv", END, "4,Will it rain tomorrow?,,yes\n"),
    ("missing-pool", "by_id/test.csv", END, "22,Will it rain tomorrow?,track,yes\n"),
    ("right-answer-outside-pool", "by_id/test-pools.csv", "refund track", "battery track"),
    ("answer-never-right", "by_id/answers.csv", END, "open,The shop opens at nine and closes at six.\n"),
    ("bad-label", "judged.csv", END, "3,Which battery fits my bike?,Ask the shop.,perhaps\n"),
    ("judged-both-ways", "judged.csv", END, f"2,How do I get my money back?,{REFUND},0\n"),
    ("judged-both-ways", "judged.csv", END, f"2,how do i get my money back?,{REFUND.upper()},0\n"),
    ("no-right-answer", "judged.csv", END, "4,Will it rain tomorrow?,We do not know.,0\n"),
    ("only-right-answers", "judged.csv", END, "4,Will it rain tomorrow?,We do not know.,1\n"),
    (
        "repeated-row",
        "pairs.csv",
        END,
        "Where is my parcel?,Open the tracking link in your email to see where the courier is.\n",
    ),
    ("repeated-row", "judged.csv", END, f"2,How do I get my money back?,{REFUND},1\n"),
    ("repeated-question", "by_id/train.csv", END, "4,where is  my parcel?,track,yes\n"),
    (
        "repeated-question",
        "judged.csv",
        END,
        f"4,How do I get my money back?,{REFUND},1\n4,How do I get my money back?,No.,0\n",
    ),
    ("several-answers", "by_id/train.csv", END, "4,Where is my parcel?,battery,yes\n"),
    ("several-answers", "pairs.csv", END, "Where is my parcel?,The courier has it and calls you before he rings.\n"),
    ("near-answer", "pairs.csv", END, f"Can I return it?,{REFUND.replace('full price', 'full prices')}\n"),
    (
        "near-answer",
        "judged.csv",
        END,
        f"2,How do I get my money back?,{REFUND.replace('full price', 'full prices')},1\n",
    ),
    ("near-answer-judged-differently", "judged.csv", END, f"2,How do I get my money back?,{REFUND[:-3]}!,0\n"),
    ("near-question", "by_id/train.csv", END, "4,How do I get my money back!,refund,yes\n"),
    ("near-question-other-answer", "by_id/train.csv", END, "4,How do I get my money back!!,track,yes\n"),
    ("leaked-question", "by_id/dev.csv", END, "13,how do I get my money back?,refund,yes\n"),
    ("near-leaked-question", "by_id/dev.csv", END, "13,How do I get my money back!!,refund,yes\n"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(CLEAN, tmp_path / "clean")
    return tmp_path / "clean"


def look(folder: Path, file: str) -> AuditReport:
    path = folder / "by_id" if file.startswith("by_id") else folder / file
    return audit(path, max_tokens=200)


@pytest.mark.parametrize("file", ["pairs.csv", "judged.csv", "by_id"])
def test_clean_data_has_no_fault(file: str) -> None:
    report = look(CLEAN, file)
    assert report.findings == {}
    assert report.questions and report.answers


@pytest.mark.parametrize(("kind", "file", "old", "new"), PLANTED, ids=lambda value: str(value)[:20])
def test_planted(folder: Path, kind: str, file: str, old: str, new: str) -> None:
    path = folder / file
    content = path.read_text(encoding="utf-8")
    assert old in content
    path.write_text(content.replace(old, new) if old else content + new, encoding="utf-8")
    report = look(folder, file)
    assert set(report.findings) == {kind}
    finding = report.findings[kind]
    assert finding.count == 1
    assert str(path) in finding.examples[0]["place"] or kind == "right-answer-outside-pool"
    if old == END:
        lines = content.count("\n")
        assert finding.examples[0]["place"].endswith(tuple(f"line {line}" for line in range(lines, lines + 3)))


ASKED = f"question,answer\nWhen is it here?,ASK the courier.\nMay I send it back?,{REFUND}\n"


def test_pairs_are_looked_up_in_the_faq_that_is_named(tmp_path: Path) -> None:
    faq = tmp_path / "faq.csv"
    questions = tmp_path / "questions.csv"
    questions.write_text(ASKED)
    faq.write_text(f"aid,question,answer\na,Where is my parcel?,Ask the courier.\nb,Refunds?,{REFUND}\n")
    assert audit(questions, answers=faq, max_tokens=200).findings == {}

    faq.write_text(f"question,answer\nWhere is my parcel?,Ask the postman.\nRefunds?,{REFUND} CafÃ©.\n")
    findings = audit(questions, answers=faq, max_tokens=200).findings
    assert {kind: finding.count for kind, finding in findings.items()} == {"unknown-answer": 2, "mojibake": 1}
    assert findings["unknown-answer"].severity == Severity.error
    places = [example["place"] for example in findings["unknown-answer"].examples]
    assert places == [f"{questions}, line {line}" for line in (2, 3)]
    assert str(faq) in findings["mojibake"].examples[0]["place"]


@pytest.mark.parametrize(
    ("wordings", "is_joined"),
    [
        ("where is it; track my parcel", True),
        ("where is it|track my parcel", True),
        ("还没到；查询快递", True),
        ("where is it\ntrack my parcel", False),
        ("where is it, and when does it come?", False),
        ("where is it ;-)", False),
        ("Tom &amp; Jerry", False),
        ("; | ", False),
    ],
)
def test_wordings_with_a_sign_between(wordings: str, is_joined: bool, tmp_path: Path) -> None:
    faq = tmp_path / "faq.csv"
    faq.write_text(f'question,answer,wordings\nWhere is my parcel?,Ask the courier.,"{wordings}"\nRefunds?,{REFUND},\n')
    found = audit(faq, max_tokens=200).findings
    assert ("joined-wordings" in found) == is_joined
    if is_joined:
        assert found["joined-wordings"].examples[0]["place"] == f"{faq}, line 2"


def test_a_broken_faq_of_pairs_is_refused(tmp_path: Path) -> None:
    faq = tmp_path / "faq.csv"
    questions = tmp_path / "questions.csv"
    questions.write_text(ASKED)
    for content in ("title,text,price\na,b,1\n", "question,answer\nWhere?\n", ""):
        faq.write_text(content)
        with refused(str(faq)):
            audit(questions, answers=faq, max_tokens=200)
    with refused("missing.csv"):
        audit(questions, answers=tmp_path / "missing.csv", max_tokens=200)
    with refused("judged.csv … Leave out --answers."):
        audit(CLEAN / "judged.csv", answers=questions, max_tokens=200)


Q, R, S = "Where is my parcel?", "How do I get my money back?", "Which battery fits?"

IDS = {
    "pairs": (
        f"id,question,answer\n7,{Q},On its way.\n8,{R},Send it.\n7,{S},The original one.\n",
        "id '7', first at line 2",
    ),
    "pairs, other case": (f"question;answer; ID \n{Q};On its way.;a\n{R};Send it.;a\n", "ID 'a', first at line 2"),
    "pairs, aid": (f"aid,question,answer\n7,{Q},On its way.\n7,{R},Send it.\n", "aid '7', first at line 2"),
    "pairs, other language": (f"id,Frage,Antwort\n7,{Q},On its way.\n7,{R},Send it.\n", "id '7', first at line 2"),
    "candidates": (
        f"id,question,answer,label\n1,{Q},On its way.,1\n2,{Q},No.,0\n2,{R},Send it.,1\n3,{R},No.,0\n",
        "id '2', first at line 3",
    ),
    "ids of the candidates' questions": (
        f"id,question,answer,label\n1,{Q},On its way.,1\n1,{Q},No.,0\n2,{R},Send it.,1\n2,{R},No.,0\n1,{S},It.,1\n",
        "id '1', first at line 2",
    ),
}
"""Two rows with one id: the content of a table, and what is found."""


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
@pytest.mark.parametrize("ids", IDS)
def test_ids_of_other_names_and_layouts(ids: str, ending: str, tmp_path: Path) -> None:
    content, found = IDS[ids]
    (tmp_path / "FAQ.csv").write_text(content)
    if ending == ".jsonl":
        delimiter = ";" if ";" in content else ","
        rows = csv.DictReader(io.StringIO(content), delimiter=delimiter)
        (tmp_path / "FAQ.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    report = audit(tmp_path / f"FAQ{ending}", max_tokens=200)
    assert report.counts(Severity.error) == {"repeated-id": 1}
    first = found if ending == ".csv" else found.replace("line 2", "line 1").replace("line 3", "line 2")
    assert report.findings["repeated-id"].examples[0]["found"].strip() == first


@pytest.mark.parametrize(
    "content",
    [
        f"id,question,answer\n7,{Q},On its way.\n8,{R},Send it.\n,{S},It.\n,Why?,So.\n",
        f"id,question,answer,label\n1,{Q},On its way.,1\n1,{Q},No.,0\n2,{R},Send it.,1\n2,{R},No.,0\n",
        f"id,question,answer,label\n1,{Q},On its way.,1\n2,{Q},No.,0\n3,{R},Send it.,1\n4,{R},No.,0\n",
        f"video,question,answer\n7,{Q},On its way.\n7,{R},Send it.\n",
    ],
    ids=["each row's own", "the questions'", "the candidates'", "no id"],
)
def test_ids_that_are_none_or_each_rows_own(content: str, tmp_path: Path) -> None:
    (tmp_path / "FAQ.csv").write_text(content)
    assert not audit(tmp_path / "FAQ.csv", max_tokens=200).counts(Severity.error)


def test_ids_of_the_files_of_data_by_id(folder: Path) -> None:
    """A pool that stands twice: the reader would take the last one without a word."""
    (folder / "by_id" / "test-pools.csv").open("a").write("21,track refund battery\n")
    answers = folder / "by_id" / "answers.csv"
    lines = answers.read_text().splitlines()
    answers.write_text("\n".join(["aid,answer,id", *(f"{line},1" for line in lines[1:])]) + "\n")
    report = look(folder, "by_id")
    assert {kind: finding.count for kind, finding in report.findings.items()} == {"repeated-id": len(lines) - 1}
    found = [example["found"] for example in report.findings["repeated-id"].examples]
    assert found == ["id '1', first at line 2"] * (len(lines) - 2) + ["qid '21', first at line 2"]


def test_every_kind_is_planted() -> None:
    assert {kind for kind, *_ in PLANTED} | TESTED_ALONE == set(CHECKS)


def test_repeated_answer_under_two_ids(folder: Path) -> None:
    """Each is right for a question, so neither is without one."""
    with (folder / "by_id" / "answers.csv").open("a") as file:
        file.write(f"again,{REFUND}\n")
    with (folder / "by_id" / "train.csv").open("a") as file:
        file.write("4,It broke after a week,again,yes\n")
    report = look(folder, "by_id")
    assert {kind: finding.count for kind, finding in report.findings.items()} == {"repeated-answer": 1}
    assert report.findings["repeated-answer"].examples[0]["found"] == "as refund, line 3"


def test_pairs_of_one_record_are_questions_of_their_own(tmp_path: Path) -> None:
    pairs = [
        {"question": "Where is my parcel?", "answer": "Follow the link in our e-mail."},
        {"question": "How do I get my money back?", "answer": REFUND},
    ]
    (tmp_path / "train.jsonl").write_text(json.dumps({"entries": pairs}))
    (tmp_path / "dev.csv").write_text(f"question,answer\nHow do I get my money back?,{REFUND}\n")
    assert audit(tmp_path, max_tokens=200).findings["leaked-question"].count == 1


def test_stored_questions(folder: Path) -> None:
    """They are questions of train: an answer that has one is asked for, and a dev question may leak from it."""
    answers = folder / "by_id" / "answers.csv"
    lines = answers.read_text().splitlines()
    rows = ["aid,question,answer", *(line.replace(",", ",,", 1) for line in lines[1:])]
    answers.write_text("\n".join([*rows, "open,When does the courier come?,At nine in the morning.\n"]))
    report = look(folder, "by_id")
    assert set(report.findings) == {"leaked-question"}
    assert "line 5" in report.findings["leaked-question"].examples[0]["found"]


def test_counts_and_examples(folder: Path) -> None:
    path = folder / "pairs.csv"
    more = "".join(f"Question {chr(97 + n) * 9}?,{' '.join([chr(97 + n) * 4] * 201)}\n" for n in range(5))
    path.write_text(path.read_text() + more)
    finding = look(folder, "pairs.csv").findings["long-answer"]
    assert finding.count == 5
    assert len(finding.examples) == 3


def test_dev_and_test_of_their_own(folder: Path) -> None:
    """A file may be given for each split; an earlier split is where the question belongs."""
    pairs = folder / "pairs.csv"
    report = audit(pairs, dev=folder / "judged.csv", max_tokens=200)
    assert {kind: finding.count for kind, finding in report.findings.items()} == {"leaked-question": 3}
    assert report.findings["leaked-question"].examples[0]["place"] == f"{folder / 'judged.csv'}, line 2"


def test_the_example_faq_is_clean() -> None:
    report = audit(ROOT / "examples" / "faq", max_tokens=200)
    assert not report.counts(Severity.error)


def typed(text: str) -> str:
    """As one keyboard writes it."""
    for same, characters in {
        "'": "\u2018\u2019\u201b`",
        '"': "\u201c\u201d",
        "-": "\u2010\u2011\u2012\u2013\u2014",
    }.items():
        for character in characters:
            text = text.replace(character, same)
    return " ".join(text.replace("\u00ae", " ").replace("\u2026", "...").lower().split())


def test_the_covid_faq(benchmarks: Path) -> None:
    """Counted by hand with naive loops over its rows; the file has 11 copies in three forms."""
    import gzip

    path = benchmarks / "faq_public" / "covid-faq-en.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = [(row["question"].strip(), row["answer"].strip()) for row in csv.DictReader(file)]
    report = audit(path, max_tokens=200)
    assert report.findings["repeated-row"].count == sum(rows[i] in rows[:i] for i in range(len(rows))) > 0
    answers: dict[str, str] = {}
    differing = 0
    for question, answer in rows:
        known = answers.setdefault(typed(question), typed(answer))
        differing += known != typed(answer)
    assert report.findings["several-answers"].count == differing > 0
    assert report.findings["mojibake"].count > 100
    assert not report.counts(Severity.error)
