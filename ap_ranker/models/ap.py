"""AP-CNN and AP-biLSTM: each text's token weights depend on the other text (dos Santos et al. 2016, section 3).

    Q, A = encoder(E_q), encoder(E_a)                  (M, C), (L, C)   convolution or biLSTM over the words
    G = tanh(Q U A^T)                                  (M, L)   soft alignment
    g_q = max over answer tokens of G,  g_a = max over question tokens of G
    σ = softmax(g)                                     over the text's own tokens
    r_q = σ_q^T Q,  r_a = σ_a^T A                      (C,)
    s(q, a) = cos(r_q, r_a)

tanh is monotonic, so max(tanh(G)) = tanh(max(G)): M + L values of tanh are computed instead of M x L.

A question alone is matched with stored answers by compiled loops, if numba is installed (`attentive_kernel.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

from ap_ranker.models.base import Attention, CosineModel, States, StoredStates, WordModel
from ap_ranker.models.layers import BiLSTM, Convolution, FramedWords
from ap_ranker.models.operations import masked_softmax, row_and_column_max
from ap_ranker.models.private_operators import int8_products, multiplies_int8
from ap_ranker.models.spec import DROPOUT, HIDDEN, WINDOW, Inputs, ModelSpec, Option, Options, Recipe
from ap_ranker.text.tokenizer import TokenBatch

logger = logging.getLogger(__name__)

INITIAL_U = 0.1  # times an identity: training starts from the dot product of states, where tanh is not saturated


class AttentivePooling(CosineModel, WordModel):
    """The cosine of two texts, each pooled with attention from the other."""

    encoder: Convolution | BiLSTM
    U: nn.Parameter

    def encode(self, batch: TokenBatch) -> States:
        return States(batch.mask, {"states": self.encoder(self.embedding(batch), batch.mask)})

    def encode_questions(self, batch: TokenBatch) -> States:
        states = self.encode(batch).per_token["states"]
        return States(batch.mask, {"states": states, "probes": self.probes(states @ self.U)})

    def probes(self, rows: Tensor) -> Tensor:
        """Rows of Q U as `project` needs them, once per question: (B, M, C) -> (B, M, ·)."""
        return rows

    def read(self, answers: States) -> Any:
        """The (N, L, C) states, for `project` and `pool`."""
        return answers.per_token["states"]

    def project(self, answers: Any, probes: Tensor) -> Tensor:
        """(R, ·) -> (R, N, L): the products of R rows of Q U and the answers' states."""
        states = answers.flatten(0, 1)
        # A CPU reads tall matrices row by row faster than it multiplies with their transpose.
        products = probes @ states.T if len(probes) >= states.shape[1] else (states @ probes.T).T.contiguous()
        return products.unflatten(1, answers.shape[:2])

    def pool(self, answers: Any, weights: Tensor) -> Tensor:
        """(N, B, L) -> (N, B, C): the sums of each answer's states."""
        return weights @ answers

    def attention_weights(self, questions: TokenBatch, answers: TokenBatch) -> Attention:
        states = self.encode_answers(answers)
        sigma_q, sigma_a = self._attention(self.encode_questions(questions), states, self.read(states))
        return Attention(sigma_q.transpose(1, 2), sigma_a)

    def match(self, questions: States, answers: States) -> Tensor:
        Q = questions.per_token["states"]
        read = self.read(answers)
        sigma_q, sigma_a = self._attention(questions, answers, read)
        r_a = self.pool(read, sigma_a.transpose(0, 1)).transpose(0, 1)  # (B, N, C)
        # r_q itself is not computed: its product with r_a and its length need M numbers per pair instead of C.
        weights = sigma_q.transpose(1, 2)  # (B, N, M)
        dot = (weights * (r_a @ Q.mT)).sum(dim=2)
        squared = (weights * (weights @ (Q @ Q.mT))).sum(dim=2)
        squared = squared.clamp(min=1e-24)  # a root has no slope at 0, which a question of unknown words may have
        return dot / (squared.sqrt() * torch.linalg.vector_norm(r_a, dim=2)).clamp(min=1e-12)

    def _attention(self, questions: States, answers: States, read: Any) -> tuple[Tensor, Tensor]:
        """Weights of the question's (B, M, N) and the answer's (B, N, L) tokens."""
        probes = questions.per_token["probes"]
        question_mask = questions.mask
        answer_mask = answers.mask
        # One matrix product for all pairs, (B·M, C) x (C, N·L); the longest dimension is last.
        G = self.project(read, probes.flatten(0, 1)).unflatten(0, probes.shape[:2])  # (B, M, N, L)
        # Padding is masked in place without autograd: it is never the largest, so it gets no gradient anyway.
        values = G.detach()
        values.masked_fill_(~answer_mask, float("-inf"))
        if not question_mask.all():
            values[~question_mask] = float("-inf")
        g_q, g_a = row_and_column_max(G, 3, 1)
        sharpness = self.options.sharpness
        sigma_q = masked_softmax(sharpness * torch.tanh(g_q), question_mask.unsqueeze(2), dim=1)
        return sigma_q, masked_softmax(sharpness * torch.tanh(g_a), answer_mask, dim=2)

    def reads_stored(self, dtypes: Mapping[str, torch.dtype]) -> bool:
        return self.U.is_cpu and self.U.dtype == torch.float32 and compiled_loops_agree()


