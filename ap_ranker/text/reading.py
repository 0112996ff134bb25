"""How a text becomes words: the one reading of BM25, known wordings, synonyms and suggestions.

Models cut the same plain characters into tokens (`tokenizer.py`).

    text --plain--> characters --lower--> case --split--> words --stem, fold--> forms of each word

1. Characters are made plain: what Unicode's compatibility form would glue to a word becomes a word of its own (№5, 1½,
   ①, 40℃), trademark signs, control characters and those that stand for an object a space, as all kinds of spaces do;
   invisible ones go (soft hyphens, direction marks, variation selectors); one apostrophe, one quotation mark and one
   hyphen are left; digits of all scripts become 0 to 9; then the compatibility form (NFKC).
2. Case: lower case; Turkish has its own pair of I and ı where the language is Turkish, and İ is i everywhere.
3. Words are runs of letters, their marks and digits. Symbols and punctuation end a word, but for "c++", "c#" and "a+".
4. Scripts without spaces between words (Chinese, Japanese, Thai, Lao, Khmer, Burmese) are read as pairs of neighbouring
   characters, as Lucene's CJK analyser does, and Chinese characters one by one, too; a Korean word whole or as pairs.
   Where the language is Thai, a library finds the words, and each counts as it is or as pairs.
5. Each word has forms, which are alternatives: its parts or the parts joined ("e-mail", "email"; "401(k)", "401k";
   "iPhone15"; "1,000", "1 000", "1000"), the stem, and the stem without accents. A question's word counts by the form
   that fits a text best. The letter of a code ("E-403") is no part of its own.
6. A word that a hyphen divides at a line's end is one. A telephone number is one more word, in each of the ways that it
   is written: its digits without the country and the 0 that national numbers begin with.

Spellings of one letter, which a keyboard, a font or a writer exchanges, are one: `look_alike` undoes what people do not
see or do not type (Arabic vowel signs and forms of hamza, Persian and Arabic keys for one letter, Hebrew points, the
Hindi nukta, ё and е, the final ς, the Greek accent, which capitals lack). `fold` also drops accents, which distinguish
words ("año", "ano"): it makes a further form of a word, never the only one.

Below are the forms by which whole texts are compared: as the same text, without repetition, as nearly equal; as the
same question, word for word, in `question_keys.py`. Among many texts, `nearly_equal.py` finds all pairs that are nearly
equal, which needs SciPy; two texts alone do not. Questions that ask the same are found by `near_copies.py`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain

import regex

from ap_ranker.kept_results import keep
from ap_ranker.text.languages import CHARACTER, LONGEST_KEPT, UNSPACED, pairs, stem, unspaced_words
from ap_ranker.text.normal_form import normal_form
from ap_ranker.text.telephones import telephone_words

READING_VERSION = 4  # version of how a text becomes words: a saved index or vocabulary must not outlive a change

MODELS_READ_SINCE = 3  # the version since which models read all words as they do now: later ones concern BM25

SOFT = "\u200b"  # where a word may be broken, as `softly_plain` leaves it: a zero-width space, or a Persian non-joiner

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
    return normal_form("NFKC", text.replace(SOFT, "")) if SOFT in text else text


def softly_plain(text: str) -> str:
    """As `plain`, but `SOFT` stays where a word may be broken."""
    if text.isascii() and not _ASCII_TO_CHANGE.search(text):
        return text
    return normal_form("NFKC", text.translate(_table))


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


def look_alike(text: str) -> str:
    """A lower-cased plain text with one spelling of each letter."""
    if text.isascii():
        return text
    if len(text) <= LONGEST_KEPT:
        return _look_alike(text)
    return _look_alike.__wrapped__(text)


@lru_cache(maxsize=2**16)
def _look_alike(text: str) -> str:
    text = normal_form("NFD", text)
    text = _NASALS.sub("ं", _STRESS.sub("", _VOWEL_SIGNS.sub("", text)))
    return normal_form("NFC", text).translate(_LOOK_ALIKE)


def fold(text: str) -> str:
    """A lower-cased text without accents; letters that have none of their own are written as in ASCII ("ø": "o")."""
    if text.isascii():
        return text
    if len(text) <= LONGEST_KEPT:
        return _fold_letters(text)
    return _fold_letters.__wrapped__(text)


@lru_cache(maxsize=2**16)
def _fold_letters(text: str) -> str:
    text = _ACCENTS.sub("", normal_form("NFD", look_alike(text)))
    return normal_form("NFC", text).translate(_LETTERS)


Form = tuple[str, ...]  # terms that together stand for a word

Word = tuple[Form, ...]  # the alternative forms of a word

MOST_PIECES = 4
"""Parts of letters and of digits up to which a word is also read in such parts: more are a code, not words."""

MOST_JOINED = 30  # characters up to which parts are joined: longer ones are addresses and paths

DIGITS_JOINED = 6
"""Digits from which parts of digits alone are joined: a telephone number is, a range such as 10-20 is not."""

_DIGIT = regex.compile(r"\d")

_JOINTS = rf"\-'`._&{SOFT}"
_SIGNS = rf"[+#]++(?!(?![{UNSPACED}\p{{Hangul}}])\p{{L}})"  # of "c++", not of "a+b"
# The space in "10 000". Only the group before it is looked at: that of "1 000 000" follows a space itself.
_GROUPING = r"(?<=(?<![\p{L}\p{N}\p{M}.,])\d{1,3}) (?=\d{3}(?!\d))"
_TOKEN = regex.compile(
    rf"[\p{{L}}\p{{N}}](?:[\p{{L}}\p{{N}}\p{{M}}]|[{_JOINTS}(](?=[\p{{L}}\p{{N}}])|(?<=\d),(?=\d)|{_GROUPING})*"
    rf"(?:{_SIGNS})?"
)
_JOINT = regex.compile(rf"[{_JOINTS}(, ]")
_LETTERS_AND_DIGITS = regex.compile(r"(?<=[\p{L}\p{M}])(?=\p{N})|(?<=\p{N})(?=[\p{L}\p{M}])")
_CAPITALS_INSIDE = regex.compile(r"(?<=\p{Ll})(?=\p{Lu})")
_RUN = regex.compile(
    rf"(?P<unspaced>[{UNSPACED}][{UNSPACED}\p{{M}}]*)|(?P<korean>\p{{Hangul}}+)|[^{UNSPACED}\p{{Hangul}}]+"
)
_OTHER_SCRIPTS = regex.compile(rf"[{UNSPACED}\p{{Hangul}}]")
# Groups to their end, and whether more digits follow, by which they are none: then no part of them is tried again.
_THOUSANDS = regex.compile(r"(?<![\d.,])\d{1,3}([.,' ])\d{3}(?:\1\d{3})*+(?=(?P<more>\1?\d)?)")
# An article before a word, which is not one word: l'eau, dell'ordine; but o'clock is.
_ELISION = regex.compile(r"(?!o')\p{L}+'\p{L}{3}", regex.IGNORECASE)
_DECIMAL = regex.compile(r"(\p{L}*)(\d+)[.,](\d+)(\p{L}*)")  # 1.5kg, v2.0
_ARABIC_PREFIX = regex.compile("^(?:وال|بال|كال|فال|لل|ال|و)(?=.{3})")


_HYPHEN_AT_LINE_END = regex.compile(r"(?<=[\p{L}\p{M}])[\-\u2010\u00ad][ \t]*+[\r\n\v\f]++[ \t]*+(?=\p{Ll})")


def read_words(text: str, language: str | None = None) -> list[Word]:
    """The words of a text with their forms, in order; `language` is one that passes `check_language`."""
    words: list[Word] = []
    plain_text = softly_plain(_HYPHEN_AT_LINE_END.sub(_joint, text))
    for token in _TOKEN.findall(plain_text):
        read = _words_of if len(token) <= LONGEST_KEPT else _words_of.__wrapped__
        words += read(token, language)
    if _DIGIT.search(plain_text):
        words += telephone_words(plain_text)
    return words


def _joint(hyphen: regex.Match[str]) -> str:
    """What is left of a hyphen at a line's end: nothing of a soft one, and a joint of others, as of "e-mail"."""
    return "" if hyphen[0].startswith("\u00ad") else "-"


