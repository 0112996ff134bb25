"""What reads a text with a pretrained transformer: one state per subword, and one pooled vector."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from ap_ranker.kept_results import Latest
from ap_ranker.models.bert import Bert
from ap_ranker.models.fast_forward import FastTransformer, rounded_up
from ap_ranker.models.frozen_layers import FrozenStates, LastLayers, rounded
from ap_ranker.models.operations import exact, pool, unit
from ap_ranker.models.pretrained import WEIGHTS, build_backbone, read_weights
from ap_ranker.models.sentence_modules import SentenceFiles, SentenceSettings, dense
from ap_ranker.models.weights import load_shaped
from ap_ranker.text.tokenizer import TokenBatch

AT_ONCE = 32  # texts that the transformer reads: with more, a CPU gains no speed
LARGE_VOCABULARY = 100_000
"""Tokens above which their vectors are not trained. Of 250,000, a company's texts have some thousands, but gradients
and Adam's moments three numbers for each one of all: 1.2 GB of 96 million, four fifths of multilingual-e5-small. And a
word that no training question has would stay where it was while its translation moves."""

KEPT_NUMBERS = 4_000
RECOMPUTED_AT_ONCE = 8
"""Of a token's states in all layers that learn. Where these have more on a CPU, they compute some texts at once once
more for their gradient, which is a third of a step: what they have of a batch takes gigabytes (of
multilingual-e5-small three, of all-mpnet-base-v2 seven). Few widths, because oneDNN keeps a program for each."""

_RECOMPUTED = partial(checkpoint, use_reentrant=False, preserve_rng_state=False)


class TransformerEncoder(nn.Module):
    """The last hidden states of a transformer. Sizes: N texts, T subwords, H hidden size.

    Where the transformer itself is frozen, a linear adapter of the pooled vector learns, which begins as the identity,
    and its last `trained_layers`.
    """

    def __init__(self, config: Mapping[str, Any], dropout: float, *, frozen: bool, trained_layers: int = 0) -> None:
        super().__init__()
        self.settings = SentenceSettings.of(config)
        self.backbone: Any = Bert(config) if Bert.reads(config) else build_backbone(config)
        if getattr(self.backbone, "pooler", None) is not None:
            self.backbone.pooler = None  # reads the first token only, and nobody asks it
        for module in self.backbone.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0  # a quarter of a CPU's training time; subwords are dropped instead
        self.backbone.config.use_cache = False  # of decoders: keys and values for words to come
        self.hidden_size: int = self.backbone.config.hidden_size
        self.token_layers, self.state_size = dense(self.hidden_size, self.settings.token_layers)
        self.layers, size = dense(self.state_size, self.settings.layers)
        size = min(size, self.settings.dimensions or size)
        self.dropout = dropout
        self.frozen = frozen
        for parameter in self.pretrained_parameters():
            parameter.requires_grad_(not frozen)
        self._last = LastLayers(self.backbone, trained_layers) if frozen and trained_layers else None
        self._learning_layers = trained_layers if frozen else self.backbone.config.num_hidden_layers
        for weight in self._last.parameters() if self._last else ():
            weight.requires_grad_(True)
        for module in self.backbone.modules():
            if isinstance(module, nn.Embedding) and module.num_embeddings > LARGE_VOCABULARY:
                module.requires_grad_(False)
        self.adapter = nn.Linear(size, size, bias=False).requires_grad_(frozen)
        with torch.no_grad():  # as `nn.init.eye_`, which imports torch's compiler where there is no memory for weights
            self.adapter.weight.zero_().diagonal().fill_(1.0)
        self._attention: str = self.backbone.config._attn_implementation
        self._store: FrozenStates | None = None
        self._weights = tuple(self.backbone.parameters())  # to walk through the modules takes a millisecond
        self._recomputes = False
        self._fast: Latest[FastTransformer | None] = Latest()  # a copy of the weights

    def __getstate__(self) -> dict[str, Any]:
        """Without the store, which only saves time. Packed weights are not copied either: `Latest` begins without."""
        return self.__dict__ | {"_store": None}

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        if mode:
            self._fast.forget()  # fused optimisers do not count what they change
        # Fused attention is the faster one forwards, but its gradient on a CPU costs half a training step more.
        plain = mode and self._weights[0].device.type == "cpu"
        self.backbone.set_attn_implementation("eager" if plain else self._attention)
        self._recomputes = plain and self._learning_layers * self.hidden_size > KEPT_NUMBERS
        return self

    def pretrained_parameters(self) -> Iterator[nn.Parameter]:
        """Those that exist before any training."""
        return chain(*(part.parameters() for part in (self.backbone, self.token_layers, self.layers)))

    def load_pretrained(self, folder: Path) -> None:
        """Take the weights of a pretrained encoder; raises as `SentenceFiles.read` and `read_weights`."""
        self.backbone.load_state_dict(read_weights(folder, self.backbone.state_dict()), strict=False)  # without pooler
        for layer, place in zip([*self.token_layers, *self.layers], SentenceFiles.read(folder).layers, strict=True):
            load_shaped(layer, place / WEIGHTS)

    def forward(
        self, batch: TokenBatch, prompt: Sequence[int] = (), *, stored: bool = False
    ) -> tuple[Tensor, Tensor, Tensor]:
        """(N, T, H) states, zero on padding; (N, T) bool: which subwords have one; (N, H) pooled vectors of length 1.

        The `prompt` is read before each text and counts for the pooled vector only. While training, a share `dropout`
        of the subwords is dropped, never the first, nor a last one that is pooled; a frozen transformer reads texts
        whole all the same, so that it may remember them. `stored`: the states will be rounded to few bits, where a last
        bit may turn a whole step.
        """
        mask = batch.mask
        if self.training and self.dropout:
            mask = mask & (torch.rand(mask.shape, device=mask.device) >= self.dropout)
            mask[:, 0] = True
            if self.settings.pooling == "lasttoken" or not self.settings.include_prompt:
                mask |= batch.mask & ~F.pad(batch.mask[:, 1:], (0, 1))
        ids = batch.ids
        present = mask
        whole = batch.mask
        start = self.settings.leading
        end = self.settings.leading + len(prompt)
        if prompt:
            ids = _inserted(ids, start, _prompt_ids(tuple(prompt), ids.device))
            present = _inserted(present, start, present.new_ones(len(prompt)))
            whole = _inserted(whole, start, whole.new_ones(len(prompt)))
        seen = TokenBatch(ids, whole if self.frozen and not self._last else present)
        hidden = self._read(seen, stored) if self._store is None else self._read_on(seen, whole, self._store)
        hidden = self.token_layers(hidden) * present.unsqueeze(2)
        pooled = hidden
        counted = present
        if prompt and not self.settings.include_prompt:
            counted = F.pad(present[:, end:], (end, 0))
            pooled = hidden * counted.unsqueeze(2)
        vectors = self.layers(pool(pooled, counted, self.settings.pooling))[:, : self.adapter.in_features]
        if prompt:
            hidden = torch.cat([hidden[:, :start], hidden[:, end:]], dim=1)
        adapted = F.linear(exact(vectors), exact(self.adapter.weight)).to(vectors.dtype)
        return hidden, mask, unit(adapted).to(adapted.dtype)

    @contextmanager
    def cache_frozen_states(self, *, outlives: bool = True) -> Iterator[None]:
        """Within, what frozen layers make of a text is computed once; kept in the user's cache if it `outlives`."""
        if not self.frozen:
            yield
            return
        if self._last:
            self._last.check()
        frozen = [weight for weight in self._weights if not weight.requires_grad]
        reading = f"{type(self.backbone).__name__} {len(self._weights) - len(frozen)} {multiplies_bfloat16()} rounded"
        with FrozenStates.opened(frozen, reading, outlives=outlives) as store:
            self._store = store
            try:
                yield
            finally:
                self._store = None

    def _read(self, batch: TokenBatch, stored: bool, below: Tensor | None = None) -> Tensor:
        """(N, T, H) hidden states; without a gradient, on a CPU, a text's do not depend on the others of the batch.

        With a store, they are those of the frozen layers, or of the last ones, from what lies `below`.
        """
        fast = None if torch.is_grad_enabled() or (self._store and self._last) else self._fast_forward()
        if len(batch.ids) <= AT_ONCE and batch.ids.is_cuda:  # which reads the padding sooner than it sorts the texts
            return self._read_group(batch.ids, batch.mask, fast, below).to(self._weights[0].dtype)
        # In groups of similar length, because padding takes as long as words. Dropped words may leave gaps at the end.
        lengths = (batch.mask * torch.arange(1, batch.mask.shape[1] + 1, device=batch.mask.device)).amax(dim=1)
        order = lengths.argsort()
        # Where transformers reads, a question's may in the last bit: one by one, sixteen take half as long again.
        one_by_one = stored and batch.ids.device.type == "cpu" and not torch.is_grad_enabled()
        together = RECOMPUTED_AT_ONCE if self._recomputes else AT_ONCE
        if one_by_one:
            together = 1
        at_once = together if fast is None else fast.groups(lengths[order].tolist())
        parts = []
        for rows in order.split(at_once):
            width = int(lengths[rows[-1]])
            if self._recomputes:
                width = min(rounded_up(width), batch.ids.shape[1])
            under = None if below is None else below[rows, :width]
            states = self._read_group(batch.ids[rows, :width], batch.mask[rows, :width], fast, under)
            parts.append(nn.functional.pad(states.to(self._weights[0].dtype), (0, 0, 0, batch.ids.shape[1] - width)))
        return torch.cat(parts)[order.argsort()]

    def _read_group(self, ids: Tensor, mask: Tensor, fast: FastTransformer | None, below: Tensor | None) -> Tensor:
        if fast is not None:
            return fast(ids, mask)
        # bfloat16 halves the training time where the CPU multiplies matrices in it.
        trains = self.training or self._store is not None
        reduced = ids.device.type == "cpu" and trains and multiplies_bfloat16()
        with torch.autocast("cpu", torch.bfloat16, enabled=reduced):
            compute = _RECOMPUTED if self._recomputes else operator.call
            if self._last and below is not None:
                return compute(self._last.read_on, below, ids, mask)
            if self._last and self._store:
                return self._last.read_below(ids, mask)
            return compute(self.backbone, input_ids=ids, attention_mask=mask.long()).last_hidden_state

    def _fast_forward(self) -> FastTransformer | None:
        """Our own forward pass with the backbone's present weights; `None` if this transformer has none."""
        first = self._weights[0]
        if first.device.type != "cpu" or first.dtype != torch.float32:
            return None
        weights = [(w.data_ptr(), 0 if w.is_inference() else w._version) for w in self._weights]
        return self._fast.get(weights, self._copied_weights)

    def _copied_weights(self) -> FastTransformer | None:
        dtype = torch.bfloat16 if multiplies_bfloat16() else torch.float32
        return FastTransformer.checked(self.backbone, dtype)

    def _read_on(self, batch: TokenBatch, whole: Tensor, store: FrozenStates) -> Tensor:
        """As `_read`, from the states that frozen layers have of whole texts; what stands on padding is undefined."""
        lengths = whole.sum(dim=1).tolist()
        texts = [row[:length].numpy().tobytes() for row, length in zip(batch.ids.cpu(), lengths, strict=True)]
        hidden = self._weights[0].new_zeros(*batch.ids.shape, self.hidden_size)
        new = []
        for row, text in enumerate(texts):
            stored = store.find(text)
            if stored is None:
                new.append(row)
            else:
                hidden[row, : lengths[row]] = stored.to(hidden)
        if new:
            with torch.no_grad():  # rounded already, as the next time: a second run learns the same
                read = rounded(self._read(TokenBatch(batch.ids[new], whole[new]), stored=False))
            hidden[new] = read.to(hidden)
            store.add({texts[row]: states[: lengths[row]] for row, states in zip(new, read, strict=True)})
        if self._last is None:
            return hidden
        return self._read(batch, stored=False, below=hidden)


@lru_cache(maxsize=8)
def _prompt_ids(prompt: tuple[int, ...], device: torch.device) -> Tensor:
    """Copied there once: a GPU would have to wait for a copy in each pass, and no CUDA graph can hold one."""
    with torch.inference_mode(False):  # training reads them, too
        return torch.tensor(prompt, device=device)


def _inserted(values: Tensor, place: int, new: Tensor) -> Tensor:
    """(N, T) -> (N, T + P): the P new values in every row, before column `place`."""
    return torch.cat([values[:, :place], new.expand(len(values), -1), values[:, place:]], dim=1)


def multiplies_bfloat16() -> bool:
    """Whether this CPU multiplies matrices faster in bfloat16."""
    able = torch.cpu.get_capabilities()  # either unit does: an AMD without AMX takes half as long for a step, too
    return bool(able.get("amx_bf16", False) or able.get("avx512_bf16", False))
