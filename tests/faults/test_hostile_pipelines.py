"""A pipeline's YAML of a stranger: no code of its own runs, nothing happens when it is loaded, errors are a sentence.

What it names is read and asked all the same, as that of any configuration: `docs/haystack.md` says so.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT, write_checkpoint
from forked import MAIN, run
from refusals import refused

from ap_ranker.data.faq import Match
from ap_ranker.errors import InputError
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.search.load_pipeline import load_pipeline, report_store_errors

COMPONENTS = "haystack_integrations.components"
STORE = "haystack_integrations.document_stores.ap_ranker.bm25s.BM25SDocumentStore"
RANKER = f"{COMPONENTS}.rankers.ap_ranker.ranker.AnswerRanker"
RETRIEVER = f"{COMPONENTS}.retrievers.ap_ranker.bm25s.BM25SRetriever"
SEARCH = f"{COMPONENTS}.retrievers.ap_ranker.faq_search.AnswerSearch"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint("ap-cnn", tmp_path_factory.mktemp("c") / "checkpoint")


def component(kind: str, **parameters: Any) -> dict[str, Any]:
    return {"type": kind, "init_parameters": parameters}


def write(folder: Path, part: dict[str, Any], *others: dict[str, Any]) -> Path:
    """A pipeline whose search is one component, beside others."""
    components = {"search": part} | {f"other{n}": other for n, other in enumerate(others)}
    declared = {"components": components, "connections": []}
    path = folder / "search.yaml"
    path.write_text(
        yaml.safe_dump(declared | {"inputs": {"query": "search.query"}, "outputs": {"documents": "search.documents"}})
    )
    return path


def search(checkpoint: Path, store: dict[str, Any], **more: dict[str, Any]) -> dict[str, Any]:
    retriever = component(RETRIEVER, document_store=component(STORE, **store), **more.get("retriever", {}))
    ranker = component(RANKER, model=str(checkpoint), **more.get("ranker", {}))
    return component(SEARCH, retriever=retriever, ranker=ranker)


# --- code ---

OUTPUT_ADAPTER = "haystack.components.converters.output_adapter.OutputAdapter"
CONDITIONAL_ROUTER = "haystack.components.routers.conditional_router.ConditionalRouter"
ESCAPE = "{{ ''.__class__.__mro__[1].__subclasses__() }}"
ROUTE = {"condition": "{{ True }}", "output": "{{ query }}", "output_name": "x", "output_type": "str"}

CODE = {
    "another module": component("os.system", command="touch ran"),
    "subprocess": component("subprocess.Popen", args=["touch", "ran"]),
    "a module beside the file": component("evil.Component"),
    "a function": component("haystack.utils.type_serialization.thread_safe_import", name="evil"),
    "no class": component("haystack.lazy_imports.os.system"),
    "a template without a sandbox": component(OUTPUT_ADAPTER, template=ESCAPE, output_type="str", unsafe=True),
    "filters": component(
        OUTPUT_ADAPTER, template="{{ 'touch ran' | f }}", output_type="str", custom_filters={"f": "os.system"}
    ),
    "a filter of the library": component(
        OUTPUT_ADAPTER,
        template="{{ 'evil' | f }}",
        output_type="str",
        custom_filters={"f": "haystack.utils.type_serialization.thread_safe_import"},
    ),
    "a router without a sandbox": component(CONDITIONAL_ROUTER, routes=[ROUTE], unsafe=True),
    "a router's filters": component(CONDITIONAL_ROUTER, routes=[ROUTE], custom_filters={"f": "os.system"}),
    "a type": component(CONDITIONAL_ROUTER, routes=[ROUTE | {"output_type": "evil.Component"}]),
    "a tool": component(
        "haystack.components.agents.agent.Agent",
        chat_generator=component("haystack.components.generators.chat.openai.OpenAIChatGenerator"),
        tools=[{"type": "haystack.tools.tool.Tool", "data": {"name": "a", "function": "os.system"}}],
    ),
}


@pytest.mark.parametrize("kind", CODE)
def test_no_code_is_run(kind: str, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "evil.py").write_text("from pathlib import Path\nPath('ran').touch()\nclass Component: pass\n")
    path = write(tmp_path, search(checkpoint, {"documents": "FAQ.csv"}), CODE[kind])
    with refused(str(path)) as caught:
        load_pipeline(path)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "ran").exists()
    assert "evil" not in sys.modules


@pytest.mark.parametrize("template", [ESCAPE, "{{ self.__init__.__globals__ }}", "{{ lipsum.__globals__['os'] }}"])
def test_templates_are_in_a_sandbox(template: str) -> None:
    from haystack.components.converters import OutputAdapter

    known = component(OUTPUT_ADAPTER, template=template + "{{ query }}", output_type="str")
    with pytest.raises(Exception, match=r"(?i)unsafe|undefined|has no"):
        OutputAdapter.from_dict(known).run(query="a")


@pytest.mark.parametrize("tag", ["python/object/apply:os.system", "python/name:os.system", "python/module:evil"])
def test_no_tag_of_python_is_read(tag: str, tmp_path: Path) -> None:
    path = tmp_path / "search.yaml"
    path.write_text(f"components: !!{tag} ['touch {tmp_path}/ran']\n")
    with refused(str(path)):
        load_pipeline(path)
    assert not (tmp_path / "ran").exists()


# --- side effects ---

_seen: list[tuple[str, str]] = []
_watching = [False]
WATCHED = ("socket.connect", "socket.getaddrinfo", "os.mkdir", "os.rename", "subprocess.Popen", "sqlite3.connect")


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watching[0]:
        return
    if event in WATCHED:
        _seen.append((event, str(arguments)))
    elif event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
        path, mode, flags = os.fsdecode(arguments[0]), arguments[1], arguments[2]
        writes = (isinstance(mode, str) and set(mode) & set("wax+")) or (flags or 0) & (os.O_WRONLY | os.O_RDWR)
        if writes or "private" in path:
            _seen.append((event, path))


@pytest.fixture
def effects() -> Iterator[list[tuple[str, str]]]:
    """What is written, asked or read of files called private, from now on."""
    if not _watching[0]:
        sys.addaudithook(_watch)  # for good: hooks cannot be removed
    _seen.clear()
    _watching[0] = True
    yield _seen
    _watching[0] = False


@pytest.fixture
def private(tmp_path: Path) -> str:
    path = tmp_path / "private.txt"
    path.write_text("question,answer\nsecret,secret\n")
    return str(path)


def test_nothing_happens_when_it_is_loaded(
    checkpoint: Path, tmp_path: Path, private: str, effects: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file is read or written, no host is asked: that begins with the search."""
    monkeypatch.setenv("A_SECRET", "hush")
    new = tmp_path / "new"
    token = {"type": "env_var", "env_vars": ["A_SECRET"], "strict": True}
    stores: list[dict[str, Any]] = [
        {"documents": private},
        {"documents": "https://example.org/FAQ.csv"},
        {"path": str(new / "index")},
    ]
    for store in stores:
        more = {"retriever": {"wordings": [private]}, "ranker": {"wordings": [private], "token": token}}
        load_pipeline(write(tmp_path, search(checkpoint, store, **more)))
    elastic = pytest.importorskip("haystack_integrations.document_stores.elasticsearch")
    kind = f"{elastic.__name__}.document_store.ElasticsearchDocumentStore"
    hosts = component(kind, hosts="http://example.org:9200", index="a", api_key=token)
    retriever = f"{COMPONENTS}.retrievers.elasticsearch.bm25_retriever.ElasticsearchBM25Retriever"
    load_pipeline(write(tmp_path, component(retriever, document_store=hosts)))
    assert [effect for effect in effects if "search.yaml" not in effect[1]] == []
    assert not new.exists()


