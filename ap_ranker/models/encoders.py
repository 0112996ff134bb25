"""What reads one text: word embeddings, convolution, LSTM. Sizes: N texts, T tokens, D embedding, C state."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ap_ranker.models.spec import Inputs
from ap_ranker.text.batch import PAD, TokenBatch


class WordEmbedding(nn.Module):
    """Word vectors of token ids; zero on padding, and, while training, on a share `dropout` of the words.

    Dropping whole words (word dropout, Iyyer et al. 2015, section 3.1) makes a text known by any of its words. Dropping
    single numbers of the vectors instead only blurs them.
    """

    def __init__(self, inputs: Inputs, dropout: float) -> None:
        super().__init__()
        self.vectors = nn.Embedding(len(inputs.words), inputs.embedding_size, padding_idx=PAD)
        self.dropout = dropout

    def forward(self, batch: TokenBatch) -> Tensor:
        """(N, T, D)."""
        embedded: Tensor = self.vectors(self.apply_word_dropout(batch))
        return embedded

    def apply_word_dropout(self, batch: TokenBatch) -> Tensor:
        """(N, T) token ids, those of dropped words replaced by padding's, whose vector is zero, too."""
        if self.training and self.dropout:
            dropped = torch.rand(batch.ids.shape, device=batch.ids.device) < self.dropout
            return batch.ids.masked_fill(dropped, PAD)
        return batch.ids


class Convolution(nn.Module):
    """Q = W z + b, where z_m concatenates the `window` states centred on token m (dos Santos 2016, section 2.1).

    As many states as tokens: positions beyond the text count as zero, as padding does. An even window reaches one token
    further to the right.

    It is linear, so what a model does to its states it may as well do to the words: `project` and `pool` give products
    and weighted sums of the C states at the price of the D-dimensional words, and the states need not exist.
    """

    def __init__(self, input_size: int, filters: int, window: int) -> None:
        super().__init__()
        self.window, self.left, self.right = window, (window - 1) // 2, window // 2
        self.linear = nn.Linear(window * input_size, filters)
        self.state_size = filters

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """(N, T, D) -> (N, T, C), zero on padding."""
        convolved = self._filtered(nn.functional.pad(states, (0, 0, self.left, self.right)), self.linear.weight)
        if self.linear.bias is not None:
            convolved += self.linear.bias  # in place: `linear` would copy it into every row first
        return convolved * mask.unsqueeze(2)

    def filters(self, rows: Tensor) -> Tensor:
        """(..., C) -> (..., window * D + 1): filters, and a bias each, that yield a state's dot product with a row."""
        return torch.cat([rows @ self.linear.weight, (rows @ self.linear.bias).unsqueeze(-1)], dim=-1)

    def project(self, framed: Tensor, filters: Tensor) -> Tensor:
        """The dot product of each convolved state with each row.

        Args:
            framed: (N, left + T + right, D) words between zeros.
            filters: (R, window * D + 1) the rows' `filters`.

        Returns:
            (N, T, R).
        """
        return self._filtered(framed, filters[:, :-1]).add_(filters[:, -1])

    def pool(self, framed: Tensor, weights: Tensor) -> Tensor:
        """The sums of the convolved states with R weights for each text, each adding up to 1.

        Args:
            framed: (N, left + T + right, D) words between zeros.
            weights: (N, R, T).

        Returns:
            (N, R, C).
        """
        # The k-th word of all windows is the text shifted by k; shifting the weights the other way moves less.
        shifted = [nn.functional.pad(weights, (k, self.window - 1 - k)) for k in range(self.window)]
        windows = torch.stack(shifted, dim=2).flatten(1, 2) @ framed
        pooled: Tensor = self.linear(windows.unflatten(1, (-1, self.window)).flatten(2))
        return pooled

    def _filtered(self, framed: Tensor, filters: Tensor) -> Tensor:
        """(N, left + T + right, D), (F, window * D) -> (N, T, F): one product, several times faster than conv1d."""
        size, length = framed.shape[2], framed.shape[1] - self.window + 1
        if len(filters) >= size:
            return torch.cat([framed[:, k : k + length] for k in range(self.window)], dim=2) @ filters.T
        # With fewer filters than dimensions it is the products that are shifted and added.
        kernels = filters.unflatten(1, (self.window, size)).transpose(0, 1).flatten(0, 1)
        products = (framed @ kernels.T).unflatten(2, (self.window, len(filters)))
        added = products[:, :length, 0].clone()
        for k in range(1, self.window):
            added += products[:, k : k + length, k]
        return added


class Recurrent(nn.Module):
    """A reader of token after token; on a CPU, texts of similar length are read together."""

    GROUP = 32
    """Texts read together: a long one then holds up 31 others at most. Fewer would leave a CPU idle."""

    state_size: int

    def read(self, states: Tensor, mask: Tensor) -> Tensor:
        """(N, T, D) -> (N, T, C); padding comes last, so that it changes no state of the text."""
        raise NotImplementedError

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """(N, T, D) -> (N, T, C), zero on padding."""
        if states.is_cuda or len(states) <= self.GROUP:
            return self.read(states, mask) * mask.unsqueeze(2)
        lengths = mask.sum(dim=1)
        outputs = states.new_zeros(*mask.shape, self.state_size)
        for group in lengths.argsort().split(self.GROUP):
            longest = int(lengths[group[-1]])
            here = mask[group, :longest]
            outputs[group, :longest] = self.read(states[group, :longest], here) * here.unsqueeze(2)
        return outputs


class LSTM(Recurrent):
    """States of an LSTM. Skipping padding by packed sequences made training several times slower on a CPU."""

    def __init__(self, input_size: int, hidden: int, *, layers: int = 1) -> None:
        super().__init__()
        self.lstm = nn.LSTM(input_size, hidden, num_layers=layers, batch_first=True)
        self.state_size = hidden

    def read(self, states: Tensor, mask: Tensor) -> Tensor:
        outputs: Tensor = self.lstm(states)[0]
        return outputs


class BiLSTM(Recurrent):
    """States of a forward and a backward LSTM, concatenated (C = 2 x hidden)."""

    def __init__(self, input_size: int, hidden: int) -> None:
        super().__init__()
        self.forwards = LSTM(input_size, hidden)
        self.backwards = LSTM(input_size, hidden)
        self.state_size = 2 * hidden

    def read(self, states: Tensor, mask: Tensor) -> Tensor:
        places = torch.arange(mask.shape[1], device=mask.device)
        last = mask.sum(dim=1, keepdim=True) - 1
        # Each text turned round within its own length, so that its padding still comes last.
        turned = torch.where(mask, last - places, places).unsqueeze(2)
        backwards = _at(self.backwards.read(_at(states, turned), mask), turned)
        return torch.cat([self.forwards.read(states, mask), backwards], dim=2)


def _at(states: Tensor, places: Tensor) -> Tensor:
    """(N, T, C) states in the order of the (N, T, 1) places."""
    return states.gather(1, places.expand(-1, -1, states.shape[2]))
