"""The routes of the owner's page. Without the key, each of them answers 401; what they load is no secret."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from datetime import date
from functools import partial
from importlib.resources import files
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import parse_qs

from fastapi import FastAPI, HTTPException, Request
from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import RequestValidationError
from pydantic import AfterValidator, BaseModel, Field, StringConstraints, ValidationError
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from ap_ranker.data.rows import stripped
from ap_ranker.errors import InputError
from ap_ranker.files import html_text
from ap_ranker.web.changes import Action
from ap_ranker.web.limits import Failure, bearer_key, failing_as
from ap_ranker.web.owner.service import ConflictError, OwnerService
from ap_ranker.web.owner.sessions import COOKIE, Sessions, require_own_site
from ap_ranker.web.owner.texts import TEXTS
from ap_ranker.web.page.files import PageFile
from ap_ranker.web.search_routes import SEEN
from ap_ranker.web.served_search import ServedSearch
from ap_ranker.web.usage import Period, usage_of, usage_table
from ap_ranker.web.work import WorkThreads

PAGE = "/owner"
LOGIN, LOGOUT = FORMS = "/owner/login", "/owner/logout"  # these take a form, not JSON
SCRIPTS = ("owner.js", "usage.js", "basics.js", "texts.js")
ASSETS = {f"/owner/{name}": "text/javascript" for name in SCRIPTS} | {"/owner/owner.css": "text/css"}
ASSETS |= {f"/owner/texts/{language}.json": "application/json" for language in TEXTS}
TABLE = "/owner/usage.csv"
SHOWN = ("server", "usage", "gaps", "feedback", "comments", "entries", "history")
CHANGED = ("change", "decide", "undo", "delete_question", "delete_comment")
API = tuple(f"/owner/api/{name}" for name in (*SHOWN, *CHANGED))
ROUTES = (PAGE, LOGIN, LOGOUT, TABLE, *ASSETS, *API)

LARGER = {"/owner/api/change": 256 * 1024}
"""Path -> maximum size of a request in bytes, where it is not that of a question."""

_PAGE = files("ap_ranker.web.owner") / "page"

FAILED = "This does not work at the moment; see the server's log."

Words = Annotated[str, StringConstraints(strip_whitespace=True, max_length=1000), AfterValidator(stripped)]
Line = Annotated[Words, StringConstraints(pattern=r"^[^\r\n]*$"), SEEN]
Key = Annotated[str, StringConstraints(max_length=64)]


class OwnerRequest(BaseModel, extra="forbid"):
    """A request without anything else in it."""


R = TypeVar("R", bound=OwnerRequest)
T = TypeVar("T")


class PeriodRequest(OwnerRequest):
    """The days of a period; `Period.of` says which ones if they are left out."""

    first: date | None = None
    last: date | None = None

    @property
    def period(self) -> Period:
        """The period; status 422 if it cannot be one."""
        try:
            return Period.of(self.first, self.last)
        except InputError as error:
            raise HTTPException(422, str(error)) from error


class EntriesRequest(OwnerRequest):
    """Words that entries contain, none for all entries; and how many of these to skip."""

    words: Words = ""
    skip: Annotated[int, Field(ge=0)] = 0


class UndoRequest(OwnerRequest):
    """The id of the change to undo."""

    change: Key


class DeletedQuestionRequest(OwnerRequest):
    """The key of a visitor's sentence to delete."""

    question_key: Key


class DeletedCommentRequest(OwnerRequest):
    """The id of a visitor's sentence beside an answer, to delete."""

    id: int = Field(ge=0, lt=2**31)


class DecisionRequest(OwnerRequest):
    """What becomes of a visitor's sentence, which the keys of its judgements name."""

    state: Literal["accepted", "rejected"]
    question_key: Key
    answer_key: Key
    wording: Line  # the sentence as the owner has seen it
    entry: Key = ""  # whose wording it becomes


class ChangeRequest(OwnerRequest):
    """A change; what each action needs is in `NEEDED`."""

    action: Literal["add entry", "change entry", "delete entry", "add wordings", "remove wordings"]
    entry: Key = ""
    version: Key = ""
    question: Words = ""
    answer: Annotated[str, StringConstraints(strip_whitespace=True, max_length=50_000), AfterValidator(stripped)] = ""
    wordings: Annotated[tuple[Line, ...], Field(max_length=1000)] = ()