class AttentivePoolingBiLSTM(AttentivePooling):
    """Reads stored answers in 8 bits a number, without widening them: they are a quarter of the memory to read."""

    encoder: BiLSTM
    stored_bits = 8

    def __init__(self, inputs: Inputs, options: Options) -> None:
        super().__init__(inputs, options)
        self.encoder = BiLSTM(inputs.embedding_size, options.hidden)
        self.U = nn.Parameter(torch.zeros(2 * [self.encoder.state_size]).fill_diagonal_(INITIAL_U))

    def reads_stored(self, dtypes: Mapping[str, torch.dtype]) -> bool:
        return dtypes.get("states") == torch.int8 and multiplies_int8() and super().reads_stored(dtypes)

    def match_stored(self, question: States, answers: StoredStates) -> Tensor:
        from ap_ranker.models import attentive_kernel as loops

        states = answers.per_token["states"]
        token_scales = answers.per_token["states.scale"].flatten().float().numpy()
        Q = question.per_token["states"][0].numpy()
        probes = question.per_token["probes"][0].numpy()
        digits, scales = loops.two_digits(probes)
        products = loops.joined_digits(int8_products(states.numpy(), digits), scales, token_scales)
        bias = np.where(np.arange(len(scales)) < len(Q), np.float32(0), np.float32(-np.inf))
        texts = loops.token_rows(answers.starts, answers.lengths)
        sigma_a, sigma_q = loops.attention(products, bias, *texts, self.options.sharpness)
        r_a = loops.weighted_sums(states.numpy(), sigma_a * token_scales[texts[0]], *texts, 1)[:, 0]
        return torch.from_numpy(loops.cosines(Q, sigma_q, r_a))


class AttentivePoolingCNN(AttentivePooling):
    """Computes the same scores without the answers' states: Q U A^T = (Q U W) Z^T + Q U b, and likewise for r_a.

    The convolution A = Z W^T + b is linear, so the question's rows become filters. An answer is stored as token ids,
    some hundred bytes instead of as many thousand, and a match reads D numbers per token instead of C.
    """

    encoder: Convolution

    def __init__(self, inputs: Inputs, options: Options) -> None:
        super().__init__(inputs, options)
        self.encoder = Convolution(inputs.embedding_size, options.filters, options.window)
        self.U = nn.Parameter(torch.zeros(2 * [options.filters]).fill_diagonal_(INITIAL_U))
        if options.copy_words:
            self.encoder.copy_words()
            # Hardly any attention: to the words that two texts share, which U begins with, it makes all answers alike
            # that have these words. Untrained, good word vectors rank better without it.
            self.U.data.mul_(0.01)

    def encode_answers(self, batch: TokenBatch) -> States:
        return States(batch.mask, {"ids": self.embedding.apply_word_dropout(batch)})

    def match_stored(self, question: States, answers: StoredStates) -> Tensor:
        from ap_ranker.models import attentive_kernel as loops

        Q = question.per_token["states"][0]
        probes = question.per_token["probes"][0]
        window = self.encoder.window
        vectors = self.embedding.vectors.weight.detach()
        ids = answers.per_token["ids"].numpy()
        words, *texts = loops.framed_words(ids, answers.starts, answers.lengths, window, len(vectors))
        rows = vectors.index_select(0, torch.from_numpy(words))
        missing = -len(probes) % loops.LANES
        kernels = pad(probes[:, :-1], (0, 0, 0, missing)).unflatten(1, (window, -1)).transpose(0, 1)  # (K, M', D)
        products = (rows @ kernels.flatten(0, 1).T).unflatten(1, (window, -1)).numpy()
        bias = pad(probes[:, -1], (0, missing), value=float("-inf")).numpy()
        sigma_a, sigma_q = loops.attention(products, bias, *texts, self.options.sharpness)
        sums = loops.weighted_sums(rows.numpy(), sigma_a, *texts, window)
        r_a = self.encoder.linear(torch.from_numpy(sums).flatten(1))
        return torch.from_numpy(loops.cosines(Q.numpy(), sigma_q, r_a.numpy()))

    def read(self, answers: States) -> FramedWords:
        return self.embedding.framed(answers.per_token["ids"], self.encoder.left, self.encoder.right)

    def probes(self, rows: Tensor) -> Tensor:
        """(..., C) -> (..., K D + 1): filters with a bias that compute a state's dot product with each row."""
        layer = self.encoder.linear
        return torch.cat([rows @ layer.weight, (rows @ layer.bias).unsqueeze(-1)], dim=-1)

    def project(self, answers: FramedWords, probes: Tensor) -> Tensor:
        size = answers.vectors.shape[1]
        window = self.encoder.window
        n = len(answers.indices)
        length = answers.indices.shape[1] - window + 1
        if len(probes) >= size:
            windows = self.encoder.windows(answers.framed())
            products = (probes[:, :-1] @ windows.flatten(0, 1).T).unflatten(1, (n, length))
        else:
            # With fewer filters than dimensions: one product per distinct word, and sums of those of a window's words.
            kernels = probes[:, :-1].unflatten(1, (window, size)).transpose(0, 1).flatten(0, 1)
            per_word = (kernels @ answers.vectors.T).index_select(1, answers.indices.flatten())
            parts = per_word.unflatten(1, answers.indices.shape).unflatten(0, (window, len(probes)))
            products = parts[0, ..., :length]
            for k in range(1, window):
                products = products + parts[k, ..., k : k + length]
        return products.add_(probes[:, -1].view(-1, 1, 1))

    def pool(self, answers: FramedWords, weights: Tensor) -> Tensor:
        # The k-th words of all windows are the text shifted by k. Shifting the weights instead moves less memory.
        window = self.encoder.window
        shifted = [pad(weights, (k, window - 1 - k)) for k in range(window)]
        windows = answers.sums(torch.stack(shifted, dim=2).flatten(1, 2))
        return self.encoder.linear(windows.unflatten(1, (-1, window)).flatten(2))


