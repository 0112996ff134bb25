"""Identifies the language of a text by its script and, in Latin script, by its most common words.

This finds the French entries of an English FAQ without a library: libraries that guess from letters are often wrong on
a question of five words, and need a model of their own. Where the words do not suffice, there is no guess.
"""

from __future__ import annotations

import re
from collections import Counter

_SCRIPTS = {
    "Greek": re.compile("[\u0370-\u03ff]"),
    "Cyrillic": re.compile("[\u0400-\u052f]"),
    "Hebrew": re.compile("[\u0590-\u05ff]"),
    "Arabic": re.compile("[\u0600-\u06ff]"),
    "Devanagari": re.compile("[\u0900-\u097f]"),
    "Thai": re.compile("[\u0e00-\u0e7f]"),
    "Hangul": re.compile("[\uac00-\ud7af]"),
    "Japanese": re.compile("[\u3040-\u30ff]"),
    "Chinese": re.compile("[\u4e00-\u9fff]"),
}
_LATIN = re.compile("[a-z\u00c0-\u024f]", re.IGNORECASE)
# Words that are also common in another of these languages are left out where they would mislead ("a", "die", "no").
_WORDS = {
    "English": "the and of to is are you your how what can do does with for this that it my have not will be if in on",
    "German": "der das und ist nicht ich sie mein wie kann ein eine mit für auf den zu dem von wird bei sind oder",
    "French": "le les des et est une un vous je mon comment que pour dans pas avec sur ce qui du puis votre au",
    "Spanish": "el los las y es una un que cómo qué para mi su del se puedo más lo al está cuando debe si",
    "Italian": "il gli è una un che non mio di del della si posso sono più nel quando anche dopo devo ho alla",
    "Portuguese": "os é uma um que não meu da em se posso são mais na ao pelo você quando dos das ou está",
    "Dutch": "de het een en ik mijn hoe kan met voor te dat zijn je aan wordt bij niet deze ook naar",
}
_COMMON = {name: frozenset(words.split()) for name, words in _WORDS.items()}
_MIN_WORDS = 3
_MIN_SHARE = 0.15  # of the words; names and titles bring in two or three words of another language


def language(text: str) -> str | None:
    """The language, or the script if that is not Latin; `None` if unclear."""
    beginning = text[:400]
    if not beginning.isascii():
        letters = Counter({name: len(script.findall(beginning)) for name, script in _SCRIPTS.items()})
        if letters["Japanese"]:
            letters["Japanese"] += letters.pop("Chinese")  # kana stand between Chinese characters
        name, count = letters.most_common(1)[0]
        if count > len(_LATIN.findall(beginning)):
            return name
    words = re.findall(r"[^\W\d_]+", beginning.lower())
    hits = Counter(name for word in words for name, common in _COMMON.items() if word in common)
    (best, most), (_, second) = [*hits.most_common(2), ("", 0), ("", 0)][:2]
    sure = most >= max(_MIN_WORDS, _MIN_SHARE * len(words)) and most >= 2 * second
    return best if sure else None
