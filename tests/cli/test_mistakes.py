"""Mistakes that people naturally make: each gets one sentence that names the remedy, and nothing is written."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest
from command_line import run
from conftest import TEXTS

PAIRS = "".join(
    f"{question},{answer.replace(',', '')}\n" for question, answer in zip(TEXTS[::2], TEXTS[1::2], strict=True)
)
FILES = {
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
    "title.csv": "Our FAQ;\nFrage;Antwort\nWo?;Hier.\n",
    "headless.csv": "Where is my parcel?,Here.\nWhen does it come?,Soon.\n",
    "wrong.csv": "question,answer,label\nWhere?,Here.,0\nWhere?,There.,0\nWhen?,Now.,0\n",
    "bad.csv": "question,answer,label\nWhere?,Here.,Bad\nWhere?,There.,PotentiallyUseful\nWhen?,Now.,Bad\n",
    "nobody.csv": "question,answer_ids,answerable\nWhere?,,no\nWhen?,,no\n",
    "answers.csv": "aid,answer\n1,Here.\n2,There.\n",
    "FAQ.json": '[{"question": "Where?", "answer": "Here."}]',
    "broken.yaml": "components: [",
    "not_a_pipeline.yaml": "model: ap-cnn\n",
}
MISTAKES = {
    # Files
    "ask Where? --documents FQA.csv": "No file at 'FQA.csv'. Did you mean 'FAQ.csv'?",
    "ask Where? --documents faq/questions.csv": "No file at 'faq/questions.csv'. Check the path.",
    "ask Where? --documents FAQ.xls": "Save it as .xlsx.",
    "check FAQ.xls": "Save it as .xlsx.",
    "ask Where? --documents manual.doc": "Save it as .docx.",
    "ask Where? --documents manual.docx": "Save it again in its program.",
    "ask Where? --documents empty.csv": "expected at least one row of data, found none",
    "ask Where? --documents empty": "expected files ending in .md,",
    "ask Where? --documents latin.csv": "Save the file as UTF-8 (in Excel: CSV UTF-8) and try again.",
    "ask Where? --documents quotes.csv": "Are its quotation marks closed?",
    "ask Where? --documents fields.csv": "line 2: expected 2 fields (question, answer), found 3",
    "ask Where? --documents answers.jsonl": 'expected a JSON object, such as {"question": "...", "answer": "..."}',
    "ask Where? --documents other.csv": "Name yours: --columns QUESTION,ANSWER.",
    "train other.csv --output new": "If two of these hold questions and answers, name them: --columns QUESTION,ANSWER.",
    "train FAQ.csv --columns Frage,Antwort --output new": "found no 'Frage' in question, answer",
    "ask Where? --documents title.csv": "Line 1 must hold the names of the columns.",
    "ask Where? --documents headless.csv": "Write a line above it: question,answer",
    "ask Where? --documents gap.csv": "in column 'Antwort', found nothing. Write it, or remove the row;",
    "train wrong.csv --output new": "wrong.csv: expected questions with a right answer, found none among 2, as no "
    "label is 1. Label the right answers 1, or check which column holds the labels.",
    "train wrong.csv --dev FAQ.csv --output new": "wrong.csv: expected questions with a right answer, found none",
    "train FAQ.csv --dev wrong.csv --output new": "wrong.csv: expected questions with a right answer, found none",
    "train bad.csv --output new": "found none among 2, as no label is Good. Label the right answers Good, or",
    "train nobody.csv --output new": "as none names an answer. Name right ones in answer_ids, without answerable: no.",
    "evaluate checkpoint wrong.csv": "Label the right answers 1, or check which column holds the labels.",
    "check FAQ.json": "Write one JSON object per line, and name it .jsonl.",
    # Names and numbers
    "": "Name a command, such as: ap-ranker serve FAQ.csv",
    "trian FAQ.csv": "Did you mean 'train'? See ap-ranker --help.",
    "train FAQ.csv": "Missing option '--output'. See ap-ranker train --help.",
    "train FAQ.csv --output new --modle ap-cnn": "(Possible options: --dev, --encoder, --model)",
    "train FAQ.csv --output new --model ap-transfomer": "Did you mean 'ap-transformer'?",
    "train FAQ.csv --output new --model ap-cnn --epochs ten": "Input should be a valid integer",
    "train FAQ.csv --output new --model ap-cnn --device cuda:9": "Try auto.",
    "train FAQ.csv --output new --model ap-cnn --embeddings glove.txt": "expected a GloVe, word2vec or fastText file",
    "train FAQ.csv --output checkpoint": "add --overwrite to replace it.",
    "ask Where? --documents FAQ.csv --model checkpoint --precision 90": "between 0 and 1, such as 0.9, found 90.",
    "ask Where? --documents FAQ.csv --model checkpoint --precision 0.9": "Calibrate it: ap-ranker calibrate",
    "ask Where? --documents FAQ.csv --language englisch": "Did you mean 'english'?",
    "train FAQ.csv --output new --language chinese": "or null, as for Chinese, Japanese and Korean; found 'chinese'.",
    # What goes where
    "ask Where?": "Name a FAQ or a folder with --documents",
    "ask 'Where is it?' FAQ.csv": "name it with --documents FAQ.csv",
    "ask '' --documents FAQ.csv": "Expected a question, found an empty text.",
    "serve FAQ.csv --documents FAQ.csv": "Expected the documents once",
    "serve": "Name a FAQ or a folder with --documents",
    "evaluate FAQ.csv checkpoint": "the folder that `ap-ranker train` wrote, found a file.",
    "evaluate checkpoint": "Missing argument 'data'. See ap-ranker evaluate --help.",
    "ask Where? --documents FAQ.csv --model checkpoints/faq2": "Train one with: ap-ranker train DATA --output DIR",
    "ask Where? --documents FAQ.csv --pipeline broken.yaml": "broken.yaml: expected a Haystack pipeline",
    "ask Where? --documents FAQ.csv --pipeline not_a_pipeline.yaml": "expected 'inputs: query: component.socket'",
    "calibrate checkpoint FAQ.csv": "Add questions, or choose a lower --precision.",
    "calibrate checkpoint": "Name some: ap-ranker calibrate checkpoint DEV",
    "split FAQ.csv --output checkpoint": "Choose another --output.",
    "explain checkpoint": "See ap-ranker explain --help.",
}
"""What is typed -> the remedy, in the only sentence that is printed."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, checkpoint: Path) -> Path:
    folder = tmp_path_factory.mktemp("mistakes")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    (folder / "latin.csv").write_bytes("Frage,Antwort\nGrüße?,Größe.\n".encode("latin-1"))
    (folder / "empty").mkdir()
    shutil.copytree(checkpoint, folder / "checkpoint")
    return folder


@pytest.mark.parametrize("typed", MISTAKES)
def test_a_mistake(typed: str, place: Path) -> None:
    before = sorted(path.name for path in place.iterdir())
    ended = run(*shlex.split(typed), folder=place)
    assert ended.code == 2
    assert MISTAKES[typed] in ended.errors
    assert ended.errors.startswith("Error: ")
    assert len(ended.errors.strip().splitlines()) <= 2, ended.errors
    assert "Traceback" not in ended.errors
    assert sorted(path.name for path in place.iterdir()) == before


def test_words_without_quotes_are_one_question(place: Path) -> None:
    ended = run("ask", "where", "is", "my", "parcel", "--documents", "FAQ.csv", "--model", "checkpoint", folder=place)
    assert ended.code == 0
    assert 'Taken as one question: "where is my parcel"' in ended.errors
    assert "\nwhere is my parcel\n" in ended.output
