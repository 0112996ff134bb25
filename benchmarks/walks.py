"""How far is each way through this project? Files that it passes, and how often one room calls another.

python -m benchmarks.walks --before ../earlier-checkout

Five ways, each through a small FAQ and a checkpoint with random weights, which `tests/conftest.py` of this checkout
writes: a warm question of the default search; the same question on the website, as a request; a training of one epoch,
from the file of its pairs to the checkpoint; a visitor's sentence that the owner accepts, until it is a wording of an
entry; a new answer that is encoded, kept in memory and on disk, and read from there. A checkout that cannot go a way,
because its functions had other names, has a dash there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Annotated

import typer

ROOT = Path(__file__).parents[1]

ENTRIES = [
    ("Where is my parcel?", "Open the tracking link in our mail."),
    ("Can I return a bike?", "Yes, within thirty days of the delivery."),
    ("Which battery fits?", "The one with the number of the frame."),
    ("When are you open?", "From nine to six, on Saturdays until one."),
]
WARM_QUESTIONS = ["where is my parcel", "my parcel where is it", "is my parcel where"]
QUESTION = "parcel is where my"
REQUESTED = "my parcel is where"
"""Of the words of earlier questions, but new: all searches of a process share what is encoded."""

SENTENCE = "has the postman lost it"
NEW_ANSWER = "Ask at the counter, please."

CALIBRATION = {"score": 3.0, "margin": 1.0, "bias": 0.0, "thresholds": {}}


@dataclass
class Walk:
    """The files of our packages whose functions a call runs, with the number of calls; and what crosses rooms.

    `room_changes` counts the calls of a function by one of another room, directly or through a library, or through a
    file that any room may use. What a thread begins with is called by nobody.
    """

    files: dict[str, int] = field(default_factory=dict)
    room_changes: int = 0


class Walks:
    """Counts walks through a checkout's packages, also in threads that start after it was made."""

    def __init__(self, checkout: Path) -> None:
        self._checkout = checkout
        self._folders = tuple(str(checkout / folder) + os.sep for folder in ("ap_ranker", "haystack_integrations"))
        self._walk: Walk | None = None
        threading.setprofile(self._count)

    def of(self, call: Callable[[], object]) -> Walk:
        """The walk of a call."""
        walk = self._walk = Walk()
        sys.setprofile(self._count)
        try:
            call()
        finally:
            sys.setprofile(None)
            self._walk = None
        return walk

    def close(self) -> None:
        """Let threads that start from now on be as fast as usual."""
        threading.setprofile(None)

    def _count(self, frame: FrameType, event: str, _: object) -> None:
        walk = self._walk
        file = frame.f_code.co_filename
        if walk is None or event != "call" or not file.startswith(self._folders):
            return
        name = str(Path(file).relative_to(self._checkout))
        walk.files[name] = walk.files.get(name, 0) + 1
        room = self._room_of(frame)
        caller = frame.f_back
        while caller is not None and self._room_of(caller) is None:
            caller = caller.f_back
        if room is not None and caller is not None and self._room_of(caller) != room:
            walk.room_changes += 1

    def _room_of(self, frame: FrameType) -> str | None:
        """`haystack_integrations`, or the folder of `ap_ranker`; `None` of other code and of what any room may use."""
        file = frame.f_code.co_filename
        if not file.startswith(self._folders):
            return None
        package, *inside = Path(file).relative_to(self._checkout).parts
        if package == "haystack_integrations":
            return package
        return inside[0] if len(inside) > 1 else None


def walk_of(call: Callable[[], object], checkout: Path) -> Walk:
    """The walk of a call through a checkout's packages, in this thread."""
    walks = Walks(checkout)
    try:
        return walks.of(call)
    finally:
        walks.close()


def write_faq(folder: Path) -> Path:
    """A FAQ of some entries."""
    path = folder / "faq.csv"
    rows = "".join(f'"{question}","{answer}"\n' for question, answer in ENTRIES)
    path.write_text(f"question,answer\n{rows}", encoding="utf-8")
    return path


@contextmanager
def _searched(folder: Path, checkpoint: Path, overlay: object = None) -> Iterator[tuple[object, object]]:
    """The setup and the search of the default pipeline, warm."""
    from ap_ranker.search.setup import set_up

    with set_up(write_faq(folder), model=str(checkpoint), overlay=overlay) as setup:  # type: ignore[arg-type]
        search, documents = setup.load()
        setup.warm_up(search, documents)
        for question in WARM_QUESTIONS:
            search.answer(question)
        yield setup, search


def warm_question(walks: Walks, folder: Path, checkpoint: Path) -> Walk:
    """A warm question of the default search."""
    with _searched(folder, checkpoint) as (_, search):
        return walks.of(partial(search.answer, QUESTION))  # type: ignore[attr-defined]


def web_question(walks: Walks, folder: Path, checkpoint: Path) -> Walk:
    """A warm question as a request of the page, from its bytes to those of the reply."""
    from starlette.testclient import TestClient

    from ap_ranker.web.app import build_app
    from ap_ranker.web.database import open_database
    from ap_ranker.web.judgements import Judgements

    with _searched(folder, checkpoint) as (_, search):
        app = build_app(search, Judgements(open_database(folder / "faq.db")))  # type: ignore[arg-type]
        client = TestClient(app, "http://localhost")

        def ask(question: str) -> None:
            reply = client.post("/api/search", json={"question": question})
            assert reply.status_code == 200, reply.text
            assert reply.json()["answers"]

        for question in WARM_QUESTIONS:
            ask(question)
        return walks.of(partial(ask, REQUESTED))


