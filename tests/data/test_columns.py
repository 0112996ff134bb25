from __future__ import annotations

import csv
import json
import logging
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openpyxl import Workbook
from refusals import absent, refused
from typer import BadParameter
from typer.testing import CliRunner

from ap_ranker.cli.main import app
from ap_ranker.cli.options import column_names
from ap_ranker.data.audit.fix import fix
from ap_ranker.data.column_names import PAIRS
from ap_ranker.data.faq import read_faq
from ap_ranker.data.reader import read_dataset
from ap_ranker.data.rows import Row
from ap_ranker.data.tables import KNOWN, Table, name_columns, read_table
from ap_ranker.errors import InputError


def write(folder: Path, header: str, *rows: str) -> Path:
    path = folder / "FAQ.csv"
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def test_an_object_of_questions_is_a_table(tmp_path: Path) -> None:
    """As chatbots have it, by topic or not; a form's answers have other names, too."""
    path = tmp_path / "FAQ.json"
    path.write_text('{"Opening": {"When?": "At six.", "Until?": "Ten."}, "Price": {"How much?": "29 euros."}}')
    found = [(entry.question, entry.answer) for entry in read_faq(path)]
    assert found == [("When?", "At six."), ("Until?", "Ten."), ("How much?", "29 euros.")]
    path.write_text('[{"Timestamp": "today", "Topic": "x", "What is it?": "Why?", "Answer": "So."}]')
    assert [(entry.question, entry.answer) for entry in read_faq(path)] == [("", "So.")]


@pytest.mark.parametrize(
    "header",
    [
        "Question, Answer ,Class",
        "QUESTION,ANSWER,Class",
        "Frage,Antwort,Class",
        "Q,A,Class",
        "Pregunta,Respuesta,Class",
        "Question,Réponse,Class",
        "问题,答案,Class",
        "سؤال,جواب,Class",
        "السؤال,الإجابة,Class",
        "प्रश्न,उत्तर,Class",
        "質問,答え,Class",
        "質問,回答,Class",
        "Soru,Yanıt,Class",
        "SORULAR,CEVAPLAR,Class",
        "Fråga,Svar,Class",
        "Spørgsmål,Svar,Class",
        "Spørsmål,Svar,Class",
        "Kysymys,Vastaus,Class",
        "提问,回复,Class",
        "問題,回覆,Class",
        "คำถาม,คำตอบ,Class",
        "Câu hỏi,Trả lời,Class",
        unicodedata.normalize("NFD", "Câu hỏi,Câu trả lời,Class"),
        "Kérdés,Válasz,Class",
        "Otázka,Odpověď,Class",
        "Otázka,Odpoveď,Class",
        "Pytania,Odpowiedzi,Class",
        "Întrebare,Răspuns,Class",
        "Pitanje,Odgovor,Class",
        "Питання,Відповідь,Class",
        "Вопрос,Ответ,Class",
        "Въпрос,Отговор,Class",
        "Ερώτηση,Απάντηση,Class",
        "שאלה,תשובה,Class",
        "질문,답변,Class",
        "Pertanyaan,Jawaban,Class",
        "Domanda,Risposta,Class",
        "Pergunta,Resposta,Class",
        "Vraag,Antwoord,Class",
        "Swali,Jibu,Class",
        "سوال,پاسخ,Class",
        "Frage:,Antwort:,Class",
        "Question *,Answer *,Class",
        "Antworten,Fragen,Class",
    ],
)
def test_headers_that_are_recognized(tmp_path: Path, header: str) -> None:
    is_turned = header.startswith("Antwort")
    path = write(tmp_path, header, "An answer.,Which one?,account" if is_turned else "Which one?,An answer.,account")
    [entry] = read_faq(path)
    assert (entry.question, entry.answer, entry.other) == ("Which one?", "An answer.", {"Class": "account"})
    [question] = read_dataset(path, "train").questions
    assert question.text == "Which one?"


def table(columns: list[str]) -> Table:
    return Table(Path("t.csv"), tuple(columns), [Row({name: f"<{name}>" for name in columns}, "t.csv, line 2")])


NAMES_OF_COLUMNS = [*KNOWN, *(name for pair in PAIRS for side in pair for name in side), "Class", "x"]
WRITTEN = st.sampled_from([form for name in NAMES_OF_COLUMNS for form in (name, name.title(), f" {name.upper()} ")])


@given(columns=st.lists(WRITTEN, unique=True), guess=st.booleans())
def test_no_text_is_lost(columns: list[str], guess: bool) -> None:
    try:
        named = name_columns(table(columns), guess=guess)
    except InputError as error:
        assert not absent("column", error)
        return
    assert sorted(named.rows[0].fields.values()) == sorted(f"<{name}>" for name in columns)
    assert list(named.rows[0].fields) == list(named.columns)
    assert [named.written.get(name, name) for name in named.columns] == columns


