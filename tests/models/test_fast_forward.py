"""Our own forward pass against the transformers themselves, with the same random weights."""

from __future__ import annotations

import random
from typing import Any
from unittest.mock import patch

import pytest
import torch
from naive.ap_transformer import TINY
from torch import Tensor
from torch.nn import functional as F

from ap_ranker.models import fast_forward, transformer_encoder
from ap_ranker.models.fast_forward import FastTransformer
from ap_ranker.models.pretrained import build_backbone
from ap_ranker.models.transformer_encoder import TransformerEncoder, multiplies_bfloat16
from ap_ranker.text.tokenizer import TokenBatch

SIZES = {"hidden_size": 64, "intermediate_size": 1536, "num_attention_heads": 4, "max_position_embeddings": 514}
BERT = TINY | SIZES
DISTILBERT = {
    "model_type": "distilbert",
    "dim": 64,
    "hidden_dim": 96,
    "n_heads": 4,
    "n_layers": 2,
    "vocab_size": 64,
    "max_position_embeddings": 512,
    "activation": "gelu",
    "initializer_range": 0.2,
}
KINDS = {
    "bert": BERT,
    "xlm-roberta": BERT | {"model_type": "xlm-roberta", "pad_token_id": 1},
    "mpnet": BERT | {"model_type": "mpnet", "pad_token_id": 1},
    "distilbert": DISTILBERT,
}
PROMPT = (5, 6, 7)
SENTENCE = {"question_prompt": PROMPT, "leading": 1}

