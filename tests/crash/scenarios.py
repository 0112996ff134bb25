"""What is killed: each command on small data, what must hold whenever it was killed, and how a user goes on."""

from __future__ import annotations

import http.client
import json
import random
import re
import shutil
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from conftest import ROOT, settings_of
from disks import fill
from postgres import programs, running_postgres

from ap_ranker.errors import InputError
from ap_ranker.files import restore
from crash import oracle
from crash.killer import OWNER_KEY, Commands, Ended, Moment, Running
from crash.oracle import expect

WORDS = [
    "parcel",
    "refund",
    "battery",
    "helmet",
    "invoice",
    "account",
    "brake",
    "lease",
    "light",
    "wheel",
    "lock",
    "bell",
]
ASKED = ["where is my {}?", "the {} is gone", "help with {} please", "I need a {} today", "who has my {} now"]
TEXTS = 2100
"""To encode: written in two parts."""
TRAIN = ("train", ".", "--config", "settings.yaml", "--output", "c", "--device", "cpu")


def write_data(folder: Path) -> None:
    """Twelve entries to learn, an index to fill, texts to encode."""

    def rows(patterns: Sequence[str], extra: str = "") -> str:
        pairs = [f"{pattern.format(word)},all about the {word} we know" for word in WORDS for pattern in patterns]
        return "question,answer\n" + "\n".join(pairs) + f"\n{extra}"

    (folder / "train.csv").write_text(rows(ASKED[:3]))
    (folder / "dev.csv").write_text(rows(ASKED[3:]))
    settings = {
        "model": "ap-cnn",
        "options": {"filters": 8},
        "embedding_size": 8,
        "batch_size": 8,
        "epochs": 3,
        "patience": 9,
        "learning_rate": 0.01,
    }
    (folder / "settings.yaml").write_text(json.dumps(settings))
    (folder / "earlier.yaml").write_text(json.dumps(settings | {"seed": 7, "epochs": 1}))
    faq = [f"{ASKED[number % 4].format(WORDS[number % 12])} {number},answer {number}" for number in range(400)]
    (folder / "old.csv").write_text("question,answer\n" + "\n".join(faq[:300]) + "\n")
    (folder / "new.csv").write_text("question,answer\n" + "\n".join(faq[100:]) + "\n")
    texts = [f"{WORDS[number % 12]} number {number}" for number in range(TEXTS)]
    (folder / "texts.csv").write_text("answer\n" + "\n".join(texts) + "\n")
    import yaml

    declared = yaml.safe_load((ROOT / "pipelines" / "faq_search.yaml").read_text())
    settings_of(declared)["ranker"] |= {"model": "c"}
    (folder / "serve.yaml").write_text(yaml.safe_dump(declared))
    settings_of(declared)["retriever"]["document_store"]["init_parameters"] = {"path": "index"}
    (folder / "index.yaml").write_text(yaml.safe_dump(declared))