def surface_words(text: str) -> list[str]:
    """The words of a text in lower case, as they are written; in scripts without spaces, its characters."""
    words: list[str] = []
    for token in _TOKEN.findall(lower(softly_plain(text))):
        for run in _RUN.finditer(token):
            words += CHARACTER.findall(run[0]) if run["unspaced"] else _JOINT.split(run[0])
    return [word for word in words if word]


def joined_words(text: str) -> list[str]:
    """The words of a text in lower case that have several parts, such as "e-mail" and "1 000", as they are written."""
    return [token for token in _TOKEN.findall(lower(softly_plain(text))) if _JOINT.search(token)]


@lru_cache(maxsize=2**17)  # InsuranceQA's 2.8 million words are some 30,000 different ones
def _words_of(token: str, language: str | None) -> tuple[Word, ...]:
    if not _OTHER_SCRIPTS.search(token):
        return (_spaced(token, language),)
    words: list[Word] = []
    for run in _RUN.finditer(token):
        if run["unspaced"]:
            words += unspaced_words(run[0], language)
        elif run["korean"]:
            words.append(tuple(dict.fromkeys([(run[0],), tuple(pairs(run[0]))])))
        elif any(map(str.isalnum, run[0])):
            words.append(_spaced(_JOINT.sub("", run[0][0]) + run[0][1:], language))
    return tuple(words)


