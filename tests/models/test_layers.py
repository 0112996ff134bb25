from __future__ import annotations

import pytest
import torch
from naive.arithmetic import bilstm, lstm

from ap_ranker.models.layers import LSTM, BiLSTM, Convolution, WordEmbedding
from ap_ranker.models.registry import build_model
from ap_ranker.models.spec import Inputs
from ap_ranker.text.tokenizer import TokenBatch


@pytest.mark.parametrize("kind", [LSTM, BiLSTM])
def test_texts_read_in_groups_of_similar_length(kind: type[LSTM] | type[BiLSTM]) -> None:
    """More texts than a group holds, of all lengths, in any order: each as if it were read alone."""
    torch.manual_seed(0)
    encoder = kind(3, 4).double()
    lengths = torch.randint(1, 9, (kind.GROUP * 2 + 5,))
    mask = torch.arange(9) < lengths.unsqueeze(1)
    states = torch.randn(len(lengths), 9, 3, dtype=torch.double) * mask.unsqueeze(2)
    with torch.no_grad():
        found = encoder(states, mask)
    assert (found[~mask] == 0).all()
    for row, length in enumerate(lengths.tolist()):
        text = states[row, :length].tolist()
        expected = bilstm(encoder, text) if isinstance(encoder, BiLSTM) else lstm(encoder.lstm, text)
        assert torch.allclose(found[row, :length], torch.tensor(expected, dtype=torch.double), atol=1e-12)


@pytest.mark.parametrize("window", [1, 2, 3, 6])
def test_the_largest_values_of_filters_over_distinct_words(window: int) -> None:
    """The same values as of the whole convolution, and the same gradients for filters and words."""
    torch.manual_seed(0)
    words = WordEmbedding(Inputs(tuple("abcdefgh"), 5, 20), dropout=0.0).double()
    convolution = Convolution(5, 7, window).double()
    mask = torch.arange(9) < torch.tensor([[9], [1], [4], [2]])  # also texts that are shorter than a window
    batch = TokenBatch(torch.randint(1, 8, (4, 9)) * mask, mask)
    weights = [words.vectors.weight, *convolution.parameters()]

    def largest() -> torch.Tensor:
        return convolution.maxima(words.framed(batch.ids, convolution.left, convolution.right), mask)

    expected = convolution(words(batch), mask).masked_fill(~mask.unsqueeze(2), -torch.inf).amax(dim=1)
    with torch.no_grad():
        assert torch.allclose(largest(), expected, atol=1e-12)
    found = largest()
    assert torch.allclose(found, expected, atol=1e-12)
    by_text = torch.randn(4, 7, dtype=torch.double)
    for gradient, other in zip(
        torch.autograd.grad((found * by_text).sum(), weights),
        torch.autograd.grad((expected * by_text).sum(), weights),
        strict=True,
    ):
        assert torch.allclose(gradient, other, atol=1e-12)


@pytest.mark.parametrize(("filters", "window"), [(7, 1), (7, 3), (4, 2), (3, 4)])
def test_copied_words(filters: int, window: int) -> None:
    """A state begins as the word in the middle, cut or filled up with zeros, plus a tenth of the random convolution."""
    size = 4
    torch.manual_seed(0)
    convolution = Convolution(size, filters, window)
    words, mask = torch.randn(2, 5, size), torch.arange(5) < torch.tensor([[5], [3]])
    words = words * mask.unsqueeze(2)
    with torch.no_grad():
        random = convolution(words, mask) - convolution.linear.bias * mask.unsqueeze(2)
        convolution.copy_words()
        copied = convolution(words, mask)
    middle = torch.zeros(2, 5, filters)
    middle[:, :, : min(size, filters)] = words[:, :, :filters]
    assert torch.allclose(copied, middle + 0.1 * random, atol=1e-6)


def test_an_ap_cnn_that_copies_words() -> None:
    inputs = Inputs(("[PAD]", "[UNK]", "a", "b"), 6, 20)
    models = []
    for copy_words in (False, True):
        torch.manual_seed(0)
        models.append(build_model("ap-cnn", inputs, {"filters": 6, "copy_words": copy_words}))
    plain, copying = (model.encoder.linear.weight for model in models)
    expected = 0.1 * plain
    expected[:, 6:12] += torch.eye(6)
    assert torch.equal(copying, expected)
    assert torch.equal(models[0].embedding.vectors.weight, models[1].embedding.vectors.weight)
