"""Segmentation of Chinese into words, separated by spaces; without it each character is a token."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable, Sequence

from ap_ranker.errors import InputError

Segmenter = Callable[[str], str]
"""Puts spaces around each word of a text."""

# The characters that the tokenizer would otherwise split one by one. Only they are segmented: a segmenter would split
# words of other scripts at their accents.
_CHINESE = re.compile(
    "[\u4e00-\u9fff\u3400-\u4dbf\U00020000-\U0002a6df\U0002a700-\U0002ceaf\uf900-\ufaff\U0002f800-\U0002fa1f]+"
)


def find_segmenter(name: str | None) -> Segmenter | None:
    """Look up a segmenter by its name; `None` for none.

    Raises:
        InputError: the segmenter does not exist, or its package is not installed.
    """
    if name is None:
        return None
    if name not in SEGMENTERS:
        raise InputError(f"Unknown segmenter {name!r}: expected one of {', '.join(SEGMENTERS)}.")
    return SEGMENTERS[name]()


def _jieba() -> Segmenter:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecated imports and string escapes in jieba itself
            import jieba
    except ImportError as error:
        raise InputError('The segmenter jieba needs an extra: pip install "ap-ranker[chinese]"') from error
    jieba.setLogLevel(logging.WARNING)  # it logs the loading of its dictionary to stderr

    def segment(text: str) -> str:
        return _CHINESE.sub(lambda run: f" {' '.join(jieba.cut(run[0]))} ", text)

    return segment


def origins(text: str, segmented: str) -> Sequence[int]:
    """The offset in the text of each character of a segmented text; for an added space, that of the next character."""
    if segmented == text:
        return range(len(text))
    offsets, offset = [], 0
    for character in segmented:
        offsets.append(offset)
        if text[offset : offset + 1] == character:
            offset += 1
    return offsets


SEGMENTERS: dict[str, Callable[[], Segmenter]] = {"jieba": _jieba}
"""Segmenters by name."""
