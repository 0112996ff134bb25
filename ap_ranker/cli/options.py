"""Options that several commands share, alone and in groups."""

from __future__ import annotations

import csv
import inspect
import shlex
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar, get_type_hints

import typer

from ap_ranker.data.faq import DEFAULT_MATCH, Match
from ap_ranker.errors import InputError

if TYPE_CHECKING:
    from ap_ranker.search.setup import SearchSetup

T = TypeVar("T")


def option(text: str, *names: str, **settings: Any) -> Any:
    """An option with a help text; without names, its name is that of the parameter."""
    return typer.Option(*names, help=text, **settings)


def argument(text: str, **settings: Any) -> Any:
    """An argument with a help text."""
    return typer.Argument(help=text, **settings)


def column_names(text: str) -> tuple[str, str]:
    """Parse the different names of the columns of questions and answers, as a line of a CSV file."""
    with suppress(csv.Error, ValueError):
        [[question, answer]] = csv.reader([text], strict=True, skipinitialspace=True)
        if question.strip() and answer.strip() and question != answer:
            return question, answer
    raise typer.BadParameter(f"expected two names of columns, such as Question,Answer; found {text!r}.")


Columns = Annotated[
    Any,  # a pair; Typer would take a tuple for two values
    option(
        "The names of the columns that hold questions and answers; by default they are recognized.",
        metavar="QUESTION,ANSWER",
        parser=column_names,
    ),
]
Answers = Annotated[
    Path | None,
    option("The FAQ, all answers (question, answer; or aid, answer); by default answers.* or the questions' own file."),
]
KnownWordings = Annotated[
    Path | None,
    option("Questions known to ask for an answer (question, answer_ids or answer); by default, train.* of the folder."),
]
Corpus = Annotated[Path, argument("The FAQ, a document, or a folder of documents and tables.")]
NamedDocuments = Annotated[Path | None, argument("As --documents.", metavar="[DOCUMENTS]", show_default=False)]
Device = Annotated[str, option("Device: auto, cpu, cuda:0 ...; auto takes the GPU if there is one.")]
Language = Annotated[str | None, option("The language of a stemmer for BM25, such as english; by default none.")]
CheckpointOutput = Annotated[Path, option("The checkpoint folder to write.")]
Embeddings = Annotated[
    str | None,
    option("Word vectors: a GloVe, word2vec or fastText file, glove-50d, a checkpoint, or an encoder (encoder:NAME)."),
]
SharedSettings = Annotated[
    Path | None, option("YAML file with settings, the same for all trained checkpoints.", "--config")
]
Epochs = Annotated[int | None, option("Maximum number of epochs.")]
Overwrite = Annotated[bool, option("Replace what exists.", "--overwrite")]
StoredDtype = Annotated[
    str | None,
    option("Dtype of the stored states: float32, float16, int8 or int4; by default the smallest that costs nothing."),
]
MatchEntry = Annotated[Match, option("The text of an entry that is matched with the question.")]
MatchText = Annotated[Match | None, option("The text to match with the question, for answers with a stored question.")]
DATABASE = option(
    "The website's database: a file, or postgresql://USER:PASSWORD@HOST/NAME for several servers.",
    "--database",
    envvar="AP_RANKER_DATABASE",
    metavar="FILE|URL",
)
Database = Annotated[str | None, DATABASE]  # by default as `ap_ranker.web.database.place_of` says
JsonFile = Annotated[Path | None, option("Write what was found to this JSON file.", "--json")]


@dataclass(frozen=True)
class SearchedOptions:
    """What is searched, and by which checkpoint."""

    documents: Annotated[
        Path | None,
        option("The FAQ (question, answer); or a document, or a folder of both; by default, the content of the store."),
    ] = None
    columns: Columns = None
    model: Annotated[
        str | None,
        option("The checkpoint, a folder or a hub name; by default checkpoints/faq, or else an untrained encoder."),
    ] = None
    language: Annotated[
        str | None, option("The language of a stemmer for BM25, such as english; by default that of the checkpoint.")
    ] = None
    match: MatchEntry = DEFAULT_MATCH
    wordings: Annotated[
        list[Path] | None,
        option("File of questions known to ask for an entry, as (question, answer_ids or answer); may be repeated."),
    ] = None

    def set_up(self, **more: Any) -> AbstractContextManager[SearchSetup]:
        """The search, as `ap_ranker.search.setup.set_up` with further arguments."""
        from ap_ranker.search.setup import set_up

        return set_up(
            self.documents,
            wordings=self.wordings or (),
            model=self.model,
            language=self.language,
            columns=self.columns,
            match=self.match,
            **more,
        )

    def of(self, documents: Path | None) -> Self:
        """The same with documents that are an argument of the command; InputError if there are others, too."""
        if documents is not None and self.documents is not None:
            raise InputError(f"Expected the documents once, found {documents} and --documents {self.documents}.")
        return replace(self, documents=self.documents or documents)


