"""Chinese words: a segmenter puts spaces between them, where by default each character is a token."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable, Sequence

from ap_ranker.errors import InputError

Segmenter = Callable[[str], str]
"""Puts spaces around each word of a text."""

# The characters that the tokenizer would otherwise take one by one. Only they go to the segmenter: it would tear words
# of other scripts at their accents.
_CHINESE = re.compile(
    "[\u4e00-\u9fff\u3400-\u4dbf\U00020000-\U0002a6df\U0002a700-\U0002ceaf\uf900-\ufaff\U0002f800-\U0002fa1f]+"
)


def find_segmenter(name: str | None) -> Segmenter | None:
    """Look a segmenter up by its name; `None` for none.

    Raises:
        InputError: no such segmenter, or its package is not installed.
    """
    if name is None:
        return None
    if name not in SEGMENTERS:
        raise InputError(f"Unknown segmenter {name!r}: expected one of {', '.join(SEGMENTERS)}.")
    return SEGMENTERS[name]()


def _jieba() -> Segmenter:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its own old-fashioned imports and string escapes
            import jieba
    except ImportError as error:
        raise InputError('The segmenter jieba needs an extra: pip install "ap-ranker[chinese]"') from error
    jieba.setLogLevel(logging.WARNING)  # it tells stderr how it loads its dictionary

    def segment(text: str) -> str:
        return _CHINESE.sub(lambda run: f" {' '.join(jieba.cut(run[0]))} ", text)

    return segment


def origins(text: str, segmented: str) -> Sequence[int]:
    """For each character of a segmented text its place in the text; that of the next one for a space put in."""
    if segmented == text:
        return range(len(text))
    places, place = [], 0
    for character in segmented:
        places.append(place)
        if text[place : place + 1] == character:
            place += 1
    return places


SEGMENTERS: dict[str, Callable[[], Segmenter]] = {"jieba": _jieba}
"""Segmenters by the name a user types."""
