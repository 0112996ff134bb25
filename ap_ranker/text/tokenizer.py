"""Word-level tokenisation through the `tokenizers` library."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import islice
from pathlib import Path

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from ap_ranker.errors import InputError, one_line
from ap_ranker.text.batch import PAD, UNKNOWN, Span
from ap_ranker.text.phrases import Phrases, learn_phrases, phrase_words
from ap_ranker.text.segment import find_segmenter, origins

PAD_TOKEN = "[PAD]"
UNKNOWN_TOKEN = "[UNK]"


@cache
def _normalizer(characters: bool) -> normalizers.Normalizer:
    """Lower case, because the vectors and the papers are; accents stay: they tell words apart in most languages.

    With `characters`, every CJK character becomes a token, because no space separates their words.
    """
    return normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=characters, strip_accents=False, lowercase=True
    )


_pre_tokenizer = pre_tokenizers.BertPreTokenizer()


def well_formed(text: str) -> str:
    """The text with "?" for each lone half of a surrogate pair, which JSON can hold and no tokenizer."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def split_words(text: str, *, characters: bool = True) -> list[str]:
    """Lower-cased words, punctuation marks and single CJK characters of a text, in order.

    Without `characters`, CJK characters stay together up to the next space, for texts that a segmenter has split.
    """
    return [
        word for word, _ in _pre_tokenizer.pre_tokenize_str(_normalizer(characters).normalize_str(well_formed(text)))
    ]


class Vocabulary:
    """What a tokenizer of words and one of subwords have in common."""

    _tokenizer: Tokenizer

    @property
    def words(self) -> list[str]:
        """The vocabulary; a word's (or subword's) position is its token id."""
        vocabulary = self._tokenizer.get_vocab()
        return sorted(vocabulary, key=vocabulary.__getitem__)

    def __len__(self) -> int:
        return self._tokenizer.get_vocab_size()

    @property
    def largest_id(self) -> int:
        """The largest token id; an encoder's vocabulary may have gaps."""
        return max(self._tokenizer.get_vocab().values(), default=0)

    def save(self, path: Path) -> None:
        """Write `tokenizer.json`."""
        self._tokenizer.save(str(path))


