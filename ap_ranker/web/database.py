"""The database of a website: what visitors judge and ask, what the owner changes. A file of SQLite, or PostgreSQL.

One schema serves both. A transaction that changes something begins with `Database.writing(part)`, which first adds 1 to
the revision of that part, a row of a table. The lock on this row lets all writers of a part wait for each other, also
those of other servers; the number tells readers that something has changed.

What is deleted stays in the files of a database until they are written anew (`erase`). A transaction that deletes what
visitors said notes that (`note_deletion`), and a server sees to it (`retention`).
"""

from __future__ import annotations

import errno
import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from ap_ranker.errors import InputError, extra_for, one_line
from ap_ranker.safe_open import require_file, what_is_at
from ap_ranker.web.earlier_schema import take_on

VERSION = 3
"""The version of the schema; `earlier_schema` takes one of version 2 on."""

WAIT_SECONDS = 10
"""Maximum number of seconds to wait for a lock that somebody else holds, or for PostgreSQL to accept a connection."""

ADVICE = "Mend that, or name another one with --database."

UNTIL_THEN = (
    "Nobody is shown what was deleted, but files still hold it: a running server tries again each minute; without one, "
    "run this command once more."
)

READER_SECONDS = 1.0
"""Maximum number of seconds that `erase` waits for readers: meanwhile writers wait for it. It is tried again later."""

metadata = sa.MetaData()


def _columns(kind: Any, *names: str) -> list[sa.Column[Any]]:
    """Columns that are never empty."""
    return [sa.Column(name, kind, nullable=False) for name in names]


def _key(kind: Any, *names: str) -> list[sa.Column[Any]]:
    """The columns of a primary key."""
    return [sa.Column(name, kind, primary_key=True) for name in names]


facts = sa.Table("ap_ranker_facts", metadata, *_key(sa.String(40), "name"), *_columns(sa.Text, "value"))
"""The version of the schema, the secret that signs answers, and whether files hold what was deleted (`NOT_ERASED`)."""

NOT_ERASED = "not erased"
"""The name of the fact that is there from a deletion until `Database.erase`; its value differs after each deletion."""

PROBE = "probe"
"""The beginning of the names of probes: facts that are deleted again, to see whether PostgreSQL frees deleted rows."""

PROBE_ROWS = 60
"""The number of probes: all together, they are more than a page of PostgreSQL, and so show in the size of its file."""

PROBE_BYTES = 1000
"""The size of each probe's value."""

revisions = sa.Table("ap_ranker_revisions", metadata, *_key(sa.String(40), "name"), *_columns(sa.BigInteger, "value"))
"""How often each part was changed."""

judgements = sa.Table(
    "ap_ranker_judgements",
    metadata,
    *_key(sa.Integer, "id"),
    *_columns(sa.BigInteger, "time"),  # seconds since 1970, as everywhere here
    *_columns(sa.String(80), "visit"),  # a random id of the visitor's page
    *_columns(sa.String(32), "network"),  # a keyed hash: `visitors.Visitors`
    *_columns(sa.String(32), "question_key", "answer_key"),  # hashes: `judgements.key_of`
    *_columns(sa.Text, "question", "answer", "stored_question", "comment"),  # the answer as it was matched and shown
    *_columns(sa.Boolean, "helped"),
    sa.Column("counts", sa.Boolean, nullable=False, default=False),  # see `Judgements.most_helpful`
    sa.UniqueConstraint("visit", "question_key", "answer_key"),
    sa.Index("ap_ranker_judged", "question_key", "answer_key"),
    sa.Index("ap_ranker_of_network", "network", "counts", "id"),
)
"""What visitors said of answers: one row for each visit, question and answer."""

