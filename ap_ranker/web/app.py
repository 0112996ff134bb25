"""The HTTP interface of a search: the search page, its API, and the REST route of the pipeline."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import asdict
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, StringConstraints, model_validator
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ap_ranker.errors import InputError
from ap_ranker.search.declared_pipeline import NO_THRESHOLD, DeclaredPipeline
from ap_ranker.search.load_pipeline import report_store_errors
from ap_ranker.web.clicks import FeedbackFile, FeedbackFullError
from ap_ranker.web.limits import MAX_BYTES, Guard, Rate
from ap_ranker.web.monitoring import MEDIA_TYPE, MeasureTime, Metrics
from ap_ranker.web.owner import routes as owner_pages
from ap_ranker.web.owner.routes import OwnersPage
from ap_ranker.web.page.files import PageFile, page_files
from ap_ranker.web.page.settings import PageSettings
from ap_ranker.web.pipeline_route import add_pipeline
from ap_ranker.web.presentation import presented, stored_questions, weighed
from ap_ranker.web.signed_answers import MAX_CHARACTERS as MAX_RECEIPT
from ap_ranker.web.signed_answers import AnswerSigner, ShownAnswer, shared_secret
from ap_ranker.web.suggestions import LiveSuggestions

if TYPE_CHECKING:
    from haystack import Document

    from ap_ranker.web.background_start import BackgroundStart
    from ap_ranker.web.question_log import QuestionLog
    from ap_ranker.web.workers import SearchWorkers

logger = logging.getLogger(__name__)

MAX_CHARACTERS = 1000
"""Maximum length of a question: more than anybody types into a search box."""

MAX_COMMENT = 300
"""Maximum length of a comment: one sentence."""

MAX_RELATED = 4
"""Number of related questions shown if there is no good answer."""

THREADS = 16
"""Number of concurrent searches. More would only wait for the CPU; with fewer, fewer questions are encoded together."""

HEADERS = {
    # The page loads from this server only, and no other site may show it in a frame.
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
API = ("/health", "/api/search", "/api/suggest", "/api/explain", "/api/feedback")
"""Routes of the page and of health checks, which need no key."""

FAILED = "The search does not work at the moment; see the server's log."
NOT_KEPT = "Feedback cannot be stored at the moment; see the server's log."
FULL = "Feedback cannot be stored any more: its file has reached the size limit."

REASONS = {400: "invalid", 401: "owner_key", 404: "unknown", 405: "unknown"}
REASONS |= {409: "no_reasons", 422: "invalid", 507: "feedback_full"}
"""Status code -> reason of a refusal, for the metrics; `failed` for all other codes."""

T = TypeVar("T")
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_CHARACTERS)]


class SearchRequest(BaseModel, extra="forbid"):
    """A question."""

    question: Text


class ExplainRequest(SearchRequest):
    """A question and the id of one of its answers."""

    id: Text


class SuggestRequest(BaseModel, extra="forbid"):
    """The beginning of a question."""

    text: Text


class FeedbackRequest(ExplainRequest):
    """Whether that answer helped, and a sentence about it; `None` takes the judgement of this visit back.

    `receipt` came with the answer, `visit` is an arbitrary id of the visitor.
    """

    helped: bool | None
    comment: Annotated[str, StringConstraints(strip_whitespace=True, max_length=MAX_COMMENT)] = ""
    receipt: Annotated[str, StringConstraints(max_length=MAX_RECEIPT)] | None = None
    visit: Annotated[str, StringConstraints(max_length=64, pattern=r"^[\w-]*$")] = ""

    @model_validator(mode="after")
    def _takes_back_its_own(self) -> Self:
        if self.helped is None and not self.visit:
            raise ValueError("expected the visit whose judgement is taken back, found none")
        return self


def build_app(
    search: DeclaredPipeline,  # its store is filled
    feedback: FeedbackFile,  # the secret that signs receipts is stored beside it
    *,
    limits: Mapping[str, float | None] = MappingProxyType({}),  # `precision` or `score_threshold` of the ranker
    rate: float | None = None,  # maximum number of requests per second and client
    hosts: Collection[str] = (),  # accepted host names, in addition to `localhost` and any IP address
    api_key: str | None = None,  # what all routes but the page's require
    columns: Collection[str] = (),  # of the FAQ, that the pipeline's own route returns beside question and answer
    workers: SearchWorkers | BackgroundStart | None = None,  # search for the page instead of threads of this process
    page: PageSettings = PageSettings(),  # noqa: B008  it is frozen
    question_log: QuestionLog | None = None,
    owner: OwnersPage | None = None,
) -> FastAPI:
    """Build the ASGI application; raises InputError if requests cannot have the pipeline's inputs."""
    threads = ThreadPoolExecutor(THREADS * (workers.count if workers else 1), "search")
    metrics = Metrics(workers or search)
    # No schema, which would list the owner's routes; no redirects, which would name an address behind a web server.
    app = FastAPI(openapi_url=None, redirect_slashes=False, lifespan=_searching_in(threads))
    _answer_errors_in_json(app, metrics)
    files = page_files(page)
    _add_page(app, metrics, files)
    _add_search(app, search, workers or search, feedback, limits, page.categories, question_log)
    _add_suggestions(app, LiveSuggestions(search))
    pipeline_route = add_pipeline(app, search, text=Text, columns=columns, failed=FAILED)
    owner_routes = owner.add_to(app) if owner else ()
    routes = [*files, *API, *owner_routes, "/metrics", pipeline_route]
    app.add_middleware(
        Guard,
        names=hosts,
        key=api_key,
        public={*files, *API, *owner_routes},
        rate=None if rate is None else Rate(rate),
        apart=["/api/suggest"],  # who types much can still search
        larger={"/api/feedback": MAX_BYTES + MAX_RECEIPT, **owner_pages.LARGER},
        forms=owner_pages.FORMS,
        refused=metrics.refused,
    )
    app.add_middleware(_WithHeaders)
    app.add_middleware(MeasureTime, metrics=metrics, routes=routes)
    return app