class Scenario:
    """A command. A trial begins with a copy of `template`; `finish` is what a user does after a kill.

    Attributes:
        name: of the command.
        argv: the command.
        dangerous: patterns of what appears at dangerous steps.
        room: kilobytes that it may find on a full disk, at most; 0 if it is not tried on one.
        seconds: how long it takes unbroken.
    """

    name: str
    argv: Sequence[str]
    dangerous: Sequence[str] = ()
    room = 48
    seconds: float

    def __init__(self, run: Commands, template: Path, scratch: Path) -> None:
        """Measure an unbroken run and keep what it leaves, to compare with."""
        self.run, self.template = run, template
        self.folder = scratch / self.name
        self.begin()
        self.before: Any = self.look()
        ended = self.command()
        expect(ended.code == 0, f"{self.name} succeeds unbroken: {ended}")
        self.seconds = ended.seconds
        self.after: Any = self.look()

    @classmethod
    def missing(cls) -> str:
        """What it needs that is not on this machine; empty if all is there."""
        return ""

    @classmethod
    @contextmanager
    def opened(cls, run: Commands, template: Path, scratch: Path) -> Iterator[Self]:
        """The scenario, with what must run beside its commands."""
        yield cls(run, template, scratch)

    def begin(self) -> None:
        """A folder as it is before the command."""
        if self.folder.exists():  # a mounted disk stays
            for path in self.folder.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(self.template, self.folder, dirs_exist_ok=True)

    def command(self, moment: Moment | None = None) -> Ended:
        """Run the command, or a part of it."""
        return self.run.run(self.folder, *self.argv, moment=moment)

    def look(self) -> Any:
        """What the command has made until now."""
        raise NotImplementedError

    def check(self) -> None:
        """What holds at any moment."""
        raise NotImplementedError

    def finish(self, rng: random.Random) -> None:
        """Go on as the command's messages say, until it is done."""
        ended = self.command()
        expect(ended.code == 0, f"{self.name} succeeds when it is run again: {ended}")

    def kill(self, moment: Moment, rng: random.Random) -> bool:
        """One trial; `False` if the command was faster.

        Raises:
            LostError: something does not hold.
        """
        self.begin()
        ended = self.command(moment)
        expect(ended.killed or ended.code == 0, f"{self.name} is killed or succeeds: {ended}")
        self.check()
        self.finish(rng)
        self.check_end()
        return ended.killed

    def fill_disk(self, rng: random.Random) -> bool:
        """One trial on a disk that has room for a part; `False` if that was enough.

        Raises:
            LostError: something does not hold.
        """
        self.begin()
        fill(self.folder, leave=rng.randrange(0, self.room))
        ended = self.command()
        expect(ended.refused or ended.code == 0, f"{self.name} on a full disk gives one message: {ended}")
        self.check()
        (self.folder / "filler").unlink()
        self.finish(rng)
        self.check_end()
        return ended.code != 0

    def check_end(self) -> None:
        """The end is that of an unbroken run, and nothing else is left."""
        expect(self.look() == self.after, f"{self.name} ends as an unbroken run")
        hidden = [path.name for path in self.folder.rglob(".*")]
        expect(not hidden, f"{self.name} leaves nothing half-made: {hidden}")


class Train(Scenario):
    """A new checkpoint."""

    name = "train"
    argv = TRAIN
    dangerous = ("c.training/checkpoint-*", "c.training/checkpoint-*/*.pt", ".c.*.draft", "c")

    def begin(self) -> None:
        super().begin()
        shutil.rmtree(self.folder / "c", ignore_errors=True)

    def look(self) -> Any:
        return oracle.checkpoint(self.folder / "c") if (self.folder / "c").exists() else None

    def check(self) -> None:
        expect(self.look() in (self.before, self.after), f"{self.name}: the checkpoint is the old one or the new one")

    def finish(self, rng: random.Random) -> None:
        """First without any option; then with those that the message names. Now and then it is killed once more."""
        options: list[str] = []
        while True:
            moment = Moment(rng.uniform(0, self.seconds)) if rng.random() < 0.3 else None
            ended = self.run.run(self.folder, *TRAIN, *options, moment=moment)
            self.check()
            if ended.code == 0:
                return
            if ended.killed:
                options = []
                continue
            expect(ended.refused, f"train explains itself: {ended}")
            named = [option for option in ("--resume", "--overwrite") if option in ended.err]
            if "add --overwrite" not in ended.err:
                named = ["--resume"]
            elif self.look() == self.after and self.after != self.before:
                shutil.rmtree(self.folder / "c.training", ignore_errors=True)
                return  # it had come to its end, but for saying so
            expect(options != sorted(named), f"train does not send its user in a circle: {ended}")
            options = sorted(named)

    def check_end(self) -> None:
        super().check_end()
        expect(not (self.folder / "c.training").exists(), "no state of a finished run is left")


class Retrain(Train):
    """Another checkpoint in the place of an older one, which is there until the new one is."""

    name = "train --overwrite"
    argv = (*TRAIN, "--overwrite")

    def begin(self) -> None:
        Scenario.begin(self)

    def check(self) -> None:
        restore(self.folder / "c")  # as whoever reads a checkpoint does
        expect((self.folder / "c").is_dir(), "there is a checkpoint at any moment")
        super().check()


