"""What reads a text with a pretrained transformer: one state per subword, and one pooled vector.

`FastBert` is the forward pass for ranking on a CPU: fewer operators and weights in half the bytes. A short text is
bound by reading weights and by the overhead of each operator. So the three projections of a layer's attention are one,
an activation is part of its product, weights lie as oneDNN reads them, and they are bfloat16 where the CPU has
instructions for it. Sums, norms and the result stay in float32. Should a version of torch lack the operators, `checked`
says so and `Bert` reads the texts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from ap_ranker.models.bert import Bert
from ap_ranker.models.operations import exact, pool
from ap_ranker.models.pretrained import WEIGHTS, build_backbone, read_weights
from ap_ranker.models.private_operators import packed_linear
from ap_ranker.models.sentence_files import SentenceFiles
from ap_ranker.models.sentence_modules import SentenceSettings, dense
from ap_ranker.models.weights import load_shaped
from ap_ranker.text.tokenizer import TokenBatch

logger = logging.getLogger(__name__)

AT_ONCE = 32  # texts that the transformer reads: with more, a CPU gains no speed
LARGE_VOCABULARY = 100_000
"""Tokens above which their vectors are not trained. Of 250,000, a company's texts have some thousands, but gradients
and Adam's moments three numbers for each one of all: 1.2 GB of 96 million, four fifths of multilingual-e5-small. And a
word that no training question has would stay where it was while its translation moves."""

KEPT_NUMBERS, RECOMPUTED_AT_ONCE, RECOMPUTED_WIDTH = 4_000, 8, 16
"""Of a token's states in all layers together. A larger encoder that learns on a CPU computes some texts at once once
more for their gradient, which is a third of a step: what all layers have of a batch takes gigabytes (of
multilingual-e5-small three, of all-mpnet-base-v2 seven). Few widths, because oneDNN keeps a program for each."""

FROZEN_CACHE_BYTES = 8 * 10**9  # of texts that a frozen encoder has read; 130 tokens of 384 numbers are 100 KB


FEW_TOKENS = 32
"""Up to here, products have as many rows as tokens. Above, their number is rounded up: each new one leaves 2.6 MB with
all-MiniLM-L6-v2, among it oneDNN's programs; a server grew by 250 MB a process in five thousand questions."""

LEAST_ROWS = 2
"""Of a product. oneDNN gives a row the same sums among any 2 to 2,048 rows, at any place among them (AVX2, AVX-512 and
its bfloat16; 1 to 16 threads). A row alone is summed in another order if it has 1,536 numbers or more."""

ATTENTION_WIDTH = 16
"""Texts are attended to at multiples of this width: torch computes a softmax in vectors of 16 numbers and what is left
one by one, which changes a score by up to .007. At 16, 32, ... 256 states are equal to the last bit, at no cost."""

LEAST_COSINE = 0.999
"""Of a token's state and what transformers computes; with bfloat16, those of all-MiniLM-L6-v2 have 0.9999."""


