from __future__ import annotations

from pathlib import Path

from refusals import refused
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing

from ap_ranker.text.tokenizer import SubwordTokenizer

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "parcel", "##s", "track", "##ing", "where", "is", "?"]
UNK, CLS, SEP, PARCEL, S, TRACK, ING, WHERE, IS, MARK = range(1, 11)


def word_piece() -> Tokenizer:
    tokenizer = Tokenizer(WordPiece({word: row for row, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer()
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.post_processor = TemplateProcessing("[CLS] $A [SEP]", special_tokens=[("[CLS]", CLS), ("[SEP]", SEP)])
    return tokenizer


def test_words_are_split_and_framed() -> None:
    found, cut = SubwordTokenizer(word_piece(), 20).encode(["Where is Parcels?", "tracking zebra", ""])
    assert found == [[CLS, WHERE, IS, PARCEL, S, MARK, SEP], [CLS, TRACK, ING, UNK, SEP], [CLS, SEP]]
    assert cut == 0


def test_a_cut_text_keeps_its_closing_token_and_is_counted() -> None:
    found, cut = SubwordTokenizer(word_piece(), 4).encode(["where is parcels", "parcels", "parcel " * 50])
    assert found == [[CLS, WHERE, IS, SEP], [CLS, PARCEL, S, SEP], [CLS, PARCEL, PARCEL, SEP]]
    assert cut == 2


def test_what_the_file_says_of_padding_and_length_does_not_count() -> None:
    """The files of sentence encoders pad all texts to 128 tokens and cut them there."""
    tokenizer = word_piece()
    tokenizer.enable_padding(length=128)
    tokenizer.enable_truncation(3)
    assert SubwordTokenizer(tokenizer, 20).encode(["where is"]) == ([[CLS, WHERE, IS, SEP]], 0)


def test_a_text_of_no_tokens_is_an_unknown_word() -> None:
    tokenizer = word_piece()
    tokenizer.post_processor = TemplateProcessing("$A")
    assert SubwordTokenizer(tokenizer, 20).encode(["", " \n"]) == ([[UNK], [UNK]], 0)


def test_vocabulary() -> None:
    tokenizer = SubwordTokenizer(word_piece(), 20)
    assert tokenizer.words == WORDS
    assert len(tokenizer.words) == len(WORDS)


def test_saved_and_loaded(tmp_path: Path) -> None:
    texts = ["Where is it?", "parcels " * 30]
    first = SubwordTokenizer(word_piece(), 9)
    first.save(tmp_path / "tokenizer.json")
    second = SubwordTokenizer.load(tmp_path / "tokenizer.json", 9)
    assert second.encode(texts) == first.encode(texts)
    assert second.words == first.words
    longer, cut = SubwordTokenizer.load(tmp_path / "tokenizer.json", 62).encode(texts)
    assert (len(longer[1]), cut) == (62, 0)


def test_no_room_for_words() -> None:
    with refused("max_tokens … 2 … 2"):
        SubwordTokenizer(word_piece(), 2)
    assert SubwordTokenizer(word_piece(), 3).encode(["where is"]) == ([[CLS, WHERE, SEP]], 1)


def test_no_such_file(tmp_path: Path) -> None:
    with refused("tokenizer.json"):
        SubwordTokenizer.load(tmp_path / "tokenizer.json", 20)


def test_damaged_file(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text('{"version": "1.0"')
    with refused("tokenizer.json"):
        SubwordTokenizer.load(tmp_path / "tokenizer.json", 20)
