"""Snowball's stemmers: they map the forms of a word ("parcel", "parcels") to one stem."""

from __future__ import annotations

from functools import lru_cache

from ap_ranker.errors import InputError, did_you_mean

# The library is imported on use: loading its 36 languages takes 40 ms.


def is_language(language: object) -> bool:
    """Whether there is a stemmer for a language."""
    import snowballstemmer

    return language in snowballstemmer.algorithms()


def check_language(language: object) -> None:
    """Check that there is a stemmer for a language.

    Raises:
        InputError: there is none.
    """
    import snowballstemmer

    if not is_language(language):
        languages = ", ".join(sorted(snowballstemmer.algorithms()))
        raise InputError(
            f"Expected language to be one of {languages}, or null for no stemmer; found {language!r}."
            f"{did_you_mean(language, snowballstemmer.algorithms())}"
        )


@lru_cache(maxsize=2**17)  # InsuranceQA's 2.8 million words are 22,858 different ones: two seconds instead of a minute
def stem(word: str, language: str) -> str:
    """The stem of a lower-cased word; `language` is one that passes `check_language`."""
    import snowballstemmer

    # A stemmer of its own for each word: it keeps the word while it works, and threads may call this at once.
    return snowballstemmer.stemmer(language).stemWord(word) or word
