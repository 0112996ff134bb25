"""Our own forward pass of transformers on a CPU, without gradients: it reads questions and answers for ranking.

It is for the architectures that differ from BERT only in names, positions and a bias of attention (`FAMILIES`). A short
text takes as long as it takes to fetch the weights from memory and to start each operator. So weights are bfloat16
where the CPU multiplies in it, and lie in memory in the order in which oneDNN reads them; operators are few: queries,
keys and values are one product, an activation or a sum is a part of its product. Sums and norms are float32.

A text has the same states, to the last bit, alone and beside any others. A row of a product is a token; in which order
its numbers are summed may depend on how many rows the product has, so the constants below say how many it may have.

`FastTransformer.checked` compares the states with those of the transformers library, which reads the texts where they
differ, or where a version of torch lacks an operator.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ap_ranker.models import bert
from ap_ranker.models.private_operators import packed_linear

logger = logging.getLogger(__name__)

WIDTH = 16
"""The number of tokens to whose multiples texts are padded. torch computes a softmax in vectors of 16 numbers and what
is left one by one, which changes a score by up to .007; in whole vectors, states are equal to the last bit, however
much of a vector is padding. AMX multiplies 16 rows at once."""

FEW_TOKENS = 32
"""The maximum number of tokens for which the products of a text alone have as many rows as it has tokens; above, they
have a multiple of `WIDTH`. oneDNN compiles a program for each number of rows and keeps it: with all-MiniLM-L6-v2 each
number takes 2.6 MB, by which a server grew by 250 MB in five thousand questions."""

LEAST_ROWS = 2
"""The minimum number of rows of a product. Without AMX, oneDNN gives a row the same sums among any 2 to 2,048 rows, at
any place among them (AVX2, AVX-512 and its bfloat16; 1 to 16 threads). A row alone is summed in another order if it has
1,536 numbers or more."""

MOST_ROWS = 256
"""The maximum number of rows of a product: what a layer computes of so many tokens stays in a core's cache."""

AMX_ROWS = FEW_TOKENS, 64, MOST_ROWS
"""The limits of rows with AMX, Intel's unit that multiplies matrices. It sums in an order that depends on the number of
rows, except up to 32. So a text's length alone says how many rows its products have, whatever is read beside it: the
first of these numbers that the length does not exceed, or the last one. Where that is 32, a product may have fewer."""

TOKENS_AT_ONCE = 2_048
"""The maximum number of tokens, with padding, of the texts that are read at once: with more, a CPU gains no speed."""

LEAST_COSINE = 0.999
"""The minimum cosine of a token's state with that of transformers; with bfloat16, the states of all-MiniLM-L6-v2 have
.9999."""

TRIED_LENGTHS = 40, 9
"""The numbers of tokens of the two texts that `FastTransformer.checked` reads: above `FEW_TOKENS` and below `WIDTH`,
neither a multiple of it, so that there is padding in both."""

FAMILIES = (*bert.FAMILIES, "mpnet", "distilbert")
"""Each `model_type` that is read: their embeddings have the same names, and their layers the same modules in the same
order, whatever these are called."""

