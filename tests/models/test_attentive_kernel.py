"""The compiled loops against the paper's equations, number by number, and against torch."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import make_model, write_checkpoint
from hypothesis import given
from hypothesis import strategies as st
from naive.ap import sigmas
from naive.arithmetic import Matrix, bilstm, convolve, cosine, embed, weighted_sum

from ap_ranker.models import ap
from ap_ranker.models.ap import compiled_loops_agree
from ap_ranker.models.base import AnswerModel, States, StoredStates
from ap_ranker.ranking import text_encoder as ranker_module
from ap_ranker.ranking.cache import EncodingCache
from ap_ranker.ranking.quantization import StateDtype
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.text.tokenizer import TokenBatch

pytest.importorskip("numba")

WORDS = ["[PAD]", "[UNK]", *map(str, range(2, 30))]
# Of one token, of a window's, of one word repeatedly, of as many tokens as loops take at once, and of some more.
ANSWERS = [[7], [2, 3], [5, 5, 5, 5, 5], [1, 2, 3, 4], list(range(2, 29)), [9, 8, 9, 8, 9, 8, 9], [6, 1, 6]]
QUESTIONS = [[5], [5, 5], [3, 9, 2, 7], [4, 1, 8, 22, 6], list(range(10, 29))]

IDS = {"ids": torch.int32}
INT8 = {"states": torch.int8}


@pytest.fixture(autouse=True)
def agreed() -> Iterator[None]:
    """Whatever a test did to the self-check is forgotten."""
    yield
    compiled_loops_agree.cache_clear()


def stored(texts: Sequence[torch.Tensor], name: str, **more: Sequence[torch.Tensor]) -> StoredStates:
    """Texts as in the cache."""
    tensors = {name: texts, **{key.replace("_scale", ".scale"): parts for key, parts in more.items()}}
    per_token = {key: torch.cat(list(parts)) for key, parts in tensors.items()}
    return StoredStates(np.array(list(map(len, texts))), per_token, {})


def naive_score(model: AnswerModel, Q: Matrix, A: Matrix, sharpness: float) -> float:  # noqa: N803
    sigma_q, sigma_a = sigmas(model, Q, A, sharpness)
    return cosine(weighted_sum(sigma_q, Q), weighted_sum(sigma_a, A))


@torch.no_grad()
def scores(model: AnswerModel, question: list[int], answers: StoredStates) -> list[float]:
    found: list[float] = model.match_stored(model.encode_questions(TokenBatch.from_lists([question])), answers).tolist()
    return found


@pytest.mark.parametrize("window", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("sharpness", [0.01, 1.0, 30.0])
def test_cnn_scores_are_the_papers(window: int, sharpness: float) -> None:
    options = {"filters": 12, "window": window, "sharpness": sharpness}
    model = make_model("ap-cnn", WORDS, options)
    model.U.data += 0.5 * torch.randn(12, 12)
    assert model.reads_stored(IDS)
    answers = stored([torch.tensor(ids, dtype=torch.int32) for ids in ANSWERS], "ids")
    for question in QUESTIONS:
        Q, *texts = (  # noqa: N806
            convolve(model.encoder.linear, embed(model, ids), window) for ids in (question, *ANSWERS)
        )
        expected = [naive_score(model, Q, A, sharpness) for A in texts]
        assert scores(model, question, answers) == pytest.approx(expected, rel=0, abs=2e-6)


@pytest.mark.parametrize("sharpness", [0.01, 1.0, 30.0])
def test_bilstm_scores_are_the_papers_of_rounded_states(sharpness: float) -> None:
    model = make_model("ap-bilstm", WORDS, {"hidden": 6, "sharpness": sharpness})
    model.U.data += 0.5 * torch.randn(12, 12)
    if not model.reads_stored(INT8):
        pytest.skip("this CPU does not multiply int8")
    generator = torch.Generator().manual_seed(1)
    states = [torch.randint(-127, 128, (len(ids), 12), dtype=torch.int8, generator=generator) for ids in ANSWERS]
    scales = [(torch.rand(len(ids), 1, generator=generator) / 127).half() for ids in ANSWERS]
    answers = stored(states, "states", states_scale=scales)
    for question in QUESTIONS:
        Q = bilstm(model.encoder, embed(model, question))  # noqa: N806
        expected = [
            naive_score(model, Q, (state.double() * scale.double()).tolist(), sharpness)
            for state, scale in zip(states, scales, strict=True)
        ]
        # The question is rounded to 15 bits, and sharpness multiplies what that changes.
        assert scores(model, question, answers) == pytest.approx(expected, rel=0, abs=2e-5 * max(1, sharpness))


@pytest.mark.parametrize("scale", [1e-6, 1e3, 1e6])
def test_products_of_any_size_have_weights(scale: float) -> None:
    """Where tanh is 0 all tokens count alike; where it is 1, those of the largest products."""
    model = make_model("ap-cnn", WORDS, {"filters": 12, "window": 3, "sharpness": 1000.0})
    model.U.data *= scale
    ids = [torch.tensor(text, dtype=torch.int32) for text in ANSWERS]
    padded = torch.nn.utils.rnn.pad_sequence([text.long() for text in ids], batch_first=True)
    for question in QUESTIONS:
        with torch.no_grad():
            encoded = model.encode_questions(TokenBatch.from_lists([question]))
            expected = model.match(encoded, States(padded != 0, {"ids": padded}))[0]
        # tanh has seven digits, of which a factor of 1000 leaves four.
        assert scores(model, question, stored(ids, "ids")) == pytest.approx(expected.tolist(), rel=0, abs=2e-3)


def test_other_states_are_left_to_torch() -> None:
    bilstm_model, cnn = make_model("ap-bilstm", WORDS), make_model("ap-cnn", WORDS)
    for dtype in (torch.float32, torch.float16, torch.uint8):
        assert not bilstm_model.reads_stored({"states": dtype})
    assert not bilstm_model.reads_stored({})
    assert not cnn.double().reads_stored(IDS)
    assert not make_model("qa-cnn", WORDS).reads_stored(IDS)


# --- as a user meets them: a ranker with a cache ---


VOCABULARY = ["where", "is", "my", "parcel", "open", "the", "tracking", "link", "qwertz", "refund", "?", "battery"]
TEXT = st.lists(st.sampled_from(VOCABULARY), max_size=25).map(" ".join)


@pytest.fixture(scope="module", params=["ap-cnn", "ap-bilstm"])
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(request.param, tmp_path_factory.mktemp(request.param) / "checkpoint")


def reading_ranker(checkpoint: Path) -> Ranker:
    """A ranker whose model reads the cache, with int8 where there are states."""
    ranker = Ranker.from_pretrained(checkpoint, "cpu", cache=EncodingCache(10**6))
    ranker.score("?", ["where is my parcel"])
    assert ranker.cache is not None
    if not ranker._reads(ranker.cache.find(["where is my parcel"])[0]):
        pytest.skip("this CPU does not multiply int8")
    return ranker


def score_plainly(ranker: Ranker, question: str, answers: list[str]) -> torch.Tensor:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(ranker.model), "reads_stored", lambda self, dtypes: False)
        return ranker.score(question, answers)


@given(TEXT, st.lists(TEXT, min_size=1, max_size=12), st.integers(0, 12), st.integers(1, 5))
def test_a_cached_answer_scores_as_it_does_without_the_loops(
    checkpoint: Path, question: str, answers: list[str], cached: int, at_once: int
) -> None:
    """Whichever of the answers are in the cache, and however many are matched at once."""
    ranker = reading_ranker(checkpoint)
    if answers[:cached]:
        ranker.score("anything", answers[:cached])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranker_module, "STORED_AT_ONCE", at_once)
        found = ranker.score(question, answers)
    expected = score_plainly(ranker, question, answers)
    assert found.tolist() == pytest.approx(expected.tolist(), rel=0, abs=5e-5)


def test_cached_answers_are_read_as_they_are_stored(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ranker = reading_ranker(checkpoint)
    answers = [" ".join(VOCABULARY[: n + 1]) for n in range(6)]
    ranker.score("where", answers)
    expected = score_plainly(ranker, "my refund ?", answers)
    assert ranker.cache is not None
    before = ranker.cache.info()
    monkeypatch.setattr(type(ranker.model), "match", None)
    assert ranker.score("my refund ?", answers).tolist() == pytest.approx(expected.tolist(), rel=0, abs=5e-5)
    assert ranker.cache.info().hits == before.hits + 6
    assert ranker.cache.info().misses == before.misses
    [states] = ranker.cache.find(answers[:1]).values()
    assert ranker.cache.dtype == (StateDtype.float32 if "ids" in states.per_token else StateDtype.int8)


def forget_loops(patch: pytest.MonkeyPatch) -> None:
    """As in a process that has not imported them yet."""
    compiled_loops_agree.cache_clear()
    patch.delitem(sys.modules, "ap_ranker.models.attentive_kernel", raising=False)
    patch.delattr("ap_ranker.models.attentive_kernel", raising=False)


def test_cold_threads_score_alike(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight of them, of which none has compiled anything yet, with other questions."""
    ranker = reading_ranker(checkpoint)
    answers = [" ".join(VOCABULARY[n:] + VOCABULARY[:n]) for n in range(len(VOCABULARY))]
    questions = VOCABULARY[:8]
    ranker.score("?", answers)
    expected = [score_plainly(ranker, question, answers).tolist() for question in questions]
    forget_loops(monkeypatch)
    start = threading.Barrier(len(questions))

    def ask(question: str) -> list[list[float]]:
        start.wait()
        return [ranker.score(question, answers).tolist() for _ in range(20)]

    with ThreadPoolExecutor(len(questions)) as pool:
        for found, one in zip(pool.map(ask, questions), expected, strict=True):
            assert all(row == pytest.approx(one, rel=0, abs=5e-5) for row in found)


