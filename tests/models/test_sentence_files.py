"""What an encoder's files say beside its modules: as in sentence-transformers, or refused in a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from random_encoders import (
    BERT,
    GEMMA,
    MIXED,
    PROMPTS,
    XLM_ROBERTA,
    gemma,
    library,
    pooled,
    sentence_pieces,
    word_pieces,
    write,
)
from refusals import refused
from sentence_transformers.base.modules import Normalize
from transformers import AutoTokenizer

from ap_ranker.models.pretrained import read_encoder
from ap_ranker.models.sentence_modules import SentenceFiles
from ap_ranker.models.transformer_encoder import TransformerEncoder
from ap_ranker.text.tokenizer import TokenBatch


def edit(path: Path, **changes: Any) -> None:
    """Change what a file of JSON says; `None` removes it."""
    settings = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps({k: v for k, v in (settings | changes).items() if v is not None}))


CAPITALS = [*MIXED, "Where IS my Parcel NASA?", "ÀÉ naïve CAFÉ Straße", "a [MASK] <image_soft_token> b"]

STATED: dict[str, tuple[Any, ...]] = {
    "lower case": (XLM_ROBERTA, sentence_pieces, "sentence_bert_config.json", {"do_lower_case": True}),
    "lower case, BERT": (BERT, word_pieces, "sentence_bert_config.json", {"do_lower_case": True}),
    "by an older name": (BERT, word_pieces, "sentence_roberta_config.json", {"max_seq_length": 6}),
    "capitals": (BERT, word_pieces, "tokenizer_config.json", {"do_lower_case": False}),
    "accents": (BERT, word_pieces, "tokenizer_config.json", {"strip_accents": False}),
    "chinese": (BERT, word_pieces, "tokenizer_config.json", {"tokenize_chinese_chars": False}),
    "the first token": (BERT, word_pieces, "tokenizer_config.json", {"cls_token": "the"}),
    "how it computes": (
        BERT,
        word_pieces,
        "sentence_bert_config.json",
        {"model_args": {"dtype": "float32"}},
    ),
}


def vectors(folder: Path, texts: list[str]) -> np.ndarray:
    """(N, C): what `folder`'s encoder makes of questions."""
    place, tokenizer, inputs = read_encoder(str(folder), 60)
    encoder = TransformerEncoder(inputs.encoder or {}, 0.0, frozen=True).eval()
    encoder.load_pretrained(place)
    with torch.inference_mode():
        batch = TokenBatch.from_lists(tokenizer.encode(texts, questions=True)[0])
        return np.asarray(encoder(batch, encoder.settings.question_prompt)[2])


@pytest.mark.parametrize("kind", STATED)
def test_what_the_files_say_counts_as_in_the_library(kind: str, tmp_path: Path) -> None:
    architecture, tokenizer, file, changes = STATED[kind]
    folder = write(tmp_path, architecture, tokenizer(), pooled("mean"), prompts=PROMPTS)
    if "roberta" in file:
        (folder / "sentence_bert_config.json").unlink()
    edit(folder / file, **changes)
    theirs = library.SentenceTransformer(str(folder), device="cpu").encode_query(CAPITALS, normalize_embeddings=True)
    np.testing.assert_allclose(vectors(folder, CAPITALS), theirs, atol=1e-5)


def test_a_token_without_a_vector_is_read_as_other_text(tmp_path: Path) -> None:
    """As Gemma's of an image, beyond the vectors of EmbeddingGemma."""
    folder = write(tmp_path, GEMMA, gemma(), pooled("mean"))
    expected = vectors(folder, CAPITALS)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(["<image_soft_token>"], special_tokens=True)
    tokenizer.save_pretrained(folder)
    np.testing.assert_array_equal(vectors(folder, CAPITALS), expected)


@pytest.mark.parametrize(
    ("file", "changes", "facts"),
    [
        ("adapter_config.json", {"peft_type": "LORA"}, "adapter_config.json … merge_and_unload"),
        ("tokenizer_config.json", {"truncation_side": "left"}, "cut at their end … left"),
        ("sentence_bert_config.json", {"transformer_task": "fill-mask"}, "max_seq_length … transformer_task"),
        ("sentence_bert_config.json", {"tokenizer_args": {"model_max_length": 5}}, "tokenizer_args … remove"),
        ("sentence_bert_config.json", {"config_args": {"num_hidden_layers": 1}}, "config_args"),
        ("sentence_bert_config.json", {"processing_kwargs": {"text": {"max_length": 4}}}, "processing_kwargs"),
        ("sentence_bert_config.json", {"query_length": 4}, "query_length"),
    ],
)
def test_what_the_files_say_and_nobody_reads_is_refused(
    file: str, changes: dict[str, Any], facts: str, tmp_path: Path
) -> None:
    folder = write(tmp_path, BERT, word_pieces(), pooled("mean"))
    edit(folder / file, **changes)
    with refused(f"encoder … {facts}"):
        read_encoder(str(folder), 60)


def test_vectors_that_are_compared_by_their_length_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = write(tmp_path, BERT, word_pieces(), pooled("mean"))
    edit(folder / "config_sentence_transformers.json", similarity_fn_name="dot")
    read_encoder(str(folder), 60)
    assert "cosine" not in caplog.text  # they have length 1
    modules = json.loads((folder / "modules.json").read_text())
    (folder / "modules.json").write_text(json.dumps(modules[:2]))
    read_encoder(str(folder), 60)
    assert "by dot" in caplog.text


def test_token_states_of_length_1_are_refused(tmp_path: Path) -> None:
    folder = write(tmp_path, BERT, word_pieces(), Normalize("token_embeddings"), pooled("mean"))
    with refused("encoder … one after another … Pooling"):
        SentenceFiles.read(folder)
