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


@contextmanager
def running_postgres() -> Iterator[str]:
    """Start a server; yields the URL of its database, without the database's name."""
    folder = programs()
    assert folder is not None, "the caller has looked for it"
    as_user = ["runuser", "-u", USER, "--"] if os.geteuid() == 0 else []
    with TemporaryDirectory(prefix="pg-") as place:
        home = Path(place)
        if as_user:
            shutil.chown(home, USER)

        def run(*command: str | Path) -> None:
            subprocess.run([*as_user, *map(str, command)], check=True, capture_output=True, cwd=place)

        run(
            folder / "initdb",
            "-D",
            home / "data",
            "-A",
            "trust",
            "-U",
            "tests",
            "--no-sync",
            "--locale",
            "C",
            "-E",
            "UTF8",
        )
        options = f"-k {home} -c listen_addresses= -c max_connections=200 -c fsync=off"
        run(folder / "pg_ctl", "-D", home / "data", "-o", options, "-l", home / "log", "-w", "start")
        try:
            yield f"postgresql://tests@/{{name}}?host={home}"
        finally:
            run(folder / "pg_ctl", "-D", home / "data", "-m", "immediate", "stop")
