"""What was asked in a period: as naive counts of a list say, on both databases, whatever was asked."""

from __future__ import annotations

import csv
import io
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple

import openpyxl
import pytest

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from sqlalchemy import insert

from ap_ranker.data.tables import read_table
from ap_ranker.errors import InputError
from ap_ranker.ranking.outcome import Outcome
from ap_ranker.web import usage as module
from ap_ranker.web.database import Database, changes, judgements, open_database, questions
from ap_ranker.web.judgements import key_of_question
from ap_ranker.web.owner.texts import TEXTS
from ap_ranker.web.report import Report
from ap_ranker.web.usage import COLUMNS, LISTS, MOST_DAYS, MOST_ROWS, Period, usage_of, usage_table

WEEK = Period(date(2026, 3, 23), date(2026, 3, 29))
"""With the night in which clocks in Europe go forward: a day of UTC has 24 hours nevertheless."""

HOSTILE = (
    '<script>alert(1)</script><img src=x onerror="alert(2)">',
    '=HYPERLINK("http://evil.example","Click")',
    "@SUM(1+1)|cmd",
    "-2+3; =1+1",
    "متى يصل طردي؟",
    "{{ 7*7 }} {% raw %} ${x} & < > \" '",
    "a|b\t" + "Donaudampfschiff" * 40,
)


class Asked(NamedTuple):
    """A question of a list."""

    time: int
    question: str
    outcome: str


class Said(NamedTuple):
    """A judgement of a list."""

    time: int
    question: str
    helped: bool


def at(day: date, second: int = 0) -> int:
    """The time of a second of a day, by the calendar of the standard library."""
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) + second


def fill(database: Database, asked: Sequence[Asked], said: Sequence[Said] = ()) -> None:
    rows = [one._asdict() | {"question_key": key_of_question(one.question), "entry": ""} for one in asked]
    blank = {"network": "n", "answer_key": "a", "answer": "a", "stored_question": "", "comment": ""}
    judged = [
        blank | one._asdict() | {"question_key": key_of_question(one.question), "visit": str(number)}
        for number, one in enumerate(said)
    ]
    with database.writing("questions", "judgements") as connection:
        for table, found in ((questions, rows), (judgements, judged)):
            if found:
                connection.execute(insert(table), found)


@pytest.fixture
def database(place: str) -> Database:
    return open_database(place)


