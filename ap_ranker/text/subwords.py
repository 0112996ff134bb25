"""Subword tokenization of a pretrained encoder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer

from ap_ranker.errors import InputError, one_line
from ap_ranker.text.batch import UNKNOWN
from ap_ranker.text.characters import Span, plain, read_spans, symbols_apart
from ap_ranker.text.tokenizer import Vocabulary, WordTokenizer, read_tokenizer

TRIAL = ["", "qzx 9 ŵ 龘 \U0001fabf"]  # of unknown characters, for which a damaged tokenizer may have no `[UNK]`


class SubwordTokenizer(Vocabulary):
    """Converts texts to token ids, with the vocabulary and the special tokens of a pretrained encoder."""

    segmenter: str | None = None

    def __init__(self, tokenizer: Tokenizer, max_tokens: int) -> None:
        """Texts are cut after `max_tokens` tokens, with special ones; InputError if there is no room beside these."""
        special = tokenizer.num_special_tokens_to_add(False)
        if max_tokens <= special:
            raise InputError(
                f"Expected max_tokens above {special}, the encoder's special tokens in each text, found {max_tokens}."
            )
        tokenizer.no_padding()
        tokenizer.enable_truncation(max_tokens)
        self._tokenizer = tokenizer
        self.max_tokens = max_tokens

    def encode(self, texts: Sequence[str]) -> tuple[list[list[int]], int]:
        """Token ids of each text, and the number of texts that were cut after `max_tokens` tokens."""
        encoded = self._tokenizer.encode_batch_fast([symbols_apart(plain(text)) for text in texts])
        cut = sum(bool(encoding.overflowing) for encoding in encoded)
        return [encoding.ids or [UNKNOWN] for encoding in encoded], cut

    def prompt(self, text: str) -> tuple[int, ...]:
        """Token ids of a prompt, without special tokens and without the space before what follows it."""
        return tuple(self._tokenizer.encode(text.rstrip(), add_special_tokens=False).ids)

    @property
    def leading(self) -> int:
        """Number of special tokens before a text, such as [CLS]."""
        return self._tokenizer.encode("0").special_tokens_mask.index(0)

    def spans(self, text: str) -> list[Span]:
        """The spans, in the original text, of the tokens that `encode` returns; those of special tokens are empty."""
        characters = plain(text)
        read = symbols_apart(characters)
        encoding, place = self._tokenizer.encode(read), read_spans(text, characters, read)
        spans, last = [], 0
        for (start, end), special in zip(encoding.offsets, encoding.special_tokens_mask, strict=True):
            empty = special or start == end
            spans.append((last, last) if empty else (place[start][0], place[end - 1][1]))
            last = spans[-1][1]
        return spans or [(0, 0)]

    @classmethod
    def load(cls, path: Path, max_tokens: int) -> SubwordTokenizer:
        """Read a `tokenizer.json`, ours or the encoder's; InputError if that fails or `max_tokens` is too small."""
        if not path.is_file():
            raise InputError(f"{path}: expected the encoder's tokenizer; encoders without this file are not supported.")
        tokenizer = cls(read_tokenizer(path), max_tokens)
        try:
            tokenizer.encode(TRIAL)
        except Exception as error:  # the tokenizers library raises bare Exception
            raise InputError(f"{path}: expected a tokenizer for any text, found {one_line(error)}.") from error
        return tokenizer


AnyTokenizer = WordTokenizer | SubwordTokenizer