class TransformerEncoder(nn.Module):
    """The last hidden states of a transformer. Sizes: N texts, T subwords, H hidden size.

    Where the transformer itself is frozen, a linear adapter of the pooled vector learns; it begins as the identity.
    """

    def __init__(self, config: Mapping[str, Any], dropout: float, *, frozen: bool) -> None:
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
        self.dropout, self.frozen = dropout, frozen
        for parameter in self.pretrained_parameters():
            parameter.requires_grad_(not frozen)
        for module in self.backbone.modules():
            if isinstance(module, nn.Embedding) and module.num_embeddings > LARGE_VOCABULARY:
                module.requires_grad_(False)
        self.adapter = nn.Linear(size, size, bias=False).requires_grad_(frozen)
        with torch.no_grad():  # as `nn.init.eye_`, which imports torch's compiler where there is no memory for weights
            self.adapter.weight.zero_().diagonal().fill_(1.0)
        self._attention: str = self.backbone.config._attn_implementation
        self._memory: dict[bytes, Tensor] = {}
        self._room = 0
        self._weights = tuple(self.backbone.parameters())  # to walk through the modules takes a millisecond
        self._recomputes = False
        self._fast: tuple[object, FastBert | None] = (None, None)  # of which weights, and a copy of them

    def __getstate__(self) -> dict[str, Any]:
        """Without what only saves time: packed weights cannot be copied, and are packed again when they are needed."""
        return self.__dict__ | {"_fast": (None, None), "_memory": {}, "_room": 0}

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        if mode:
            self._fast = None, None  # fused optimisers do not count what they change
        # Fused attention is the faster one forwards, but its gradient on a CPU costs half a training step more.
        plain = mode and self.backbone.device.type == "cpu"
        self.backbone.set_attn_implementation("eager" if plain else self._attention)
        is_large = self.backbone.config.num_hidden_layers * self.hidden_size > KEPT_NUMBERS
        self._recomputes = plain and not self.frozen and is_large
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
        ids, present, whole = batch.ids, mask, batch.mask
        start, end = self.settings.leading, self.settings.leading + len(prompt)
        if prompt:
            ids = _inserted(ids, start, ids.new_tensor(prompt))
            present, whole = (_inserted(part, start, part.new_ones(len(prompt))) for part in (present, whole))
        seen = TokenBatch(ids, whole if self.frozen else present)
        hidden = self._cached_states(seen, stored) if self.frozen else self._read(seen, stored)
        hidden = self.token_layers(hidden) * present.unsqueeze(2)
        pooled, counted = hidden, present
        if prompt and not self.settings.include_prompt:
            counted = F.pad(present[:, end:], (end, 0))
            pooled = hidden * counted.unsqueeze(2)
        vectors = self.layers(pool(pooled, counted, self.settings.pooling))[:, : self.adapter.in_features]
        if prompt:
            hidden = torch.cat([hidden[:, :start], hidden[:, end:]], dim=1)
        adapted = F.linear(exact(vectors), exact(self.adapter.weight)).to(vectors.dtype)
        return hidden, mask, F.normalize(adapted, dim=1)

    @contextmanager
    def cache_frozen_states(self) -> Iterator[None]:
        """Within, a frozen transformer keeps its states of texts, in half precision, and reads none of them twice."""
        self._memory, self._room = {}, FROZEN_CACHE_BYTES
        try:
            yield
        finally:
            self._memory, self._room = {}, 0

    def _read(self, batch: TokenBatch, stored: bool) -> Tensor:
        """(N, T, H) hidden states; without a gradient, on a CPU, a text's do not depend on the others of the batch."""
        # Where transformers reads, a question's may in the last bit: one by one, sixteen take half as long again.
        fast = None if torch.is_grad_enabled() else self._fast_forward()
        one_by_one = stored if fast is None else not fast.reads_apart
        at_once = 1 if one_by_one and batch.ids.device.type == "cpu" and not torch.is_grad_enabled() else AT_ONCE
        at_once = RECOMPUTED_AT_ONCE if self._recomputes else at_once
        # In groups of similar length, because padding takes as long as words. Dropped words may leave gaps at the end.
        lengths = (batch.mask * torch.arange(1, batch.mask.shape[1] + 1, device=batch.mask.device)).amax(dim=1)
        order = lengths.argsort()
        parts = []
        for rows in order.split(at_once):
            width = int(lengths[rows[-1]])
            if self._recomputes:
                width = min(-(-width // RECOMPUTED_WIDTH) * RECOMPUTED_WIDTH, batch.ids.shape[1])
            states = self._read_group(batch.ids[rows, :width], batch.mask[rows, :width], fast)
            parts.append(nn.functional.pad(states.to(self._weights[0].dtype), (0, 0, 0, batch.ids.shape[1] - width)))
        return torch.cat(parts)[order.argsort()]

    def _read_group(self, ids: Tensor, mask: Tensor, fast: FastBert | None) -> Tensor:
        if fast is not None:
            return fast(ids, mask)
        # bfloat16 halves the training time where the CPU multiplies matrices in it.
        reduced = ids.device.type == "cpu" and self.training and multiplies_bfloat16()
        with torch.autocast("cpu", torch.bfloat16, enabled=reduced):
            if self._recomputes:
                read = partial(checkpoint, self.backbone, use_reentrant=False, preserve_rng_state=False)
            else:
                read = self.backbone
            return read(input_ids=ids, attention_mask=mask.long()).last_hidden_state

    def _fast_forward(self) -> FastBert | None:
        """Our own forward pass with the backbone's present weights; `None` if this transformer has none."""
        backbone, first = self.backbone, self._weights[0]
        if not isinstance(backbone, Bert) or first.device.type != "cpu" or first.dtype != torch.float32:
            return None
        weights = [(w.data_ptr(), 0 if w.is_inference() else w._version) for w in self._weights]
        if self._fast[0] != weights:
            dtype = torch.bfloat16 if multiplies_bfloat16() else torch.float32
            self._fast = weights, FastBert.checked(backbone, dtype)
        return self._fast[1]

    @torch.no_grad()
    def _cached_states(self, batch: TokenBatch, stored: bool) -> Tensor:
        """As `_read`, of remembered texts from memory; what stands on padding is undefined."""
        if not self._room:
            return self._read(batch, stored)
        lengths = batch.mask.sum(dim=1).tolist()
        texts = [row[:length].numpy().tobytes() for row, length in zip(batch.ids.cpu(), lengths, strict=True)]
        hidden = torch.zeros(*batch.ids.shape, self.hidden_size, dtype=self.backbone.dtype, device=batch.ids.device)
        new = [row for row, text in enumerate(texts) if text not in self._memory]
        for row in set(range(len(texts))).difference(new):
            hidden[row, : lengths[row]] = self._memory[texts[row]].to(self.backbone.dtype)
        if new:
            hidden[new] = self._read(TokenBatch(batch.ids[new], batch.mask[new]), stored)
        for row in new:
            kept = hidden[row, : lengths[row]].half()
            if self._room > kept.nbytes:
                self._memory[texts[row]] = kept
                self._room -= kept.nbytes
        return hidden


def _inserted(values: Tensor, place: int, new: Tensor) -> Tensor:
    """(N, T) -> (N, T + P): the P new values in every row, before column `place`."""
    return torch.cat([values[:, :place], new.expand(len(values), -1), values[:, place:]], dim=1)


def multiplies_bfloat16() -> bool:
    """Whether this CPU multiplies matrices faster in bfloat16."""
    able = torch.cpu.get_capabilities()  # either unit does: an AMD without AMX takes half as long for a step, too
    return bool(able.get("amx_bf16", False) or able.get("avx512_bf16", False))


# --- for ranking on a CPU ---


class FastBert:
    """A copy, with matrices of a dtype, of the weights of a backbone on a CPU, to be made again when they change."""

    reads_apart = True
    """Whether a text has the same states, to the last bit, whatever is read beside it; `checked` tries."""

    def __init__(self, backbone: Bert, dtype: torch.dtype) -> None:
        table, heads, self._dtype = backbone.embeddings, int(backbone.config.num_attention_heads), dtype
        self._words, self._norm = table.word_embeddings, table.LayerNorm
        places = table.position_embeddings.weight.detach()[table.first :]
        places = places + table.token_type_embeddings.weight.detach()[0]
        self._places = F.pad(places, (0, 0, 0, ATTENTION_WIDTH))  # those beyond are padding's
        self._layers = [_packed_layer(layer, heads, dtype) for layer in backbone.encoder.layer]

    @classmethod
    def checked(cls, backbone: Bert, dtype: torch.dtype) -> Self | None:
        """A copy that computes what the backbone does; `None`, which is logged, if there can be none."""
        ids = torch.arange(10, 34).reshape(2, 12) % backbone.config.vocab_size
        mask = torch.ones_like(ids, dtype=torch.bool)
        mask[1, 9:] = False
        expected = backbone(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        try:
            fast = cls(backbone, dtype)
            found = fast(ids, mask)
            cosine = F.cosine_similarity(found, expected, dim=2)[mask].min().item()
            alone, among_many = fast(ids[1:, :9], mask[1:, :9]), fast(ids.repeat(4, 1), mask.repeat(4, 1))
            fast.reads_apart = all(bool((others[1::2, :9] == alone).all()) for others in (found, among_many))
            if dtype == torch.bfloat16 and torch.cpu.get_capabilities().get("amx_bf16"):
                fast.reads_apart = False  # seldom, AMX rounds a sum otherwise among more than 32 rows
            reason = f"its states have a cosine of {cosine:.4f} with theirs"
        except (AttributeError, NotImplementedError, RuntimeError, TypeError) as error:  # operators of this torch
            cosine, reason = 0.0, repr(error)
        if cosine >= LEAST_COSINE:
            return fast
        logger.warning("Texts are read by transformers, more slowly than by our own forward pass: %s.", reason)
        return None

    def __call__(self, ids: Tensor, mask: Tensor) -> Tensor:
        """(N, T, H) hidden states of (N, T) ids, attending to those of the mask (N, T); zero where it is not set."""
        length = ids.shape[1]
        ids, mask = (F.pad(part, (0, -length % ATTENTION_WIDTH)) for part in (ids, mask))
        tokens = _Tokens(mask, length, self._dtype)
        places = tokens.packed(torch.arange(ids.shape[1]).expand(ids.shape))
        states: Tensor = self._norm(self._words(tokens.packed(ids)) + self._places[places])
        for layer in self._layers:
            states = layer(states, tokens)
        return tokens.padded(states)[:, :length]


def _packed_layer(layer: Any, heads: int, dtype: torch.dtype) -> Callable[[Tensor, _Tokens], Tensor]:
    own, output = layer.attention.self, layer.attention.output
    project = packed_linear(own.query, own.key, own.value, dtype=dtype)
    join, narrow = (packed_linear(each.dense, dtype=dtype) for each in (output, layer.output))
    widen = packed_linear(layer.intermediate.dense, dtype=dtype, activation="gelu")

    def forward(states: Tensor, tokens: _Tokens) -> Tensor:
        query, key, value = tokens.padded(project(states.to(dtype))).unflatten(2, (3, heads, -1)).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=tokens.attended_to).transpose(1, 2)
        states = output.LayerNorm(states + join(tokens.packed(attended).flatten(1)))
        return layer.output.LayerNorm(states + narrow(widen(states.to(dtype))))

    return forward


class _Tokens:
    """The tokens of N texts one after another: no work is spent on padding but that of `_rows_for`."""

    def __init__(self, mask: Tensor, length: int, dtype: torch.dtype) -> None:
        self._shape, self._count = mask.shape, int(mask.sum())
        self._rows = _rows_for(self._count)
        # Those of one text stand one after another already.
        self._is_one_text = len(mask) == 1 and self._count == length and self._rows <= mask.numel()
        if not self._is_one_text:
            self._places = F.pad(mask.flatten().nonzero().squeeze(1), (0, self._rows - self._count))
        self.attended_to = None  # or what is added to attention's products, so that padding counts nothing
        if self._count < mask.numel():
            self.attended_to = torch.zeros(mask.shape, dtype=dtype).masked_fill_(~mask, -torch.inf)[:, None, None]

    def packed(self, values: Tensor) -> Tensor:
        """(N, T, ...) -> (tokens, ...)"""
        flat = values.flatten(0, 1)
        return flat[: self._rows] if self._is_one_text else flat[self._places]

    def padded(self, values: Tensor) -> Tensor:
        """(tokens, C) -> (N, T, C), zero on padding."""
        if self._is_one_text:
            return F.pad(values[: self._count], (0, 0, 0, self._shape.numel() - self._count)).unsqueeze(0)
        flat = values.new_zeros(self._shape.numel(), values.shape[1])
        return flat.index_copy_(0, self._places[: self._count], values[: self._count]).unflatten(0, self._shape)


def _rows_for(tokens: int) -> int:
    """The rows of a product for so many tokens, of which the last ones may be padding: 15, or an eighth, at most."""
    step = 1 if tokens <= FEW_TOKENS else 2 ** max(4, tokens.bit_length() - 4)
    return -(-max(tokens, LEAST_ROWS) // step) * step
