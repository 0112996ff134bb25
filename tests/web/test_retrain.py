"""`ap-ranker retrain`: what an owner has accepted becomes a checkpoint, if it is better; a running search follows."""

from __future__ import annotations

import csv
import errno
import json
import os
import random
import re
import shutil
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import combinations
from pathlib import Path
from threading import Event, Thread
from typing import Any

import forked
import httpx
import pytest
from command_line import Ended, run
from conftest import write_checkpoint
from disks import fill, small_disk_or_skip
from forked import ANEW, MAIN, Forked, served
from owner_changes import append_change

from ap_ranker import files
from ap_ranker.data.faq import Match, read_faq
from ap_ranker.data.split import DEV
from ap_ranker.documents.watched_folder import WatchedFolder
from ap_ranker.files import WriteError, locked
from ap_ranker.ranking.checkpoint import CONFIG, find_trained, is_checkpoint, read_checkpoint_config
from ap_ranker.ranking.earlier_checkpoints import KEPT, exchange, go_back, take
from ap_ranker.ranking.outcome import Outcome
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.web.changes import Action, Change, apply_changes, owners_changes
from ap_ranker.web.database import Database, open_database
from ap_ranker.web.judgements import Judgements, key_of_answer, key_of_question
from ap_ranker.web.owner.service import OwnerService
from ap_ranker.web.question_log import QuestionLog

TOPICS = ["parcel", "refund", "battery", "helmet", "invoice", "account", "brake", "lease"]
NAMED = ("--model", "checkpoints/faq")
"""Names the checkpoint: its own training does not recommend it, so that by default the untrained one is searched by."""

PATIENCE = 120.0
"""Seconds in which a search has followed, also on a busy machine: it loads all of the pipeline."""

KNOWN, ACCEPTED = 4, 6
"""Numbers of invented words for a topic, of which two make a wording: those in the FAQ, and those the owner sees."""


def invented(count: int, seed: int) -> list[list[str]]:
    """For each topic, so many words that no other topic has."""
    draw = random.Random(seed)
    word = lambda: "".join(draw.choice("bcdfghklmnprstvz") + draw.choice("aeiou") for _ in range(4))  # noqa: E731
    return [[word() for _ in range(count)] for _ in TOPICS]


def wordings(words: Sequence[str]) -> list[str]:
    return [" ".join(pair) for pair in combinations(words, 2)]


def write_faq(folder: Path) -> Path:
    rows = [
        (f"What about the {topic}?", f"All that we know of the {topic}.", "\n".join(wordings(words)))
        for topic, words in zip(TOPICS, invented(KNOWN, seed=1), strict=True)
    ]
    with (folder / "FAQ.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("question", "answer", "wordings"), *rows])
    return folder / "FAQ.csv"


def accept(database: Database, faq: Path, count: int = ACCEPTED) -> list[str]:
    """Accept wordings of words that the FAQ does not have; returns them."""
    entries = apply_changes(read_faq(faq), []).entries
    accepted = list(map(wordings, invented(count, seed=2)))
    for keyed, texts in zip(entries, accepted, strict=True):
        of = keyed.entry.question
        append_change(database, Change.make(Action.add_wordings, entry=keyed.key, of=of, wordings=tuple(texts)))
    return [text for texts in accepted for text in texts]


def click(database: Database, question: str, topic: str = TOPICS[0], networks: int = 12) -> dict[str, str]:
    """Let so many networks say that an answer helped; returns the keys that the owner decides by."""
    answer = f"What about the {topic}?\nAll that we know of the {topic}."
    asked = f"What about the {topic}?"
    for network in range(networks):
        given: dict[str, Any] = {"question": question, "answer": answer, "stored_question": asked, "helped": True}
        Judgements(database).keep(**given, network=str(network))
    return {"question_key": key_of_question(question), "answer_key": key_of_answer(answer)}


def contents(folder: Path) -> dict[str, bytes]:
    files = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in files.items()}


