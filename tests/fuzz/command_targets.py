"""The command line, asked in process for what no manual says."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from unittest.mock import patch

import yaml
from command_line import run
from conftest import settings_of

from ap_ranker.web.database import open_at, open_database
from ap_ranker.web.judgements import Judgements

from .data_targets import BY_ID, FEEDBACK, JUDGED, PAIRS, SPACE, table
from .mutations import NASTY_TEXTS
from .search_targets import QUESTION, write_pipeline
from .target import Target, expect

COMMANDS = {
    "check": "check judged.csv --dev pairs.csv --test pairs.csv --json found.json --fix fixed.csv",
    "check-by-id": "check by_id --answers by_id/answers.csv",
    "evaluate": "evaluate checkpoint by_id --answers by_id/answers.csv --match both "
    "--dtype float16 --compare checkpoint --json numbers.json --device cpu",
    "calibrate": "calibrate checkpoint judged.csv --test judged.csv --precision 0.8,0.9 --share 0.1 "
    "--json numbers.json --device cpu",
    "encode": "encode checkpoint pairs.csv --output encodings --dtype int8 --match answer --device cpu",
    "index": "index pairs.csv --pipeline stored.yaml --match both",
    "ask": f"ask {QUESTION.replace(' ', '_')} --documents pairs.csv --pipeline search.yaml --match both --top-k 2 "
    "--precision 0.8 --json",
    "explain": "explain checkpoint --question parcel --answer parcel --output page.html --device cpu",
    "models": "models ap-cnn",
    "serve": "serve --documents pairs.csv --pipeline search.yaml --match both --precision 0.8 --database clicks.db "
    "--log-questions --keep-days 30 --identity-header X-Forwarded-User "
    "--host 127.0.0.1 --port 0 --allowed-host search.example --rate 5",
    "gaps": "owner gaps pairs.csv --model checkpoint --database faq.db --match both --output gaps.csv",
    "changes": "owner changes pairs.csv --database faq.db --columns question,answer --output new.csv",
    "feedback-list": "owner feedback list --database faq.db",
    "feedback-export": "owner feedback export said.csv --database faq.db",
    "feedback-delete": "owner feedback delete --database faq.db --sentence parcel",
    "train": "train pairs.csv --output trained --model bm25 --dev pairs.csv --feedback feedback.jsonl --match both "
    "--config settings.yaml --seed 1 --license mit --device cpu",
    "train-epoch": "train pairs.csv --output trained --model qa-cnn --dev pairs.csv --epochs 1 "
    "--embeddings vectors.txt --seed 2 --device cpu",
    "tune": "tune pairs.csv --space space.yaml --output search --trials 1 --config settings.yaml --dev pairs.csv "
    "--seed 1 --device cpu --timeout 1",
    "compare": "compare pairs.csv --models bm25 --output compared --seeds 1 --dev pairs.csv --test pairs.csv "
    "--epochs 1 --json numbers.json --table table.md --device cpu",
}
COSTLY = ("--epochs", "--trials", "--seeds", "--questions", "--candidates", "--timeout")
"""Options that ask for work: more of it is no fault."""

EXIT_CODES = (0, 1, 2, 3)


def _write(command: str, folder: Path) -> None:
    """A folder with all that a command may read, and the command."""
    write_pipeline(folder)
    declared = yaml.safe_load((folder / "search.yaml").read_text())
    settings_of(declared)["retriever"]["document_store"]["init_parameters"] = {"path": "store"}
    (folder / "stored.yaml").write_text(yaml.safe_dump(declared, sort_keys=False))
    (folder / "pairs.csv").write_bytes(table(PAIRS, ".csv"))
    (folder / "judged.csv").write_bytes(table(JUDGED, ".csv"))
    (folder / "feedback.jsonl").write_bytes(table(FEEDBACK, ".jsonl"))
    database = open_database(folder / "faq.db")
    for said in FEEDBACK:
        texts = {name: said[name] for name in ("question", "answer", "stored_question")}
        Judgements(database).keep(**texts, helped=said["label"] == "1", network=said["question"])
    database.close()
    (folder / "by_id").mkdir()
    for name, rows in BY_ID.items():
        (folder / "by_id" / f"{name.replace('train', 'test')}.csv").write_bytes(table(rows, ".csv"))
    (folder / "settings.yaml").write_text("model: ap-cnn\nembedding_size: 8\nepochs: 1\n")
    (folder / "space.yaml").write_text(yaml.safe_dump({"learning_rate": SPACE["learning_rate"]}))
    (folder / "vectors.txt").write_text("parcel 0.5 -0.5\nmoney 0.25 0.75\n")
    (folder / "arguments.json").write_text(json.dumps(COMMANDS[command].split()))


def mutate_arguments(folder: Path, rng: Random) -> None:
    """Arguments of other kinds, lost, repeated or in another place."""
    arguments = json.loads((folder / "arguments.json").read_text())
    for _ in range(rng.choice((1, 1, 2))):
        place = rng.randrange(1, max(len(arguments), 2))
        kind = rng.randrange(8)
        if kind < 5:
            arguments[place : place + 1] = [rng.choice((*NASTY_TEXTS, *_files(folder)))]
        elif kind == 5:
            del arguments[place : place + rng.choice((1, 2))]
        elif kind == 6:
            arguments[place:place] = arguments[place : place + 2]
        else:
            arguments.insert(place, rng.choice(("--unknown", "--overwrite", "--resume", "-x", "--help")))
    (folder / "arguments.json").write_text(json.dumps([_possible(each) for each in _affordable(arguments)]))


def _files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def _possible(argument: str) -> str:
    """As a shell can pass it: without NUL, and what is not UTF-8 as the bytes that it was."""
    return os.fsdecode(argument.replace("\0", "").encode("utf-8", "replace"))[:100_000]


def _affordable(arguments: list[str]) -> list[str]:
    """Any values of options that ask for work, but no large ones."""
    return [
        "2" if before in COSTLY and value.strip("-").isdigit() and len(value) > 1 else value
        for before, value in zip(["", *arguments], arguments, strict=False)
    ]


def use_command(folder: Path) -> None:
    """An exit code that the manual knows; after a mistake one short message; nothing that moves a terminal's cursor."""
    arguments = json.loads((folder / "arguments.json").read_text())
    open_at.cache_clear()  # another input had a file of this name
    with patch("ap_ranker.web.connections.run"):  # a server ends where it would begin to wait
        ended = run(*arguments, folder=folder)
    code, output, errors = ended.code, ended.output, ended.errors
    expect(code in EXIT_CODES, f"exit code {code}: {errors[:300]}")
    for words in ("Traceback", "bug in ap-ranker"):
        expect(words not in output + errors, f"{words}: {errors[-300:]}")
    expect("\x1b" not in output + errors, f"an escape sequence was printed: {(output + errors)[:300]!r}")
    if code == 2 and "─ Error ─" not in errors:  # which is how typer tells of an option that it does not know
        message = errors[errors.find("Error:") :].strip()
        expect(message.startswith("Error:"), f"no message: {errors[-300:]!r}")
        expect(message.count("\n") < 3, f"a message of many lines: {message[:300]!r}")
        expect(len(message) < 2_000, f"a message of {len(message)} characters: {message[:100]!r}")


VARIANTS: dict[str, Callable[[Path], None]] = {name: partial(_write, name) for name in COMMANDS}
TARGETS = [Target("command", VARIANTS, use_command, mutate_arguments, weight=6)]