class WordTokenizer(Vocabulary):
    """Turns texts into lists of token ids, with a vocabulary that is fixed when it is built.

    It is saved as `tokenizer.json` beside the weights and never rebuilt: a vocabulary that changes between training and
    use silently ruins a model.
    """

    def __init__(self, tokenizer: Tokenizer, max_tokens: int, segmenter: str | None = None) -> None:
        self._tokenizer = tokenizer
        self.max_tokens = max_tokens
        self.segmenter = segmenter
        self._segment = find_segmenter(segmenter)
        self._phrases = Phrases(self.words)

    @classmethod
    def build(
        cls,
        texts: Iterable[str],
        *,
        max_tokens: int,
        min_count: int = 1,
        extra_words: Sequence[str] = (),
        phrases: bool = False,
        segmenter: str | None = None,
    ) -> WordTokenizer:
        """Collect the vocabulary of the training texts.

        Args:
            texts: the training data's questions and answers.
            max_tokens: longer texts are cut after this many tokens; `encode` says how many were.
            min_count: words rarer than this become `[UNK]`, unless they are in `extra_words`.
            extra_words: words to know although the training data may not hold them (they have pre-trained vectors);
                phrases among them are left out, since phrases are learnt from the training texts or not at all.
            phrases: join frequent bigrams and trigrams into one token, "new_york"; needs the extra `phrases`.
            segmenter: splits Chinese into words, `jieba` (needs the extra `chinese`); `None`: into characters.

        Raises:
            InputError: no such segmenter, or an extra is missing.
        """
        segment = find_segmenter(segmenter)
        characters = segment is None
        texts = [segment(text) if segment else text for text in map(well_formed, texts)]
        special = [PAD_TOKEN, UNKNOWN_TOKEN]
        counter = _word_level({PAD_TOKEN: PAD, UNKNOWN_TOKEN: UNKNOWN}, characters)
        counter.train_from_iterator(
            texts, trainers.WordLevelTrainer(vocab_size=2**31, min_frequency=min_count, special_tokens=special)
        )
        found = counter.get_vocab()
        words = [*sorted(found, key=found.__getitem__), *(word for word in extra_words if not phrase_words(word))]
        split = (split_words(text, characters=characters) for text in texts)
        first, second = learn_phrases(split) if phrases else ([], [])
        parts = [word for phrase in (*first, *second) for word in phrase_words(phrase)]
        vocabulary = dict.fromkeys([*special, *first, *words, *parts, *second])
        ready = _word_level({word: row for row, word in enumerate(vocabulary)}, characters)
        return cls(ready, max_tokens, segmenter)

    def encode(self, texts: Sequence[str]) -> tuple[list[list[int]], int]:
        """Token ids of each text, and how many texts were longer than `max_tokens` and have been cut.

        A text without any token (empty, or only white space) becomes one `[UNK]`, so that every text has a state.
        """
        texts = [self._segment(text) if self._segment else text for text in map(well_formed, texts)]
        encoded = [self._phrases.join(encoding.ids) for encoding in self._tokenizer.encode_batch_fast(texts)]
        cut = sum(len(ids) > self.max_tokens for ids in encoded)
        return [ids[: self.max_tokens] or [UNKNOWN] for ids in encoded], cut

    def spans(self, text: str) -> list[Span]:
        """Where in the text, as it was given, each of the tokens stands that `encode` makes of it.

        Spans do not overlap. A phrase's span reaches from its first word to its last. A text without any token has the
        span (0, 0), of no character.
        """
        text = well_formed(text)
        segmented = self._segment(text) if self._segment else text
        [encoding] = self._tokenizer.encode_batch([segmented])
        origin = origins(text, segmented)
        words = iter([(origin[start], origin[end - 1] + 1) for start, end in encoding.offsets])
        spans = []
        for token in self._phrases.join(encoding.ids)[: self.max_tokens]:
            joined = list(islice(words, len(phrase_words(self._tokenizer.id_to_token(token) or "")) or 1))
            spans.append((joined[0][0], joined[-1][1]))
        return spans or [(0, 0)]

    @classmethod
    def load(cls, path: Path, max_tokens: int, segmenter: str | None = None) -> WordTokenizer:
        """Read `tokenizer.json` as `save` wrote it; `segmenter` is not in it and must be the one it was built with.

        Raises:
            InputError: it is damaged, or not one of words.
        """
        tokenizer = read_tokenizer(path)
        vocabulary = tokenizer.get_vocab()
        special = vocabulary.get(PAD_TOKEN), vocabulary.get(UNKNOWN_TOKEN), getattr(tokenizer.model, "unk_token", None)
        if (
            not isinstance(tokenizer.model, models.WordLevel)
            or special != (PAD, UNKNOWN, UNKNOWN_TOKEN)
            or sorted(vocabulary.values()) != list(range(len(vocabulary)))
        ):
            raise InputError(
                f"{path}: expected a vocabulary of words that begins with {PAD_TOKEN} and {UNKNOWN_TOKEN}, found "
                "another kind of tokenizer. Take the file that was written with the weights."
            )
        return cls(tokenizer, max_tokens, segmenter)


def read_tokenizer(path: Path) -> Tokenizer:
    """Read any `tokenizer.json`.

    Raises:
        InputError: it is damaged.
    """
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the tokenizers library raises bare Exception
        raise InputError(f"{path}: not a readable tokenizer ({one_line(error)}).") from error


def _word_level(vocabulary: dict[str, int], characters: bool) -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN_TOKEN))
    tokenizer.normalizer = _normalizer(characters)
    tokenizer.pre_tokenizer = _pre_tokenizer
    return tokenizer
