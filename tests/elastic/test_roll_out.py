"""From one checkpoint to the next: what is calibrated or trained again, and which indexes are kept meanwhile."""

from __future__ import annotations

import csv
import re
import shutil
from itertools import combinations
from pathlib import Path

import httpx
import pytest
from command_line import run
from conftest import write_checkpoint
from forked import served
from waiting import wait_until

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from web.conftest import postgres  # noqa: F401  fixture
from web.test_retrain import ACCEPTED, TOPICS, accept, click, invented, told, write_faq

from ap_ranker.ranking import loaded_checkpoints
from ap_ranker.ranking.checkpoint import find_trained
from ap_ranker.ranking.fingerprint import fingerprint
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.search.elasticsearch import build_index
from ap_ranker.web.database import open_database
from elastic.conftest import Search
from elastic.test_faults import retriever_of
from elastic.test_index import FAQ, counts, index, write
from elastic.test_site import place  # noqa: F401  fixture

LATER = [*FAQ, ("Do you ship abroad?", "Yes, to everywhere."), ("Is there a warranty?", "Yes, for two years.")]


@pytest.mark.parametrize("name", ["qa-cnn", "ap-transformer"])
def test_a_checkpoint_may_be_calibrated_after_its_index_was_made(search: Search, tmp_path: Path, name: str) -> None:
    """Also on a FAQ that has changed: a server finds the index, and encodes none of the answers."""
    checkpoint = write_checkpoint(name, tmp_path / "checkpoint", bm25_language="english")
    search.write_pipelines(checkpoint)
    index(search, FAQ)
    made = search.current()
    index(search, LATER)
    users = [("what about my parcel", FAQ[0][1]), ("is my money back soon", FAQ[1][1]), ("a warranty?", LATER[4][1])]
    write(tmp_path / "users.csv", users)
    command = ["calibrate", checkpoint, "users.csv", "--answers", search.folder / "faq.csv", "--precision", "0.5"]
    before = (checkpoint / "config.json").read_bytes()
    told(run(*command, folder=tmp_path), 0)
    assert (checkpoint / "config.json").read_bytes() != before
    loaded_checkpoints._loaded.clear()
    server = DeclaredPipeline.load(search.searching)
    server.prepare()
    for question, answer in LATER:
        assert answer in {document.meta["answer"] for document in server.answer(question)[0]}
    assert server.cache_info is not None
    assert server.cache_info.encoded == 0
    assert counts(index(search, LATER)) == [0, 0, 0, len(LATER)]
    assert search.indexes() == [made]


def roll_out(search: Search, folder: Path, number: int) -> str:
    """Make the index of one more checkpoint; its name."""
    search.write_pipelines(write_checkpoint("qa-cnn", folder / str(number), bm25_weight=float(number)))
    index(search, FAQ)
    return search.current()


def test_what_a_server_searches_outlasts_two_roll_outs(
    search: Search, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is deleted once nobody has searched it for a day: what `ap-ranker index` asks itself does not count."""
    first = roll_out(search, tmp_path, 1)
    server = retriever_of(search)
    found = server.run(query=FAQ[0][0])["documents"]
    second = roll_out(search, tmp_path, 2)
    third = roll_out(search, tmp_path, 3)
    for _ in range(2):  # within the day
        index(search, FAQ)
        assert search.indexes() == sorted([first, second, third])
    assert server.run(query=FAQ[0][0])["documents"] == found

    monkeypatch.setattr(build_index, "UNUSED_SECONDS", 0.0)
    index(search, FAQ[:2])
    assert search.indexes() == sorted([first, second, third])
    assert len(server.run(query=FAQ[0][0])["documents"]) == len(FAQ[:2])
    for _ in range(2):  # the first sees that it was searched, the second that it was not again
        assert first in search.indexes()
        index(search, FAQ[:2])
    assert search.indexes() == sorted([second, third])
    assert search.current() == third


def test_what_was_accepted_becomes_the_search(
    search: Search,
    place: str,  # noqa: F811
) -> None:
    """As a user does it: `retrain` a copy, `index --test`, `retrain --take`; a running server takes it."""
    site = search.folder
    faq = write_faq(site)
    checkpoints = site / "checkpoints"
    told(run("train", faq, "--model", "qa-cnn", "--epochs", 3, "--output", "checkpoints/faq", folder=site), 0)
    shutil.copytree(checkpoints / "faq", checkpoints / "new")
    search.write_pipelines(Path("checkpoints/faq"))
    served_file = search.searching.name
    database = open_database(place)
    accepted = accept(database, faq)
    said = "hostile sentence of many"
    click(database, said)
    told(run("index", "FAQ.csv", "--pipeline", served_file, "--database", place, folder=site), 0)
    first = search.current()

    options = ["FAQ.csv", "--pipeline", served_file, "--database", place, "--rate", "0"]
    with (
        served(*options, folder=site) as server,
        httpx.Client(base_url=server.address, timeout=60, trust_env=False) as client,
    ):

        def serves(checkpoint: Path) -> bool:
            labels = re.search(r"^ap_ranker_search_info\{(.*)\}", client.get("/metrics").text, re.MULTILINE)
            return labels is not None and fingerprint(checkpoint)[:12] in labels[1]

        assert serves(checkpoints / "faq")
        retrain = ["retrain", "FAQ.csv", "--model", "checkpoints/new", "--database", place, "--epochs", 12]
        assert "Recommended" in told(run(*retrain, folder=site), 0)
        assert sum(find_trained(checkpoints / "new", accepted) or []) > 0.3 * len(accepted)
        assert find_trained(checkpoints / "new", [said]) == [False]
        assert serves(checkpoints / "faq")

        # Questions of words that the owner has accepted, in other sentences.
        questions = []
        for topic, words in zip(TOPICS, invented(ACCEPTED, seed=2), strict=True):
            for three in list(combinations(words, 3))[::7]:
                questions.append((" ".join(three), f"All that we know of the {topic}."))
        with (site / "NEW.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("question", "answer"), *questions])
        declared = (site / served_file).read_text().replace("checkpoints/faq", "checkpoints/new")
        (site / "new.yaml").write_text(declared)
        tested = ["index", "FAQ.csv", "--test", "NEW.csv", "--pipeline", "new.yaml", "--database", place]
        assert f"Compared with the search in {first}" in told(run(*tested, folder=site), 0)
        assert search.current() != first
        assert serves(checkpoints / "faq")

        told(run("retrain", "--take", "checkpoints/new", folder=site), 0)
        wait_until(lambda: serves(checkpoints / "new"))
        right = 0
        for question, answer in questions:
            answers = client.post("/api/search", json={"question": question}).json()["answers"]
            right += bool(answers) and answers[0]["answer"] == answer
        assert right > 0.5 * len(questions)
        told(run("retrain", "--back", folder=site), 0)
        wait_until(lambda: serves(checkpoints / "faq"))
