"""The routes of the owner's page. Without the key, each of them answers 401; what they load is no secret."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from string import Template
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import parse_qs

from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel, Field, StringConstraints, ValidationError
from starlette.responses import RedirectResponse, Response

from ap_ranker.errors import InputError
from ap_ranker.web.changes import Action
from ap_ranker.web.owner.service import ConflictError, OwnerService
from ap_ranker.web.owner.sessions import Sessions, bearer_key, is_own_site

logger = logging.getLogger(__name__)

PAGE = "/owner"
LOGIN, LOGOUT = "/owner/login", "/owner/logout"
ASSETS = {
    "/owner/owner.js": ("owner.js", "text/javascript"),
    "/owner/texts.js": ("texts.js", "text/javascript"),
    "/owner/owner.css": ("owner.css", "text/css"),
}
NAMES = ("counts", "gaps", "feedback", "entries", "history", "change", "decide", "undo")
API = tuple(f"/owner/api/{name}" for name in NAMES)
ROUTES = (PAGE, LOGIN, LOGOUT, *ASSETS, *API)
FORMS = (LOGIN, LOGOUT)
"""Routes that take a form, not JSON."""

LARGER = {"/owner/api/change": 256 * 1024}
"""Path -> maximum size of a request in bytes, where it is not that of a question."""

THREADS = 4
"""Number of requests that the page answers at once: an owner's browser sends four."""

LOGIN_TEXTS = {
    "en": {
        "title": "The owner's page",
        "key": "The owner's key",
        "name": "Your name, for the history of changes (optional)",
        "login": "Log in",
        "wrong": "This is not the key.",
        "wait": "Too many wrong keys came from your network. Wait a minute, and try again.",
    },
    "de": {
        "title": "Seite für Betreiber",
        "key": "Schlüssel des Betreibers",
        "name": "Ihr Name, für das Verzeichnis der Änderungen (freiwillig)",
        "login": "Anmelden",
        "wrong": "Das ist nicht der Schlüssel.",
        "wait": "Aus Ihrem Netz kamen zu viele falsche Schlüssel. Versuchen Sie es in einer Minute wieder.",
    },
}
"""Language -> the words of the form to log in; the page itself has its own in `texts.js`."""

FAILED = "This does not work at the moment; see the server's log."

Words = Annotated[str, StringConstraints(strip_whitespace=True, max_length=1000)]
Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1000, pattern=r"^[^\r\n]*$")]
Key = Annotated[str, StringConstraints(max_length=64)]


class OwnerRequest(BaseModel, extra="forbid"):
    """A request without anything else in it."""


R = TypeVar("R", bound=OwnerRequest)
T = TypeVar("T")


class EntriesRequest(OwnerRequest):
    """Words that entries contain; none for all entries."""

    words: Words = ""


class UndoRequest(OwnerRequest):
    """The id of the change to undo."""

    change: Key


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
        door = _Door(Sessions(self.key, self.desk.database))
        _add_page(app, door)
        _add_api(app, door, self.desk)
        return ROUTES


class _Door:
    """Lets in who may see the page. Its threads are not those of searches, which never wait for the owner's page."""

    def __init__(self, sessions: Sessions) -> None:
        self.sessions = sessions
        self._threads = ThreadPoolExecutor(THREADS, "owner")

    async def run(self, work: Callable[..., T], *given: Any) -> T:
        """Run `work` in a thread; that the database fails is the server's fault, not the client's."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: work(*given))
        except InputError as error:
            logger.error("%s", error)
            raise HTTPException(503, FAILED) from error

    async def owner(self, request: Request) -> str | None:
        """The name of the owner who sends a request, empty for the bare key; `None` for anybody else."""
        owner = await self.run(self.sessions.owner_of, request)
        key = bearer_key(request.headers)
        if owner is None and key is not None and self.sessions.is_key(key, request):
            return ""
        return owner

    async def require(self, request: Request) -> str:
        """As `owner`; status 401 for anybody else, and for another site's page."""
        owner = await self.owner(request)
        if owner is None:
            raise HTTPException(401, "Expected the owner's key.", {"WWW-Authenticate": "Bearer"})
        require_own_site(request)
        return owner


def require_own_site(request: Request) -> None:
    """Status 401 for a request of another site's page."""
    if not is_own_site(request.headers):
        raise HTTPException(401, "Expected a request from this server's own page.")


