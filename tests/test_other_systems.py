"""Where there are no POSIX modules, as on Windows: questions are answered, rankers are trained and measured."""

from __future__ import annotations

from pathlib import Path

import forked
import pytest
from conftest import TEXTS, write_checkpoint
from forked import ANEW

WITHOUT = f"""{ANEW}
sys.modules |= dict.fromkeys(("fcntl", "resource", "pwd", "grp"))
"""

COMPONENTS = """
import ap_ranker
for name in ap_ranker.__all__:
    getattr(ap_ranker, name)
from haystack import Document, Pipeline
store = ap_ranker.BM25SDocumentStore(path="index")
store.write_documents([Document(content="Open the link.", meta={"question": "Where is my parcel?"})])
pipeline = Pipeline()
pipeline.add_component("retriever", ap_ranker.BM25SRetriever(document_store=store))
pipeline.add_component("ranker", ap_ranker.APRanker(model="checkpoint", device=None))
pipeline.connect("retriever", "ranker")
found = pipeline.run({"retriever": {"query": "link"}, "ranker": {"query": "link"}})
assert found["ranker"]["documents"][0].content == "Open the link."
"""

COMMANDS = {
    "ask": "ask parcel? --documents faq.csv --model checkpoint",
    "evaluate": "evaluate checkpoint faq.csv --device cpu --json numbers.json",
    "train": "train faq.csv --output trained --device cpu --epochs 1 --config settings.yaml",
    "serve": "serve --help",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_checkpoint("ap-cnn", tmp_path / "checkpoint")
    pairs = [f"{q} {extra}?,{a}" for q, a in zip(TEXTS[::2], TEXTS[1::2], strict=True) for extra in ("now", "please")]
    (tmp_path / "faq.csv").write_text("question,answer\n" + "\n".join(pairs) + "\n")
    (tmp_path / "settings.yaml").write_text("model: ap-cnn\nembedding_size: 8\noptions: {filters: 8}\n")
    return tmp_path


@pytest.mark.parametrize("name", ["components", *COMMANDS])
def test_without_posix_modules(name: str, folder: Path) -> None:
    code = COMPONENTS
    if name in COMMANDS:
        code = f"sys.argv = ['ap-ranker', *{COMMANDS[name].split()!r}]\nfrom ap_ranker.cli.main import main\nmain()\n"
    done = forked.run(WITHOUT + code, folder=folder)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_server_without_posix_modules() -> None:
    pytest.importorskip("hypercorn", reason="the extra serve is not installed")
    code = "import ap_ranker.web.app, ap_ranker.web.connections, ap_ranker.web.question_log"
    done = forked.run(WITHOUT + code)
    assert done.returncode == 0, done.stderr
