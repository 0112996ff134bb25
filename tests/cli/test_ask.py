"""`ap-ranker ask`, in process, also over documents that no FAQ file wrote."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml
from conftest import ROOT, TEXTS, reconfigure, settings_of
from haystack import Document
from haystack.components.preprocessors import DocumentSplitter
from refusals import absent
from typer.testing import CliRunner, Result

from ap_ranker.cli.main import app
from ap_ranker.errors import InputError
from ap_ranker.ranking.rule import Basis, Calibration
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

ENTRIES = list(zip(TEXTS[::2], TEXTS[1::2], strict=True))
HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202e parcel"


@pytest.fixture
def pipeline(tmp_path: Path, checkpoint: Path) -> Path:
    """The pipeline of the project, with a store that lasts."""
    declared = yaml.safe_load((ROOT / "pipelines" / "faq_search.yaml").read_text())
    parts = settings_of(declared)
    parts["ranker"] |= {"model": str(checkpoint), "fuse_scores": False}
    store = parts["retriever"]["document_store"]
    store["init_parameters"] = {"path": str(tmp_path / "store")}
    (tmp_path / "search.yaml").write_text(yaml.safe_dump(declared))
    return tmp_path / "search.yaml"


def write(pipeline: Path, documents: list[Document]) -> None:
    BM25SDocumentStore(path=str(pipeline.parent / "store")).write_documents(documents)


def ask(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["ask", *map(str, arguments)])


def test_documents_of_a_splitter(pipeline: Path) -> None:
    whole = Document(content=" ".join(TEXTS), meta={"file_path": "handbook.md"})
    splitter = DocumentSplitter(split_by="word", split_length=12)
    splitter.warm_up()
    parts = splitter.run([whole])["documents"]
    assert "answer" not in parts[0].meta
    write(pipeline, parts)

    shown = ask("Where is my parcel?", "--pipeline", pipeline)
    assert shown.exit_code == 0, shown.output
    result = ask("Where is my parcel?", "--pipeline", pipeline, "--json")
    assert result.exit_code == 0, result.output
    answers = json.loads(result.output)["answers"]
    assert answers
    assert {answer["answer"] for answer in answers} <= {part.content for part in parts}
    for answer in answers:
        assert answer["question"] is None
        assert answer["answer"].split("\n")[0].strip() in shown.output


@pytest.mark.parametrize(
    ("document", "question", "answer"),
    [
        (Document(content="parcel q\nparcel a", meta={"question": "q", "answer": "a"}), "q", "a"),
        (Document(content="parcel", meta={"question": None, "answer": None}), None, "parcel"),
        (Document(content="parcel", meta={"answer": ""}), None, "parcel"),
        (Document(content="parcel", meta={"question": 7, "answer": 3.5}), "7", "3.5"),
        (Document(content="parcel", meta={"question": ["q"], "answer": {"text": "a"}}), "['q']", "{'text': 'a'}"),
    ],
)
def test_metas_of_other_shapes(pipeline: Path, document: Document, question: str | None, answer: str) -> None:
    write(pipeline, [document])
    [found] = json.loads(ask("parcel", "--pipeline", pipeline, "--json").output)["answers"]
    assert (found["question"], found["answer"]) == (question, answer)
    shown = ask("parcel", "--pipeline", pipeline)
    assert shown.exit_code == 0, shown.output
    assert answer in shown.output


def test_texts_that_would_command_the_terminal(pipeline: Path) -> None:
    write(pipeline, [Document(content=HOSTILE, meta={"question": HOSTILE, "answer": HOSTILE})])
    for options in ((), ("--json",)):
        result = ask(HOSTILE, "--pipeline", pipeline, *options)
        assert result.exit_code == 0, result.output
        assert not set("\x1b\x07\u202e") & set(result.output)
    assert json.loads(result.output)["answers"][0]["answer"] == HOSTILE


@pytest.mark.parametrize("short", [False, True], ids=["two components", "one"])
def test_a_pipeline_that_names_its_documents(tmp_path: Path, checkpoint: Path, short: bool) -> None:
    """They are searched unless `--documents` names others, and then not read."""
    declared = yaml.safe_load((ROOT / "pipelines" / "faq_search.yaml").read_text())
    parts, store = settings_of(declared), {"documents": str(tmp_path / "FAQ.csv")}
    parts["ranker"] |= {"model": str(checkpoint), "fuse_scores": False}
    parts["retriever"]["document_store"]["init_parameters"] = store
    if short:
        module = "haystack_integrations.components.retrievers.ap_ranker.faq_search"
        settings = {"model": str(checkpoint), **store}
        declared["components"] = {"search": {"type": f"{module}.FAQSearch", "init_parameters": settings}}
    pipeline = tmp_path / "search.yaml"
    pipeline.write_text(yaml.safe_dump(declared))
    (tmp_path / "FAQ.csv").write_text("question,answer\nWhere is my bike?,In the shed.\n")
    (tmp_path / "other.csv").write_text("question,answer\nWhere is my bike?,On its way.\n")
    found = [ask("bike", "--pipeline", pipeline, "--json")]
    (tmp_path / "FAQ.csv").unlink()
    found += [ask("bike", "--pipeline", pipeline, "--documents", tmp_path / "other.csv", "--json")]
    answers = [[answer["answer"] for answer in json.loads(result.stdout)["answers"]] for result in found]
    assert answers == [["In the shed."], ["On its way."]]
    assert not absent("FAQ.csv", ask("bike", "--pipeline", pipeline).exception)


@pytest.mark.parametrize("top_k", [0, -1])
def test_no_answers_are_none_to_ask_for(pipeline: Path, top_k: int) -> None:
    assert ask("q", "--pipeline", pipeline, "--top-k", top_k).exit_code == 2


@pytest.mark.parametrize("precision", ["nan", "-1", "2", "inf"])
def test_a_precision_that_is_no_share(pipeline: Path, precision: str) -> None:
    write(pipeline, [Document(content="parcel")])
    result = ask("parcel", "--pipeline", pipeline, "--precision", precision)
    assert isinstance(result.exception, InputError), repr(result.exception)


def test_an_answer_a_maybe_or_none(pipeline: Path, tmp_path: Path, checkpoint: Path) -> None:
    """As the page says it; of a calibrated checkpoint also how probable it was."""
    write(pipeline, [Document(content=f"{q}\n{a}", meta={"question": q, "answer": a}) for q, a in ENTRIES])
    questions = {"answer": TEXTS[0], "maybe": "is my parcel a battery", "none": "zebra"}
    for outcome, question in questions.items():
        found = json.loads(ask(question, "--pipeline", pipeline, "--json").stdout)
        assert (found["outcome"], found["probability"]) == (outcome, None)
        assert bool(found["answers"]) == (outcome != "none")
        shown = ask(question, "--pipeline", pipeline).output
        assert ("Perhaps:" in shown, "No answer." in shown) == (outcome == "maybe", outcome == "none")
    never = Calibration(1.0, 0.0, 0.0, {}, floor=1e6)
    reconfigure(shutil.copytree(checkpoint, tmp_path / "calibrated"), calibration={"model": never})
    pipeline.write_text(pipeline.read_text().replace(str(checkpoint), str(tmp_path / "calibrated")))
    found = json.loads(ask(questions["maybe"], "--pipeline", pipeline, "--json").stdout)
    assert (found["outcome"], found["basis"], found["answers"]) == ("none", "questions", [])
    assert (
        f"No answer (probability {found['probability']:.3f})." in ask(questions["maybe"], "--pipeline", pipeline).output
    )


def test_what_decisions_rest_on_is_said_at_the_start(
    pipeline: Path, checkpoint: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(pipeline, [Document(content="parcel")])
    shutil.copytree(checkpoint, tmp_path / "calibrated")
    said = {}
    for basis in (Basis.NOTHING, Basis.QUESTIONS, Basis.WORDINGS, Basis.PRIOR):
        fits = {} if basis is Basis.NOTHING else {"model": Calibration(1.0, 0.0, 0.0, {"0.9": 0.5}, basis=basis)}
        reconfigure(tmp_path / "calibrated", calibration=fits)
        search = DeclaredPipeline.load(pipeline)
        ranker = search.ranker()
        assert ranker is not None
        ranker.model = str(tmp_path / "calibrated")
        said[basis] = search.describe_decisions()
        if fits:
            assert "0.8" in said[basis]
            assert "0.9" in search.describe_decisions({"precision": 0.9, "score_threshold": None})
        assert "0.25" in search.describe_decisions({"score_threshold": 0.25})
    assert len(set(said.values())) == len(said)
    assert "ap-ranker calibrate" in said[Basis.NOTHING]
    with caplog.at_level("INFO"):
        ask("parcel", "--pipeline", pipeline, "--json")
    assert caplog.messages.count(said[Basis.NOTHING].replace(str(tmp_path / "calibrated"), str(checkpoint))) == 1
