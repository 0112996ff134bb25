"""`ap-ranker serve`: serves a search page and the pipeline's REST interface."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from ap_ranker.cli.console import ProgressBars, console, errors
from ap_ranker.cli.options import Database, NamedDocuments, SearchOptions, option
from ap_ranker.errors import InputError
from ap_ranker.threads import wait_without_spinning


@dataclass(frozen=True)
class ServerOptions:
    """What `ap_ranker.web.serve` takes beside a search."""

    database: Database = None
    log_questions: Annotated[
        bool,
        option("Log the page's questions, for `ap-ranker owner gaps`, with nothing about who asks.", "--log-questions"),
    ] = False
    keep_days: Annotated[
        int, option("Days after which what visitors said and asked is deleted; 0 for never.", min=0)
    ] = 365
    identity_header: Annotated[
        str, option("Header by which a trusted web server names who asks, such as X-Forwarded-User.", metavar="NAME")
    ] = ""
    host: Annotated[str, option("Address to listen on; 0.0.0.0 for all addresses of this machine.")] = "127.0.0.1"
    port: Annotated[int, option("Port to listen on; 0 for any free one.", min=0, max=65535)] = 8000
    allowed_host: Annotated[
        list[str] | None,
        option("Host name to accept beside IP addresses, localhost and --host, such as a proxy's; may be repeated."),
    ] = None
    rate: Annotated[float, option("Maximum number of requests per second and client; 0 for any number.", min=0)] = 20.0
    workers: Annotated[
        int, option("Number of processes that search, each with the model: as many as cores for many users.", min=1)
    ] = 1
    page: Annotated[
        Path | None, option("YAML file of the page's settings: name, link, logo, accent, introduction and others.")
    ] = None
    column: Annotated[
        list[str] | None,
        option("Column of the FAQ that POST /PIPELINE/run returns beside question and answer; may be repeated."),
    ] = None


def require_server() -> None:
    """Refuse (InputError) to go on without the extra that a website and its database need."""
    if any(importlib.util.find_spec(name) is None for name in ("hypercorn", "sqlalchemy", "zxcvbn")):
        raise InputError('The server needs an extra: pip install "ap-ranker[serve]"')


def serve(
    search: SearchOptions,
    server: ServerOptions,
    folder_or_faq: NamedDocuments = None,
    score_threshold: Annotated[
        float | None, option("Minimum score of an answer; by default, the pipeline's own setting.")
    ] = None,
) -> None:
    """Serve a search page for a FAQ or documents.

    If the environment variable AP_RANKER_API_KEY is set, all routes that the page does not use require this key in the
    header 'Authorization: Bearer KEY'. There is an owner's page, /owner, if `ap-ranker owner keys` has made somebody a
    key, or AP_RANKER_OWNER_KEY holds one.
    """
    require_server()
    wait_without_spinning()
    from ap_ranker.web.changes import owners_changes
    from ap_ranker.web.database import place_of
    from ap_ranker.web.limits import is_loopback

    search = search.of(folder_or_faq)
    database = place_of(server.database, search.documents)
    bars = ProgressBars()

    def on_listening(port: int, place: str, owned: bool) -> None:
        bars.close()
        address = f"http://{f'[{server.host}]' if ':' in server.host else server.host}:{port}/"
        console.say(f"Search page: {address} (Ctrl+C ends it). Its database: {place}.")
        if owned:
            console.say(f"Owner's page: {address}owner.")
        if not is_loopback(server.host):
            open_to = f"other machines can reach {server.host} to search and give feedback"
            errors.warn(f"{open_to}, without accounts or encryption. Put a reverse proxy with both in front of it.")

    with bars:
        from ap_ranker.web.serve import serve as run

        run(
            search.set_up(score_threshold=score_threshold, overlay=owners_changes(database), on_progress=bars.update),
            **vars(server) | {"database": database},
            on_progress=bars.update,
            on_listening=on_listening,
        )
