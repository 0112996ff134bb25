from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from conftest import exact_ranker, make_model, write_checkpoint
from refusals import absent, refused
from tokenizers import Tokenizer
from tokenizers.decoders import WordPiece as WordPieceDecoder
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from ap_ranker.errors import InputError
from ap_ranker.models.registry import MODELS
from ap_ranker.ranking.cache import EncodingCache
from ap_ranker.ranking.quantization import StateDtype
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.text.tokenizer import SubwordTokenizer, TokenBatch

QUESTION, ANSWER = "WHERE is my parcel, qwertyuiop?", "Open the tracking link:\tyour Parcel 保险!"
WEIGHING = [name for name, spec in MODELS.items() if spec.attention_over]


@pytest.fixture(params=WEIGHING)
def ranker(request: pytest.FixtureRequest, tmp_path: Path) -> Ranker:
    """Each model whose words have weights."""
    return Ranker.from_pretrained(write_checkpoint(request.param, tmp_path / "c"), "cpu")


def test_tokens_carry_the_models_weights(ranker: Ranker) -> None:
    assert ranker.config is not None
    found = ranker.explain(QUESTION, ANSWER)
    assert found.score == ranker.score(QUESTION, [ANSWER]).item()
    with torch.no_grad():
        weights = ranker.model.attention_weights(
            *(TokenBatch.from_lists(ranker.tokenize([text])) for text in (QUESTION, ANSWER))
        )
    assert weights is not None
    attention_over = MODELS[ranker.config.model].attention_over
    for side, tokens, text, expected in (
        ("question", found.question, QUESTION, weights.questions),
        ("answer", found.answer, ANSWER, weights.answers),
    ):
        assert len(tokens) == len(ranker.tokenize([text])[0])
        assert [token.text for token in tokens] == [text[token.start : token.end] for token in tokens]
        assert "".join(token.text for token in tokens) == "".join(text.split())
        if attention_over in (side, "both"):
            assert expected is not None
            assert [token.weight for token in tokens] == expected[0, 0].tolist()
            assert sum(token.weight or 0 for token in tokens) == pytest.approx(1, abs=1e-5)
        else:
            assert [token.weight for token in tokens] == [None] * len(tokens)


def test_as_basic_types(ranker: Ranker) -> None:
    found = ranker.explain("Where?", "Open")
    basic = asdict(found)
    assert json.loads(json.dumps(basic)) == basic
    assert basic["score"] == found.score
    assert [token["text"] for token in basic["question"] + basic["answer"]] == ["Where", "?", "Open"]
    assert set(basic["answer"][0]) == {"text", "start", "end", "weight"}


def test_odd_texts(ranker: Ranker) -> None:
    """Without a word, unknown, and longer than the limit of 20 tokens, where the explanation ends, too."""
    long = " ".join(f"parcel {number}" for number in range(250))
    for text in ("", " \n", "?", "parcel", "qwertyuiop", long):
        for tokens in (ranker.explain(text, ANSWER).question, ranker.explain(QUESTION, text).answer):
            assert [token.text for token in tokens] == (text.split()[:20] or [""])
            weights = [token.weight for token in tokens if token.weight is not None]
            assert not weights or sum(weights) == pytest.approx(1, abs=1e-5)


def test_a_question_that_repeats_itself_is_explained_as_it_is_read(ranker: Ranker) -> None:
    once, repeated = (ranker.explain(question, ANSWER) for question in ("parcel?", "parcel? " * 500))
    assert repeated == once
    assert len(ranker.explain(QUESTION, "parcel " * 500).answer) == 20


def test_a_misspelt_question_is_explained_as_it_is_read() -> None:
    """Its words have the weights with which they were scored, each in the place of what was typed."""
    pieces = [*"behikow", *(f"##{letter}" for letter in "behikow"), "?"]
    vocabulary = ["[PAD]", "[UNK]", "how", "bike", "the", "loan", *pieces]
    words = Tokenizer(WordPiece({word: row for row, word in enumerate(vocabulary)}, unk_token="[UNK]"))
    words.normalizer, words.pre_tokenizer = BertNormalizer(), BertPreTokenizer()
    words.decoder = WordPieceDecoder()
    model = make_model("ap-transformer", vocabulary)
    assert model.statistics is not None
    model.statistics.count([[2, 3, 4], [3, 5]])
    ranker = Ranker(model, SubwordTokenizer(words, 20))
    typed, right = (ranker.explain(question, "the bike") for question in ("Hwo  the bkie?", "how the bike?"))
    assert typed.score == right.score
    assert typed.answer == right.answer
    assert [token.weight for token in typed.question] == [token.weight for token in right.question]
    places = [(token.text, token.start, token.end) for token in typed.question]
    assert places == [("Hwo", 0, 3), ("the", 5, 8), ("bkie", 9, 13), ("?", 13, 14)]


def test_nothing_is_learnt_from_explaining(ranker: Ranker) -> None:
    """It runs without dropout and without gradients, whatever was done with the model before."""
    expected = ranker.explain(QUESTION, ANSWER)
    ranker.model.train()
    assert ranker.explain(QUESTION, ANSWER) == expected
    assert not ranker.model.training


def test_cached_states_change_no_weight(tmp_path: Path) -> None:
    folder = write_checkpoint("ap-bilstm", tmp_path / "c")
    plain = exact_ranker(folder)
    cached = Ranker.from_pretrained(folder, "cpu", cache=EncodingCache(10**6, StateDtype.float32))
    cached.rank(QUESTION, [ANSWER])
    assert cached.explain(QUESTION, ANSWER) == plain.explain(QUESTION, ANSWER)


def test_a_model_without_attention_says_so(tmp_path: Path) -> None:
    ranker = Ranker.from_pretrained(write_checkpoint("qa-cnn", tmp_path / "c"), "cpu")
    with pytest.raises(InputError) as error:
        ranker.explain(QUESTION, ANSWER)
    message = str(error.value)
    assert not absent("qa-cnn", message)
    assert all(f"{name}," in message or f"{name})" in message for name in WEIGHING)
    unnamed = Ranker(ranker.model, ranker.tokenizer)
    with refused("attention"):
        unnamed.explain(QUESTION, ANSWER)
