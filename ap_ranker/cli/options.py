"""Options that several commands share."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from ap_ranker.data.faq import Match
from ap_ranker.errors import InputError

Documents = Annotated[
    Path | None,
    typer.Option(help="The FAQ: a file with columns question and answer; without it, what the store holds."),
]
SearchPipeline = Annotated[Path, typer.Option(help="A Haystack pipeline.")]
SEARCH_PIPELINE = Path("pipelines/faq_search.yaml")
MatchEntry = Annotated[Match, typer.Option(help="Which text of an entry is compared with the question.")]
Precision = Annotated[
    float | None,
    typer.Option(
        help="Target precision, the share of given answers that is to be right; needs a calibrated checkpoint."
    ),
]
Answers = Annotated[
    Path | None, typer.Option(help="The file of answers (aid, answer); by default answers.* beside the questions.")
]
Device = Annotated[str, typer.Option(help="Device: auto, cpu, cuda:0 ...; auto takes the GPU if there is one.")]
MatchText = Annotated[
    Match | None,
    typer.Option(help="Which text of a stored question and its answer is compared with the user's question."),
]


def whole_numbers(option: str, text: str) -> list[int]:
    """What an option names as `3,1,2`, in that order, each once.

    Raises:
        InputError: something else, or a number below 1.
    """
    try:
        numbers = list(dict.fromkeys(int(number) for number in text.split(",")))
    except ValueError:
        numbers = [0]
    if min(numbers) < 1:
        raise InputError(
            f"Expected {option} as whole numbers above 0 separated by commas, such as 1,2,3; found {text!r}."
        )
    return numbers


def command_line() -> str:
    """The command as the user gave it, for a shell.

    One that `torchrun` started trains what this one process would, so `torchrun` is left out.
    """
    return shlex.join(["ap-ranker", *sys.argv[1:]])
