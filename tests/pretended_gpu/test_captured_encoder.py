"""Questions encoded by CUDA graphs have the states that they have without, or no graph is used."""

from __future__ import annotations

import copy
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pretended_graphs
import pytest
import torch
from conftest import TEXTS, write_checkpoint
from naive import SMALL
from naive.ap_transformer import TINY
from torch import Tensor

from ap_ranker.models.ap_transformer import AttentiveTransformer
from ap_ranker.models.base import States
from ap_ranker.models.registry import build_model, complete_options
from ap_ranker.models.sentence_modules import KEY
from ap_ranker.models.spec import Inputs
from ap_ranker.ranking.captured_encoder import MOST_APART_UNPADDED, CapturedEncoder
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.text.tokenizer import TokenBatch

BY_GRAPH = ["copy", "replay", "aten.clone.default"]
WORDS = " ".join(TEXTS).split()
BOUND = 1e-6

Encode = Callable[[AttentiveTransformer, TokenBatch], States]
encode_questions = AttentiveTransformer.encode_questions


def texts_of(*lengths: int) -> list[str]:
    """Texts of so many words, no two alike."""
    return [" ".join(WORDS[(7 * place + k) % len(WORDS)] for k in range(n)) for place, n in enumerate(lengths)]


def tensors(states: States) -> dict[str, Tensor]:
    return {"mask": states.mask, **states.per_token, **states.per_text}


def check_alike(states: States, expected: States) -> None:
    """Of the same names, shapes and dtypes, and of the same numbers."""
    others = tensors(expected)
    assert tensors(states).keys() == others.keys()
    for name, value in tensors(states).items():
        assert (value.shape, value.dtype) == (others[name].shape, others[name].dtype)
        torch.testing.assert_close(value.cpu().float(), others[name].cpu().float(), rtol=0, atol=BOUND)


@torch.inference_mode()
def plain(ranker: Ranker, texts: Sequence[str]) -> States:
    return ranker.model.encode_questions(TokenBatch.from_lists(ranker.tokenize_questions(texts), ranker.device))


