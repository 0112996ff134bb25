"""The embedders give what `Ranker.embed_*` gives, for the texts that a ranker reads."""

from __future__ import annotations

import asyncio
import copy
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from conftest import TEXTS, write_checkpoint
from haystack import Document, Pipeline
from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
from haystack.components.writers import DocumentWriter
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.utils import ComponentDevice, Secret
from refusals import refused

import ap_ranker
from ap_ranker.ranking.fingerprint import fingerprint
from ap_ranker.ranking.ranker import Ranker
from haystack_integrations.components.embedders.ap_ranker import APDocumentEmbedder, APTextEmbedder
from haystack_integrations.components.rankers.ap_ranker import AnswerRanker

CPU = ComponentDevice.from_str("cpu")
DOCUMENTS = [Document(id=str(i), content=text, meta={"n": i}) for i, text in enumerate([*TEXTS, "", TEXTS[0]])]
EMBEDDERS: list[Any] = [APTextEmbedder, APDocumentEmbedder]


@pytest.fixture(scope="module")
def bi_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint("qa-cnn", tmp_path_factory.mktemp("checkpoints") / "qa-cnn")


def test_text_embedder(bi_encoder: Path) -> None:
    found = APTextEmbedder(model=bi_encoder, device=CPU, prefix="query: ", suffix=" ?").run(TEXTS[0])
    expected = Ranker.from_pretrained(bi_encoder, "cpu").embed_questions([f"query: {TEXTS[0]} ?"])[0].tolist()
    assert found == {"embedding": expected}
    assert all(type(number) is float for number in found["embedding"])


@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_document_embedder(bi_encoder: Path, batch_size: int) -> None:
    before = copy.deepcopy(DOCUMENTS)
    found = APDocumentEmbedder(model=bi_encoder, device=CPU, batch_size=batch_size).run(DOCUMENTS)["documents"]
    assert before == DOCUMENTS
    expected = Ranker.from_pretrained(bi_encoder, "cpu").embed_answers([d.content or "" for d in DOCUMENTS]).tolist()
    for document, given, vector in zip(found, DOCUMENTS, expected, strict=True):
        assert (document.id, document.content) == (given.id, given.content)
        assert document.meta == {**given.meta, "embedded_by": fingerprint(bi_encoder)}
        assert document.embedding == pytest.approx(vector, abs=1e-6)


def test_the_text_of_a_document_is_the_one_that_a_ranker_reads(bi_encoder: Path) -> None:
    document = Document(content="the refund", meta={"question": "money?", "n": 0, "none": None})
    fields = {"meta_fields_to_embed": ["question", "none", "n", "absent"], "embedding_separator": " | "}
    embedder = APDocumentEmbedder(model=bi_encoder, device=CPU, prefix="a: ", suffix=" .", **fields)
    ranker = AnswerRanker(model=bi_encoder, device=CPU, document_prefix="a: ", document_suffix=" .", **fields)
    assert ranker.texts.texts([document])[0] == "a: money? | 0 | the refund ."
    [found] = embedder.run([document])["documents"]
    expected = Ranker.from_pretrained(bi_encoder, "cpu").embed_answers([ranker.texts.texts([document])[0]])[0].tolist()
    assert found.embedding == pytest.approx(expected, abs=1e-6)


def test_other_texts_are_of_another_origin(bi_encoder: Path) -> None:
    settings: list[dict[str, Any]] = [
        {},
        {"prefix": "a"},
        {"suffix": "a"},
        {"meta_fields_to_embed": ["a"]},
        {"meta_fields_to_embed": ["a"], "embedding_separator": " "},
        {"meta_fields_to_embed": ["a", "b"]},
    ]
    origins = [APDocumentEmbedder(model=bi_encoder, device=CPU, **some).embedded_by for some in settings]
    assert len(set(origins)) == len(settings)
    assert all(origin.startswith(fingerprint(bi_encoder)) for origin in origins)
    assert APDocumentEmbedder(model=bi_encoder, device=CPU, embedding_separator=" ").embedded_by == origins[0]


def test_what_cannot_be_embedded(bi_encoder: Path) -> None:
    """As the embedders of Haystack."""
    for text in (DOCUMENTS, None, 3):
        with refused("APTextEmbedder … APDocumentEmbedder", by=TypeError):
            APTextEmbedder(model=bi_encoder).run(text)  # type: ignore[arg-type]
    for documents in ("text", [DOCUMENTS[0], "text"], None):
        with refused("APDocumentEmbedder … Documents … APTextEmbedder", by=TypeError):
            APDocumentEmbedder(model=bi_encoder).run(documents)  # type: ignore[arg-type]
    assert APDocumentEmbedder(model="never/loaded").run([]) == {"documents": []}
    with refused("batch_size … 1 … 0", by=ValueError):
        APDocumentEmbedder(model=bi_encoder, batch_size=0)


