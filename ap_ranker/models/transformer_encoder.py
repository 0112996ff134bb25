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
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ap_ranker.models.bert import Bert
from ap_ranker.models.frozen_states import FrozenStates
from ap_ranker.models.last_layers import LastLayers
from ap_ranker.models.operations import exact, mean_pool
from ap_ranker.models.pretrained import SentenceSettings, build_backbone, read_weights
from ap_ranker.models.private_operators import packed_linear
from ap_ranker.text.tokenizer import TokenBatch

logger = logging.getLogger(__name__)

AT_ONCE = 32  # texts that the transformer reads: with more, a CPU gains no speed


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
        self.hidden_size: int = self.backbone.config.hidden_size
        self.dropout, self.frozen = dropout, frozen
        self.backbone.requires_grad_(not frozen)
        self._last = LastLayers(self.backbone, trained_layers) if frozen and trained_layers else None
        for weight in self._last.parameters() if self._last else ():
            weight.requires_grad_(True)
        self.adapter = nn.Linear(self.hidden_size, self.hidden_size, bias=False).requires_grad_(frozen)
        with torch.no_grad():  # as `nn.init.eye_`, which imports torch's compiler where there is no memory for weights
            self.adapter.weight.zero_().diagonal().fill_(1.0)
        self._attention: str = self.backbone.config._attn_implementation
        self._store: FrozenStates | None = None
        self._weights = tuple(self.backbone.parameters())  # to walk through the modules takes a millisecond
        self._fast: tuple[object, FastBert | None] = (None, None)  # of which weights, and a copy of them

    def __getstate__(self) -> dict[str, Any]:
        """Without what only saves time: packed weights cannot be copied, and are packed again when they are needed."""
        return self.__dict__ | {"_fast": (None, None), "_store": None}

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        if mode:
            self._fast = None, None  # fused optimisers do not count what they change
        # Fused attention is the faster one forwards, but its gradient on a CPU costs half a training step more.
        plain = mode and self.backbone.device.type == "cpu"
        self.backbone.set_attn_implementation("eager" if plain else self._attention)
        return self

    def load_pretrained(self, folder: Path) -> None:
        """Take the weights of a pretrained encoder; raises as `read_weights`."""
        weights = read_weights(folder, self.backbone.state_dict())
        self.backbone.load_state_dict(weights, strict=False)  # the pooler's are left over

    def forward(
        self, batch: TokenBatch, prompt: Sequence[int] = (), *, stored: bool = False
    ) -> tuple[Tensor, Tensor, Tensor]:
        """(N, T, H) states, zero on padding; (N, T) bool: which subwords have one; (N, H) pooled vectors of length 1.

        The `prompt` is read before each text and counts for the pooled vector only. While training, a share `dropout`
        of the subwords is dropped, never the first; a frozen transformer reads texts whole all the same, so that it may
        remember them. `stored`: the states will be rounded to few bits, where a last bit may turn a whole step.
        """
        mask = batch.mask
        if self.training and self.dropout:
            mask = mask & (torch.rand(mask.shape, device=mask.device) >= self.dropout)
            mask[:, 0] = True
        ids, present, whole = batch.ids, mask, batch.mask
        start, end = self.settings.leading, self.settings.leading + len(prompt)
        if prompt:
            ids = _inserted(ids, start, ids.new_tensor(prompt))
            present, whole = (_inserted(part, start, part.new_ones(len(prompt))) for part in (present, whole))
        seen = TokenBatch(ids, whole if self.frozen and not self._last else present)
        hidden = self._read(seen, stored) if self._store is None else self._read_on(seen, whole, self._store)
        hidden = hidden * present.unsqueeze(2)
        vectors = hidden[:, 0] if self.settings.pooling == "cls" else mean_pool(hidden, present)
        if prompt:
            hidden = torch.cat([hidden[:, :start], hidden[:, end:]], dim=1)
        adapted = F.linear(exact(vectors), exact(self.adapter.weight)).to(vectors.dtype)
        return hidden, mask, F.normalize(adapted, dim=1)

    @contextmanager
    def cache_frozen_states(self) -> Iterator[None]:
        """Within, what frozen layers make of a text is kept in the user's cache, and computed once."""
        if not self.frozen:
            yield
            return
        if self._last:
            self._last.check()
        frozen = [weight for weight in self._weights if not weight.requires_grad]
        reading = f"{type(self.backbone).__name__} {len(self._weights) - len(frozen)} {multiplies_bfloat16()}"
        self._store = FrozenStates(frozen, reading)
        try:
            yield
        finally:
            self._store = None

    def _read(self, batch: TokenBatch, stored: bool, below: Tensor | None = None) -> Tensor:
        """(N, T, H) hidden states; without a gradient, on a CPU, a text's do not depend on the others of the batch.

        With a store, they are those of the frozen layers, or of the last ones, from what lies `below`.
        """
        # Where transformers reads, a question's may in the last bit: one by one, sixteen take half as long again.
        fast = None if torch.is_grad_enabled() or (self._store and self._last) else self._fast_forward()
        one_by_one = (stored if fast is None else not fast.reads_apart) and self._store is None
        at_once = 1 if one_by_one and batch.ids.device.type == "cpu" and not torch.is_grad_enabled() else AT_ONCE
        # In groups of similar length, because padding takes as long as words. Dropped words may leave gaps at the end.
        lengths = (batch.mask * torch.arange(1, batch.mask.shape[1] + 1, device=batch.mask.device)).amax(dim=1)
        order = lengths.argsort()
        parts = []
        for rows in order.split(at_once):
            width = int(lengths[rows[-1]])
            under = None if below is None else below[rows, :width]
            states = self._read_group(batch.ids[rows, :width], batch.mask[rows, :width], fast, under)
            parts.append(nn.functional.pad(states.to(self._weights[0].dtype), (0, 0, 0, batch.ids.shape[1] - width)))
        return torch.cat(parts)[order.argsort()]

    def _read_group(self, ids: Tensor, mask: Tensor, fast: FastBert | None, below: Tensor | None) -> Tensor:
        if fast is not None:
            return fast(ids, mask)
        # bfloat16 halves the training time where the CPU multiplies matrices in it.
        trains = self.training or self._store is not None
        reduced = ids.device.type == "cpu" and trains and multiplies_bfloat16()
        with torch.autocast("cpu", torch.bfloat16, enabled=reduced):
            if self._last and below is not None:
                return self._last.read_on(below, ids, mask)
            if self._last and self._store:
                return self._last.read_below(ids, mask)
            return self.backbone(input_ids=ids, attention_mask=mask.long()).last_hidden_state

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

    def _read_on(self, batch: TokenBatch, whole: Tensor, store: FrozenStates) -> Tensor:
        """As `_read`, from the states that frozen layers have of whole texts; what stands on padding is undefined."""
        lengths = whole.sum(dim=1).tolist()
        texts = [row[:length].numpy().tobytes() for row, length in zip(batch.ids.cpu(), lengths, strict=True)]
        hidden = torch.zeros(*batch.ids.shape, self.hidden_size, dtype=self.backbone.dtype, device=batch.ids.device)
        new = []
        for row, text in enumerate(texts):
            if (known := store.find(text)) is None:
                new.append(row)
            else:
                hidden[row, : lengths[row]] = known.to(hidden)
        if new:
            with torch.no_grad():  # rounded already, as the next time: a second run learns the same
                hidden[new] = self._read(TokenBatch(batch.ids[new], whole[new]), stored=False).half().to(hidden)
            store.add({texts[row]: hidden[row, : lengths[row]] for row in new})
        return hidden if self._last is None else self._read(batch, stored=False, below=hidden)


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