SETTINGS = ("model_type", "hidden_act", "activation", "position_embedding_type", "is_decoder")
"""The settings by which `FastTransformer.reads` decides; a configuration may lack some."""


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
        # The others number positions as fairseq does: the first one comes after the padding's id.
        first_position = 0
        if config.model_type not in ("bert", "distilbert"):
            first_position = self._words.padding_idx + 1
        positions = table.position_embeddings.weight.detach()[first_position:]
        if hasattr(table, "token_type_embeddings"):
            positions = positions + table.token_type_embeddings.weight.detach()[0]
        self._n_positions = len(positions)
        self._positions = F.pad(positions, (0, 0, 0, WIDTH))  # a text of the maximum length may have padding after it
        self._bias = None  # (heads, T, T), which attention adds for the distance of two tokens
        if config.model_type == "mpnet":
            one_text = self._positions[None, :, 0]  # of which only the shape (1, T) is read
            self._bias = backbone.encoder.compute_position_bias(one_text).detach()[0]
        layers = next(module for module in backbone.modules() if isinstance(module, nn.ModuleList))
        self._layers = [_packed_layer(layer, int(config.num_attention_heads), dtype) for layer in layers]
        self._has_amx = dtype == torch.bfloat16 and torch.cpu.get_capabilities().get("amx_bf16", False)
        self._row_limits: tuple[int, ...] = AMX_ROWS if self._has_amx else (MOST_ROWS,)

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
        config = backbone.config
        if not cls.reads(config):
            settings = [f"{name} {getattr(config, name)}" for name in SETTINGS if hasattr(config, name)]
            logger.info(
                "Texts are read by transformers: our own forward pass is for encoders of the model types %s with gelu "
                "and absolute positions, found %s.",
                ", ".join(FAMILIES),
                ", ".join(settings),
            )
            return None
        try:
            fast = cls(backbone, dtype)
            long, short = TRIED_LENGTHS
            long = min(long, fast._n_positions)
            first_id = config.vocab_size // 2  # a vocabulary begins with tokens that are no words or untrained
            ids = first_id + torch.arange(2 * long).reshape(2, long) % first_id
            mask = torch.ones_like(ids, dtype=torch.bool)
            mask[1, short:] = False
            expected = backbone(input_ids=ids, attention_mask=mask.long()).last_hidden_state
            cosine = F.cosine_similarity(fast(ids, mask), expected, dim=2)[mask].min().item()
            fast.reads_apart = fast._reads_alike_in_company(ids[1:, :short]) and fast._reads_alike_in_company(ids[:1])
            reason = f"its states have a cosine of {cosine:.4f} with theirs"
        except (AttributeError, IndexError, RuntimeError, TypeError, ValueError) as error:  # of this torch
            cosine = 0.0
            reason = repr(error)
        if cosine >= LEAST_COSINE:
            return fast
        logger.warning("Texts are read by transformers, more slowly than by our own forward pass: %s.", reason)
        return None

    def _reads_alike_in_company(self, ids: Tensor) -> bool:
        """Whether a text, (1, T) ids, has the states alone that it has beside three copies and a longer text."""
        batch = F.pad(ids.repeat(5, 1), (0, 3))
        mask = torch.ones_like(batch, dtype=torch.bool)
        mask[:4, -3:] = False  # the last text has three tokens more
        in_company = self(batch, mask)[:4, :-3]
        alone = self(ids, torch.ones_like(ids, dtype=torch.bool))
        return bool((in_company == alone).all())

    def groups(self, lengths: Sequence[int]) -> list[int]:
        """How many of the texts, given their lengths in ascending order, are read at once, group by group.

        The texts of a group have the same limit of rows, and with padding `TOKENS_AT_ONCE` tokens at most.
        """
        sizes: list[int] = []
        for _, lengths_of_limit in groupby(lengths, self._row_limit_of):
            free_tokens = 0  # in the last group; none, so that the first text of another limit begins a group
            for width in map(rounded_up, lengths_of_limit):
                if width > free_tokens or not self.reads_apart:
                    sizes.append(0)
                    free_tokens = TOKENS_AT_ONCE
                sizes[-1] += 1
                free_tokens -= width
        return sizes

    def _row_limit_of(self, length: int) -> int:
        """The maximum number of rows of the products of a text; with AMX, above `FEW_TOKENS`, their number."""
        return next((limit for limit in self._row_limits if length <= limit), self._row_limits[-1])

    def __call__(self, ids: Tensor, mask: Tensor) -> Tensor:
        """(N, T, H) hidden states of (N, T) ids, attending to those of the mask (N, T); zero where it is not set."""
        row_limit = self._row_limit_of(ids.shape[1])
        texts = _Texts(mask, self._bias, self._dtype)
        n_rows = texts.n_rows
        if self._has_amx and row_limit > FEW_TOKENS:
            n_rows = rounded_up(n_rows, row_limit)  # the last product has no fewer rows than the others
        words = self._words(texts.packed(ids))
        positions = self._positions[texts.positions]
        states = self._norm(_resized(words + positions, n_rows)).to(self._dtype)
        chunks = list(states.split(row_limit))
        for layer in self._layers:
            chunks = layer(chunks, texts)
        return texts.padded(torch.cat(chunks).float())


def _packed_layer(layer: nn.Module, heads: int, dtype: torch.dtype) -> Callable[[list[Tensor], _Texts], list[Tensor]]:
    """The layer as a function of the tokens' states, in chunks of (at most `MOST_ROWS`, H), and of their texts."""
    linear = [module for module in layer.modules() if isinstance(module, nn.Linear)]
    norms = [module for module in layer.modules() if isinstance(module, nn.LayerNorm)]
    query, key, value, joining, widening, narrowing = linear
    attention_norm, norm = norms
    project = packed_linear(query, key, value, dtype=dtype)
    join = packed_linear(joining, dtype=dtype, activation="add")
    widen = packed_linear(widening, dtype=dtype, activation="gelu")
    narrow = packed_linear(narrowing, dtype=dtype, activation="add")

    def forward(chunks: list[Tensor], texts: _Texts) -> list[Tensor]:
        # Attention needs all tokens of a text, which may lie in several chunks.
        attended = texts.attend(torch.cat([project(chunk) for chunk in chunks]), heads)
        chunk_rows = len(chunks[0])  # of all chunks but the last, which may have fewer
        outputs = []
        for chunk, part in zip(chunks, attended.split(chunk_rows), strict=True):
            states = attention_norm(join(part, other=chunk))
            outputs.append(norm(narrow(widen(states), other=states)))
        return outputs

    return forward