@pytest.mark.parametrize("kind", EMBEDDERS)
def test_a_model_without_vectors_is_refused_when_it_is_loaded(kind: Any, checkpoint: Path) -> None:
    with refused("ap-transformer … ap-cnn"):
        kind(model=checkpoint, device=CPU).warm_up()
    with refused("no/such/place"):
        kind(model="no/such/place").warm_up()


@pytest.mark.parametrize("kind", EMBEDDERS)
def test_loading_is_lazy_and_happens_once(kind: Any, bi_encoder: Path) -> None:
    argument = TEXTS[0] if kind is APTextEmbedder else DOCUMENTS
    with patch.object(Ranker, "from_pretrained", wraps=Ranker.from_pretrained) as load:
        embedder = kind(model=bi_encoder, device=CPU, token=Secret.from_token("t"))
        load.assert_not_called()
        barrier = threading.Barrier(8)

        def ask(_: int) -> Any:
            barrier.wait()
            return embedder.run(argument)

        with ThreadPoolExecutor(8) as pool:
            first, *others = pool.map(ask, range(8))
        assert all(other == first for other in others)
        embedder.warm_up()
        load.assert_called_once_with(str(bi_encoder), "cpu", "t")
    embedder.close()
    assert embedder.loaded.ranker is None
    assert embedder.run(argument) == first


@pytest.mark.parametrize("kind", EMBEDDERS)
async def test_copies_and_threads(kind: Any, bi_encoder: Path) -> None:
    argument = TEXTS[0] if kind is APTextEmbedder else DOCUMENTS
    embedder = kind(model=bi_encoder, device=CPU)
    expected = embedder.run(argument)
    for other in (copy.deepcopy(embedder), pickle.loads(pickle.dumps(embedder)), kind.from_dict(embedder.to_dict())):
        assert other.loaded.ranker is None
        assert other.run(argument) == expected
        assert other.to_dict() == embedder.to_dict()
    found = await asyncio.gather(*(embedder.run_async(argument) for _ in range(4)))
    assert found == [expected] * 4
    assert getattr(ap_ranker, kind.__name__) is kind


def test_to_dict() -> None:
    common = {
        "model": "m",
        "device": {"type": "single", "device": "cuda:0"},
        "token": {"env_vars": ["ENV_VAR"], "strict": False, "type": "env_var"},
        "prefix": "p",
        "suffix": "s",
    }
    more = {"batch_size": 3, "progress_bar": False, "meta_fields_to_embed": ["question"], "embedding_separator": " "}
    more["states"] = True
    package = "haystack_integrations.components.embedders.ap_ranker"
    for kind, module, parameters in (
        (APTextEmbedder, "text_embedder", common),
        (APDocumentEmbedder, "document_embedder", common | more),
    ):
        data = {"type": f"{package}.{module}.{kind.__name__}", "init_parameters": parameters}
        embedder = kind.from_dict(copy.deepcopy(data))
        assert embedder.device == ComponentDevice.from_str("cuda:0")
        assert embedder.to_dict() == data
        with pytest.raises(TypeError):
            kind("m")


def test_with_another_store(bi_encoder: Path) -> None:
    """In pipelines from YAML: one embeds and writes, one asks."""
    store = InMemoryDocumentStore()
    indexing, asking = Pipeline(), Pipeline()
    indexing.add_component("embedder", APDocumentEmbedder(model=bi_encoder, device=CPU))
    indexing = Pipeline.loads(indexing.dumps())
    indexing.add_component("writer", DocumentWriter(store))
    indexing.connect("embedder.documents", "writer.documents")
    indexing.run({"embedder": {"documents": DOCUMENTS[:6]}})
    asking.add_component("embedder", APTextEmbedder(model=bi_encoder, device=CPU))
    asking = Pipeline.loads(asking.dumps())
    asking.add_component("retriever", InMemoryEmbeddingRetriever(store))
    asking.connect("embedder.embedding", "retriever.query_embedding")
    found = asking.run({"embedder": {"text": TEXTS[0]}})["retriever"]["documents"]
    ranker = Ranker.from_pretrained(bi_encoder, "cpu")
    assert [d.content for d in found] == [answer.text for answer in ranker.rank(TEXTS[0], TEXTS)]
