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

from ap_ranker.data.placeholders import is_no_wording
from ap_ranker.data.rows import stripped
from ap_ranker.errors import InputError
from ap_ranker.files import html_text
from ap_ranker.web.changes import Action
from ap_ranker.web.limits import Failure, bearer_key, failing_as
from ap_ranker.web.owner.current_entries import ConflictError
from ap_ranker.web.owner.decisions import Asked, Judged
from ap_ranker.web.owner.service import OwnerService
from ap_ranker.web.owner.sessions import COOKIE, Sessions, require_own_site
from ap_ranker.web.owner.texts import TEXTS
from ap_ranker.web.page.files import PageFile
from ap_ranker.web.search_routes import SEEN
from ap_ranker.web.served_search import ServedSearch
from ap_ranker.web.usage import Period, usage_of, usage_table, weeks_of
from ap_ranker.web.work import WorkThreads

PAGE = "/owner"
LOGIN = "/owner/login"
LOGOUT = "/owner/logout"
FORMS = (LOGIN, LOGOUT)  # these take a form, not JSON
SCRIPTS = (
    "owner.js",
    "actions.js",
    "basics.js",
    "entries.js",
    "gaps.js",
    "quality.js",
    "sections.js",
    "sentences.js",
    "texts.js",
    "usage.js",
    "wordings.js",
)
TABLE = "/owner/usage.csv"


def _assets() -> dict[str, str]:
    """Path -> media type."""
    assets = {f"/owner/{name}": "text/javascript" for name in SCRIPTS}
    assets["/owner/owner.css"] = "text/css"
    for language in TEXTS:
        assets[f"/owner/texts/{language}.json"] = "application/json"
    return assets


ASSETS = _assets()
SHOWN = ("server", "overview", "usage", "quality", "new", "gaps", "feedback", "comments", "entries", "history")
TRIED = ("choices", "preview")
CHANGED = ("change", "decide", "reject", "dismiss", "undo", "undo_rejection", "delete_question", "delete_comment")
API = tuple(f"/owner/api/{name}" for name in (*SHOWN, *TRIED, *CHANGED))
ROUTES = (PAGE, LOGIN, LOGOUT, TABLE, *ASSETS, *API)

LARGER = dict.fromkeys([f"/owner/api/{name}" for name in ("change", "preview", "choices", "dismiss")], 256 * 1024)
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


class OverviewRequest(OwnerRequest):
    """The time of the owner's last visit, as the overview of then has said it; `None` without one."""

    since: Annotated[int, Field(ge=0, lt=2**53)] | None = None


class ChoicesRequest(OwnerRequest):
    """Questions for which an entry is wanted, and the keys of entries that are none to choose."""

    questions: Annotated[tuple[Line, ...], Field(min_length=1, max_length=1000)]
    left_out: Annotated[tuple[Key, ...], Field(max_length=1000)] = ()


class PreviewRequest(OwnerRequest):
    """Wordings of an entry, as the owner has seen it, that are to be tried before they are saved."""

    entry: Key
    version: Key = ""
    wordings: Annotated[tuple[Line, ...], Field(min_length=1, max_length=1000)]


class SentenceKeys(OwnerRequest):
    """What names a visitor's sentence about an answer."""

    question_key: Key
    answer_key: Key


class RejectedSentence(SentenceKeys):
    """A sentence as the owner has seen it."""

    wording: Line


class RejectionRequest(OwnerRequest):
    """The sentences to reject, all together."""

    sentences: Annotated[tuple[RejectedSentence, ...], Field(min_length=1, max_length=1000)]


class AskedQuestion(OwnerRequest):
    """A visitor's question as the owner has seen it, and the key of its judgements where the page has that."""

    text: Line
    question_key: Key = ""


class DismissalRequest(OwnerRequest):
    """The questions that are none for the FAQ."""

    questions: Annotated[tuple[AskedQuestion, ...], Field(min_length=1, max_length=1000)]


class UndoneRejectionRequest(OwnerRequest):
    """The rejected or dismissed sentences that are again to be decided about."""

    sentences: Annotated[tuple[SentenceKeys, ...], Field(min_length=1, max_length=1000)]


class UndoRequest(OwnerRequest):
    """The id of the change to undo."""

    change: Key


class DeletedQuestionRequest(OwnerRequest):
    """The key of a visitor's sentence to delete."""

    question_key: Key


class DeletedCommentRequest(OwnerRequest):
    """The id of a visitor's sentence beside an answer, to delete."""

    id: int = Field(ge=0, lt=2**31)


class DecisionRequest(RejectedSentence):
    """What becomes of a visitor's sentence."""

    state: Literal["accepted", "rejected"]
    entry: Key = ""  # whose wording it becomes
    version: Key = ""  # of that entry, as the owner has seen it; empty of a program that accepts any
    overrules: bool = False  # whether the judged entry is right, whatever visitors say of it


