"""Word vectors less their mean: python examples/reproduce/center.py insuranceqa FOLDER glove.txt.gz centered.txt.gz

The mean is that of the words of the training texts, each as often as it occurs there (Zipfian centering: Yokoi et al.,
Zipfian Whitening, NeurIPS 2024). In GloVe the frequent words have most of their length in common, so that the means of
any two texts point nearly the same way.
"""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from protocols import PROTOCOLS, read_parts
from rich.console import Console

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.errors import InputError
from ap_ranker.files import atomic_file
from ap_ranker.text.tokenizer import split_words
from ap_ranker.text.word_vectors import read_vectors
from ap_ranker.training.config import TrainingConfig

console = Console(soft_wrap=True)


def center(
    name: Annotated[str, typer.Argument(help=f"The data set: {', '.join(PROTOCOLS)}.")],
    data: Annotated[Path, typer.Argument(help="The folder with the data set's files.")],
    embeddings: Annotated[Path, typer.Argument(help="The word vectors.")],
    target: Annotated[Path, typer.Argument(help="The file to write, NAME.txt.gz.")],
) -> None:
    """Write word vectors less the mean of the words of the training texts.

    Raises:
        InputError: an unknown data set, a file that is missing or cannot be read, no known word in the texts.
    """
    if name not in PROTOCOLS:
        raise InputError(f"{name}: expected one of {', '.join(PROTOCOLS)}.")
    training, vectors = read_parts(name, data, TrainingConfig().match).training, read_vectors(embeddings)
    texts = [question.text for question in training.questions] + [answer.text for answer in training.answers]
    counts = Counter(word for text in texts for word in split_words(text))
    occurrences = np.array([counts[word] for word in vectors.words], dtype=np.float64)
    if not occurrences.any():
        raise InputError(f"{embeddings}: expected vectors of words of {data}, found of none.")
    mean = np.average(vectors.matrix.astype(np.float64), axis=0, weights=occurrences)
    lines = (
        f"{word} {' '.join(f'{number:.5f}' for number in row)}\n"
        for word, row in zip(vectors.words, vectors.matrix - mean, strict=True)
    )
    with atomic_file(target) as draft:
        draft.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))
    length = np.sqrt(np.average((vectors.matrix**2).sum(axis=1), weights=occurrences))
    console.print(f"length of the mean {np.linalg.norm(mean):.2f}, of the words {length:.2f}", highlight=False)


if __name__ == "__main__":
    with report_user_errors():
        typer.run(center)
