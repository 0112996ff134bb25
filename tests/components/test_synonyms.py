"""A store with synonyms finds what users call otherwise; the preview tells what that changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from haystack import Document, Pipeline
from refusals import absent, assert_refusal, refused
from typer.testing import CliRunner

from ap_ranker.cli.main import app
from ap_ranker.data.reader import read_dataset
from ap_ranker.errors import InputError
from ap_ranker.evaluation.word_search import preview
from ap_ranker.ranking.bm25 import BM25
from ap_ranker.text.synonyms import read_synonyms
from haystack_integrations.components.retrievers.ap_ranker import BM25SRetriever
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

TEXTS = ["Open the payroll system to see your salary.", "The elevator is on the left.", "A lift pass costs ten euro."]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "synonyms.txt").write_text("SAP = payroll system\nlift => elevator\n")
    return tmp_path / "synonyms.txt"


def found(store: BM25SDocumentStore, query: str) -> list[tuple[str | None, float]]:
    documents = BM25SRetriever(store).run(query=query)["documents"]
    return [(document.content, document.meta["ap_ranker"]["bm25_score"]) for document in documents]


def test_each_document_has_its_best_score(file: Path) -> None:
    store = BM25SDocumentStore(synonyms=file)
    store.write_documents([Document(content=text) for text in TEXTS])
    index = BM25(TEXTS)
    assert found(store, "SAP?") == [(TEXTS[0], pytest.approx(index.scores("payroll system")[0]))]
    expected = {TEXTS[1]: index.scores("the elevator")[1], TEXTS[2]: index.scores("the lift")[2]}
    scores = dict(found(store, "the lift"))
    assert scores[TEXTS[1]] == pytest.approx(expected[TEXTS[1]])
    assert scores[TEXTS[2]] == pytest.approx(expected[TEXTS[2]])
    assert TEXTS[2] not in dict(found(store, "elevator"))
    assert not found(BM25SDocumentStore(), "SAP?")


def test_it_is_an_init_parameter_and_followed(file: Path) -> None:
    pipeline = Pipeline()
    store = BM25SDocumentStore(synonyms=file)
    pipeline.add_component("retriever", BM25SRetriever(store))
    again = Pipeline.loads(pipeline.dumps()).get_component("retriever").document_store
    assert again.synonyms == str(file)
    again.write_documents([Document(content=text) for text in TEXTS])
    assert found(again, "wages") == []
    file.write_text("wages => salary\n")
    assert [text for text, _ in found(again, "wages")] == TEXTS[:1]


@pytest.mark.parametrize("name", ["synonyms.txt", "./synonyms.txt", ".//synonyms.txt"])
def test_an_edit_that_cannot_be_read_yet(file: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    store = BM25SDocumentStore(synonyms=name)
    store.write_documents([Document(content=TEXTS[0])])
    expected = found(store, "SAP")
    file.write_text("SAP payroll system\n")
    assert found(store, "SAP") == expected != []


def test_wrong_lines_end_no_search_that_runs(file: Path, tmp_path: Path) -> None:
    file.write_text("nothing\n")
    store = BM25SDocumentStore(synonyms=file)
    store.write_documents([Document(content=TEXTS[0])])
    with refused("synonyms.txt, line 1 … ="):
        found(store, "SAP")


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture
def faq(tmp_path: Path) -> Path:
    (tmp_path / "faq.csv").write_text("aid,answer\n" + "".join(f"a{i},{text}\n" for i, text in enumerate(TEXTS)))
    (tmp_path / "dev.csv").write_text(
        "qid,question,answer_ids\n1,Where is SAP?,a0\n2,the lift,a1\n3,a lift pass,a2\n4,the salary,a0\n"
    )
    return tmp_path / "faq.csv"


def test_the_preview(faq: Path, file: Path) -> None:
    data = read_dataset(faq.parent / "dev.csv", "dev", answers=faq)
    result = preview(data, read_synonyms(file))
    assert (result.n_questions, result.concerned) == (4, 3)
    moved = {question: (before, after) for question, before, after in result.moved}
    assert moved["Where is SAP?"][0] > moved["Where is SAP?"][1] == 1
    assert result.mrr[1] > result.mrr[0]
    nothing = preview(data, read_synonyms(_write(file, "unheard => of\n")))
    assert (nothing.concerned, nothing.moved, nothing.mrr[0]) == (0, [], nothing.mrr[1])


def test_the_preview_on_the_command_line(faq: Path, file: Path) -> None:
    questions = faq.parent / "dev.csv"
    result = run("synonyms", file, "--documents", faq, "--questions", questions)
    assert result.exit_code == 0, result.output
    assert not absent("3 of 4", result.output)
    assert "Where is SAP?" in result.output
    _write(file, "wrong\n")
    again = run("synonyms", file, "--documents", faq, "--questions", questions).exception
    assert_refusal("line 1", again)


def test_ask_searches_with_synonyms(faq: Path, file: Path, checkpoint: Path, tmp_path: Path) -> None:
    command = ["ask", "SAP?", "--documents", faq, "--model", checkpoint, "--json"]
    answers = json.loads(run(*command, "--synonyms", file).stdout)["answers"]
    assert TEXTS[0] in [answer["answer"] for answer in answers]
    again = run(*command, "--synonyms", tmp_path / "none.txt").exception
    assert isinstance(again, InputError)


def _write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_every_form_of_a_question_with_several_synonyms(tmp_path: Path) -> None:
    (tmp_path / "s.txt").write_text("cart = basket\nvoucher = coupon\nphone = mobile\n")
    forms = read_synonyms(tmp_path / "s.txt").forms("phone cart voucher")
    expected = {f"{a} {b} {c}" for a in ("phone", "mobile") for b in ("cart", "basket") for c in ("voucher", "coupon")}
    assert {*forms} == expected and len(forms) == 8


@pytest.mark.parametrize(
    ("term", "question"), [("e-mail", "my email"), ("email", "my e-mail"), ("U.S.A.", "my USA"), ("USA", "my U.S.A.")]
)
def test_a_term_is_read_as_texts_are(term: str, question: str, tmp_path: Path) -> None:
    (tmp_path / "s.txt").write_text(f"{term} = electronic post\n")
    assert "my electronic post" in read_synonyms(tmp_path / "s.txt").forms(question)


@pytest.mark.parametrize("line", ["lift = elevator", "lift => elevator", "lift = moving staircase"])
@pytest.mark.parametrize("language", [None, "english"])
def test_a_rare_synonym_does_not_outweigh_the_word_that_was_asked(
    line: str, language: str | None, tmp_path: Path
) -> None:
    """The word stands in many texts, its synonym in one of the same length."""
    synonym = line.split()[2:]
    pad = ["here"] * (2 - len(synonym))
    texts = [f"The lift {word} here" for word in ("works", "stops", "is", "goes", "has")]
    texts += [" ".join(["The", *synonym, "now", *pad]), "Opening hours", "Our prices", "Your account"]
    (tmp_path / "s.txt").write_text(line + "\n")
    store = BM25SDocumentStore(synonyms=tmp_path / "s.txt", language=language)
    store.write_documents([Document(content=text) for text in texts])
    scores = dict(found(store, "lift"))
    assert scores[texts[5]] > 0
    assert all(scores[text] >= scores[texts[5]] - 1e-6 for text in texts[:5])
    if "=>" not in line:
        asked = dict(found(store, " ".join(synonym)))
        assert max(asked, key=lambda text: asked[text]) == texts[5]


def test_a_synonym_of_a_word_that_no_text_has_counts_in_full(tmp_path: Path) -> None:
    (tmp_path / "s.txt").write_text("escalator => elevator\n")
    store = BM25SDocumentStore(synonyms=tmp_path / "s.txt")
    store.write_documents([Document(content=text) for text in TEXTS])
    assert dict(found(store, "escalator"))[TEXTS[1]] == pytest.approx(BM25(TEXTS).scores("elevator")[1])
