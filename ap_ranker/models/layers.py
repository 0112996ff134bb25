"""Encoders of a single text: word embeddings, convolution, LSTM. Sizes: N texts, T tokens, D embedding, C state."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ap_ranker.models.operations import in_float32
from ap_ranker.models.spec import Inputs
from ap_ranker.text.tokenizer import PAD, TokenBatch


class WordEmbedding(nn.Module):
    """Word vectors of token ids; zero on padding and, during training, on a share `dropout` of the words.

    Word dropout (Iyyer et al. 2015, section 3.1) teaches a model to recognise a text by any of its words.
    """

    def __init__(self, inputs: Inputs, dropout: float) -> None:
        super().__init__()
        self.vectors = nn.Embedding(len(inputs.words), inputs.embedding_size, padding_idx=PAD)
        self.dropout = dropout

    def forward(self, batch: TokenBatch) -> Tensor:
        return self.vectors(self.apply_word_dropout(batch))

    def framed(self, ids: Tensor, left: int, right: int) -> FramedWords:
        """The words of (N, T) ids between `left` and `right` words of padding."""
        framed = nn.functional.pad(ids, (left, right), value=PAD)
        occurs = ids.new_zeros(self.vectors.num_embeddings, dtype=torch.bool)
        occurs[framed.flatten()] = True
        distinct = occurs.nonzero().squeeze(1)  # `unique`, which sorts, takes ten times as long
        index = torch.empty_like(occurs, dtype=torch.long)
        index[distinct] = torch.arange(len(distinct), device=ids.device)
        return FramedWords(self.vectors(distinct), index.index_select(0, framed.flatten()).view_as(framed))

    def apply_word_dropout(self, batch: TokenBatch) -> Tensor:
        """(N, T) token ids with padding, whose vector is zero, in place of dropped words."""
        if self.training and self.dropout:
            dropped = torch.rand(batch.ids.shape, device=batch.ids.device) < self.dropout
            return batch.ids.masked_fill(dropped, PAD)
        return batch.ids


@dataclass(frozen=True)
class FramedWords:
    """N texts of T words framed with padding: `vectors` (W, D) of distinct words; `indices` (N, left + T + right)."""

    vectors: Tensor
    indices: Tensor

    def framed(self) -> Tensor:
        """(N, left + T + right, D) the texts' vectors."""
        return nn.functional.embedding(self.indices, self.vectors)

    def sums(self, weights: Tensor) -> Tensor:
        """(N, R, left + T + right) -> (N, R, D): weighted sums of each text's vectors."""
        if weights.requires_grad:
            return weights @ self.framed()
        indices = self.indices.unsqueeze(1).expand(weights.shape).flatten(0, 1)
        bags = nn.functional.embedding_bag(indices, self.vectors, per_sample_weights=weights.flatten(0, 1), mode="sum")
        return bags.unflatten(0, weights.shape[:2])


class Convolution(nn.Module):
    """Q = W z + b, z_m the `window` states centred on token m, or to its right (dos Santos 2016, section 2.1).

    Beyond the text are `left` and `right` words of zeros.
    """

    def __init__(self, input_size: int, filters: int, window: int) -> None:
        super().__init__()
        self.window = window
        self.left = (window - 1) // 2
        self.right = window // 2
        self.linear = nn.Linear(window * input_size, filters)
        self.state_size = filters

    @torch.no_grad()
    def copy_words(self) -> None:
        """Begin with states that are the words themselves, and a tenth of the usual random weights beside that."""
        size = self.linear.in_features // self.window
        self.linear.weight *= 0.1
        self.linear.weight[:, self.left * size : (self.left + 1) * size] += torch.eye(self.state_size, size)
        self.linear.bias.zero_()

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """(N, T, D) -> (N, T, C), zero on padding."""
        # One product is several times faster than conv1d.
        framed = nn.functional.pad(states, (0, 0, self.left, self.right))
        filters = self.linear.weight
        size = framed.shape[2]
        length = framed.shape[1] - self.window + 1
        if len(filters) >= size:
            convolved = self.windows(framed) @ filters.T
        else:  # shifting and adding the products is cheaper
            kernels = filters.unflatten(1, (self.window, size)).transpose(0, 1).flatten(0, 1)
            products = (framed @ kernels.T).unflatten(2, (self.window, len(filters)))
            convolved = products[:, :length, 0].clone()
            for k in range(1, self.window):
                convolved += products[:, k : k + length, k]
        if self.linear.bias is not None:
            convolved += self.linear.bias  # in place: `linear` would copy it into every row first
        return convolved.mul_(mask.unsqueeze(2))

    def maxima(self, words: FramedWords, mask: Tensor) -> Tensor:
        """(N, C) the largest value of each filter over a text's tokens, as `forward` would give it.

        Each distinct word meets the filters once, and only the largest values have a gradient: a sixth of the time.
        """
        filters = self.linear.weight
        size = words.vectors.shape[1]
        with torch.no_grad():
            products = words.vectors @ filters.unflatten(1, (self.window, size)).permute(1, 2, 0)
        rows = torch.arange(self.window) * len(words.vectors)
        maxima = []
        for indices, length in zip(words.indices, mask.sum(dim=1).tolist(), strict=True):
            places = indices.unfold(0, self.window, 1)[:length]
            with torch.no_grad():
                values = nn.functional.embedding_bag(places + rows, products.flatten(0, 1), mode="sum")
            if torch.is_grad_enabled():
                windows = nn.functional.embedding(places[values.argmax(dim=0)], words.vectors).flatten(1)
                maxima.append((windows * filters).sum(dim=1))
            else:
                maxima.append(values.amax(dim=0))
        return torch.stack(maxima) + self.linear.bias

    def windows(self, framed: Tensor) -> Tensor:
        """(N, left + T + right, D) -> (N, T, window * D): the words that each filter sees."""
        length = framed.shape[1] - self.window + 1
        return torch.cat([framed[:, k : k + length] for k in range(self.window)], dim=2)


