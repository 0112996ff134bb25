"""What earlier releases wrote still works: pipelines, checkpoints, and what visitors and owners of a website said.

Each folder of `tests/earlier` was written by the code of one state, with the answers that this code gave (see the
README there). Today's code gives the same ones, or says which command brings a file on.
"""

from __future__ import annotations

import csv
import json
import logging
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import run
from conftest import ROOT, write_encoder
from haystack import Document, Pipeline
from haystack.core.errors import DeserializationError
from refusals import refused

from ap_ranker.data.faq import DEFAULT_MATCH, read_faq
from ap_ranker.data.feedback import read_feedback
from ap_ranker.ranking.checkpoint import read_checkpoint_config
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.search.load_pipeline import load_pipeline
from ap_ranker.search.setup import set_up
from ap_ranker.training.config import TrainingConfig, read_training_config

EARLIER = ROOT / "tests" / "earlier"
STATES = sorted(path.name for path in EARLIER.iterdir() if path.is_dir())
WITH_WEBSITE = [state for state in STATES if (EARLIER / state / "website.db").exists()]
WITH_ENCODER = [
    state for state in STATES if "checkpoints/encoder" in json.loads((EARLIER / state / "answers.json").read_text())
]
FORMAT_1 = "0.1.0"

READ_OTHERWISE = {FORMAT_1: ["my rabbit: vaccination"]}
"""State -> questions whose words today's reading divides otherwise: a symbol stays no part of the word beside it."""

ROUTED_ANEW = ["2026-11-26"]
"""States whose router decided again, by the model alone; today it acts on what the search has decided."""

TOLERANCE = {FORMAT_1: 0.002}
"""State -> difference of scores that comes from reading a FAQ's texts as today; of others, from the processor only."""

SETTINGS_OF_0_1_0 = [("segmenter", None, "jieba"), ("phrases", False, True), ("negatives_from", "random", "bm25")]
"""Settings of a training that are gone, with their default and another value."""

Answered = dict[str, Any]
"""The first answer to a question, the outcome, and the first answer's score: its probability where there is one."""


