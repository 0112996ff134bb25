"""What a company already has goes in: from the file, through the command line, to the answer.

`tests/data/exports` has files of other systems. Those in JSON and HTML have the shapes that the systems' documents
give. FAQ.xls is written by xlwt 1.3 (with a hidden sheet before the FAQ), FAQ.ods by odfpy 1.4.1, and protected.xlsx by
openpyxl, encrypted by msoffcrypto-tool 6.1 with the password "secret"; all have these rows:

    Frage, Antwort, Thema, Preis, Stand
    Wo ist das Päckchen?, Öffne\\nden Link., Versand, 7.0, 2024-02-29
    Wie lange dauert es?, Drei Tage., Versand, 1.5,

What LibreOffice saved, which has `office` in its name, is described in `tests/libreoffice.py`.
"""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest
from command_line import run
from exported import EXPORTS, IMPORTS
from libreoffice import FILES, entry_of, save
from refusals import absent

from ap_ranker.data.tables import read_table
from ap_ranker.documents import read_documents


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(EXPORTS, tmp_path / "exports")
    return tmp_path / "exports"


@pytest.mark.parametrize("name", IMPORTS)
def test_from_the_file_to_the_answer(name: str, folder: Path, checkpoint: Path) -> None:
    if name.startswith("FAQ"):
        pytest.importorskip("python_calamine")
    question, answer, source = IMPORTS[name]
    ended = run("ask", question, "--documents", name, "--model", checkpoint, folder=folder)
    assert ended.code == 0, ended.errors
    assert not absent(f"{answer} … {source}", ended.output), ended.output
    assert "zeppelin" not in ended.output
    found = json.loads(
        run("ask", question, "--documents", name, "--model", checkpoint, "--json", folder=folder).output
    )["answers"]
    assert any(answer in each["answer"] for each in found[:2])  # an article may have several passages


@pytest.mark.parametrize("name", IMPORTS)
def test_the_check(name: str, folder: Path) -> None:
    if name.startswith("FAQ"):
        pytest.importorskip("python_calamine")
    ended = run("check", name, folder=folder)
    assert ended.code == 0, ended.errors
    assert ("passages of" in ended.output) == (IMPORTS[name][2] != "")


@pytest.mark.parametrize("system", ["zendesk", "intercom", "freshdesk", "help_scout"])
def test_drafts_are_left_out_and_named(system: str, folder: Path) -> None:
    assert not absent(f"{system}.json … 1 articles", run("check", f"{system}.json", folder=folder).output)


BARE = {
    "zendesk": {"title": "Where?", "body": "<p>Here.</p>", "section_id": None, "draft": None},
    "intercom": {"title": "Where?", "body": "<p>Here.</p>", "author_id": 1, "state": None, "parent_id": None},
    "freshdesk": {"title": "Where?", "description": "<p>Here.</p>", "folder_id": None, "status": None},
    "help_scout": {
        "name": "Where?",
        "text": "<p>Here.</p>",
        "collectionId": None,
        "status": None,
        "categories": [None],
    },
}


@pytest.mark.parametrize("system", BARE)
@pytest.mark.parametrize("nothing", [None, "", " \n", "<p>&nbsp;</p>", 7, ["a"], {"en": "a"}])
def test_articles_without_a_text_are_named(system: str, nothing: object, tmp_path: Path) -> None:
    """Keys that are missing or null hide no other article, and nothing is left out silently."""
    title, body, *_ = BARE[system]
    untitled = {name: value for name, value in BARE[system].items() if name != title}
    articles = [
        BARE[system],
        BARE[system] | {body: nothing},
        BARE[system] | {title: None},
        untitled | {body: "<p>x</p>"},
    ]
    (tmp_path / "export.json").write_text(json.dumps({"articles": articles}))
    reading = read_documents(tmp_path / "export.json")
    assert [(entry.question, entry.answer) for entry in reading.entries] == [("Where?", "Here.")]
    assert not absent("3 articles", str(*reading.left_out))


@pytest.mark.parametrize("draft", [True, "true", "TRUE", 1])
def test_a_draft_however_it_is_written(draft: object, tmp_path: Path) -> None:
    articles = [BARE["zendesk"], BARE["zendesk"] | {"title": "Secret?", "draft": draft}]
    (tmp_path / "export.json").write_text(json.dumps({"articles": articles}))
    reading = read_documents(tmp_path / "export.json")
    assert [entry.question for entry in reading.entries] == ["Where?"]
    assert len(reading.left_out) == 1


def test_each_passage_has_the_address_of_its_own_article(tmp_path: Path) -> None:
    """Also where a category, another category's article or a heading within an article has the same words."""
    texts = {
        ("Billing", "Refunds"): "<p>In a week.</p><h2>Shipping</h2><p>You pay it.</p>",
        ("Billing", "Overview"): "<p>All invoices.</p>",
        ("Parcels", "Billing"): "<p>By card.</p><details><summary>And cash?</summary>No.</details>",
        ("Parcels", "Shipping"): "<p>By train.</p>",
        ("Parcels", "Overview"): "<p>All parcels.</p>",
    }
    articles = []
    for number, ((category, title), text) in enumerate(texts.items()):
        article = BARE["zendesk"] | {"title": title, "body": text, "section_id": category}
        articles.append(article | {"html_url": f"https://x.example/{number}"})
    sections = [{"id": name, "name": name} for name in ("Billing", "Parcels")]
    export = {"articles": articles, "sections": sections}
    (tmp_path / "export.json").write_text(json.dumps(export))
    address_of = {}
    for entry in read_documents(tmp_path / "export.json").entries:
        address_of[entry.answer] = entry.other["url"].removeprefix("https://x.example/")
    assert address_of == {
        "In a week.": "0",
        "You pay it.": "0",
        "All invoices.": "1",
        "By card.": "2",
        "No.": "2",
        "By train.": "3",
        "All parcels.": "4",
    }


