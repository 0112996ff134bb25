"""Visitors of a search page, each from an address of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from haystack import Document
from sqlalchemy import select
from starlette.testclient import TestClient

from ap_ranker.ranking.decision import Decision
from ap_ranker.ranking.outcome import Outcome
from ap_ranker.ranking.rule import Basis
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.web.app import build_app
from ap_ranker.web.database import Database, open_database, questions
from ap_ranker.web.judgements import Judgements
from ap_ranker.web.question_log import QuestionLog

QUESTION = "where is the parcel with my battery and my money"


class FixedSearch:
    """Finds the same documents for all questions, as search processes would; their scores are probabilities."""

    count = 1
    cache_info = served = None

    def __init__(self, probabilities: Sequence[float], outcome: Outcome = Outcome.ANSWER) -> None:
        self.outcome = outcome
        self.documents = [
            Document(f"d{row}", f"answer {row}", meta={"question": f"stored question {row}"}, score=probability)
            for row, probability in enumerate(probabilities)
        ]

    def answer(
        self, question: str, limits: Mapping[str, float | None] | None = None
    ) -> tuple[list[Document], Decision]:
        return list(self.documents), Decision(self.outcome, self.documents[0].score, Basis.QUESTIONS)

    def explain(self, question: str, document: Document) -> Any:
        raise NotImplementedError


def judgements_of(search: DeclaredPipeline) -> Judgements:
    """The judgements in a database beside the pipeline's file."""
    return Judgements(open_database(search.path.with_name("faq.db")))


def client_of(search: DeclaredPipeline, address: str = "192.0.2.1", **options: Any) -> TestClient:
    return visit(build_app(search, judgements_of(search), **options), address)


def visit(app: Any, address: str = "192.0.2.1") -> TestClient:
    return TestClient(app, "http://localhost", raise_server_exceptions=False, client=(address, 50_000))


def answers(client: TestClient, question: str = QUESTION) -> list[dict[str, Any]]:
    response = client.post("/api/search", json={"question": question})
    assert response.status_code == 200, response.text
    found: list[dict[str, Any]] = response.json()["answers"]
    return found


def click(client: TestClient, one: Mapping[str, Any], **changes: Any) -> int:
    given = {"question": QUESTION, "id": one["id"], "helped": True, "receipt": one["receipt"], "visit": "v"} | changes
    return client.post("/api/feedback", json=given).status_code


def kept(search: DeclaredPipeline) -> list[dict[str, Any]]:
    return list(judgements_of(search).records())


def logged_questions(database: Database) -> list[Any]:
    """The rows of the log, oldest first."""
    with database.reading() as connection:
        return [*connection.execute(select(questions).order_by(questions.c.id))]


def write_feedback(search: DeclaredPipeline, path: Path) -> Path:
    """What `ap-ranker owner feedback export` writes."""
    from ap_ranker.web.traces import export_judgements

    export_judgements(judgements_of(search).database, path)
    return path


def log_unanswered(database: Database, *asked: str) -> None:
    """Log questions that got nothing, all by one visitor."""
    log = QuestionLog(database)
    for question in asked:
        log.add(question, "n", Outcome.NONE, [])
    log.close()