def _spaced(token: str, language: str | None) -> Word:
    """The forms of a word of a script with spaces. Signs are a part of "c++", and may be one of "ID#"."""
    letters = token.rstrip("+#")
    valued = _THOUSANDS.sub(_without_grouping, letters)  # 1,000-2,000 is 1000-2000
    ways = [*_ways(letters)]
    if valued != letters:
        ways += _ways(valued)
    parts = ways[0]
    if len(parts) == 3:
        ways += [[parts[0] + parts[1], parts[2]], [parts[0], parts[1] + parts[2]]]
    joined = _joined(valued)
    if joined:
        ways.append(joined)
    forms_of: dict[tuple[str, ...], None] = {}
    for way in ways:
        spelled = [_spellings(lower(part, language), language) for part in _without_letter(way)]
        forms_of.update(dict.fromkeys(zip(*spelled, strict=True)))
    forms = tuple(forms_of)
    if letters == token or len(letters) > 2 or not letters.isalpha():
        return forms
    signed = (lower(token, language),)
    return (signed,) if len(letters) == 1 else (signed, *forms)


MOST_LETTERS_OF_CODE = 2
LEAST_DIGITS_OF_CODE = 3
"""Letters before so many digits that name nothing alone; one letter does not before any digits."""


def _without_letter(parts: list[str]) -> list[str]:
    """The parts of a word without the letters of a code: "E-403" is not asked for by an E."""
    kept: list[str] = []
    for place, part in enumerate(parts):
        number = parts[place + 1] if place + 1 < len(parts) else ""
        most = 1
        if len(number) >= LEAST_DIGITS_OF_CODE:
            most = MOST_LETTERS_OF_CODE
        if not (number.isdigit() and part.isalpha() and len(part) <= most):
            kept.append(part)
    return kept


def _without_grouping(number: regex.Match[str]) -> str:
    return number[0] if number["more"] else _JOINT.sub("", number[0])


def _ways(letters: str) -> Iterator[list[str]]:
    """The parts of a word, and what they consist of: letters and digits, words with capitals inside."""
    parts = [part for part in _JOINT.split(letters) if part]
    yield parts
    for boundary in (_LETTERS_AND_DIGITS, _CAPITALS_INSIDE):
        pieces = list(chain.from_iterable(map(boundary.split, parts)))
        if len(parts) < len(pieces) <= MOST_PIECES:
            parts = pieces
            yield parts


def _joined(token: str) -> list[str] | None:
    """The parts as one word; a number as its value, beside its unit; `None` where they would not be one."""
    number = _DECIMAL.fullmatch(token)
    if number:
        return [*filter(None, (number[1], f"{number[2]}.{number[3]}", number[4]))]
    joined = _JOINT.sub("", token)
    is_range = joined.isdigit() and ("." in token or len(joined) < DIGITS_JOINED)
    if is_range or len(joined) > MOST_JOINED or _ELISION.match(token):
        return None
    return [joined]