@pytest.mark.parametrize("system", ["zendesk", "intercom", "freshdesk", "help_scout"])
def test_a_table_of_articles(system: str, folder: Path) -> None:
    """To edit, to split and to train on."""
    ended = run("extract", f"{system}.json", "--output", "new.csv", folder=folder)
    assert ended.code == 0, ended.errors
    with (folder / "new.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    question, answer, _ = IMPORTS[f"{system}.json"]
    assert (rows[0]["question"], answer in rows[0]["answer"]) == (question, True)
    assert "zeppelin" not in str(rows)


def test_all_at_once(folder: Path) -> None:
    """As a folder of documents; Confluence's own table of contents has nothing to read."""
    pytest.importorskip("python_calamine")
    ended = run("check", ".", folder=folder)
    assert ended.code == 0, ended.errors
    assert not absent("protected.xlsx: left out … password … confluence/index.html: left out", ended.output)
    assert ended.output.count("left out:") == 4 + 4


def read(path: Path) -> list[dict[str, str]]:
    return [row.fields for row in read_table(path).rows]


@pytest.mark.parametrize("name", FILES)
def test_what_libreoffice_saves(name: str) -> None:
    pytest.importorskip("python_calamine")
    date = "29.2.24" if name.endswith(".csv") else "2024-02-29"
    rows = [(*entry_of(name), date, "7.5"), ("Versteckt?", "Ja.", "", "")]
    rows += [("Wie lange dauert es?", "Drei Tage.", "", ""), ("Was kostet es?", "Neun Euro.", "", "")]
    if not name.endswith(".csv"):  # which has one sheet
        rows.append(("Wie zahle ich?", "Mit Karte.", "", ""))
    columns = ("Frage", "Antwort", "Stand", "Preis")
    assert read(EXPORTS / name) == [dict(zip(columns, row, strict=True)) for row in rows]


@pytest.mark.slow
def test_the_libreoffice_that_is_here_saves_the_same(tmp_path: Path) -> None:
    if shutil.which("soffice") is None:
        pytest.skip("no LibreOffice here (Debian: apt-get install libreoffice-calc)")
    save(tmp_path)
    assert {name: read(tmp_path / name) for name in FILES} == {name: read(EXPORTS / name) for name in FILES}


@pytest.mark.parametrize(
    ("encoding", "text", "name"),
    [
        ("cp1252", "Frage;Antwort\nWie groß?;Zwölf Kilo – für Übergröße rufen Sie an.\n", "cp1252"),
        ("cp1252", "Question;Réponse\nOù est mon colis ?;À l’entrepôt.\n", "cp1252"),
        ("cp1250", "Pytanie;Odpowiedź\nGdzie jest paczka?;W magazynie, proszę czekać. Źródło: książka.\n", "cp1250"),
        ("cp1251", "Вопрос;Ответ\nГде моя посылка?;Она на складе.\n", "cp1251"),
        ("cp1253", "Ερώτηση;Απάντηση\nΠού είναι το δέμα μου;Στην αποθήκη.\n", "cp1253"),
        ("cp1254", "Soru;Yanıt\nKargom nerede?;Depoda, lütfen bekleyin. Teşekkür ederiz, şubemiz açık.\n", "cp1254"),
        ("cp1256", "سؤال;جواب\nأين طردي؟;إنه في المستودع.\n", "cp1256"),
        ("cp932", "質問;答え\n荷物はどこですか?;倉庫にあります。お待ちください。\n", "cp932"),
        ("gb18030", "问题;答案\n我的包裹在哪里?;在仓库里，请稍等。\n", "gb18030"),
        ("cp949", "질문;답변\n제 소포는 어디 있나요?;창고에 있습니다. 기다려 주세요.\n", "cp949"),
        ("mac_roman", "Frage;Antwort\nWie groß ist das Päckchen?;Höchstens zwölf Kilo für Übergröße.\n", "mac_roman"),
        ("utf-16", "質問;答え\n荷物はどこですか?;倉庫にあります。\n", "utf-16"),
        ("utf-16-le", "Frage;Antwort\nWie groß?;Zwölf Kilo.\n", "utf-16-le"),
        ("utf-16-be", "Frage\tAntwort\nWie groß?\tZwölf Kilo.\n", "utf-16-be"),
        ("utf-32", "Frage;Antwort\nWie groß?;Zwölf Kilo.\n", "utf-32"),
    ],
)
def test_other_encodings_are_told(
    encoding: str, text: str, name: str, tmp_path: Path, checkpoint: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    (tmp_path / "FAQ.csv").write_bytes(text.encode(encoding))
    question, answer = text.replace("\t", ";").splitlines()[1].split(";")
    ended = run("ask", question, "--documents", "FAQ.csv", "--model", checkpoint, "--json", folder=tmp_path)
    assert ended.code == 0, ended.errors
    assert json.loads(ended.output)["answers"][0]["answer"] == answer
    assert not absent(f"FAQ.csv … {name}", caplog.text)


def test_a_form_in_a_folder_tells_nobodys_address(folder: Path, checkpoint: Path) -> None:
    ended = run("ask", "Do you repair tents?", "--documents", ".", "--model", checkpoint, "--json", folder=folder)
    assert "Bring it to the shop." in json.loads(ended.output)["answers"][0]["answer"]
    assert "zoe@shop.example" not in ended.output
