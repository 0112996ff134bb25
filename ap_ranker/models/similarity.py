"""Similarities of two vectors or two bags of words. Shapes: B questions, N answers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ap_ranker.text.batch import UNKNOWN


def unit(vectors: Tensor) -> Tensor:
    """Vectors (..., C) divided by their length, so that a dot product is a cosine; a zero vector stays zero."""
    return nn.functional.normalize(vectors, dim=-1)


def in_float32(values: Tensor) -> Tensor:
    """Float32 for half precision, in which a GPU trains, and where 1 - 5e-4 is 1; float64 stays float64."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def exact(values: Tensor) -> Tensor:
    """In float64 where a CPU computes without a gradient: its sums, rounded to float32, are the same in any company.

    In float32 the last bit of a product's row depends on the other rows. A bit matters where it is magnified: in an
    answer's 4 bits, where it may turn a step, or near the edge of a hyperbolic ball.
    """
    return values if torch.is_grad_enabled() or values.device.type != "cpu" else values.double()


def gesd(questions: Tensor, answers: Tensor) -> Tensor:
    """1 / (1 + |x - y|) · 1 / (1 + exp(-γ (x·y + c))) with γ = c = 1, between 0 and 1 (Feng et al. 2015, section 3).

    (B, C), (N, C) -> (B, N); leading dimensions, as in (P, 1, C), are aligned pairs.
    """
    distance = torch.cdist(questions, answers, compute_mode="donot_use_mm_for_euclid_dist")
    return torch.sigmoid(questions @ answers.mT + 1) / (1 + distance)


def term_frequency(question_ids: Tensor, answer_ids: Tensor) -> Tensor:
    """How often each question token occurs in each answer, unknown words never: (B, M), (N, L) -> (B, N, M)."""
    same = question_ids[:, None, :, None] == answer_ids[None, :, None, :]
    return (same & (question_ids > UNKNOWN)[:, None, :, None]).sum(dim=3)


def first_occurrence(ids: Tensor) -> Tensor:
    """(N, T) True on the first token of each known word of a text."""
    earlier = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool, device=ids.device).tril(-1)
    repeated = ((ids[:, :, None] == ids[:, None, :]) & earlier).any(dim=2)
    return ~repeated & (ids > UNKNOWN)


def bag_cosine(question_ids: Tensor, answer_ids: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """The cosine of two 0/1 bag-of-words vectors, |shared words| / sqrt(|words of q| · |words of a|), 0 without any.

    (B, M), (N, L) -> (B, N). No vocabulary-sized vector is made.
    """
    first_q, first_a = first_occurrence(question_ids), first_occurrence(answer_ids)
    shared = ((term_frequency(question_ids, answer_ids) > 0) & first_q[:, None, :]).sum(dim=2)
    sizes = first_q.sum(dim=1)[:, None] * first_a.sum(dim=1)[None, :]
    return shared / sizes.clamp(min=1).to(dtype).sqrt()
