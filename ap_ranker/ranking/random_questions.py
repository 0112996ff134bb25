"""Questions about other matters: what a search scores them shows how much of a score means nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

if TYPE_CHECKING:
    from ap_ranker.ranking.ranker import Ranker

RANDOM_QUESTIONS = tuple(Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines())
"""Letters at random, and questions in several languages that hardly any FAQ answers."""

SAMPLE = 100
"""Number of texts that are compared with these questions: with more, their mean score hardly changes."""

REACHED = 0.9
"""Share of these questions whose best score the floor of a FAQ lies above: untrained, on the dev questions of seven
FAQs, 85 % of other matters are then below, and 5 % of what can be answered; at .95, 92 and 8 % (see `examples`)."""


def random_scores(ranker: Ranker, texts: Sequence[str]) -> NDArray[np.float64]:
    """(Q, N) the model's scores of these questions with a sample of the texts of a FAQ.

    Their mean is the FAQ's background: it tells apart FAQs, and languages that an encoder has not read, whose scores
    are all higher or all lower.
    """
    rows = np.random.default_rng(0).permutation(len(texts))[:SAMPLE]
    asked = ranker.encode_questions(RANDOM_QUESTIONS)
    parts = ranker.answer_states([texts[row] for row in rows], rounded=True)
    with torch.inference_mode():
        scores = torch.cat([ranker.model.match(asked, states) for _, states in parts], dim=1)
    return scores.double().cpu().numpy()


def floor_of(best: NDArray[np.float64]) -> float:
    """What most of these questions do not reach, of their (Q,) best scores: less is not worth showing."""
    return float(np.quantile(best, REACHED))