class _Group(NamedTuple):
    """Texts of the same width, one after another."""

    width: int
    n_tokens: int  # of all these texts, with padding
    added: Tensor | None  # to the products of queries and keys; `None`: nothing


class _Texts:
    """The tokens of N texts one after another, each text padded to its width, a multiple of `WIDTH`.

    `n_rows` are multiplied: all of them, or those of a short text alone without padding (`FEW_TOKENS`).
    """

    def __init__(self, mask: Tensor, bias: Tensor | None, dtype: torch.dtype) -> None:
        length = mask.shape[1]
        self._is_alone = len(mask) == 1
        self._mask = mask
        self._padding = -length % WIDTH
        ends = [length] if self._is_alone else (mask * torch.arange(1, length + 1)).amax(dim=1).tolist()
        widths = [rounded_up(end) for end in ends]
        padded = F.pad(mask, (0, self._padding))
        self._n_tokens = sum(widths)
        self.n_rows = self._n_tokens
        self.positions: slice | Tensor = slice(self._n_tokens)  # of one text: a slice copies nothing
        if self._is_alone and length <= FEW_TOKENS:
            self.n_rows = max(length, LEAST_ROWS)
        elif not self._is_alone:
            columns = torch.arange(padded.shape[1]).expand(padded.shape)
            self._inside = columns < torch.tensor(widths).unsqueeze(1)
            self.positions = columns[self._inside]
        self._groups: list[_Group] = []
        start = 0
        for width, same in groupby(widths):
            end = start + len(list(same))
            added = _added(padded[start:end, :width], bias, dtype)
            self._groups.append(_Group(width, (end - start) * width, added))
            start = end

    def packed(self, ids: Tensor) -> Tensor:
        """(N, T) -> (tokens with padding,)"""
        padded = F.pad(ids, (0, self._padding))
        if self._is_alone:
            return padded[0]
        return padded[self._inside]

    def attend(self, projected: Tensor, heads: int) -> Tensor:
        """Attention of the tokens of each text to those of the same text: (rows, 3 H) -> (rows, H).

        The three are queries, keys and values. Rows are those of the products: they may lack the padding of a short
        text alone, or have more, which stay zero.
        """
        head_size = projected.shape[1] // (3 * heads)
        parts = _resized(projected, self._n_tokens).split([group.n_tokens for group in self._groups])
        outputs = []
        for part, group in zip(parts, self._groups, strict=True):
            # (texts, width, 3, heads, head size) -> (3, texts, heads, width, head size)
            query, key, value = part.view(-1, group.width, 3, heads, head_size).permute(2, 0, 3, 1, 4)
            attended = F.scaled_dot_product_attention(query, key, value, attn_mask=group.added)
            outputs.append(attended.transpose(1, 2).reshape(len(part), -1))
        n_more = len(projected) - self._n_tokens
        if n_more > 0:
            outputs.append(projected.new_zeros(n_more, heads * head_size))
        return torch.cat(outputs)[: len(projected)]

    def padded(self, states: Tensor) -> Tensor:
        """(rows, H) -> (N, T, H), zero on padding."""
        if self._is_alone:
            return _resized(states, self._mask.shape[1]) * self._mask.unsqueeze(2)
        padded = states.new_zeros(*self._mask.shape, states.shape[1])
        present = F.pad(self._mask, (0, self._padding))[self._inside]
        padded[self._mask] = states[: self._n_tokens][present]
        return padded


def _added(present: Tensor, bias: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """What is added to the products of queries and keys of n texts, (n, heads, T, T): a bias; -inf for absent tokens.

    (n, T) says which tokens are present. `None`: nothing is added.
    """
    bias = None if bias is None else bias[:, : present.shape[1], : present.shape[1]].unsqueeze(0)
    if present.all():
        return bias
    added = torch.zeros(present.shape, dtype=dtype).masked_fill_(~present, -torch.inf)[:, None, None]
    return added if bias is None else added + bias


def rounded_up(length: int, step: int = WIDTH) -> int:
    """The smallest multiple of a step that is not less than a length."""
    return -(-length // step) * step


def _resized(rows: Tensor, count: int) -> Tensor:
    """The first `count` rows, with rows of zeros after them if there are fewer."""
    if len(rows) >= count:
        return rows[:count]
    return F.pad(rows, (0, 0, 0, count - len(rows)))
