"""Tokenization with the `tokenizers` library: into words, or into the subwords of a pretrained encoder; token ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import regex
import torch
from tokenizers import Encoding, Tokenizer, models, normalizers, pre_tokenizers, trainers
from torch import Tensor

from ap_ranker.errors import InputError, is_panic, library_errors, one_line
from ap_ranker.text.languages import UNSPACED
from ap_ranker.text.nearest_word import KEPT, LONGEST, NearestWords
from ap_ranker.text.reading import plain
from ap_ranker.text.tokenizer_file import read_tokenizer

PAD = 0  # the id of the padding token in every vocabulary; its vector is zero
UNKNOWN = 1  # the id of `[UNK]` in every vocabulary: a word that is not in it

Span = tuple[int, int]  # the character offsets of a token in a text: its start and its end (exclusive)

_JAMO = r"\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\ud7b0-\ud7fb\uffa1-\uffdc"
_MARKS = r"\p{M}\p{Cf}\uff9e\uff9f"
_CLUSTER = regex.compile(rf"[\uac00-\ud7a3]?\p{{Cf}}*[{_JAMO}][{_JAMO}{_MARKS}]*|.[{_MARKS}]*", regex.DOTALL)
"""Characters that may become one: a letter and its marks, the parts of a Korean syllable, half-width kana."""


@dataclass(frozen=True)
class TokenBatch:
    """Token ids of N texts (N, T), int64, `PAD` after the end of a text; `mask` (N, T) is True on real tokens."""

    ids: Tensor
    mask: Tensor

    @classmethod
    def from_lists(cls, texts: Sequence[Sequence[int]], device: torch.device | str | None = None) -> TokenBatch:
        """Pad lists of token ids, none of which may be empty."""
        lengths = np.array(list(map(len, texts)))
        mask = np.arange(lengths.max()) < lengths[:, None]
        ids = np.full(mask.shape, PAD)
        ids[mask] = np.fromiter(chain.from_iterable(texts), int, lengths.sum())  # faster than a tensor of lists
        return cls(torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device))


PAD_TOKEN = "[PAD]"
UNKNOWN_TOKEN = "[UNK]"

# Lower-cases, as the word vectors and the papers do, and keeps accents, which distinguish words in most languages.
_normalizer = normalizers.BertNormalizer(handle_chinese_chars=False, strip_accents=False)
_pre_tokenizer = pre_tokenizers.BertPreTokenizer()

TRIAL = ["", "qzx 9 ŵ 龘 \U0001fabf"]  # of unknown characters, for which a damaged tokenizer may have no `[UNK]`

FAILED = " Its tokenizer.json is damaged: bring a whole copy of the encoder or the checkpoint."

FIRST_WORD = "How"  # of a text, to find how it is read after a prompt

_UNSPACED_CHARACTER = regex.compile(rf"(?=[{UNSPACED}])\X")

_LETTERS = regex.compile(rf"[\p{{L}}\p{{M}}--[{UNSPACED}]]+", regex.V1)  # a word of a script with spaces

SHORTEST = 3
"""Minimum number of letters of a word that is mended."""

_WITHIN = regex.compile(r"[^_]+(_[^_]+)+")  # what no text has: "_" is punctuation, a token of its own

_SYMBOL = regex.compile(r"[\p{S}--\p{ASCII}]+", regex.V1)


def split_words(text: str) -> list[str]:
    """Split a text into lower-cased words, punctuation marks, symbols and, in scripts without spaces, characters.

    These are the tokens of the word models, as of their papers; BM25 reads the forms of `ap_ranker.text.reading`.
    """
    return _split(_spaced(_plain(text)))


def _plain(text: str) -> str:
    return plain(text).replace("İ", "i")  # lower case would leave its dot behind, as a mark


def _spaced(text: str) -> str:
    """A plain text with spaces around symbols and around the characters of scripts without spaces."""
    if text.isascii():
        return text
    return _UNSPACED_CHARACTER.sub(r" \g<0> ", symbols_apart(text))


def _split(text: str) -> list[str]:
    return [word for word, _ in _pre_tokenizer.pre_tokenize_str(_normalizer.normalize_str(text))]


class Vocabulary:
    """The common base of the tokenizers of words and of subwords."""

    _tokenizer: Tokenizer
    told_of_cuts = False  # whether anybody said that it cuts texts

    @property
    def words(self) -> list[str]:
        """The vocabulary; the position of a word or subword is its token id."""
        vocabulary = self._tokenizer.get_vocab()
        return sorted(vocabulary, key=vocabulary.__getitem__)

    @property
    def largest_id(self) -> int:
        """The largest token id; an encoder's vocabulary may have gaps."""
        return max(self._tokenizer.get_vocab().values(), default=0)

    def save(self, path: Path) -> None:
        """Write `tokenizer.json`."""
        self._tokenizer.save(str(path))

    def _encodings(self, texts: Sequence[str], *, spans: bool = False, special: bool = True) -> list[Encoding]:
        """What the tokenizer makes of texts, with special tokens or without; without `spans` it is faster."""
        encode = self._tokenizer.encode_batch if spans else self._tokenizer.encode_batch_fast
        try:
            return list(encode(list(texts), add_special_tokens=special))
        except BaseException as error:
            if not isinstance(error, Exception) and not is_panic(error):
                raise
            expected = "Expected a tokenizer that reads any text, found one that failed"
            raise InputError(f"{expected} ({one_line(error)}).{FAILED}") from error