def random_log(seed: int, size: int = 600) -> tuple[list[Asked], list[Said]]:
    """Questions of five weeks around, some at the first and last second of a day."""
    rng = random.Random(seed)

    def moment() -> int:
        day = WEEK.first + timedelta(rng.randrange(-21, 14))
        return at(day, rng.choice((0, 86_399, rng.randrange(86_400))))

    texts = [f"question {number}" for number in range(40)]
    asked = [Asked(moment(), texts[int(rng.paretovariate(0.7)) % 40], rng.choice([*Outcome])) for _ in range(size)]
    said = [Said(moment(), rng.choice(texts), rng.random() < 0.7) for _ in range(size // 3)]
    return asked, said


def days_of(period: Period) -> list[date]:
    return [period.first + timedelta(number) for number in range((period.last - period.first).days + 1)]


def naive(asked: Sequence[Asked], said: Sequence[Said], period: Period) -> dict[str, Any]:
    """The same, counted one by one by the standard library's calendar."""

    def within(one: Asked | Said, days: Sequence[date]) -> bool:
        return datetime.fromtimestamp(one.time, UTC).date() in days

    current = [one for one in asked if within(one, days_of(period))]
    length = len(days_of(period))
    earlier = [period.first - timedelta(number) for number in range(1, length + 1)]
    before = [one for one in asked if within(one, earlier)]
    votes = [one for one in said if within(one, days_of(period))]
    now, then = (Counter(one.question for one in part) for part in (current, before))
    rows = {
        text: {
            "question": text,
            "asked": now[text],
            "before": then[text],
            **{str(kind): sum(one.question == text and one.outcome == kind for one in current) for kind in Outcome},
            "helped": sum(one.question == text and one.helped for one in votes),
            "judged": sum(one.question == text for one in votes),
        }
        for text in {*now, *then}
    }
    return {
        "days": {
            str(day): {
                str(kind): sum(within(one, [day]) and one.outcome == kind for one in current) for kind in Outcome
            }
            for day in days_of(period)
        },
        "questions": (len(current), len(before)),
        **{
            str(kind): tuple(sum(one.outcome == kind for one in part) for part in (current, before)) for kind in Outcome
        },
        "helped": (sum(one.helped for one in votes), sum(one.helped for one in said if within(one, earlier))),
        "judged": (len(votes), sum(within(one, earlier) for one in said)),
        "rows": rows,
    }


@pytest.mark.parametrize(
    "period", [WEEK, Period(WEEK.first, WEEK.first), Period(WEEK.first - timedelta(10), WEEK.last)], ids=str
)
def test_every_number_is_that_of_a_naive_count(database: Database, period: Period) -> None:
    asked, said = random_log(1)
    fill(database, asked, said)

    found, truth = usage_of(database, period), naive(asked, said, period)

    both = found["current"], found["before"]
    assert found["days"] == truth["days"]
    for name in ("questions", *Outcome, "helped", "judged"):
        assert tuple(counts[name] for counts in both) == truth[name], name
    for counts in both:
        shares = {kind: counts[kind] / counts["questions"] for kind in map(str, Outcome)}
        assert counts["shares"] == shares | {"helped": counts["helped"] / counts["judged"]}
    rows = truth["rows"]
    orders: dict[str, tuple[Callable[[dict[str, Any]], int], int, int]] = {
        "top": (lambda row: row["asked"], 1, 10),
        "unanswered": (lambda row: row["none"], 1, 10),
        "risen": (lambda row: row["asked"] - row["before"], 2, 5),
        "fallen": (lambda row: row["before"] - row["asked"], 2, 5),
    }
    for name, (count, least, most) in orders.items():
        assert all(row == rows[row["question"]] for row in found[name]), name
        wanted = sorted((n for row in rows.values() if (n := count(row)) >= least), reverse=True)
        assert list(map(count, found[name])) == wanted[:most], name


def test_the_same_word_for_word_is_one_question(database: Database) -> None:
    noon = at(WEEK.first, 43_200)
    fill(database, [Asked(noon, text, "answer") for text in ("Where is it?", "where is it", "WHERE IS IT!")])
    assert [row["asked"] for row in usage_of(database, WEEK)["top"]] == [3]


def test_equally_often_asked_the_latest_is_first(database: Database) -> None:
    fill(database, [Asked(at(WEEK.first), text, "maybe") for text in ("one", "two", "three", "two", "one")])
    assert [row["question"] for row in usage_of(database, WEEK)["top"]] == ["one", "two", "three"]


def test_an_empty_log_and_days_without_any(database: Database) -> None:
    for _ in range(2):
        found = usage_of(database, WEEK)
        assert found["current"] == found["before"]
        assert found["current"]["questions"] == found["current"]["judged"] == 0
        assert set(found["current"]["shares"].values()) == {None}
        assert [found[name] for name in (*LISTS, "changes")] == [[]] * 5
        assert list(found["days"]) == [str(day) for day in days_of(WEEK)]
        assert Report(found).texts["noLog"] in Report(found).page()
        assert list(csv.reader(io.StringIO(usage_table(database, WEEK)))) == [list(COLUMNS)]
        fill(database, [Asked(at(WEEK.last + timedelta(30)), "later", "answer")])  # the second time round


def test_one_question(database: Database) -> None:
    fill(database, [Asked(at(WEEK.last, 86_399), "only me", "none")], [Said(at(WEEK.first), "only me", False)])
    found = usage_of(database, WEEK)
    row = dict(zip(COLUMNS, ("only me", 1, 0, 0, 0, 1, 0, 1), strict=True))
    assert (found["top"], found["unanswered"], found["risen"]) == ([row], [row], [])
    assert found["current"]["shares"] == {"answer": 0.0, "maybe": 0.0, "none": 1.0, "helped": 0.0}


def test_the_days_of_a_period(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "now", lambda: at(date(2026, 3, 29), 86_399))
    assert Period.of() == WEEK
    assert Period.of(last=WEEK.first) == Period(WEEK.first - timedelta(6), WEEK.first)
    assert Period.of(first=WEEK.last) == Period(WEEK.last, WEEK.last)
    assert WEEK.before == Period(date(2026, 3, 16), date(2026, 3, 22))
    assert Period.of(date(1970, 1, 1), date(1970, 1, 1)).before == Period(date(1969, 12, 31), date(1969, 12, 31))
    leap = Period.of(date(2024, 1, 1), date(2024, 12, 31))
    assert len(days_of(leap)) == MOST_DAYS == 366
    for first, last in (
        (WEEK.last, WEEK.first),
        (date(2030, 1, 1), None),
        (date(1969, 12, 31), WEEK.first),
        (date.min, date.min),
        (date(2024, 1, 1), date(2025, 1, 1)),
        (date.min, date.max),
    ):
        with pytest.raises(InputError):
            Period.of(first, last)
    assert Period.of(date.max, date.max).last == date.max


def test_who_changed_what(database: Database) -> None:
    row = dict.fromkeys(("undone", "entry", "of", "question", "answer"), "x") | {"wordings": "[]"}
    made = [("Änne", "add entry", 0), ("Änne", "add entry", 3), ("", "undo", 1), ("Bo", "change entry", 7)]
    rows = [
        row | {"id": str(number), "owner": owner, "action": action, "time": at(WEEK.first + timedelta(day))}
        for number, (owner, action, day) in enumerate(made)
    ]
    with database.writing("changes") as connection:
        connection.execute(insert(changes), rows)
    assert usage_of(database, WEEK)["changes"] == [("Änne", "add entry", 2), ("", "undo", 1)]


@pytest.mark.parametrize("written", [",", ";"])
def test_a_spreadsheet_has_texts_and_numbers(database: Database, tmp_path: Path, written: str) -> None:
    """Read back as a table, every question is as it was asked; in a spreadsheet, wherever it splits, no formula."""
    fill(database, [Asked(at(WEEK.first, number), text, "none") for number, text in enumerate(HOSTILE)])
    file = tmp_path / "week.csv"
    text = usage_table(database, WEEK, written)
    file.write_text(text, encoding="utf-8")

    for delimiter in (",", ";", "\t"):
        for row in csv.reader(io.StringIO(text), delimiter=delimiter):
            assert not any(cell.lstrip().startswith(("=", "+", "-", "@", "\t")) for cell in row)
            assert not any(is_a_formula_in_a_workbook(cell) for cell in row)
    (header, *rows) = csv.reader(io.StringIO(text), delimiter=written)
    assert header == [*COLUMNS]
    assert all(int(cell) >= 0 for row in rows for cell in row[1:])
    read = read_table(file).rows
    asked = {" ".join(text.split())[:500] for text in HOSTILE}
    assert {row.need("question") for row in read} == asked
    assert {row.need("asked") for row in read} == {"1"}


def is_a_formula_in_a_workbook(text: str) -> bool:
    sheet: Any = openpyxl.Workbook().active
    sheet["A1"] = text.strip()
    return bool(sheet["A1"].data_type == "f")


class Tags(HTMLParser):
    """The tags, attributes and text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags, self.attributes, self.text = set[str](), set[str](), ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_report_is_one_file_that_does_nothing(database: Database) -> None:
    """What users ask is text in it; it names no address, has no script and no style sheet."""
    fill(database, [Asked(at(WEEK.first, number), text, "none") for number, text in enumerate(HOSTILE)])
    page = Report(usage_of(database, WEEK)).page()

    found = Tags(page)

    assert not found.tags & {"script", "link", "style", "img", "iframe", "form", "a", "base", "object"}
    assert not any(name.startswith("on") or name in ("src", "href") for name in found.attributes)
    for text in HOSTILE:
        assert " ".join(text.split())[:200] in found.text
    assert "{{" in found.text, "a question is no template"
    assert "url(" not in page
    assert "UTC" in found.text
    assert "--keep-days" in found.text


def test_what_visitors_were_looking_for(database: Database) -> None:
    """Of the days of the period, where an answer did not help, the latest first; as text in the report."""
    moments = {"before": at(WEEK.before.last), "first": at(WEEK.first), "last": at(WEEK.last, 86_399)}
    row = {"network": "n", "answer_key": "a", "answer": "a", "stored_question": "", "question_key": "k"}
    rows = [
        row | {"time": time, "question": f"{name} day", "helped": helped, "visit": f"{name} {helped}", "comment": words}
        for name, time in moments.items()
        for helped, words in ((False, "  <b>wheels</b>\nof tandems"), (True, "thanks"))
    ]
    rows.append(row | {"time": at(WEEK.first), "question": "silent", "helped": False, "visit": "s", "comment": ""})
    with database.writing("judgements") as connection:
        connection.execute(insert(judgements), rows)

    usage = usage_of(database, WEEK)

    assert usage["words"] == [("last day", "<b>wheels</b> of tandems"), ("first day", "<b>wheels</b> of tandems")]
    found = Tags(Report(usage).page())
    assert "b" not in found.tags
    assert found.text.count("<b>wheels</b> of tandems") == 2


def test_a_report_fits_into_an_e_mail(database: Database) -> None:
    """Of more than 100 kB some programs show the beginning only."""
    texts = [f"{number} " + "漢<" * 300 for number in range(40)]
    days = (WEEK.first, WEEK.before.first)
    fill(database, [Asked(at(days[n % 2]), text, "none") for n, text in enumerate(texts) for _ in range(3)])
    found = usage_of(database, WEEK)
    assert [len(found[name]) for name in LISTS] == [most for *_, most in LISTS.values()]
    assert len(Report(found).page().encode()) < 100_000


def test_a_report_in_german(database: Database) -> None:
    """Nothing of it is English but what users ask; the page's own words say it."""
    fill(database, [Asked(at(WEEK.first), "wo?", "none") for _ in range(1234)], [Said(at(WEEK.first), "wo?", True)])
    report = Report(usage_of(database, WEEK), "de")
    page = report.page()
    assert '<html lang="de">' in page
    text = Tags(page).text
    assert "23. März 2026" in text
    assert "1.234" in text
    assert "100\u00a0%" in text
    english = [said for said in words(TEXTS["en"]) if said not in words(TEXTS["de"]) and len(said) > 3]
    assert [said for said in english if said in text] == []
    with pytest.raises(InputError):
        Report(usage_of(database, WEEK), "tlh")


def words(texts: dict[str, Any]) -> list[str]:
    """All texts of a language without a place to fill in."""
    each = (words(value) if isinstance(value, dict) else [value] for value in texts.values())
    return [text for found in each for text in found if isinstance(text, str) and "{" not in text]


def test_numbers_of_the_report(database: Database) -> None:
    asked, said = random_log(2)
    fill(database, asked, said)
    found = usage_of(database, WEEK)
    truth = naive(asked, said, WEEK)
    lines = {label: values for label, *values in Report(found).summary()}
    assert lines["questions"] == [f"{count:,}" for count in truth["questions"]]
    shares = [count / total for count, total in zip(truth["none"], truth["questions"], strict=True)]
    assert lines["got nothing"] == [f"{round(100 * share)}%" for share in shares]
    text = Tags(Report(found).page()).text
    assert all(cell in text for values in lines.values() for cell in values)


def test_a_hundred_thousand_questions(database: Database) -> None:
    """All different, the most that are kept: the lists stay short, and nobody waits for them."""
    count = 100_000
    fill(
        database,
        [Asked(at(WEEK.first, number), f"question {number}", "maybe") for number in range(count)],
        [Said(at(WEEK.first, number), f"question {number}", True) for number in range(0, count, 10)],
    )
    started = time.perf_counter()
    found = usage_of(database, WEEK)
    seconds = time.perf_counter() - started
    assert found["current"]["questions"] == found["current"]["maybe"] == count
    assert [len(found[name]) for name in LISTS] == [10, 0, 0, 0]
    assert usage_table(database, WEEK).count("\n") == 1 + MOST_ROWS
    assert seconds < 10, "within what a request may take, on a busy machine"
