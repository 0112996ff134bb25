from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import snowballstemmer
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from ap_ranker.errors import InputError
from ap_ranker.text.languages import check_language, is_language, stem

LANGUAGES = snowballstemmer.algorithms()


@given(st.text(st.characters(categories=["Ll", "Nd"]), min_size=1, max_size=12), st.sampled_from(LANGUAGES))
def test_a_stem_is_the_librarys(word: str, language: str) -> None:
    assert stem(word, language) == (snowballstemmer.stemmer(language).stemWord(word) or word)


def test_the_forms_of_a_word_have_one_stem() -> None:
    assert len({stem(word, "english") for word in ("deliver", "delivers", "delivered", "delivering")}) == 1
    assert stem("häuser", "german") == stem("haus", "german")


@pytest.mark.parametrize(("word", "language"), [("s", "porter"), ("का", "nepali"), ("αει", "greek")])
def test_a_word_that_is_all_ending_stays(word: str, language: str) -> None:
    assert stem(word, language) == word


def test_threads_do_not_mix_their_words_up() -> None:
    """A stemmer of the library keeps the word that it works on."""
    words = [f"{'x' * (i % 7)}running{i}s" for i in range(4000)]
    expected = [snowballstemmer.stemmer("english").stemWord(word) for word in words]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda word: stem(word, "english"), words)) == expected


@pytest.mark.parametrize("language", ["englisch", "English", "", 3, ["english"]])
def test_other_languages_are_refused_with_names_of_some(language: object) -> None:
    assert not is_language(language)
    with refused(f"language … {language!r}") as error:
        check_language(language)
    assert sum(name in str(error.value) for name in LANGUAGES) >= 3
    assert len(str(error.value)) <= 200


@pytest.mark.parametrize(
    ("typed", "remedy"),
    [
        ("German", "Did you mean 'german'?"),
        ("englisch", "Did you mean 'english'?"),
        ("chinese", "Leave it out, or write null."),
    ],
)
def test_other_names_of_a_language(typed: str, remedy: str) -> None:
    with pytest.raises(InputError) as error:
        check_language(typed)
    assert remedy in str(error.value)