questions = sa.Table(
    "ap_ranker_questions",
    metadata,
    *_key(sa.Integer, "id"),
    *_columns(sa.BigInteger, "time"),
    sa.Column("question_key", sa.String(32), nullable=False, index=True),
    sa.Column("outcome", sa.String(20), nullable=False, index=True),
    sa.Column("score", sa.Float),
    *_columns(sa.Text, "question", "entry"),  # as from `clean_question`; the id of the best entry, shown or not
)
"""What was asked, if the owner wants a log, and what came of it. There is nothing about who asked."""

changes = sa.Table(
    "ap_ranker_changes",
    metadata,
    *_key(sa.Integer, "number"),  # their order
    sa.Column("id", sa.String(32), nullable=False, unique=True),
    *_columns(sa.BigInteger, "time"),
    *_columns(sa.String(20), "action"),
    *_columns(sa.String(32), "undone"),  # the id of the change that this one undoes
    *_columns(sa.String(64), "entry"),
    *_columns(sa.Text, "owner", "of", "question", "answer"),
    *_columns(sa.Text, "wordings"),  # a list in JSON
)
"""What the owner changed, in order; the fields are those of `changes.Change`."""

decisions = sa.Table(
    "ap_ranker_decisions",
    metadata,
    *_key(sa.String(32), "question_key", "answer_key"),  # of the judgements that it is about; or `EVERY_ANSWER`
    *_columns(sa.BigInteger, "time"),
    *_columns(sa.String(32), "change"),  # the id of the change that accepted the sentence; empty if it was rejected
    *_columns(sa.Text, "owner", "question"),  # of a rejected one; what was accepted, and by whom, is in its change
)
"""What the owner decided about visitors' sentences: whether they are wordings of an answer, or none for the FAQ."""

owners = sa.Table(
    "ap_ranker_owners",
    metadata,
    *_key(sa.Text, "name"),
    *_columns(sa.String(64), "hashed"),  # a hash of the key
    *_columns(sa.BigInteger, "time"),
)
"""Who may change the FAQ, each with a key of their own."""

sessions = sa.Table(
    "ap_ranker_sessions",
    metadata,
    *_key(sa.String(64), "token"),  # a hash of the cookie's token and the owner's key: a new key ends all sessions
    *_columns(sa.Text, "owner"),
    *_columns(sa.BigInteger, "ends"),
)
"""Who is logged in to the owner's page."""

quotas = sa.Table(
    "ap_ranker_quotas",
    metadata,
    *_key(sa.BigInteger, "day"),  # days since 1970
    *_key(sa.String(32), "network"),
    *_key(sa.String(20), "kind"),
    *_columns(sa.Integer, "used"),
)
"""What each network has used of a day's quota; other days are forgotten."""

PARTS: Final = ("judgements", "questions", "changes", "decisions", "owners", "sessions")
"""The parts that have a revision."""


