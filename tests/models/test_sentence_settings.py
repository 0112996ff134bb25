"""Encoders of each kind, written by sentence-transformers, and read as the library itself does."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import TEXTS
from random_encoders import (
    BERT,
    DISTILBERT,
    GEMMA,
    GEMMA_PROMPTS,
    MIXED,
    MODERNBERT,
    MPNET,
    PROMPTS,
    QWEN,
    XLM_ROBERTA,
    gemma,
    library,
    modernbert,
    pooled,
    qwen,
    sentence_pieces,
    word_pieces,
    write,
)
from refusals import refused
from sentence_transformers.base.modules import Dense, Normalize, Router, Transformer
from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
from sentence_transformers.sentence_transformer.modules import Dropout, LayerNorm, Pooling
from torch import nn

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.models import transformer_encoder
from ap_ranker.models.pretrained import read_encoder
from ap_ranker.models.sentence_modules import KEY, SentenceFiles, SentenceSettings
from ap_ranker.models.transformer_encoder import TransformerEncoder
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.text.tokenizer import TokenBatch
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.train import train

LONG = " ".join(TEXTS * 4)
INSTRUCTION = {"query": "Instruct: Find what answers\nQuery:"}
SPACED = {"query": "Instruct: Find what answers\nQuery: "}
EXCLUDED = {"pooling_mode": "mean", "include_prompt": False}

KINDS: dict[str, tuple[Any, ...]] = {
    "bert, mean": (BERT, word_pieces, [pooled("mean")], {}),
    "bert, first token, prompts": (BERT, word_pieces, [pooled("cls")], {"prompts": PROMPTS}),
    "bert, a prompt for questions": (BERT, word_pieces, [pooled("mean")], {"prompts": {"query": "Find an answer: "}}),
    "bert, prompts that are not pooled": (BERT, word_pieces, [Pooling(32, **EXCLUDED)], {"prompts": PROMPTS}),
    "bert, largest": (BERT, word_pieces, [pooled("max")], {}),
    "bert, root of the length": (BERT, word_pieces, [pooled("mean_sqrt_len_tokens"), Dense(32, 16)], {}),
    "bert, a dense layer (LaBSE)": (BERT, word_pieces, [pooled("cls"), Dense(32, 24)], {}),
    "bert, a dropout within": (BERT, word_pieces, [pooled("mean"), Normalize(), Dropout(), Dense(32, 24)], {}),
    "bert, residual": (BERT, word_pieces, [pooled("mean"), Normalize(), Dense(32, 24, use_residual=True)], {}),
    "bert, a dense layer of tokens": (
        BERT,
        word_pieces,
        [Dense(32, 24, activation_function=nn.ReLU(), module_input_name="token_embeddings"), Pooling(24)],
        {"prompts": PROMPTS},
    ),
    "bert, matryoshka": (BERT, word_pieces, [pooled("mean")], {"truncate_dim": 8}),
    "distilbert": (DISTILBERT, word_pieces, [pooled("mean")], {}),
    "mpnet": (MPNET, sentence_pieces, [pooled("mean")], {}),
    "xlm-roberta, prompts": (XLM_ROBERTA, sentence_pieces, [pooled("mean")], {"prompts": PROMPTS}),
    "modernbert, first token": (MODERNBERT, modernbert, [pooled("cls")], {}),
    "modernbert, mean, prompts": (MODERNBERT, modernbert, [pooled("mean")], {"prompts": PROMPTS}),
    "qwen, last token, which stays where a text is cut": (QWEN, qwen, [pooled("lasttoken")], {}),
    "qwen, last token, an instruction": (QWEN, qwen, [pooled("lasttoken")], {"prompts": INSTRUCTION}),
    "qwen, a space after the instruction": (QWEN, qwen, [pooled("lasttoken")], {"prompts": SPACED}),
    "qwen, later tokens count more": (QWEN, qwen, [pooled("weightedmean")], {"prompts": SPACED}),
    "gemma, two dense layers, prompts": (
        GEMMA,
        gemma,
        [
            pooled("mean"),
            *(Dense(*sizes, bias=False, activation_function=nn.Identity()) for sizes in ((32, 64), (64, 32))),
        ],
        {"prompts": GEMMA_PROMPTS},
    ),
    "a router to the same modules": (BERT, word_pieces, [], {"routed": True}),
}


SLOW = {
    "bert, mean",
    "bert, a prompt for questions",
    "bert, a dense layer (LaBSE)",
    "modernbert, first token",
    "qwen, last token, an instruction",
}
"""Whose parts are also those of others."""


@pytest.fixture(params=[pytest.param(kind, marks=pytest.mark.slow if kind in SLOW else ()) for kind in KINDS])
def encoder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    architecture, tokenizer, parts, more = KINDS[request.param]
    if more.get("routed"):
        return write_routed(tmp_path, architecture, tokenizer())
    return write(tmp_path, architecture, tokenizer(), *parts, **more)


def write_routed(folder: Path, architecture: dict[str, Any], tokenizer: Any, *, same: bool = True) -> Path:
    transformer, pooling, _ = library.SentenceTransformer(
        str(write(folder, architecture, tokenizer, pooled("mean"))), device="cpu"
    )
    routes = [[transformer, pooling], [transformer, pooling if same else pooled("cls")]]
    router = Router.for_query_document(*routes)
    library.SentenceTransformer(modules=[router, Normalize()], device="cpu").save_pretrained(str(folder / "routed"))
    return folder / "routed"


def test_untrained_it_equals_the_library(encoder: Path, tmp_path: Path) -> None:
    """Several languages; and a text that is too long, where both prompts leave it as much room."""
    files = SentenceFiles.read(encoder)
    texts = MIXED if files.question_prompt or files.answer_prompt else [*MIXED, LONG]  # in batches of several lengths
    data = Dataset("mixed", [Answer(str(i), text) for i, text in enumerate(texts)], [Question("q", MIXED[0], (1,))])
    config = TrainingConfig("ap-transformer", {"encoder": str(encoder)}, epochs=0, max_tokens=64)
    train(data, data, tmp_path / "c", config, device="cpu")
    ranker = Ranker.from_pretrained(tmp_path / "c", "cpu")
    pooled = ranker.model.pooled_only()
    assert pooled is not None
    theirs = library.SentenceTransformer(str(encoder), device="cpu")
    answers = theirs.encode_document(texts, normalize_embeddings=True)
    for question in MIXED:
        expected = answers @ theirs.encode_query([question], normalize_embeddings=True)[0]
        scores = Ranker(pooled, ranker.tokenizer).score(question, texts)
        np.testing.assert_allclose(scores.numpy(), expected, atol=1e-5)
    assert expected.std() > 1e-3  # so that equal scores say something


def test_the_projection_of_colbert_becomes_the_token_states(tmp_path: Path) -> None:
    """A folder as PyLate writes it: no pooling, and a token of its own before each text."""
    tokenizer = word_pieces()
    tokenizer.add_tokens(["[Q] ", "[D] "])
    projection = Dense(32, 24, bias=False, activation_function=nn.Identity(), module_input_name="token_embeddings")
    folder = write(tmp_path, BERT, tokenizer, projection)
    modules = json.loads((folder / "modules.json").read_text())
    modules[1]["type"] = "pylate.models.Dense.Dense"
    (folder / "modules.json").write_text(json.dumps(modules[:2]))
    config = json.loads((folder / modules[1]["path"] / "config.json").read_text())
    del config["module_input_name"]
    (folder / modules[1]["path"] / "config.json").write_text(json.dumps(config))
    names = {"query_prefix": "[Q] ", "document_prefix": "[D] ", "prompts": {}}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(names))
    encoder_folder, ours, inputs = read_encoder(str(folder), 60)
    assert inputs.encoder is not None
    encoder = TransformerEncoder(inputs.encoder, 0.0, frozen=True).eval()
    encoder.load_pretrained(encoder_folder)
    with torch.inference_mode():
        hidden, mask, _ = encoder(TokenBatch.from_lists(ours.encode(MIXED)[0]), encoder.settings.answer_prompt)
    theirs = library.MultiVectorEncoder(
        modules=[
            *library.SentenceTransformer(
                modules=[
                    Transformer(str(tmp_path / "plain"), max_seq_length=60),
                    projection,
                    Normalize("token_embeddings"),
                    MultiVectorMask(),
                ]
            )
        ],
        device="cpu",
    )
    expected = theirs.encode([f"[D] {text}" for text in MIXED])
    for states, present, vectors in zip(hidden, mask, expected, strict=True):
        found = nn.functional.normalize(states[present], dim=1)
        np.testing.assert_allclose(found, np.delete(np.asarray(vectors), 1, axis=0), atol=1e-5)  # without that of [D]


def test_prompts_by_name_or_by_hand(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    plain = write(tmp_path, BERT, word_pieces(), pooled("mean"))
    known = plain.rename(tmp_path / "multilingual-e5-small")
    ids = partial(word_pieces().encode, add_special_tokens=False)
    found = read_encoder(str(known), 60)[2].encoder
    assert found is not None
    assert found[KEY]["question_prompt"] == ids("query: ")
    assert found[KEY]["answer_prompt"] == ids("passage: ")
    assert "passage: " in caplog.text
    found = read_encoder(str(known), 60, question_prompt="find: ")[2].encoder
    assert found is not None
    assert found[KEY]["question_prompt"] == ids("find: ")
    assert "answer_prompt" not in found[KEY]


def test_modules_of_its_own_are_refused(tmp_path: Path) -> None:
    (tmp_path / "modules.json").write_text('[{"type": "custom_st.Pooling", "path": ""}]')
    with refused("Transformer … custom_st.Pooling"):
        SentenceFiles.read(tmp_path)


def test_a_router_with_two_ways_is_refused(tmp_path: Path) -> None:
    with refused("routed … Router"):
        SentenceFiles.read(write_routed(tmp_path, BERT, word_pieces(), same=False))


def test_a_large_vocabulary_does_not_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transformer_encoder, "LARGE_VOCABULARY", 100)
    for size, learns in ((100, True), (101, False)):
        encoder = TransformerEncoder(BERT | {"vocab_size": size}, 0.0, frozen=False)
        learnt = {name for name, value in encoder.backbone.named_parameters() if value.requires_grad}
        assert ("embeddings.word_embeddings.weight" in learnt) is learns
        assert "embeddings.position_embeddings.weight" in learnt


def test_each_subword_of_a_text_has_a_weight_and_a_prompt_has_none(tmp_path: Path) -> None:
    with_prompt = write(tmp_path, BERT, word_pieces(), pooled("mean"), prompts=PROMPTS)
    data = Dataset("d", [Answer(str(i), text) for i, text in enumerate(TEXTS)], [Question("q", TEXTS[0], (1,))])
    config = TrainingConfig("ap-transformer", {"encoder": str(with_prompt)}, epochs=0, max_tokens=64)
    train(data, data, tmp_path / "c", config, device="cpu")
    ranker = Ranker.from_pretrained(tmp_path / "c", "cpu")
    for tokens, text in zip(ranker.attention_weights(TEXTS[0], TEXTS[1]), TEXTS[:2], strict=True):
        assert sum(token.weight for token in tokens) == pytest.approx(1, abs=1e-5)
        assert "".join(token.text for token in tokens).lower() in text.lower().replace(" ", "")
    assert ranker.encode_questions([TEXTS[1]]).mask.sum() == len(ranker.tokenize([TEXTS[1]])[0])


def test_prompts_take_room(tmp_path: Path) -> None:
    encoder = write(tmp_path, BERT, word_pieces(), pooled("mean"), prompts=PROMPTS)
    _, tokenizer, inputs = read_encoder(str(encoder), 64)
    assert inputs.max_tokens == tokenizer.max_tokens == 60 - len(word_pieces().tokenize("passage:"))
    assert inputs.encoder is not None
    ids = word_pieces().convert_tokens_to_ids
    assert inputs.encoder[KEY] == {
        "question_prompt": ids(["query", ":"]),
        "answer_prompt": ids(["passage", ":"]),
        "leading": 1,
    }


def test_a_prompt_for_passages_is_that_of_documents(tmp_path: Path) -> None:
    """Only where there is none for documents, as in the library."""
    config = tmp_path / "config_sentence_transformers.json"
    config.write_text('{"prompts": {"passage": "passage: ", "query": null}}')
    assert SentenceFiles.read(tmp_path).answer_prompt == "passage: "
    config.write_text('{"prompts": {"passage": "passage: ", "document": ""}}')
    assert SentenceFiles.read(tmp_path).answer_prompt == ""


def test_without_the_librarys_files_states_are_averaged(tmp_path: Path) -> None:
    assert SentenceFiles.read(tmp_path) == SentenceFiles(tmp_path)
    assert SentenceSettings().config() == {}


@pytest.mark.parametrize(
    ("part", "facts"),
    [
        (LayerNorm(32), "Transformer, Pooling, Dense, Normalize … LayerNorm"),
        (pooled("cls", "mean"), "mean … cls … cls … mean"),
        (Dense(32, 24, module_input_name="token_embeddings"), "Dense of token_embeddings"),
        (Dense(32, 24, module_output_name="other"), "Dense of sentence_embedding"),
        (Normalize("sentence_embedding", "other"), "Normalize of sentence_embedding"),
    ],
)
def test_encoders_that_cannot_be_read(part: Any, facts: str, tmp_path: Path) -> None:
    encoder = write(tmp_path, BERT, word_pieces(), pooled("mean"))
    transformer, pooling, _ = library.SentenceTransformer(str(encoder), device="cpu")
    parts = [transformer, part] if isinstance(part, Pooling) else [transformer, pooling, part]
    library.SentenceTransformer(modules=parts, device="cpu").save_pretrained(str(tmp_path / "other"))
    with refused(f"other … {facts}"):
        SentenceFiles.read(tmp_path / "other")


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("modules.json", "{"),
        ("modules.json", "[1]"),
        ("modules.json", '[{"type": "a.Pooling"}]'),
        ("config_sentence_transformers.json", "[]"),
        ("config_sentence_transformers.json", '{"prompts": 1}'),
        ("sentence_bert_config.json", '{"max_seq_length": "long"}'),
    ],
)
def test_damaged_files(file: str, content: str, tmp_path: Path) -> None:
    (tmp_path / file).write_text(content)
    with refused(f"{tmp_path}"):
        SentenceFiles.read(tmp_path)


@pytest.mark.parametrize(
    "stored",
    [
        1,
        {"pooling": "median"},
        {"pooling": ["mean"]},
        {"leading": -1},
        {"leading": True},
        {"question_prompt": 3},
        {"question_prompt": [64]},
        {"answer_prompt": ["a"]},
    ],
)
def test_damaged_settings_of_a_checkpoint(stored: Any) -> None:
    with refused("encoder.sentence"):
        SentenceSettings.of({"vocab_size": 64, KEY: json.loads(json.dumps(stored))})
