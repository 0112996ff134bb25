"""The HTTP interface of a search: our page and what it asks for, beside Hayhooks' REST interface of the pipeline."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import asdict
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, StringConstraints, TypeAdapter
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.responses import JSONResponse, Response

from ap_ranker.errors import InputError
from ap_ranker.ranking.bm25 import BM25_RANK
from ap_ranker.ranking.explanation import Token, pieces
from ap_ranker.serving import receipts
from ap_ranker.serving.feedback import FeedbackFile, FeedbackFullError
from ap_ranker.serving.hayhooks_route import add_pipeline
from ap_ranker.serving.limits import MAX_BYTES, Hosts, Key, Limits, Rate
from ap_ranker.serving.metrics import MEDIA_TYPE, CountingThreads, Measured, Metrics
from ap_ranker.serving.receipts import Receipts, Shown, shared_secret
from ap_ranker.serving.search import DeclaredPipeline
from ap_ranker.serving.stores import one_clear_message

if TYPE_CHECKING:
    from haystack import Document

    from ap_ranker.serving.connections import Connections

logger = logging.getLogger(__name__)

MAX_CHARACTERS = 1000
"""Of a question: longer than any that a person types into a search box."""

THREADS = 4
"""Searches at the same time. They need the processor, so more of them would only be slower, each and together."""

PAGE = {
    "/": ("index.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
}
HEADERS = {
    # The page needs nothing but this server, and no other site may show it in a frame.
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
OWN = ("/health", "/api/search", "/api/explain", "/api/feedback")
"""What the page asks for, and whoever watches over the server; these need no key."""

FAILED = "The search does not work at the moment; the server's log says why."
NOT_KEPT = "Feedback cannot be kept at the moment; the server's log says why."
FULL = "Feedback cannot be kept any more: its file has reached its limit."

REASONS = {400: "invalid", 404: "unknown", 405: "unknown", 409: "no_reasons", 422: "invalid", 507: "feedback_full"}
"""Of a refusal, for the metrics; whatever is not here failed."""

T = TypeVar("T")
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_CHARACTERS)]


class Asked(BaseModel):
    """A question."""

    model_config = ConfigDict(extra="forbid")
    question: Text


class Chosen(Asked):
    """A question and the id of one of its answers."""

    id: Text


class Judged(Chosen):
    """Whether that answer helped; `receipt` came with it, and `visit` is any word that stands for who judges."""

    helped: bool
    receipt: Annotated[str, StringConstraints(max_length=receipts.MAX_CHARACTERS)] | None = None
    visit: Annotated[str, StringConstraints(max_length=64, pattern=r"^[\w-]*$")] = ""


def build_app(
    search: DeclaredPipeline,
    feedback: FeedbackFile,
    *,
    limits: Mapping[str, float | None] = MappingProxyType({}),
    rate: float | None = None,
    hosts: Collection[str] = (),
    api_key: str | None = None,
    columns: Collection[str] = (),
    connections: Connections | None = None,
) -> FastAPI:
    """The application, for any ASGI server.

    Args:
        search: its store is filled.
        feedback: where users' judgements go; beside it lies a secret that receipts are signed with.
        limits: `precision` or `score_threshold` of the ranker; `None` leaves one to the pipeline.
        rate: requests that one client may send per second; `None` for any number.
        hosts: names by which it may be asked, beside `localhost` and any IP address.
        api_key: that others than the page must give; `None` asks for none.
        columns: of the FAQ, told by the pipeline's own route beside question and answer.
        connections: of the server, for its metrics.

    Raises:
        InputError: Hayhooks refuses the pipeline, or the key is not one.
    """
    threads = CountingThreads(THREADS, "search")
    metrics = Metrics(search, threads, connections)
    # Without the documentation pages of FastAPI: they load programs from another host.
    app = FastAPI(title="ap-ranker", docs_url=None, redoc_url=None, lifespan=_searching_in(threads))
    _answer_errors_in_json(app, metrics)
    _add_page(app, metrics)
    _add_search(app, search, feedback, limits)
    pipeline_route = add_pipeline(app, search, text=TypeAdapter(Text), columns=columns, failed=FAILED)
    routes = [*PAGE, *OWN, "/metrics", pipeline_route]
    app.add_middleware(Key, key=api_key, open_to_all={*PAGE, *OWN}, refused=metrics.refused)
    app.add_middleware(
        Limits,
        rate=None if rate is None else Rate(rate),
        larger={"/api/feedback": MAX_BYTES + receipts.MAX_CHARACTERS},
        refused=metrics.refused,
    )
    app.add_middleware(Hosts, names=hosts, refused=metrics.refused)
    app.middleware("http")(_with_headers)
    app.add_middleware(Measured, metrics=metrics, routes=routes)
    return app


def _searching_in(threads: CountingThreads) -> Callable[[FastAPI], Any]:
    """All searches share these threads, the page's and those of Hayhooks' route.

    A search that nobody waits for any longer keeps its thread until it ends, and one that has not begun never does.
    So a server that is asked too much answers some in time, instead of working on ever more at once and answering none.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        asyncio.get_running_loop().set_default_executor(threads)
        yield

    return lifespan