class Database:
    """A database of a website, whose tables are there. Threads and processes may share it."""

    def __init__(self, engine: sa.Engine, place: str) -> None:
        self.engine = engine
        self.place = place
        self._inode = _inode(place)

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A connection for questions; InputError if the database does not answer."""
        with self._explained("answers"), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self, *parts: str) -> Iterator[sa.Connection]:
        """A transaction that changes parts, alone: at its end all of it is kept, or nothing with an InputError."""
        with self._explained("can be written"), self.engine.begin() as connection:
            for part in sorted(parts):  # in one order, so that no two transactions wait for each other for ever
                of_part = sa.update(revisions).where(revisions.c.name == part)
                connection.execute(of_part.values(value=revisions.c.value + 1))
            yield connection

    def revision(self, part: str) -> int:
        """A number that differs after every change of a part."""
        with self.reading() as connection:
            return connection.scalar(sa.select(revisions.c.value).where(revisions.c.name == part)) or 0

    def upsert(
        self, connection: sa.Connection, table: sa.Table, row: Mapping[str, Any], keys: Sequence[str], **changed: Any
    ) -> None:
        """Insert a row. If there is one with the same keys, change these columns of it instead.

        Without such columns, a row that conflicts with one in the table in any unique column is left out.
        """
        dialect = postgresql if self.engine.dialect.name == "postgresql" else sqlite
        insert = dialect.insert(table).values(**row)
        if changed:
            connection.execute(insert.on_conflict_do_update(index_elements=list(keys), set_=changed))
        else:
            connection.execute(insert.on_conflict_do_nothing())

    def secret(self) -> bytes:
        """What signs answers and hashes addresses; all servers of this database share it. InputError without one."""
        with self.reading() as connection:
            secret = connection.scalar(sa.select(facts.c.value).where(facts.c.name == "secret"))
        if not secret:  # an empty one would sign what anybody can sign
            raise InputError(
                f"{self.place}: expected the secret that signs answers in the table {facts.name}, found none. Delete "
                "its row of that name, if there is one, and start the server again: it makes a new one."
            )
        return bytes.fromhex(secret)

    def note_deletion(self, connection: sa.Connection) -> None:
        """Note that what visitors said was deleted, as the last step of the transaction that has done so."""
        value = secrets.token_hex(8)
        row = {"name": NOT_ERASED, "value": value}
        self.upsert(connection, facts, row=row, keys=["name"], value=value)

    @property
    def is_erased(self) -> bool:
        """Whether the files hold nothing of what was deleted."""
        return self._noted() is None

    def erase(self) -> None:
        """Write the files anew, so that nothing of what was deleted is left in them.

        InputError if that is impossible now, as while somebody reads: the deletion stays noted, and a server tries
        again. PostgreSQL's log of writes, and copies of its files, are left to its administrator.
        """
        noted = self._noted()
        write_anew = self._vacuum_sqlite if self.engine.dialect.name == "sqlite" else self._vacuum_postgresql
        with self._explained("can be written anew", UNTIL_THEN), self.engine.connect() as connection:
            write_anew(connection.execution_options(isolation_level="AUTOCOMMIT"))
        if noted is not None:
            with self.writing() as connection:
                is_same_note = facts.c.value == noted  # not that of what was deleted since
                connection.execute(sa.delete(facts).where(facts.c.name == NOT_ERASED, is_same_note))

    def _noted(self) -> str | None:
        with self.reading() as connection:
            return connection.scalar(sa.select(facts.c.value).where(facts.c.name == NOT_ERASED))

    def _vacuum_sqlite(self, connection: sa.Connection) -> None:
        # While somebody reads, nothing is written anew: each try would make the log of writes longer by all there is.
        connection.exec_driver_sql(f"PRAGMA busy_timeout = {int(1000 * READER_SECONDS)}")
        try:
            self._empty_log(connection)
            connection.exec_driver_sql("VACUUM")  # what moved within a page leaves a copy there, also if overwritten
            self._empty_log(connection)
        finally:
            connection.exec_driver_sql(f"PRAGMA busy_timeout = {int(1000 * WAIT_SECONDS)}")

    def _empty_log(self, connection: sa.Connection) -> None:
        """Move SQLite's log of writes into the file, and empty it; InputError while somebody reads."""
        if connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").scalar():
            raise InputError(f"{self.place}: expected that nobody reads for a moment, found a reader. {UNTIL_THEN}")

    def _vacuum_postgresql(self, connection: sa.Connection) -> None:
        connection.exec_driver_sql(f"SET lock_timeout = '{READER_SECONDS}s'")
        try:
            # A deleted row stays in the file as long as some transaction of this database may see it, whatever that
            # reads, and PostgreSQL does not say whether there is one: so rows are deleted, and the file is measured.
            rows = [{"name": f"{PROBE} {number}", "value": "x" * PROBE_BYTES} for number in range(PROBE_ROWS)]
            probes = facts.c.name.startswith(PROBE)
            connection.execute(sa.delete(facts).where(probes))  # of a server that was killed here
            connection.execute(sa.insert(facts), rows)
            connection.execute(sa.delete(facts).where(probes))
            connection.exec_driver_sql(f"VACUUM (FULL) {facts.name}")
            size = connection.scalar(sa.select(sa.func.pg_relation_size(facts.name)))
            if size is None or size >= PROBE_ROWS * PROBE_BYTES:
                problem = "expected no transaction that began before what was deleted, found one"
                raise InputError(f"{self.place}: {problem}. {UNTIL_THEN}")
            connection.exec_driver_sql(f"VACUUM (FULL, ANALYZE) {', '.join(metadata.tables)}")
        finally:  # the connection goes back to the pool
            connection.exec_driver_sql(f"SET lock_timeout = '{WAIT_SECONDS}s'")

    def close(self) -> None:
        """End all connections."""
        self.engine.dispose()

    @contextmanager
    def _explained(self, expected: str, advice: str = ADVICE) -> Iterator[None]:
        if self._inode != _inode(self.place):  # what is written into a removed file is lost
            raise InputError(f"{self.place}: expected the file that was opened, found another or none. Start again.")
        try:
            yield
        except SQLAlchemyError as error:
            reason = one_line(_without_rows(error))
            raise InputError(f"{self.place}: expected a database that {expected} ({reason}). {advice}") from error

    def _prepare(self) -> None:
        """Create what is missing; InputError if the schema is of another version."""
        for attempts_left in reversed(range(5)):
            try:
                metadata.create_all(self.engine)
                if self.engine.dialect.name == "postgresql":
                    with self.engine.begin() as connection:
                        _take_no_samples(connection)
                break
            except DBAPIError:  # perhaps another server creates the same at this moment
                if not attempts_left:
                    raise
                time.sleep(0.2)
        first_facts = {"version": str(VERSION), "secret": secrets.token_hex(32)}
        with self.engine.begin() as connection:
            for part in PARTS:
                self.upsert(connection, revisions, row={"name": part, "value": 0}, keys=["name"])
            for name, value in first_facts.items():
                self.upsert(connection, facts, row={"name": name, "value": value}, keys=["name"])
            if take_on(connection):
                self.note_deletion(connection)  # of the texts that were there twice
            version = connection.scalar(sa.select(facts.c.value).where(facts.c.name == "version"))
        if version != str(VERSION):
            expected = f"{self.place}: expected a database of version {VERSION}, found version {version}"
            raise InputError(f"{expected}. Update ap-ranker, or name another one with --database.")


