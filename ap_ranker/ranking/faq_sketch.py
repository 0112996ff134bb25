"""A sketch of the FAQ that a checkpoint was trained or calibrated on, without its texts, to tell another one from it.

Each text is one number, the smallest hash of its sequences of 32 characters: two texts have the same one with the
probability of the Jaccard index of their sets of these (MinHash, Broder 1997). So it mostly survives a mended typing
error, a changed sentence, or the boundaries of a passage elsewhere. Of a FAQ the smallest numbers are kept, hashed once
more: the sample of its texts that another FAQ with the same texts draws, too.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Annotated, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ap_ranker.settings import checked, settings
from ap_ranker.text.language_detection import LANGUAGES, main_language
from ap_ranker.text.reading import bare

KEPT = 1_024
"""Maximum number of hashes, 4 bytes each: 5.5 KB of text. Most FAQs are kept whole."""

SAME_FAQ = 0.2
"""Minimum overlap of a FAQ with what it was before.

Measured by `examples/same_faq.py`: after a year of changes (three in ten entries rewritten, as many added,
typing errors mended) FAQs overlap by .42 or more; those of other publishers about the same subject by at most .11.
"""

_WINDOW = 32  # characters; 16 are found in any other FAQ about the subject
_READ = 4_000  # characters of a text, so that a batch of long ones stays small
_BATCH = 1_000
_FACTOR, _OTHER_FACTOR = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)  # of SplitMix64


def _is_sample(text: str) -> bool:
    try:
        return len(b64decode(text, validate=True)) % 4 == 0
    except ValueError:
        return False


@settings
class FAQSketch:
    """What is kept of a FAQ in a checkpoint's `config.json`."""

    texts: Annotated[int, Field(ge=0)]  # their number
    language: Annotated[str, checked(LANGUAGES.__contains__, f"one of {', '.join(LANGUAGES)}")] | None
    hashes: Annotated[str, checked(_is_sample, "numbers of 4 bytes in Base64")]  # the smallest ones, ascending

    @classmethod
    def of(cls, texts: Sequence[str], language: str | None = None) -> Self:
        """The sketch of a FAQ by the texts that questions are matched with, in any order; a second for 30,000."""
        numbers = [_smallest_hashes(texts[start : start + _BATCH]) for start in range(0, len(texts), _BATCH)]
        kept = np.unique(np.concatenate(numbers))[:KEPT] if numbers else np.empty(0)
        return cls(len(texts), language, b64encode(kept.astype("<u4").tobytes()).decode())

    @classmethod
    def with_language(cls, texts: Sequence[str]) -> Self:
        """The same, with the detected language, as a checkpoint keeps it."""
        return cls.of(texts, main_language(texts))

    def overlap(self, other: FAQSketch) -> float:
        """The share of the smaller FAQ's texts that both have, from 0 to 1 (Szymkiewicz-Simpson), an estimate."""
        samples = [np.frombuffer(b64decode(each.hashes), "<u4") for each in (self, other)]
        # Beyond the last number of a full sample, nothing is known of its FAQ.
        end = min((sample[-1] for sample in samples if len(sample) >= KEPT), default=np.uint32(0xFFFFFFFF))
        ours, theirs = (sample[sample <= end] for sample in samples)
        return len(np.intersect1d(ours, theirs)) / max(1, min(len(ours), len(theirs)))

    def is_same(self, other: FAQSketch) -> bool:
        """Whether the other is this FAQ, perhaps after a year of changes, and not clearly another one."""
        return self.overlap(other) >= SAME_FAQ


def _smallest_hashes(texts: Sequence[str]) -> NDArray[np.uint32]:
    """(N,) the smallest hash of the windows of each of N texts, hashed once more."""
    padded = [bare(text[:_READ]).ljust(_WINDOW) for text in texts]
    codes = np.frombuffer("".join(padded).encode("utf-32-le", "surrogatepass"), np.uint32)
    hashes, width = codes.astype(np.uint64), 1
    while width < _WINDOW:  # of windows twice as wide, from those of their halves
        hashes = hashes[:-width] * _FACTOR + hashes[width:]
        hashes ^= hashes >> np.uint64(32)
        width *= 2
    lengths = np.array([len(text) for text in padded])
    ends = np.cumsum(lengths)
    bounds = np.stack([ends - lengths, ends - _WINDOW + 1], axis=1)  # of the windows within each text
    smallest = np.minimum.reduceat(np.append(_mixed(hashes), np.uint64(0)), bounds.ravel())[::2]
    return (_mixed(smallest) >> np.uint64(32)).astype(np.uint32)


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The values with their bits mixed, as SplitMix64 does (Steele, Lea & Flood 2014)."""
    values = (values ^ (values >> np.uint64(30))) * _FACTOR
    values = (values ^ (values >> np.uint64(27))) * _OTHER_FACTOR
    return values ^ (values >> np.uint64(31))