class WordTokenizer(Vocabulary):
    """Converts texts to token ids with a fixed vocabulary; an unknown word is read as the known one nearest to it.

    The vocabulary is saved as `tokenizer.json` with the weights and never rebuilt: a change between training and use
    would silently ruin a model.
    """

    def __init__(self, tokenizer: Tokenizer, max_tokens: int) -> None:
        self._tokenizer = tokenizer
        self.max_tokens = max_tokens
        self._nearest = NearestWords(self.words)

    @classmethod
    def build(cls, texts: Iterable[str], *, max_tokens: int, extra_words: Sequence[str] = ()) -> WordTokenizer:
        """Collect the vocabulary of the training texts.

        Extra words, which have pre-trained vectors, are included even if the texts lack them.
        """
        texts = [_spaced(_plain(text)) for text in texts]
        special = [PAD_TOKEN, UNKNOWN_TOKEN]
        counter = _word_level({PAD_TOKEN: PAD, UNKNOWN_TOKEN: UNKNOWN})
        counter.train_from_iterator(texts, trainers.WordLevelTrainer(vocab_size=2**31, special_tokens=special))
        counted = counter.get_vocab()
        words = dict.fromkeys([*special, *sorted(counted, key=counted.__getitem__)])
        for word in extra_words:
            if not _WITHIN.fullmatch(word):
                words[word] = None
        vocabulary = {word: row for row, word in enumerate(words)}
        return cls(_word_level(vocabulary), max_tokens)

    def encode(self, texts: Sequence[str], *, questions: bool = False) -> tuple[list[list[int]], int]:
        """Token ids of each text, of an empty one `[UNK]`; and how many texts were cut after `max_tokens` tokens.

        Those of `questions` are no others than those of answers.
        """
        texts = [_spaced(_plain(text)) for text in texts]
        ids_of_texts = [encoding.ids for encoding in self._encodings(texts)]
        encoded: list[list[int]] = []
        for text, ids in zip(texts, ids_of_texts, strict=True):
            if UNKNOWN in ids:
                by_word = self._by_word(text, ids)
                encoded.append(list(chain.from_iterable(by_word)))
            else:
                encoded.append(ids)
        cut = sum(len(ids) > self.max_tokens for ids in encoded)
        return [ids[: self.max_tokens] or [UNKNOWN] for ids in encoded], cut

    def spans(self, text: str, *, questions: bool = False) -> list[Span]:
        """The spans, in the original text, of the tokens that `encode` returns; (0, 0) for a text without any token."""
        characters = _plain(text)
        segmented = _spaced(characters)
        [encoding] = self._encodings([segmented], spans=True)
        place = read_spans(text, characters, segmented)
        by_word = self._by_word(segmented, encoding.ids)
        spans: list[Span] = []
        for word, (start, end) in zip(by_word, encoding.offsets, strict=True):
            spans += self._spans_in((place[start][0], place[end - 1][1]), word)
        return spans[: self.max_tokens] or [(0, 0)]

    def _by_word(self, text: str, ids: Sequence[int]) -> list[tuple[int, ...]]:
        """The token ids of each word: its own, or those of the known words that it is read as."""
        by_word: list[tuple[int, ...]] = []
        for word, row in zip(_split(text), ids, strict=True):
            if row == UNKNOWN:
                by_word.append(self._read(word))
            else:
                by_word.append((row,))
        return by_word

    def _read(self, word: str) -> tuple[int, ...]:
        if _SYMBOL.fullmatch(word):  # that no text of the training had says nothing
            return ()
        rows = map(self._tokenizer.token_to_id, self._nearest.read(word))
        return tuple(row for row in rows if row is not None) or (UNKNOWN,)

    def _spans_in(self, span: Span, word: tuple[int, ...]) -> list[Span]:
        """The spans of a word's tokens: of the two parts of a compound, or of the whole word."""
        start, end = span
        if len(word) < 2:
            return [span] * len(word)
        middle = min(start + len(self._tokenizer.id_to_token(word[0]) or ""), end)
        return [(start, middle), (middle, end)]

    @classmethod
    def load(cls, path: Path, max_tokens: int) -> WordTokenizer:
        """Read a `tokenizer.json` that `save` wrote."""
        tokenizer = read_tokenizer(path)
        vocabulary = tokenizer.get_vocab()
        special = vocabulary.get(PAD_TOKEN), vocabulary.get(UNKNOWN_TOKEN), getattr(tokenizer.model, "unk_token", None)
        if (
            not isinstance(tokenizer.model, models.WordLevel)
            or special != (PAD, UNKNOWN, UNKNOWN_TOKEN)
            or sorted(vocabulary.values()) != list(range(len(vocabulary)))
        ):
            raise InputError(
                f"{path}: expected the vocabulary of words that was written with the weights, found another tokenizer."
            )
        # Only the vocabulary is the file's: older ones have a normalizer that splits Chinese, which `_spaced` does.
        return cls(_word_level(vocabulary), max_tokens)


