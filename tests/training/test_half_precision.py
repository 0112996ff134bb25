"""Training as on a GPU, where products are bfloat16 or float16; a CPU has the same types."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from conftest import make_model
from naive import CASES
from naive.case import Case
from torch import Tensor, nn

from ap_ranker.models.anmm import ANMM, BINS
from ap_ranker.models.base import AnswerModel, States
from ap_ranker.models.baselines import MetzlerBendersky
from ap_ranker.models.hd_lstm import correlate
from ap_ranker.models.layers import BiLSTM
from ap_ranker.models.mcan import Highway
from ap_ranker.models.registry import MODELS
from ap_ranker.text.tokenizer import TokenBatch
from ap_ranker.training.objectives import IGNORE, OBJECTIVES, ScoredBatch, objective_spec
from ap_ranker.training.trainer import Scorer

WORDS = ["[PAD]", "[UNK]", "parcel", "refund", "the", "a", "bike", "where", "my", "is", "open", "link", "helmet"]
QUESTIONS = TokenBatch.from_lists([[3, 5, 2, 9], [7], [4, 4, 8, 1, 6, 2]])
ANSWERS = TokenBatch.from_lists([[2, 3, 11, 5, 9, 12, 4], [6, 1], [10], [5, 2, 3, 9, 9], [8, 7, 6, 5, 4, 3, 2, 1, 11]])
TARGET = torch.tensor([4, 0, 2])

TRAINED = [case for case in CASES if OBJECTIVES[MODELS[case.name].objective].needs_gradient]


@dataclass(frozen=True)
class Step:
    """The result of a training step before its update."""

    scores: Tensor
    loss: float
    gradients: dict[str, Tensor]


def training_step(case: Case, dtype: torch.dtype | None) -> Step:
    """A step of the model with its default objective; `dtype` is autocast's, `None` for none."""
    model = make_model(case.name, WORDS, case.options).train()
    objective = objective_spec(MODELS[case.name].objective)
    assert objective.loss is not None
    classes = case.options.get("classes", 2)
    labels = torch.zeros(3, 5, dtype=torch.long).scatter(1, TARGET.unsqueeze(1), classes - 1)
    labels[0, 1] = IGNORE
    with torch.autocast("cpu", dtype or torch.bfloat16, enabled=dtype is not None):
        scores = Scorer(model)(
            QUESTIONS.ids,
            QUESTIONS.mask,
            torch.arange(3),
            ANSWERS.ids,
            ANSWERS.mask,
            mask=labels != IGNORE,
            classes=classes if objective.classes else 2,
        ).float()  # as accelerate gives them to the loss
        loss = objective.loss(ScoredBatch(scores, labels, TARGET, 0.2, model.temperature, classes))
    loss.backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return Step(scores.detach(), loss.item(), gradients)


@pytest.mark.parametrize("dtype", [pytest.param(torch.float16, marks=pytest.mark.slow), torch.bfloat16])
@pytest.mark.parametrize("case", TRAINED, ids=str)
def test_a_step_in_half_precision_is_that_of_float32_up_to_rounding(case: Case, dtype: torch.dtype) -> None:
    if MODELS[case.name].pretrained and dtype == torch.float16:
        pytest.skip("a CPU computes a layer norm in float16, a GPU in float32")
    exact, rounded = training_step(case, None), training_step(case, dtype)
    assert torch.allclose(rounded.scores, exact.scores, rtol=0.02, atol=0.02)
    assert rounded.loss == pytest.approx(exact.loss, rel=0.02)
    assert rounded.gradients.keys() == exact.gradients.keys()
    for name, gradient in rounded.gradients.items():
        assert gradient.isfinite().all(), name


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_recurrent_states_stay_in_float32(dtype: torch.dtype) -> None:
    """A GPU would read in float16 even where products are bfloat16, and lose gradients below 6e-8."""
    torch.manual_seed(0)
    lstm, states, mask = BiLSTM(4, 3), torch.randn(2, 5, 4), torch.ones(2, 5, dtype=torch.bool)
    expected = lstm(states, mask)
    with torch.autocast("cpu", dtype):
        assert torch.equal(lstm(states, mask), expected)
        assert lstm(states.to(dtype), mask).dtype == torch.float32


def test_a_highway_of_other_states() -> None:
    """Of float16, while products are bfloat16."""
    torch.manual_seed(0)
    highway, x = Highway(6), torch.randn(4, 6)
    expected = highway(x)
    with torch.autocast("cpu", torch.bfloat16):
        found = highway(x.half())
    assert torch.allclose(found.float(), expected, atol=0.03)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_circular_correlation_of_half_precision(dtype: torch.dtype) -> None:
    """Of a length that is no power of two, for which no library transforms half precision."""
    torch.manual_seed(0)
    q, a = torch.randn(2, 3, 7).to(dtype)
    naive = [
        [sum(float(x[i]) * float(y[(k + i) % 7]) for i in range(7)) for k in range(7)]
        for x, y in zip(q, a, strict=True)
    ]
    assert torch.allclose(correlate(q, a).double(), torch.tensor(naive, dtype=torch.double), atol=1e-5)


def test_exact_matches_stay_exact() -> None:
    """Each word meets itself in the last bin: bfloat16 rounds the cosine of one in six to less than 1."""
    model = make_model("anmm-1", [str(i) for i in range(500)])
    assert isinstance(model, ANMM)
    weights = model.network[0]
    assert isinstance(weights, nn.Linear)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        weights.weight.copy_(torch.eye(BINS)[-1:] * 8)
        words = TokenBatch.from_lists([[word] for word in range(1, 500)])
        scores = model(words, words).diagonal().float()
    assert torch.allclose(scores, torch.tensor(8.0).sigmoid().expand(499), atol=0.01)


class _OnAnotherDevice(Tensor):
    """Numbers that numpy cannot see before `cpu`, like a GPU's."""

    def numpy(self, **_: object) -> np.ndarray:  # type: ignore[override]
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first.")

    def cpu(self, *_: object) -> Tensor:  # type: ignore[override]
        return self.as_subclass(Tensor)


def test_fitting_reads_labels_from_the_models_device() -> None:
    model = make_model("metzler-bendersky", WORDS)
    assert isinstance(model, MetzlerBendersky)
    questions = model.encode_questions(QUESTIONS)
    answers = model.encode_answers(ANSWERS)
    labels = torch.arange(5) == TARGET.unsqueeze(1)
    model.fit((questions[[i]], answers, labels[i].as_subclass(_OnAnotherDevice)) for i in range(3))
    found = model.weights.clone()
    again: AnswerModel = make_model("metzler-bendersky", WORDS)
    again.fit((questions[[i]], answers, labels[i]) for i in range(3))
    assert torch.equal(found, dict(again.named_parameters())["weights"])
    assert isinstance(answers, States)
