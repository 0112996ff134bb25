"""What files hold, byte for byte: whatever was deleted must not be there."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, urlsplit


def bytes_below(folder: Path) -> bytes:
    """What is in all files below a folder, also those that are removed meanwhile."""
    parts = []
    for path in sorted(folder.rglob("*")):
        try:
            parts.append(path.read_bytes())
        except (IsADirectoryError, FileNotFoundError):
            continue
    return b"\n".join(parts)


def bytes_of(place: str) -> bytes:
    """What is in all files of a database, but for PostgreSQL's log of writes."""
    if "://" not in place:
        return bytes_below(Path(place).parent)
    import psycopg

    with psycopg.connect(place, autocommit=True) as connection:
        connection.execute("checkpoint")
        [folder] = connection.execute("select oid from pg_database where datname = current_database()").fetchone() or ()
    return bytes_below(data_of(place) / "base" / str(folder))


def data_of(place: str) -> Path:
    """The folder of the server of a database of PostgreSQL."""
    [home] = parse_qs(urlsplit(place).query)["host"]
    return Path(home, "data")
