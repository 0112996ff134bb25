"""Models that make one vector of each text on its own; the pair's similarity is all that is left to do."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor

from ap_ranker.models.base import AnswerModel, States
from ap_ranker.models.similarity import gesd, unit
from ap_ranker.models.spec import Option
from ap_ranker.text.batch import TokenBatch

SIMILARITY = Option("cosine", "how two vectors are compared: cosine, or GESD of Feng et al. 2015", ("cosine", "gesd"))


class Siamese(AnswerModel):
    """s(q, a) = cos(r_q, r_a), or GESD(r_q, r_a); everything but this is done before the question is known."""

    temperature = 0.05  # both similarities lie close together

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

    def scale(self, scores: Tensor) -> Tensor:
        return scores if self.similarity == "gesd" else (1 + scores) / 2
