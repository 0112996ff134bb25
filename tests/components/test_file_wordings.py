"""Files of wordings whose documents are elsewhere are followed: what they name now is what a question finds."""

from __future__ import annotations

import csv
from functools import partial
from pathlib import Path

from conftest import TEXTS, write_checkpoint

from ap_ranker.data.wordings import NamedRows
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.wordings import KnownWordings
from ap_ranker.text.reading import normalized

FIRST = TEXTS[1]
SECOND = TEXTS[3]


def write_wordings(path: Path, *pairs: tuple[str, str]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("question", "answer"), *pairs])


def test_files_of_wordings_are_followed(tmp_path: Path) -> None:
    ranker = Ranker.from_pretrained(write_checkpoint("ap-transformer", tmp_path / "c"), "cpu")
    path = tmp_path / "wordings.csv"
    wordings = KnownWordings([str(path)])
    question = "my battery is empty"
    vector = ranker.embed_questions([question])[0].numpy()
    first = ("text", normalized(FIRST))
    second = ("text", normalized(SECOND))
    named = partial(wordings.named, NamedRows())
    write_wordings(path, ("where is my parcel", FIRST))
    assert named(question, None, ranker, limit=5) == []
    assert named(question, vector, ranker, limit=5) == [first]
    write_wordings(path, ("where is my parcel", FIRST), (question, SECOND))
    assert named(question, None, ranker, limit=5) == [second]
    assert named(question, vector, ranker, limit=5) == [second, first]
    assert named(question, vector, ranker, limit=1) == [second]
    write_wordings(path, (question, SECOND))
    assert named(question, vector, ranker, limit=5) == [second]
    wordings.close()
    assert named(question, vector, ranker, limit=5) == [second]
