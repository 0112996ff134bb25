"""Pipeline files that are none: each ends in one `InputError`, when it is loaded or at its first question."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random
from time import process_time
from typing import Any

import pytest
import yaml
from conftest import ROOT, TEXTS
from refusals import refused
from searches import ENTRIES, in_two

from ap_ranker.data.faq import Match
from ap_ranker.errors import InputError
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.search.load_pipeline import load_pipeline, report_store_errors

SEARCH = "faq_search.yaml"


def declared(name: str, checkpoint: Path) -> dict[str, Any]:
    pipeline = yaml.safe_load((ROOT / "pipelines" / name).read_text())
    return dict(replaced(pipeline, {"model": str(checkpoint), "language": "english"}))


def replaced(tree: Any, values: dict[str, str]) -> Any:
    if not isinstance(tree, dict):
        return tree
    return {name: values.get(name) or replaced(value, values) for name, value in tree.items()}


def use(path: Path) -> None:
    """As `ap-ranker ask` and `serve` do."""
    search = DeclaredPipeline.load(path)
    place = search.place
    with report_store_errors(path, place):
        search.fill(ENTRIES, Match.both)
        search.warm_up()
        for document in search.run(TEXTS[0]):
            assert document.content is not None


def refusal(path: Path) -> str | None:
    """The message, if the file is refused as it should be; `None` if it can be used."""
    try:
        use(path)
    except (InputError, OSError) as error:  # the command line says what the system said
        message = str(error)
        assert message.count("\n") < 3, message
        assert len(message) < 2000, message
        return message
    return None


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_folder(tmp_path: Path) -> None:
    assert "a folder" in (refusal(tmp_path) or "")


@pytest.mark.parametrize(
    "content", [b"\xff\xfe\x00c", b"components: \xe9", b"\x00\x01\x02", b"", b"- 1\n- 2\n", b"text", b"3"]
)
def test_no_text_or_no_pipeline(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / SEARCH
    path.write_bytes(content)
    assert refusal(path)


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/full"])
def test_a_device(device: str) -> None:
    assert "file" in (refusal(Path(device)) or "")


def test_a_pipe_that_nobody_writes(tmp_path: Path) -> None:
    path = tmp_path / SEARCH
    os.mkfifo(path)
    found: list[str | None] = []
    thread = threading.Thread(target=lambda: found.append(refusal(path)), daemon=True)
    thread.start()
    thread.join(120)
    assert found
    assert found[0]


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / SEARCH
    path.write_text("components: {}")

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    for name in ("open", "read_text", "read_bytes"):
        monkeypatch.setattr(Path, name, refuse)
    assert "Permission denied" in (refusal(path) or "")


def bomb(levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join(lines) + f"\ncomponents: *a{levels - 1}\n"


@pytest.mark.parametrize(
    "text",
    [
        bomb(9),
        bomb(40),
        "components: &again {retriever: *again}\n",
        "a: " + "[" * 100_000,
        "a: " + "{a: " * 5_000,
        "components: {" + ", ".join(f"c{n}: 1" for n in range(60_000)) + "}",
        "x: " + "y" * 3_000_000,
    ],
    ids=["nine levels", "forty levels", "itself", "deep list", "deep map", "wide", "large"],
)
def test_a_bomb(tmp_path: Path, text: str) -> None:
    path = tmp_path / SEARCH
    path.write_text(text)
    started = process_time()
    assert refusal(path)
    assert process_time() - started < 5


def test_an_alias_is_no_bomb(tmp_path: Path, checkpoint: Path) -> None:
    """Writers and retrievers share a store in many files."""
    path = tmp_path / SEARCH
    pipeline = yaml.safe_dump(declared(SEARCH, checkpoint))
    path.write_text(pipeline.replace("top_k: 5", "top_k: &five 5").replace("top_k: 100", "top_k: *five"))
    assert refusal(path) is None


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("inputs", None),
        ("inputs", 3),
        ("inputs", ["retriever.query"]),
        ("inputs", {"query": 3}),
        ("inputs", {"query": [["retriever.query"]]}),
        ("inputs", {"query": {"retriever": "query"}}),
        ("inputs", {"query": []}),
        ("inputs", {"query": ""}),
        ("inputs", {"query": "retriever"}),
        ("inputs", {"query": "nothing.query"}),
        ("inputs", {"query": ["retriever.query", "ranker.nothing"]}),
        ("inputs", {"query": ["retriever.query", "ranker.documents"]}),
        ("inputs", {"query": ["retriever.query", None]}),
        ("inputs", {"query": "a.b.c"}),
        ("inputs", {"query": ["retriever.query"]}),
        ("outputs", None),
        ("outputs", 3),
        ("outputs", []),
        ("outputs", {"documents": ["ranker.documents"]}),
        ("outputs", {"documents": "ranker"}),
        ("outputs", {"documents": "nothing.documents"}),
        ("outputs", {"documents": "ranker.nothing"}),
        ("outputs", {"documents": ".documents"}),
        ("outputs", {"documents": 3}),
        ("components", {"a.b": {"type": "x"}}),
        ("components", []),
        ("components", None),
        ("connections", 3),
        ("connections", [{"sender": 1, "receiver": 2}]),
    ],
)
def test_odd_declarations(tmp_path: Path, checkpoint: Path, part: str, value: Any) -> None:
    path = tmp_path / SEARCH
    path.write_text(yaml.safe_dump(in_two(declared(SEARCH, checkpoint)) | {part: value}))
    assert refusal(path)


@pytest.mark.parametrize(
    ("part", "name", "value", "found"),
    [
        ("retriever", "top_k", -3, "component 'search' … BM25SRetriever … top_k … 1 or more, found -3"),
        ("retriever", "top_kk", 3, "component 'search' … BM25SRetriever … 'top_kk' … 'top_k'"),
        ("ranker", "top_k", "5", "component 'search' … AnswerRanker … top_k as int, found '5'"),
        ("ranker", "precision", 7, "component 'search' … AnswerRanker … precision … found 7"),
    ],
)
def test_a_wrong_setting_is_told_first(
    tmp_path: Path, checkpoint: Path, part: str, name: str, value: Any, found: str
) -> None:
    pipeline = declared(SEARCH, checkpoint)
    pipeline["components"]["search"]["init_parameters"][part]["init_parameters"][name] = value
    path = tmp_path / SEARCH
    path.write_text(yaml.safe_dump(pipeline))
    with refused(f"{path} … {found}") as error:
        load_pipeline(path)
    assert len(str(error.value)) < len(str(path)) + 200


def test_documents_that_another_component_takes_are_answers(tmp_path: Path, checkpoint: Path) -> None:
    """The declared component need not be the last."""
    pipeline = in_two(declared(SEARCH, checkpoint))
    pipeline["components"]["joiner"] = {
        "type": "haystack.components.joiners.document_joiner.DocumentJoiner",
        "init_parameters": {},
    }
    pipeline["connections"].append({"sender": "ranker.documents", "receiver": "joiner.documents"})
    path = tmp_path / SEARCH
    path.write_text(yaml.safe_dump(pipeline))
    assert refusal(path) is None


# --- mutations --------------------------------------------------------------------------------------------------------

ODD: list[Any] = [None, [], {}, 0, -1, 3, 0.5, float("nan"), 10**400, "", "x", "a.b.c", True, [1], {"a": {"b": []}}]
ODD += ["retriever.query", "ranker.documents", "\N{BICYCLE}", "x" * 5000, "2026-01-01", [[[[]]]], "cuda:99", "../.."]


def places(node: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of keys to every part of a tree but its root."""
    if isinstance(node, dict | list):
        for key in node if isinstance(node, dict) else range(len(node)):
            yield (*before, key)
            yield from places(node[key], (*before, key))