class SubwordTokenizer(Vocabulary):
    """Converts texts to token ids, with the vocabulary and the special tokens of a pretrained encoder."""

    def __init__(self, tokenizer: Tokenizer, max_tokens: int, question_gap: str = "", answer_gap: str = "") -> None:
        """Texts are cut after `max_tokens` tokens, with special ones; InputError if there is no room beside these.

        A gap is the space that a question, or an answer, has before its first word, as after a prompt.
        """
        special = tokenizer.num_special_tokens_to_add(False)
        if max_tokens <= special:
            raise InputError(
                f"Expected max_tokens above {special}, the encoder's special tokens in each text, found {max_tokens}."
            )
        tokenizer.no_padding()
        tokenizer.enable_truncation(max_tokens)
        self._tokenizer = tokenizer
        self.max_tokens = max_tokens
        self._gaps = answer_gap, question_gap

    def encode(self, texts: Sequence[str], *, questions: bool = False) -> tuple[list[list[int]], int]:
        """Token ids of each text, and the number of texts that were cut after `max_tokens` tokens."""
        gap = self._gaps[questions]
        encoded = self._encodings([gap + symbols_apart(plain(text)) for text in texts])
        cut = sum(bool(encoding.overflowing) for encoding in encoded)
        return [encoding.ids or [UNKNOWN] for encoding in encoded], cut

    def subwords(self, word: str) -> list[int]:
        """Token ids of a word within a text, without special tokens."""
        return self._ids(f" {word}")

    def _ids(self, text: str) -> list[int]:
        [encoding] = self._encodings([text], special=False)
        return list(encoding.ids)

    def whole_words(self, rows: Sequence[int]) -> list[str]:
        """Those of the subwords with these ids that are whole words."""
        with library_errors("Expected a tokenizer that writes any token, found one that failed", advice=FAILED):
            words = [self._tokenizer.decode([row]).strip() for row in rows]
        encodings = self._encodings([f" {word}" for word in words], special=False)
        whole_words: list[str] = []
        for word, row, encoding in zip(words, rows, encodings, strict=True):
            if encoding.ids == [row]:
                whole_words.append(word)
        return whole_words

    def prompt(self, text: str) -> tuple[tuple[int, ...], str]:
        """Token ids of a prompt, without special tokens, and the gap after it: a space that is the next word's."""
        words = text.rstrip(" ")
        ways = [(words, ""), (words, text[len(words) :]), (text, "")]  # the last: a token of its own with a space
        whole = self._ids(text + FIRST_WORD)
        for prompt, gap in ways:
            ids = self._ids(prompt)
            if ids + self._ids(gap + FIRST_WORD) == whole:
                return tuple(ids), gap
        prompt, gap = ways[0]  # none is read as the whole is
        return tuple(self._ids(prompt)), gap

    def after_prompts(self, max_tokens: int, question_gap: str, answer_gap: str) -> SubwordTokenizer:
        """The same vocabulary for what is read after prompts."""
        return SubwordTokenizer(self._tokenizer, max_tokens, question_gap, answer_gap)

    @property
    def leading(self) -> int:
        """Number of special tokens before a text, such as [CLS]."""
        [encoding] = self._encodings(["0"])
        if 0 not in encoding.special_tokens_mask:
            raise InputError("Expected a tokenizer that knows some characters, found none for '0'." + FAILED)
        return encoding.special_tokens_mask.index(0)

    def spans(self, text: str, *, questions: bool = False) -> list[Span]:
        """The spans, in the original text, of the tokens that `encode` returns; those of special tokens are empty."""
        characters = plain(text)
        gap = self._gaps[questions]
        read = symbols_apart(characters)
        [encoding] = self._encodings([gap + read], spans=True)
        place = read_spans(text, characters, read)
        spans = []
        last = 0
        for offsets, special in zip(encoding.offsets, encoding.special_tokens_mask, strict=True):
            start = max(offsets[0] - len(gap), 0)
            end = max(offsets[1] - len(gap), 0)
            if special or start == end:
                spans.append((last, last))
            else:
                spans.append((place[start][0], place[end - 1][1]))
            _, last = spans[-1]
        return spans or [(0, 0)]

    @classmethod
    def load(cls, path: Path, max_tokens: int, *gaps: str, parsed: Tokenizer | None = None) -> SubwordTokenizer:
        """Read a `tokenizer.json`, or take what was `parsed` of it; InputError if that fails or is of no use here."""
        tokenizer = cls(parsed or read_tokenizer(path), max_tokens, *gaps)
        with library_errors(f"{path}: expected a tokenizer for any text"):
            tokenizer.encode(TRIAL)
        return tokenizer


