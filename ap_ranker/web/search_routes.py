"""The routes of the search page: search, reasons, feedback, suggestions. They need no key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, Self

from fastapi import FastAPI, HTTPException, Request
from haystack import Document
from pydantic import AfterValidator, BaseModel, StringConstraints, model_validator
from starlette.responses import JSONResponse

from ap_ranker.data.rows import stripped
from ap_ranker.errors import InputError
from ap_ranker.ranking.decision import Decision
from ap_ranker.search.asked_parts import SearchedQuestion, search_parts
from ap_ranker.search.declared_pipeline import DeclaredPipeline, Limits
from ap_ranker.search.load_pipeline import report_store_errors
from ap_ranker.settings import checked
from ap_ranker.text.typed import Kind
from ap_ranker.web.background_start import BackgroundStart, Search
from ap_ranker.web.browse import COUNT
from ap_ranker.web.dispensable import Dispensable
from ap_ranker.web.judgements import Judgements, QuotaError
from ap_ranker.web.limits import Failure, failing_as
from ap_ranker.web.monitoring import QuestionMetrics
from ap_ranker.web.page.settings import PageSettings
from ap_ranker.web.presentation import PresentedAnswer, weighed
from ap_ranker.web.presented_search import Presentation, PresentedSearch, shown_of
from ap_ranker.web.question_log import QuestionLog
from ap_ranker.web.signed_answers import MAX_CHARACTERS as MAX_RECEIPT
from ap_ranker.web.signed_answers import AnswerSigner, ShownAnswer
from ap_ranker.web.suggestions import LiveSuggestions
from ap_ranker.web.work import WorkThreads
from ap_ranker.web.workers import SearchWorkers

API = ("/api/search", "/api/suggest", "/api/browse", "/api/explain", "/api/feedback")

MAX_CHARACTERS = 1000
"""Maximum length of a question: more than anybody types into a search box."""

MAX_COMMENT = 300
"""Maximum length of a comment: one sentence."""

PRESENTING_THREADS = 2
"""Number of searches whose answers are presented at once. It is Python alone, of which one thread runs at a time: more
threads would only make the event loop wait longer for its turn."""

NO_QUESTIONS = (Kind.PERSON, Kind.GREETING, Kind.THANKS, Kind.INSULT, Kind.INCOMPLETE)
"""What is typed that no entry of a FAQ could answer: the log of questions, and with it the gaps, leave it out."""

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


class PartResponse(BaseModel):
    """The decision on a question, and the answers, or what may be one, best first."""

    question: str
    outcome: Literal["answer", "maybe", "none"]
    probability: float | None  # that the first is right; unknown without a calibration
    basis: str  # what the probability rests on
    kind: str  # what was typed, as `Kind` names it: a question, a greeting, ...
    language: str | None  # the code of the FAQ's, if the question is in another one
    answers: list[PresentedAnswer]


class SearchResponse(PartResponse):
    """The same, with what is found for each question of a text that asks several; else without `parts`."""

    parts: list[PartResponse]


@dataclass(frozen=True)
class PresentableQuestion(SearchedQuestion):
    """A question, what was found for it, and what makes visitors' answers of that."""

    present: Callable[[], PresentedSearch]


def add_search_routes(
    app: FastAPI,
    declared: DeclaredPipeline,
    search: Search,
    judgements: Judgements,
    limits: Limits,
    page: PageSettings,
    question_log: QuestionLog | None,
    metrics: QuestionMetrics,
    threads: WorkThreads,
) -> None:
    """Add what asks a search, in `threads`, and keeps what visitors say of its answers."""
    place = declared.place  # describing the stores takes a moment
    signer = AnswerSigner(judgements.database.secret())
    suggestions = LiveSuggestions(declared, page.categories)
    ranker = declared.ranker()
    presentation = Presentation(ranker is not None and ranker.scale_score, page.categories)
    presenting = WorkThreads(PRESENTING_THREADS, "presenting")

    def candidates_for(question: str) -> tuple[list[Document], Decision]:
        with failing_as(FAILED, Failure.search), report_store_errors(declared.path, place, question):
            return search.answer(question, limits)

    def ask_one(question: str) -> PresentableQuestion:
        """Search; nothing is left to do to present the answers if a search process has done it."""
        processes = _processes_of(search)
        if processes is not None:
            with failing_as(FAILED, Failure.search):
                result = processes.answer_presented(question, limits, presentation=presentation)
            return PresentableQuestion(question, result.candidates, result.decision, lambda: result)
        candidates, decision = candidates_for(question)
        present = partial(presentation.of, question, candidates, decision=decision)
        return PresentableQuestion(question, candidates, decision, present)

    def ask(question: str) -> tuple[PresentableQuestion, Kind, list[PresentableQuestion]]:
        whole = ask_one(question)
        return whole, *search_parts(whole, ask_one)

    def answer_to(
        network: str, whole: PresentableQuestion, kind: Kind, parts: Sequence[PresentableQuestion]
    ) -> JSONResponse:
        metrics.outcomes.labels(whole.decision.outcome).inc()
        for asked in parts or [whole]:
            log(asked, network)
        # Not a dictionary, which FastAPI would walk through first: its values are basic types already.
        return JSONResponse(reply_to(whole) | {"kind": str(kind), "parts": list(map(reply_to, parts))})

    def log(asked: PresentableQuestion, network: str) -> None:
        decision = asked.decision
        if question_log is not None and decision.kind not in NO_QUESTIONS:
            candidates = shown_of(asked.documents, decision) or asked.documents
            question_log.add(asked.question, network, outcome=decision.outcome, candidates=candidates)

    def reply_to(asked: PresentableQuestion) -> dict[str, Any]:
        result = asked.present()
        for answer, document in zip(result.answers, result.visible, strict=True):
            answer["receipt"] = signer.sign(asked.question, document.id, answer=ShownAnswer.of(document))
        return {"question": asked.question, **result.decision.as_json(), "answers": result.answers}

    def find_answer(question: str, key: str) -> Document:
        """Search again: the server keeps no state, and only answers that were shown can be asked about."""
        candidates, decision = candidates_for(question)
        for document in shown_of(candidates, decision):
            if document.id == key:
                return document
        raise HTTPException(404, "Expected the id of an answer to this question, found another. Ask again.")

    @app.post("/api/search", response_model=SearchResponse)
    async def api_search(search_request: SearchRequest, request: Request) -> JSONResponse:
        """The decision, and the answers or maybes, best first; also of each question of a text that asks several."""
        question = search_request.question
        with metrics.seconds.time():
            whole, kind, parts = await threads.run(ask, question)
            network = judgements.visitors.network_of(request)
            return await presenting.run(answer_to, network, whole, kind, parts)

    @app.post("/api/suggest")
    async def api_suggest(request: SuggestRequest) -> dict[str, list[str]]:
        """Stored questions and known wordings with words that begin like a text's words, at most six."""
        return {"suggestions": await suggestions.find(request.text)}

    _add_explaining(app, search, find_answer=find_answer, threads=threads)
    _add_browsing(app, suggestions, judgements=judgements, page=page)
    _add_feedback(app, judgements, signer=signer, find_answer=find_answer, search_threads=threads)


