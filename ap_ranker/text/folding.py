"""Spellings of one letter: those that a keyboard, a font or a writer exchanges without changing the word.

`look_alike` undoes what people do not see or do not type: Arabic vowel signs and forms of hamza, Persian and Arabic
keys for one letter, Hebrew points, the Hindi nukta, ё and е, the final ς, the Greek accent, which capitals lack. `fold`
also drops accents, which distinguish words ("año", "ano"): it makes a further form of a word, never the only one.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

import regex

_LOOK_ALIKE = str.maketrans(
    {
        "ٱ": "ا",  # the other forms of hamza are a letter and a sign
        **dict.fromkeys("یے", "ي"),
        **dict.fromkeys("ہھە", "ه"),
        "ک": "ك",
        "ـ": None,  # only stretches a word
        "ё": "е",
        "ς": "σ",
        "ँ": "ं",
        **{chillu: f"{letter}\u0d4d" for chillu, letter in zip("ൺൻർൽൾൿ", "ണനരലളക", strict=True)},
        "ş": "ș",  # Romanian keyboards had only the cedilla
        "ţ": "ț",
    }
)
_VOWEL_SIGNS = regex.compile(
    "[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"  # Hebrew
    "\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed"  # Arabic
    "\u093c\u09bc\u0a3c\u0abc\u0b3c]"  # nuktas of Hindi, Bengali, Punjabi, Gujarati, Oriya
)
_STRESS = regex.compile(r"(?<=\p{Greek})[\u0300\u0301\u0342-\u0345\u0313\u0314]+|(?<=[аеиоуыэюяіє])[\u0300\u0301]+")
_NASALS = regex.compile("[ङञणनम]\u094d(?=[क-ह])")  # हिन्दी is हिंदी
_ACCENTS = regex.compile(r"(?<=[\p{Latin}\p{Greek}])[\u0300-\u036f]+")
_LETTERS = str.maketrans(
    {"ı": "i", "ß": "ss", "ł": "l", "ø": "o", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ħ": "h", "ŋ": "n"}
    | {"ة": "ه", "ى": "ي"}
)


TURKISH = frozenset("çğşșöü")
"""Letters by which a word with ı tells its language; Romanian shares one of them."""


def lower(text: str, language: str | None = None) -> str:
    """A plain text in lower case, as its language has it."""
    if language == "turkish":
        text = text.replace("I", "ı")
    return text.replace("İ", "i").lower()


@lru_cache(maxsize=2**16)
def look_alike(text: str) -> str:
    """A lower-cased plain text with one spelling of each letter."""
    if text.isascii():
        return text
    text = unicodedata.normalize("NFD", text)
    text = _NASALS.sub("ं", _STRESS.sub("", _VOWEL_SIGNS.sub("", text)))
    return unicodedata.normalize("NFC", text).translate(_LOOK_ALIKE)


@lru_cache(maxsize=2**16)
def fold(word: str) -> str:
    """A lower-cased word without accents; letters that have none of their own are written as in ASCII ("ø": "o")."""
    if word.isascii():
        return word
    word = _ACCENTS.sub("", unicodedata.normalize("NFD", look_alike(word)))
    return unicodedata.normalize("NFC", word).translate(_LETTERS)