def mutated(tree: dict[str, Any], random: Random) -> str:
    tree = copy.deepcopy(tree)
    for _ in range(random.choice((1, 1, 2))):
        *path, key = random.choice(list(places(tree)))
        parent = tree
        for step in path:
            parent = parent[step]
        change = random.random()
        if change < 0.6:
            parent[key] = random.choice(ODD)
        elif change < 0.8:
            del parent[key]
        elif isinstance(parent, dict):
            parent[random.choice(("x", 3, "top_k", "type", "query", "a.b"))] = parent.pop(key)
    text = yaml.safe_dump(tree, allow_unicode=True)
    if random.random() < 0.2:
        at = random.randrange(len(text))
        text = (
            text[:at]
            + random.choice(("\t", "[", "{", "'", "&a ", "*a", "\0", "!!python/object:os.system ", ": "))
            + text[at:]
        )
    return text


@pytest.mark.parametrize("seed", range(4))
def test_mutations(tmp_path: Path, checkpoint: Path, seed: int) -> None:
    random = Random(seed)
    originals = [declared(path.name, checkpoint) for path in sorted((ROOT / "pipelines").glob("*.yaml"))]
    originals.append(in_two(declared(SEARCH, checkpoint)))
    refused = 0
    for number in range(50):
        tree = originals[random.randrange(len(originals))]
        text = mutated(tree, random)
        path = tmp_path / f"{number}.yaml"
        path.write_text(text, encoding="utf-8")
        stores = ".elasticsearch." in text
        try:
            load_pipeline(path) if stores else use(path)  # there is no server here
            if stores and "outputs" in tree:
                DeclaredPipeline.load(path)
        except InputError as error:
            refused += 1
            assert str(error).count("\n") < 3, (text, error)
        except Exception as error:
            raise AssertionError(text) from error
    assert refused > 20