NEEDED = {
    Action.add_entry: ("question", "answer"),
    Action.change_entry: ("entry", "version", "answer"),
    Action.delete_entry: ("entry", "version"),
    Action.add_wordings: ("entry", "wordings"),
    Action.remove_wordings: ("entry", "wordings"),
}


class OwnersPage:
    """The owners' page of a server: the key that they share, if any, and what the page shows and changes.

    Its threads are not those of searches, which never wait for the owner's page.
    """

    def __init__(self, key: str | None, service: OwnerService) -> None:
        self._service, self._sessions = service, Sessions(key, service.database)
        self._threads = WorkThreads(4, "owner")  # an owner's browser sends four requests at once

    def add_to(self, app: FastAPI, served: Callable[[], ServedSearch | None]) -> tuple[str, ...]:
        """Add the page to an application that answers with the `served` search; returns its paths."""
        self._add_page(app)
        self._add_table(app)
        for path, media_type in ASSETS.items():
            content = (_PAGE / path.removeprefix("/owner/")).read_bytes()
            app.add_route(path, PageFile(content, media_type).send)
        service = self._service
        self._add(app, "server", OwnerRequest, lambda _, owner: service.server() | {"owner": owner, "served": served()})
        self._add(app, "usage", PeriodRequest, lambda asked, _: usage_of(service.database, asked.period))
        self._add(app, "gaps", OwnerRequest, lambda *_: service.gaps())
        self._add(app, "feedback", OwnerRequest, lambda *_: service.feedback_rows())
        self._add(app, "comments", OwnerRequest, lambda *_: service.comments())
        self._add(
            app, "delete_question", DeletedQuestionRequest, lambda to, _: service.delete_question(to.question_key)
        )
        self._add(app, "delete_comment", DeletedCommentRequest, lambda to, _: service.delete_comment(to.id))
        self._add(app, "history", OwnerRequest, lambda *_: service.history())
        self._add(app, "entries", EntriesRequest, lambda asked, _: service.entries(asked.words, asked.skip))
        self._add(app, "change", ChangeRequest, self._change)
        self._add(app, "decide", DecisionRequest, lambda asked, owner: service.decide(**dict(asked), owner=owner))
        self._add(app, "undo", UndoRequest, lambda asked, owner: asdict(service.undo(asked.change, owner)))
        return ROUTES

    def _add(self, app: FastAPI, name: str, model: type[R], work: Callable[[R, str], Any]) -> None:
        @app.post(f"/owner/api/{name}")
        async def route(request: Request) -> Any:
            owner = await self._require(request)  # first, so that nobody without a key learns what is expected
            return await self._run(answer_to, await request.body() or b"{}", owner)

        def answer_to(body: bytes, owner: str) -> JSONResponse:
            asked = _checked(model.model_validate_json, body, "body")
            try:
                return JSONResponse(jsonable_encoder(work(asked, owner)))
            except ConflictError as error:
                raise HTTPException(409, str(error)) from error

    def _change(self, asked: ChangeRequest, owner: str) -> dict[str, Any]:
        action = Action(asked.action)
        if missing := [name for name in NEEDED[action] if not getattr(asked, name)]:
            raise HTTPException(422, f"{missing[0]}: expected a text, found none.")
        fields = asked.model_dump(include={"question", "answer", *NEEDED[action]}, exclude={"version"})
        wordings = tuple(dict.fromkeys(asked.wordings))
        return asdict(self._service.change(action, asked.version, owner=owner, **fields | {"wordings": wordings}))

    async def _run(self, work: Callable[..., T], *given: Any) -> T:
        """Run `work` in a thread; it fails if the database does."""
        with failing_as(FAILED, Failure.database):
            return await self._threads.run(work, *given)

    async def _owner(self, request: Request) -> str | None:
        """The name of the owner who sends a request, empty if it is not known; `None` for anybody else."""
        given = bearer_key(request.headers)
        if given is None and COOKIE not in request.cookies:
            return None  # strangers take no thread of the owner's
        owner = await self._run(self._sessions.owner_of, request)
        if owner is not None or given is None:
            return owner
        key = self._sessions.find(given, request, await self._run(self._sessions.keys))
        return None if key is None else key.owner or ""

    async def _require(self, request: Request) -> str:
        """As `_owner`; status 401 for anybody else, and for another site's page."""
        owner = await self._owner(request)
        if owner is None:
            raise HTTPException(401, "Expected an owner's key.", {"WWW-Authenticate": "Bearer"})
        require_own_site(request)
        return owner

    def _add_table(self, app: FastAPI) -> None:
        @app.get(TABLE)
        async def table(request: Request) -> Response:
            await self._require(request)
            given = {name: request.query_params.get(name) for name in PeriodRequest.model_fields}
            period = _checked(PeriodRequest.model_validate, given, "query").period
            delimiter = TEXTS[language_of(request.headers.get("accept-language", ""))]["writing"]["delimiter"]
            content = await self._run(table_of, period, delimiter)
            name = f"questions_{period.first}_{period.last}.csv"
            headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
            return Response(content, media_type="text/csv; charset=utf-8", headers=headers)

        def table_of(period: Period, delimiter: str) -> bytes:
            # By the byte order mark, Excel knows UTF-8.
            return usage_table(self._service.database, period, delimiter).encode("utf-8-sig")

    def _add_page(self, app: FastAPI) -> None:
        page = (_PAGE / "owner.html").read_text(encoding="utf-8")
        login = (_PAGE / "login.html").read_text(encoding="utf-8")

        def login_page(request: Request, note: str = "", refusal: HTTPException | None = None) -> Response:
            language = language_of(request.headers.get("accept-language", ""))
            texts = TEXTS[language]["login"]
            root = "" if request.url.path.endswith(PAGE) else "../"  # links hold behind any address's path
            text = html_text(login, {"language": language, "texts": texts, "note": texts.get(note), "root": root})
            refusal = refusal or HTTPException(401, headers={"WWW-Authenticate": "Bearer"})
            return HTMLResponse(text, refusal.status_code, refusal.headers)

        @app.get(PAGE)
        async def owner(request: Request) -> Response:
            if await self._owner(request) is None:
                return login_page(request)
            return HTMLResponse(page, headers={"Cache-Control": "no-store"})  # else "Back" shows it after a logout

        @app.post(LOGIN)
        async def begin(request: Request) -> Response:
            require_own_site(request)
            form = parse_qs((await request.body()).decode("utf-8", "replace"))
            key = form.get("key", [""])[0].strip()
            name = form.get("name", [""])[0].strip()
            keys = await self._run(self._sessions.keys)
            try:
                found = self._sessions.find(key, request, keys)
            except HTTPException as refusal:
                return login_page(request, "wait", refusal)
            if found is None:
                return login_page(request, "wrong")
            response = RedirectResponse("../owner", 303)
            secure = request.url.scheme == "https"  # as a trusted web server in front of this one says
            await self._run(partial(self._sessions.begin, found, name, response, secure=secure))
            return response

        @app.post(LOGOUT)
        async def end(request: Request) -> Response:
            response = RedirectResponse("../owner", 303)
            # Of a session that has ended by itself, a browser gets the form to log in, not a sentence in JSON.
            if "text/html" in request.headers.get("accept", "") and await self._owner(request) is None:
                return response
            await self._require(request)
            await self._run(self._sessions.end, request, response)
            return response


def _checked(check: Callable[[Any], R], given: Any, place: str) -> R:
    """What `check` makes of what was given; status 422, as FastAPI answers, if it cannot be that."""
    try:
        return check(given)
    except ValidationError as error:
        raise RequestValidationError([one | {"loc": (place, *one["loc"])} for one in error.errors()]) from error


def language_of(accepted: str) -> str:
    """The first language of a header `Accept-Language` that the page speaks, or else English."""
    tags = (part.split(";")[0].split("-")[0].strip().lower() for part in accepted.split(","))
    return next((tag for tag in tags if tag in TEXTS), "en")
