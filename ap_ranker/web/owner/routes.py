"""The routes of the owner's page. Without the key, each of them answers 401."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import parse_qs

from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel, Field, StringConstraints, ValidationError
from starlette.responses import RedirectResponse, Response

from ap_ranker.errors import InputError
from ap_ranker.web.changes import Action
from ap_ranker.web.owner.service import ConflictError, OwnerService
from ap_ranker.web.owner.sessions import Sessions, is_own_site

logger = logging.getLogger(__name__)

PAGE = "/owner"
LOGIN, LOGOUT = "/owner/login", "/owner/logout"
ASSETS = {
    "/owner/owner.js": ("owner.js", "text/javascript"),
    "/owner/texts.js": ("texts.js", "text/javascript"),
    "/owner/owner.css": ("owner.css", "text/css"),
}
API = tuple(f"/owner/api/{name}" for name in ("counts", "gaps", "feedback", "entries", "history", "change", "undo"))
ROUTES = (PAGE, LOGIN, LOGOUT, *ASSETS, *API)
FORMS = (LOGIN, LOGOUT)
"""Routes that take a form, not JSON."""

LARGER = {"/owner/api/change": 256 * 1024}
"""Path -> maximum size of a request in bytes, where it is not that of a question."""

WRONG_KEY_SECONDS = 0.5
"""Before the answer to a wrong key: nobody tries many."""

FAILED = "This does not work at the moment; see the server's log."

Words = Annotated[str, StringConstraints(strip_whitespace=True, max_length=1000)]
Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1000, pattern=r"^[^\r\n]*$")]
Key = Annotated[str, StringConstraints(max_length=64)]


class OwnerRequest(BaseModel, extra="forbid"):
    """A request without anything else in it."""


R = TypeVar("R", bound=OwnerRequest)


class EntriesRequest(OwnerRequest):
    """Words that entries contain; none for all entries."""

    words: Words = ""


class UndoRequest(OwnerRequest):
    """The id of the change to undo."""

    change: Key


class ChangeRequest(OwnerRequest):
    """A change; what each action needs is in `NEEDED`."""

    action: Literal["add entry", "change entry", "delete entry", "add wordings", "remove wordings"]
    entry: Key = ""
    version: Key = ""
    question: Words = ""
    answer: Annotated[str, StringConstraints(strip_whitespace=True, max_length=50_000)] = ""
    wordings: Annotated[list[Line], Field(max_length=1000)] = []


NEEDED = {
    Action.add_entry: ("question", "answer"),
    Action.change_entry: ("entry", "version", "answer"),
    Action.delete_entry: ("entry", "version"),
    Action.add_wordings: ("entry", "wordings"),
    Action.remove_wordings: ("entry", "wordings"),
}


@dataclass(frozen=True)
class OwnersPage:
    """The owner's page of a server: their key, and what the page shows and changes."""

    key: str = field(repr=False)
    desk: OwnerService

    def add_to(self, app: FastAPI) -> tuple[str, ...]:
        """Add the page to an application; returns its paths."""
        sessions = Sessions(self.key)
        _add_page(app, sessions)
        _add_api(app, sessions, self.desk)
        return ROUTES


def _add_page(app: FastAPI, sessions: Sessions) -> None:
    folder = files("ap_ranker.web.owner") / "page"
    page, login = ((folder / name).read_text(encoding="utf-8") for name in ("owner.html", "login.html"))

    def login_page(note: str = "") -> Response:
        headers = {"WWW-Authenticate": "Bearer"}
        return Response(login.replace("<!-- note -->", note), 401, headers, "text/html")

    @app.get(PAGE)
    async def owner(request: Request) -> Response:
        return Response(page, media_type="text/html") if sessions.allows(request) else login_page()

    for path, (name, media_type) in ASSETS.items():
        app.add_route(path, _asset((folder / name).read_bytes(), media_type, sessions), methods=["GET"])

    @app.post(LOGIN)
    async def begin(request: Request) -> Response:
        _require_own_site(request)
        form = parse_qs((await request.body()).decode("utf-8", "replace"))
        if not sessions.is_key(form.get("key", [""])[0].strip()):
            await asyncio.sleep(WRONG_KEY_SECONDS)
            return login_page('<p role="alert">This is not the key.</p>')
        response = RedirectResponse("../owner", 303)
        sessions.begin(response, secure=request.url.scheme == "https")
        return response

    @app.post(LOGOUT)
    async def end(request: Request) -> Response:
        _require(request, sessions)
        response = RedirectResponse("../owner", 303)
        sessions.end(request, response)
        return response


def _asset(content: bytes, media_type: str, sessions: Sessions) -> Callable[[Request], Awaitable[Response]]:
    async def send(request: Request) -> Response:
        return Response(content, media_type=media_type) if sessions.allows(request) else Response(status_code=401)

    return send


def _add_api(app: FastAPI, sessions: Sessions, desk: OwnerService) -> None:
    def add(name: str, model: type[R], work: Callable[[R], Any]) -> None:
        @app.post(f"/owner/api/{name}")
        async def route(request: Request) -> Any:
            _require(request, sessions)  # first, so that nobody without the key learns what is expected
            asked = _read(model, await request.body() or b"{}")
            try:
                return await asyncio.to_thread(work, asked)
            except ConflictError as error:
                raise HTTPException(409, str(error)) from error
            except InputError as error:
                logger.error("%s", error)
                raise HTTPException(503, FAILED) from error

    def change(asked: ChangeRequest) -> dict[str, Any]:
        action = Action(asked.action)
        if missing := [name for name in NEEDED[action] if not getattr(asked, name)]:
            raise HTTPException(422, f"{missing[0]}: expected a text, found none.")
        fields: dict[str, Any] = {"entry": asked.entry} if "entry" in NEEDED[action] else {}
        if action in (Action.add_entry, Action.change_entry):
            fields |= {"question": asked.question, "answer": asked.answer}
        wordings = () if action == Action.delete_entry else tuple(dict.fromkeys(asked.wordings))
        return asdict(desk.change(action, asked.version, **fields, wordings=wordings))

    add("counts", OwnerRequest, lambda _: desk.counts())
    add("gaps", OwnerRequest, lambda _: desk.gaps())
    add("feedback", OwnerRequest, lambda _: desk.feedback_rows())
    add("history", OwnerRequest, lambda _: desk.history())
    add("entries", EntriesRequest, lambda asked: desk.entries(asked.words))
    add("change", ChangeRequest, change)
    add("undo", UndoRequest, lambda asked: asdict(desk.undo(asked.change)))


def _read(model: type[R], body: bytes) -> R:
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "body"
        raise HTTPException(422, f"{field}: {first['msg']}.") from error


def _require(request: Request, sessions: Sessions) -> None:
    if not sessions.allows(request):
        raise HTTPException(401, "Expected the owner's key.", {"WWW-Authenticate": "Bearer"})
    _require_own_site(request)


def _require_own_site(request: Request) -> None:
    if not is_own_site(request.headers):
        raise HTTPException(401, "Expected a request from this server's own page.")