@torch.inference_mode()
def encode(ranker: Ranker, texts: Sequence[str]) -> States:
    return ranker.encode_questions(texts)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what the GPU starts."""
    names: list[str] = []
    monkeypatch.setattr(pretended_graphs, "launched", names.append)
    return names


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_checkpoint("ap-transformer", tmp_path / "c")


@pytest.fixture
def ranker(folder: Path) -> Ranker:
    return Ranker.from_pretrained(folder, "cuda")


@pytest.mark.parametrize("rows", [1, 2, 8, 9, 32])
@pytest.mark.parametrize("longest", [1, 5, 16, 17, 20])
def test_states_are_those_without_a_graph(rows: int, longest: int, folder: Path, started: list[str]) -> None:
    """From the second time on, also of the question that the graph was captured with and of shorter ones."""
    gpu, cpu = (Ranker.from_pretrained(folder, device) for device in ("cuda", "cpu"))
    lengths = [1 + (longest - 1) * (rows - place) // rows for place in range(rows)]
    texts = texts_of(*lengths)
    first = encode(gpu, texts)
    assert "replay" not in started
    second = encode(gpu, texts)
    started.clear()
    third = encode(gpu, texts[::-1])
    assert started == BY_GRAPH
    for states, asked in ((first, texts), (second, texts), (third, texts[::-1])):
        check_alike(states, plain(gpu, asked))
        check_alike(states, encode(cpu, asked))


def test_one_question_does_not_overwrite_another(ranker: Ranker) -> None:
    """Nor does one of another shape, whose graph has the same memory."""
    asked = [texts_of(n) for n in (3, 12, 18)] + [texts_of(4, 2, 9)]
    for _ in ("needed", "captured"):
        for texts in asked:
            encode(ranker, texts)
    found = [encode(ranker, texts) for texts in asked]
    for texts, states in zip(asked, found, strict=True):
        check_alike(states, plain(ranker, texts))


@pytest.mark.parametrize("texts", [texts_of(*[2] * 33), texts_of(*range(1, 60))])
def test_many_questions_have_no_graph(texts: list[str], ranker: Ranker, started: list[str]) -> None:
    for _ in range(3):
        encode(ranker, texts)
    assert "replay" not in started


def test_where_gradients_are_wanted_there_is_no_graph(ranker: Ranker, started: list[str]) -> None:
    for _ in range(3):
        ranker.encode_questions(TEXTS[:1])
    assert "replay" not in started


@pytest.mark.parametrize(("name", "device"), [("ap-transformer", "cpu"), ("ap-cnn", "cuda")])
def test_who_captures_nothing(name: str, device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    captures: list[str] = []
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: captures.append("graph"))
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: captures.append("pool"))
    ranker = Ranker.from_pretrained(write_checkpoint(name, tmp_path / name), device)
    for _ in range(3):
        encode(ranker, TEXTS[:1])
    assert captures == []


def asks_for_a_number(model: AttentiveTransformer, batch: TokenBatch) -> States:
    assert batch.mask.any().item()
    return encode_questions(model, batch)


def copies_from_the_cpu(model: AttentiveTransformer, batch: TokenBatch) -> States:
    return encode_questions(model, TokenBatch(batch.ids, batch.mask & torch.ones(1, dtype=torch.bool).to("cuda")))


def waits(model: AttentiveTransformer, batch: TokenBatch) -> States:
    torch.cuda.synchronize()
    return encode_questions(model, batch)


def fails_in_a_capture(model: AttentiveTransformer, batch: TokenBatch) -> States:
    if torch.cuda.is_current_stream_capturing():
        raise NotImplementedError("of this torch")
    return encode_questions(model, batch)


def forgets_the_mask_in_a_capture(model: AttentiveTransformer, batch: TokenBatch) -> States:
    """As a library that leaves out a mask which hides nothing."""
    mask = batch.mask.new_ones(batch.mask.shape) if torch.cuda.is_current_stream_capturing() else batch.mask
    return encode_questions(model, TokenBatch(batch.ids, mask))


def is_not_finite_in_a_capture(model: AttentiveTransformer, batch: TokenBatch) -> States:
    states = encode_questions(model, batch)
    factor = float("nan") if torch.cuda.is_current_stream_capturing() else 1.0
    return states.map(lambda value: value, lambda value: value * factor)


def drifts_in_a_capture(model: AttentiveTransformer, batch: TokenBatch) -> States:
    """By more than the same operations may, and by less than padding may."""
    states = encode_questions(model, batch)
    shift = MOST_APART_UNPADDED / 5 if torch.cuda.is_current_stream_capturing() else 0.0
    return states.map(lambda value: value, lambda value: value + shift)


def counts_padding(model: AttentiveTransformer, batch: TokenBatch) -> States:
    """With or without a graph; a question alone is not padded."""
    return encode_questions(model, TokenBatch(batch.ids, batch.mask.new_ones(batch.mask.shape)))


def remembers(model: AttentiveTransformer, batch: TokenBatch) -> States:
    """What it read the first time in a capture or a warm-up."""
    if pretended_graphs.current_stream() is not pretended_graphs.DEFAULT:
        batch = TokenBatch(batch.ids.clone().zero_() + 3, batch.mask)
    return encode_questions(model, batch)


@pytest.mark.parametrize(
    "broken",
    [
        *(asks_for_a_number, copies_from_the_cpu, waits, fails_in_a_capture, forgets_the_mask_in_a_capture),
        *(is_not_finite_in_a_capture, drifts_in_a_capture, counts_padding, remembers),
    ],
)
def test_without_a_true_graph_there_is_none(
    broken: Encode, ranker: Ranker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Which is told once, and no question fails."""
    monkeypatch.setattr(AttentiveTransformer, "encode_questions", broken)
    started: list[str] = []
    texts = texts_of(5)
    with caplog.at_level(logging.WARNING):
        for _ in range(4):
            check_alike(encode(ranker, texts), plain(ranker, texts))
            check_alike(encode(ranker, texts_of(3, 9)), plain(ranker, texts_of(3, 9)))
        monkeypatch.setattr(pretended_graphs, "launched", started.append)
        encode(ranker, texts)
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "A GPU encodes questions without CUDA graphs, more slowly"
    ]
    assert len(started) > 20
    assert "replay" not in started
    assert pretended_graphs.current_stream() is pretended_graphs.DEFAULT


