from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from odd_cells import ODD
from refusals import refused

from ap_ranker.data.audit import audit
from ap_ranker.data.audit.checks import CHECKS
from ap_ranker.data.audit.fix import fix
from ap_ranker.data.faq import read_faq
from ap_ranker.data.tables import read_table
from ap_ranker.files import csv_text

PAIRS = """question,answer,topic
Where is it?,Open the <b>link</b>.,a
Where is it?,Open the link.,a
How much?, ,b
Is the cafÃ© open?,"Yes,
every day.",c
"""
JUDGED = "qid,question,answer,label\n1,Is it open?,Yes&#33;,1\n1,Is it open?,Yes!,0\n1,Is it open?,Yes!,1\n"


def test_pairs(tmp_path: Path) -> None:
    source, output = tmp_path / "faq.csv", tmp_path / "fixed.csv"
    source.write_text(PAIRS, encoding="utf-8")
    counts, log = fix(source, output)
    assert counts == {"empty-text": 1, "mojibake": 1, "html": 1, "repeated-row": 1}
    with output.open(encoding="utf-8", newline="") as file:
        assert list(csv.reader(file)) == [
            ["question", "answer", "topic"],
            ["Where is it?", "Open the link.", "a"],
            ["Is the café open?", "Yes,\nevery day.", "c"],
        ]
    assert source.read_text(encoding="utf-8") == PAIRS
    changes = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert changes[0] == {
        "place": f"{source}, line 2",
        "kind": "html",
        "column": "answer",
        "before": "Open the <b>link</b>.",
        "after": "Open the link.",
    }
    assert changes[1]["row_removed"] == {"question": "Where is it?", "answer": "Open the link.", "topic": "a"}
    assert {path.name for path in tmp_path.iterdir()} == {"faq.csv", "fixed.csv", "fixed.csv.changes.jsonl"}


WORDINGS = """question,answer,wordings
How do I pay?,By card.,"visa ok
viÃ©sa <b>no</b>
one<br>two
N/A"
Where is my parcel?,Open the link.,"VISA, ok!
how do I pay
-
&amp;amp; is it here"
Where is the shop?,Main Street 5.,"where are you
where are you"
Which street?,Main Street 5.,where are you
"""


def test_wordings(tmp_path: Path) -> None:
    """They are checked and repaired line by line; one that asks for two answers is reported."""
    source, output = tmp_path / "faq.csv", tmp_path / "fixed.csv"
    source.write_text(WORDINGS, encoding="utf-8")
    found = audit(source, max_tokens=200).findings
    counts = {kind: finding.count for kind, finding in found.items()}
    assert counts == {"mojibake": 1, "html": 1, "shown-html": 1, "placeholder": 2, "shared-wording": 2}
    assert [example["found"] for example in found["shared-wording"].examples] == [
        "'VISA, ok!', as line 5",
        "'how do I pay', as line 5",
    ]
    assert fix(source, output)[0] == {"mojibake": 1, "html": 1}
    first, second, *_ = read_faq(output)
    assert first.wordings == ("visa ok", "viésa no", "one\ntwo")
    assert second.wordings == ("VISA, ok!", "how do I pay", "&amp; is it here")
    assert not fix(output, tmp_path / "again.csv")[0]


def test_rows_that_differ_in_another_column_stay(tmp_path: Path) -> None:
    source, output = tmp_path / "faq.csv", tmp_path / "fixed.csv"
    row = "How do I pay?,By card."
    kept = [f"{row},visa ok,Money", f"{row},paypal,Money", f"{row},visa ok,Orders", f"{row},,"]
    repeated = [f"{row},paypal,Money", f"{row},,"]
    source.write_text("\n".join(["question,answer,wordings,topic", *kept, *repeated]) + "\n")
    found = audit(source, max_tokens=200).findings
    assert {kind: finding.count for kind, finding in found.items()} == {"repeated-row": 2, "repeated-texts": 3}
    assert found["repeated-texts"].examples[1] == {
        "place": f"{source}, line 4",
        "found": "as line 2, but for topic: 'How do I pay?'",
    }
    counts, _ = fix(source, output)
    assert counts == {"repeated-row": 2}
    assert output.read_text().splitlines()[1:] == kept


@pytest.mark.parametrize("line_end", [" ", "\n"])
def test_a_repaired_file_is_read_as_before(tmp_path: Path, line_end: str) -> None:
    """With and without a real line end, by which a file's escaped ones are told."""
    source, output = tmp_path / "faq.csv", tmp_path / "fixed.csv"
    rows = [(f"What is {number}?", f"{cell}{line_end}{number}") for number, cell in enumerate(ODD)]
    source.write_text(csv_text(["question", "answer"], rows), encoding="utf-8")
    counts, _ = fix(source, output)
    assert counts.keys() == {"html"}
    assert [entry.answer for entry in read_faq(output)] == [entry.answer for entry in read_faq(source)]
    assert not fix(output, tmp_path / "again.csv")[0]


def test_what_needs_judgement_stays(tmp_path: Path) -> None:
    """Contradicting labels are reported before and after; what is repaired is not."""
    source, output = tmp_path / "judged.csv", tmp_path / "fixed.csv"
    source.write_text(JUDGED)
    counts, _ = fix(source, output)
    assert counts == {"html": 1, "repeated-row": 1}
    assert [(row.get("answer"), row.get("label")) for row in read_table(output).rows] == [("Yes!", "1"), ("Yes!", "0")]
    left = audit(output, max_tokens=200).findings
    assert "judged-both-ways" in left
    assert not any(CHECKS[kind].fixed_by_fix for kind in left)


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    source = tmp_path / "faq.csv"
    source.write_text(PAIRS, encoding="utf-8")
    with refused("faq.csv"):
        fix(source, source)
    (tmp_path / "b.csv.changes.jsonl").write_text("mine")
    with refused("b.csv"):
        fix(source, tmp_path / "b.csv")
    assert source.read_text(encoding="utf-8") == PAIRS
    assert not (tmp_path / "b.csv").exists()


def test_whole_or_not_at_all(tmp_path: Path) -> None:
    source = tmp_path / "faq.csv"
    source.write_text(PAIRS, encoding="utf-8")
    for name in ("b.tsv", "b.parquet"):
        with refused(f"{name} … .csv"):
            fix(source, tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["faq.csv"]


def test_data_that_is_not_one_file_of_texts(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("qid,question,answer_ids\n1,q,a\n")
    (tmp_path / "empty.csv").write_text("question,answer\nq, \n")
    for path, facts in ((tmp_path, "folder"), (tmp_path / "train.csv", "train.csv … by id")):
        with refused(facts):
            fix(path, tmp_path / "b.csv")
    with refused("empty.csv … none"):
        fix(tmp_path / "empty.csv", tmp_path / "b.csv")


@pytest.mark.parametrize("output", [".", "/", ""])
def test_an_output_without_a_name(tmp_path: Path, output: str) -> None:
    data = tmp_path / "a.csv"
    data.write_text("question,answer\nq,a\n")
    with refused(".csv"):
        fix(data, Path(output))