def training_pair(walks: Walks, folder: Path, checkpoint: Path) -> Walk:
    """A file of pairs that a model learns from for an epoch."""
    from ap_ranker.data.reader import read_dataset
    from ap_ranker.training.config import TrainingConfig
    from ap_ranker.training.train import train

    path = write_faq(folder)
    config = TrainingConfig(model="ap-cnn", epochs=1, batch_size=2, max_tokens=20)

    def learn() -> None:
        data = read_dataset(path, "train")
        train(data, data, folder / "trained", config, device="cpu")

    return walks.of(learn)


def accepted_wording(walks: Walks, folder: Path, checkpoint: Path) -> Walk:
    """A visitor's sentence that the owner accepts, until the documents to search have it."""
    from ap_ranker.data.faq import DEFAULT_MATCH, read_faq
    from ap_ranker.web.changes import owners_changes
    from ap_ranker.web.database import open_database
    from ap_ranker.web.judgements import Judgements
    from ap_ranker.web.owner.service import OwnerService

    database = open_database(folder / "faq.db")
    entry = read_faq(write_faq(folder))[0]
    judgement = {"question": SENTENCE, "answer": entry.text(DEFAULT_MATCH), "stored_question": entry.question}
    Judgements(database).keep(**judgement, helped=True, network="n")  # type: ignore[arg-type]
    with _searched(folder, checkpoint, owners_changes(database.place)) as (setup, search):
        documents = setup.documents  # type: ignore[attr-defined]
        owner = OwnerService(search, documents, DEFAULT_MATCH, database)  # type: ignore[arg-type]
        [row] = owner.feedback_rows()
        keys = {"question_key": row["question_key"], "answer_key": row["answer_key"]}

        def accept() -> None:
            owner.decide("accepted", **keys, wording=SENTENCE, entry=row["key"])
            entries = documents.read()
            assert SENTENCE in entries[0].wordings

        return walks.of(accept)


def encoded_answer(walks: Walks, folder: Path, checkpoint: Path) -> Walk:
    """A new answer that is encoded and kept, for a question that is encoded already; and its next question."""
    from ap_ranker.ranking.loaded_checkpoints import flush_encodings
    from ap_ranker.ranking.ranker import Ranker

    ranker = Ranker.from_pretrained(checkpoint, "cpu")
    ranker.keep_states(folder / "states")
    ranker.use_cache(10**8)
    ranker.score(QUESTION, [answer for _, answer in ENTRIES])
    flush_encodings()

    def encode() -> None:
        ranker.score(QUESTION, [NEW_ANSWER])
        flush_encodings()

    return walks.of(encode)


WALKS = {
    "a warm question": warm_question,
    "a web question": web_question,
    "a training pair": training_pair,
    "an accepted wording": accepted_wording,
    "an encoded answer": encoded_answer,
}


def write_random_checkpoint(folder: Path) -> Path:
    """A checkpoint as training leaves it: calibrated, with weights of known wordings and of BM25."""
    sys.path += [str(ROOT), str(ROOT / "tests")]
    from conftest import write_checkpoint

    from ap_ranker.ranking.rule import FUSED, MODEL, Calibration

    calibration = {kind: Calibration(**CALIBRATION) for kind in (MODEL, FUSED)}  # type: ignore[arg-type]
    weights = {"wording_weight": 0.3, "bm25_weight": 0.02, "bm25_language": "english"}
    return Path(write_checkpoint("ap-transformer", folder, calibration=calibration, **weights))


def measure(checkout: Path, checkpoint: Path) -> dict[str, str]:
    """In a process of a checkout: files / changes of room of each way, or why it cannot go there."""
    walks = Walks(checkout)
    measured: dict[str, str] = {}
    for name, go in WALKS.items():
        with TemporaryDirectory() as folder:
            try:
                walk = go(walks, Path(folder), checkpoint)
            except Exception as error:  # functions of another checkout may be others
                measured[name] = f"– ({type(error).__name__})"
            else:
                measured[name] = f"{len(walk.files)} / {walk.room_changes}"
    return measured


def _measured(checkout: Path, checkpoint: Path) -> dict[str, str]:
    command = [sys.executable, __file__, str(checkout), str(checkpoint)]
    environment = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=checkout, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    measured: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return measured


def main(
    before: Annotated[Path | None, typer.Option(help="Another checkout of this project to compare with.")] = None,
) -> None:
    """Print the files and the changes of room of each way."""
    from ap_ranker.evaluation.markdown import markdown_table

    checkouts = {"this": ROOT} | ({} if before is None else {"before": before.resolve()})
    rows: list[list[str]] = []
    with TemporaryDirectory() as folder:
        checkpoint = write_random_checkpoint(Path(folder) / "checkpoint")
        columns = [_measured(checkout, checkpoint) for checkout in checkouts.values()]
    for name in WALKS:
        cells = [measured[name] for measured in columns]
        rows.append([name, *cells])
    typer.echo(markdown_table(["files / changes of room", *checkouts], rows))


if __name__ == "__main__":
    if len(sys.argv) == 3 and not sys.argv[1].startswith("-"):
        typer.echo(json.dumps(measure(Path(sys.argv[1]), Path(sys.argv[2]))))
    else:
        typer.run(main)
