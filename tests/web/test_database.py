"""The database of a website, with SQLite and with a real PostgreSQL."""

from __future__ import annotations

import os
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from forked import Forked
from refusals import refused
from sqlalchemy import delete, func, insert, inspect, select, update

from ap_ranker.errors import InputError
from ap_ranker.web import database as database_module
from ap_ranker.web.changes import read_changes
from ap_ranker.web.database import decisions, facts, open_at, open_database, revisions

from .bytes_on_disk import bytes_of


def test_a_database_is_there_again(place: str) -> None:
    first = open_database(place)
    secret = first.secret()
    with first.writing("changes"):
        pass
    first.close()
    open_at.cache_clear()

    again = open_database(place)

    assert len(secret) == 32
    assert again.secret() == secret
    assert again.revision("changes") == 1
    assert again.revision("judgements") == 0


def test_a_transaction_is_kept_whole_or_not_at_all(place: str) -> None:
    database = open_database(place)

    with pytest.raises(RuntimeError), database.writing("decisions") as connection:
        connection.execute(insert(facts).values(name="half", value="done"))
        raise RuntimeError

    with database.reading() as connection:
        assert connection.scalar(select(facts.c.value).where(facts.c.name == "half")) is None
    assert database.revision("decisions") == 0


def test_writers_of_a_part_wait_for_each_other(place: str) -> None:
    database = open_database(place)
    with database.writing("decisions") as connection:
        connection.execute(insert(facts).values(name="count", value="0"))

    def count_up(_: int) -> None:
        with database.writing("decisions") as connection:
            found = int(connection.scalar(select(facts.c.value).where(facts.c.name == "count")) or 0)
            connection.execute(update(facts).where(facts.c.name == "count").values(value=str(found + 1)))

    with ThreadPoolExecutor(10) as threads:
        list(threads.map(count_up, range(100)))

    with database.reading() as connection:
        assert connection.scalar(select(facts.c.value).where(facts.c.name == "count")) == "100"
    assert database.revision("decisions") == 101


@pytest.mark.parametrize("round_", range(3))
def test_servers_that_start_at_once_share_a_new_database(place: str, round_: int) -> None:
    code = (
        "import sys; from ap_ranker.web.database import open_database; print(open_database(sys.argv[1]).secret().hex())"
    )
    started = [Forked(code, place) for _ in range(4)]

    secrets = {process.communicate()[0] for process in started}

    assert [process.returncode for process in started] == [0] * 4
    assert len(secrets) == 1 and secrets != {""}