def test_questions_and_answers_in_two_languages(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One of both is read, and a notice names the other."""
    path = write(tmp_path, "Frage,Antwort,Question,Answer,Thema", "Wo?,Hier.,Where?,Here.,x")
    with caplog.at_level(logging.INFO):
        assert [entry.question for entry in read_faq(path)] == ["Where?"]
    assert not absent("'Question' and 'Answer' … --columns Frage,Antwort", caplog.text)
    caplog.clear()
    with caplog.at_level(logging.INFO):
        assert [entry.question for entry in read_faq(path, ("Frage", "Antwort"))] == ["Wo?"]
        read_faq(write(tmp_path, "question,answer,Antwort", "Where?,Here.,Hier."))  # answers alone are no pair
    assert "--columns" not in caplog.text


def test_two_columns_of_other_names(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        [entry] = read_faq(write(tmp_path, "Anliegen;Lösung", "Wo?;Hier."))
    assert (entry.question, entry.answer) == ("Wo?", "Hier.")
    assert not absent("'Anliegen' … 'Lösung' … question … answer", caplog.text)


NAMES = [
    "Customer asks|We say",
    "Frage|Antwort",
    "Q|A",
    "Your question|Our answer",
    "Your question?|Our answer",
    "Question?|Answer!",
    "Problem?|Solution!",
    "Question (as customers ask it)|Answer (max. 3 sentences)",
    "Kunden fragen|Wir sagen (höchstens 3 Sätze.)",
    "What our customers ask|What we say to them",
    "Customer asks...|We say...",
    "Column 1|Column 2",
    "Text1|Text2",
    "Question 2024|Answer 2024",
    "Anliegen|Lösung",
    "客户说|我们说",
]
ENTRIES = [
    "How do I pay?|By card.",
    "How do I pay?|By card",
    "Where is it?|Here",
    "Where?|Here.",
    "Any question?|Call us.",
    "What are the fees for a parcel?|None",
    "Opening hours|Mo-Fr 9-17",
    "Delivery cost|4.90 Euro",
    "Opening hours|From nine to five.",
    "Returns|Send it back within thirty days",
    "Tracking|https://track.example",
    "Complaints|help@shop.example",
    "Wo?|Hier.",
    "在哪里？|在这里。",
    "营业时间|每天营业。",
]


def two_columns(folder: Path, first: str, kind: str) -> Path:
    """A table of two columns with these texts first, and a row below."""
    rows = [first.split("|"), ["Is there a car park?", "Yes, behind the house."]]
    path = folder / f"FAQ.{kind}"
    if kind == "xlsx":
        book = Workbook()
        for row in rows:
            book.active.append(row)
        book.save(path)
    else:
        separator = ";" if kind == "csv" else "\t"
        path.write_text("\n".join(map(separator.join, rows)) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", ["csv", "tsv", "xlsx"])
@pytest.mark.parametrize("names", NAMES)
def test_names_of_two_columns(tmp_path: Path, names: str, kind: str) -> None:
    [entry] = read_faq(two_columns(tmp_path, names, kind))
    assert (entry.question, entry.answer) == ("Is there a car park?", "Yes, behind the house.")


@pytest.mark.parametrize("kind", ["csv", "tsv", "xlsx"])
@pytest.mark.parametrize("entry", ENTRIES)
def test_an_entry_in_place_of_the_names(tmp_path: Path, entry: str, kind: str) -> None:
    """It is refused, as it would be lost; who means it as names gives them to --columns."""
    path = two_columns(tmp_path, entry, kind)
    question, answer = entry.split("|")
    with refused(f"names … {question} … {answer} … question,answer"):
        read_faq(path)
    [below] = read_faq(path, (question, answer))
    assert below.question == "Is there a car park?"


@pytest.mark.parametrize("header", ["reply,Question", "Question,reply"])
def test_one_of_two_columns_is_known(tmp_path: Path, header: str) -> None:
    [entry] = read_faq(write(tmp_path, header, ",".join(f"<{name}>" for name in header.split(","))))
    assert (entry.question, entry.answer) == ("<Question>", "<reply>")


def test_a_later_record_has_the_answer(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The first one is left out, as of other files, and a notice names it."""
    (tmp_path / "a.jsonl").write_text('{"question": "q", "x": "t"}\n{"question": "r", "x": "t", "answer": "a"}\n')
    assert [(entry.question, entry.answer) for entry in read_faq(tmp_path / "a.jsonl")] == [("r", "a")]
    assert not absent("a.jsonl, line 1 … 'q'", caplog.text)


def test_answers_with_another_column_stay_answers(tmp_path: Path) -> None:
    [entry] = read_faq(write(tmp_path, "topic,Answer", "mail,Here."))
    assert (entry.question, entry.answer, entry.other) == ("", "Here.", {"topic": "mail"})


@pytest.mark.parametrize(
    ("header", "columns", "facts"),
    [
        ("a,b,c", None, "FAQ.csv … answer … a, b, c … --columns QUESTION,ANSWER"),
        ("Question,QUESTION,Answer", None, "question … 'Question' … 'QUESTION'"),
        ("a,b,c", ("a", "d"), "--columns … 'd' … a, b, c"),
        ("qid,candidate_ids", None, "answer"),
    ],
)
def test_columns_that_do_not_fit(tmp_path: Path, header: str, columns: tuple[str, str] | None, facts: str) -> None:
    with refused(facts):
        read_faq(write(tmp_path, header, header), columns)


def test_chosen_columns_come_before_those_of_the_name(tmp_path: Path) -> None:
    [entry] = read_faq(write(tmp_path, "question,answer,answer_de", "Where?,Here.,Hier."), ("question", "ANSWER_DE"))
    assert (entry.question, entry.answer, entry.other) == ("Where?", "Hier.", {"other answer": "Here."})


def test_no_column_gets_the_name_of_another(tmp_path: Path) -> None:
    header = "Frage,Antwort,question,other question,other question 2"
    [entry] = read_faq(write(tmp_path, header, "Wo?,Hier.,1,2,3"), ("Frage", "Antwort"))
    assert (entry.question, entry.answer) == ("Wo?", "Hier.")
    assert entry.other == {"other question 3": "1", "other question": "2", "other question 2": "3"}


@pytest.mark.parametrize("columns", [("Frage", "Frage"), ("Frage", " FRAGE: ")])
def test_one_column_cannot_be_both(tmp_path: Path, columns: tuple[str, str]) -> None:
    with refused("--columns … 'Frage'"):
        read_faq(write(tmp_path, "Frage,Antwort", "Wo?,Hier."), columns)


def test_columns_that_only_later_records_have(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    records = [
        {"question": "Where?", "answer": "Here."},
        {"question": "When?", "answer": "Now.", "Question 2": "At which time?", "variants": ["What time?"]},
    ]
    path.write_text("\n".join(map(json.dumps, records)))
    assert read_table(path).columns == ("question", "answer", "Question 2", "variants")
    assert [entry.wordings for entry in read_faq(path)] == [(), ("At which time?", "What time?")]


def test_messages_name_the_columns_of_the_file(tmp_path: Path) -> None:
    with refused("line 2 … Antwort"):
        read_faq(write(tmp_path, "Frage,Antwort", "Wo?,"))


def test_a_repaired_copy_keeps_the_names_of_the_columns(tmp_path: Path) -> None:
    path = write(tmp_path, "Frage,Antwort,Class", "Wo?,<b>Hier</b> ist es.,x")
    fix(path, tmp_path / "fixed.csv")
    assert read_table(tmp_path / "fixed.csv").rows[0].fields == {
        "Frage": "Wo?",
        "Antwort": "Hier ist es.",
        "Class": "x",
    }


@pytest.mark.parametrize("name", ["wordings", "Wordings:", "wording 3", "Other wordings", "SYNONYMS", "Formulierungen"])
@pytest.mark.parametrize(
    ("pair", "columns"),
    [("Question,Answer", None), ("Frage,Antwort", None), ("They ask,We say", ("They ask", "We say"))],
)
def test_names_of_wordings(pair: str, columns: tuple[str, str] | None, name: str, tmp_path: Path) -> None:
    path = write(tmp_path, f"{pair},{name}", 'Where?,Here.,"track it\nfind it; or not"')
    [entry] = read_faq(path, columns)
    assert entry.wordings == ("track it", "find it; or not")
    assert entry.other == {}


def test_a_number_behind_the_named_question(tmp_path: Path) -> None:
    path = write(tmp_path, "They ask,We say,They ask 2,They ask often", "Where?,Here.,Track,yes")
    [entry] = read_faq(path, ("They ask", "We say"))
    assert entry.wordings == ("Track",)
    assert entry.other == {"They ask often": "yes"}


@pytest.mark.parametrize(("text", "pair"), [("a,b", ("a", "b")), ('"a, b", c', ("a, b", "c"))])
def test_the_option(text: str, pair: tuple[str, str]) -> None:
    assert column_names(text) == pair


@pytest.mark.parametrize("text", ["", "a", "a,b,c", "a,a", "a,", '"a', "a\nb"])
def test_a_bad_option(text: str) -> None:
    with refused("Question,Answer", by=BadParameter):
        column_names(text)


def check(*arguments: Any) -> Any:
    return CliRunner().invoke(app, ["check", *map(str, arguments)])


def test_the_command_takes_the_option(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(
            [("id", "text", "reply"), *((i, f"{i} asks where", f"{i} says here") for i in "abc")]
        )
    assert isinstance(check(path).exception, InputError)
    result = check(path, "--columns", "text,reply")
    assert not absent("3 question texts … 3 answer texts", result.output)
