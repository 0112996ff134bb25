"""The routes of the search page: search, reasons, feedback, suggestions. They need no key."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Annotated, Any, Literal, Self

from fastapi import FastAPI, HTTPException, Request
from haystack import Document
from prometheus_client import Counter
from pydantic import AfterValidator, BaseModel, StringConstraints, model_validator
from starlette.responses import JSONResponse

from ap_ranker.data.rows import stripped
from ap_ranker.errors import InputError
from ap_ranker.ranking.decision import Decision
from ap_ranker.ranking.outcome import Outcome
from ap_ranker.search.declared_pipeline import DeclaredPipeline, Limits
from ap_ranker.search.load_pipeline import report_store_errors
from ap_ranker.settings import checked
from ap_ranker.web.background_start import Search
from ap_ranker.web.browse import COUNT
from ap_ranker.web.database import Dispensable
from ap_ranker.web.evidence import Evidence
from ap_ranker.web.judgements import Judgements, QuotaError
from ap_ranker.web.limits import failing_as
from ap_ranker.web.page.settings import PageSettings
from ap_ranker.web.presentation import PresentedAnswer, presented, weighed
from ap_ranker.web.question_log import QuestionLog
from ap_ranker.web.signed_answers import MAX_CHARACTERS as MAX_RECEIPT
from ap_ranker.web.signed_answers import AnswerSigner, ShownAnswer
from ap_ranker.web.suggestions import LiveSuggestions

API = ("/api/search", "/api/suggest", "/api/browse", "/api/explain", "/api/feedback")

MAX_CHARACTERS = 1000
"""Maximum length of a question: more than anybody types into a search box."""

MAX_COMMENT = 300
"""Maximum length of a comment: one sentence."""

MAX_MAYBES = 5
"""Number of entries that are shown if none is asserted."""

FAILED = "The search does not work at the moment; see the server's log."
NOT_KEPT = "Feedback cannot be stored at the moment; see the server's log."
ENOUGH = "Thank you, but your network has left all the feedback that it may leave today. Try again tomorrow."

SEEN = checked(stripped, "a text that can be seen")
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_CHARACTERS), SEEN]


class SearchRequest(BaseModel, extra="forbid"):
    """A question."""

    question: Text


class ExplainRequest(SearchRequest):
    """A question and the id of one of its answers."""

    id: Text


class SuggestRequest(BaseModel, extra="forbid"):
    """The beginning of a question."""

    text: Text


class BrowseRequest(BaseModel, extra="forbid"):
    """One of the topics, or none for what the page opens with."""

    topic: Text | None = None


class FeedbackRequest(ExplainRequest):
    """Whether that answer helped, and a sentence about it; `None` takes the judgement of this visit back.

    `receipt` came with the answer, `visit` is an arbitrary id of the visitor.
    """

    helped: bool | None
    comment: Annotated[str, AfterValidator(stripped), StringConstraints(max_length=MAX_COMMENT)] = ""
    receipt: Annotated[str, StringConstraints(max_length=MAX_RECEIPT)] | None = None
    visit: Annotated[str, StringConstraints(max_length=64, pattern=r"^[\w-]*$")] = ""

    @model_validator(mode="after")
    def _takes_back_its_own(self) -> Self:
        if self.helped is None and not self.visit:
            raise ValueError("expected the visit whose judgement is taken back, found none")
        return self


class SearchResponse(BaseModel):
    """The decision on a question, and the answers, or what may be one, best first."""

    question: str
    outcome: Literal["answer", "maybe", "none"]
    probability: float | None  # that the first is right; unknown without a calibration
    basis: str  # what the probability rests on
    answers: list[PresentedAnswer]


def add_search_routes(
    app: FastAPI,
    declared: DeclaredPipeline,
    search: Search,
    judgements: Judgements,
    limits: Limits,
    page: PageSettings,
    question_log: QuestionLog | None,
    evidence: Evidence | None,
    outcomes: Counter,
) -> None:
    """Add what asks a search, and keeps what visitors say of its answers; `evidence` may order them."""
    for outcome in Outcome:
        outcomes.labels(outcome)  # is 0 at first
    place = declared.place  # describing the stores takes a moment
    signer = AnswerSigner(judgements.database.secret())
    suggestions = LiveSuggestions(declared, page.categories)
    scales = (ranker := declared.ranker()) is not None and ranker.scale_score

    def is_calibrated(decision: Decision) -> bool:
        """Whether the scores are probabilities."""
        return scales and decision.probability is not None

    def answered(question: str) -> tuple[list[Document], list[Document], Decision]:
        with report_store_errors(declared.path, place, question):
            found, decision = search.answer(question, limits)
        shown = found[: {Outcome.MAYBE: MAX_MAYBES, Outcome.NONE: 0}.get(decision.outcome)]
        if evidence:  # it orders what is shown, and has no part in the decision
            shown = evidence.ordered(question, shown, calibrated=is_calibrated(decision))
        return found, shown, decision

    async def find(question: str) -> tuple[list[Document], list[Document], Decision]:
        """What is found, what visitors see of it, and the decision."""
        with failing_as(FAILED):
            return await asyncio.to_thread(answered, question)

    async def find_answer(question: str, key: str) -> Document:
        """Search again: the server keeps no state, and only answers that were shown can be asked about."""
        for document in (await find(question))[1]:
            if document.id == key:
                return document
        raise HTTPException(404, "Expected the id of an answer to this question, found another. Ask again.")

    @app.post("/api/search", response_model=SearchResponse)
    async def api_search(asked: SearchRequest, request: Request) -> JSONResponse:
        """The decision, and the answers or maybes, best first."""
        question = asked.question
        found, shown, decision = await find(question)
        outcomes.labels(decision.outcome).inc()
        if question_log is not None:
            question_log.add(question, judgements.visitors.network_of(request), decision.outcome, shown or found)
        is_rated = is_calibrated(decision) and decision.outcome is Outcome.ANSWER  # of a maybe, the heading says it
        answers = presented(question, shown, calibrated=is_rated, category=page.categories)
        for answer, document in zip(answers, shown, strict=True):
            answer["receipt"] = signer.sign(question, document.id, ShownAnswer.of(document))
        # Not a dictionary, which FastAPI would walk through first: its values are basic types already.
        return JSONResponse({"question": question, **decision.as_json(), "answers": answers})

    @app.post("/api/suggest")
    async def api_suggest(request: SuggestRequest) -> dict[str, list[str]]:
        """Stored questions and known wordings that begin like a text."""
        return {"suggestions": await suggestions.find(request.text)}

    @app.post("/api/explain")
    async def api_explain(request: ExplainRequest) -> dict[str, Any]:
        """The weight of each word; `start` and `end` are positions of characters (code points) in `text`."""
        document = await find_answer(request.question, request.id)
        try:
            question, answer, explanation = await asyncio.to_thread(search.explain, request.question, document)
        except InputError as error:
            raise HTTPException(409, str(error)) from error
        return {
            "score": explanation.score,
            "question": {"text": question, "tokens": weighed(explanation.question)},
            "answer": {"text": answer, "tokens": weighed(explanation.answer)},
        }

    _add_browsing(app, suggestions, judgements, page)
    _add_feedback(app, judgements, signer, find_answer)


def _add_browsing(app: FastAPI, suggestions: LiveSuggestions, judgements: Judgements, page: PageSettings) -> None:
    order, thread = Dispensable("The page opens in the FAQ's order."), ThreadPoolExecutor(1, "opening")

    @app.post("/api/browse")
    async def api_browse(request: BrowseRequest) -> dict[str, list[str] | dict[str, int]]:
        """The `questions` of a topic; without one, those to begin with, and the `topics` with their numbers of them."""
        await suggestions.look()
        by_topic = suggestions.catalogue.by_topic
        if request.topic is not None:
            if request.topic in by_topic:
                return {"questions": by_topic[request.topic], "topics": {}}
            raise HTTPException(404, "Expected a topic of this FAQ, found another. Ask without one for all topics.")
        popular = await asyncio.get_running_loop().run_in_executor(thread, order.ask, judgements.most_helpful, COUNT)
        topics = {topic: len(questions) for topic, questions in by_topic.items() if topic}
        return {"questions": page.questions or suggestions.catalogue.beginning(popular or []), "topics": topics}


def _add_feedback(
    app: FastAPI, judgements: Judgements, signer: AnswerSigner, find_answer: Callable[..., Awaitable[Document]]
) -> None:
    thread = ThreadPoolExecutor(1, "feedback")  # a separate one: feedback does not wait for searches

    @app.post("/api/feedback")
    async def api_feedback(said: FeedbackRequest, request: Request) -> dict[str, str]:
        """Store whether an answer helped, or take it back; without a valid receipt, search for the answer first."""
        shown = signer.read(said.question, said.id, said.receipt or "")
        if shown is None:
            shown = ShownAnswer.of(await find_answer(said.question, said.id))
        network = judgements.visitors.network_of(request)
        given = {"question": said.question, "answer": shown.answer, "network": network, "visit": said.visit}
        if said.helped is None:
            work = partial(judgements.take_back, **given)
        else:
            more = {"stored_question": shown.stored_question, "comment": said.comment}
            work = partial(judgements.keep, **given, **more, helped=said.helped)
        try:
            with failing_as(NOT_KEPT):
                await asyncio.get_running_loop().run_in_executor(thread, work)
        except QuotaError as error:
            raise HTTPException(429, ENOUGH) from error
        return {"status": "taken back" if said.helped is None else "kept"}
