"""The database of a website: what visitors judge and ask, what the owner changes. A file of SQLite, or PostgreSQL.

One schema serves both. A transaction that changes something begins with `Database.writing(name)`, which counts up the
revision of that part first: this row is the lock that makes all writers of a part, also of other servers, wait for each
other, and the number tells readers that something has changed.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from sqlalchemy import (
    URL,
    BigInteger,
    Boolean,
    Column,
    Connection,
    Engine,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    create_engine,
    event,
    insert,
    make_url,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from ap_ranker.errors import InputError, one_line
from ap_ranker.safe_open import require_file, what_is_at

VERSION = 1
"""Of the schema; `_MIGRATIONS` lead to it from older ones."""

WAIT_SECONDS = 10
"""For another writer of the database, and for the server of PostgreSQL to answer."""

LAST_TIME = 253_402_300_799
"""The last second of the year 9999: clocks and hands may write later ones, which no calendar has."""

metadata = MetaData()

facts = Table(
    "ap_ranker_facts", metadata, Column("name", String(40), primary_key=True), Column("value", Text, nullable=False)
)
"""The version of the schema, the secret that signs answers, the files that were taken over."""

revisions = Table(
    "ap_ranker_revisions",
    metadata,
    Column("name", String(40), primary_key=True),
    Column("value", BigInteger, nullable=False),
)
"""How often each part was changed."""

judgements = Table(
    "ap_ranker_judgements",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("time", BigInteger, nullable=False),  # seconds since 1970, as everywhere here
    Column("visit", String(80), nullable=False),  # a random id of the visitor's page
    Column("network", String(32), nullable=False),  # a keyed hash: `visitors.Visitors`
    Column("question", Text, nullable=False),
    Column("question_key", String(32), nullable=False),  # hashes of forms that do not depend on case and white space
    Column("answer_key", String(32), nullable=False),
    Column("answer", Text, nullable=False),  # the text that was matched, as it was shown
    Column("stored_question", Text, nullable=False),
    Column("helped", Boolean, nullable=False),
    Column("comment", Text, nullable=False),
    Column("counts", Boolean, nullable=False, default=False),  # as evidence: `evidence.Evidence`
    UniqueConstraint("visit", "question_key", "answer_key"),
    Index("ap_ranker_judged", "question_key", "answer_key"),
    Index("ap_ranker_evidence", "question_key", "counts", "id"),
    Index("ap_ranker_of_network", "network", "counts", "id"),
)
"""What visitors said of answers: one row for each visit, question and answer."""

questions = Table(
    "ap_ranker_questions",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("time", BigInteger, nullable=False),
    Column("question", Text, nullable=False),
    Column("question_key", String(32), nullable=False, index=True),
    Column("outcome", String(20), nullable=False, index=True),
    Column("score", Float),
    Column("entry", Text, nullable=False),  # the id of the best entry, shown or not
)
"""What was asked, if the owner wants a log, and what came of it. There is nothing about who asked."""

changes = Table(
    "ap_ranker_changes",
    metadata,
    Column("number", Integer, primary_key=True),  # their order
    Column("id", String(32), nullable=False, unique=True),
    Column("time", BigInteger, nullable=False),
    Column("owner", Text, nullable=False),  # the name given at login
    Column("action", String(20), nullable=False),
    Column("entry", String(64), nullable=False),
    Column("of", Text, nullable=False),
    Column("question", Text, nullable=False),
    Column("answer", Text, nullable=False),
    Column("wordings", Text, nullable=False),  # a list in JSON
    Column("undone", String(32), nullable=False),
)
"""What the owner changed, in order; the fields are those of `changes.Change`."""

wordings = Table(
    "ap_ranker_wordings",
    metadata,
    Column("question_key", String(32), primary_key=True),
    Column("answer_key", String(32), primary_key=True),
    Column("question", Text, nullable=False),
    Column("stored_question", Text, nullable=False),
    Column("state", String(20), nullable=False),  # `accepted` or `rejected`
    Column("origin", String(20), nullable=False),  # `click` or `gap`
    Column("owner", Text, nullable=False),
    Column("time", BigInteger, nullable=False),
    Column("change", String(32), nullable=False, default=""),  # the id of the change that accepted it
)
"""What the owner decided about visitors' sentences: whether they are wordings of an answer."""

