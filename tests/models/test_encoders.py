from __future__ import annotations

import pytest
import torch
from naive.arithmetic import bilstm, lstm

from ap_ranker.models.encoders import LSTM, BiLSTM


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
