"""The HTTP interface of a search: the search page, its API, and the REST route of the pipeline."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from prometheus_client import CollectorRegistry, generate_latest
from pydantic import BaseModel
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ap_ranker.search.declared_pipeline import NO_LIMITS, DeclaredPipeline, Limits
from ap_ranker.web.background_start import BackgroundStart
from ap_ranker.web.judgements import Judgements
from ap_ranker.web.limits import MAX_BYTES, Guard, Rate, note_failure
from ap_ranker.web.monitoring import Measure, QuestionMetrics, SearchMetrics
from ap_ranker.web.owner import routes as owner_pages
from ap_ranker.web.owner.routes import OwnersPage
from ap_ranker.web.page.files import page_files
from ap_ranker.web.page.settings import PageSettings
from ap_ranker.web.pipeline_route import add_pipeline
from ap_ranker.web.question_log import QuestionLog
from ap_ranker.web.readiness import Readiness
from ap_ranker.web.search_routes import API, FAILED, MAX_RECEIPT, Text, add_search_routes
from ap_ranker.web.visitors import BehindProxies
from ap_ranker.web.work import WorkThreads
from ap_ranker.web.workers import SearchWorkers

THREADS = 32
"""Number of concurrent searches, most of which wait to be searched together (`gathered_search.py`)."""

SCHEMA = "/openapi.json"
METRICS = "/metrics"
HEALTH = ("/health", "/health/live", "/health/ready")

HEADERS = {
    # The page loads from this server only, and no other site may show it in a frame.
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    # Other sites hear of no address. This one has to: without a referrer, a browser sends forms with the origin "null".
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-cache",
}

_RAW_HEADERS = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]


class Refusal(BaseModel):
    """The answer to a request that is refused."""

    error: str


def build_app(
    search: DeclaredPipeline,  # its store is filled
    judgements: Judgements,
    *,
    limits: Limits = NO_LIMITS,  # `precision` or `score_threshold` of the ranker
    rate: float | None = None,  # maximum number of requests per second and client
    hosts: Collection[str] = (),  # accepted host names, in addition to `localhost` and any IP address
    api_key: str | None = None,  # what all routes but the page's require
    columns: Collection[str] = (),  # of the FAQ, that the pipeline's own route returns beside question and answer
    workers: SearchWorkers | BackgroundStart | None = None,  # search for the page instead of threads of this process
    page: PageSettings = PageSettings(),  # noqa: B008  it is frozen
    question_log: QuestionLog | None = None,
    owner: OwnersPage | None = None,
    identity_header: str = "",  # that a trusted web server in front sets, for `visitors.BehindProxies`
) -> FastAPI:
    """Build the ASGI application; InputError for inputs that requests cannot have, or too small a number."""
    searching = workers or search
    n_processes = workers.count if workers else 1
    threads = WorkThreads(THREADS * n_processes, "search")
    # No redirects, which would name an address behind a web server.
    app = FastAPI(
        openapi_url=None,  # what it would list are the owner's routes, too: `SCHEMA` is made before these are there
        redirect_slashes=False,
        responses={"default": {"model": Refusal, "description": "What is wrong, in one sentence."}},
    )
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(StarletteHTTPException, _refused)
    app.add_exception_handler(Exception, _failed)
    registry = CollectorRegistry()
    metrics = QuestionMetrics(registry)
    # First, since requests are compared with one route after the other.
    add_search_routes(
        app,
        search,
        search=searching,
        judgements=judgements,
        limits=limits,
        page=page,
        question_log=question_log,
        metrics=metrics,
        threads=threads,
    )
    files = page_files(page)
    for path, file in files.items():
        app.add_route(path, file.send, methods=["GET"])
    schema = get_openapi(title="The search page's API", version="1", routes=app.routes)
    app.add_api_route(SCHEMA, lambda: schema, include_in_schema=False)
    pipeline_routes = add_pipeline(app, search, text=Text, columns=columns, failed=FAILED)
    search_metrics = SearchMetrics(searching, search)
    owner_routes = owner.add_to(app, search_metrics.served) if owner else ()
    public = {*files, *API, *owner_routes, SCHEMA, *HEALTH}
    readiness = Readiness(search, judgements.database, describe=search_metrics.served)
    _add_health(app, readiness)
    _add_metrics(app, readiness, registry=registry, search=search_metrics)
    for route in app.routes:
        if isinstance(route, Route) and route.methods and "GET" in route.methods:
            route.methods.add("HEAD")  # by which programs that watch a server ask
    app.add_middleware(
        Guard,
        names=hosts,
        key=api_key,
        public=public,
        rate=None if rate is None else Rate(rate),
        uncounted={*files, *owner_pages.ASSETS, *HEALTH},  # all else is made anew for each request
        apart=["/api/suggest"],  # who types much can still search
        larger={"/api/feedback": MAX_BYTES + MAX_RECEIPT, **owner_pages.LARGER},
        forms=owner_pages.FORMS,
        local=[METRICS],
    )
    if page.sites:  # outside of what refuses, so that their pages may read why
        app.add_middleware(CORSMiddleware, allow_origins=page.sites, allow_methods=["GET", "POST"])
    app.add_middleware(_WithHeaders)
    app.add_middleware(Measure, registry=registry, routes={*public, METRICS, *pipeline_routes})
    app.add_middleware(BehindProxies, header=identity_header)  # the outermost: it needs who connects
    app.middleware_stack = app.build_middleware_stack()  # now, so that what these refuse is told
    return app


def _add_health(app: FastAPI, readiness: Readiness) -> None:
    """Add the routes that tell whether the server lives, whether it can answer questions, and with which search.

    The first needs no thread and nothing else. The last leaves the checkpoint's fingerprint out, as anybody may ask.
    """

    async def live() -> dict[str, str]:
        return {"status": "ok"}

    async def ready() -> dict[str, str]:
        await readiness.require()
        return {"status": "ok"}

    async def health() -> dict[str, Any]:
        served = await readiness.served()
        if served is None:
            return {"status": "ok"}
        search = asdict(served)
        del search["fingerprint"]
        return {"status": "ok", "search": search}

    app.get("/health")(health)
    app.get("/health/live")(live)
    app.get("/health/ready")(ready)


def _add_metrics(app: FastAPI, readiness: Readiness, registry: CollectorRegistry, search: SearchMetrics) -> None:
    registry.register(search)
    threads = WorkThreads(1, "metrics")

    @app.get(METRICS)
    async def metrics() -> Response:
        search.entries = await readiness.entries()
        text = await threads.run(generate_latest, registry)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


class _WithHeaders:
    """ASGI middleware that adds to every answer those of `HEADERS` that it lacks."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message["headers"])
                names = {name.lower() for name, _ in headers}
                for name, value in _RAW_HEADERS:
                    if name not in names:
                        headers.append((name, value))
                message["headers"] = headers
            await send(message)

        await self.app(scope, receive, with_headers)


# Each error is answered with one sentence.


async def _invalid(_: Request, error: Any) -> JSONResponse:
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"][1:]) or "body"
    return JSONResponse({"error": f"{field}: {first['msg']}."}, 422)


async def _refused(request: Request, error: Any) -> JSONResponse:
    note_failure(request.scope, error)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


async def _failed(_: Request, error: Exception) -> JSONResponse:  # the server logs the traceback
    return JSONResponse({"error": FAILED}, 500, HEADERS)
