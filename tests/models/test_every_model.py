"""What holds for every registered model; a new model is tested here without a new test.

Its naive score, number by number from the paper, stands in `tests/naive`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from conftest import TEXTS, make_model, write_checkpoint
from naive import CASES
from naive.case import Case
from torch import Tensor

from ap_ranker.models.base import AnswerModel, States, log_odds
from ap_ranker.models.registry import MODELS
from ap_ranker.ranking.cache import EncodingCache
from ap_ranker.ranking.checkpoint import load_checkpoint, save_checkpoint
from ap_ranker.ranking.quantization import QuantizedStates, StateDtype
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.text.tokenizer import PAD, TokenBatch
from ap_ranker.training.objectives import NEGATIVE, OBJECTIVES, POSITIVE, Loss, ScoredBatch, hinge, softmax

WORDS = ["[PAD]", "[UNK]", "parcel", "refund", "the", "a", "bike", "where", "my", "is", "open", "link", "helmet"]
# Unknown words (1), repeated ones, shared ones, single ones.
QUESTIONS = [[3, 5, 2, 9], [7], [4, 4, 8, 1, 6, 2]]
ANSWERS = [[2, 3, 11, 5, 9, 12, 4], [6, 1], [10], [5, 2, 3, 9, 9], [8, 7, 6, 5, 4, 3, 2, 1, 11, 12]]


def test_every_model_has_a_naive_case() -> None:
    assert {case.name for case in CASES} == set(MODELS)


@pytest.fixture(params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


@pytest.fixture
def model(case: Case) -> AnswerModel:
    return make_model(case.name, WORDS, case.options).double()


def scores(model: AnswerModel, questions: list[list[int]], answers: list[list[int]]) -> Tensor:
    with torch.no_grad():
        return model(TokenBatch.from_lists(questions), TokenBatch.from_lists(answers))


def test_score_is_the_papers(case: Case, model: AnswerModel) -> None:
    """Ragged, padded, of one token, of unknown words alone, and empty, which is read as one unknown word."""
    questions, answers = [*QUESTIONS, [1]], [*ANSWERS, [1], [1, 1]]
    naive = [[case.score(model, q, a) for a in answers] for q in questions]
    assert torch.allclose(scores(model, questions, answers), torch.tensor(naive, dtype=torch.double), rtol=0, atol=1e-9)


def test_what_learns_learns_at_one_rate(case: Case, model: AnswerModel) -> None:
    """Each parameter once, frozen word vectors not at all; only a pretrained encoder has rates of its own."""
    if model.embedding is not None:
        model.embedding.requires_grad_(False)
    groups = model.parameter_groups(0.5, 0.25)
    learnt = [parameter for group in groups for parameter in group["params"]]
    assert len(learnt) == len(set(learnt))
    assert set(learnt) == {parameter for parameter in model.parameters() if parameter.requires_grad}
    assert [group["lr"] for group in groups] == ([0.5, 10.0, 0.25] if MODELS[case.name].pretrained else [0.5])


def test_attention_is_the_papers(case: Case, model: AnswerModel) -> None:
    """Of each pair in a padded batch; the registry says whose words are weighed, and nothing else is."""
    with torch.no_grad():
        found = model.attention_weights(TokenBatch.from_lists(QUESTIONS), TokenBatch.from_lists(ANSWERS))
    attention_over = MODELS[case.name].attention_over
    if case.attention is None:
        assert (found, attention_over) == (None, "")
        return
    assert found is not None
    sides = (("question", found.questions, QUESTIONS), ("answer", found.answers, ANSWERS))
    for place, (side, weights, texts) in enumerate(sides):
        assert (weights is not None) == (attention_over in (side, "both"))
        if weights is None:
            assert case.attention(model, QUESTIONS[0], ANSWERS[0])[place] is None
            continue
        assert weights.shape == (len(QUESTIONS), len(ANSWERS), max(map(len, texts)))
        for row, question in enumerate(QUESTIONS):
            for column, answer in enumerate(ANSWERS):
                naive = case.attention(model, question, answer)[place]
                assert naive is not None
                shown, padding = weights[row, column].split([len(naive), weights.shape[2] - len(naive)])
                assert not padding.any()
                words = answer if place else question
                if case.options.get("clip") != "k-max":
                    assert shown.tolist() == pytest.approx(naive, rel=0, abs=1e-9)
                for word in set(words):  # of two equal words `k-max` may keep either
                    places = [i for i, other in enumerate(words) if other == word]
                    assert shown[places].sum().item() == pytest.approx(sum(naive[i] for i in places), rel=0, abs=1e-9)
                assert sum(naive) == pytest.approx(1) or (sum(naive) == 0 and case.options["clip"] == "k-threshold")


def test_padding_changes_nothing(model: AnswerModel) -> None:
    together = scores(model, QUESTIONS, ANSWERS)
    alone = torch.tensor([[scores(model, [q], [a]).item() for a in ANSWERS] for q in QUESTIONS], dtype=torch.double)
    assert torch.allclose(together, alone, rtol=0, atol=1e-12)


def test_order_of_candidates_changes_nothing(model: AnswerModel) -> None:
    order = [3, 0, 4, 2, 1]
    shuffled = scores(model, QUESTIONS, [ANSWERS[i] for i in order])
    assert torch.allclose(shuffled, scores(model, QUESTIONS, ANSWERS)[:, order], rtol=0, atol=1e-12)


def test_encoded_once_matched_later(model: AnswerModel) -> None:
    """Answers encoded in other company, split, stored and joined again score as in one shot."""
    with torch.no_grad():
        parts = [
            part
            for start in (0, 2, 4)
            for part in model.encode_answers(TokenBatch.from_lists(ANSWERS[start : start + 2])).split()
        ]
        questions = model.encode_questions(TokenBatch.from_lists(QUESTIONS))
        later = model.match(questions, States.stack(parts))
    assert torch.allclose(later, scores(model, QUESTIONS, ANSWERS), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("dtype", "share"), [(StateDtype.float16, 0.005), (StateDtype.int8, 0.05)])
def test_stored_in_fewer_bits(case: Case, dtype: StateDtype, share: float) -> None:
    """No score changes by more than a small share of their spread; not where a word meets itself, either."""
    model = make_model(case.name, WORDS, case.options)
    if not model.supports_quantization:
        pytest.skip("it is stored in float32 always")
    with torch.inference_mode():
        questions = model.encode_questions(TokenBatch.from_lists(QUESTIONS))
        answers = model.encode_answers(TokenBatch.from_lists(ANSWERS))
        exact = model.match(questions, answers)
        found = model.match(questions, QuantizedStates.quantize(answers, dtype).dequantize(torch.device("cpu")))
    assert (found - exact).abs().max() <= share * exact.std()


def test_some_pairs_score_as_all_do(model: AnswerModel) -> None:
    rows, columns = torch.tensor([2, 0, 1, 0, 2]), torch.tensor([4, 1, 1, 0, 3])
    with torch.no_grad():
        questions = model.encode_questions(TokenBatch.from_lists(QUESTIONS))
        answers = model.encode_answers(TokenBatch.from_lists(ANSWERS))
        some = model.match_pairs(questions, answers, rows, columns)
    assert torch.allclose(some, scores(model, QUESTIONS, ANSWERS)[rows, columns], rtol=0, atol=1e-12)


def test_training_scores_are_the_scores_of_the_wanted_pairs(case: Case, model: AnswerModel) -> None:
    wanted = torch.tensor([[1, 0, 1, 0, 0], [0, 0, 0, 0, 1], [1, 1, 1, 0, 0]], dtype=torch.bool)
    with torch.no_grad():
        questions = model.encode_questions(TokenBatch.from_lists(QUESTIONS))
        answers = model.encode_answers(TokenBatch.from_lists(ANSWERS))
        found = model.training_scores(questions, answers, wanted, case.options.get("classes", 2))[wanted]
    if case.options.get("classes", 2) > 2:
        found = log_odds(found)
    assert torch.allclose(found, scores(model, QUESTIONS, ANSWERS)[wanted], rtol=0, atol=1e-12)


def test_states_are_named_and_masked(model: AnswerModel) -> None:
    """As `States` says: a mask whatever else there is, zero on padding, names that a file can have."""
    with torch.no_grad():
        states = model.encode_answers(TokenBatch.from_lists(ANSWERS))
    assert states.mask.dtype == torch.bool
    assert len(states.mask) == len(ANSWERS)
    assert not any("." in name for name in [*states.per_token, *states.per_text])
    for value in states.per_token.values():
        assert value.shape[:2] == states.mask.shape
        assert value.dim() == (3 if value.is_floating_point() else 2)
        assert not value[~states.mask].any()
    assert all(len(value) == len(ANSWERS) and value.dim() == 2 for value in states.per_text.values())


def test_same_scores_every_time(model: AnswerModel) -> None:
    assert torch.equal(scores(model, QUESTIONS, ANSWERS), scores(model, QUESTIONS, ANSWERS))


def test_every_parameter_learns(model: AnswerModel) -> None:
    if not list(model.parameters()):
        pytest.skip("it only counts words")
    loss = model(TokenBatch.from_lists(QUESTIONS), TokenBatch.from_lists(ANSWERS)).square().sum()
    loss.backward()
    learning = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert set(dict(model.named_parameters())) - set(learning) <= {"encoder.adapter.weight"}  # learns if frozen
    for parameter_name, parameter in learning.items():
        assert parameter.grad is not None, parameter_name
        assert torch.isfinite(parameter.grad).all(), parameter_name
        assert parameter.grad.abs().sum() > 0, parameter_name


@torch.no_grad()
def silence(model: AnswerModel) -> None:
    """Make the states of any text zero: as with `copy_words`, of a question of unknown words alone."""
    if model.embedding is not None:
        model.embedding.vectors.weight.zero_()
    for parameter_name, parameter in model.named_parameters():
        if "bias" in parameter_name:
            parameter.zero_()


def test_texts_of_zero_states_have_finite_scores_and_gradients(model: AnswerModel) -> None:
    silence(model)
    found = model(TokenBatch.from_lists(QUESTIONS), TokenBatch.from_lists(ANSWERS))
    assert torch.isfinite(found).all()
    if found.requires_grad:
        found.sum().backward()
        for parameter_name, parameter in model.named_parameters():
            assert parameter.grad is None or torch.isfinite(parameter.grad).all(), parameter_name


def test_gradients_are_the_slopes_of_the_scores(model: AnswerModel) -> None:
    """Along a random direction through all parameters, against two evaluations nearby; padding included."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        pytest.skip("it only counts words")

    def weighted() -> Tensor:
        found = model(TokenBatch.from_lists(QUESTIONS), TokenBatch.from_lists(ANSWERS))
        return (found * torch.linspace(-1, 2, found.numel(), dtype=found.dtype).view_as(found)).sum()

    torch.manual_seed(3)
    directions = [torch.randn_like(parameter) for parameter in parameters]
    if model.embedding is not None:
        for parameter, direction in zip(parameters, directions, strict=True):
            if parameter is model.embedding.vectors.weight:
                direction[PAD] = 0  # no text has it, and it learns nothing
    weighted().backward()
    slope = sum((p.grad * d).sum().item() for p, d in zip(parameters, directions, strict=True) if p.grad is not None)
    step, values = 1e-6, []
    with torch.no_grad():
        for sign in (1, -1):
            torch._foreach_add_(parameters, directions, alpha=sign * step)
            values.append(weighted().item())
            torch._foreach_add_(parameters, directions, alpha=-sign * step)
    assert slope == pytest.approx((values[0] - values[1]) / (2 * step), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("objective", [pytest.param(hinge, marks=pytest.mark.slow), softmax])
def test_learns_a_tiny_set_by_heart(case: Case, model: AnswerModel, objective: Loss) -> None:
    """Three questions with five answers: every question's own answer comes first in the end."""
    if not OBJECTIVES[MODELS[case.name].objective].needs_gradient:
        pytest.skip("an untrained baseline")
    target = torch.tensor([4, 0, 2])
    relevance = torch.full((3, 5), NEGATIVE).scatter(1, target.unsqueeze(1), POSITIVE)
    # A transformer that is normalised after each layer collapses at the others' rate.
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003 if MODELS[case.name].pretrained else 0.02)
    for step in range(100):
        optimizer.zero_grad()
        found = model(TokenBatch.from_lists(QUESTIONS), TokenBatch.from_lists(ANSWERS))
        if step >= 20 and torch.equal(found.argmax(dim=1), target):  # not by luck, before it has learnt anything
            break
        objective(ScoredBatch(found, relevance, target, margin=0.3, temperature=0.3)).backward()
        optimizer.step()
    assert torch.equal(scores(model, QUESTIONS, ANSWERS).argmax(dim=1), target)