class Index(Scenario):
    """A changed file into a store that another version of it filled, beside documents of others."""

    name = "index"
    argv = ("index", "new.csv", "--pipeline", "index.yaml")
    dangerous = ("index/documents.sqlite-journal",)

    def begin(self) -> None:
        super().begin()
        shutil.move(self.folder / "filled", self.folder / "index")

    def look(self) -> Any:
        return oracle.entries(self.folder / "index")

    def check(self) -> None:
        found = self.look()
        expect(self.before & self.after <= found, "index: an entry that the file still has is in the store")
        expect(found <= self.before | self.after, "index: nothing else is")

    def check_end(self) -> None:
        super().check_end()
        found = oracle.search(self.folder / "index", "where is my parcel")
        expect(len(found) > 100, "the store is searched")


class Encode(Scenario):
    """Encodings of some thousand texts."""

    name = "encode"
    argv = ("encode", "c", "texts.csv", "--output", "encodings", "--device", "cpu")
    dangerous = ("encodings", "encodings/*")

    def look(self) -> Any:
        folder, texts = self.folder / "encodings", (self.folder / "texts.csv").read_text().split("\n")[1:-1]
        try:
            return oracle.states(folder, self.folder / "c", texts)
        except InputError:  # killed before its first transaction
            return {}

    def check(self) -> None:
        whole = getattr(self, "after", None)
        self.kept = self.look()
        expect(whole is None or self.kept.items() <= whole.items(), "encode: what is there is right")

    def check_end(self) -> None:
        super().check_end()
        expect(self.kept.items() <= self.look().items(), "encode: what was there stays")
        expect(len(self.look()) == TEXTS, "encode: every text is there")


class Calibrate(Scenario):
    """A calibration into a checkpoint's config.json and card."""

    name = "calibrate"
    argv = ("calibrate", "c", ".", "--json", "numbers.json", "--device", "cpu")
    dangerous = ("c/.*", "c/.*/*", ".numbers*")
    room = 8

    def look(self) -> Any:
        numbers = self.folder / "numbers.json"
        return (
            oracle.checkpoint(self.folder / "c"),
            (self.folder / "c" / "README.md").read_text(),
            json.loads(numbers.read_text()) if numbers.exists() else None,
        )

    def check(self) -> None:
        for found, before, after in zip(self.look(), self.before, self.after, strict=True):
            expect(found in (before, after), "calibrate: each file is the old one or the new one")


class Serve(Scenario):
    """Clicks and the owner's edits: what the server said it has kept."""

    name = "serve"
    argv = ("serve", "--documents", "old.csv", "--pipeline", "serve.yaml", "--rate", "0", "--port", "0")
    argv = (*argv, "--log-questions")

    def __init__(self, run: Commands, template: Path, scratch: Path) -> None:
        self.run, self.template, self.folder = run, template, scratch / self.name
        self.seconds, self.number = 0.6, 0
        self.kept, self.edited = set[str](), set[str]()
        self.begin()

    def begin(self) -> None:
        super().begin()
        self.kept, self.edited = set(), set()

    def check(self) -> None:
        for table, kept in (("judgements", self.kept), ("changes", self.edited)):
            lost = kept - self.questions_in(table)
            expect(not lost, f"serve: {len(lost)} of {len(kept)} {table} that it said it has kept are not there")

    def questions_in(self, table: str) -> set[str]:
        """The questions in a table of the server's database, which is whole."""
        return oracle.questions_in(self.folder / "old.db", table)

    def kill(self, moment: Moment, rng: random.Random) -> bool:
        """Two servers one after another, the first one killed while four visitors click."""
        self.begin()
        server, address = self._listening()
        visitors = [threading.Thread(target=self._click, args=(address, 10_000)) for _ in range(4)]
        for visitor in visitors:
            visitor.start()
        time.sleep(0.2)  # until the first clicks arrive
        ended = server.kill_at(moment)
        for visitor in visitors:
            visitor.join()
        expect(ended.killed, f"serve runs until it is killed: {ended}")
        self.check()
        before = len(self.kept)
        server, address = self._listening()
        self._click(address, 3)
        server.kill()
        expect(len(self.kept) == before + 3, "serve: the next server keeps what it is told")
        self.check()
        return before > 0

    def fill_disk(self, rng: random.Random) -> bool:
        """The disk of a running server is full, and then no longer."""
        self.begin()
        server, address = self._listening()
        self._click(address, 3)
        fill(self.folder, leave=rng.randrange(0, 4))
        refused = self._click(address, 60)
        self.check()
        (self.folder / "filler").unlink()
        before = len(self.kept)
        self._click(address, 3)
        server.kill()
        expect(len(self.kept) == before + 3, "serve: there is room again")
        self.check()
        return refused > 0

    def _listening(self) -> tuple[Running, str]:
        server = self.run.start(self.folder, *self.argv)
        while not (found := re.search(r"http://\S+?:\d+/", server.out)):
            if not server.lives:
                raise oracle.LostError(f"serve starts: {server.wait()}")
            time.sleep(0.01)
        return server, found[0]

    def _click(self, address: str, times: int) -> int:
        """Ask, judge and edit so often, or until there is no server; returns how many of these were refused.

        Each visitor comes from a network of its own, so that no quota is used up.
        """
        refused = 0
        for _ in range(times):
            self.number += 1
            question = f"where is my {WORDS[self.number % 12]} {self.number} {threading.get_ident()}"
            visitor = {"X-Forwarded-For": f"10.{self.number // 256 % 256}.{self.number % 256}.1"}
            try:
                answers = _post(f"{address}api/search", {"question": question}, visitor)["answers"]
                _post(f"{address}api/feedback", {**_told(answers[0]), "question": question, "helped": True}, visitor)
                self.kept.add(question)
                if self.number % 5 == 0:
                    edit = {"action": "add entry", "question": question, "answer": "Here."}
                    _post(f"{address}owner/api/change", edit, {"Authorization": f"Bearer {OWNER_KEY}"})
                    self.edited.add(question)
            except urllib.error.HTTPError as error:
                expect(error.code == 503, f"serve: what it cannot keep is answered with 503: {error}")
                refused += 1
            except (OSError, ValueError, http.client.HTTPException):
                return refused  # killed before it said anything
        return refused


