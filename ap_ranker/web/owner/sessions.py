"""Who may see the owner's page: whoever has a key, or a session that began with one.

Each owner has a key, and perhaps a variable holds one that several share. The database has hashes of the owners' keys
alone. A key has 128 random bits: nobody finds it by its hash.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from fastapi import HTTPException
from sqlalchemy import delete, insert, select
from starlette.requests import Request
from starlette.responses import Response

from ap_ranker.data.rows import stripped
from ap_ranker.errors import InputError, check_known, one_line
from ap_ranker.text.reading import normalized
from ap_ranker.web.database import Database, now, owners, sessions, storable
from ap_ranker.web.question_log import clean_question
from ap_ranker.web.visitors import Visitors

COOKIE = "ap_ranker_owner"

SECONDS = 12 * 3600
"""Length of a session: a working day."""

FREE = 5
"""Number of wrong keys of a network before it must wait."""

MANY = 100
"""Number of wrong keys of all networks in the last `LONGEST` seconds before each network may send only one."""

LONGEST = 60.0
"""Maximum seconds that a network waits."""

FORGOTTEN = 3600.0
"""Seconds after which the wrong keys of a network are forgotten."""

MAX_NETWORKS: Final = 10_000
"""Maximum number of networks whose wrong keys are counted; the one that failed longest ago is forgotten first."""


class OwnerKey(NamedTuple):
    """A key, and whose it is."""

    hashed: str
    owner: str | None  # `None` of the shared key: whoever has it says a name, or none
    time: int = 0  # when it was made, in seconds since 1970


def hash_of_key(key: str) -> str:
    """What is kept of a key."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def owners_keys(database: Database) -> list[OwnerKey]:
    """The keys of all owners, by name."""
    query = select(owners.c.hashed, owners.c.name, owners.c.time).order_by(owners.c.name)
    with database.reading() as connection:
        return [OwnerKey(*row) for row in connection.execute(query)]


def check_owner_name(name: str) -> None:
    """Raise an `InputError` for a name that is empty or too long, or has characters that nobody can type again."""
    if not stripped(name) or clean_question(name) != name:
        expected = "Expected a short name of an owner, without control characters and superfluous spaces"
        raise InputError(f"{expected}, found {one_line(repr(name), 80)}.")


def add_owner(database: Database, name: str) -> str:
    """Add an owner, whose new key is returned; InputError for a name that is unusable, or somebody's already."""
    check_owner_name(name)
    key = secrets.token_hex(16)
    with database.writing("owners") as connection:
        names = connection.scalars(select(owners.c.name))
        if normalized(name) in map(normalized, names):
            raise InputError(f"{database.place}: {name} has a key already. For a new one, remove {name} first.")
        connection.execute(insert(owners).values(name=name, hashed=hash_of_key(key), time=now()))
    return key


def remove_owner(database: Database, name: str) -> None:
    """Remove an owner, whose key and sessions end at once on all servers; InputError if there is none of this name."""
    with database.writing("owners") as connection:
        check_known("an owner", name, connection.scalars(select(owners.c.name)))
        connection.execute(delete(owners).where(owners.c.name == name))


