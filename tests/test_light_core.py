"""What a pipeline does at run time needs the core alone; what trains and measures says how to install the rest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from conftest import ROOT, write_checkpoint, write_encoder, write_faq
from naive.ap_transformer import TINY
from oldest import declared
from packaging.utils import canonicalize_name
from refusals import absent
from transformers import AutoConfig, AutoModel

from benchmarks.install_size import needed

COMPONENTS = """
import ap_ranker
from haystack import Document, Pipeline
documents = [
    Document(content="Open the link in our message.", meta={"question": "Where is my parcel?"}),
    Document(content="Open the link in our message!", meta={"question": "Where is my letter?"}),
    Document(content="Within 14 days of its return.", meta={"question": "When do I get my refund?"}),
]
store = ap_ranker.BM25SDocumentStore(path="index")
store.write_documents(ap_ranker.APDocumentEmbedder(model="meaning").run(documents)["documents"])
for model, retriever in {
    "words": ap_ranker.BM25SRetriever(document_store=store),
    "meaning": ap_ranker.HybridRetriever(document_store=store, model="meaning"),
}.items():
    pipeline = Pipeline()
    pipeline.add_component("retriever", retriever)
    pipeline.add_component("ranker", ap_ranker.AnswerRanker(model=model, device=None))
    pipeline.connect("retriever", "ranker")
    found = pipeline.run({"retriever": {"query": "open our message"}, "ranker": {"query": "open our message"}})
    assert len(found["ranker"]["documents"]) >= 2, found
assert ap_ranker.FAQSearch(document_store=store, model="words").run(query="its return")["documents"]
texts = [document.content for document in documents]
assert len(ap_ranker.Ranker.from_pretrained("words").rank("my refund", texts)) == 3
"""

INIT = ["init", "--documents", "faq.csv", "--encoder", "encoder", "--output", "checkpoints/faq"]
ASK = ["ask", "Which battery fits?", "--documents", "faq.csv"]

SERVE = """
import time
from starlette.testclient import TestClient
from ap_ranker.cli.main import main
from ap_ranker.web import connections
def visit(app, listening):
    listening.close()
    with TestClient(app, "http://localhost") as client:
        while (found := client.post("/api/search", json={"question": "Which battery fits?"})).status_code == 503:
            time.sleep(0.1)
        assert found.json()["answers"], found.text
connections.run = visit
sys.argv = ["ap-ranker", "serve", "faq.csv", "--model", "words", "--port", "0"]
main()
"""

TRAINING = [
    ["check", "faq.csv"],
    ["train", "faq.csv", "--output", "trained"],
    ["evaluate", "words", "faq.csv"],
    ["calibrate", "words", "faq.csv"],
    ["compare", "faq.csv", "--models", "ap-cnn,qa-cnn", "--output", "models"],
    ["distill", "meaning", "faq.csv", "--output", "small"],
]


def without_others(*extras: str) -> str:
    """Python code after which nothing is installed but the core and what these extras bring, without SciPy."""
    kept = {"ap-ranker"}
    for extra in ("", *extras):
        kept |= {name for requirement in declared()[extra] for name in needed(str(requirement))}
    kept.discard("scipy")
    hidden = [
        module
        for module, distributions in packages_distributions().items()
        if module.isidentifier()
        and not (ROOT / module).is_dir()
        and kept.isdisjoint(map(canonicalize_name, distributions))
    ]
    return f"import sys\nsys.modules.update(dict.fromkeys({sorted(hidden)}))\n"


def commands(*lines: list[str]) -> str:
    """Python code that runs commands one after the other, and ends as the first that fails does."""
    return f"""
from ap_ranker.cli.main import main
for line in {list(lines)}:
    sys.argv = ["ap-ranker", *line]
    try:
        main()
    except SystemExit as stopped:
        if stopped.code:
            raise
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("core")
    write_checkpoint("ap-cnn", place / "words")
    write_checkpoint("ap-transformer", place / "meaning")
    write_encoder(place / "encoder")
    longer = {**TINY, "max_position_embeddings": 512}
    AutoModel.from_config(AutoConfig.for_model(**longer)).save_pretrained(place / "encoder")
    write_faq(place / "faq.csv")
    return place


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("code", "extras"),
    [(COMPONENTS + commands(INIT, ASK), ()), (SERVE, ("serve",))],
    ids=["components, init and ask", "serve"],
)
def test_the_core_searches(code: str, extras: tuple[str, ...], folder: Path) -> None:
    done = run(without_others(*extras) + code, folder)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def refusals(folder: Path) -> dict[str, tuple[int, str]]:
    """By command its exit code and what it said, of all one after the other, as a process takes seconds to start."""
    code = f"""
import json
from pathlib import Path
from command_line import run
ended = {{line[0]: run(*line, folder=Path()) for line in {TRAINING}}}
print(json.dumps({{name: (each.code, each.errors) for name, each in ended.items()}}))
"""
    done = run(without_others() + code, folder)
    assert done.returncode == 0, done.stderr
    found: dict[str, tuple[int, str]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", [line[0] for line in TRAINING])
def test_what_trains_and_measures_names_its_extra(name: str, refusals: dict[str, tuple[int, str]]) -> None:
    code, said = refusals[name]
    assert code == 2, said
    assert not absent('pip install "ap-ranker[train]"', said)
    assert "Traceback" not in said


def test_a_component_loads_nothing_large_before_it_needs_it(folder: Path) -> None:
    """Its import takes little longer than Haystack's, as `python -m benchmarks.import_time` measures."""
    code = """
import sys
import haystack
before = set(sys.modules)
from ap_ranker import APRanker
print(*sorted({name.partition(".")[0] for name in set(sys.modules) - before}))
"""
    loaded = set(run(code, folder).stdout.split())
    assert "ap_ranker" in loaded
    assert not loaded & {
        "accelerate",
        "bm25s",
        "huggingface_hub",
        "numba",
        "pandas",
        "scipy",
        "sklearn",
        "transformers",
    }
