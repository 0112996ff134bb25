"""Files of wordings whose documents are elsewhere are followed: what they name now is what a question finds."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from conftest import TEXTS, write_checkpoint

from ap_ranker.text.reading import normalized

FIRST = TEXTS[1]
SECOND = TEXTS[3]


def write_wordings(path: Path, *pairs: tuple[str, str]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("question", "answer"), *pairs])


def test_files_of_wordings_are_followed(tmp_path: Path) -> None:
    pytest.importorskip("elasticsearch", reason="the extra is not installed")
    from haystack_integrations.components.retrievers.ap_ranker import ElasticsearchFAQRetriever
    from haystack_integrations.document_stores.ap_ranker import ElasticsearchFAQStore
    from haystack_integrations.document_stores.ap_ranker.elasticsearch_faq import name_key

    checkpoint = write_checkpoint("ap-transformer", tmp_path / "c")
    path = tmp_path / "wordings.csv"
    store = ElasticsearchFAQStore(hosts="http://127.0.0.1:9", index="unused")
    retriever = ElasticsearchFAQRetriever(store, model=checkpoint, wordings=path)
    ranker = retriever.loaded()
    question = "my battery is empty"
    vector = ranker.embed_questions([question])[0].numpy()
    first = name_key("text", normalized(FIRST))
    second = name_key("text", normalized(SECOND))
    named = retriever._named_by_files
    write_wordings(path, ("where is my parcel", FIRST))
    assert named(question, None, ranker, limit=5) == []
    assert named(question, vector, ranker, limit=5) == [first]
    write_wordings(path, ("where is my parcel", FIRST), (question, SECOND))
    assert named(question, None, ranker, limit=5) == [second]
    assert named(question, vector, ranker, limit=5) == [second, first]
    assert named(question, vector, ranker, limit=1) == [second]
    write_wordings(path, (question, SECOND))
    assert named(question, vector, ranker, limit=5) == [second]
    retriever._known.close()
    assert named(question, vector, ranker, limit=5) == [second]