def test_a_graph_is_tried_with_padding(
    ranker: Ranker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where the questions that it is captured with have none."""
    monkeypatch.setattr(AttentiveTransformer, "encode_questions", forgets_the_mask_in_a_capture)
    for length in (16, 16, 9):
        check_alike(encode(ranker, texts_of(length)), plain(ranker, texts_of(length)))
    assert len(caplog.records) == 1


def test_a_rounding_is_no_mistake(ranker: Ranker, monkeypatch: pytest.MonkeyPatch, started: list[str]) -> None:
    """Products of another shape may differ by it."""

    def rounds(model: AttentiveTransformer, batch: TokenBatch) -> States:
        shift = MOST_APART_UNPADDED / 2 if batch.mask.shape[1] == 16 else 0.0
        return encode_questions(model, batch).map(lambda value: value, lambda value: value + shift)

    monkeypatch.setattr(AttentiveTransformer, "encode_questions", rounds)
    for _ in range(2):
        encode(ranker, texts_of(5))
    assert "replay" in started


def test_threads(ranker: Ranker) -> None:
    asked = [texts_of(*lengths) for lengths in ((3,), (5,), (18,), (2, 4), (17, 3, 3), (1,), (7,), (8, 8, 20))] * 4
    expected = [plain(ranker, texts) for texts in asked]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda texts: encode(ranker, texts), asked))
    for states, others in zip(found, expected, strict=True):
        check_alike(states, others)


def test_others_take_memory_during_a_capture(
    ranker: Ranker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As a thread that trains, or matches another question."""

    def beside(model: AttentiveTransformer, batch: TokenBatch) -> States:
        if torch.cuda.is_current_stream_capturing():
            thread = threading.Thread(target=lambda: taken.append(torch.ones(2).to("cuda") + 1))
            thread.start()
            thread.join()
        return encode_questions(model, batch)

    taken: list[Tensor] = []
    monkeypatch.setattr(AttentiveTransformer, "encode_questions", beside)
    for _ in range(3):
        check_alike(encode(ranker, texts_of(5)), plain(ranker, texts_of(5)))
    assert [values.tolist() for values in taken] == [[2.0, 2.0]]
    assert not caplog.records


def test_a_copy_captures_its_own_graphs(ranker: Ranker, started: list[str]) -> None:
    """Of its own weights."""
    texts = texts_of(6)
    for _ in range(3):
        encode(ranker, texts)
    other = copy.deepcopy(ranker)
    with torch.no_grad():
        other.model.projection.weight.neg_()
    for expected in (False, True, True):
        started.clear()
        check_alike(encode(other, texts), plain(other, texts))
        assert ("replay" in started) == expected
    assert not torch.equal(encode(other, texts).per_token["states"], encode(ranker, texts).per_token["states"])


def test_a_prompt_is_read_by_a_graph(tmp_path: Path, started: list[str]) -> None:
    encoder = TINY | {KEY: {"question_prompt": [5, 6], "leading": 1, "include_prompt": False}}
    ranker = Ranker.from_pretrained(write_checkpoint("ap-transformer", tmp_path / "c", encoder=encoder), "cuda")
    for _ in range(2):
        check_alike(encode(ranker, texts_of(4)), plain(ranker, texts_of(4)))
    started.clear()
    check_alike(encode(ranker, texts_of(9)), plain(ranker, texts_of(9)))
    assert started[:3] == BY_GRAPH


OTHERS: dict[str, dict[str, Any]] = {
    "mpnet": {},
    "distilbert": {"dim": 8, "n_layers": 2, "n_heads": 2, "hidden_dim": 12},
    "xlm-roberta": {},
    "electra": {"embedding_size": 8},
}


@pytest.mark.parametrize("model_type", OTHERS)
def test_other_encoders_have_graphs(model_type: str, started: list[str], caplog: pytest.LogCaptureFixture) -> None:
    config = TINY | {"model_type": model_type, "pad_token_id": 1} | OTHERS[model_type]
    torch.manual_seed(0)
    options = complete_options("ap-transformer", SMALL["ap-transformer"])
    model = build_model("ap-transformer", Inputs([*map(str, range(64))], 8, 16, config), options).eval().to("cuda")
    encoder = CapturedEncoder(model, 16)
    tokens = [[4, 9, 7], [5, 6, 8, 10, 11]]
    with torch.inference_mode():
        for _ in range(3):
            started.clear()
            states = encoder.encode_questions(tokens, torch.device("cuda"))
        assert started == BY_GRAPH
        check_alike(states, model.encode_questions(TokenBatch.from_lists(tokens, "cuda")))
    assert not caplog.records
