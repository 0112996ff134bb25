"""What it is worth to read an unknown word as the nearest known one, and what typing errors cost.

python examples/unknown_words/run.py checkpoints/teacher checkpoints/student --data examples/faq --language english
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.cli.options import Language
from ap_ranker.data.reader import read_dataset
from ap_ranker.data.wordings import with_wordings
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.markdown import markdown_table
from ap_ranker.ranking.checkpoint import TOKENIZER
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.text.tokenizer import UNKNOWN, WordTokenizer, split_words

LETTERS = "abcdefghijklmnopqrstuvwxyz"

LEAST = 5
"""Minimum number of letters of a word that gets a typing error."""


class KnownWordsOnly(WordTokenizer):
    """Reads every unknown word as `[UNK]`."""

    def _read(self, word: str) -> tuple[int, ...]:
        return (UNKNOWN,)


def mistyped(text: str, rng: random.Random) -> str:
    """The text with a typing error in one word: two letters exchanged, one missing, added or changed."""
    words = text.split()
    places = [i for i, word in enumerate(words) if word.isalpha() and len(word) >= LEAST]
    if not places:
        return text
    chosen = rng.choice(places)
    word = words[chosen]
    at = rng.randrange(1, len(word) - 1)
    errors: list[Callable[[], str]] = [
        lambda: word[:at] + word[at + 1] + word[at] + word[at + 2 :],
        lambda: word[:at] + word[at + 1 :],
        lambda: word[:at] + rng.choice(LETTERS) + word[at:],
        lambda: word[:at] + rng.choice(LETTERS) + word[at + 1 :],
    ]
    words[chosen] = rng.choice(errors)()
    return " ".join(words)


def command(
    checkpoints: Annotated[list[Path], typer.Argument(help="Checkpoints.")],
    data: Annotated[Path, typer.Option(help="A folder with train.*, and dev.* or test.*.")],
    split: Annotated[str, typer.Option(help="The questions to measure with.")] = "test",
    language: Language = None,
) -> None:
    """Print the MRR of each checkpoint with the questions as they are, and with a typing error in each."""
    asked = with_wordings(read_dataset(data, split), read_dataset(data, "train"))
    rng = random.Random(1)
    wrong = replace(asked, questions=[replace(q, text=mistyped(q.text, rng)) for q in asked.questions])
    as_typed, with_errors = (EvaluationSet(each, language=language) for each in (asked, wrong))
    bm25 = ["BM25", "", "", "", f"{as_typed.bm25['MRR']:.3f}", f"{with_errors.bm25['MRR']:.3f}"]
    lines = [bm25]
    for checkpoint in checkpoints:
        lines += rows(checkpoint, as_typed, with_errors)
    titles = ["", "unknown words are", "questions with one", "their MRR", "MRR", "MRR with typing errors"]
    sys.stdout.write(f"{len(as_typed.questions)} {split} questions\n\n{markdown_table(titles, lines)}\n")


def rows(checkpoint: Path, as_typed: EvaluationSet, with_errors: EvaluationSet) -> list[list[str]]:
    """A line of the table for each way to read unknown words; one for a model that has none."""
    ranker = Ranker.from_pretrained(checkpoint)
    assert ranker.config is not None
    name = f"`{ranker.config.model}`"
    if not isinstance(ranker.tokenizer, WordTokenizer):
        scores = (f"{each.report(ranker).model['MRR']:.3f}" for each in (as_typed, with_errors))
        return [[name, "none: it reads subwords", "", "", *scores]]
    known = set(ranker.tokenizer.words)
    words = ([word for word in split_words(q.text) if word.isalpha()] for q in as_typed.questions)
    has = np.array([not known.issuperset(each) for each in words])
    lines = []
    for how, reader in {"one unknown word": KnownWordsOnly, "the nearest known one": WordTokenizer}.items():
        tokenizer = reader.load(checkpoint / TOKENIZER, ranker.tokenizer.max_tokens)
        other = Ranker(ranker.model, tokenizer, ranker.device, ranker.config)
        report, wrong = as_typed.report(other), with_errors.report(other).model["MRR"]
        theirs = report.model_each["MRR"][has].mean() if has.any() else float("nan")
        lines.append([name, how, f"{has.sum()}", f"{theirs:.3f}", f"{report.model['MRR']:.3f}", f"{wrong:.3f}"])
    return lines


if __name__ == "__main__":
    with report_user_errors():
        typer.run(command)