def forbid(*args: object) -> torch.Tensor:
    raise AssertionError("the loops are not there")


def test_without_numba_torch_matches(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ranker = reading_ranker(checkpoint)
    expected = ranker.score("open the link", VOCABULARY)
    forget_loops(monkeypatch)
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.setattr(type(ranker.model), "match_stored", forbid)
    with caplog.at_level(logging.DEBUG, "ap_ranker"):
        found = [ranker.score("open the link", VOCABULARY) for _ in range(2)]
    assert [one.tolist() for one in found] == [pytest.approx(expected.tolist(), rel=0, abs=5e-5)] * 2
    [record] = caplog.records
    assert "without compiled loops" in record.getMessage()


def test_loops_that_compute_something_else_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    from ap_ranker.models import attentive_kernel as loops

    assert compiled_loops_agree()
    for name in ("attention", "weighted_sums"):
        right = getattr(loops, name)
        with monkeypatch.context() as patch:

            def wrong(*args: object, right: object = right) -> object:
                result = right(*args)  # type: ignore[operator]
                first = result[0] if isinstance(result, tuple) else result
                first[: len(first) // 2] *= 2
                return result

            patch.setattr(loops, name, wrong)
            compiled_loops_agree.cache_clear()
            assert not compiled_loops_agree(), name


def test_the_self_check_leaves_random_numbers_as_they_are() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    compiled_loops_agree.cache_clear()
    assert compiled_loops_agree()
    assert torch.equal(torch.rand(2), expected)
    assert ap.TOLERANCE < 1e-3
