"""The keys of the owner's page: one for each owner, made here, and perhaps a shared one, which a variable holds.

The database has hashes of the owners' keys alone. A key has 128 random bits: nobody finds it by its hash.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import delete, insert, select

from ap_ranker.errors import InputError, check_known
from ap_ranker.text.reading import normalized
from ap_ranker.web.database import Database, now, owners
from ap_ranker.web.question_log import clean_question

MAX_NAME = 100
"""Maximum number of characters of an owner's name."""


class OwnerKey(NamedTuple):
    """A key, and whose it is."""

    hashed: str
    owner: str | None  # `None` of the shared key: whoever has it says a name, or none
    time: int = 0  # when it was made, in seconds since 1970


def hash_of_key(key: str) -> str:
    """What is kept of a key."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def have_names(keys: Sequence[OwnerKey]) -> bool:
    """Whether any of the keys tells whose it is: then nobody is believed who has the shared one and says a name."""
    return any(key.owner is not None for key in keys)


def owners_keys(database: Database) -> list[OwnerKey]:
    """The keys of all owners, by name."""
    columns = owners.c.hashed, owners.c.name, owners.c.time
    with database.reading() as connection:
        return [OwnerKey(*row) for row in connection.execute(select(*columns).order_by(owners.c.name))]


def add_owner(database: Database, name: str) -> str:
    """Add an owner, whose new key is returned; InputError for a name that is empty, too long, or somebody's already."""
    if not 0 < len(name) <= MAX_NAME or clean_question(name) != name:
        expected = f"Expected a name of 1 to {MAX_NAME} letters, without control characters and superfluous spaces"
        raise InputError(f"{expected}, found {name[:MAX_NAME]!r}.")
    key = secrets.token_hex(16)
    with database.writing("owners") as connection:
        if normalized(name) in map(normalized, connection.scalars(select(owners.c.name))):
            raise InputError(f"{database.place}: {name} has a key already. For a new one, remove {name} first.")
        connection.execute(insert(owners).values(name=name, hashed=hash_of_key(key), time=now()))
    return key


def remove_owner(database: Database, name: str) -> None:
    """Remove an owner, whose key and sessions end at once on all servers; InputError if there is none of this name."""
    with database.writing("owners") as connection:
        check_known("an owner", name, connection.scalars(select(owners.c.name)))
        connection.execute(delete(owners).where(owners.c.name == name))
