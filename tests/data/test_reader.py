from __future__ import annotations

from pathlib import Path

import pytest
from refusals import refused

from ap_ranker.data.faq import Match, read_faq
from ap_ranker.data.reader import read_dataset
from ap_ranker.data.split import split_questions


def write(folder: Path, **files: str) -> Path:
    for name, content in files.items():
        (folder / name.replace("__", "-").replace("_", ".")).write_text(content, encoding="utf-8")
    return folder


def test_pairs(tmp_path: Path) -> None:
    write(tmp_path, faq_csv="question,answer\nq1,a1\nq2,a1\nq1,a2\nq1,a1\n")
    data = read_dataset(tmp_path / "faq.csv", "train")
    assert [answer.text for answer in data.answers] == ["a1", "a2"]
    assert [(q.text, q.positives, q.candidates) for q in data.questions] == [("q1", (0, 1), None), ("q2", (0,), None)]
    assert data.notes == {"repeated question-answer pairs merged": 1}
    assert data.pairs == 3


def test_judged(tmp_path: Path) -> None:
    write(
        tmp_path, d_csv="qid,question,answer,label\n1,q,a,1\n1,q,b,0\n2,q,a,0\n1,q,b,0\n2,q,c,true\n2,q,a,1\n3,r,d,0\n"
    )
    data = read_dataset(tmp_path / "d.csv", "train")
    assert [(q.id, q.positives, q.candidates, q.negatives) for q in data.questions] == [
        ("1", (0,), (0, 1), (1,)),
        ("2", (2, 3), (2, 3), ()),
        ("3", (), (4,), (4,)),
    ]
    assert data.judged
    assert data.notes == {
        "repeated candidates of a question merged": 1,
        "candidates judged twice, differently; the better label taken": 1,
    }
    assert [q.id for q in data.answerable] == ["1", "2"]


def test_graded_labels(tmp_path: Path) -> None:
    """Only Good is right; the class of each candidate is kept for the classifiers."""
    rows = "q,a,PotentiallyUseful\nq,b,Good\nq,c,bad\nr,d,Dialogue\nr,d,Potential\n"
    write(tmp_path, d_csv="question,answer,label\n" + rows)
    data = read_dataset(tmp_path / "d.csv", "train")
    assert data.classes == ("Bad", "PotentiallyUseful", "Good")
    assert [(q.positives, q.labels) for q in data.questions] == [((1,), (1, 2, 0)), ((), (1,))]
    assert data.notes == {"candidates judged twice, differently; the better label taken": 1}


def test_judged_without_qid_groups_by_question(tmp_path: Path) -> None:
    write(tmp_path, d_csv="question,answer,label\nq,a,1\nr,b,1\nq,c,0\n")
    assert [(q.text, q.candidates) for q in read_dataset(tmp_path / "d.csv", "dev").questions] == [
        ("q", (0, 2)),
        ("r", (1,)),
    ]


ANSWERS = "aid\tanswer\nx\tfirst\ny\tsecond\nz\tthird\n"


def test_folder_with_pools(tmp_path: Path) -> None:
    write(
        tmp_path,
        answers_tsv=ANSWERS,
        train_tsv="qid\tquestion\tanswer_ids\n1\tq\ty x\n",
        valid_tsv="qid\tquestion\tanswer_ids\n9\tr\tz\n",
        valid__pools__2_tsv="qid\tcandidate_ids\n9\tz x\n",
    )
    train, dev = read_dataset(tmp_path, "train"), read_dataset(tmp_path, "dev")
    assert (train.questions[0].positives, train.questions[0].candidates) == ((1, 0), None)
    assert (dev.questions[0].positives, dev.questions[0].candidates) == ((2,), (2, 0))
    assert not dev.judged
    with refused("test.* … answers.tsv, train.tsv"):
        read_dataset(tmp_path, "test")


def test_pair_of_files(tmp_path: Path) -> None:
    write(tmp_path, q_csv="qid,question,answer_ids\n1,q,z\n")
    (tmp_path / "elsewhere").mkdir()
    write(tmp_path / "elsewhere", a_tsv=ANSWERS)
    data = read_dataset(tmp_path / "q.csv", "train", answers=tmp_path / "elsewhere" / "a.tsv")
    assert data.answers[data.questions[0].positives[0]].text == "third"
    with refused("--answers"):
        read_dataset(tmp_path / "q.csv", "train")


def test_questions_marked_as_not_answerable(tmp_path: Path) -> None:
    write(tmp_path, answers_tsv=ANSWERS, test_csv="qid,question,answer_ids,answerable\n1,q,x,yes\n2,r,,no\n")
    data = read_dataset(tmp_path, "test")
    assert [q.positives for q in data.questions] == [(0,), ()]
    assert [q.id for q in data.answerable] == ["1"]