def told(ended: Ended, code: int) -> str:
    assert ended.code == code, (ended.output, ended.errors)
    return " ".join((ended.output + ended.errors).split())


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a FAQ and a checkpoint of it, which has seen all its wordings."""
    folder = tmp_path_factory.mktemp("trained")
    faq = write_faq(folder)
    told(run("train", faq, "--model", "qa-cnn", "--epochs", 3, "--output", "checkpoints/faq", folder=folder), 0)
    return folder


@pytest.fixture
def site(trained: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(trained, tmp_path / "site")


@pytest.fixture
def database(site: Path) -> Database:
    return open_database(str(site / "FAQ.db"))


@pytest.fixture(scope="module")
def retrained(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, list[str], list[str]]:
    """The same after a retraining: its folder, what was printed, what was accepted, and what only visitors said."""
    site = shutil.copytree(trained, tmp_path_factory.mktemp("retrained") / "site")
    database = open_database(str(site / "FAQ.db"))
    accepted = accept(database, site / "FAQ.csv")
    said = [f"hostile sentence number {number}" for number in range(3)]
    with_clicks = [click(database, text) for text in said]
    owner_service = (
        OwnerService(  # the owner rejects one, accepts another and takes that back, and has not seen the third
            DeclaredPipeline.load(Path("pipelines/faq_search.yaml")),
            read_documents(site / "FAQ.csv", database),
            Match.both,
            database,
        )
    )
    owner_service.decide("rejected", **with_clicks[0], wording=said[0])
    entry = owner_service.entries(TOPICS[0])["entries"][0]["key"]
    owner_service.decide("accepted", **with_clicks[1], wording=said[1], entry=entry)
    owner_service.undo(owner_service.history()[0]["id"])
    log = QuestionLog(database)
    log.add("hostile question of the log", "network", Outcome.NONE, [])
    log.close()
    printed = told(run("retrain", "FAQ.csv", *NAMED, "--epochs", 12, folder=site), 0)
    return site, printed, accepted, [*said, "hostile question of the log"]


def read_documents(faq: Path, database: Database) -> WatchedFolder:
    documents = WatchedFolder(faq, None, owners_changes(database.place))
    documents.read()
    return documents


def test_accepted_wordings_become_the_checkpoint(
    retrained: tuple[Path, str, list[str], list[str]], trained: Path
) -> None:
    site, printed, accepted, _ = retrained
    live, before = site / "checkpoints" / "faq", trained / "checkpoints" / "faq"
    learnt = find_trained(live, accepted)
    assert learnt is not None
    assert not any(find_trained(before, accepted) or [])
    assert 0.3 * len(accepted) < sum(learnt) < 0.6 * len(accepted)  # half of them compare, and some choose the epoch
    compared = re.search(r"On (\d+) questions that neither has learnt from", printed)
    assert compared is not None
    assert len(accepted) // 2 <= int(compared[1]) < len(accepted)
    assert "Recommended" in printed
    assert contents(site / "checkpoints" / "faq.earlier" / "1") == contents(before)
    assert {path.name for path in (site / "checkpoints").iterdir()} == {"faq", "faq.earlier"}
    served = read_checkpoint_config(live).calibration
    assert served["model"].thresholds  # `train` calibrates, too


def test_what_nobody_accepted_is_never_learnt(retrained: tuple[Path, str, list[str], list[str]]) -> None:
    """Neither clicks of many networks, nor what the owner rejected, or accepted and took back, nor the log."""
    site, _, accepted, said = retrained
    live = site / "checkpoints" / "faq"
    assert find_trained(live, said) == [False] * len(said)
    chosen = [json.loads(line)["question"] for line in (live / DEV).read_text().splitlines()]
    assert set(chosen) & set(accepted)
    for path in (site / "checkpoints").rglob("*"):
        assert path.is_dir() or b"hostile" not in path.read_bytes(), path


def test_what_compared_is_learnt_by_the_next_one(retrained: tuple[Path, str, list[str], list[str]]) -> None:
    """It has chosen the epoch, so it is not new any more: without anything new, nothing can be compared."""
    site, _, accepted, _ = retrained
    chosen = {json.loads(line)["question"] for line in (site / "checkpoints" / "faq" / DEV).read_text().splitlines()}
    new = [
        text
        for text, seen in zip(accepted, find_trained(site / "checkpoints" / "faq", accepted) or [], strict=True)
        if not seen
    ]
    assert set(new) <= chosen
    assert "at least 2 wordings that are new to it" in told(run("retrain", "FAQ.csv", *NAMED, folder=site), 2)


def test_a_running_search_switches_and_goes_back(
    retrained: tuple[Path, str, list[str], list[str]], tmp_path: Path
) -> None:
    """Whoever asks meanwhile gets an answer, before or after the change, each of them one of the two."""
    site = shutil.copytree(retrained[0], tmp_path / "site")
    live, earlier = site / "checkpoints" / "faq", site / "checkpoints" / "faq.earlier"
    told(run("retrain", "--back", folder=site), 0)  # so that the server begins with the former
    question = next(
        text for text, seen in zip(retrained[2], find_trained(live, retrained[2]) or [], strict=True) if not seen
    )
    orders: list[tuple[str, ...]] = []
    failed: list[int] = []
    stopped = Event()

    def ask(client: httpx.Client) -> tuple[str, ...]:
        response = client.post("/api/search", json={"question": question})
        if response.status_code != httpx.codes.OK:
            failed.append(response.status_code)
            return ()
        if response.json()["outcome"] != "answer":  # BM25 alone answers at first, with maybes
            return ()
        return tuple(f"{answer['answer']} {answer['score']:.6f}" for answer in response.json()["answers"])

    def keep_asking(address: str) -> None:
        with httpx.Client(base_url=address, timeout=60, trust_env=False) as client:
            while not stopped.wait(0.05):  # the server needs some of the time for the change
                orders.append(ask(client))

    def wait_for_another(order: tuple[str, ...]) -> tuple[str, ...]:
        end = time.monotonic() + PATIENCE
        while orders[-1] == order:
            assert time.monotonic() < end, "the search has not followed"
            time.sleep(0.05)
        return orders[-1]

    with served("FAQ.csv", *NAMED, "--rate", "0", "--score-threshold", "0", folder=site) as server:
        with httpx.Client(base_url=server.address, timeout=60, trust_env=False) as client:
            while not (former := ask(client)):
                time.sleep(0.1)
        asking = Thread(target=keep_asking, args=[server.address])
        try:
            orders.append(former)
            asking.start()
            told(run("retrain", "--back", folder=site), 0)
            new = wait_for_another(former)
            told(run("retrain", "--back", folder=site), 0)
            assert wait_for_another(new) == former
        finally:
            stopped.set()
            asking.join()
    assert not failed
    assert set(orders) == {former, new}
    assert len(list(earlier.iterdir())) <= KEPT


def test_no_new_wordings(place: str, site: Path) -> None:
    """Of SQLite and PostgreSQL: only accepted ones count, whatever visitors say."""
    website, before = open_database(place), contents(site / "checkpoints")
    for number in range(61):
        click(website, f"hostile sentence number {number}", networks=1)
    message = told(run("retrain", "FAQ.csv", *NAMED, "--database", place, folder=site), 2)
    assert "at least 2 wordings that are new to it" in message
    assert "found 0. " in message
    assert contents(site / "checkpoints") == before


def test_what_is_refused(site: Path, database: Database, tmp_path: Path) -> None:
    live = site / "checkpoints" / "faq"
    assert "FAQ that is searched" in told(run("retrain", folder=site), 2)
    assert "earlier checkpoint" in told(run("retrain", "--back", folder=site), 2)
    assert "serve" in told(run("retrain", "FAQ.csv", "--database", "none.db", folder=site), 2)
    (site / "checkpoints" / "faq.retraining").mkdir()
    with locked(site / "checkpoints" / "faq.retraining"):
        assert "retraining there. Wait for it." in told(run("retrain", "FAQ.csv", folder=site), 2)
        assert "retraining there. Wait for it." in told(run("retrain", "--back", folder=site), 2)
    other = site / "other.csv"
    other.write_text(
        "question,answer\n" + "".join(f"{n} Wie geht das {n}?,Ganz anders als {n} und {n}.\n" for n in range(9))
    )
    open_database(str(site / "other.db"))
    for named in ((), NAMED):  # whether it would be searched by or not, it would be replaced
        assert "ap-ranker train other.csv" in told(run("retrain", "other.csv", *named, folder=site), 2)
    (live / "trained_questions.txt").unlink()
    assert "trained_questions.txt" in told(run("retrain", "FAQ.csv", *NAMED, folder=site), 2)
    config = json.loads((live / CONFIG).read_text())
    config["training"]["teacher"] = "cross-encoder:some"
    (live / CONFIG).write_text(json.dumps(config))
    assert "distill" in told(run("retrain", "FAQ.csv", *NAMED, folder=site), 2)


def test_without_the_extra_for_training(site: Path, database: Database) -> None:
    hide = "sys.modules |= dict.fromkeys(n for n in ['scipy', *sys.modules] if n.split('.')[0] == 'scipy')\n"
    ended = forked.run(f"{ANEW}{hide}{MAIN}", "retrain", "FAQ.csv", folder=site)
    assert 'pip install "ap-ranker[train]"' in ended.stderr, ended.stderr
    assert ended.returncode == 2


@pytest.mark.slow
def test_what_is_not_better_changes_nothing(site: Path, database: Database) -> None:
    """Wordings of which no word says what they ask for: what is learnt from half of them is no use for the others."""
    draw = random.Random(5)
    entries = apply_changes(read_faq(site / "FAQ.csv"), []).entries
    for keyed in entries:
        texts = tuple(f"{draw.getrandbits(64):x} {draw.getrandbits(64):x}" for _ in range(10))
        of = keyed.entry.question
        append_change(database, Change.make(Action.add_wordings, entry=keyed.key, of=of, wordings=texts))
    before = contents(site / "checkpoints")
    assert "faq stays as it was" in told(run("retrain", "FAQ.csv", "--epochs", 1, folder=site), 3)
    assert contents(site / "checkpoints") == before


@pytest.mark.slow
def test_a_killed_training_leaves_all_as_it_was(site: Path, database: Database) -> None:
    accept(database, site / "FAQ.csv")
    before = contents(site / "checkpoints")
    with Forked(MAIN, "retrain", "FAQ.csv", "--epochs", 1000, folder=site) as process:
        assert any("epoch" in line for line in process.stdout)
        assert "retraining there" in told(run("retrain", "FAQ.csv", folder=site), 2)
        process.kill()
    live = {name: content for name, content in contents(site / "checkpoints").items() if name.startswith("faq/")}
    assert live == before
    assert "earlier checkpoint" in told(run("retrain", "--back", folder=site), 2)  # it is not locked any more
    assert contents(site / "checkpoints") == before  # and what was left behind is gone


# The exchange alone, which takes no training.


@pytest.fixture
def three(tmp_path: Path) -> Iterator[tuple[Path, Path, Path]]:
    """The live checkpoint, and two others."""
    folders = [tmp_path / name for name in ("live", "second", "third")]
    for folder in folders:
        write_checkpoint("qa-cnn", folder)
        config = json.loads((folder / CONFIG).read_text())
        (folder / CONFIG).write_text(json.dumps(config | {"floor": float(len(folder.name))}))
    yield folders[0], folders[1], folders[2]


def test_back_is_the_one_before_and_again_the_one_after(three: tuple[Path, Path, Path]) -> None:
    live, second, third = three
    texts = [contents(folder) for folder in three]
    exchange(live, second, live)
    exchange(live, third, live)
    for expected in (texts[1], texts[2], texts[1], texts[2]):
        go_back(live)
        assert contents(live) == expected
    go_back(live)  # to the second
    shutil.copytree(three[2], live.with_name("fourth"))
    fourth = live.with_name("fourth")
    (fourth / CONFIG).write_text((fourth / CONFIG).read_text().replace("5.0", "7.0"))
    exchange(live, fourth, live)
    go_back(live)
    assert contents(live) == texts[1]
    assert len(list(Path(f"{live}.earlier").iterdir())) == KEPT


def test_a_ready_one_takes_its_place(three: tuple[Path, Path, Path]) -> None:
    live, second, third = three
    before, taken = contents(live), contents(second)
    said = told(run("retrain", "--take", "second", "--model", "live", folder=live.parent), 0)
    assert contents(live) == taken == contents(second)
    assert "retrain --back --model live" in said
    told(run("retrain", "--back", "--model", "live", folder=live.parent), 0)
    assert contents(live) == before
    take(third.with_name("new"), third)  # where none was
    assert contents(third.with_name("new")) == contents(third)


@pytest.mark.parametrize("taken", ["nothing", "live", "."])
def test_what_is_none_or_the_same_changes_nothing(three: tuple[Path, Path, Path], taken: str) -> None:
    live = three[0]
    before = contents(live.parent)
    assert taken in told(run("retrain", "--take", taken, "--model", "live", folder=live.parent), 2)
    told(run("retrain", "--take", "second", "--back", "--model", "live", folder=live.parent), 2)
    assert contents(live.parent) == before


STEPS: list[tuple[Any, str]] = [
    (shutil, "copytree"),
    (files, "_exchange"),
    (files, "_publish"),
    (files, "_finish"),
    (Path, "rename"),
    (shutil, "rmtree"),
]


@pytest.mark.parametrize("place", range(len(STEPS)), ids=[f"{owner.__name__}.{name}" for owner, name in STEPS])
@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_while_it_exchanges(three: tuple[Path, Path, Path], place: int, when: str) -> None:
    """Killed at each call of each step in turn: there is always one whole checkpoint, and the next run succeeds."""
    live, second, _ = three
    old, new = contents(live), contents(second)
    owner, name = STEPS[place]
    for call in range(1, 20):
        ended = _killed_at(owner, name, call, when, lambda: exchange(live, second, live))
        files.restore(live)  # as every reader does
        assert is_checkpoint(live)
        assert contents(live) in (old, new)
        for each in Path(f"{live}.earlier").glob("[0-9]"):
            assert contents(each) == old
        if not ended:
            break
        if contents(live) == old:
            exchange(live, second, live)
        assert contents(live) == new
        go_back(live)
        assert contents(live) == old
        shutil.rmtree(Path(f"{live}.earlier"))
    else:
        raise AssertionError("it never ends")
    assert {path.name for path in live.parent.iterdir()} <= {"live", "live.earlier", "second", "third"}


def _killed_at(owner: Any, name: str, number: int, when: str, work: Any) -> bool:
    """Whether a fork of this process, which works, came to the call of this number; it is killed there."""
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            calls, function = 0, getattr(owner, name)

            def killing(*arguments: Any, **options: Any) -> Any:
                nonlocal calls
                calls += 1
                if calls == number and when == "before":
                    os.kill(os.getpid(), signal.SIGKILL)
                result = function(*arguments, **options)
                if calls == number:
                    os.kill(os.getpid(), signal.SIGKILL)
                return result

            setattr(owner, name, killing)
            work()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def test_a_full_disk_leaves_the_live_one(three: tuple[Path, Path, Path], tmp_path: Path) -> None:
    kilobytes = 2 * sum(map(len, contents(three[0]).values())) // 1024 + 64
    with small_disk_or_skip(tmp_path / "disk", kilobytes) as disk:
        live = shutil.copytree(three[0], disk / "live")
        before = contents(live)
        fill(disk, leave=1)
        with pytest.raises(WriteError):
            exchange(live, three[1], live)
        assert contents(live) == before


def test_a_write_that_fails_leaves_the_live_one(
    three: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    live, second, _ = three
    before, copy = contents(live), shutil.copytree

    def failing(source: Path, target: Path, **options: Any) -> Path:
        if source == second:
            raise OSError(errno.ENOSPC, "No space left on device")
        return copy(source, target, **options)

    monkeypatch.setattr(shutil, "copytree", failing)
    with pytest.raises(WriteError):
        exchange(live, second, live)
    assert contents(live) == before