def _add_page(app: FastAPI, metrics: Metrics) -> None:
    folder = files("ap_ranker.serving") / "page"
    for path, (name, media_type) in PAGE.items():
        app.add_route(path, _file((folder / name).read_bytes(), media_type), methods=["GET"])

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/metrics")
    async def numbers() -> Response:
        return Response(metrics.text(), media_type=MEDIA_TYPE)


def _file(content: bytes, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    async def send(_: Request) -> Response:
        return Response(content, media_type=media_type)

    return send


def _add_search(
    app: FastAPI, search: DeclaredPipeline, feedback: FeedbackFile, limits: Mapping[str, float | None]
) -> None:
    signed = Receipts(shared_secret(feedback.path.with_name(f"{feedback.path.name}.key")))
    clicks = ThreadPoolExecutor(1, "feedback")  # their own, so that they do not wait for searches

    async def run(work: Callable[[], T]) -> T:
        """In a thread; what fails there is the server's fault, not the client's."""
        try:
            return await asyncio.to_thread(work)
        except InputError as error:
            logger.error("%s", error)
            raise HTTPException(503, FAILED) from error

    def ranked(question: str) -> list[Document]:
        with one_clear_message(search.path, search.place):
            return search.run(question, limits)

    async def one_answer(question: str, key: str) -> Document:
        """Asked anew: so the server remembers nothing, and nobody asks about what was never shown."""
        documents = await run(lambda: ranked(question))
        chosen = next((one for one in documents if one.id == key), None)
        if chosen is None:
            raise HTTPException(404, "Expected the id of an answer to this question, found another. Ask again.")
        return chosen

    @app.post("/api/search")
    async def api_search(asked: Asked) -> dict[str, Any]:
        """The answers that are good enough, best first; `found` is false if there is none."""
        documents = await run(lambda: ranked(asked.question))
        answers = [_answer(one) | {"receipt": signed.sign(asked.question, one.id, _shown(one))} for one in documents]
        return {"question": asked.question, "found": bool(documents), "answers": answers}

    @app.post("/api/explain")
    async def api_explain(chosen: Chosen) -> dict[str, Any]:
        """How much each word counted; `start` and `end` are characters (code points) of `text`."""
        document = await one_answer(chosen.question, chosen.id)

        def work() -> dict[str, Any] | str:
            try:
                question, answer, explanation = search.explain(chosen.question, document)
            except InputError as error:
                return str(error)
            return {
                "score": explanation.score,
                "question": {"text": question, "tokens": _tokens(explanation.question)},
                "answer": {"text": answer, "tokens": _tokens(explanation.answer)},
            }

        reasons = await run(work)
        if isinstance(reasons, str):
            raise HTTPException(409, reasons)
        return reasons

    @app.post("/api/feedback")
    async def api_feedback(judged: Judged) -> dict[str, str]:
        """Keep whether an answer helped; without a receipt, it is searched for first."""
        shown = signed.read(judged.question, judged.id, judged.receipt) if judged.receipt else None
        if shown is None:
            shown = _shown(await one_answer(judged.question, judged.id))
        judgement = asdict(shown) | {"question": judged.question, "helped": judged.helped, "visit": judged.visit}
        try:
            await asyncio.get_running_loop().run_in_executor(clicks, lambda: feedback.append(**judgement))
        except FeedbackFullError as error:  # which has told the log
            raise HTTPException(507, FULL) from error
        except OSError as error:
            logger.error("%s: expected a file that can be written (%s).", feedback.path, error)
            raise HTTPException(503, NOT_KEPT) from error
        return {"status": "kept"}


def _shown(document: Document) -> Shown:
    return Shown(answer=document.content or "", stored_question=document.meta.get("question") or "")


def _answer(document: Document) -> dict[str, Any]:
    return {
        "id": document.id,
        "score": document.score,
        "question": document.meta.get("question") or "",
        "answer": document.meta.get("answer") or document.content or "",
        "bm25_rank": document.meta.get(BM25_RANK),
    }


def _tokens(tokens: Sequence[Token]) -> list[dict[str, float]] | None:
    """The stretches of a text with their heat, 0 to 1; `None` where the model does not weigh this side."""
    if all(token.weight is None for token in tokens):
        return None
    return [{"start": start, "end": end, "heat": heat} for start, end, heat in pieces(tokens)]


async def _with_headers(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    response = await call_next(request)
    response.headers.update(HEADERS)
    return response


def _answer_errors_in_json(app: FastAPI, metrics: Metrics) -> None:
    """Each with one sentence; what went wrong inside stands in the log."""

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        metrics.refused("invalid")
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"][1:]) or "body"
        return JSONResponse({"error": f"{field}: {first['msg']}."}, 422)

    @app.exception_handler(StarletteHTTPException)
    async def refused(_: Request, error: StarletteHTTPException) -> JSONResponse:
        metrics.refused(REASONS.get(error.status_code, "failed"))
        inside = error.status_code == 500  # Hayhooks' message may quote the pipeline and its server
        return JSONResponse({"error": FAILED if inside else error.detail}, error.status_code, error.headers)

    @app.exception_handler(Exception)
    async def failed(_: Request, error: Exception) -> JSONResponse:  # the server logs the traceback
        metrics.refused("failed")
        return JSONResponse({"error": FAILED}, 500, HEADERS)
