"""Characters made plain, the first step of every reading: of those that look alike or do not show, one is left.

In this order:

1. what Unicode's compatibility form would glue to a word becomes a word of its own (№5, 1½, ①, 40℃), trademark signs
   a space;
2. control characters, private ones and those that stand for an object become a space, as all kinds of spaces do;
   invisible ones go: soft hyphens, direction marks, byte order marks, variation selectors;
3. one apostrophe, one quotation mark and one hyphen are left;
4. digits of all scripts become 0 to 9;
5. the compatibility form (NFKC): full width, half width, ligatures, and letters with their marks as one character.

Then spellings of one letter, which a keyboard, a font or a writer exchanges without changing the word: `look_alike`
undoes what people do not see or do not type (Arabic vowel signs and forms of hamza, Persian and Arabic keys for one
letter, Hebrew points, the Hindi nukta, ё and е, the final ς, the Greek accent, which capitals lack). `fold` also drops
accents, which distinguish words ("año", "ano"): it makes a further form of a word, never the only one.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import lru_cache

import regex

Span = tuple[int, int]  # the character offsets of a token in a text: its start and its end (exclusive)

SOFT = "\u200b"  # where a word may be broken, as `softly_plain` leaves it: a zero-width space, or a Persian non-joiner

UNSPACED = r"\p{Han}\p{Bopomofo}\p{Hiragana}\p{Katakana}\u30fc\u3005\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
"""Scripts without spaces between words, and the signs that prolong or repeat their characters, for a set of `regex`."""

_SAME = {
    "'": "\u00b4\u02b9\u02bb\u02bc\u02c8\u05f3\u07f4\u07f5\u2018\u2019\u201a\u201b\u2032\u2035\uff07\uff40",
    '"': "\u00ab\u00bb\u02ba\u05f4\u201c\u201d\u201e\u201f\u2033\u2036\u2039\u203a\u301d\u301e\u301f\uff02",
    "-": "\u2043\u2212",  # the hyphen bullet and the minus, which are no dashes to Unicode
    " ": "\u00a9\u00ae\u2117\u2120\u2122\u20e3\u2800\u3164\uffa0\ufffc\ufffd",
    "/": "\u2044",
    SOFT: "\u200b\u200c",
    "": "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u055b\u055c\u055e"  # the last: Armenian
    "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"  # colours of skin
    + "".join(map(chr, [*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)])),  # variation selectors
}
"""What is left -> the characters that it stands for."""

_CATEGORIES = {"Cc": " ", "Cf": "", "Co": " ", "Cs": "?", "Pd": "-", "Zl": " ", "Zp": " ", "Zs": " "}
"""The same for whole categories. A surrogate is one half of a pair, as JSON may contain, and tokenizers reject it."""

_WHITE = "\t\n\r"
_APART_KINDS = ("<circle>", "<fraction>")

_ASCII_TO_CHANGE = regex.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")

_JAMO = r"\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\ud7b0-\ud7fb\uffa1-\uffdc"
_MARKS = r"\p{M}\p{Cf}\uff9e\uff9f"
_CLUSTER = regex.compile(rf"[\uac00-\ud7a3]?\p{{Cf}}*[{_JAMO}][{_JAMO}{_MARKS}]*|.[{_MARKS}]*", regex.DOTALL)
"""Characters that may become one: a letter and its marks, the parts of a Korean syllable, half-width kana."""


def _plain_character(character: str) -> str:
    """What is left of a character before the compatibility form, which must not join it to the word beside it."""
    category = unicodedata.category(character)
    for left, characters in _SAME.items():
        if character in characters:
            return left
    if category in _CATEGORIES and character not in _WHITE:
        return _CATEGORIES[category]
    if category == "Nd":
        return str(unicodedata.decimal(character))
    compatible = unicodedata.normalize("NFKC", character)
    is_sign = compatible != character and (category == "So" or character == "\N{INFORMATION SOURCE}")
    if is_sign or unicodedata.decomposition(character).startswith(_APART_KINDS):
        return f" {compatible.replace(chr(0x2044), '/')} "
    if category == "Sk" and compatible != character:  # a space and a mark, which would join the next letter
        return " "
    return character


class _Table(dict[int, str]):
    """Code point -> what is left of it, for `str.translate`; each is made when it first occurs."""

    def __missing__(self, code: int) -> str:
        plain = self[code] = _plain_character(chr(code))
        return plain


_table = _Table()


def plain(text: str) -> str:
    """The text with plain characters; most texts are returned as they are."""
    text = softly_plain(text)
    return unicodedata.normalize("NFKC", text.replace(SOFT, "")) if SOFT in text else text


def softly_plain(text: str) -> str:
    """As `plain`, but `SOFT` stays where a word may be broken."""
    if text.isascii() and not _ASCII_TO_CHANGE.search(text):
        return text
    return unicodedata.normalize("NFKC", text.translate(_table))


def plain_spans(text: str) -> Sequence[Span]:
    """The span in the text of each character of `plain(text)`."""
    spans: list[Span] = []
    for match in _CLUSTER.finditer(text):
        alone = [plain(character) for character in match[0]]
        if "".join(alone) == (together := plain(match[0])):
            spans += [(place, place + 1) for place, left in enumerate(alone, start=match.start()) for _ in left]
        else:
            spans += [match.span()] * len(together)
    return spans


def read_spans(text: str, characters: str, read: str) -> list[Span]:
    """The span in a text of each character of what is read: of its plain characters with spaces in between."""
    spans = [*plain_spans(text), (len(text), len(text))]
    found, place = [], 0
    for character in read:
        found.append(spans[place])
        place += characters[place : place + 1] == character
    return found


_APART = regex.compile(
    r"(?<=[\p{L}\p{M}\p{N}])(?=[\p{S}--\p{ASCII}])|(?<=[\p{S}--\p{ASCII}])(?=[\p{L}\p{N}])", regex.V1
)


def symbols_apart(text: str) -> str:
    """A plain text with a space between a symbol and its word (20€), as tokenizers split at those of ASCII alone."""
    return text if text.isascii() else _APART.sub(" ", text)


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


TURKISH = frozenset("çğşșöü")  # letters by which a word with ı tells its language; Romanian shares one of them


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
