"""Models that encode each text into one vector; the score of a pair is the similarity of its vectors."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor

from ap_ranker.models.base import AnswerModel, States
from ap_ranker.models.similarity import gesd, unit
from ap_ranker.models.spec import Option
from ap_ranker.text.batch import TokenBatch

SIMILARITY = Option("cosine", "how two vectors are compared: cosine, or GESD of Feng et al. 2015", ("cosine", "gesd"))


class Siamese(AnswerModel):
    """s(q, a) = cos(r_q, r_a), or GESD(r_q, r_a); all else is computed before the question is known."""

    temperature = 0.05  # the values of both similarities lie close together

    def __init__(self, similarity: str = "cosine") -> None:
        super().__init__()
        self.similarity = similarity

    @abstractmethod
    def represent(self, batch: TokenBatch) -> Tensor:
        """(N, C) one vector per text."""

    def encode(self, batch: TokenBatch) -> States:
        vector = self.represent(batch)
        return States(batch.mask, per_text={"vector": vector if self.similarity == "gesd" else unit(vector)})

    def match(self, questions: States, answers: States) -> Tensor:
        q, a = questions.per_text["vector"], answers.per_text["vector"]
        return gesd(q, a) if self.similarity == "gesd" else q @ a.T

    def text_vectors(self, states: States) -> Tensor:
        return unit(states.per_text["vector"])

    def scale(self, scores: Tensor) -> Tensor:
        return scores if self.similarity == "gesd" else (1 + scores) / 2