class ServeWithPostgres(Serve):
    """The same with a database of PostgreSQL, which lives on when the server is killed."""

    name = "serve-postgres"
    room = 0
    url = ""  # of the databases' server, with the place {name}

    @classmethod
    def missing(cls) -> str:
        return "" if programs() else "PostgreSQL is not installed"

    @classmethod
    @contextmanager
    def opened(cls, run: Commands, template: Path, scratch: Path) -> Iterator[Self]:
        with running_postgres() as cls.url:
            yield cls(run, template, scratch)

    def begin(self) -> None:
        import psycopg

        super().begin()
        name = f"crash_{uuid4().hex[:12]}"
        self.database = self.url.format(name=name)
        with psycopg.connect(self.url.format(name="postgres"), autocommit=True) as connection:
            connection.execute(f"create database {name}")
        self.argv = (*Serve.argv, "--database", self.database)

    def questions_in(self, table: str) -> set[str]:
        import psycopg

        with psycopg.connect(self.database) as connection:
            return {question for (question,) in connection.execute(f"select question from ap_ranker_{table}")}


def _told(answer: dict[str, Any]) -> dict[str, Any]:
    """What the page sends back of an answer."""
    return {name: answer[name] for name in ("id", "receipt") if name in answer}


def _post(url: str, content: dict[str, Any], headers: dict[str, str]) -> Any:
    headers = {"Content-Type": "application/json", **headers}
    request = urllib.request.Request(url, json.dumps(content).encode(), headers)
    with urllib.request.urlopen(request, timeout=120) as response:
        return json.load(response)


SCENARIOS: list[type[Scenario]] = [Train, Retrain, Index, Encode, Calibrate, Serve, ServeWithPostgres]


def prepare(run: Commands, folder: Path) -> None:
    """The template of all trials: data, an older checkpoint and an older index."""
    folder.mkdir()
    write_data(folder)
    earlier = ["earlier.yaml" if part == "settings.yaml" else part for part in TRAIN]
    for argv in (earlier, ["index", "old.csv", "--pipeline", "index.yaml"]):
        ended = run.run(folder, *argv)
        expect(ended.code == 0, f"the template is made: {ended}")
    from haystack import Document

    from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

    store = BM25SDocumentStore(folder / "index")
    store.write_documents([Document(content="of somebody else", meta={"question": "mine"})])
    store.close()
    (folder / "index").rename(folder / "filled")