class WrongKeys:
    """Counts wrong keys, and says who must wait: 1 second, 2, 4 and so on; in memory, for one process.

    A network waits for its own wrong keys alone: nobody can lock the owner out of another one. While `MANY` wrong keys
    come from anywhere, each network waits for `LONGEST` after its first one.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._networks: OrderedDict[str, tuple[int, float]] = OrderedDict()  # how many, and when the last one came
        self._latest: deque[float] = deque(maxlen=MANY)  # when they came, from anywhere

    def seconds_to_wait(self, network: str) -> float:
        """Seconds until a network may try again; at most 0 if it may do so now."""
        count, last = self._networks.get(network, (0, -math.inf))
        are_many = len(self._latest) >= MANY and self._latest[0] > self._clock() - LONGEST
        seconds = 0.0
        if are_many:
            seconds = LONGEST
        elif count >= FREE:
            seconds = min(LONGEST, 2.0 ** min(count - FREE, 10))
        return last + seconds - self._clock()

    def count(self, network: str) -> None:
        """Count a wrong key of a network."""
        count, last = self._networks.pop(network, (0, 0.0))
        now = self._clock()
        if now - last > FORGOTTEN:
            count = 0
        self._networks[network] = (count + 1, now)
        self._latest.append(now)
        if len(self._networks) > MAX_NETWORKS:
            self._networks.popitem(last=False)


class Sessions:
    """The sessions of the owner's page, in a database: all servers know them; those of a key that is gone have ended.

    `shared` is the key of the environment, if there is one.
    """

    def __init__(self, shared: str | None, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._shared = [] if shared is None else [OwnerKey(hash_of_key(shared), None)]
        self._database = database
        self._visitors = Visitors(database)
        self._wrong_keys = WrongKeys(clock)

    def keys(self) -> list[OwnerKey]:
        """All keys as they are now, the shared one first."""
        return self._shared + owners_keys(self._database)

    def find(self, text: str, request: Request, keys: Sequence[OwnerKey]) -> OwnerKey | None:
        """Which of the keys a text is; HTTPException (429) while the network of a request must wait.

        It waits for nothing between its look at the wrong keys and its count: of many requests at once, too, only a few
        are answered.
        """
        network = self._visitors.network_of(request)
        seconds = self._wrong_keys.seconds_to_wait(network)
        if seconds > 0:
            after = math.ceil(seconds)
            sentence = f"Too many wrong keys of the owner came from your network. Try again in {after} seconds."
            raise HTTPException(429, sentence, {"Retry-After": str(after)})
        hashed = hash_of_key(text).encode()
        matching_keys = [key for key in keys if hmac.compare_digest(key.hashed.encode(), hashed)]
        if not matching_keys:
            self._wrong_keys.count(network)
            return None
        return matching_keys[0]

    def begin(self, key: OwnerKey, name: str, response: Response, *, secure: bool) -> None:
        """Begin a session with a key; its token goes into a cookie that no script and no other site can use.

        The name is what whoever has it says: it counts for the shared key alone.
        """
        token = secrets.token_urlsafe(32)
        row = {"token": _hash(token, key), "owner": storable(clean_question(name)), "ends": now() + SECONDS}
        with self._database.writing("sessions") as connection:
            connection.execute(delete(sessions).where(sessions.c.ends <= now()))
            connection.execute(insert(sessions).values(**row))
        response.set_cookie(COOKIE, token, max_age=SECONDS, httponly=True, samesite="strict", secure=secure)

    def end(self, request: Request, response: Response) -> None:
        """End the session of a request."""
        tokens = self._tokens(request, self.keys())
        with self._database.writing("sessions") as connection:
            connection.execute(delete(sessions).where(sessions.c.token.in_(tokens)))
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")

    def owner_of(self, request: Request) -> str | None:
        """The name of the owner whose session a request belongs to, which may be empty; `None` without a session."""
        if COOKIE not in request.cookies:
            return None
        keys = self.keys()
        tokens = self._tokens(request, keys)
        query = select(sessions.c.token, sessions.c.owner).where(sessions.c.token.in_(tokens), sessions.c.ends > now())
        with self._database.reading() as connection:
            session = connection.execute(query).first()
        if session is None:
            return None
        owner = tokens[session.token].owner
        if owner is not None:
            return owner
        # The key is shared. Beside owners with keys of their own, the name of the session may be one of theirs.
        return session.owner if keys == self._shared else ""

    def _tokens(self, request: Request, keys: Sequence[OwnerKey]) -> dict[str, OwnerKey]:
        """What is kept of the token of a request, if its session began with each of the keys -> this key."""
        token = request.cookies.get(COOKIE, "")
        return {_hash(token, key): key for key in keys}


def _hash(token: str, key: OwnerKey) -> str:
    """A hash of a token that depends on the key, so that the end of a key ends its sessions."""
    return hmac.digest(key.hashed.encode(), token.encode("utf-8", "surrogateescape"), hashlib.sha256).hex()


def require_own_site(request: Request) -> None:
    """Status 401 for a request of another site's page: a browser says which page sent it, a program need not."""
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    is_own = site in ("same-origin", "none")
    if site is None:  # of a browser that does not say it, as without encryption
        is_own = origin is None or origin.partition("://")[2] == request.headers.get("host")
    if not is_own:
        raise HTTPException(401, "Expected a request from this server's own page.")