AnyTokenizer = WordTokenizer | SubwordTokenizer


class WordsOfTexts:
    """The words of the texts that are searched, as a pretrained encoder reads them: others may be typing errors.

    A word of a question is read as another one only if the encoder has no subword of its own for it. First come two
    neighbouring letters exchanged ("hwo", "bkie"), as nothing else explains a known word with the same letters. Then,
    if the texts lack one of its subwords, come the rules of `nearest_word.py`: what they have all of is probably a name
    or a rare word of theirs.
    """

    def __init__(self, tokenizer: SubwordTokenizer, frequency: Sequence[float]) -> None:
        """`frequency` (V,) is the number of texts that contain each subword."""
        self._tokenizer = tokenizer
        self._frequency = frequency
        rows = [row for row, count in enumerate(frequency) if count]
        rows.sort(key=lambda row: -frequency[row])
        words: dict[str, None] = {}  # most frequent first
        for word in tokenizer.whole_words(rows):
            if _LETTERS.fullmatch(word):
                words[word.lower()] = None
        self._order = {word: place for place, word in enumerate(words)}
        self._longest = max(map(len, words), default=0)
        self._nearest = NearestWords(words)
        self._kept_reading = lru_cache(KEPT)(self._reading)

    def __reduce__(self) -> tuple[Any, ...]:
        return WordsOfTexts, (self._tokenizer, self._frequency)

    def mend(self, text: str) -> str:
        """The text with a known word, or two, for each that is misspelt; most texts are returned as they are."""
        return _LETTERS.sub(self._read_match, text)

    def _read_match(self, match: regex.Match[str]) -> str:
        return self._read(match[0])

    def unmended(self, text: str, spans: Iterable[Span]) -> list[Span]:
        """The spans in a text of those in the mended one; of a word that is read as another, the whole word."""
        origins: list[Span] = []  # the span in the text of each character of the mended one
        place = 0
        for word in _LETTERS.finditer(text):
            read = self._read(word[0])
            if read == word[0]:
                continue
            origins += _single_characters(place, word.start())
            origins += [word.span()] * len(read)
            place = word.end()
        origins += _single_characters(place, len(text) + 1)  # with one behind the end, for spans that begin there
        unmended: list[Span] = []
        for start, end in spans:
            first, _ = origins[start]
            last = first
            if end > start:
                _, last = origins[end - 1]
            unmended.append((first, last))
        return unmended

    def _read(self, word: str) -> str:
        if len(word) < SHORTEST or len(word) > max(self._longest, LONGEST) or word.lower() in self._order:
            return word
        return self._kept_reading(word)

    def _reading(self, word: str) -> str:
        """What a word that no text has is read as: a known word or two, or the word itself."""
        rows = self._tokenizer.subwords(word)
        letters = word.lower()
        if len(rows) < 2:
            return word
        known_words: list[str] = []
        for i in range(len(letters) - 1):
            exchanged = letters[:i] + letters[i + 1] + letters[i] + letters[i + 2 :]
            if exchanged in self._order:
                known_words.append(exchanged)
        if known_words:
            return min(known_words, key=self._order.__getitem__)
        if all(self._frequency[row] for row in rows):
            return word
        return " ".join(self._nearest.read(letters)) or word


