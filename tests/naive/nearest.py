"""The rules of `ap_ranker/text/nearest_word.py`, each tried on every known word."""

from __future__ import annotations

import unicodedata


def changes(x: str, y: str) -> int:
    """Optimal string alignment, cell by cell."""
    table = [[max(i, j) if not i or not j else 0 for j in range(len(y) + 1)] for i in range(len(x) + 1)]
    for i in range(1, len(x) + 1):
        for j in range(1, len(y) + 1):
            ways = [table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + (x[i - 1] != y[j - 1])]
            if i > 1 and j > 1 and x[i - 2 : i] == y[j - 1] + y[j - 2]:
                ways.append(table[i - 2][j - 2] + 1)
            table[i][j] = min(ways)
    return table[-1][-1]


def bare(word: str) -> str:
    """Without accents, by Unicode's decomposition, letter by letter; of other scripts only what the tests have."""
    letters = {"ß": "ss", "ł": "l", "ø": "o", "đ": "d", "ı": "i", "æ": "ae", "œ": "oe", "ς": "σ", "ё": "е"}
    letters |= {"ð": "d", "þ": "th", "ħ": "h", "ŋ": "n"}
    kept = ""
    for letter in "".join(letters.get(letter, letter) for letter in word):
        base, *marks = unicodedata.normalize("NFD", letter)
        latin = unicodedata.name(base, "").startswith(("LATIN", "GREEK"))
        kept += base if latin and all("\u0300" <= mark <= "\u036f" for mark in marks) else letter
    return kept


def plainly(word: str, known: list[str]) -> list[str]:
    """The words that an unknown word of letters is read as."""
    if not (5 <= len(word) <= 50 and word.isalpha()):
        return []
    alike = [k for k in known if len(k) >= 4 and k.isalpha() and bare(k) == bare(word)]
    if alike:
        return [alike[0]]
    beginnings = [k for k in known if word.startswith(k) and len(k) >= 4 and 1 <= len(word) - len(k) <= 3]
    if beginnings:
        return [max(beginnings, key=len)]
    most = 2 if len(word) >= 8 else 1
    letters = [k for k in known if len(k) >= 4 and k.isalpha()]
    near = [k for k in letters if bare(k)[0] == bare(word)[0] and changes(bare(word), bare(k)) <= most]
    if near:
        return [min(near, key=lambda k: (changes(bare(word), bare(k)), known.index(k)))]
    pairs = [(k, word[len(k) :]) for k in known if len(k) >= 3 and word.startswith(k) and word[len(k) :] in known]
    return list(max((pair for pair in pairs if len(pair[1]) >= 3), key=lambda pair: len(pair[0]), default=()))