def _spellings(word: str, language: str | None) -> tuple[str, str, str, str]:
    """A word's stem; without accents; as it is where the accents were not typed, of which a stemmer may not know the
    ending ("informacion"); without "and" and "the", which Arabic writes as a part of the word."""
    turkish = language == "turkish"
    exact = _stem(look_alike(word), language)
    folded = _fold(word, turkish)
    bare_word = _ARABIC_PREFIX.sub("", folded)
    return exact, _fold(exact, turkish), _stem(folded, language), _fold(_stem(bare_word, language), turkish)


def _fold(word: str, turkish: bool) -> str:
    """Without accents; the Turkish ı is another letter than i, unless the other letters lack their marks, too."""
    if turkish and not TURKISH & set(word):
        return "ı".join(map(fold, word.split("ı")))
    return fold(word)


def _stem(word: str, language: str | None) -> str:
    return word if language is None or not word else stem(word, language)


# --- forms by which texts are compared ---

_WORD = regex.compile(r"[\p{L}\p{N}\p{M}]+")
_SAID = regex.compile(
    rf"[{UNSPACED}]\p{{M}}*"
    rf"|[\d--[{UNSPACED}]]+(?:[.,:/\-][\d--[{UNSPACED}]]+){{1,3}}"  # 8.8.8.8, 50/50: no repetition
    r"|(?<![\w\-])(\p{L}+)-\1(?![\w\-])"  # nor is Baden-Baden
    rf"|[\p{{L}}\p{{N}}\p{{M}}--[{UNSPACED}]]+[+#]*",
    regex.V1 | regex.IGNORECASE,
)
_SEPARATORS = " \t\r\n,;/|-"


def normalized(text: str) -> str:
    """A form that is equal for texts that differ only in case, white space and characters that look alike."""
    return " ".join(plain(text).casefold().split())


def bare(text: str) -> str:
    """The words of a text in lower case, with one space between them and without anything else."""
    return " ".join(_WORD.findall(lower(plain(text)).casefold()))


def without_repetition(text: str) -> str:
    """The part of a text that it repeats from beginning to end, such as "help" of "Help, help, HELP"; else the text.

    The last repetition may be cut off. Words are compared without case and punctuation. BM25 adds up the words of a
    question: typed ten times it would have ten times the score, far beyond what fusion and calibration were fitted to.
    """
    matches = list(_SAID.finditer(text))
    words = [match[0].casefold() for match in matches]
    if len(set(words)) == len(words):  # most questions
        return text
    period = _period(words)
    if 2 * period > len(words) and len(words) > 2:  # the last word may be cut off, too
        shorter = _period(words[:-1])
        if 2 * shorter <= len(words) - 1 and words[-1 - shorter].startswith(words[-1]):
            period = shorter
    if 2 * period > len(words):
        return text
    return text[: matches[period].start()].rstrip(_SEPARATORS)


def _period(words: list[str]) -> int:
    """The smallest p for which each word equals the one p words before it (Knuth, Morris & Pratt 1977); in O(N)."""
    border = [0] * len(words)  # of each beginning: the longest proper one that is its end, too
    length = 0
    for i in range(1, len(words)):
        while length and words[i] != words[length]:
            length = border[length - 1]
        length += words[i] == words[length]
        border[i] = length
    return len(words) - border[-1]


NEAR = 0.8
"""The Jaccard index of the sets of character 5-grams (`SIZE`) of two texts' words from which on they are near."""

SIZE = 5


def near_key(text: str) -> str:
    """A form that is equal for texts with the same words; of a text without words, the text in lower case."""
    return bare(text) or text.casefold()


def nearly_equal(text: str, other_text: str) -> bool:
    """Whether texts are equal but for case, punctuation and white space, or near."""
    if text == other_text:
        return True
    grams = _grams(text)
    others = _grams(other_text)
    return len(grams & others) >= NEAR * len(grams | others) - 1e-9


@keep(1_000_000)  # characters: each becomes a 5-gram, of some 100 bytes
def _grams(text: str) -> frozenset[int]:
    """The 5-grams of a text, as hashes; a shorter text is one."""
    key = near_key(text)
    n_grams = max(1, len(key) - SIZE + 1)
    return frozenset(hash(key[start : start + SIZE]) for start in range(n_grams))
