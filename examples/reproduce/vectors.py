"""Word vectors that lack words, completed from others that have them.

python examples/reproduce/vectors.py glove.6B.100d.txt.gz glove-50d glove.6B.100d.completed.txt.gz

A linear map from the second vectors to the first, learnt on the words that both have, says where the missing ones lie
(the translation matrix of Mikolov, Le & Sutskever, Exploiting Similarities among Languages for Machine Translation,
2013, section 4).
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from ap_ranker.cli.mistakes import mistakes_reported
from ap_ranker.errors import InputError
from ap_ranker.files import written_whole
from ap_ranker.text.vectors import WordVectors, read_vectors

LEARNT_ON = 20_000
"""The most frequent shared words: rare ones have the noisier vectors."""

console = Console(soft_wrap=True)


def complete(
    wanted: Annotated[str, typer.Argument(help="Vectors that lack words, as for `ap-ranker train`.")],
    other: Annotated[str, typer.Argument(help="Vectors that have them.")],
    target: Annotated[Path, typer.Argument(help="The file to write, as GloVe's, gzipped.")],
) -> None:
    """Write the first vectors, and the words that only the second ones have where a linear map puts them."""
    found = completed(read_vectors(wanted), read_vectors(other))
    target.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(target) as draft, gzip.open(draft, "wt", encoding="utf-8", compresslevel=1) as file:
        for word, vector in zip(found.words, found.matrix, strict=True):
            file.write(f"{word} {' '.join(f'{number:.5g}' for number in vector)}\n")
    console.print(f"{target.name}: {len(found.words):,} words of {found.dimensions} dimensions", highlight=False)


def completed(wanted: WordVectors, other: WordVectors) -> WordVectors:
    """All words of `other`, in its order, and then those that only `wanted` has.

    A word's vector is that of `wanted` if it has one, and else W x, with x its vector in `other` and W of least squares
    over the shared words. What W x loses in length, as any guess does, is given back to all of them alike.

    Args:
        wanted: (V, D) vectors.
        other: (V', D') vectors; their most frequent words stand first.

    Raises:
        InputError: they share fewer words than `other` has dimensions.
    """
    place = {word: row for row, word in enumerate(wanted.words)}
    shared = [(row, place[word]) for row, word in enumerate(other.words) if word in place][:LEARNT_ON]
    if len(shared) <= other.dimensions:
        raise InputError(
            f"Expected more shared words than the {other.dimensions} dimensions to map, found {len(shared)}: "
            "are both vectors of one language, in one spelling?"
        )
    rows, places = map(list, zip(*shared, strict=True))
    sources = np.c_[other.matrix, np.ones(len(other.words))].astype(np.float64)  # 1: W shifts, too
    targets = wanted.matrix[places].astype(np.float64)
    W, *_ = np.linalg.lstsq(sources[rows], targets, rcond=None)  # noqa: N806 - the paper's name
    length = np.linalg.norm(targets, axis=1).mean() / np.linalg.norm(sources[rows] @ W, axis=1).mean()
    matrix = (sources @ W * length).astype(np.float32)
    known = [(row, place[word]) for row, word in enumerate(other.words) if word in place]
    for row, own in known:
        matrix[row] = wanted.matrix[own]
    have = set(other.words)
    only = [row for row, word in enumerate(wanted.words) if word not in have]
    words = [*other.words, *(wanted.words[row] for row in only)]
    return WordVectors(words, np.concatenate([matrix, wanted.matrix[only]]))


if __name__ == "__main__":
    with mistakes_reported():
        typer.run(complete)
