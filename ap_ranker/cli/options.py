"""Options that several commands share."""

from __future__ import annotations

import csv
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from ap_ranker.data.faq import Match
from ap_ranker.errors import InputError

Documents = Annotated[
    Path | None,
    typer.Option(
        help="The FAQ, a file with columns question and answer; or a document, or a folder of documents and tables; by "
        "default, the content of the store."
    ),
]
Checkpoint = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="The checkpoint, a folder or a hub name; by default checkpoints/faq or, if there is none, an encoder that "
        "has learnt nothing from you.",
    ),
]
SearchLanguage = Annotated[
    str | None,
    typer.Option(
        "--language",
        help="The language of a stemmer for BM25, such as english; by default the one that the checkpoint was trained "
        "with.",
    ),
]
SearchPipeline = Annotated[
    Path | None,
    typer.Option(
        help="A YAML file with a Haystack pipeline of your own, which names its checkpoint; `ap-ranker pipelines` "
        "writes some to begin with."
    ),
]
MatchEntry = Annotated[Match, typer.Option(help="The text of an entry that is matched with the question.")]
Precision = Annotated[
    float | None,
    typer.Option(
        help="Target precision: the share of returned answers that should be right; needs a calibrated checkpoint."
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(
        metavar="QUESTION,ANSWER",
        help="The names of the columns that hold questions and answers; by default they are recognized.",
    ),
]
Answers = Annotated[
    Path | None,
    typer.Option(
        help="The FAQ, a file of all answers to choose from (question, answer; or aid, answer); by default answers.* "
        "beside the questions, or else the answers of the questions' own file."
    ),
]
KnownWordings = Annotated[
    Path | None,
    typer.Option(
        help="Questions known to ask for an answer (question, answer_ids; or question, answer); by default, train.* of "
        "the folder."
    ),
]
Wordings = Annotated[
    list[Path] | None,
    typer.Option(
        help="File of questions known to ask for an entry (question, answer_ids; or question, answer); may be repeated."
    ),
]
SearchSynonyms = Annotated[
    Path | None,
    typer.Option(
        "--synonyms",
        help="File of other words for what users ask, one `SAP = payroll system` per line; `ap-ranker synonyms` shows "
        "what it changes.",
    ),
]
Keep = Annotated[
    bool,
    typer.Option(
        "--cache/--no-cache",
        help="Keep encoded answers for the next run, in the user's cache folder (Linux: $XDG_CACHE_HOME/ap-ranker, or "
        "~/.cache/ap-ranker): hashes of texts and numbers, 500 MB at most.",
    ),
]
Device = Annotated[str, typer.Option(help="Device: auto, cpu, cuda:0 ...; auto takes the GPU if there is one.")]
Language = Annotated[
    str | None, typer.Option(help="The language of a stemmer for BM25, such as english; by default none.")
]
TrainingPairs = Annotated[
    Path, typer.Argument(help="A file of pairs or judged candidates, or a folder with train.* and optionally dev.*")
]
CheckpointOutput = Annotated[Path, typer.Option(help="The checkpoint folder to write.")]
DevQuestions = Annotated[
    Path | None,
    typer.Option(help="Dev questions to choose the best epoch; by default some questions are set aside."),
]
Settings = Annotated[
    Path | None, typer.Option(help="YAML file with settings; options of the command line override them.")
]
Epochs = Annotated[int | None, typer.Option(help="Maximum number of epochs.")]
Seed = Annotated[int | None, typer.Option(help="Random seed.")]
Resume = Annotated[bool, typer.Option("--resume", help="Resume an interrupted run.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing checkpoint.")]
StoredDtype = Annotated[
    str | None,
    typer.Option(
        help="Dtype of the stored states: float32, float16, int8 or int4; by default the smallest that costs nothing."
    ),
]
MatchText = Annotated[
    Match | None,
    typer.Option(help="The text to match with the question, for answers with a stored question."),
]


def whole_numbers(option: str, text: str) -> list[int]:
    """Parse distinct numbers such as `3,1,2`, in order.

    Raises:
        InputError: not such a list, or a number below 1.
    """
    try:
        numbers = list(dict.fromkeys(map(int, text.split(","))))
    except ValueError:
        numbers = [0]
    if min(numbers) < 1:
        raise InputError(
            f"Expected {option} as whole numbers above 0 separated by commas, such as 1,2,3; found {text!r}."
        )
    return numbers


def column_names(text: str | None) -> tuple[str, str] | None:
    """Parse `--columns`: two names, as a line of a CSV file; `None` if there is none.

    Raises:
        InputError: not two different names.
    """
    if text is None:
        return None
    try:
        [names] = csv.reader([text], strict=True, skipinitialspace=True)
        question, answer = names
    except (csv.Error, ValueError):
        question = answer = ""
    if not question.strip() or not answer.strip() or question == answer:
        raise InputError(f"Expected --columns as two names of columns, such as Question,Answer; found {text!r}.")
    return question, answer


def command_line() -> str:
    """The command line, for a shell; `torchrun` is left out, as it does not change the result."""
    return shlex.join(["ap-ranker", *sys.argv[1:]])