def _inode(place: str) -> int | None:
    """The number of a file, which another one in its place does not have; `None` without a file, as of PostgreSQL."""
    try:
        return Path(place).stat().st_ino
    except OSError:
        return None


def _without_rows(error: SQLAlchemyError) -> object:
    """What went wrong, without what a message quotes of the rows that were written: visitors' words are in no log."""
    if not isinstance(error, DBAPIError):
        return type(error).__name__
    primary = getattr(getattr(error.orig, "diag", None), "message_primary", None)  # of PostgreSQL
    return primary or error.orig


def _take_no_samples(connection: sa.Connection) -> None:
    """Keep texts out of the statistics of PostgreSQL, which would quote them in a table that no VACUUM of ours cleans.

    What they have quoted already is deleted by a change of the column's type, also to the one that it has.
    """
    sampled = sa.text(
        "SELECT attname FROM pg_attribute WHERE attrelid = CAST(:name AS regclass) AND attnum > 0 "
        "AND NOT attisdropped AND attstattarget IS DISTINCT FROM 0"
    )
    for table in metadata.sorted_tables:
        text_columns = {column.name for column in table.columns if isinstance(column.type, sa.Text)}
        sampled_columns = connection.scalars(sampled, {"name": table.name})
        for name in sorted(text_columns.intersection(sampled_columns)):
            column = f'ALTER TABLE {table.name} ALTER COLUMN "{name}"'
            connection.exec_driver_sql(f"{column} TYPE text")
            connection.exec_driver_sql(f"{column} SET STATISTICS 0")


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
    has_name = documents.name not in ("", "..")  # as `.` and `..` have not
    place = documents.absolute() if has_name else documents.resolve()
    name = place.name if what_is_at(place) == "a folder" else place.stem
    return str(place.parent / f"{name}.db")


