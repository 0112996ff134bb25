"""Our BERT against that of transformers, with the same weights."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import make_model, write_checkpoint
from naive.ap_transformer import TINY
from torch import Tensor, nn

from ap_ranker.models import transformer_encoder
from ap_ranker.models.bert import MINILM, Bert
from ap_ranker.models.pretrained import build_backbone
from ap_ranker.ranking.checkpoint import load_checkpoint
from ap_ranker.text.tokenizer import TokenBatch

ROBERTA = TINY | {"model_type": "xlm-roberta", "pad_token_id": 1, "max_position_embeddings": 26}


def pair(architecture: dict[str, Any]) -> tuple[Bert, Any]:
    """Ours and theirs."""
    torch.manual_seed(3)
    theirs = build_backbone(architecture).eval()
    theirs.pooler = None
    ours = Bert(architecture)
    ours.load_state_dict(theirs.state_dict())
    return ours.eval(), theirs


def batch() -> tuple[Tensor, Tensor]:
    """Texts of several lengths, one of them with a dropped word."""
    texts = TokenBatch.from_lists([[30 + (i * 3 + n) % 20 for i in range(n)] for n in (1, 4, 20)])
    present = texts.mask.clone()
    present[2, 3] = False
    return texts.ids.where(texts.mask, torch.tensor(1)), present


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("architecture", [TINY, ROBERTA], ids=["bert", "xlm-roberta"])
def test_states_are_those_of_transformers(architecture: dict[str, Any], attention: str) -> None:
    ours, theirs = pair(architecture)
    ours.set_attn_implementation(attention)
    ids, present = batch()
    with torch.no_grad():
        expected = theirs(input_ids=ids, attention_mask=present.long()).last_hidden_state
        found = ours(input_ids=ids, attention_mask=present.long()).last_hidden_state
    assert torch.allclose(found[present], expected[present], rtol=0, atol=1e-5)
    assert expected[present].std() > 0.5


@pytest.mark.parametrize("architecture", [TINY, ROBERTA], ids=["bert", "xlm-roberta"])
def test_gradients_are_those_of_transformers(architecture: dict[str, Any]) -> None:
    ours, theirs = pair(architecture)
    ids, present = batch()
    direction = torch.randn(8)
    for model in (ours, theirs):
        states = model(input_ids=ids, attention_mask=present.long()).last_hidden_state
        (states[present] @ direction).square().sum().backward()
    found = dict(ours.named_parameters())
    for name, parameter in theirs.named_parameters():
        assert torch.allclose(found[name].grad, parameter.grad, rtol=1e-3, atol=1e-3), name  # type: ignore[arg-type]


def test_random_weights_are_as_large_as_those_of_transformers() -> None:
    torch.manual_seed(0)
    architecture = TINY | {"vocab_size": 4000, "hidden_size": 64, "initializer_range": 0.05}
    theirs = build_backbone(architecture)
    theirs.pooler = None
    for name, value in Bert(architecture).state_dict().items():
        expected = theirs.state_dict()[name]
        if "LayerNorm" in name or name.endswith("bias"):
            assert torch.equal(value, expected), name
        else:
            assert value.std().item() == pytest.approx(expected.std().item(), rel=0.2), name
    assert not Bert(architecture).embeddings.word_embeddings.weight[0].any()


@pytest.mark.parametrize(
    "change",
    [
        {"hidden_act": "relu"},
        {"is_decoder": True},
        {"position_embedding_type": "relative_key"},
        {"model_type": "mpnet"},
        {"hidden_size": 9},
        {"layer_norm_eps": "small"},
    ],
    ids=str,
)
def test_what_it_does_not_read(change: dict[str, Any]) -> None:
    assert Bert.reads(TINY)
    assert Bert.reads(MINILM)
    assert not Bert.reads(TINY | change)


@pytest.mark.parametrize("name", sorted(TINY))
def test_it_reads_only_what_is_described_completely(name: str) -> None:
    assert not Bert.reads({other: value for other, value in TINY.items() if other != name})


# --- a checkpoint is loaded ---


@pytest.fixture(scope="module")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint("ap-transformer", tmp_path_factory.mktemp("untrained") / "c")


def test_no_random_number_is_drawn(untrained: Path) -> None:
    before = torch.get_rng_state()
    _, model, _ = load_checkpoint(untrained)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(value.isfinite().all() for value in model.state_dict().values())


def test_weights_are_allocated_once(untrained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []
    init = Bert.__init__

    def counted(self: Bert, config: Any) -> None:
        init(self, config)
        built.append(next(self.parameters()).device.type)

    monkeypatch.setattr(transformer_encoder.Bert, "__init__", counted)
    load_checkpoint(untrained)
    assert built == ["meta", "cpu"]


def test_what_is_not_stored_is_computed(name: str) -> None:
    """Buffers outside of the checkpoint, of every model: which tokens are punctuation, for one."""
    from ap_ranker.models.weights import Unfilled

    words = ["", "?", "word", "!", "bike2", "...", *(f"word{number}" for number in range(20))]
    expected = make_model(name, words)
    with Unfilled():
        found = make_model(name, words)
    stored = expected.state_dict().keys()
    for buffer, value in expected.named_buffers():
        if buffer not in stored:
            assert torch.equal(dict(found.named_buffers())[buffer], value), buffer


def test_neither_transformers_nor_torchs_compiler_is_imported(untrained: Path, tmp_path: Path) -> None:
    """It would take seconds of each process that asks one question."""
    names = ("ap-cnn", "ap-bilstm", "hyperqa", "mcan")
    folders = [str(untrained), *(str(write_checkpoint(name, tmp_path / name)) for name in names)]
    code = f"""
import sys
from ap_ranker.ranking.ranker import Ranker
for folder in {folders}:
    print(Ranker.from_pretrained(folder, "cpu").score("Where?", ["Open the link."]))
print([name for name in ("transformers", "torch._dynamo", "sympy", "sklearn") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_layers_are_modules(untrained: Path) -> None:
    """As transformers has it, so that `named_modules` of a checkpoint stay what they were."""
    _, model, _ = load_checkpoint(untrained)
    names = {name for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    assert "encoder.backbone.encoder.layer.0.attention.self.query" in names
