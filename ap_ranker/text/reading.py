"""How a text becomes words: the one reading of BM25, known wordings, synonyms and suggestions.

Models cut the same plain characters into tokens (`tokenizer.py`).

    text --plain--> characters --lower--> case --split--> words --stem, fold--> forms of each word

1. Characters are made plain (`ap_ranker.text.characters`).
2. Case: lower case; Turkish has its own pair of I and ı where the language is Turkish, and İ is i everywhere.
3. Words are runs of letters, their marks and digits. Symbols and punctuation end a word, but for "c++", "c#" and "a+".
4. Scripts without spaces between words (Chinese, Japanese, Thai, Lao, Khmer, Burmese) are read as pairs of neighbouring
   characters, as Lucene's CJK analyser does, and Chinese characters one by one, too; a Korean word whole or as pairs.
   Where the language is Thai, a segmenter finds the words, and each counts as it is or as pairs.
5. Each word has forms, which are alternatives: its parts or the parts joined ("e-mail", "email"; "401(k)", "401k";
   "iPhone15"), the stem, and the stem without accents. A question's word counts by the form that fits a text best.

Below are the forms by which whole texts are compared: as the same question, as the same text, without repetition.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import chain

import regex

from ap_ranker.text.characters import SOFT, TURKISH, UNSPACED, fold, look_alike, lower, plain, softly_plain
from ap_ranker.text.languages import bm25_segmenter, stem

READING_VERSION = 3  # version of how a text becomes words: a saved index or vocabulary must not outlive a change

Form = tuple[str, ...]  # terms that together stand for a word

Word = tuple[Form, ...]  # the alternative forms of a word

MOST_PIECES = 4
"""Parts of letters and of digits up to which a word is also read in such parts: more are a code, not words."""

MOST_JOINED = 30  # characters up to which parts are joined: longer ones are addresses and paths

DIGITS_JOINED = 6
"""Digits from which parts of digits alone are joined: a telephone number is, a range such as 10-20 is not."""

_JOINTS = rf"\-'`._&{SOFT}"
_TOKEN = regex.compile(
    rf"[\p{{L}}\p{{N}}](?:[\p{{L}}\p{{N}}\p{{M}}]|[{_JOINTS}(](?=[\p{{L}}\p{{N}}])|(?<=\d),(?=\d))*(?:[+#]+(?![\p{{L}}]))?"
)
_JOINT = regex.compile(rf"[{_JOINTS}(,]")
_LETTERS_AND_DIGITS = regex.compile(r"(?<=[\p{L}\p{M}])(?=\p{N})|(?<=\p{N})(?=[\p{L}\p{M}])")
_CAPITALS_INSIDE = regex.compile(r"(?<=\p{Ll})(?=\p{Lu})")
_RUN = regex.compile(
    rf"(?P<unspaced>[{UNSPACED}][{UNSPACED}\p{{M}}]*)|(?P<korean>\p{{Hangul}}+)|[^{UNSPACED}\p{{Hangul}}]+"
)
_OTHER_SCRIPTS = regex.compile(rf"[{UNSPACED}\p{{Hangul}}]")
_CHARACTER = regex.compile(r"\X")
_CHINESE = regex.compile(r"\p{Han}")
_THOUSANDS = regex.compile(r"\d{1,3}(?:[.,']\d{3})+")
# An article before a word, which is not one word: l'eau, dell'ordine; but o'clock is.
_ELISION = regex.compile(r"(?!o')\p{L}+'\p{L}{3}", regex.IGNORECASE)
_DECIMAL = regex.compile(r"(\d+)[.,](\d+)")
_ARABIC_PREFIX = regex.compile("^(?:وال|بال|كال|فال|لل|ال|و)(?=.{3})")


def read_words(text: str, language: str | None = None) -> list[Word]:
    """The words of a text with their forms, in order; `language` is one that passes `check_language`."""
    tokens = _TOKEN.findall(softly_plain(text))
    return [word for token in tokens for word in _words_of(token, language)]


def terms(words: list[Word]) -> Iterator[str]:
    """What an index of texts with these words holds: the terms of all forms, those of one word once."""
    for word in words:
        yield from word[0] if len(word) == 1 else dict.fromkeys(chain.from_iterable(word))


def surface_words(text: str) -> list[str]:
    """The words of a text in lower case, as they are written; in scripts without spaces, its characters."""
    return [
        part
        for token in _TOKEN.findall(lower(softly_plain(text)))
        for run in _RUN.finditer(token)
        for part in (_CHARACTER.findall(run[0]) if run["unspaced"] else _JOINT.split(run[0]))
        if part
    ]


@lru_cache(maxsize=2**17)  # InsuranceQA's 2.8 million words are some 30,000 different ones
def _words_of(token: str, language: str | None) -> tuple[Word, ...]:
    letters = token.rstrip("+#")
    if letters != token and len(letters) <= 2 and letters.isalpha():
        return (((lower(token, language),),),)
    if not _OTHER_SCRIPTS.search(letters):
        return (_spaced(letters, language),)
    words: list[Word] = []
    for run in _RUN.finditer(letters):
        if run["unspaced"]:
            words += _unspaced(run[0], language)
        elif run["korean"]:
            words.append(tuple(dict.fromkeys([(run[0],), tuple(_pairs(run[0]))])))
        elif any(map(str.isalnum, run[0])):
            words.append(_spaced(_JOINT.sub("", run[0][0]) + run[0][1:], language))
    return tuple(words)


def _unspaced(run: str, language: str | None) -> Iterator[Word]:
    """Words where the language is one with a segmenter, each with its pairs as the other form; pairs elsewhere."""
    segmenter = bm25_segmenter(language)
    for part, is_word in segmenter.words(run) if segmenter else [(run, False)]:
        if is_word:
            yield tuple(dict.fromkeys([(part,), tuple(_singles_and_pairs(part))]))
        else:
            yield from (((term,),) for term in _singles_and_pairs(part))


def _singles_and_pairs(run: str) -> Iterator[str]:
    characters = _CHARACTER.findall(run)
    for i, character in enumerate(characters):
        if _CHINESE.match(character) or len(characters) == 1:
            yield character
        if i:
            yield characters[i - 1] + character


def _pairs(run: str) -> list[str]:
    return [run[i : i + 2] for i in range(max(1, len(run) - 1))]


def _spaced(token: str, language: str | None) -> Word:
    """The forms of a word of a script with spaces."""
    parts = [part for part in _JOINT.split(token) if part]
    ways = [parts]
    for boundary in (_LETTERS_AND_DIGITS, _CAPITALS_INSIDE):
        pieces = [piece for part in ways[-1] for piece in boundary.split(part)]
        if len(ways[-1]) < len(pieces) <= MOST_PIECES:
            ways.append(pieces)
    if len(parts) == 3:
        ways += [[parts[0] + parts[1], parts[2]], [parts[0], parts[1] + parts[2]]]
    if joined := _joined(token, parts):
        ways.append([joined])
    spelled = ([_spellings(lower(part, language), language) for part in way] for way in ways)
    return tuple(dict.fromkeys(chain.from_iterable(zip(*parts, strict=True) for parts in spelled)))


def _joined(token: str, parts: list[str]) -> str | None:
    """The parts as one word, or a number as its value; `None` where they would not be one."""
    if _THOUSANDS.fullmatch(token):
        return "".join(parts)
    if decimal := _DECIMAL.fullmatch(token):
        return f"{decimal[1]}.{decimal[2]}"
    joined = "".join(parts)
    is_range = joined.isdigit() and ("." in token or len(joined) < DIGITS_JOINED)
    return None if is_range or len(joined) > MOST_JOINED or _ELISION.match(token) else joined


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
    return "ı".join(map(fold, word.split("ı"))) if turkish and not TURKISH & set(word) else fold(word)


def _stem(word: str, language: str | None) -> str:
    return word if language is None or not word else stem(word, language)


# --- forms by which texts are compared ---

_WORD = regex.compile(r"[\p{L}\p{N}\p{M}]+")
_JOINED_IN_KEYS = regex.compile(rf"(?<=[\p{{L}}\p{{M}}])['`.\-{SOFT}]+(?=\p{{L}})")
_FACES = "\u2639\u263a\u2763\u2764\u270a-\u270d\U0001f440-\U0001f450\U0001f48b-\U0001f49f\U0001f600-\U0001f64f"
_FACES += "\U0001f90c-\U0001f93a\U0001f970-\U0001f97a\U0001fae0-\U0001faf8"
_KEPT = regex.compile(
    rf"[\p{{L}}\p{{N}}\p{{M}}]+(?:(?<=\p{{L}})[+#]+(?!\p{{L}}))?"  # a word
    rf"|(?<![^\s(])(?:-(?=\d)|\.(?=\p{{L}}))"  # -5, .NET
    rf"|[[\p{{S}}@#%&‰]--[{_FACES}]]",
    regex.V1,
)
_RAISED = regex.compile(r"(?<=\d)(?=[²³¹⁰-⁹])")
_DOTLESS = regex.compile(r"\w*ı\w*")
_SAID = regex.compile(rf"[{UNSPACED}]\p{{M}}*|[\p{{L}}\p{{N}}\p{{M}}--[{UNSPACED}]]+", regex.V1)
_SEPARATORS = " \t\r\n,;/|-"


def question_key(text: str) -> str:
    """A form that is equal for questions that are the same word for word, whatever keyboard they were typed on.

    Case, white space, punctuation, invisible characters, emoji of faces and hands, and vowel signs that only some
    keyboards write do not count; letters with their accents, digits and signs do.
    """
    apart = _RAISED.sub(" ", text)
    lowered = _DOTLESS.sub(lambda word: _with_dots(word[0]), look_alike(lower(softly_plain(apart)).casefold()))
    return " ".join(_KEPT.findall(_JOINED_IN_KEYS.sub("", lowered).replace(SOFT, ""))) or " ".join(lowered.split())


def _with_dots(word: str) -> str:
    """A capital I may have been either letter; in a word with other letters of Turkish ("IŞIK") it is ı."""
    return word.replace("ı", "i") if TURKISH & set(word) else word


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
    return text if 2 * period > len(words) else text[: matches[period].start()].rstrip(_SEPARATORS)


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