# --- use ---

PLACES = [
    "/dev/zero",
    "/dev/full",
    "/proc/self/environ",
    "/etc/shadow/x",
    "pipe",
    "https://example.org/a.csv",
    "a\0b",
    "",
]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("parameter", ["documents", "path", "wordings", "model", "synonyms"])
def test_places_that_are_none(
    parameter: str, place: str, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "FAQ.csv").write_text("question,answer\nWhere is it?,There.\n")
    store = {parameter: place} if parameter in ("documents", "path") else {"documents": "FAQ.csv"}
    if parameter == "synonyms":
        store["synonyms"] = place
    more: dict[str, Any] = {"ranker": {"wordings": [place]}} if parameter == "wordings" else {}
    model = Path(place) if parameter == "model" else checkpoint
    path = write(tmp_path, search(model, store, **more))
    try:
        pipeline = DeclaredPipeline.load(path)
        with report_store_errors(path, pipeline.place):
            pipeline.fill(None, Match.both)
            pipeline.warm_up()
    except (InputError, OSError) as error:
        assert "\n" not in str(error)
        return
    # Some have none; and of a file without rows, there are no wordings.
    assert not place or (parameter, place) == ("wordings", "/proc/self/environ")


@pytest.mark.parametrize("number", [10**9, 10**18, 10**30])
@pytest.mark.parametrize("parameter", ["top_k", "batch_size"])
def test_numbers_without_end(
    parameter: str, number: int, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "FAQ.csv").write_text("question,answer\nWhere is it?,There.\n")
    path = write(tmp_path, search(checkpoint, {"documents": "FAQ.csv"}, ranker={parameter: number}))
    try:
        pipeline = DeclaredPipeline.load(path)
        pipeline.warm_up()
        assert len(pipeline.run("Where is it?")) == 1
    except InputError as error:
        assert "\n" not in str(error)


def test_a_secret_is_in_no_message(checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a variable of the environment that a pipeline names."""
    monkeypatch.setenv("A_SECRET", "hush-hush")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    token = {"type": "env_var", "env_vars": ["A_SECRET"], "strict": True}
    part = search(Path("nobody/nothing"), {"documents": "FAQ.csv"}, ranker={"token": token})
    with refused() as caught:
        DeclaredPipeline.load(write(tmp_path, part)).warm_up()
    assert "hush-hush" not in str(caught.value)


def test_serve_says_it_in_one_sentence(checkpoint: Path, tmp_path: Path) -> None:
    kind = CODE["a template without a sandbox"]
    path = write(tmp_path, search(checkpoint, {"documents": "FAQ.csv"}), kind)
    done = run(MAIN, "serve", "--pipeline", path, "--port", "0", folder=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "other0" in done.stderr


def test_the_pipelines_here_are_none_of_these() -> None:
    for path in sorted((ROOT / "pipelines").glob("*.yaml")):
        text = path.read_text()
        assert "unsafe" not in text
        assert "custom_filters" not in text