sessions = Table(
    "ap_ranker_sessions",
    metadata,
    Column("token", String(64), primary_key=True),  # a hash of the cookie's
    Column("owner", Text, nullable=False),
    Column("ends", BigInteger, nullable=False),
)
"""Who is logged in to the owner's page."""

quotas = Table(
    "ap_ranker_quotas",
    metadata,
    Column("day", BigInteger, primary_key=True),  # days since 1970
    Column("network", String(32), primary_key=True),
    Column("kind", String(20), primary_key=True),
    Column("used", Integer, nullable=False),
)
"""What each network has used of a day's quota; other days are forgotten."""

PARTS: Final = ("judgements", "questions", "changes", "wordings", "sessions")
"""What has a revision."""

Migration = Callable[[Connection], None]

_MIGRATIONS: Mapping[int, Migration] = {}
"""Version -> what makes a schema of this version one of the next."""


class Database:
    """A database of a website, whose tables are there. Threads and processes may share it."""

    def __init__(self, engine: Engine, place: str) -> None:
        self.engine, self.place = engine, place

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection for questions; InputError if the database does not answer."""
        with self._explained("answers"), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self, *parts: str) -> Iterator[Connection]:
        """A transaction that changes parts, alone: at its end all of it is kept, or nothing with an InputError."""
        with self._explained("can be written"), self.engine.begin() as connection:
            for part in sorted(parts):  # in one order, so that no two transactions wait for each other for ever
                connection.execute(
                    update(revisions).where(revisions.c.name == part).values(value=revisions.c.value + 1)
                )
            yield connection

    def revision(self, part: str) -> int:
        """A number that differs after every change of a part."""
        with self.reading() as connection:
            return connection.scalar(select(revisions.c.value).where(revisions.c.name == part)) or 0

    def upsert(
        self, connection: Connection, table: Table, row: Mapping[str, Any], keys: Sequence[str], **changed: Any
    ) -> None:
        """Insert a row, or change the one with the same keys: by default, all its other columns."""
        dialect = postgresql if self.engine.dialect.name == "postgresql" else sqlite
        statement = dialect.insert(table).values(**row)
        others = changed or {name: statement.excluded[name] for name in row if name not in keys}
        connection.execute(statement.on_conflict_do_update(index_elements=list(keys), set_=others))

    def secret(self) -> bytes:
        """What signs answers and hashes addresses; all servers of this database share it."""
        with self.reading() as connection:
            return bytes.fromhex(connection.scalar(select(facts.c.value).where(facts.c.name == "secret")) or "")

    def compact(self) -> None:
        """Write the files anew, so that nothing of what was deleted is left in them; InputError if they are in use.

        The log of writes of PostgreSQL, and copies of its files, are its administrator's.
        """
        is_sqlite = self.engine.dialect.name == "sqlite"
        with self._explained("can be compacted"), self.engine.connect() as connection:
            alone = connection.execution_options(isolation_level="AUTOCOMMIT")
            alone.exec_driver_sql("VACUUM" if is_sqlite else f"VACUUM (FULL, ANALYZE) {', '.join(metadata.tables)}")
            if is_sqlite and alone.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").scalar():
                advice = "What was deleted may be left in the file beside it (-wal). Delete once more."
                raise InputError(f"{self.place}: expected that nobody reads for {WAIT_SECONDS} seconds. {advice}")

    def close(self) -> None:
        """End all connections."""
        self.engine.dispose()

    @contextmanager
    def _explained(self, expected: str) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            reason = one_line(error.orig if isinstance(error, DBAPIError) else error)
            raise InputError(f"{self.place}: expected a database that {expected} ({reason}).") from error


def place_of(database: str | None, documents: Path | None = None) -> str:
    """The whole path or the URL of a website's database: as named, or FAQ.db beside its documents, FAQ.csv.

    If there are no such documents, InputError is raised, before anything is made beside them.
    """
    if documents is not None and what_is_at(documents) != "a folder":
        require_file(documents)
    if database and "://" in database:
        return database
    if database or documents is None:
        return str(Path(database or "ap-ranker.db").absolute())
    place = documents.resolve() if documents.name in ("", "..") else documents.absolute()
    return str(place.parent / f"{place.name if what_is_at(place) == 'a folder' else place.stem}.db")


def open_existing(place: str) -> Database:
    """As `open_database`, but InputError is raised if there is no file yet."""
    if "://" not in place and what_is_at(Path(place)) == "nothing":
        raise InputError(f"{place}: expected the database that `ap-ranker serve` makes, found none. Name --database.")
    return open_database(place)


@lru_cache(maxsize=8)
def open_database(place: str | Path) -> Database:
    """Open the database at a path, of SQLite, or at the URL of PostgreSQL; it is created or brought up to date.

    A process that opens it again gets the same one. InputError says why it cannot be used.
    """
    engine, shown = _postgresql(str(place)) if "://" in str(place) else _sqlite(Path(place))
    database = Database(engine, shown)
    with database._explained("can be opened and written"):
        _prepare(engine, shown)
    return database


def storable(text: str) -> str:
    """A text without what PostgreSQL does not take: the character 0, and halves of characters."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def now() -> int:
    """The time, as the tables have it."""
    return int(time.time())


