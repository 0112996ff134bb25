"""A real PostgreSQL for tests: a server of its own in a new folder, reached by a socket in it alone."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

USER = "postgres"
"""Of the system, as which the server runs if the tests run as root: it refuses root."""


def programs() -> Path | None:
    """The folder of PostgreSQL's programs, the newest version; `None` if there are none that this user can run."""
    if os.name != "posix" or (os.geteuid() == 0 and shutil.which("runuser") is None):
        return None
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    if found:
        return found[-1].parent
    initdb = shutil.which("initdb")
    return Path(initdb).parent if initdb else None


class Postgres:
    """A server of its own in a folder: it is made once, and can be stopped and started."""

    def __init__(self, home: Path) -> None:
        folder = programs()
        assert folder is not None, "the caller has looked for it"
        self._programs, self._home = folder, home
        self._as_user = ["runuser", "-u", USER, "--"] if os.geteuid() == 0 else []
        if self._as_user:
            shutil.chown(home, USER)
        options = ["-A", "trust", "-U", "tests", "--no-sync", "--locale", "C", "-E", "UTF8"]
        self._run("initdb", *options)

    @property
    def url(self) -> str:
        """The URL of its databases, with the place {name} for the name of one."""
        return f"postgresql://tests@/{{name}}?host={self._home}"

    def start(self) -> None:
        """Return once it answers."""
        options = f"-k {self._home} -c listen_addresses= -c max_connections=200 -c fsync=off"
        self._run("pg_ctl", "-o", options, "-l", self._home / "log", "-w", "start")

    def stop(self) -> None:
        """As if it were killed: it ends no connection properly."""
        self._run("pg_ctl", "-m", "immediate", "stop")

    def _run(self, program: str, *options: str | Path) -> None:
        command = [*self._as_user, self._programs / program, "-D", self._home / "data", *options]
        subprocess.run([*map(str, command)], check=True, capture_output=True, cwd=self._home)


@contextmanager
def running_postgres_server() -> Iterator[Postgres]:
    """A server that has been started; at the end it is stopped."""
    with TemporaryDirectory(prefix="pg-") as place:
        server = Postgres(Path(place))
        server.start()
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def running_postgres() -> Iterator[str]:
    """Start a server; yields the URL of its database, without the database's name."""
    with running_postgres_server() as server:
        yield server.url
