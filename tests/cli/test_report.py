"""`ap-ranker owner report` and `keys`."""

from __future__ import annotations

import re
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from refusals import refused
from sqlalchemy import insert
from typer.testing import CliRunner

from ap_ranker.cli.main import app
from ap_ranker.errors import InputError
from ap_ranker.web.database import now, open_database, questions
from ap_ranker.web.judgements import Judgements
from ap_ranker.web.owner.sessions import hash_of_key, owners_keys

FAQ = "question,answer\nWhere is it?,Here.\n"
TODAY = datetime.now(UTC).date()


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def faq(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A FAQ whose database has a question of this moment, and two of a hundred days ago."""
    monkeypatch.delenv("AP_RANKER_DATABASE", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "FAQ.csv").write_text(FAQ)
    row = {"question_key": "k", "entry": "", "outcome": "none"}
    asked = [("[bold]now[/]", 0), ("long ago", 100), ("long ago", 100)]
    with open_database(tmp_path / "FAQ.db").writing("questions") as connection:
        for text, days in asked:
            values = {"question": text, "question_key": text, "time": now() - days * 86_400}
            connection.execute(insert(questions).values(**row | values))
    return tmp_path / "FAQ.csv"


@pytest.mark.parametrize("named", ["FAQ.csv", "FAQ.db"])
def test_a_report_of_this_week(faq: Path, named: str) -> None:
    printed = run("owner", "report", named, "--output", "week.html")
    assert "[bold]now[/]" in printed
    assert "long ago" not in printed
    assert re.search(r"questions\W+1\W+0", printed)
    page = (faq.parent / "week.html").read_text(encoding="utf-8")
    assert "[bold]now[/]" in page
    assert stat.S_IMODE((faq.parent / "week.html").stat().st_mode) == 0o600


def test_a_report_of_what_visitors_were_looking_for(faq: Path) -> None:
    said = {"question": "Where?", "answer": "Here.", "stored_question": "", "network": "n", "visit": "v"}
    Judgements(open_database(faq.with_suffix(".db"))).keep(**said, helped=False, comment="a [bold]tandem[/]")
    printed = run("owner", "report", "FAQ.csv", "--output", "week.html")
    assert re.search(r"Where\?\W+a \[bold\]tandem\[/\]", printed)
    assert "a [bold]tandem[/]" in (faq.parent / "week.html").read_text(encoding="utf-8")


def test_a_report_in_the_owners_language(faq: Path) -> None:
    printed = run("owner", "report", "FAQ.csv", "--language", "de", "--output", "week.html")
    assert "Am häufigsten gefragt" in printed
    assert '<html lang="de">' in (faq.parent / "week.html").read_text(encoding="utf-8")


def test_the_database_of_the_environment(faq: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AP_RANKER_DATABASE", str(faq.parent / "FAQ.db"))
    for named in ((), ("elsewhere",)):
        Path("elsewhere").mkdir(exist_ok=True)
        assert "[bold]now[/]" in run("owner", "report", *named)


def test_other_days(faq: Path) -> None:
    then = TODAY - timedelta(100)
    for days in (("--from", then - timedelta(3), "--to", then + timedelta(3)), ("--to", then + timedelta(1))):
        printed = run("owner", "report", "FAQ.csv", *days)
        assert re.search(r"long ago\W+2\W+0\W+2", printed)
        assert "now" not in printed
    assert "Asked most" not in run("owner", "report", "FAQ.csv", "--from", "1999-01-01", "--to", "1999-12-31")


@pytest.mark.parametrize(
    "arguments",
    [
        ("FAQ.csv", "--from", "2026-02-02", "--to", "2026-02-01"),
        ("FAQ.csv", "--from", "0001-01-01", "--to", "9999-12-31"),
        ("FAQ.csv", "--from", "2999-01-01"),
        ("FAQ.csv", "--output", "week.pdf"),
        ("FAQ.csv", "--language", "german", "--output", "week.html"),
        ("FAQ.csv", "--language", "DE"),
        ("none.csv",),
        ("none.db",),
        ("--database", "mysql://x/y"),
    ],
)
def test_what_cannot_be_reported(faq: Path, arguments: tuple[str, ...]) -> None:
    with pytest.raises(InputError):
        run("owner", "report", *arguments)
    assert sorted(path.name for path in faq.parent.iterdir() if path.suffix in (".html", ".pdf")) == []


def test_no_report_takes_the_place_of_what_is_searched(faq: Path) -> None:
    faq.with_suffix(".html").write_text("<h1>Where is it?</h1>")
    with refused("another file"):
        run("owner", "report", faq.with_suffix(".html").name, "--output", faq.with_suffix(".html").name)


@pytest.mark.parametrize("day", ["yesterday", "2026-13-01", "1.2.2026", ""])
def test_days_that_are_none(faq: Path, day: str) -> None:
    result = CliRunner().invoke(app, ["owner", "report", "FAQ.csv", "--from", day])
    assert result.exit_code == 2
    assert "--from" in result.output


def test_owners_come_and_go(faq: Path) -> None:
    (key,) = re.findall(r"^[0-9a-f]{32}$", run("owner", "keys", "FAQ.csv", "--add", "Änne [x]"), re.MULTILINE)
    run("owner", "keys", faq.parent / "FAQ.db", "--add", "Bo")
    listed = run("owner", "keys", "FAQ.csv")
    assert "Änne [x]" in listed
    assert "Bo" in listed
    assert key not in listed
    website = open_database(faq.parent / "FAQ.db")
    assert owners_keys(website)[-1].hashed == hash_of_key(key)
    run("owner", "keys", "FAQ.csv", "--remove", "Änne [x]")
    assert [one.owner for one in owners_keys(website)] == ["Bo"]
    for wrong in (("--add", "bo"), ("--remove", "Änne [x]"), ("--add", "")):
        with pytest.raises(InputError):
            run("owner", "keys", "FAQ.csv", *wrong)
    before = owners_keys(website)
    assert "Bo" in run("owner", "keys", "FAQ.csv", "--remove", "Bo", "--add", "Bo")
    assert owners_keys(website)[0].hashed != before[0].hashed


def test_an_owner_before_the_first_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AP_RANKER_DATABASE", raising=False)
    (tmp_path / "FAQ.csv").write_text(FAQ)
    run("owner", "keys", tmp_path / "FAQ.csv", "--add", "Anna")
    assert [one.owner for one in owners_keys(open_database(tmp_path / "FAQ.db"))] == ["Anna"]
    with pytest.raises(InputError):
        run("owner", "keys", tmp_path / "none.csv", "--add", "Anna")


@pytest.mark.parametrize("wrong", [("--remove", "Bo", "--add", "Anna"), ("--add", ""), ("--add", "Anna\n")])
def test_no_database_is_made_where_nothing_can_be_done(
    wrong: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AP_RANKER_DATABASE", raising=False)
    (tmp_path / "FAQ.csv").write_text(FAQ)
    for place in (("FAQ.csv",), ("--database", "mistyped.db")):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(InputError):
            run("owner", "keys", *place, *wrong)
    assert [path.name for path in tmp_path.iterdir()] == ["FAQ.csv"]
