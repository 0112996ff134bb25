"""Which checkpoint a search ranks with where nobody names one: the latest that its training recommends.

A step that makes a search worse is never taken by itself: of the checkpoints in the folder that the documentation
trains, and of the earlier ones that are kept beside it, the latest is served whose verdict recommends it; without any,
the encoder as it was pretrained.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ap_ranker.errors import InputError
from ap_ranker.ranking.checkpoint import CheckpointConfig, find_checkpoint, read_checkpoint_config
from ap_ranker.ranking.earlier_checkpoints import earlier_checkpoints
from ap_ranker.ranking.ranker import Ranker

TRAIN = "Train it on questions and answers of your own: ap-ranker train FAQ.csv --output checkpoints/faq"

MORE_QUESTIONS = "More questions of users help, each with the entry that answers it: a column `wordings`."


@dataclass(frozen=True)
class Choice:
    """The folder of a checkpoint, `None` for an untrained encoder; and in one or two sentences, why."""

    folder: Path | None
    why: str


def choose_checkpoint(folder: Path) -> Choice:
    """The latest recommended one of the checkpoint in a folder and the earlier ones beside it.

    One of an earlier release, which has no verdict, counts as recommended, as that release served it. InputError if the
    folder holds something else, or a damaged checkpoint: it may be the one that is meant.
    """
    if not folder.exists():
        return Choice(None, f"No checkpoint in {folder}, so an encoder ranks that has learnt nothing from you. {TRAIN}")
    config = read_checkpoint_config(find_checkpoint(folder))
    if is_recommended(config):
        return Choice(folder, f"{folder} ranks: {reason(config)}.")
    refused = f"{folder} is not recommended: {reason(config)}."
    for earlier in reversed(earlier_checkpoints(folder)):
        try:
            before = read_checkpoint_config(earlier)
        except InputError:  # damaged, and nobody has asked for it
            continue
        if is_recommended(before):
            return Choice(earlier, f"{refused} {earlier}, the one before, ranks.")
    return Choice(None, f"{refused} The encoder ranks as it was pretrained. {MORE_QUESTIONS}")


def is_recommended(config: CheckpointConfig) -> bool:
    """Whether the training of a checkpoint recommends it."""
    return config.verdict is None or config.verdict.recommended


def reason(config: CheckpointConfig) -> str:
    """What the verdict of a checkpoint rests on, as the end of a sentence."""
    verdict = config.verdict
    if verdict is None:
        return "nothing compares it with the search before it"
    if verdict.n_questions == 0:
        return "there was no question to compare it with the search before it"
    return f"compared with the search before ({verdict.before}), {verdict.comparison}"


def check_same_language(ranker: Ranker, language: str | None) -> None:
    """InputError if somebody names another language of BM25's stemmer than the one that a checkpoint was made with."""
    if language not in (None, ranker.bm25_language):
        raise InputError(
            f"{ranker.source}: expected the language that it was trained with ({ranker.bm25_language or 'none'}), "
            f"found --language {language}. Leave --language out, or train again with it."
        )