def test_scaled_scores_lie_between_0_and_1_in_the_same_order(model: AnswerModel) -> None:
    raw = scores(model, QUESTIONS, ANSWERS).flatten()
    scaled = model.scale(raw)
    assert ((scaled >= 0) & (scaled <= 1)).all()
    assert torch.equal(raw.argsort(), scaled.argsort())


def test_dropout_acts_in_training_only(name: str) -> None:
    if "dropout" not in MODELS[name].options:
        pytest.skip("an untrained baseline")
    model = make_model(name, WORDS, dropout=0.5)
    assert torch.equal(scores(model, QUESTIONS, ANSWERS), scores(model, QUESTIONS, ANSWERS))
    model.train()
    assert not torch.equal(scores(model, QUESTIONS, ANSWERS), scores(model, QUESTIONS, ANSWERS))


# --- the same models as a user meets them: loaded from a checkpoint, fed with texts ---


@pytest.fixture
def ranker(case: Case, tmp_path: Path) -> Ranker:
    return Ranker.from_pretrained(write_checkpoint(case.name, tmp_path / "checkpoint", case.options), "cpu")


def test_a_loaded_checkpoint_scores_as_the_saved_model(case: Case, ranker: Ranker, tmp_path: Path) -> None:
    """Whose encoder's matrices were rounded to half precision when it was saved."""
    saved, as_built = (make_model(case.name, ranker.tokenizer.words, case.options) for _ in range(2))
    assert ranker.config is not None
    save_checkpoint(tmp_path / "saved", ranker.config, saved, ranker.tokenizer, "# card\n")
    _, loaded, _ = load_checkpoint(tmp_path / "saved")
    assert saved.state_dict().keys() == loaded.state_dict().keys()
    tokens = TokenBatch.from_lists(ranker.tokenize(TEXTS))
    with torch.no_grad():
        assert torch.equal(loaded(tokens, tokens), saved(tokens, tokens))
        assert torch.allclose(loaded(tokens, tokens), as_built(tokens, tokens), atol=1e-3)