def test_nobody_waits_long_for_a_table_that_another_program_holds(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    monkeypatch.setattr(database_module, "WAIT_SECONDS", 1)
    url = postgres.format(name="postgres")
    database = open_database(url)
    database.close()
    with psycopg.connect(url) as connection:
        connection.execute("lock table ap_ranker_revisions in access exclusive mode")
        with pytest.raises(InputError, match="lock timeout"):
            database.revision("changes")
        with pytest.raises(InputError, match="lock timeout"), database.writing("changes"):
            pass
    assert database.revision("changes") == 0


def test_a_row_takes_the_place_of_one_with_the_same_keys(place: str) -> None:
    database = open_database(place)
    row = {"question_key": "q", "answer_key": "a", "question": "", "time": 0}

    for change in ("first", "second"):
        with database.writing("decisions") as connection:
            given = row | {"change": change, "owner": change}
            database.upsert(connection, decisions, given, ["question_key", "answer_key"], change=change)

    with database.reading() as connection:
        assert connection.execute(select(decisions.c.change, decisions.c.owner)).all() == [("second", "first")]


VERSION_2 = """
    CREATE TABLE ap_ranker_wordings (
        question_key VARCHAR(32) NOT NULL, answer_key VARCHAR(32) NOT NULL, time BIGINT NOT NULL,
        state VARCHAR(20) NOT NULL, origin VARCHAR(20) NOT NULL, question TEXT NOT NULL, stored_question TEXT NOT NULL,
        owner TEXT NOT NULL, change VARCHAR(32) NOT NULL, PRIMARY KEY (question_key, answer_key)
    );
    INSERT INTO ap_ranker_wordings VALUES
        ('q1', 'a', 11, 'accepted', 'click', 'the parcel of Erika', 'Parcel?', 'Jo', 'c1'),
        ('q2', 'a', 12, 'rejected', 'click', 'nonsense', 'Parcel?', 'Jo', '');
    INSERT INTO ap_ranker_changes (id, time, action, undone, entry, owner, "of", question, answer, wordings) VALUES
        ('c1', 11, 'add wordings', '', 'e', 'Jo', 'Parcel?', '', '', '["the parcel of Erika"]');
    DROP TABLE ap_ranker_decisions;
    DELETE FROM ap_ranker_revisions WHERE name = 'decisions';
    INSERT INTO ap_ranker_revisions VALUES ('wordings', 7);
    UPDATE ap_ranker_facts SET value = '2' WHERE name = 'version'
"""
"""What makes today's empty database one of version 2, as the databases of `tests/earlier` are, with decisions."""


@pytest.fixture
def of_version_2(place: str) -> str:
    with open_database(place).engine.begin() as connection:
        for statement in VERSION_2.split(";"):
            connection.exec_driver_sql(statement)
    open_database(place).close()
    open_at.cache_clear()
    return place


def test_an_accepted_sentence_of_version_2_is_in_its_change_alone(of_version_2: str) -> None:
    database = open_database(of_version_2)

    with database.reading() as connection:
        assert connection.execute(select(decisions).order_by(decisions.c.time)).all() == [
            ("q1", "a", 11, "c1", "", ""),
            ("q2", "a", 12, "", "Jo", "nonsense"),
        ]
        names = list(connection.scalars(select(revisions.c.name)))
        assert not inspect(connection).has_table("ap_ranker_wordings")
    assert [(change.wordings, change.owner) for change in read_changes(database)] == [(("the parcel of Erika",), "Jo")]
    assert ("wordings" in names, "decisions" in names) == (False, True)
    assert not database.is_erased, "the files still hold what was there twice"
    database.erase()
    assert bytes_of(of_version_2).count(b"the parcel of Erika") == 1
    open_at.cache_clear()
    assert len(read_changes(open_database(of_version_2))) == 1


def test_of_servers_that_start_at_once_one_takes_a_database_on(of_version_2: str) -> None:
    code = (
        "import sys; from ap_ranker.web.database import open_database; open_database(sys.argv[1]).revision('decisions')"
    )
    started = [Forked(code, of_version_2) for _ in range(4)]

    printed = [process.communicate() for process in started]

    assert [process.returncode for process in started] == [0] * 4, printed
    with open_database(of_version_2).reading() as connection:
        assert connection.scalar(select(func.count()).select_from(decisions)) == 2


def test_a_database_of_a_later_version_is_refused(place: str) -> None:
    with open_database(place).writing("changes") as connection:
        connection.execute(update(facts).where(facts.c.name == "version").values(value="1000"))
    open_at.cache_clear()

    with pytest.raises(InputError, match="1000"):
        open_database(place)


def test_a_start_that_ended_half_way_is_finished(place: str) -> None:
    with open_database(place).writing("changes") as connection:
        connection.execute(delete(facts))
        connection.execute(delete(revisions))
    open_at.cache_clear()

    database = open_database(place)

    assert len(database.secret()) == 32
    with database.writing("questions"):
        pass
    assert database.revision("questions") == 1


@pytest.mark.parametrize("secret", [None, ""])
def test_nothing_is_signed_without_a_secret(place: str, secret: str | None) -> None:
    database = open_database(place)
    with database.writing("changes") as connection:
        connection.execute(delete(facts).where(facts.c.name == "secret"))
        if secret is not None:
            connection.execute(insert(facts).values(name="secret", value=secret))

    with refused("ap_ranker_facts"):
        database.secret()


def test_a_file_has_one_database_by_all_of_its_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    link = tmp_path / "link.db"
    link.symlink_to("faq.db")

    paths = ["faq.db", Path("faq.db"), tmp_path / "faq.db", link, f"../{tmp_path.name}/faq.db"]
    opened = {open_database(path) for path in paths}

    assert len(opened) == 1


def test_a_process_ends_whatever_its_database_does() -> None:
    code = (
        "import asyncio, threading; from ap_ranker.web import dispensable, readiness; "
        "dispensable.BRIEF_SECONDS = readiness.PATIENCE_SECONDS = 0.1; hang = threading.Event().wait; "
        "watch = readiness.Watch('it', hang); "
        "print(dispensable.Dispensable('slow').ask(hang), asyncio.run(watch.now()))"
    )
    with Forked(code) as process:
        process.wait(300)
        output, _ = process.communicate()

    assert output.split() == ["None", "None"]
    assert process.returncode == 0


def test_only_its_user_reads_the_files(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        database = open_database(tmp_path / "faq.db")
        with database.writing("changes"):
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    finally:
        os.umask(before)

    assert modes == dict.fromkeys(["faq.db", "faq.db-wal", "faq.db-shm"], 0o600)


def test_files_that_others_could_read_are_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "faq.db"
    path.touch(mode=0o644)

    open_database(path)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("is_replaced", [False, True])
def test_nothing_is_written_into_a_file_that_is_gone(tmp_path: Path, is_replaced: bool) -> None:
    path, backup = tmp_path / "faq.db", tmp_path / "backup.db"
    database = open_database(path)
    database.close()
    backup.write_bytes(path.read_bytes())
    with database.writing("changes"):
        pass
    backup.replace(path) if is_replaced else path.unlink()
    for file in tmp_path.glob("faq.db-*"):
        file.unlink()

    for use in (lambda: database.revision("changes"), lambda: database.writing("changes").__enter__()):
        with pytest.raises(InputError, match="another or none"):
            use()

    assert path.exists() == is_replaced
    open_at.cache_clear()
    assert open_database(path).revision("changes") == 0


def test_what_is_deleted_is_not_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "faq.db"
    database = open_database(path)
    with database.writing("decisions") as connection:
        connection.execute(insert(facts).values(name="said", value="my name is Rumpelstiltskin"))
    with database.writing("decisions") as connection:
        connection.execute(delete(facts).where(facts.c.name == "said"))
    database.close()  # moves what is in the log of writes into the file

    assert b"Rumpelstiltskin" not in b"".join(file.read_bytes() for file in tmp_path.iterdir())


@pytest.mark.parametrize("content", [b"question,answer\n" * 200, b"\0" * 5000])
def test_another_file_is_refused_and_stays(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "faq.csv"
    path.write_bytes(content)

    with pytest.raises(InputError, match=r"faq\.csv"):
        open_database(path)

    assert path.read_bytes() == content


def test_the_tables_of_another_program_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table changes (id integer)")
        connection.execute("insert into changes values (7)")

    assert open_database(path).revision("changes") == 0

    with sqlite3.connect(path) as connection:
        assert connection.execute("select * from changes").fetchall() == [(7,)]


@pytest.mark.parametrize("url", ["mysql://somebody@host/name", "postgres//x", "nothing://", "sqlite:///x.db"])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(InputError, match="--database"):
        open_database(url if "://" in url else f"{url}://")


def test_a_password_is_not_shown() -> None:
    with pytest.raises(InputError) as error:
        open_database("postgresql://somebody:geheim@127.0.0.1:9/nothing")

    assert "127.0.0.1" in str(error.value)
    assert "geheim" not in str(error.value)


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "faq.db").touch(mode=0o600)
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != tmp_path)  # as it is for others than root
    with refused("faq.db … its folder cannot be written … --database"):
        open_database(tmp_path / "faq.db")


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--database"):
        open_database(tmp_path / "nowhere" / "faq.db")
