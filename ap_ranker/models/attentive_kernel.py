"""The loops of attentive pooling, compiled (the extra `fast`): one question against stored answers, without padding.

    G[m, t] = b_m + sum over k of products[word of t + k, k, m]        the question's token m, the answer's token t
    σ_q = softmax(sharpness tanh(max over t of G)),  σ_a = softmax(sharpness tanh(max over m of G))
    sums[k] = sum over t of σ_a[t] row[word of t + k]

Each answer is read once per sum, where torch needs several passes over padded tensors. G exists for four tokens of the
question at a time and one of the answer, in registers. `ap.py` uses this file only if it computes the same as torch.

Sizes: N answers, W different words (or tokens) with a row of D numbers, K the window, M question tokens. `index` names
the row of each word of all answers, each framed with K - 1 words of padding; answer n begins at `offsets[n]`.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

try:
    from numba import njit
except ImportError as error:
    raise ImportError(f'{error}: compiled loops need numba. Install it: pip install "ap-ranker[fast]"') from error

logging.getLogger("numba").setLevel(logging.WARNING)  # at DEBUG it logs every step of a compilation

LANES = 4  # tokens of the question at a time, with a variable each in `_maxima`: M is filled up to a multiple

_compiled: Any = njit(
    nogil=True,  # several threads may rank at once
    cache=True,  # compiled once per machine, not once per process
    error_model="numpy",
    fastmath={"reassoc", "contract", "arcp", "nsz"},  # neither NaN nor infinity may be assumed away
)

_BASE = 128  # a number of 15 bits has two digits to this base, each of which fits into int8
_f32 = np.float32
_i32 = np.int32


@_compiled
def framed_words(
    ids: np.ndarray, starts: np.ndarray, lengths: np.ndarray, window: int, vocabulary: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(W,) ids of the different words, padding first; index; offsets. Answer n's `ids` begin at `starts[n]`."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    offsets[1:] = np.cumsum(lengths + (window - 1))
    index = np.zeros(offsets[-1], np.int32)
    row = np.full(vocabulary, -1, np.int32)
    words = np.zeros(min(vocabulary, len(index) + 1), np.int64)
    row[0], n_words = 0, 1
    for n in range(len(starts)):
        first = offsets[n] + (window - 1) // 2
        for t in range(lengths[n]):
            word = ids[starts[n] + t]
            if row[word] < 0:
                row[word], words[n_words] = n_words, word
                n_words += 1
            index[first + t] = row[word]
    return words[:n_words], index, offsets


def token_rows(starts: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Index and offsets of answers whose tokens have a row each, from `starts[n]` on; the window is 1."""
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return (np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)).astype(np.int32), offsets


@_compiled
def attention(
    products: np.ndarray, bias: np.ndarray, index: np.ndarray, offsets: np.ndarray, sharpness: float
) -> tuple[np.ndarray, np.ndarray]:
    """(W, K, M') products -> σ_a like `index`, where the K - 1 numbers after an answer's mean nothing; (N, M') σ_q.

    M' is a multiple of `LANES`; the bias (M',) is -inf beyond M.
    """
    window, size = products.shape[1:]
    answers = np.full(len(index), -np.inf, np.float32)
    questions = np.empty((len(offsets) - 1, size), np.float32)
    for n in range(len(questions)):
        length = offsets[n + 1] - offsets[n] - window + 1
        g_a = answers[offsets[n] : offsets[n] + length]
        for m in range(0, size, LANES):
            _maxima(products[:, :, m:], bias[m:], index[offsets[n] :], g_a, questions[n, m:])
        _softmax_of_tanh(g_a, sharpness)
        _softmax_of_tanh(questions[n], sharpness)
    return answers, questions


@_compiled
def _maxima(products: np.ndarray, bias: np.ndarray, index: np.ndarray, g_a: np.ndarray, g_q: np.ndarray) -> None:
    """Raise g_a (L,) to the largest of `LANES` rows of G, and set g_q to the largest of each row."""
    # Four variables instead of an array: only these does the compiler keep in one register.
    most0 = most1 = most2 = most3 = _f32(-np.inf)
    for t in range(len(g_a)):
        g0 = bias[0]
        g1 = bias[1]
        g2 = bias[2]
        g3 = bias[3]
        for k in range(products.shape[1]):
            word = index[t + k]
            g0 += products[word, k, 0]
            g1 += products[word, k, 1]
            g2 += products[word, k, 2]
            g3 += products[word, k, 3]
        most0 = max(most0, g0)
        most1 = max(most1, g1)
        most2 = max(most2, g2)
        most3 = max(most3, g3)
        g_a[t] = max(g_a[t], g0, g1, g2, g3)
    g_q[0], g_q[1], g_q[2], g_q[3] = most0, most1, most2, most3


@_compiled
def _softmax_of_tanh(x: np.ndarray, sharpness: float) -> None:
    """In place; -inf has no weight."""
    hidden = x == -np.inf
    for i in range(len(x)):
        x[i] = min(max(_f32(2) * x[i], _f32(-40)), _f32(40))  # tanh is ±1 beyond, and its exponential finite
    _exp(x)
    most = -sharpness
    for i in range(len(x)):
        x[i] = sharpness * (_f32(1) - _f32(2) / (x[i] + _f32(1)))
        most = max(most, x[i])
    for i in range(len(x)):
        x[i] -= most
    _exp(x)
    total = _f32(0)
    for i in range(len(x)):
        x[i] = _f32(0) if hidden[i] else x[i]
        total += x[i]
    for i in range(len(x)):
        x[i] /= total