def _sqlite(path: Path) -> tuple[Engine, str]:
    try:
        # Readable by its user only, before anything is in it; SQLite gives the files beside it the same mode.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
    except OSError as error:
        expected = f"{path}: expected a file for the database that can be written ({error.strerror})"
        raise InputError(f"{expected}. Name another one with --database.") from error
    engine = create_engine(URL.create("sqlite", database=str(path)), connect_args={"timeout": WAIT_SECONDS})

    @event.listens_for(engine, "connect")
    def set_up(connection: Any, _: Any) -> None:
        # Readers never wait; a commit is on disk; what is deleted is overwritten.
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON"):
            connection.execute(f"PRAGMA {pragma}")

    return engine, str(path)


def _postgresql(text: str) -> tuple[Engine, str]:
    try:
        url = make_url(text)
        known = url.get_backend_name() == "postgresql"
    except (ArgumentError, NoSuchModuleError):
        known = False
    if not known:
        raise InputError(
            "Expected --database with a path or a URL postgresql://USER:PASSWORD@HOST/NAME, found another."
        )
    try:
        engine = create_engine(
            url.set(drivername="postgresql+psycopg"),
            pool_pre_ping=True,  # its server may have been restarted
            connect_args={"connect_timeout": WAIT_SECONDS},
        )
    except ImportError as error:
        raise InputError('A database of PostgreSQL needs an extra: pip install "ap-ranker[postgres]"') from error
    return engine, url.render_as_string(hide_password=True)


def _prepare(engine: Engine, place: str) -> None:
    """Create what is missing, and bring an older schema up to date."""
    for attempts_left in reversed(range(5)):
        try:
            _create(engine)
            break
        except DBAPIError:  # perhaps another server creates the same at this moment
            if not attempts_left:
                raise
            time.sleep(0.2)
    with engine.begin() as connection:
        # Changes nothing, but makes other servers wait until the schema is that of this version.
        connection.execute(update(facts).where(facts.c.name == "version").values(value=facts.c.value))
        found = int(connection.scalar(select(facts.c.value).where(facts.c.name == "version")) or 0)
        if found > VERSION:
            expected = f"{place}: expected a database of version {VERSION} or older, found version {found}"
            raise InputError(f"{expected}. Update ap-ranker, or name another one with --database.")
        for version in range(found, VERSION):
            _MIGRATIONS[version](connection)
        connection.execute(update(facts).where(facts.c.name == "version").values(value=str(VERSION)))


def _create(engine: Engine) -> None:
    metadata.create_all(engine)
    first = {"version": str(VERSION), "secret": secrets.token_hex(32)}
    with engine.begin() as connection:
        for table, values in ((facts, first), (revisions, dict.fromkeys(PARTS, 0))):
            known = set(connection.scalars(select(table.c.name)))
            missing = [{"name": name, "value": value} for name, value in values.items() if name not in known]
            if missing:
                connection.execute(insert(table), missing)
