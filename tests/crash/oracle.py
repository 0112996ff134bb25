"""What is in the files, read by the library's own means where a user would, and told apart bit by bit."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ap_ranker.ranking.checkpoint import CARD, TOKENIZER, WEIGHTS, find_checkpoint, load_checkpoint
from ap_ranker.ranking.fingerprint import fingerprint
from ap_ranker.ranking.quantization import QuantizedStates
from ap_ranker.ranking.stored_encodings import Encodings
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore


class LostError(AssertionError):
    """Something that was there, or was promised, is not there."""


def expect(held: bool, what: str) -> None:
    """Raise `LostError` unless it holds."""
    if not held:
        raise LostError(what)


def checkpoint(folder: Path) -> dict[str, Any]:
    """A checkpoint that can be loaded, without how long it took to make."""
    config, _, _ = load_checkpoint(find_checkpoint(folder))
    expect((folder / CARD).is_file(), f"{folder.name} has its card")
    described = json.loads(json.dumps(asdict(config)))
    described["training"].pop("seconds", None)
    sums = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in (WEIGHTS, TOKENIZER)}
    return {**described, **sums}


def entries(folder: Path) -> set[str]:
    """A store's documents, each as a text."""
    store = BM25SDocumentStore(folder)
    found = {json.dumps([one.content, one.meta], sort_keys=True) for one in store.filter_documents()}
    store.close()
    return found


def search(folder: Path, query: str) -> list[tuple[str, float | None]]:
    """What a store finds."""
    store = BM25SDocumentStore(folder)
    found = [(one.id, one.score) for one in store.bm25_retrieval(query, top_k=1000)]
    store.close()
    return sorted(found)


def states(folder: Path, checkpoint_folder: Path, texts: Sequence[str]) -> dict[str, str]:
    """A checksum of the encodings of each of those texts that have some."""
    encodings = Encodings.open(folder, fingerprint(checkpoint_folder))
    lengths = zip(texts, encodings.lengths(texts), strict=True)
    return {text: _checksum(encodings.states([text])) for text, length in lengths if length}


def _checksum(states: QuantizedStates) -> str:
    digest = hashlib.sha256()
    for name, values in sorted(states.tensors().items()):
        digest.update(f"{name} {values.dtype} {tuple(values.shape)}".encode())
        digest.update(values.numpy().tobytes())
    return digest.hexdigest()


def questions_in(database: Path, table: str) -> set[str]:
    """The questions in a table of a website's database, whose file is whole."""
    with closing(sqlite3.connect(f"file:{database}?mode=rw", uri=True)) as connection:
        [(state,)] = connection.execute("pragma integrity_check").fetchall()
        expect(state == "ok", f"{database.name} is whole: {state}")
        return {question for (question,) in connection.execute(f"select question from ap_ranker_{table}")}
