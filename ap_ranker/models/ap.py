"""AP-CNN and AP-biLSTM: attentive pooling of words (dos Santos et al. 2016, section 3).

The score is computed in attentive.py; this file encodes the words:

    Q, A = encoder(E_q), encoder(E_a)                  (M, C), (L, C)

A question alone is matched with stored answers by compiled loops, if numba is installed (`attentive_kernel.py`).
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Mapping
from functools import cache

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

from ap_ranker.models.attentive import SHARPNESS, AttentivePooling
from ap_ranker.models.base import States, StoredStates
from ap_ranker.models.encoders import BiLSTM, Convolution, FramedWords, WordEmbedding
from ap_ranker.models.int8 import int8_products, multiplies_int8
from ap_ranker.models.spec import DROPOUT, WINDOW, Inputs, ModelSpec, Option, Recipe
from ap_ranker.text.batch import TokenBatch

logger = logging.getLogger(__name__)


class AttentivePoolingWords(AttentivePooling):
    """Attentive pooling whose token states come from word vectors."""

    embedding: WordEmbedding

    def __init__(self, embedding: WordEmbedding, encoder: Convolution | BiLSTM, sharpness: float) -> None:
        super().__init__(encoder.state_size, sharpness)
        self.embedding = embedding
        self.encoder = encoder

    def encode(self, batch: TokenBatch) -> States:
        return States(batch.mask, {"states": self.encoder(self.embedding(batch), batch.mask)})

    def reads_stored(self, dtypes: Mapping[str, torch.dtype]) -> bool:
        return self.reads_dtypes(dtypes) and self.U.is_cpu and self.U.dtype == torch.float32 and compiled_loops_agree()

    @abstractmethod
    def reads_dtypes(self, dtypes: Mapping[str, torch.dtype]) -> bool:
        """Whether `match_stored` can read states of these dtypes."""


class AttentivePoolingBiLSTM(AttentivePoolingWords):
    """Reads stored answers in 8 bits a number, without widening them: they are a quarter of the memory to read."""

    encoder: BiLSTM
    stored_bits = 8

    def reads_dtypes(self, dtypes: Mapping[str, torch.dtype]) -> bool:
        return dtypes.get("states") == torch.int8 and multiplies_int8()

    def match_stored(self, question: States, answers: StoredStates) -> Tensor:
        from ap_ranker.models import attentive_kernel as loops

        states, token_scales = answers.per_token["states"], answers.per_token["states.scale"].flatten().float().numpy()
        Q, probes = (question.per_token[name][0].numpy() for name in ("states", "probes"))  # noqa: N806
        digits, scales = loops.two_digits(probes)
        products = loops.joined_digits(int8_products(states.numpy(), digits), scales, token_scales)
        bias = np.where(np.arange(len(scales)) < len(Q), np.float32(0), np.float32(-np.inf))
        texts = loops.token_rows(answers.starts, answers.lengths)
        sigma_a, sigma_q = loops.attention(products, bias, *texts, self.sharpness)
        r_a = loops.weighted_sums(states.numpy(), sigma_a * token_scales[texts[0]], *texts, 1)[:, 0]
        return torch.from_numpy(loops.cosines(Q, sigma_q, r_a))


class AttentivePoolingCNN(AttentivePoolingWords):
    """Computes the same scores without the answers' states: Q U A^T = (Q U W) Z^T + Q U b, and likewise for r_a.

    The convolution A = Z W^T + b is linear, so the question's rows become filters. An answer is stored as token ids,
    some hundred bytes instead of as many thousand, and a match reads D numbers per token instead of C.
    """

    encoder: Convolution

    def encode_answers(self, batch: TokenBatch) -> States:
        return States(batch.mask, {"ids": self.embedding.apply_word_dropout(batch)})

    def reads_dtypes(self, dtypes: Mapping[str, torch.dtype]) -> bool:
        return True

    def match_stored(self, question: States, answers: StoredStates) -> Tensor:
        from ap_ranker.models import attentive_kernel as loops

        Q, probes = question.per_token["states"][0], question.per_token["probes"][0]  # noqa: N806
        window, vectors = self.encoder.window, self.embedding.vectors.weight.detach()
        ids = answers.per_token["ids"].numpy()
        words, *texts = loops.framed_words(ids, answers.starts, answers.lengths, window, len(vectors))
        rows = vectors.index_select(0, torch.from_numpy(words))
        missing = -len(probes) % loops.LANES
        kernels = pad(probes[:, :-1], (0, 0, 0, missing)).unflatten(1, (window, -1)).transpose(0, 1)  # (K, M', D)
        products = (rows @ kernels.flatten(0, 1).T).unflatten(1, (window, -1)).numpy()
        bias = pad(probes[:, -1], (0, missing), value=float("-inf")).numpy()
        sigma_a, sigma_q = loops.attention(products, bias, *texts, self.sharpness)
        sums = loops.weighted_sums(rows.numpy(), sigma_a, *texts, window)
        r_a = self.encoder.linear(torch.from_numpy(sums).flatten(1))
        return torch.from_numpy(loops.cosines(Q.numpy(), sigma_q, r_a.numpy()))

    def read(self, answers: States) -> FramedWords:
        return self.embedding.framed(answers.per_token["ids"], self.encoder.left, self.encoder.right)

    def probes(self, rows: Tensor) -> Tensor:
        return self.encoder.filters(rows)

    def project(self, answers: FramedWords, probes: Tensor) -> Tensor:
        return self.encoder.project(answers, probes)

    def pool(self, answers: FramedWords, weights: Tensor) -> Tensor:
        return self.encoder.pool(answers, weights)


def ap_cnn(
    inputs: Inputs, *, filters: int, window: int, sharpness: float, copy_words: bool, dropout: float
) -> AttentivePooling:
    """AP-CNN."""
    embedding, encoder = WordEmbedding(inputs, dropout), Convolution(inputs.embedding_size, filters, window)
    model = AttentivePoolingCNN(embedding, encoder, sharpness)
    if copy_words:
        encoder.copy_words()
        model.begin_evenly()
    return model


def ap_bilstm(inputs: Inputs, *, hidden: int, sharpness: float, dropout: float) -> AttentivePooling:
    """AP-biLSTM."""
    embedding = WordEmbedding(inputs, dropout)
    return AttentivePoolingBiLSTM(embedding, BiLSTM(inputs.embedding_size, hidden), sharpness)


TOLERANCE = 1e-4
"""Between cosines of the compiled loops and of torch: float32 adds up in another order, and probes have 15 bits."""

_LENGTHS = (1, 9, 4, 30)


@cache
def compiled_loops_agree() -> bool:
    """Whether numba is there, and what it compiles scores an example as torch does.

    The first call on a machine compiles for some seconds, the first of a process loads what was compiled. Whatever the
    reason is if there are no compiled loops: torch alone computes the same.
    """
    try:
        with torch.random.fork_rng(devices=[]), torch.inference_mode():
            torch.manual_seed(0)
            inputs = Inputs(tuple(map(str, range(50))), 20, max(_LENGTHS))
            cnn = ap_cnn(inputs, filters=24, window=3, sharpness=2.0, copy_words=False, dropout=0.0)
            if not _loops_agree(cnn, {"ids": torch.randint(1, 50, (sum(_LENGTHS),), dtype=torch.int32)}):
                return False
            bilstm = ap_bilstm(inputs, hidden=12, sharpness=2.0, dropout=0.0)
            states = torch.randint(-127, 128, (sum(_LENGTHS), 24), dtype=torch.int8)
            scales = torch.rand(sum(_LENGTHS), 1).half() / 127
            return not multiplies_int8() or _loops_agree(bilstm, {"states": states, "states.scale": scales})
    except Exception as error:  # not installed, no folder for compiled code, or anything that a compiler raises
        logger.debug("Attentive pooling without compiled loops: %r", error)
        return False


def _loops_agree(model: AttentivePooling, stored: Mapping[str, Tensor]) -> bool:
    """Whether `match_stored` scores answers of `_LENGTHS` tokens as `match` does."""
    [name, value], *scales = stored.items()
    widened = value * scales[0][1].float() if scales else value.long()
    lengths = torch.tensor(_LENGTHS)
    mask = torch.arange(max(_LENGTHS)) < lengths.unsqueeze(1)
    answers = States(mask, {name: pad_sequence(widened.split(_LENGTHS), batch_first=True)})
    starts = (lengths.cumsum(0) - lengths).numpy()
    question = model.eval().encode_questions(TokenBatch.from_lists([list(range(1, 8))]))
    found = model.match_stored(question, StoredStates(starts, lengths.numpy(), stored, {}))
    return torch.allclose(found, model.match(question, answers)[0], rtol=0, atol=TOLERANCE)


_PAPER = "dos Santos, Tan, Xiang & Zhou, Attentive Pooling Networks"

# Sizes and recipes: the paper's table of hyper-parameters for InsuranceQA.
SPECS = [
    ModelSpec(
        name="ap-cnn",
        paper=_PAPER,
        year=2016,
        family="attentive-pooling",
        cached="token ids",
        build=ap_cnn,
        attention_over="both",
        options={
            "filters": Option(400, "convolution filters, so also the size of a token's state"),
            "window": Option(3, "words that a filter sees at once", bounds=WINDOW),
            "sharpness": SHARPNESS,
            "copy_words": Option(
                False,
                "begins with filters that copy the word in the middle and even attention, as a bag of words: good "
                "word vectors rank from the start",
            ),
            "dropout": DROPOUT,
        },
        recipe=Recipe("hinge", "sgd", 1.1, "inverse", batch_size=20, margin=0.5),
    ),
    ModelSpec(
        name="ap-bilstm",
        paper=_PAPER,
        year=2016,
        family="attentive-pooling",
        cached="token states",
        build=ap_bilstm,
        attention_over="both",
        options={
            "hidden": Option(141, "units of the LSTM in each direction"),
            "sharpness": SHARPNESS,
            "dropout": DROPOUT,
        },
        recipe=Recipe("hinge", "sgd", 1.1, "inverse", batch_size=20, margin=0.2),
    ),
]