def open_existing(database: str | None, documents: Path | None = None) -> Database:
    """The database at `place_of` these, as `open_database`; InputError if there is no file yet."""
    place = place_of(database, documents)
    if "://" not in place and what_is_at(Path(place)) == "nothing":
        raise InputError(f"{place}: expected the database that `ap-ranker serve` makes, found none. Name --database.")
    return open_database(place)


def open_database(place: str | Path) -> Database:
    """Open the database at a path, of SQLite, or at the URL of PostgreSQL; it is created if it is not there.

    A process that opens it again, by any path of its file, gets the same one. InputError says why it cannot be used.
    """
    if "://" in str(place):
        return open_at(str(place))
    return open_at(os.path.realpath(place))


@lru_cache(maxsize=8)
def open_at(place: str) -> Database:
    """As `open_database`, at the whole path of a file itself, or at a URL."""
    database = _postgresql(place) if "://" in place else _sqlite(Path(place))
    with database._explained("can be opened and written"):
        database._prepare()
    return database


def storable(text: str) -> str:
    """A text without what PostgreSQL does not take: the character 0, and halves of characters."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def now() -> int:
    """The time, as the tables have it."""
    return int(time.time())


def in_utc(seconds: int) -> datetime:
    """A time of the tables. What a clock or a hand wrote before 1970, or beyond the calendar, is the nearest to it."""
    last = datetime.max.replace(tzinfo=UTC, microsecond=0)
    within_calendar = min(max(0, seconds), int(last.timestamp()))
    return datetime.fromtimestamp(within_calendar, UTC)


def _sqlite(path: Path) -> Database:
    try:
        # Readable by its user only, before anything is in it; SQLite gives the files beside it the same mode.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
        if not os.access(path.parent, os.W_OK):  # there, SQLite writes files beside it
            raise PermissionError(errno.EACCES, "its folder cannot be written")
    except OSError as error:
        expected = f"{path}: expected a file for the database that can be written ({error.strerror})"
        raise InputError(f"{expected}. {ADVICE}") from error
    url = sa.URL.create("sqlite", database=str(path))
    # No error, and so no log, quotes what was to be written.
    engine = sa.create_engine(url, connect_args={"timeout": WAIT_SECONDS}, hide_parameters=True)
    # Readers never wait; a commit is on disk; what is deleted is overwritten.
    _begin_with(engine, "PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "PRAGMA secure_delete=ON")
    return Database(engine, str(path))


def _postgresql(text: str) -> Database:
    try:
        url = sa.make_url(text)
        is_postgresql = url.get_backend_name() == "postgresql"
    except (ArgumentError, NoSuchModuleError):
        is_postgresql = False
    if not is_postgresql:
        raise InputError(
            "Expected --database with a path or a URL postgresql://USER:PASSWORD@HOST/NAME, found another."
        )
    with extra_for("A database of PostgreSQL needs", "postgres"):
        engine = sa.create_engine(
            url.set(drivername="postgresql+psycopg"),
            pool_pre_ping=True,  # its server may have been restarted
            hide_parameters=True,
            connect_args={"connect_timeout": WAIT_SECONDS, "tcp_user_timeout": 1000 * WAIT_SECONDS},
        )
    _begin_with(engine, f"SET lock_timeout = '{WAIT_SECONDS}s'")
    return Database(engine, url.render_as_string(hide_password=True))


def _begin_with(engine: sa.Engine, *settings: str) -> None:
    """Let each connection of an engine begin with these statements."""

    @sa.event.listens_for(engine, "connect")
    def set_up(connection: Any, _: Any) -> None:
        for setting in settings:
            connection.execute(setting)
        connection.commit()