@pytest.mark.parametrize(
    ("match", "text"), [(Match.both, "How?\nSo."), (Match.answer, "So."), (Match.question, "How?")]
)
def test_matched_text_of_a_stored_question(tmp_path: Path, match: Match, text: str) -> None:
    write(
        tmp_path, answers_csv="aid,question,answer\n1,How?,So.\n2,,Just so.\n", train_csv="question,answer_ids\nq,1\n"
    )
    assert [a.text for a in read_dataset(tmp_path, "train", match=match).answers] == [text, "Just so."]
    assert read_faq(tmp_path / "answers.csv")[0].text(match) == text


@pytest.mark.parametrize(
    ("files", "facts"),
    [
        ({"train_csv": "question,remark,x\nq,a,b\n"}, "question, remark, x … --columns"),
        ({"train_csv": "question,answer\nq,\n"}, "train.csv, line 2 … answer"),
        ({"train_csv": "question,answer\n ,a\n"}, "line 2 … question"),
        ({"train_csv": "question,answer\nq,\u200b\x1c\n"}, "line 2 … answer"),
        ({"train_csv": "question,answer,label\nq,a,fine\n"}, "line 2 … 1 … 0 … 'fine'"),
        ({"train_csv": "question,answer,label\nq,a,Good\nq,b,1\n"}, "line 3 … Good, PotentiallyUseful, Bad … '1'"),
        ({"train_csv": "qid,question,answer_ids\n1,q,x w\n"}, "line 2 … 'w'"),
        ({"train_csv": "qid,question,answer_ids\n1,q,\n"}, "line 2 … answer_ids"),
        ({"train_csv": "qid,question,answer_ids\n1,q,x\n1,r,x\n"}, "line 3 … qid … '1'"),
        (
            {"train_csv": "qid,question,answer_ids\n1,q,x\n", "train__pools_csv": "qid,candidate_ids\n2,x\n"},
            "question … '1'",
        ),
        (
            {"train_csv": "qid,question,answer_ids\n1,q,x\n", "train__pools_csv": "qid,candidates\n1,x\n"},
            "candidate_ids … qid, candidates",
        ),
    ],
)
def test_bad_data(tmp_path: Path, files: dict[str, str], facts: str) -> None:
    write(tmp_path, answers_tsv=ANSWERS, **files)
    with refused(f"{tmp_path} … {facts}"):
        read_dataset(tmp_path, "train")


def test_answers_with_a_repeated_id(tmp_path: Path) -> None:
    write(tmp_path, answers_csv="aid,answer\nx,a\nx,b\n", train_csv="question,answer_ids\nq,x\n")
    with refused("answers.csv, line 3 … aid … 'x'"):
        read_dataset(tmp_path, "train")


def test_faq_without_answers(tmp_path: Path) -> None:
    write(tmp_path, faq_csv="question,remark,x\nq,a,b\n")
    with refused("answer … question, remark, x"):
        read_faq(tmp_path / "faq.csv")


def test_split_is_disjoint_and_complete(tmp_path: Path) -> None:
    rows = "".join(f"{'Same' if i % 7 == 0 else 'SAME' if i % 7 == 1 else i},a{i}\n" for i in range(70))
    write(tmp_path, faq_csv="question,answer\n" + rows)
    data = read_dataset(tmp_path / "faq.csv", "train")
    kept, held = split_questions(data, 0.2, seed=3)
    sides = [{q.text.casefold() for q in side.questions} for side in (kept, held)]
    assert not sides[0] & sides[1]
    assert len(kept.questions) + len(held.questions) == len(data.questions)
    assert len(sides[1]) == round(0.2 * len(sides[0] | sides[1]))
    assert split_questions(data, 0.2, seed=3) == (kept, held)
    assert split_questions(data, 0.2, seed=4) != (kept, held)


@pytest.mark.benchmark_data
def test_benchmarks_have_the_documented_sizes(benchmarks: Path) -> None:
    insurance = read_dataset(benchmarks / "insuranceqa", "test")
    assert (len(insurance.answers), len(insurance.questions)) == (27_413, 2_000)
    assert {len(q.candidates or ()) for q in insurance.questions} == {500}
    wiki = read_dataset(benchmarks / "wikiqa", "test")
    assert len(wiki.answerable) == 243
    clean = {split: read_dataset(benchmarks / "trecqa", split).answerable for split in ("dev", "test")}
    assert {split: sum(bool(q.negatives) for q in questions) for split, questions in clean.items()} == {
        "dev": 65,
        "test": 68,
    }
