"""The forward pass for ranking on a CPU, of every architecture that is BERT's but for names, positions and a bias.

It has fewer operators, and weights in half the bytes: a short text is bound by reading weights and by the overhead of
each operator. So the three projections of a layer's attention are one, an activation or a sum is part of its product,
weights lie as oneDNN reads them, and what is multiplied is bfloat16 where the CPU has instructions for it; sums and
norms are computed in float32. Should a version of torch lack the operators, `checked` says so, and the transformer
itself reads the texts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ap_ranker.models import bert
from ap_ranker.models.private_operators import packed_linear

logger = logging.getLogger(__name__)

WIDTH = 16
"""Texts are padded to multiples of it: torch computes a softmax in vectors of 16 numbers and what is left one by one,
which changes a score by up to .007. At 16, 32, ... states are equal to the last bit. AMX multiplies 16 rows at once."""

FEW_TOKENS = 32
"""Up to here, products of a text alone have as many rows as tokens; above, as its padded width: each number of rows
leaves 2.6 MB with all-MiniLM-L6-v2, among it oneDNN's programs; a server grew by 250 MB in five thousand questions."""

LEAST_ROWS = 2
"""Of a product. Without AMX, oneDNN gives a row the same sums among any 2 to 2,048 rows, at any place among them (AVX2,
AVX-512 and its bfloat16; 1 to 16 threads). A row alone is summed in another order if it has 1,536 numbers or more."""

MOST_ROWS = 256
"""Of a product: what a layer computes of so many tokens stays in a core's cache."""

AMX_ROWS = FEW_TOKENS, 64, MOST_ROWS
"""AMX sums in an order that depends on the number of rows, but for up to 32. So a text's own length says which of these
numbers its products have, whatever is read beside it: the first that it does not exceed, or the last."""

TOKENS_AT_ONCE = 2_048  # that the transformer reads, of many texts: with more, a CPU gains no speed

LEAST_COSINE = 0.999
"""Of a token's state and what transformers computes; with bfloat16, those of all-MiniLM-L6-v2 have 0.9999."""


FAMILIES = (*bert.FAMILIES, "mpnet", "distilbert")
"""By transformers' `model_type`. Their embeddings have the same names, and their layers the same modules in the same
order, whatever these are called."""