every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(params=[torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def dtype(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, in_float32: None) -> torch.dtype:
    """What products are computed in."""
    if request.param == torch.bfloat16:
        if not multiplies_bfloat16():
            pytest.skip("this CPU does not multiply bfloat16")
        monkeypatch.setattr(transformer_encoder, "multiplies_bfloat16", lambda: True)
    found: torch.dtype = request.param
    return found


def backbone(architecture: dict[str, Any]) -> Any:
    torch.manual_seed(3)
    return build_backbone(architecture).eval()


def encoder(architecture: dict[str, Any]) -> TransformerEncoder:
    torch.manual_seed(3)
    return TransformerEncoder(architecture | {"sentence": SENTENCE}, 0.0, frozen=False).eval()


def texts(*lengths: int) -> TokenBatch:
    return TokenBatch.from_lists([[10 + (7 * n + i * i) % 50 for i in range(n)] for n in lengths])


def assert_close(found: Tensor, expected: Tensor, dtype: torch.dtype) -> None:
    """(tokens, H) states."""
    assert expected.std() > 0.5
    if dtype == torch.float32:
        assert torch.allclose(found, expected, rtol=0, atol=1e-5)
    assert F.cosine_similarity(found, expected, dim=1).min() > 0.999


@every_kind
@pytest.mark.parametrize(
    "lengths", [(1,), (4,), (33,), (512,), (1, 4, 20), (3, 20, 20), (2, 40), (16, 32, 48), (90, 7, 300)], ids=str
)
def test_states_are_those_of_the_transformer(kind: str, lengths: tuple[int, ...], dtype: torch.dtype) -> None:
    """One text as it is, and several with padding, in any order; a token of the last is dropped."""
    model, batch = backbone(KINDS[kind]), texts(*lengths)
    present = batch.mask.clone()
    present[-1, 2:3] = False
    with torch.no_grad():
        expected = model(input_ids=batch.ids, attention_mask=present.long()).last_hidden_state
        found = FastTransformer(model, dtype)(batch.ids, present)
    assert_close(found[present], expected[present], dtype)
    assert not found[~present].any()


@every_kind
def test_texts_do_not_depend_on_their_neighbours(kind: str, dtype: torch.dtype) -> None:
    """To the last bit, in batches of any size and order; with a prompt and without."""
    model = encoder(KINDS[kind])
    lengths = random.Random(1).choices([1, 2, 7, 15, 16, 17, 31, 32, 33, 47, 64, 65, 100, 130, 300], k=40)
    for prompt in ((), PROMPT):
        batch = texts(*lengths)
        with torch.no_grad():
            assert model._fast_forward().reads_apart  # type: ignore[union-attr]
            together, _, vectors = model(batch, prompt)
            for rows in ([0], [5], [17], list(range(0, 40, 3))):
                width = max(lengths[row] for row in rows)
                part = TokenBatch(batch.ids[rows, :width], batch.mask[rows, :width])
                found, _, own = model(part, prompt, stored=True)
                assert torch.equal(found, together[rows, :width])
                assert torch.allclose(own, vectors[rows], rtol=0, atol=1e-6)


@every_kind
def test_an_encoder_reads_as_the_transformer_does(kind: str, dtype: torch.dtype) -> None:
    """Compared with where it learns, which needs the transformer's own gradient."""
    model, batch = encoder(KINDS[kind]), texts(3, 60, 18, 33, 1)
    for prompt in ((), PROMPT):
        with torch.no_grad():
            assert model._fast_forward() is not None
            found, mask, vectors = model(batch, prompt)
        expected, _, others = model(batch, prompt)
        assert_close(found[mask], expected.detach()[mask], dtype)
        assert F.cosine_similarity(vectors, others).min() > 0.999


def test_products_have_few_shapes(dtype: torch.dtype) -> None:
    """Each is compiled and kept: a server whose batches all differ must not grow with every one."""
    rows: set[int] = set()

    def counted(x: Tensor, *_: Tensor, B: Tensor, **__: object) -> Tensor:  # noqa: N803 -- as torch names it
        """Compiles nothing: that would take a gigabyte."""
        rows.add(len(x))
        return x.new_zeros(len(x), len(B))

    with patch.object(torch.ops.mkldnn, "_linear_pointwise", counted):
        model = FastTransformer(backbone(KINDS["bert"]), dtype)
        for length in range(1, 513, 3):
            model(torch.full((1, length), 5), torch.ones(1, length, dtype=torch.bool))
        for count in range(2, 80):
            model(torch.full((count, 20), 5), torch.arange(20) < 10 + torch.arange(count).unsqueeze(1) % 11)
    assert len(rows) < 50
    assert min(rows) == 2  # one row alone is summed in another order
    assert max(rows) <= fast_forward.MOST_ROWS


def test_many_texts_are_read_at_once(dtype: torch.dtype) -> None:
    """No group has more tokens than `TOKENS_AT_ONCE`, and where AMX multiplies, no two numbers of rows."""
    model = FastTransformer(backbone(KINDS["bert"]), dtype)
    lengths = sorted(random.Random(2).choices(range(1, 513), k=300))
    sizes = model.groups(lengths)
    assert sum(sizes) == len(lengths)
    assert len(sizes) < 50
    start = 0
    for size in sizes:
        group = lengths[start : start + size]
        assert sum(group) <= fast_forward.TOKENS_AT_ONCE
        assert len({model._row_limit_of(length) for length in group}) == 1
        start += size
    model.reads_apart = False
    assert model.groups(lengths) == [1] * len(lengths)


@pytest.mark.parametrize("change", [{"hidden_act": "relu"}, {"is_decoder": True}], ids=str)
def test_other_transformers_are_left_to_the_library(change: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    """The log names the setting that is not read, not only the type of the model, which may be."""
    assert isinstance(TransformerEncoder(TINY, 0.0, frozen=False)._fast_forward(), FastTransformer)
    with caplog.at_level("INFO"):
        assert TransformerEncoder(TINY | change, 0.0, frozen=False)._fast_forward() is None
    [(name, value)] = change.items()
    assert f"{name} {value}" in caplog.text
    assert TransformerEncoder(TINY, 0.0, frozen=False).double()._fast_forward() is None


def test_an_architecture_without_a_forward_pass_of_ours_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    tiny = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "num_hidden_layers": 2}
    tokens = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"), 1)
    model = TransformerEncoder({"model_type": "modernbert", "vocab_size": 64} | tiny | tokens, 0.0, frozen=False).eval()
    with torch.no_grad(), caplog.at_level("INFO"):
        for _ in range(3):
            model(texts(3, 5))
    assert len([record for record in caplog.records if "modernbert" in record.getMessage()]) == 1


def test_a_bias_that_the_transformer_cannot_compute_is_left_to_it() -> None:
    few = TINY | {"model_type": "mpnet", "pad_token_id": 1, "relative_attention_num_buckets": 8}
    with torch.no_grad():
        assert TransformerEncoder(few, 0.0, frozen=False)._fast_forward() is None