def _add_page(app: FastAPI, door: _Door) -> None:
    folder = files("ap_ranker.web.owner") / "page"
    page, login = ((folder / name).read_text(encoding="utf-8") for name in ("owner.html", "login.html"))

    def login_page(request: Request, note: str = "", refusal: HTTPException | None = None) -> Response:
        language = language_of(request.headers.get("accept-language", ""))
        said = LOGIN_TEXTS[language]
        texts = said | {"language": language, "note": f'<p role="alert">{said[note]}</p>' if note else ""}
        texts["root"] = "" if request.url.path.endswith(PAGE) else "../"  # links hold behind any address's path, too
        status, headers = (refusal.status_code, refusal.headers) if refusal else (401, {"WWW-Authenticate": "Bearer"})
        return Response(Template(login).substitute(texts), status, headers, "text/html")

    @app.get(PAGE)
    async def owner(request: Request) -> Response:
        entered = await door.owner(request) is not None
        return Response(page, media_type="text/html") if entered else login_page(request)

    for path, (name, media_type) in ASSETS.items():
        app.add_route(path, _asset((folder / name).read_bytes(), media_type), methods=["GET"])

    @app.post(LOGIN)
    async def begin(request: Request) -> Response:
        require_own_site(request)
        form = parse_qs((await request.body()).decode("utf-8", "replace"))
        key, name = (form.get(field, [""])[0].strip() for field in ("key", "name"))
        try:
            if not door.sessions.is_key(key, request):
                return login_page(request, "wrong")
        except HTTPException as refusal:
            return login_page(request, "wait", refusal)
        response = RedirectResponse("../owner", 303)
        secure = request.url.scheme == "https"  # as a trusted web server in front of this one says
        await door.run(lambda: door.sessions.begin(name, response, secure=secure))
        return response

    @app.post(LOGOUT)
    async def end(request: Request) -> Response:
        await door.require(request)
        response = RedirectResponse("../owner", 303)
        await door.run(door.sessions.end, request, response)
        return response


def _asset(content: bytes, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    async def send(request: Request) -> Response:
        return Response(content, media_type=media_type)

    return send


def language_of(accepted: str) -> str:
    """The first language of a header `Accept-Language` that the page speaks, or else English."""
    tags = (part.split(";")[0].split("-")[0].strip().lower() for part in accepted.split(","))
    return next((tag for tag in tags if tag in LOGIN_TEXTS), "en")


def _add_api(app: FastAPI, door: _Door, desk: OwnerService) -> None:
    def add(name: str, model: type[R], work: Callable[[R, str], Any]) -> None:
        @app.post(f"/owner/api/{name}")
        async def route(request: Request) -> Any:
            owner = await door.require(request)  # first, so that nobody without the key learns what is expected
            asked = _read(model, await request.body() or b"{}")
            try:
                return await door.run(work, asked, owner)
            except ConflictError as error:
                raise HTTPException(409, str(error)) from error

    def change(asked: ChangeRequest, owner: str) -> dict[str, Any]:
        action = Action(asked.action)
        if missing := [name for name in NEEDED[action] if not getattr(asked, name)]:
            raise HTTPException(422, f"{missing[0]}: expected a text, found none.")
        fields: dict[str, Any] = {"entry": asked.entry} if "entry" in NEEDED[action] else {}
        if action in (Action.add_entry, Action.change_entry):
            fields |= {"question": asked.question, "answer": asked.answer}
        wordings = () if action == Action.delete_entry else tuple(dict.fromkeys(asked.wordings))
        return asdict(desk.change(action, asked.version, owner=owner, **fields, wordings=wordings))

    add("counts", OwnerRequest, lambda *_: desk.counts())
    add("gaps", OwnerRequest, lambda *_: desk.gaps())
    add("feedback", OwnerRequest, lambda *_: desk.feedback_rows())
    add("history", OwnerRequest, lambda *_: desk.history())
    add("entries", EntriesRequest, lambda asked, _: desk.entries(asked.words))
    add("change", ChangeRequest, change)
    add("decide", DecisionRequest, lambda asked, owner: desk.decide(**dict(asked), owner=owner))
    add("undo", UndoRequest, lambda asked, owner: asdict(desk.undo(asked.change, owner)))


def _read(model: type[R], body: bytes) -> R:
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "body"
        raise HTTPException(422, f"{field}: {first['msg']}.") from error
