"""Finds the word vectors that a model begins with: in a file, a package, a pretrained encoder or a checkpoint."""

from __future__ import annotations

from pathlib import Path

from ap_ranker.errors import InputError
from ap_ranker.models.pretrained import DEFAULT_ENCODER
from ap_ranker.ranking.checkpoint import is_checkpoint
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.text.batch import UNKNOWN
from ap_ranker.text.word_vectors import PretrainedVectors, WordVectors, read_vectors
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.encoder_vectors import SPREAD, vectors_of_encoder
from ap_ranker.training.progress import Progress

ENCODER = "encoder"
"""The name of word vectors from the default encoder; `encoder:NAME` is another one."""


def find_vectors(
    source: str, size: int | None, on_progress: Progress = lambda what, done, total: None
) -> PretrainedVectors:
    """Word vectors from a file, a package, a pretrained encoder or a checkpoint.

    Args:
        source: as for `read_vectors`; or `encoder`, or `encoder:NAME` with the folder or the hub name of an encoder; or
            the folder of a checkpoint of a model of words.
        size: D of vectors from an encoder, by default and at most 300; a file or a checkpoint decides itself.
        on_progress: called while words are read.

    Raises:
        InputError: as `read_vectors`, `read_encoder` or `vectors_of_checkpoint`.
    """
    kind, _, name = source.partition(":")
    if kind == ENCODER:
        return vectors_of_encoder(name or DEFAULT_ENCODER, size, on_progress)
    if is_checkpoint(Path(source)):
        return vectors_of_checkpoint(Ranker.from_pretrained(source, "cpu"))
    return read_vectors(source)


def named_vectors(
    config: TrainingConfig, on_progress: Progress = lambda what, done, total: None
) -> PretrainedVectors | None:
    """The word vectors that the settings name; `None` if they name none.

    Raises:
        InputError: as `find_vectors`.
    """
    if config.embeddings is None:
        return None
    return find_vectors(config.embeddings, config.embedding_size, on_progress)


def vectors_of_checkpoint(ranker: Ranker) -> WordVectors:
    """The vectors that a model has learnt of its words, each as long as the model counts the word.

    A convolution that copies them, `copy_words` of `ap-cnn`, begins with about the scores of `bow-idf` whose vectors
    they are: an unknown word, too, counts as in the checkpoint, in `bow-idf` not at all. All are scaled to the spread
    of the published word vectors, for which the learning rates were chosen.

    Raises:
        InputError: the model has no word vectors, or they are all equal.
    """
    vectors = ranker.model.word_vectors()
    if vectors is None:
        name = ranker.config.model if ranker.config else "another model"
        raise InputError(f"{ranker.source}: expected a checkpoint of a model with word vectors, found {name}.")
    words, table = ranker.tokenizer.words[UNKNOWN + 1 :], vectors.float().cpu().numpy()
    spread = float(table[UNKNOWN + 1 :].std()) if words else 0.0
    if not spread:
        raise InputError(f"{ranker.source}: expected word vectors with different numbers, found equal ones.")
    table = table * (SPREAD / spread)
    return WordVectors(words, table[UNKNOWN + 1 :], f"the checkpoint {ranker.source}", unknown=table[UNKNOWN])
