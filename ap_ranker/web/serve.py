"""Serves a search: its page, its API, the owner's page; until the process is told to end."""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, ExitStack, closing
from pathlib import Path
from threading import Event, Thread

from ap_ranker.errors import InputError
from ap_ranker.progress import Progress, untold
from ap_ranker.search.setup import SearchSetup
from ap_ranker.search.watch_search import SearchWatcher, write_missed_changes
from ap_ranker.web import connections
from ap_ranker.web.app import build_app
from ap_ranker.web.background_start import BackgroundStart
from ap_ranker.web.database import open_database
from ap_ranker.web.judgements import Judgements
from ap_ranker.web.limits import KEY_VARIABLE, OWNER_VARIABLE, check_key
from ap_ranker.web.owner.routes import OwnersPage
from ap_ranker.web.owner.service import OwnerService
from ap_ranker.web.owner.sessions import owners_keys
from ap_ranker.web.page.settings import PageSettings, read_page_settings
from ap_ranker.web.question_log import QuestionLog
from ap_ranker.web.retention import Retention
from ap_ranker.web.work import unfinished_works

logger = logging.getLogger(__name__)


def serve(
    setup: AbstractContextManager[SearchSetup],  # it begins once all else is checked
    *,
    database: str,  # a path of SQLite, or a URL of PostgreSQL
    log_questions: bool = False,
    keep_days: int = 365,
    identity_header: str = "",
    host: str = "127.0.0.1",
    port: int = 8000,
    allowed_host: Collection[str] | None = None,
    rate: float = 20.0,
    workers: int = 1,
    page: Path | None = None,
    column: Collection[str] | None = None,
    on_progress: Progress = untold,
    on_listening: Callable[[int, str, bool], None] = lambda port, place, owned: None,
) -> None:
    """Serve a search until a signal ends the process; environment variables hold the API's key and the owners' one.

    The other arguments are the options of `ap-ranker serve`. What cannot be used raises InputError. `on_progress`
    gets a step in words, how many answers are encoded, and their number, until `on_listening` gets the port, the
    database's place, without its password, and whether there is an owner's page.
    """
    for name in (KEY_VARIABLE, OWNER_VARIABLE):
        check_key(os.environ.get(name), name)
    api_key = os.environ.get(KEY_VARIABLE)
    owner_key = os.environ.get(OWNER_VARIABLE)
    settings = PageSettings() if page is None else read_page_settings(page)
    with ExitStack() as stack:
        listening = stack.enter_context(_listen(host, port))  # a port in use is told before anything is read
        ready = stack.enter_context(setup)
        website = open_database(database)
        stack.callback(website.close)  # of SQLite, all is in the one file then
        closed = Event()
        stack.callback(closed.set)
        retention = Retention(website, keep_days)
        Thread(target=retention.run, args=(closed,), name="retention", daemon=True).start()
        write_missed_changes(ready)
        search, filled = ready.load()
        start = BackgroundStart(search, ready, documents=filled, workers=workers, on_progress=on_progress)
        stack.enter_context(closing(start))
        watcher = stack.enter_context(closing(SearchWatcher(search, ready, encode=workers == 1)))
        owner = OwnerService(
            search,
            documents=ready.documents if watcher.documents else None,  # else the owner's page cannot change them
            match=ready.match,
            database=website,
            logged=log_questions,
            keep_days=keep_days,
            wordings=ready.wordings,
            limits=ready.limits,
            unwritten=watcher.unwritten,
        )
        owned = owner_key is not None or bool(owners_keys(website))
        app = build_app(
            search,
            Judgements(website),
            limits=ready.limits,
            rate=rate or None,
            hosts=[host, *(allowed_host or ())],
            api_key=api_key,
            columns=column or (),
            workers=start,
            page=settings,
            question_log=stack.enter_context(closing(QuestionLog(website))) if log_questions else None,
            identity_header=identity_header,
            owner=OwnersPage(owner_key, owner) if owned else None,
        )
        on_listening(listening.getsockname()[1], website.place, owned)
        connections.run(app, listening)
    unfinished = unfinished_works()
    if unfinished:
        _end_now(unfinished)


def _end_now(unfinished: int) -> None:
    """End the process, which would wait for threads whose requests were answered long ago, perhaps for ever."""
    logger.warning("The server ends, but %d searches or other works had not.", unfinished)
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, TypeError, UnicodeError) as error:  # the last two for an invalid host name
        reason = str(error).split("] ")[-1].split(" (while")[0]
        expected = f"Expected an address of this machine and a free port, but {host} port {port} cannot be used"
        raise InputError(f"{expected} ({reason}). Choose others with --host and --port.") from error