class Recurrent(nn.Module):
    """A recurrent encoder. On a CPU it reads texts in groups of similar length."""

    GROUP = 32  # a long text delays 31 others at most, and fewer would leave a CPU idle
    state_size: int

    def read(self, states: Tensor, mask: Tensor) -> Tensor:
        """(N, T, D) -> (N, T, C); padding is at the end, where it does not affect the states of the text."""
        raise NotImplementedError

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """(N, T, D) -> (N, T, C), zero on padding."""
        if states.is_cuda or len(states) <= self.GROUP:
            return self.read(states, mask) * mask.unsqueeze(2)
        lengths = mask.sum(dim=1)
        outputs = states.new_zeros(*mask.shape, self.state_size)
        for group in lengths.argsort().split(self.GROUP):
            longest = int(lengths[group[-1]])
            group_mask = mask[group, :longest]
            outputs[group, :longest] = self.read(states[group, :longest], group_mask) * group_mask.unsqueeze(2)
        return outputs


class LSTM(Recurrent):
    """States of an LSTM. Packed sequences, which skip padding, made training several times slower on a CPU."""

    def __init__(self, input_size: int, hidden: int, *, layers: int = 1) -> None:
        super().__init__()
        self.lstm = nn.LSTM(input_size, hidden, num_layers=layers, batch_first=True)
        self.state_size = hidden

    def read(self, states: Tensor, mask: Tensor) -> Tensor:
        # In mixed precision a GPU would read in float16, in which small gradients are zero, whatever is asked for.
        with torch.autocast(states.device.type, enabled=False):
            return self.lstm(in_float32(states))[0]


class BiLSTM(Recurrent):
    """States of a forward and a backward LSTM, concatenated (C = 2 x hidden)."""

    def __init__(self, input_size: int, hidden: int) -> None:
        super().__init__()
        self.forwards = LSTM(input_size, hidden)
        self.backwards = LSTM(input_size, hidden)
        self.state_size = 2 * hidden

    def read(self, states: Tensor, mask: Tensor) -> Tensor:
        if not torch.is_grad_enabled() and not states.is_cuda and mask.all():
            # Without padding one call reads both ways, which takes two thirds of the time for a question; a GPU's
            # library would put the weights of both into one piece of memory first, each time.
            weights: list[Tensor] = [*self.forwards.lstm.all_weights[0], *self.backwards.lstm.all_weights[0]]
            zeros = states.new_zeros(2, len(states), self.state_size // 2)
            return torch.lstm(states, (zeros, zeros), weights, True, 1, 0.0, False, True, True)[0]
        positions = torch.arange(mask.shape[1], device=mask.device)
        last = mask.sum(dim=1, keepdim=True) - 1
        # Reverses each text within its own length, so that its padding stays at the end.
        reverse = torch.where(mask, last - positions, positions).unsqueeze(2)
        backwards = _reorder(self.backwards.read(_reorder(states, reverse), mask), reverse)
        return torch.cat([self.forwards.read(states, mask), backwards], dim=2)


def _reorder(states: Tensor, positions: Tensor) -> Tensor:
    """(N, T, C) states in the order of the (N, T, 1) positions."""
    return states.gather(1, positions.expand(-1, -1, states.shape[2]))
