"""Questions about other matters: what a search scores them shows how much of a score means nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

if TYPE_CHECKING:
    from ap_ranker.ranking.ranker import Ranker

RANDOM_QUESTIONS = tuple(
    """\
qpwoei rutyal
lkjhgfdsa
bvncm xx 77
hhhhh
zrtk plmn wq
which planet has the most moons
how do I bake sourdough bread
who painted the girl with the pearl earring
what year did the berlin wall fall
how long do cats sleep
chords of yesterday
is a tomato a fruit
tallest building in Asia
how to remove ink from a shirt
what rhymes with orange
how far away is the moon
the best opening in chess
which planet has rings
who discovered penicillin
convert 5 miles to kilometres
the meaning of my dream about a river
what do hedgehogs eat
lyrics of a sea shanty
how to grow basil indoors
the square root of 1764
wer hat den Buchdruck erfunden
wie lange kocht man ein Ei
Hauptstadt von Norwegen
warum schnurren Katzen
combien de pattes a une araignée
quién escribió Don Quijote
hangi gezegen en büyük
gdzie leży Kraków
сколько весит слон
كم عدد قارات العالم
世界上最长的河流是哪条
富士山の高さは
भारत की राजधानी क्या है""".splitlines()
)
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
