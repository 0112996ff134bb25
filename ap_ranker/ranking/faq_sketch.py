"""A sketch of the FAQ that a checkpoint was trained or calibrated on, without its texts, to tell another one from it.

Each text is one number, the smallest hash of its sequences of 32 characters: two texts have the same one with the
probability of the Jaccard index of their sets of these (MinHash, Broder 1997). So it mostly survives a mended typing
error, a changed sentence, or the boundaries of a passage elsewhere. Of a FAQ the smallest numbers are kept, hashed once
more: the sample of its texts that another FAQ with the same texts draws, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ap_ranker.settings import checked, settings
from ap_ranker.text.language_detection import LANGUAGES, main_language
from ap_ranker.text.reading import bare

KEPT = 512
"""Maximum number of hashes, 4 KB. Most FAQs are kept whole."""

SAME_FAQ = 0.2
"""Minimum overlap of a FAQ with what it was before.

Measured on 41 FAQs by `examples/same_faq.py`: a year later (three in ten entries rewritten, as many added, typing
errors mended) they overlap by .4 or more; two that are about the same, partly copied from each other, by at most .14.
"""

_WINDOW = 32  # characters; 16 are also found in other FAQs about the subject
_READ = 4_000  # characters of a text, so that a batch of long ones takes little memory
_BATCH = 1_000
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_POWERS = _FACTOR ** np.arange(_WINDOW, dtype=np.uint64)  # of a polynomial hash modulo 2**64 (Karp & Rabin 1987)


@settings
class FAQSketch:
    """What a checkpoint's `config.json` keeps of a FAQ."""

    texts: Annotated[int, Field(ge=0)]  # their number
    language: Annotated[str, checked(LANGUAGES.__contains__, f"one of {', '.join(LANGUAGES)}")] | None
    hashes: Annotated[str, Field(pattern="^([0-9a-f]{8})*$")]  # the smallest ones, ascending, little-endian

    @classmethod
    def of(cls, texts: Sequence[str], language: str | None = None) -> Self:
        """The sketch of a FAQ by the texts that questions are matched with, in any order; a second for 15,000."""
        numbers: list[NDArray[np.uint32]] = []
        for start in range(0, len(texts), _BATCH):
            numbers.append(_smallest_hashes(texts[start : start + _BATCH]))
        smallest: NDArray[np.uint32] = np.empty(0, np.uint32)
        if numbers:
            smallest = np.unique(np.concatenate(numbers))[:KEPT]
        hashes = smallest.astype("<u4").tobytes().hex()
        return cls(len(texts), language, hashes)

    @classmethod
    def with_language(cls, texts: Sequence[str]) -> Self:
        """The same, with the detected language, as a checkpoint keeps it."""
        return cls.of(texts, main_language(texts))

    def _numbers(self) -> NDArray[np.uint32]:
        """The hashes as numbers, ascending."""
        return np.frombuffer(bytes.fromhex(self.hashes), "<u4")

    def overlap(self, other: FAQSketch) -> float:
        """The share of the smaller FAQ's texts that both have, from 0 to 1 (Szymkiewicz-Simpson), an estimate."""
        own_hashes = self._numbers()
        other_hashes = other._numbers()
        # Beyond the last number of a full sample, nothing is known of its FAQ.
        end = np.uint32(0xFFFFFFFF)
        for sample in (own_hashes, other_hashes):
            if len(sample) >= KEPT:
                end = min(end, sample[-1])
        own_hashes = own_hashes[own_hashes <= end]
        other_hashes = other_hashes[other_hashes <= end]
        return len(np.intersect1d(own_hashes, other_hashes)) / max(1, min(len(own_hashes), len(other_hashes)))

    def changed_share(self, later: FAQSketch) -> float:
        """The share of a later FAQ's texts that this one does not have, from 0 to 1, an estimate."""
        common = self.overlap(later) * min(self.texts, later.texts)
        return 1 - min(1.0, common / max(1, later.texts))

    def nearest_form(self, forms_of_texts: Sequence[Sequence[str]]) -> FAQSketch:
        """The sketch of a FAQ that is nearest to this one, given the forms of each text, as with its stored question
        and without: the texts of a training are in one of them, and the answers of `ap-ranker split` are without."""
        return max(map(FAQSketch.of, zip(*forms_of_texts, strict=True)), key=self.overlap)

    def is_same(self, other: FAQSketch) -> bool:
        """Whether the other is this FAQ, perhaps after a year of changes, and not clearly another one."""
        return self.overlap(other) >= SAME_FAQ


def _smallest_hashes(texts: Sequence[str]) -> NDArray[np.uint32]:
    """(N,) the smallest hash of the windows of each of N texts, hashed once more."""
    padded = [bare(text[:_READ]).ljust(_WINDOW) for text in texts]
    codes = np.frombuffer("".join(padded).encode("utf-32-le", "surrogatepass"), np.uint32)
    hashes = np.convolve(codes.astype(np.uint64), _POWERS, "valid")
    ends = np.cumsum([len(text) for text in padded])
    # From the first to the last window within a text; every second interval is of windows across two texts.
    bounds = np.stack([np.append(0, ends[:-1]), ends - _WINDOW + 1], axis=1)
    smallest = np.minimum.reduceat(np.append(hashes, np.uint64(0)), bounds.ravel())[::2]
    return (smallest * _FACTOR >> np.uint64(32)).astype(np.uint32)