TOLERANCE = 1e-4  # of cosines: the compiled loops add up float32 in another order, and probes have 15 bits
_LENGTHS = (1, 9, 4, 30)


@cache
def compiled_loops_agree() -> bool:
    """Whether numba is there, and what it compiles scores an example as torch does. The first call takes seconds."""
    try:
        with torch.random.fork_rng(devices=[]), torch.inference_mode():
            torch.manual_seed(0)
            inputs = Inputs(tuple(map(str, range(50))), 20, max(_LENGTHS))
            options = Options(filters=24, window=3, hidden=12, sharpness=2.0, copy_words=False, dropout=0.0)
            cnn = AttentivePoolingCNN(inputs, options)
            bilstm = AttentivePoolingBiLSTM(inputs, options)
            ids = torch.randint(1, 50, (sum(_LENGTHS),), dtype=torch.int32)
            states = torch.randint(-127, 128, (sum(_LENGTHS), 24), dtype=torch.int8)
            stored = {"states": states, "states.scale": torch.rand(sum(_LENGTHS), 1).half() / 127}
            return _loops_agree(cnn, {"ids": ids}) and (not multiplies_int8() or _loops_agree(bilstm, stored))
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
    question = model.eval().encode_questions(TokenBatch.from_lists([list(range(1, 8))]))
    scores = model.match_stored(question, StoredStates(lengths.numpy(), stored, {}))
    return torch.allclose(scores, model.match(question, answers)[0], rtol=0, atol=TOLERANCE)


_SHARPNESS = Option(
    1.0, "multiplies the attention scores, which tanh keeps in -1..1, before their softmax", least=1e-6, most=1_000
)

# Sizes and recipes: the paper's table of hyper-parameters for InsuranceQA.
AP_CNN = ModelSpec(
    name="ap-cnn",
    paper="dos Santos, Tan, Xiang & Zhou, Attentive Pooling Networks",
    year=2016,
    family="attentive-pooling",
    cached="token ids",
    build=AttentivePoolingCNN,
    attention_over="both",
    options={
        "filters": Option(400, "convolution filters, so also the size of a token's state"),
        "window": WINDOW,
        "sharpness": _SHARPNESS,
        "copy_words": Option(
            False,
            "begins with filters that copy the word in the middle and even attention, as a bag of words: good word "
            "vectors rank from the start",
        ),
        "dropout": DROPOUT,
    },
    recipe=Recipe("hinge", "sgd", 1.1, "inverse", batch_size=20, margin=0.5, epochs=25, own_negatives=True),
)
AP_BILSTM = replace(
    AP_CNN,
    name="ap-bilstm",
    cached="token states",
    build=AttentivePoolingBiLSTM,
    options={"hidden": HIDDEN, "sharpness": _SHARPNESS, "dropout": DROPOUT},
    recipe=Recipe("hinge", "sgd", 1.1, "inverse", batch_size=20, margin=0.2, epochs=25, own_negatives=True),
)
