"""A peer that compares token by token, ColBERT (Khattab & Zaharia 2020), as sentence-transformers 6 trains it.

It starts from the same encoder and learns from the same lessons as the bi-encoder.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.scoring import CandidateScores
from ap_ranker.kept_results import Latest
from ap_ranker.text.question_keys import keys_of_questions, question_keys
from ap_ranker.training.best_epoch import BestEpoch
from ap_ranker.training.peer_lessons import Lesson
from ap_ranker.training.peers import Arguments, best_mrr, learn, library_options, most_without_copies, table_of_lessons


class LateInteraction:
    """A vector of 128 numbers for each token; each token of a question counts with the most similar one of a text."""

    reads_pairs = False

    def __init__(self, folder: Path, device: torch.device) -> None:
        from sentence_transformers import MultiVectorEncoder

        self.model = MultiVectorEncoder(str(folder), device=str(device), **library_options(folder))
        self._texts: Latest[list[torch.Tensor]] = Latest()

    def fine_tune(self, lessons: Sequence[Lesson], dev: EvaluationSet, arguments: Arguments) -> BestEpoch:
        """Learn, and return the best epoch, as `BiEncoder.fine_tune` does."""
        from sentence_transformers import MultiVectorEncoderTrainer, MultiVectorEncoderTrainingArguments
        from sentence_transformers.base.sampler import BatchSamplers
        from sentence_transformers.multi_vector_encoder.losses import MultiVectorMultipleNegativesRankingLoss

        trainer = MultiVectorEncoderTrainer(
            self.model,
            arguments(
                MultiVectorEncoderTrainingArguments,
                most_rows=most_without_copies(lessons),
                batch_sampler=BatchSamplers.NO_DUPLICATES,
            ),
            train_dataset=table_of_lessons(lessons),
            loss=MultiVectorMultipleNegativesRankingLoss(self.model),
        )
        return learn(trainer, partial(self._dev_mrr, dev))

    def _dev_mrr(self, dev: EvaluationSet) -> float:
        self._texts.forget()
        return best_mrr(self, dev)

    def score(self, asked: EvaluationSet, *, wordings: bool = False) -> CandidateScores:
        """The candidates' scores; with `wordings` by an entry's best text, but not the question's own."""
        texts = list(asked.dataset.answer_texts)
        entries = list(range(len(texts)))
        for row, answer in enumerate(asked.dataset.answers if wordings else ()):
            texts += answer.wordings
            entries += [row] * len(answer.wordings)
        vectors = self._texts.get(texts, partial(self._encode, texts))
        n_answers = len(asked.dataset.answers)
        keys: list[frozenset[str]] = [frozenset()] * n_answers
        keys += [keys_of_questions([text]) for text in texts[n_answers:]]
        rows_of: list[list[int]] = [[] for _ in range(n_answers)]
        for place, entry in enumerate(entries):
            rows_of[entry].append(place)
        questions = self.model.encode_query(asked.question_texts, show_progress_bar=False)
        scores: list[np.ndarray] = []
        for question, tokens, pool in zip(asked.questions, questions, asked.pools, strict=True):
            own_keys = question_keys(question.text)
            best: list[float] = []
            places: list[int] = []
            ends = [0]
            for entry in pool:
                places += [place for place in rows_of[entry] if keys[place].isdisjoint(own_keys)]
                ends.append(len(places))
            values = self.model.similarity([tokens], [vectors[place] for place in places])[0].float().cpu().numpy()
            for start, end in pairwise(ends):
                best.append(float(values[start:end].max()))
            scores.append(np.array(best))
        n_bytes = sum(tokens.nbytes for tokens in vectors) / n_answers
        return CandidateScores(scores, 0.0, 0.0, n_bytes)

    def _encode(self, texts: Sequence[str]) -> Any:
        return self.model.encode_document(list(texts), show_progress_bar=False)