@_compiled
def _exp(x: np.ndarray) -> None:
    """e^x in place, x up to 88, to the last digit or two of float32, in arithmetic that a compiler vectorises.

    x = n ln 2 + r, so e^x = 2^n e^r by Cephes' polynomial (`expf`); ln 2 has two parts, as r is a small difference.
    """
    exponents = np.empty(len(x), np.int32)
    for i in range(len(x)):
        limited = max(x[i], _f32(-87))
        n = np.floor(limited * _f32(1.44269504) + _f32(0.5))
        r = limited - n * _f32(0.693359375) + n * _f32(2.12194440e-4)
        p = _f32(1.9875691500e-4) * r + _f32(1.3981999507e-3)
        p = p * r + _f32(8.3334519073e-3)
        p = p * r + _f32(4.1665795894e-2)
        p = p * r + _f32(1.6666665459e-1)
        p = p * r + _f32(5.0000001201e-1)
        x[i] = p * r * r + r + _f32(1)
        exponents[i] = (_i32(n) + _i32(127)) << _i32(23)
    powers = exponents.view(np.float32)  # 2^n: float32 has its exponent in these bits
    for i in range(len(x)):
        x[i] *= powers[i]


@_compiled
def weighted_sums(
    rows: np.ndarray, weights: np.ndarray, index: np.ndarray, offsets: np.ndarray, window: int
) -> np.ndarray:
    """(N, K, D) sums of each answer's rows (W, D), float32 or int8, by σ_a; the k-th of the words k places on."""
    sums = np.zeros((len(offsets) - 1, window, rows.shape[1]), np.float32)
    for n in range(len(sums)):
        end = offsets[n + 1] - window + 1
        fours = end - (end - offsets[n]) % 4
        for t in range(offsets[n], fours, 4):  # the sums so far are read and written once for four words
            w0 = weights[t]
            w1 = weights[t + 1]
            w2 = weights[t + 2]
            w3 = weights[t + 3]
            for k in range(window):
                total = sums[n, k]
                row0 = rows[index[t + k]]
                row1 = rows[index[t + k + 1]]
                row2 = rows[index[t + k + 2]]
                row3 = rows[index[t + k + 3]]
                for c in range(len(total)):
                    total[c] += w0 * _f32(row0[c]) + w1 * _f32(row1[c]) + w2 * _f32(row2[c]) + w3 * _f32(row3[c])
        for t in range(fours, end):
            for k in range(window):
                total = sums[n, k]
                row = rows[index[t + k]]
                for c in range(len(total)):
                    total[c] += weights[t] * _f32(row[c])
    return sums


@_compiled
def two_digits(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(M, C) rows as whole numbers of 15 bits times their rows' scales: (2M', C) high, low digits; (M',) scales."""
    size = -(-len(rows) // LANES) * LANES
    digits = np.zeros((2 * size, rows.shape[1]), np.int8)
    scales = np.zeros(size, np.float32)
    for m in range(len(rows)):
        scales[m] = max(np.abs(rows[m]).max() / _f32(127 * _BASE), _f32(1e-30))
        for c in range(rows.shape[1]):
            whole = np.rint(rows[m, c] / scales[m])
            high = np.rint(whole / _f32(_BASE))
            digits[m, c] = _i32(high)
            digits[size + m, c] = _i32(whole - high * _f32(_BASE))
    return digits, scales


@_compiled
def joined_digits(digits: np.ndarray, scales: np.ndarray, token_scales: np.ndarray) -> np.ndarray:
    """(R, 2M') int32 products with `two_digits`, scales of rows and of tokens -> (R, 1, M') products with the rows."""
    size = len(scales)
    products = np.empty((len(digits), 1, size), np.float32)
    for t in range(len(digits)):
        for m in range(size):
            joined = _f32(digits[t, m]) * _f32(_BASE) + _f32(digits[t, size + m])
            products[t, 0, m] = joined * scales[m] * token_scales[t]
    return products


@_compiled
def cosines(Q: np.ndarray, sigma_q: np.ndarray, r_a: np.ndarray) -> np.ndarray:
    """(N,) cosines of r_q = σ_q^T Q and r_a: (M, C), (N, M'), (N, C)."""
    scores = np.empty(len(r_a), np.float32)
    r_q = np.empty(Q.shape[1], np.float32)
    for n in range(len(r_a)):
        r_q[:] = 0
        for m in range(len(Q)):
            for c in range(len(r_q)):
                r_q[c] += sigma_q[n, m] * Q[m, c]
        dot = q_squared = a_squared = _f32(0)
        for c in range(len(r_q)):
            dot += r_q[c] * r_a[n, c]
            q_squared += r_q[c] * r_q[c]
            a_squared += r_a[n, c] * r_a[n, c]
        scores[n] = dot / max(np.sqrt(q_squared) * np.sqrt(a_squared), _f32(1e-12))
    return scores