def _processes_of(search: Search) -> SearchWorkers | None:
    """The processes that search instead of this one, if there are some."""
    if isinstance(search, BackgroundStart):
        return search.processes
    return search if isinstance(search, SearchWorkers) else None


def _add_explaining(
    app: FastAPI, search: Search, find_answer: Callable[[str, str], Document], threads: WorkThreads
) -> None:
    def explain(question: str, key: str) -> JSONResponse:
        document = find_answer(question, key)
        try:
            question_text, answer_text, explanation = search.explain(question, document)
        except InputError as error:
            raise HTTPException(409, str(error)) from error
        return JSONResponse(
            {
                "score": explanation.score,
                "question": {"text": question_text, "tokens": weighed(explanation.question)},
                "answer": {"text": answer_text, "tokens": weighed(explanation.answer)},
            }
        )

    @app.post("/api/explain")
    async def api_explain(request: ExplainRequest) -> JSONResponse:
        """The weight of each word; `start` and `end` are positions of characters (code points) in `text`."""
        return await threads.run(explain, request.question, request.id)


def _add_browsing(app: FastAPI, suggestions: LiveSuggestions, judgements: Judgements, page: PageSettings) -> None:
    clicks = Dispensable("The page opens in the FAQ's order.")
    threads = WorkThreads(1, "opening")

    def beginning() -> dict[str, list[str] | dict[str, int]]:
        popular = clicks.ask(judgements.most_helpful, COUNT)
        with failing_as(FAILED, Failure.search):
            questions = page.questions or suggestions.beginning(popular or [])
        return {"questions": questions, "topics": suggestions.catalogue.topics}

    def questions_of(topic: str) -> list[str]:
        with failing_as(FAILED, Failure.search):
            return suggestions.questions_of(topic)

    @app.post("/api/browse")
    async def api_browse(request: BrowseRequest) -> dict[str, list[str] | dict[str, int]]:
        """The `questions` of a topic.

        Without one, the questions to begin with, and the `topics`, each with its number of questions.
        """
        await suggestions.look()
        if request.topic is None:
            return await threads.run(beginning)
        questions = await threads.run(questions_of, request.topic)
        if questions:
            return {"questions": questions, "topics": {}}
        raise HTTPException(404, "Expected a topic of this FAQ, found another. Ask without one for all topics.")


def _add_feedback(
    app: FastAPI,
    judgements: Judgements,
    signer: AnswerSigner,
    find_answer: Callable[[str, str], Document],
    search_threads: WorkThreads,
) -> None:
    threads = WorkThreads(1, "feedback")  # a separate one: feedback does not wait for searches

    def keep(feedback: FeedbackRequest, answer: ShownAnswer, network: str) -> None:
        common = {
            "question": feedback.question,
            "answer": answer.answer,
            "network": network,
            "visit": feedback.visit,
        }
        try:
            with failing_as(NOT_KEPT, Failure.database):
                if feedback.helped is None:
                    judgements.take_back(**common)
                else:
                    judgements.keep(
                        **common,
                        stored_question=answer.stored_question,
                        comment=feedback.comment,
                        helped=feedback.helped,
                    )
        except QuotaError as error:
            raise HTTPException(429, ENOUGH) from error

    @app.post("/api/feedback")
    async def api_feedback(feedback: FeedbackRequest, request: Request) -> dict[str, str]:
        """Store whether an answer helped, or take it back; without a valid receipt, search for the answer first."""
        answer = await threads.run(signer.read, feedback.question, feedback.id, feedback.receipt or "")
        if answer is None:
            document = await search_threads.run(find_answer, feedback.question, feedback.id)
            answer = ShownAnswer.of(document)
        network = judgements.visitors.network_of(request)
        await threads.run(keep, feedback, answer, network)
        return {"status": "taken back" if feedback.helped is None else "kept"}