class FastTransformer:
    """A copy, with matrices of a dtype, of the weights of a backbone on a CPU, to be made again when they change."""

    reads_apart = True
    """Whether a text has the same states, to the last bit, whatever is read beside it; `checked` tries."""

    def __init__(self, backbone: Any, dtype: torch.dtype) -> None:
        config = backbone.config
        table = backbone.embeddings
        self._words = table.word_embeddings
        self._norm = table.LayerNorm
        self._dtype = dtype
        # Positions of the others begin after the padding's, as in fairseq.
        first = 0
        if config.model_type not in ("bert", "distilbert"):
            first = self._words.padding_idx + 1
        places = table.position_embeddings.weight.detach()[first:]
        if hasattr(table, "token_type_embeddings"):
            places = places + table.token_type_embeddings.weight.detach()[0]
        self._places = F.pad(places, (0, 0, 0, WIDTH))  # those beyond are padding's
        self._bias = None  # (heads, T, T), which attention adds for the distance of two tokens
        if config.model_type == "mpnet":
            self._bias = backbone.encoder.compute_position_bias(self._places[None, :, 0]).detach()[0]
        layers = next(module for module in backbone.modules() if isinstance(module, nn.ModuleList))
        self._layers = [_packed_layer(layer, int(config.num_attention_heads), dtype) for layer in layers]
        has_amx = dtype == torch.bfloat16 and torch.cpu.get_capabilities().get("amx_bf16", False)
        self._rows: tuple[int, ...] = AMX_ROWS if has_amx else (MOST_ROWS,)

    @staticmethod
    def reads(config: Any) -> bool:
        """Whether a backbone's configuration describes an architecture of the `FAMILIES`."""
        return (
            config.model_type in FAMILIES
            and "gelu" in (getattr(config, "hidden_act", None), getattr(config, "activation", None))
            and getattr(config, "position_embedding_type", None) in (None, "absolute")
            and not getattr(config, "is_decoder", False)
        )

    @classmethod
    def checked(cls, backbone: Any, dtype: torch.dtype) -> Self | None:
        """A copy that computes what the backbone does; `None`, which is logged, if there can be none."""
        if not cls.reads(backbone.config):
            logger.info("Texts are read by transformers: our own forward pass has no %s.", backbone.config.model_type)
            return None
        try:
            fast = cls(backbone, dtype)
            length = min(40, len(fast._places) - WIDTH)
            unlike_words = backbone.config.vocab_size // 2  # a vocabulary begins with tokens that are none or untrained
            ids = unlike_words + torch.arange(2 * length).reshape(2, length) % unlike_words
            mask = torch.ones_like(ids, dtype=torch.bool)
            mask[1, 9:] = False
            expected = backbone(input_ids=ids, attention_mask=mask.long()).last_hidden_state
            cosine = F.cosine_similarity(fast(ids, mask), expected, dim=2)[mask].min().item()
            fast.reads_apart = all(fast._reads_apart(part) for part in (ids[1:, :9], ids[:1]))
            reason = f"its states have a cosine of {cosine:.4f} with theirs"
        except (AttributeError, IndexError, RuntimeError, TypeError, ValueError) as error:  # of this torch
            cosine = 0.0
            reason = repr(error)
        if cosine >= LEAST_COSINE:
            return fast
        logger.warning("Texts are read by transformers, more slowly than by our own forward pass: %s.", reason)
        return None

    def _reads_apart(self, ids: Tensor) -> bool:
        """Whether a text alone (1, T) has the states that it has beside four others, one of them longer."""
        others = F.pad(ids.repeat(5, 1), (0, 3))
        mask = torch.ones_like(others, dtype=torch.bool)
        mask[:4, -3:] = False
        return bool((self(others, mask)[:4, :-3] == self(ids, mask[4:, :-3])).all())

    def groups(self, lengths: Sequence[int]) -> list[int]:
        """How many of the texts, sorted by length, are read at once; their products have the same numbers of rows."""
        sizes: list[int] = []
        for _, texts in groupby(lengths, self._rows_of):
            room = 0
            for width in map(rounded_up, texts):
                if width > room or not self.reads_apart:
                    sizes.append(0)
                    room = TOKENS_AT_ONCE
                sizes[-1] += 1
                room -= width
        return sizes

    def _rows_of(self, length: int) -> int:
        return next((rows for rows in self._rows if length <= rows), self._rows[-1])

    def __call__(self, ids: Tensor, mask: Tensor) -> Tensor:
        """(N, T, H) hidden states of (N, T) ids, attending to those of the mask (N, T); zero where it is not set."""
        most = self._rows_of(ids.shape[1])
        texts = _Texts(mask, self._bias, self._dtype)
        rows = rounded_up(texts.rows, most) if self._rows is AMX_ROWS and most > FEW_TOKENS else texts.rows
        words = self._words(texts.packed(ids))
        places = self._places[texts.places]
        chunks: Sequence[Tensor] = self._norm(_resized(words + places, rows)).to(self._dtype).split(most)
        for layer in self._layers:
            chunks = layer(chunks, texts)
        return texts.padded(torch.cat([*chunks]).float())


def _packed_layer(
    layer: nn.Module, heads: int, dtype: torch.dtype
) -> Callable[[Sequence[Tensor], _Texts], Sequence[Tensor]]:
    """The layer, of states of tokens in chunks (at most `MOST_ROWS`, H)."""
    linear = [module for module in layer.modules() if isinstance(module, nn.Linear)]
    norms = [module for module in layer.modules() if isinstance(module, nn.LayerNorm)]
    query, key, value, joining, widening, narrowing = linear
    attention_norm, norm = norms
    project = packed_linear(query, key, value, dtype=dtype)
    join = packed_linear(joining, dtype=dtype, activation="add")
    widen = packed_linear(widening, dtype=dtype, activation="gelu")
    narrow = packed_linear(narrowing, dtype=dtype, activation="add")

    def forward(chunks: Sequence[Tensor], texts: _Texts) -> Sequence[Tensor]:
        attended = texts.attend(torch.cat([project(chunk) for chunk in chunks]), heads)
        outputs = []
        for chunk, part in zip(chunks, attended.split(len(chunks[0])), strict=True):
            states = attention_norm(join(part, other=chunk))
            outputs.append(norm(narrow(widen(states), other=states)))
        return outputs

    return forward