def _searching_in(threads: ThreadPoolExecutor) -> Callable[[FastAPI], Any]:
    """Run all searches, the page's and those of the pipeline's route, in these threads.

    An abandoned search keeps its thread until it ends; one that has not begun is dropped. So an overloaded server
    answers some requests in time, instead of working on ever more at once and answering none.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        asyncio.get_running_loop().set_default_executor(threads)
        yield

    return lifespan


def _add_page(app: FastAPI, metrics: Metrics, files: Mapping[str, PageFile]) -> None:
    for path, file in files.items():
        app.add_route(path, file.route(), methods=["GET"])

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/metrics")
    async def metrics_text() -> Response:
        return Response(metrics.text(), media_type=MEDIA_TYPE)


def _add_search(
    app: FastAPI,
    declared: DeclaredPipeline,
    search: DeclaredPipeline | SearchWorkers | BackgroundStart,
    feedback: FeedbackFile,
    limits: Mapping[str, float | None],
    category: str,
    question_log: QuestionLog | None,
) -> None:
    place = declared.place  # describing the stores takes a moment
    receipts = AnswerSigner(shared_secret(feedback.path.with_name(f"{feedback.path.name}.key")))
    feedback_thread = ThreadPoolExecutor(1, "feedback")  # a separate one: feedback does not wait for searches

    async def run(work: Callable[[], T]) -> T:
        """Run `work` in a search thread; its failure is the server's fault, not the client's."""
        try:
            return await asyncio.to_thread(work)
        except InputError as error:
            logger.error("%s", error)
            raise HTTPException(503, FAILED) from error

    def ranked(question: str, limits: Mapping[str, float | None] = limits) -> list[Document]:
        with report_store_errors(declared.path, place):
            return search.run(question, limits)

    def closest(question: str) -> list[Document] | None:
        """The answers that were not good enough, best first; `None` if the pipeline cannot tell."""
        return ranked(question, NO_THRESHOLD) if declared.takes_threshold else None

    async def find_answer(question: str, key: str) -> Document:
        """Search again: the server keeps no state, and only answers that were shown can be asked about."""
        for document in await run(lambda: ranked(question)):
            if document.id == key:
                return document
        raise HTTPException(404, "Expected the id of an answer to this question, found another. Ask again.")

    @app.post("/api/search")
    async def api_search(request: SearchRequest) -> JSONResponse:
        """The answers that are good enough, best first; `found` is false if there is none, with `related` questions."""
        question, calibrated = request.question, search.calibrated
        documents = await run(lambda: ranked(question))
        others = None if documents else await run(lambda: closest(question))
        if question_log is not None:
            question_log.add(question, documents, others)
        answers = [
            presented(question, document, calibrated=calibrated, category=category)
            | {"receipt": receipts.sign(question, document.id, ShownAnswer.of(document))}
            for document in documents
        ]
        content = {
            "question": question,
            "found": bool(documents),
            "answers": answers,
            "related": stored_questions(others or [])[:MAX_RELATED],
        }
        # Not a dictionary, which FastAPI would walk through first: its values are basic types already.
        return JSONResponse(content)

    @app.post("/api/explain")
    async def api_explain(request: ExplainRequest) -> dict[str, Any]:
        """The weight of each word; `start` and `end` are positions of characters (code points) in `text`."""
        document = await find_answer(request.question, request.id)

        def work() -> dict[str, Any] | str:
            try:
                question, answer, explanation = search.explain(request.question, document)
            except InputError as error:
                return str(error)
            return {
                "score": explanation.score,
                "question": {"text": question, "tokens": weighed(explanation.question)},
                "answer": {"text": answer, "tokens": weighed(explanation.answer)},
            }

        weights = await run(work)
        if isinstance(weights, str):
            raise HTTPException(409, weights)
        return weights

    @app.post("/api/feedback")
    async def api_feedback(request: FeedbackRequest) -> dict[str, str]:
        """Store whether an answer helped, or take it back; without a valid receipt, search for the answer first."""
        shown = receipts.read(request.question, request.id, request.receipt) if request.receipt else None
        if shown is None:
            shown = ShownAnswer.of(await find_answer(request.question, request.id))
        try:
            await asyncio.get_running_loop().run_in_executor(feedback_thread, _keep, feedback, request, shown)
        except FeedbackFullError as error:  # already logged
            raise HTTPException(507, FULL) from error
        except (OSError, InputError) as error:
            logger.error("%s: expected a writable file (%s).", feedback.path, error)
            raise HTTPException(503, NOT_KEPT) from error
        return {"status": "taken back" if request.helped is None else "kept"}


def _add_suggestions(app: FastAPI, suggestions: LiveSuggestions) -> None:
    reading = ThreadPoolExecutor(1, "suggestions")  # does not wait for searches

    def refresh() -> None:
        try:
            if suggestions.stale:  # may have been done while this one waited
                suggestions.refresh()
        except Exception:  # a search without suggestions works as well
            logger.exception("Suggestions cannot be read.")

    @app.post("/api/suggest")
    async def api_suggest(request: SuggestRequest) -> dict[str, list[str]]:
        """Stored questions and known wordings that begin like a text."""
        if suggestions.stale:
            read = asyncio.get_running_loop().run_in_executor(reading, refresh)
            if not suggestions.ready:
                await read
        return {"suggestions": suggestions.find(request.text)}


def _keep(feedback: FeedbackFile, request: FeedbackRequest, shown: ShownAnswer) -> None:
    given = {"question": request.question, "visit": request.visit}
    if request.helped is None:
        feedback.take_back(answer=shown.answer, **given)
    else:
        feedback.append(**asdict(shown), **given, helped=request.helped, comment=request.comment)


class _WithHeaders:
    """ASGI middleware that adds to every answer those of `HEADERS` that it lacks."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self.app(scope, receive, with_headers)


def _answer_errors_in_json(app: FastAPI, metrics: Metrics) -> None:
    """Answer each error with one sentence; the details are in the log."""

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        metrics.refused("invalid")
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"][1:]) or "body"
        return JSONResponse({"error": f"{field}: {first['msg']}."}, 422)

    @app.exception_handler(StarletteHTTPException)
    async def refused(_: Request, error: StarletteHTTPException) -> JSONResponse:
        metrics.refused(REASONS.get(error.status_code, "failed"))
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)

    @app.exception_handler(Exception)
    async def failed(_: Request, error: Exception) -> JSONResponse:  # the server logs the traceback
        metrics.refused("failed")
        return JSONResponse({"error": FAILED}, 500, HEADERS)