def _read_as_wordings(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Those lines that count as wordings where they are read from the FAQ's file."""
    return tuple(line for line in lines if not is_no_wording(line))


class ChangeRequest(OwnerRequest):
    """A change; what each action needs is in `NEEDED`."""

    action: Literal["add entry", "change entry", "delete entry", "add wordings", "remove wordings"]
    entry: Key = ""
    version: Key = ""
    question: Words = ""
    answer: Annotated[str, StringConstraints(strip_whitespace=True, max_length=50_000), AfterValidator(stripped)] = ""
    wordings: Annotated[tuple[Line, ...], Field(max_length=1000), AfterValidator(_read_as_wordings)] = ()


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
        self._service = service
        self._sessions = Sessions(key, service.database)
        self._threads = WorkThreads(4, "owner")  # an owner's browser sends four requests at once

    def add_to(self, app: FastAPI, served: Callable[[], ServedSearch | None]) -> tuple[str, ...]:
        """Add the page to an application that answers with the `served` search; returns its paths."""
        self._add_page(app)
        self._add_table(app)
        for path, media_type in ASSETS.items():
            content = (_PAGE / path.removeprefix("/owner/")).read_bytes()
            app.add_route(path, PageFile(content, media_type).send)
        self._add_what_is_shown(app, served)
        self._add_what_is_tried(app)
        self._add_what_is_changed(app)
        return ROUTES

    def _add_what_is_shown(self, app: FastAPI, served: Callable[[], ServedSearch | None]) -> None:
        service = self._service

        @self._post(app, "server", OwnerRequest)
        def server(_: OwnerRequest, owner: str) -> dict[str, Any]:
            return service.server() | {"owner": owner, "served": served()}

        @self._post(app, "usage", PeriodRequest)
        def usage(request: PeriodRequest, _: str) -> dict[str, Any]:
            return usage_of(service.database, request.period)

        @self._post(app, "overview", OverviewRequest)
        def overview(request: OverviewRequest, owner: str) -> dict[str, Any]:
            return service.overview(request.since, owner)

        @self._post(app, "quality", OwnerRequest)
        def quality(*_: Any) -> dict[str, Any]:
            promise = None if served() is None else service.promise()  # before, its checkpoint is still being read
            return {"promise": promise, "weeks": weeks_of(service.database)}

        @self._post(app, "new", OwnerRequest)
        def new(*_: Any) -> dict[str, Any]:
            return service.new_questions()

        @self._post(app, "gaps", OwnerRequest)
        def gaps(*_: Any) -> dict[str, Any]:
            return service.gaps()

        @self._post(app, "feedback", OwnerRequest)
        def feedback(*_: Any) -> list[dict[str, Any]]:
            return service.feedback_rows()

        @self._post(app, "comments", OwnerRequest)
        def comments(*_: Any) -> list[dict[str, Any]]:
            return service.comments()

        @self._post(app, "entries", EntriesRequest)
        def entries(request: EntriesRequest, _: str) -> dict[str, Any]:
            return service.entries(request.words, request.skip)

        @self._post(app, "history", OwnerRequest)
        def history(*_: Any) -> list[dict[str, Any]]:
            return service.history()

    def _add_what_is_tried(self, app: FastAPI) -> None:
        service = self._service

        @self._post(app, "choices", ChoicesRequest)
        def choices(request: ChoicesRequest, _: str) -> dict[str, Any]:
            return service.choices(request.questions, request.left_out)

        @self._post(app, "preview", PreviewRequest)
        def preview(request: PreviewRequest, _: str) -> dict[str, Any]:
            wordings = tuple(dict.fromkeys(request.wordings))
            return service.preview(request.entry, wordings, request.version)

    def _add_what_is_changed(self, app: FastAPI) -> None:
        service = self._service

        @self._post(app, "change", ChangeRequest)
        def change(request: ChangeRequest, owner: str) -> dict[str, Any]:
            return self._change(request, owner)

        @self._post(app, "decide", DecisionRequest)
        def decide(request: DecisionRequest, owner: str) -> dict[str, str]:
            return service.decide(**dict(request), owner=owner)

        @self._post(app, "reject", RejectionRequest)
        def reject(request: RejectionRequest, owner: str) -> dict[str, int]:
            sentences = [Judged(**dict(sentence)) for sentence in request.sentences]
            return {"rejected": service.reject(sentences, owner)}

        @self._post(app, "dismiss", DismissalRequest)
        def dismiss(request: DismissalRequest, owner: str) -> dict[str, Any]:
            asked = [Asked(**dict(question)) for question in request.questions]
            return {"sentences": service.dismiss(asked, owner)}

        @self._post(app, "undo_rejection", UndoneRejectionRequest)
        def undo_rejection(request: UndoneRejectionRequest, _: str) -> dict[str, int]:
            return {"undone": service.take_back([dict(sentence) for sentence in request.sentences])}

        @self._post(app, "undo", UndoRequest)
        def undo(request: UndoRequest, owner: str) -> dict[str, Any]:
            return asdict(service.undo(request.change, owner))

        @self._post(app, "delete_question", DeletedQuestionRequest)
        def delete_question(request: DeletedQuestionRequest, _: str) -> dict[str, Any]:
            return service.delete_question(request.question_key)

        @self._post(app, "delete_comment", DeletedCommentRequest)
        def delete_comment(request: DeletedCommentRequest, _: str) -> dict[str, Any]:
            return service.delete_comment(request.id)

    def _post(
        self, app: FastAPI, name: str, model: type[R]
    ) -> Callable[[Callable[[R, str], Any]], Callable[[R, str], Any]]:
        """A decorator that adds a route: what is decorated answers a checked request of an owner of this name."""

        def add(work: Callable[[R, str], Any]) -> Callable[[R, str], Any]:
            def answer_to(body: bytes, owner: str) -> JSONResponse:
                request = _checked(model.model_validate_json, body, place="body")
                try:
                    return JSONResponse(jsonable_encoder(work(request, owner)))
                except ConflictError as error:
                    raise HTTPException(409, str(error)) from error

            @app.post(f"/owner/api/{name}")
            async def route(request: Request) -> Any:
                owner = await self._require(request)  # first, so that nobody without a key learns what is expected
                body = await request.body()
                return await self._run(answer_to, body or b"{}", owner)

            return work

        return add

    def _change(self, request: ChangeRequest, owner: str) -> dict[str, Any]:
        action = Action(request.action)
        for name in NEEDED[action]:
            if not getattr(request, name):
                raise HTTPException(422, f"{name}: expected a text, found none.")
        fields = request.model_dump(include={"question", "answer", *NEEDED[action]}, exclude={"version"})
        fields["wordings"] = tuple(dict.fromkeys(request.wordings))
        change = self._service.change(action, request.version, owner=owner, **fields)
        return asdict(change)

    async def _run(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run `work` in a thread; it fails if the database does."""
        with failing_as(FAILED, Failure.database):
            return await self._threads.run(work, *arguments)

    async def _owner(self, request: Request) -> str | None:
        """The name of the owner who sends a request, empty if it is not known; `None` for anybody else."""
        text = bearer_key(request.headers)
        if text is None and COOKIE not in request.cookies:
            return None  # strangers take no thread of the owner's
        owner = await self._run(self._sessions.owner_of, request)
        if owner is not None or text is None:
            return owner
        keys = await self._run(self._sessions.keys)
        key = self._sessions.find(text, request, keys=keys)
        if key is None:
            return None
        return key.owner or ""

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
            days = {name: request.query_params.get(name) for name in PeriodRequest.model_fields}
            period = _checked(PeriodRequest.model_validate, days, place="query").period
            language = language_of(request.headers.get("accept-language", ""))
            delimiter = TEXTS[language]["writing"]["delimiter"]
            content = await self._run(table_of, period, delimiter)
            name = f"questions_{period.first}_{period.last}.csv"
            headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
            return Response(content, media_type="text/csv; charset=utf-8", headers=headers)

        def table_of(period: Period, delimiter: str) -> bytes:
            table = usage_table(self._service.database, period, delimiter=delimiter)
            return table.encode("utf-8-sig")  # by the byte order mark, Excel knows UTF-8

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

        @app.get(LOGIN)
        async def elsewhere() -> Response:
            return RedirectResponse("../owner", 303)  # of who loads a refused form again

        @app.post(LOGIN)
        async def begin(request: Request) -> Response:
            require_own_site(request)
            body = await request.body()
            form = parse_qs(body.decode("utf-8", "replace"))
            text = form.get("key", [""])[0].strip()
            name = form.get("name", [""])[0].strip()
            keys = await self._run(self._sessions.keys)
            try:
                key = self._sessions.find(text, request, keys=keys)
            except HTTPException as refusal:
                return login_page(request, "wait", refusal=refusal)
            if key is None:
                return login_page(request, "wrong")
            response = RedirectResponse("../owner", 303)
            secure = request.url.scheme == "https"  # as a trusted web server in front of this one says
            await self._run(partial(self._sessions.begin, key, name, response, secure=secure))
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


def _checked(check: Callable[[Any], R], value: Any, place: str) -> R:
    """The request that `check` reads from a value of that place; status 422, as FastAPI answers, if it is none."""
    try:
        return check(value)
    except ValidationError as error:
        details = [detail | {"loc": (place, *detail["loc"])} for detail in error.errors()]
        raise RequestValidationError(details) from error


def language_of(accepted: str) -> str:
    """The first language of a header `Accept-Language` that the page speaks, or else English."""
    for part in accepted.split(","):
        tag = part.split(";")[0].split("-")[0].strip().lower()
        if tag in TEXTS:
            return tag
    return "en"