def _single_characters(start: int, end: int) -> list[Span]:
    return [(place, place + 1) for place in range(start, end)]


def _word_level(vocabulary: dict[str, int]) -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN_TOKEN))
    tokenizer.normalizer = _normalizer
    tokenizer.pre_tokenizer = _pre_tokenizer
    return tokenizer


def plain_spans(text: str) -> Sequence[Span]:
    """The span in the text of each character of `plain(text)`."""
    spans: list[Span] = []
    for match in _CLUSTER.finditer(text):
        alone = [plain(character) for character in match[0]]
        together = plain(match[0])
        if together == "".join(alone):
            for place, characters in enumerate(alone, start=match.start()):
                spans += [(place, place + 1)] * len(characters)
        else:
            spans += [match.span()] * len(together)
    return spans


def read_spans(text: str, characters: str, read: str) -> list[Span]:
    """The span in a text of each character of what is read: of its plain characters with spaces in between."""
    spans = [*plain_spans(text), (len(text), len(text))]
    spans_of_read = []
    place = 0
    for character in read:
        spans_of_read.append(spans[place])
        if character == characters[place : place + 1]:  # else it is a space that was put in
            place += 1
    return spans_of_read


_APART = regex.compile(
    r"(?<=[\p{L}\p{M}\p{N}])(?=[\p{S}--\p{ASCII}])|(?<=[\p{S}--\p{ASCII}])(?=[\p{L}\p{N}])", regex.V1
)


def symbols_apart(text: str) -> str:
    """A plain text with a space between a symbol and its word (20€), as tokenizers split at those of ASCII alone."""
    if text.isascii():
        return text
    return _APART.sub(" ", text)