@pytest.fixture
def folder(state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of what a state has written, which is the current folder."""
    shutil.copytree(EARLIER / state, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def answers_of(state: str, place: str) -> list[Answered]:
    """What a state's own code answered."""
    rows: list[Answered] = json.loads((EARLIER / state / "answers.json").read_text(encoding="utf-8"))[place]
    assert len(rows) >= 9
    return rows


def check_answers(
    rows: Sequence[Answered], state: str, answer: Callable[[str], tuple[list[Document], str | None]]
) -> None:
    """Ask what the state was asked, and compare."""
    for row in rows:
        if row["question"] in READ_OTHERWISE.get(state, ()):
            continue
        documents, outcome = answer(row["question"])
        first = documents[0] if documents else Document(content=None)
        assert first.content == row["first"], row
        if row["score"] is not None:
            assert first.score == pytest.approx(row["score"], abs=TOLERANCE.get(state, 1e-4)), row
        assert row["outcome"] in (None, outcome), row


def by_search(search: DeclaredPipeline, question: str) -> tuple[list[Document], str | None]:
    documents, decision = search.answer(question)
    return documents, str(decision.outcome)


def faq_documents() -> list[Document]:
    with Path("faq.csv").open(encoding="utf-8", newline="") as file:
        return [Document(content=row["answer"], meta={"question": row["question"]}) for row in csv.DictReader(file)]


@pytest.mark.parametrize("state", STATES)
def test_a_faq_search(state: str, folder: Path) -> None:
    pipeline = Pipeline.loads((folder / "faq_search.yaml").read_text())
    check_answers(
        answers_of(state, "faq_search.yaml"),
        state,
        lambda question: (pipeline.run({"search": {"query": question}})["search"]["documents"], None),
    )


@pytest.mark.parametrize("state", STATES)
def test_a_ranker(state: str, folder: Path) -> None:
    pipeline = Pipeline.loads((folder / "ap_ranker.yaml").read_text())
    ranker = pipeline.get_component("ranker")
    assert (ranker.top_k, ranker.batch_size) == (4, 8)
    assert (ranker.cache["megabytes"], ranker.cache["dtype"]) == (64, "float16")
    documents = faq_documents()
    check_answers(
        answers_of(state, "ap_ranker.yaml"),
        state,
        lambda question: (ranker.run(query=question, documents=documents)["documents"], None),
    )


@pytest.mark.parametrize("state", [FORMAT_1])
def test_a_ranker_that_always_explained(folder: Path) -> None:
    declared = yaml.safe_load((folder / "ap_ranker.yaml").read_text())
    declared["components"]["ranker"]["init_parameters"]["explain"] = True
    with refused("APRanker … explain … run", DeserializationError):
        Pipeline.loads(yaml.safe_dump(declared))


@pytest.mark.parametrize("state", [state for state in STATES if (EARLIER / state / "answer_router.yaml").exists()])
def test_a_router(state: str, folder: Path) -> None:
    pipeline = Pipeline.loads((folder / "answer_router.yaml").read_text())
    pipeline.get_component("search").retriever.document_store.write_documents(faq_documents())

    def answer(question: str) -> tuple[list[Document], str | None]:
        routed = pipeline.run({"search": {"query": question}, "router": {"query": question}})["router"]
        taken = {way: documents for way, documents in routed.items() if isinstance(documents, list) and documents}
        return [document for documents in taken.values() for document in documents], ",".join(sorted(taken))

    rows = answers_of(state, "answer_router.yaml")
    if state in ROUTED_ANEW:
        rows = [row | {"outcome": None} for row in rows if row["first"] is not None]
    check_answers(rows, state, answer)


@pytest.mark.parametrize("state", STATES)
def test_the_default_search(state: str, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    search = DeclaredPipeline.load(folder / "pipelines" / "faq_search.yaml")
    search.fill(read_faq(Path("faq.csv")), DEFAULT_MATCH)
    with caplog.at_level(logging.WARNING):
        check_answers(answers_of(state, "pipelines/faq_search.yaml"), state, partial(by_search, search))
    renews = "ap-ranker train DATA --model ap-cnn --output checkpoints/faq --overwrite" in caplog.text
    assert renews == (state in READ_OTHERWISE)


@pytest.mark.parametrize("state", STATES)
def test_other_default_pipelines_load(folder: Path) -> None:
    pytest.importorskip("haystack_integrations.document_stores.elasticsearch", reason="the extra is not installed")
    paths = sorted((folder / "pipelines").glob("*.yaml"))
    assert len(paths) >= 3
    for path in paths:
        load_pipeline(path)


@pytest.mark.parametrize("state", WITH_ENCODER)
def test_a_search_by_meaning(state: str, folder: Path) -> None:
    """Its encoder has random weights: all answers are near to all questions, so that only the scores tell much."""
    with set_up(Path("faq.csv"), model="checkpoints/encoder") as setup:
        search, _ = setup.load()
        for row in answers_of(state, "checkpoints/encoder"):
            documents, _ = search.answer(row["question"])
            assert documents[0].score == pytest.approx(row["score"], abs=2e-3)


@pytest.mark.parametrize("state", [FORMAT_1])
def test_an_encoder_of_format_1_is_made_anew(folder: Path) -> None:
    """By the command that the refusal names, with this test's encoder."""
    checkpoint = Path("checkpoints/encoder")
    command = f"train DATA --model ap-transformer --output {checkpoint} --overwrite"
    with refused(f"config.json … 4 … 1 … ap-ranker {command}"):
        read_checkpoint_config(checkpoint)
    encoder = write_encoder(folder / "tiny")
    (folder / "settings.yaml").write_text(yaml.safe_dump({"max_tokens": 20, "options": {"size": 4}}))
    arguments = command.replace("DATA", "faq.csv").split()
    ended = run(*arguments, "--encoder", encoder, "--config", "settings.yaml", "--epochs", "1", folder=folder)
    assert ended.code == 0, ended.errors
    assert read_checkpoint_config(checkpoint).model == "ap-transformer"


@pytest.mark.parametrize("state", WITH_WEBSITE)
def test_a_website(state: str, folder: Path) -> None:
    """The owner's entries and wordings are searched, and what visitors said and asked is there."""
    pytest.importorskip("sqlalchemy", reason="the extra serve is not installed")
    import sqlalchemy as sa

    from ap_ranker.web.changes import owners_changes, read_changes
    from ap_ranker.web.database import open_database, questions
    from ap_ranker.web.judgements import Judgements

    place = str(folder / "website.db")
    pipeline = Path("pipelines/faq_search.yaml")
    with set_up(Path("faq.csv"), pipeline=pipeline, overlay=owners_changes(place)) as setup:
        search, _ = setup.load()
        check_answers(answers_of(state, "website.db"), state, partial(by_search, search))
    database = open_database(place)
    assert [change.action for change in read_changes(database)] == ["add entry", "add wordings", "change entry"]
    judged = Counter((record["question"], record["label"]) for record in Judgements(database).records())
    assert judged["When are you open on Saturday?", 1] == 3 * judged["When are you open on Saturday?", 0] > 0
    with database.reading() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(questions)) == 12
    database.close()


@pytest.mark.parametrize("state", [FORMAT_1])
def test_feedback_of_a_file(folder: Path) -> None:
    rows = read_feedback(folder / "feedback.jsonl")
    assert [row.get("label") for row in rows] == ["1", "1", "0"]
    assert rows[0].get("stored_question") == "What are your opening hours?"


@pytest.mark.parametrize(("name", "default", "other"), SETTINGS_OF_0_1_0)
def test_settings_that_are_gone(name: str, default: object, other: object, tmp_path: Path) -> None:
    """A file with the default trains as before; with another value it is refused by name."""
    path = tmp_path / "settings.yaml"
    path.write_text(yaml.safe_dump({"model": "ap-cnn", "seed": 3, name: default}))
    assert read_training_config(path, {}) == TrainingConfig(model="ap-cnn", seed=3)
    path.write_text(yaml.safe_dump({"model": "ap-cnn", name: other}))
    with refused(f"settings.yaml … {name} … {other!r} … Remove"):
        read_training_config(path, {})
