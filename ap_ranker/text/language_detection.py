"""Tells the language of a text by py3langid, a naive Bayes classifier over byte sequences (Lui & Baldwin 2012).

Of short texts it is right as often as lingua, a twentieth of its size and time: `examples/languages/README.md`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

_NAMES = (
    "af Afrikaans, ar Arabic, az Azerbaijani, be Belarusian, bg Bulgarian, bn Bengali, ca Catalan, cs Czech, cy Welsh, "
    "da Danish, de German, el Greek, en English, es Spanish, et Estonian, eu Basque, fa Persian, fi Finnish, "
    "fr French, ga Irish, gl Galician, he Hebrew, hi Hindi, hr Croatian, hu Hungarian, hy Armenian, id Indonesian, "
    "is Icelandic, it Italian, ja Japanese, ka Georgian, kk Kazakh, km Khmer, ko Korean, la Latin, lt Lithuanian, "
    "lv Latvian, mk Macedonian, mn Mongolian, ms Malay, my Burmese, ne Nepali, nl Dutch, no Norwegian, pl Polish, "
    "pt Portuguese, ro Romanian, ru Russian, sk Slovak, sl Slovene, sq Albanian, sr Serbian, sv Swedish, sw Swahili, "
    "ta Tamil, te Telugu, th Thai, tl Tagalog, tr Turkish, uk Ukrainian, ur Urdu, uz Uzbek, vi Vietnamese, zh Chinese"
)
LANGUAGES = dict(code_and_name.split(" ", maxsplit=1) for code_and_name in _NAMES.split(", "))
"""ISO 639-1 code -> name of the languages that are told apart.

Not all that the library knows: of a short text, varieties such as Egyptian Arabic would take the confidence of Arabic.
"""

_NO_LANGUAGE = "zxx"  # the library's class of letters at random, numbers and program text

MIN_CONFIDENCE = 0.8
"""Below it, nothing is told: of 3,000 questions and 1,400 answers in 15 languages, none above .7 was told wrong."""

_READ = 200  # characters; with more, no answer of these was told better

_SAMPLE = 200


def detect_language(text: str) -> str | None:
    """The code in `LANGUAGES` of a text's language, by its beginning; `None` if unclear, as of few words or noise."""
    code, confidence = _identifier().classify(text[:_READ])
    if confidence >= MIN_CONFIDENCE and code != _NO_LANGUAGE:
        return code
    return None


def main_language(texts: Iterable[str]) -> str | None:
    """The code of the language of most texts, whatever their order; `None` if unclear, or if no language has most."""
    distinct = sorted(set(texts))
    sample = distinct[:: max(1, len(distinct) // _SAMPLE)]
    languages = Counter(filter(None, map(detect_language, sample)))
    for code, count in languages.items():
        if 2 * count > languages.total():
            return code
    return None


@cache
def _identifier() -> LanguageIdentifier:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # on use: its model takes half a second

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    identifier.set_languages([*LANGUAGES, _NO_LANGUAGE])
    return identifier