ODD = ["", " \n", "?", "parcel", "qwertyuiop", "parcel " * 500]
"""Empty, without a word, of one token, unknown, and longer than a checkpoint's limit of 20 tokens."""


def test_odd_texts_have_scores(ranker: Ranker) -> None:
    texts = [*ODD, *TEXTS]
    for place, question in enumerate(ODD):
        scores = ranker.score(question, texts)
        assert torch.isfinite(scores).all()
        for row in (place, place - 1, len(ODD)):  # each odd text beside itself and another, and beside a usual one
            assert torch.allclose(scores[row], ranker.score(question, [texts[row]])[0], rtol=0, atol=1e-5)


def test_copies_among_the_candidates_are_ties(ranker: Ranker) -> None:
    """To the last bit, as they keep the given order."""
    texts = [*TEXTS, *ODD, *TEXTS]
    for question in ("Where is my parcel?", "my my my parcel", "", *TEXTS[2:4]):
        scores = ranker.score(question, texts)
        assert torch.equal(scores[: len(TEXTS)], scores[-len(TEXTS) :])


@pytest.mark.parametrize(
    "dtype", [pytest.param(None, marks=pytest.mark.slow, id="as it is stored"), StateDtype.float32]
)
def test_a_score_is_the_same_in_any_company(ranker: Ranker, dtype: StateDtype | None) -> None:
    """In float32: questions read alone and beside others, answers one by one, in a ragged batch, in another order."""
    words = ranker.tokenizer.words[2:]
    answers = [" ".join(words[(7 * i + 3 * j) % len(words)] for j in range(1 + 5 * i % 19)) for i in range(12)]
    questions = [" ".join(reversed(text.split())) for text in answers[:5]]
    folder = ranker.source
    del ranker  # its last questions

    def all_scores(order: list[int], batch_size: int, *, beside_others: bool) -> Tensor:
        ranker = Ranker.from_pretrained(folder, "cpu", cache=EncodingCache(10**7, dtype))
        if beside_others:
            ranker.encode_ahead(questions)
        texts = [answers[place] for place in order]
        found = torch.stack([ranker.score(question, texts, batch_size=batch_size) for question in questions])
        return found[:, torch.tensor(order).argsort()]

    order = sorted(range(12), key=lambda place: place * 5 % 13)
    alone = all_scores(list(range(12)), 1, beside_others=False)
    assert torch.allclose(all_scores(order, 64, beside_others=True), alone, rtol=0, atol=1e-5)
    assert torch.allclose(all_scores(order, 7, beside_others=True), alone, rtol=0, atol=1e-5)


def test_long_texts_are_cut_and_one_warning_says_so(ranker: Ranker, caplog: pytest.LogCaptureFixture) -> None:
    cut = ranker.score("where is it", ["parcel " * 20, "parcel " * 500])
    assert cut[0] == cut[1]
    ranker.score("parcel " * 30, ["parcel " * 500])
    [warning] = [record.getMessage() for record in caplog.records]
    assert warning.startswith("1 of 2 texts are longer than 20 tokens")
