"""Mistakes that people naturally make: each gets one sentence that names the remedy, and nothing is written."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

import pytest
from command_line import run
from conftest import TEXTS
from refusals import absent
from searches import write_pipeline

PAIRS = "".join(
    f"{question},{answer.replace(',', '')}\n" for question, answer in zip(TEXTS[::2], TEXTS[1::2], strict=True)
)
FILES = {
    "unsafe.yaml": "components:\n  a: {type: os.system, init_parameters: {}}\nconnections: []\n",
    "FAQ.csv": f"question,answer\n{PAIRS}",
    "FAQ.xls": "saved by an old Excel",
    "manual.doc": "saved by an old Word",
    "manual.docx": "no archive",
    "empty.csv": "",
    "other.csv": "Title;Text;Extra\na;b;c\n",
    "quotes.csv": 'question,answer\nWhere?,"Here.\nWhen?,Now.\n',
    "fields.csv": "question,answer\nWhere?,Here, I think.\n",
    "answers.jsonl": '{"question": "Where?", "answer": "Here."\n',
    "gap.csv": "Frage;Antwort\nWo?;Hier.\nWann?;\n",
    "title.csv": "Our FAQ\nof\nall\nshops\nFrage;Antwort\nWo?;Hier.\n",
    "headless.csv": "Where is my parcel?,Here.\nWhen does it come?,Soon.\n",
    "wrong.csv": "question,answer,label\nWhere?,Here.,0\nWhere?,There.,0\nWhen?,Now.,0\n",
    "bad.csv": "question,answer,label\nWhere?,Here.,Bad\nWhere?,There.,PotentiallyUseful\nWhen?,Now.,Bad\n",
    "nobody.csv": "question,answer_ids,answerable\nWhere?,,no\nWhen?,,no\n",
    "answers.csv": "aid,answer\n1,Here.\n2,There.\n",
    "FAQ.json": '{"question": "Where?", "answer": "Here."',
    "one.csv": "question,answer\nq,a\nQ,b\n",
    "settings.yaml": "model: ap-cnn\noptions: {filters: 8}\n",
    "broken.yaml": "components: [",
    "not_a_pipeline.yaml": "model: ap-cnn\n",
    "onerow.csv": "question,answer\nWhere is it?,Here.\n",
    "FAQ.url": "[InternetShortcut]\nURL=https://docs.google.com/spreadsheets/d/1/edit\n",
    "checkpoint.zip": "PK",
    "page.yaml": "nmae: Shop\n",
    "call.yaml": "contact: call us\n",
    "tab.yaml": "name: Shop\n\tcontact: help@shop.example\n",
    "typo.yaml": "model: ap-cnn\nepcohs: 3\n",
    "ten.yaml": "model: ap-cnn\nepochs: ten\n",
}
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0\nsize 12345\n"
MISTAKES = {
    # Files
    "ask Where? --documents FQA.csv": "'FQA.csv' … 'FAQ.csv'",
    "ask Where? --documents faq/questions.csv": "'faq/questions.csv'",
    "ask Where? --documents FAQ.xls": "FAQ.xls",
    "check FAQ.xls": "FAQ.xls",
    "ask Where? --documents manual.doc": ".docx",
    "ask Where? --documents manual.docx": "manual.docx",
    "ask Where? --documents empty.csv": "empty.csv … row … none",
    "ask Where? --documents empty": "empty … .md",
    "ask Where? --documents bytes.csv": "bytes.csv, line 2 … UTF-8 … CSV UTF-8",
    "ask Where? --documents quotes.csv": "quotes.csv, line 3 … quotation marks",
    "ask Where? --documents fields.csv": "fields.csv, line 2 … 2 … question, answer … 3",
    "ask Where? --documents answers.jsonl": 'answers.jsonl, line 1 … {"question": "...", "answer": "..."}',
    "ask Where? --documents other.csv": "--columns QUESTION,ANSWER",
    "train other.csv --output new": "--columns QUESTION,ANSWER",
    "train FAQ.csv --columns Frage,Antwort --output new": "'Frage' … question, answer",
    "ask Where? --documents title.csv": "title.csv … 'answer' … Our FAQ",
    "ask Where? --documents headless.csv": "headless.csv … question,answer",
    "train wrong.csv --output new": "wrong.csv … 2 … 1 … label",
    "train wrong.csv --dev FAQ.csv --output new": "wrong.csv … none",
    "train FAQ.csv --dev wrong.csv --output new": "wrong.csv … none",
    "train bad.csv --output new": "bad.csv … 2 … Good … label",
    "train nobody.csv --output new": "answer_ids … answerable: no",
    "evaluate checkpoint wrong.csv": "wrong.csv … 1 … label",
    "check FAQ.json": "JSON … array",
    "train nowhere.csv --output new": "'nowhere.csv'",
    "train gap.csv --output new": "gap.csv, line 3 … 'Antwort'",
    "train one.csv --output new": "one.csv … 1",
    "train FAQ.csv --dev . --output new": "dev.*",
    "train FAQ.csv --config . --output new": "folder",
    "train FAQ.csv --embeddings /dev/zero --output new": "/dev/zero … device",
    "check pipe.csv": "pipe.csv … pipe",
    "check . --fix fixed.csv": "train.*",
    "check https://x.example/FAQ.csv": "address … download",
    "serve file:///srv/FAQ.csv": "address … download",
    "check '~/FAQ.csv'": "'~/FAQ.csv' … ~ … quotation marks",
    "check FAQ.CSV": "'FAQ.CSV' … 'FAQ.csv'",
    "check ' faq.csv'": "' faq.csv' … 'FAQ.csv'",
    r"check 'C:\Users\Anna\FAQ.csv'": "FAQ.csv … path",
    "split FAQ.csv --output FAQ.csv": "FAQ.csv … folder … --output",
    "extract FAQ.csv --output new.csv": "table … ap-ranker serve FAQ.csv",
    "owner report FAQ.csv --output week.txt": "week.txt … .html",
    "owner report FAQ.csv --from 02.11.2026": "--from … '02.11.2026' … ap-ranker owner report --help",
    "retrain --back": "checkpoints/faq",
    "check “FAQ.csv”": "'FAQ.csv'",
    "check docs.google.com/spreadsheets/d/1": "address … download",
    "check FAQ.url": "FAQ.url … .csv",
    "check 'FAQ.csv;other.csv'": "'FAQ.csv;other.csv'",
    "check '*.csv'": "'*.csv'",
    "check FAQ.csv other.csv": "other.csv … ap-ranker check --help",
    "check FAQ.csv --columns question": "two … 'question' … Question,Answer",
    "train onerow.csv --output new": "onerow.csv … two … 1",
    "split onerow.csv --output new": "onerow.csv … three",
    "owner gaps FAQ.csv --output gaps.csv": "FAQ.db … ap-ranker serve … --database",
    "owner keys FAQ.csv": "FAQ.db … ap-ranker serve",
    "owner changes FAQ.csv --output FAQ.csv": "FAQ.csv … another file",
    "owner changes FAQ.csv --output new.csv --clear": "--output … --clear",
    # Settings
    "serve FAQ.csv --page page.yaml": "page.yaml … 'nmae' … 'name'",
    "serve FAQ.csv --page call.yaml": "call.yaml … contact … e-mail … 'call us'",
    "serve FAQ.csv --page tab.yaml": "tab.yaml … line 2",
    "serve FAQ.csv --page FAQ.csv": "FAQ.csv … names",
    "train FAQ.csv --output new --config typo.yaml": "typo.yaml … 'epcohs' … 'epochs'",
    "train FAQ.csv --output new --config ten.yaml": "ten.yaml … epochs … integer … 'ten'",
    # Checkpoints moved, copied in part, or in the wrong place
    "ask Where? --documents FAQ.csv --model half": "half … model.safetensors … ap-ranker train",
    "ask Where? --documents FAQ.csv --model pointer": "pointer/model.safetensors … git lfs pull",
    "ask Where? --documents FAQ.csv --model cut": "cut/model.safetensors … ap-cnn",
    "ask Where? --documents FAQ.csv --model around": "around … folder … checkpoint",
    "ask Where? --documents FAQ.csv --model checkpoint.zip": "checkpoint.zip … folder … a file",
    "ask Where? --documents FAQ.csv --model FAQ.csv": "FAQ.csv … folder … ap-ranker train",
    "ask Where? --documents FAQ.csv --pipeline moved.yaml": "'gone/checkpoint' … ap-ranker train",
    "ask Where? --documents checkpoint": "checkpoint … --model",
    "calibrate FAQ.csv checkpoint": "'FAQ.csv' … checkpoint",
    "calibrate checkpoint half": "half … dev.*",
    "index FAQ.csv": "--pipeline",
    # Names and numbers
    "help": "'help' … ap-ranker --help",
    "ask Where? —documents FAQ.csv": "FAQ.csv … --documents",
    "ask Where? --documents FAQ.csv --top-k ten": "--top-k … integer",
    "serve FAQ.csv --port 99999": "--port … 65535",
    "serve FAQ.csv --host http://0.0.0.0": "http://0.0.0.0 … --host",
    "retrain FAQ.csv --precision 80": "--precision … 0.99",
    "nonsense": "nonsense",
    "models bert": "'bert'",
    "models ap-cn": "'ap-cn' … 'ap-cnn'",
    "ask Where? --documents FAQ.csv --model checkpoint --precision 90": "precision … 90 … 0.9",
    "train FAQ.csv --output new --device gpu": "'gpu' … auto",
    "train FAQ.csv --output new --embeddings none.txt": "none.txt",
    "extract empty --output new.txt": "new.txt … new.csv",
    "push gone NAME": "'gone'",
    "retrain FAQ.csv --back --model gone": "'gone' … ap-ranker train",
    "retrain": "ap-ranker retrain FAQ.csv",
    "owner gaps": "ap-ranker owner gaps FAQ.csv",
    "ask Where? --pipeline unsafe.yaml": "unsafe.yaml … 'os'",
    "train FAQ.csv --output new --resume": "new.training",
    "encode checkpoint FAQ.csv --output new --dtype int2": "float32, float16, int8, int4 … 'int2'",
    "evaluate checkpoint FAQ.csv --dtype int2": "float32, float16, int8, int4 … 'int2'",
    "evaluate nowhere FAQ.csv": "'nowhere'",
    "ask Where? --documents FAQ.csv --pipeline search.yaml --top-k 0": "--top-k … 1",
    "": "ap-ranker serve FAQ.csv",
    "trian FAQ.csv": "'train' … ap-ranker --help",
    "train FAQ.csv": "'--output' … ap-ranker train --help",
    "train FAQ.csv --output new --modle ap-cnn": "--dev, --encoder, --model",
    "train FAQ.csv --output new --model ap-transfomer": "'ap-transformer'",
    "train FAQ.csv --output new --model ap-cnn --epochs ten": "--epochs … integer",
    "train FAQ.csv --output new --model ap-cnn --device cuda:9": "cuda:9 … auto",
    "train FAQ.csv --output new --model ap-cnn --embeddings glove.txt": "glove.txt … GloVe … word2vec … fastText",
    "train FAQ.csv --output checkpoint": "checkpoint … --overwrite",
    "ask Where? --documents FAQ.csv --language englisch": "'english'",
    "train FAQ.csv --output new --language chinese": "null … 'chinese'",
    # What goes where
    "ask Where?": "--documents",
    "ask 'Where is it?' FAQ.csv": "--documents FAQ.csv",
    "ask FAQ.csv 'Where is it?'": "--documents FAQ.csv",
    "ask '' --documents FAQ.csv": "question … empty",
    "owner": "command … ap-ranker owner --help",
    "gaps FAQ.csv --output 'new gaps.csv'": "earlier name … ap-ranker owner gaps FAQ.csv --output 'new gaps.csv'",
    "report --help": "earlier name … ap-ranker owner report --help",
    "feedback list --database FAQ.db": "earlier name … ap-ranker owner feedback list --database FAQ.db",
    "owners FAQ.csv --add Anna": "earlier name … ap-ranker owner keys FAQ.csv --add Anna",
    "train FAQ.csv --output new --objective hinge": "--objective … objective: … --config",
    "serve FAQ.csv --feedback said.jsonl": "--feedback … --database … ap-ranker train DATA --feedback FILE",
    "serve FAQ.csv --learn-from-clicks 3": "--learn-from-clicks … Leave it out",
    "calibrate checkpoint FAQ.csv --plot p.png": "--plot … --json FILE",
    "owner feedback": "command … ap-ranker owner feedback --help",
    "owner feedback delete FAQ.csv": "'--database' … ap-ranker owner feedback delete --help",
    "serve FAQ.csv --documents FAQ.csv": "FAQ.csv … --documents FAQ.csv",
    "serve --port 0": "--documents",
    "evaluate FAQ.csv checkpoint": "`ap-ranker train` … file",
    "evaluate checkpoint": "'data' … ap-ranker evaluate --help",
    "ask Where? --documents FAQ.csv --model checkpoints/faq2": "ap-ranker train DATA --output DIR",
    "ask Where? --documents FAQ.csv --pipeline broken.yaml": "broken.yaml … Haystack",
    "ask Where? --documents FAQ.csv --pipeline not_a_pipeline.yaml": "inputs: query: component.socket",
    "ask Where? --documents FAQ.csv --pipeline none.yaml": "'none.yaml'",
    "compare FAQ.csv --models ap-cnn --output new": "FAQ.csv … test.* … --test",
    "compare FAQ.csv --models ap-cnn --output new --config settings.yaml": "settings.yaml … options … --models "
    "NAME:option=value",
    "calibrate checkpoint": "ap-ranker calibrate checkpoint DEV",
    "split FAQ.csv --output checkpoint": "checkpoint … --output",
    "explain checkpoint": "ap-ranker explain --help",
}
"""What is typed -> where the fault and what the remedy is, in the only sentence that is printed."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, checkpoint: Path) -> Path:
    folder = tmp_path_factory.mktemp("mistakes")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    (folder / "bytes.csv").write_bytes("Frage,Antwort\nGrüße?,Größe".encode() + b"\xff.\n")
    (folder / "empty").mkdir()
    os.mkfifo(folder / "pipe.csv")
    write_pipeline(folder, Path("checkpoint"))
    moved = (folder / "search.yaml").read_text().replace("model: checkpoint", "model: gone/checkpoint")
    (folder / "moved.yaml").write_text(moved)
    for name in ("checkpoint", "half", "pointer", "cut", "around/checkpoint"):
        shutil.copytree(checkpoint, folder / name)
    (folder / "half" / "model.safetensors").unlink()
    (folder / "pointer" / "model.safetensors").write_text(POINTER)
    with (folder / "cut" / "model.safetensors").open("r+b") as file:
        file.truncate(1_000)
    return folder


TWO_LINES = 200
"""Maximum number of characters of a message whose reader has to act: two lines of a terminal."""


@pytest.mark.parametrize("typed", MISTAKES)
def test_a_mistake(typed: str, place: Path) -> None:
    before = sorted(path.name for path in place.iterdir())
    ended = run(*shlex.split(typed), folder=place)
    assert ended.code == 2
    assert not absent(MISTAKES[typed], ended.errors)
    assert ended.errors.startswith("Error: ")
    assert len(ended.errors.strip().splitlines()) <= 2, ended.errors
    assert len(ended.errors.strip()) <= TWO_LINES, ended.errors
    assert "Traceback" not in ended.errors
    assert sorted(path.name for path in place.iterdir()) == before


def test_words_without_quotes_are_one_question(place: Path) -> None:
    ended = run("ask", "where", "is", "my", "parcel", "--documents", "FAQ.csv", "--model", "checkpoint", folder=place)
    assert ended.code == 0
    assert not absent('"where is my parcel"', ended.errors)
    assert "\nwhere is my parcel\n" in ended.output
