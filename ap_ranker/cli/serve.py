"""`ap-ranker serve`: serves a search page and the pipeline's REST interface."""

from __future__ import annotations

import importlib.util
import os
import socket
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from ap_ranker.cli.console import Console
from ap_ranker.cli.options import (
    Checkpoint,
    Columns,
    Documents,
    Keep,
    MatchEntry,
    Precision,
    SearchLanguage,
    SearchPipeline,
    SearchSynonyms,
    Wordings,
    column_names,
)
from ap_ranker.data.faq import DEFAULT_MATCH
from ap_ranker.errors import InputError
from ap_ranker.threads import wait_without_spinning

console = Console(soft_wrap=True)

OWNER_VARIABLE = "AP_RANKER_OWNER_KEY"


def serve(
    folder_or_faq: Annotated[
        Path | None,
        typer.Argument(metavar="[DOCUMENTS]", help="As --documents.", show_default=False),
    ] = None,
    documents: Documents = None,
    columns: Columns = None,
    model: Checkpoint = None,
    language: SearchLanguage = None,
    pipeline: SearchPipeline = None,
    match: MatchEntry = DEFAULT_MATCH,
    precision: Precision = None,
    wordings: Wordings = None,
    synonyms: SearchSynonyms = None,
    cache: Keep = True,
    score_threshold: Annotated[
        float | None,
        typer.Option(help="Minimum score of an answer; by default, the pipeline's own setting."),
    ] = None,
    feedback: Annotated[Path, typer.Option(help="File for users' feedback, for `ap-ranker train --feedback`.")] = Path(
        "feedback.jsonl"
    ),
    log_questions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File to log the page's questions to, for `ap-ranker gaps`: time, question, outcome, best score and "
            "entry, nothing about who asks. By default nothing is logged.",
        ),
    ] = None,
    owner_key: Annotated[
        str | None,
        typer.Option(
            envvar=OWNER_VARIABLE,
            help="Key of the owner's page, /owner: 16 characters or more. By default there is no such page. Others may "
            "see a command line: better set the environment variable.",
        ),
    ] = None,
    changes: Annotated[
        Path, typer.Option(help="File for the changes that the owner makes on this page; the search follows it.")
    ] = Path("changes.jsonl"),
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for all addresses of this machine.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 for any free one.")] = 8000,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            help="Host name to accept in requests, such as that of a reverse proxy; may be repeated. IP addresses, "
            "localhost and --host are always accepted."
        ),
    ] = None,
    rate: Annotated[
        float, typer.Option(min=0, help="Maximum number of requests per second and client; 0 for any number.")
    ] = 20.0,
    workers: Annotated[
        int,
        typer.Option(
            min=1,
            help="Number of processes that search: as many as cores for many users. Each holds the model. With 1, the "
            "server's own process searches.",
        ),
    ] = 1,
    page: Annotated[
        Path | None,
        typer.Option(help="YAML file of the page's settings: name, link, logo, accent, introduction and others."),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            help="Column of the FAQ that POST /PIPELINE/run returns beside question and answer; may be repeated."
        ),
    ] = None,
) -> None:
    """Serve a search page for a FAQ or documents.

    If the environment variable AP_RANKER_API_KEY is set, all routes that the page does not use require this key in the
    header 'Authorization: Bearer KEY'.
    """
    if any(importlib.util.find_spec(name) is None for name in ("hayhooks", "prometheus_client")):
        raise InputError('The server needs an extra: pip install "ap-ranker[serve]"')
    os.environ.setdefault("HAYHOOKS_LOG_LEVEL", "WARNING")  # its default logs every question
    from ap_ranker.web.limits import check_key, read_key

    wait_without_spinning()
    api_key = read_key(os.environ)
    check_key(owner_key, OWNER_VARIABLE)
    from ap_ranker.search.setup import set_up
    from ap_ranker.search.watch_documents import follow
    from ap_ranker.web.app import build_app
    from ap_ranker.web.background_start import BackgroundStart
    from ap_ranker.web.changes import owners_changes
    from ap_ranker.web.clicks import FeedbackFile
    from ap_ranker.web.connections import Connections, Server
    from ap_ranker.web.owner.routes import OwnersPage
    from ap_ranker.web.owner.service import OwnerService
    from ap_ranker.web.page.settings import PageSettings, read_page_settings
    from ap_ranker.web.question_log import QuestionLog

    if folder_or_faq is not None and documents is not None:
        raise InputError(f"Expected the documents once, found {folder_or_faq} and --documents {documents}.")
    settings = PageSettings() if page is None else read_page_settings(page)
    limits = {"precision": precision, "score_threshold": score_threshold}
    with set_up(
        documents or folder_or_faq,
        pipeline=pipeline,
        model=model,
        language=language,
        columns=column_names(columns),
        match=match,
        wordings=wordings or (),
        synonyms=synonyms,
        limits=limits,
        overlay=owners_changes(changes),
        keep=cache,
    ) as setup:
        search, filled = setup.load()
        judgements = FeedbackFile(feedback)  # stored, not searched: whoever clicks is a stranger
        with console.status("Reading the answers ..."):
            started = BackgroundStart(search, setup, filled, workers)
        live = follow(search, setup, encode=workers == 1)
        question_log = None if log_questions is None else QuestionLog(log_questions)
        desk = OwnerService(
            search,
            setup.documents if live else None,  # else the owner's page cannot change them
            match,
            feedback=feedback,
            log=log_questions,
            wordings=setup.wordings,
        )

        connections = Connections()
        app = build_app(
            search,
            judgements,
            limits=limits,
            rate=rate or None,
            hosts=[host, *(allowed_host or [])],
            api_key=api_key,
            columns=column or (),
            connections=connections,
            workers=started,
            page=settings,
            question_log=question_log,
            owner=None if owner_key is None else OwnersPage(owner_key, desk),
        )
        listening = _listen(host, port)
        _say_where(host, listening.getsockname()[1], feedback, changes if owner_key else None)
        try:
            Server(app, connections).run(sockets=[listening])
        finally:
            for each in live:
                each.close()
            if question_log is not None:
                question_log.close()


def _say_where(host: str, port: int, feedback: Path, changes: Path | None) -> None:
    """Print where the pages are and what is written; `changes` is for the owner's page, if there is one."""
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
    console.print(
        f"Search page: {address} (Ctrl+C ends it). Feedback goes to {escape(str(feedback))}.", highlight=False
    )
    if changes is not None:
        console.print(f"Owner's page: {address}owner; its changes go to {escape(str(changes))}.", highlight=False)
    from ap_ranker.web.limits import is_loopback

    if not is_loopback(host):
        Console(stderr=True).print(
            f"[bold yellow]Warning:[/] other machines can reach {escape(host)} to search and give feedback: there "
            "are no accounts and no encryption. Put a reverse proxy with both in front of it.",
            soft_wrap=True,
            highlight=False,
        )


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, TypeError, UnicodeError) as error:  # the last two for an invalid host name
        reason = str(error).split("] ")[-1].split(" (while")[0]
        raise InputError(
            f"Expected an address of this machine and a free port, but {host} port {port} cannot be used "
            f"({reason}). Choose others with --host and --port."
        ) from error
