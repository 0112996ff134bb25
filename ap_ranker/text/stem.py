"""BM25's languages: Snowball's stemmers map the forms of a word ("parcel", "parcels") to one stem; Thai has words."""

from __future__ import annotations

from functools import lru_cache

from ap_ranker.errors import InputError, did_you_mean
from ap_ranker.text.segment import BM25_SEGMENTERS, bm25_segmenter

WITHOUT_STEMMER = ("chinese", "zh", "japanese", "ja", "korean", "ko", "vietnamese", "vi")
"""Languages whose words have hardly any forms, or no spaces between them; BM25 reads them as they are."""

OTHER_NAMES = {
    "da": "danish",
    "de": "german",
    "deutsch": "german",
    "en": "english",
    "es": "spanish",
    "fr": "french",
    "it": "italian",
    "nl": "dutch",
    "pl": "polish",
    "pt": "portuguese",
    "ru": "russian",
    "sv": "swedish",
    "th": "thai",
    "tr": "turkish",
}
"""What users call a language -> its name; only suggested, so that all files have the same name."""


def is_language(language: object) -> bool:
    """Whether there is a stemmer for a language, or a segmenter that BM25 uses."""
    return language in _languages()


def check_language(language: object) -> None:
    """Raise InputError if a language has neither, or its segmenter's package is not installed."""
    languages = _languages()
    if language in languages:
        bm25_segmenter(str(language))
        return
    name = str(language).strip().casefold()
    if name in WITHOUT_STEMMER:
        raise InputError(f"Expected the language of a stemmer, found {language!r}, which has none. Leave it out.")
    close = OTHER_NAMES.get(name, name)
    raise InputError(
        f"Expected language to be one of {', '.join(languages)}, or null for no stemmer; found {language!r}."
        + (f" Did you mean {close!r}?" if close in languages else did_you_mean(language, languages))
    )


def _languages() -> list[str]:
    import snowballstemmer  # on use: loading its 36 languages takes 40 ms

    return sorted([*snowballstemmer.algorithms(), *BM25_SEGMENTERS])


@lru_cache(maxsize=2**17)  # InsuranceQA's 2.8 million words are 22,858 different ones: two seconds instead of a minute
def stem(word: str, language: str) -> str:
    """The stem of a lower-cased word; `language` is one that passes `check_language`. A Thai word is its stem."""
    import snowballstemmer

    if language in BM25_SEGMENTERS:
        return word
    # A stemmer of its own for each word: it keeps the word while it works, and threads may call this at once.
    return snowballstemmer.stemmer(language).stemWord(word) or word