@dataclass(frozen=True)
class SearchOptions(SearchedOptions):
    """A search as users meet it."""

    pipeline: Annotated[
        Path | None, option("A Haystack pipeline of your own, in YAML; `ap-ranker pipelines` writes some to begin.")
    ] = None
    precision: Annotated[
        float | None,
        option("Target precision: the share of returned answers that should be right."),
    ] = None
    synonyms: Annotated[
        Path | None,
        option("File of other words, one `SAP = payroll system` per line; `ap-ranker synonyms` shows what it changes."),
    ] = None
    cache: Annotated[
        bool,
        option(
            "Keep encoded answers for the next run, in the user's cache folder (Linux: "
            "$XDG_CACHE_HOME/ap-ranker, or ~/.cache/ap-ranker): hashes of texts and numbers, 500 MB at most.",
            "--cache/--no-cache",
        ),
    ] = True

    def set_up(self, *, score_threshold: float | None = None, **more: Any) -> AbstractContextManager[SearchSetup]:
        """As for `SearchedOptions`."""
        limits = {"precision": self.precision, "score_threshold": score_threshold}
        return super().set_up(pipeline=self.pipeline, synonyms=self.synonyms, keep=self.cache, limits=limits, **more)


@dataclass(frozen=True)
class TrainingOptions:
    """What a checkpoint is trained on, and where it is written."""

    data: Annotated[
        Path, argument("A file of pairs or judged candidates, or a folder with train.* and optionally dev.*")
    ]
    output: CheckpointOutput
    dev: Annotated[
        Path | None, option("Dev questions to choose the best epoch; by default some questions are set aside.")
    ] = None
    answers: Answers = None
    columns: Columns = None
    embeddings: Embeddings = None
    match: MatchText = None
    config: Annotated[Path | None, option("YAML file with settings; options of the command line override them.")] = None
    language: Language = None
    epochs: Epochs = None
    seed: Annotated[int | None, option("Random seed.")] = None
    device: Device = "auto"
    resume: Annotated[bool, option("Resume an interrupted run.", "--resume")] = False
    overwrite: Overwrite = False

    @property
    def settings(self) -> dict[str, Any]:
        """The options that are settings of a run, too."""
        return {
            "match": self.match,
            "language": self.language,
            "epochs": self.epochs,
            "seed": self.seed,
            "embeddings": self.embeddings,
        }


@dataclass(frozen=True)
class EncoderOptions:
    """The pretrained encoder of ap-transformer, and how it reads."""

    encoder: Annotated[
        str | None,
        option("Pretrained encoder: any sentence-transformers model, by name or folder; by default all-MiniLM-L6-v2."),
    ] = None
    question_prompt: Annotated[
        str | None, option("What the encoder reads before a question; by default what its files say.")
    ] = None
    answer_prompt: Annotated[str | None, option("What it reads before an answer, likewise.")] = None
    link_encoder: Annotated[
        bool, option("Name an unchanged encoder in the checkpoint instead of copying it.", "--link-encoder")
    ] = False

    @property
    def given(self) -> dict[str, Any]:
        """Those that are given, by the names that the model's options have."""
        own_options = {
            "encoder": self.encoder,
            "question_prompt": self.question_prompt,
            "answer_prompt": self.answer_prompt,
            "linked": self.link_encoder or None,
        }
        return {name: value for name, value in own_options.items() if value is not None}


def takes_groups(command: Callable[..., T]) -> Callable[..., T]:
    """Let a command take groups of options: of an argument that is a dataclass, each field becomes an option."""
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if isinstance(hint, type) and is_dataclass(hint)}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        members = [parameter]
        types = hints
        if name in groups:
            members = list(inspect.signature(groups[name]).parameters.values())
            types = get_type_hints(groups[name], include_extras=True)
        for member in members:
            parameters.append(member.replace(kind=member.KEYWORD_ONLY, annotation=types[member.name]))

    @wraps(command)
    def call(**values: Any) -> T:
        for name, group in groups.items():
            own_values = {field.name: values.pop(field.name) for field in fields(group)}
            values[name] = group(**own_values)
        return command(**values)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # Typer reads it
    return call


def command_line() -> str:
    """The command line, for a shell; `torchrun` is left out, as it does not change the result."""
    return shlex.join(["ap-ranker", *sys.argv[1:]])
