"""Files of wordings whose documents are elsewhere are followed: what they name now is what a question finds."""

from __future__ import annotations

import csv
from pathlib import Path

from conftest import TEXTS, write_checkpoint

from ap_ranker.ranking.ranker import Ranker
from ap_ranker.text.reading import normalized
from haystack_integrations.components.retrievers.ap_ranker.file_wordings import FileWordings
from haystack_integrations.document_stores.ap_ranker.elasticsearch_faq import name_key

FIRST = TEXTS[1]
SECOND = TEXTS[3]


def write_wordings(path: Path, *pairs: tuple[str, str]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("question", "answer"), *pairs])


def test_files_of_wordings_are_followed(tmp_path: Path) -> None:
    ranker = Ranker.from_pretrained(write_checkpoint("ap-transformer", tmp_path / "c"), "cpu")
    path = tmp_path / "wordings.csv"
    wordings = FileWordings([str(path)])
    question = "my battery is empty"
    vector = ranker.embed_questions([question])[0].numpy()
    first = name_key("text", normalized(FIRST))
    second = name_key("text", normalized(SECOND))
    write_wordings(path, ("where is my parcel", FIRST))
    wordings.warm_up(ranker)
    assert wordings.nearest(question, None, ranker, limit=5) == []
    assert wordings.nearest(question, vector, ranker, limit=5) == [first]
    write_wordings(path, ("where is my parcel", FIRST), (question, SECOND))
    assert wordings.nearest(question, None, ranker, limit=5) == [second]
    assert wordings.nearest(question, vector, ranker, limit=5) == [second, first]
    wordings.close()
    assert wordings.nearest(question, vector, ranker, limit=5) == [second, first]