class _Texts:
    """The tokens of N texts one after another, each text padded to a multiple of `WIDTH`; a short one alone is not."""

    def __init__(self, mask: Tensor, bias: Tensor | None, dtype: torch.dtype) -> None:
        length = mask.shape[1]
        self._is_alone = len(mask) == 1
        self._mask = mask
        self._padding = -length % WIDTH
        ends = [length] if self._is_alone else (mask * torch.arange(1, length + 1)).amax(dim=1).tolist()
        widths = [rounded_up(end) for end in ends]
        padded = F.pad(mask, (0, self._padding))
        self._tokens = self.rows = sum(widths)
        self.places: slice | Tensor = slice(self._tokens)
        if self._is_alone and length <= FEW_TOKENS:
            self.rows = max(length, LEAST_ROWS)
        elif not self._is_alone:
            columns = torch.arange(padded.shape[1]).expand(padded.shape)
            self._inside = columns < torch.tensor(widths).unsqueeze(1)
            self.places = columns[self._inside]
        # Of texts of the same width: it, the number of their tokens, and what is added to attention's products.
        self._groups: list[tuple[int, int, Tensor | None]] = []
        start = 0
        for width, same in groupby(widths):
            end = start + len(list(same))
            self._groups.append((width, (end - start) * width, _added(padded[start:end, :width], bias, dtype)))
            start = end

    def packed(self, ids: Tensor) -> Tensor:
        """(N, T) -> (tokens,)"""
        padded = F.pad(ids, (0, self._padding))
        if self._is_alone:
            return padded[0]
        return padded[self._inside]

    def attend(self, projected: Tensor, heads: int) -> Tensor:
        """(rows, H) what the tokens of each text find in it, of (rows, 3 H) queries, keys and values."""
        parts = _resized(projected, self._tokens).split([tokens for _, tokens, _ in self._groups])
        outputs = []
        for part, (width, _, added) in zip(parts, self._groups, strict=True):
            query, key, value = part.view(-1, width, 3, heads, part.shape[1] // heads // 3).permute(2, 0, 3, 1, 4)
            attended = F.scaled_dot_product_attention(query, key, value, attn_mask=added)
            outputs.append(attended.transpose(1, 2).reshape(len(part), -1))
        outputs.append(part.new_zeros(max(0, len(projected) - self._tokens), outputs[0].shape[1]))
        return torch.cat(outputs)[: len(projected)]

    def padded(self, states: Tensor) -> Tensor:
        """(rows, H) -> (N, T, H), zero on padding."""
        if self._is_alone:
            return _resized(states, self._mask.shape[1]) * self._mask.unsqueeze(2)
        padded = states.new_zeros(*self._mask.shape, states.shape[1])
        present = F.pad(self._mask, (0, self._padding))[self._inside]
        padded[self._mask] = states[: self._tokens][present]
        return padded


def _added(present: Tensor, bias: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """What attention's products (n, heads, T, T) get added where these tokens of n texts, (n, T), are present."""
    bias = None if bias is None else bias[:, : present.shape[1], : present.shape[1]].unsqueeze(0)
    if present.all():
        return bias
    added = torch.zeros(present.shape, dtype=dtype).masked_fill_(~present, -torch.inf)[:, None, None]
    return added if bias is None else added + bias


def rounded_up(length: int, step: int = WIDTH) -> int:
    """The smallest multiple of a step that is not less than a length."""
    return -(-length // step) * step


def _resized(rows: Tensor, count: int) -> Tensor:
    """So many rows: the first ones, or zeros after them."""
    if len(rows) >= count:
        return rows[:count]
    return F.pad(rows, (0, 0, 0, count - len(rows)))
