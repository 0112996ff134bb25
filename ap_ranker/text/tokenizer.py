"""Word-level tokenisation through the `tokenizers` library."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from ap_ranker.text.batch import PAD, UNKNOWN

PAD_TOKEN = "[PAD]"
UNKNOWN_TOKEN = "[UNK]"

# Lower case, because the vectors and the papers are; accents stay, because they tell words apart in most languages;
# every CJK character is a token, because no space separates their words.
_normalizer = normalizers.BertNormalizer(
    clean_text=True, handle_chinese_chars=True, strip_accents=False, lowercase=True
)
_pre_tokenizer = pre_tokenizers.BertPreTokenizer()


def split_words(text: str) -> list[str]:
    """Lower-cased words, punctuation marks and single CJK characters of a text, in order."""
    return [word for word, _ in _pre_tokenizer.pre_tokenize_str(_normalizer.normalize_str(text))]


class WordTokenizer:
    """Turns texts into lists of token ids, with a vocabulary that is fixed when it is built.

    It is saved as `tokenizer.json` beside the weights and never rebuilt: a vocabulary that changes between training and
    use silently ruins a model.
    """

    def __init__(self, tokenizer: Tokenizer, max_tokens: int) -> None:
        self._tokenizer = tokenizer
        self.max_tokens = max_tokens

    @classmethod
    def build(
        cls, texts: Iterable[str], *, max_tokens: int, min_count: int = 1, extra_words: Sequence[str] = ()
    ) -> WordTokenizer:
        """Collect the vocabulary of the training texts.

        Args:
            texts: the training data's questions and answers.
            max_tokens: longer texts are cut after this many tokens; `encode` says how many were.
            min_count: words rarer than this become `[UNK]`, unless they are in `extra_words`.
            extra_words: words to know although the training data may not hold them (they have pre-trained vectors).
        """
        special = [PAD_TOKEN, UNKNOWN_TOKEN]
        counter = _word_level({PAD_TOKEN: PAD, UNKNOWN_TOKEN: UNKNOWN})
        counter.train_from_iterator(
            texts, trainers.WordLevelTrainer(vocab_size=2**31, min_frequency=min_count, special_tokens=special)
        )
        found = counter.get_vocab()
        words = dict.fromkeys([*sorted(found, key=found.__getitem__), *extra_words])
        return cls(_word_level({word: row for row, word in enumerate(words)}), max_tokens)

    @property
    def words(self) -> list[str]:
        """The vocabulary; a word's position is its token id."""
        vocabulary = self._tokenizer.get_vocab()
        return sorted(vocabulary, key=vocabulary.__getitem__)

    def __len__(self) -> int:
        return self._tokenizer.get_vocab_size()

    def encode(self, texts: Sequence[str]) -> tuple[list[list[int]], int]:
        """Token ids of each text, and how many texts were longer than `max_tokens` and have been cut.

        A text without any token (empty, or only white space) becomes one `[UNK]`, so that every text has a state.
        """
        encoded = [encoding.ids for encoding in self._tokenizer.encode_batch_fast(list(texts))]
        cut = sum(len(ids) > self.max_tokens for ids in encoded)
        return [ids[: self.max_tokens] or [UNKNOWN] for ids in encoded], cut

    def save(self, path: Path) -> None:
        """Write `tokenizer.json`."""
        self._tokenizer.save(str(path))

    @classmethod
    def load(cls, path: Path, max_tokens: int) -> WordTokenizer:
        """Read `tokenizer.json` as `save` wrote it."""
        return cls(Tokenizer.from_file(str(path)), max_tokens)


def _word_level(vocabulary: dict[str, int]) -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN_TOKEN))
    tokenizer.normalizer = _normalizer
    tokenizer.pre_tokenizer = _pre_tokenizer
    return tokenizer
