"""`python -m benchmarks`: times our models and the alternatives that a user has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from ap_ranker.cli.console import Console
from ap_ranker.cli.errors import report_user_errors
from ap_ranker.cli.options import Device
from ap_ranker.errors import InputError, library_errors
from ap_ranker.files import write_text_atomically
from ap_ranker.training.training_data import read_training_data
from benchmarks.number_lists import whole_numbers

if TYPE_CHECKING:
    from ap_ranker.data.dataset import Dataset
    from ap_ranker.training.compare import Contender
    from benchmarks.report import TextTable

console = Console(soft_wrap=True)


def benchmark(
    data: Annotated[Path, typer.Argument(help="A folder with answers and test questions, as for evaluate; or a file.")],
    models: Annotated[
        str, typer.Option(help="Model names, comma-separated, optionally with options: ap-cnn:filters=200.")
    ] = "ap-cnn,ap-bilstm,qa-bilstm,global-local,bimpm",
    candidates: Annotated[
        str, typer.Option(help="Numbers of candidates per question, comma-separated.")
    ] = "10,100,1000",
    questions: Annotated[int, typer.Option(min=1, help="Number of questions to time.")] = 20,
    epochs_of: Annotated[
        str | None,
        typer.Option(help="Models to train for one epoch, or none; the first two of --models by default."),
    ] = None,
    no_peers: Annotated[bool, typer.Option("--no-peers", help="Do not time the rankers of other libraries.")] = False,
    device: Device = "auto",
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the numbers to this JSON file.")] = None,
    table_file: Annotated[Path | None, typer.Option("--table", help="Write the tables to this Markdown file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Plot the times to this PNG file.")] = None,
) -> None:
    """Time the models on your answers, beside BM25, a cross-encoder and other rankers."""
    from ap_ranker.data.reader import read_dataset
    from ap_ranker.training.compare import Contender

    sizes = sorted(whole_numbers("--candidates", candidates))
    contenders = Contender.parse_all(models)
    learners = _learners(epochs_of, contenders)
    for path in (json_file, table_file, plot):
        if path is not None and not path.parent.is_dir():
            raise InputError(f"{path}: expected an existing folder to write into, found no {str(path.parent)!r}.")
    if plot is not None:
        with library_errors("Expected matplotlib for --plot", (ImportError,), " Install it: pip install matplotlib"):
            import matplotlib  # noqa: F401
    if not no_peers:
        from benchmarks.peers import check_peers

        check_peers()
    test = read_dataset(data, "test")
    training = _training_data(data) if learners else None

    # Import heavy modules only after validating the input.
    from transformers.utils.logging import disable_progress_bar

    from benchmarks.report import markdown, tables
    from benchmarks.run import benchmark as run

    disable_progress_bar()  # for loading and saving weights
    with console.status("Loading") as status:
        result = run(
            contenders,
            test,
            candidates=sizes,
            questions=questions,
            peers=not no_peers,
            epochs_of=learners,
            training=training,
            device=device,
            tell=lambda text: status.update(escape(text)),
        )
    for table in tables(result):
        _print(table)
    for note in result.notes:
        console.print(note, highlight=False, markup=False)
    if json_file:
        write_text_atomically(json_file, result.to_json())
    if table_file:
        write_text_atomically(table_file, markdown(result))
    if plot:
        from benchmarks.plot import plot_benchmark

        plot_benchmark(result, plot)


def _learners(names: str | None, contenders: Sequence[Contender]) -> list[Contender]:
    """The models to train: the named ones, or the first two that are trained by gradient."""
    from ap_ranker.models.registry import model_spec
    from ap_ranker.training.compare import Contender
    from ap_ranker.training.objectives import objective_spec

    def learns(contender: Contender) -> bool:
        return objective_spec(model_spec(contender.model).objective).needs_gradient

    if names is None:
        return [contender for contender in contenders if learns(contender)][:2]
    named = [] if names.strip() == "none" else Contender.parse_all(names)
    if untrained := [contender.label for contender in named if not learns(contender)]:
        raise InputError(
            f"Expected --epochs-of to name models that are trained in epochs, found {untrained[0]}, which only counts "
            "words or fits a few feature weights."
        )
    return named


def _training_data(data: Path) -> tuple[Dataset, Dataset]:
    from ap_ranker.data.reader import find_split
    from ap_ranker.training.config import TrainingConfig

    if data.is_dir() and find_split(data, "train") is None:
        raise InputError(
            f"{data}: expected a file train.* to time an epoch, found none. Leave it out: --epochs-of none"
        )
    return read_training_data(data, None, None, TrainingConfig())


def _print(text: TextTable) -> None:
    """Print a table at its full width even on a narrow terminal, which would truncate it to dots."""
    table = Table(title=text.title, title_justify="left")
    for column, title in enumerate(text.header):
        table.add_column(
            title.replace(" ", "\n"), justify="right" if column else "left", vertical="bottom", no_wrap=True
        )
    for group in text.groups:
        for row in group:
            table.add_row(*map(escape, row))
        table.add_section()
    wide = console.options.update(max_width=1000)
    Console(width=max(console.width, console.measure(table, options=wide).maximum)).print(table)


app = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False)
app.command()(benchmark)

if __name__ == "__main__":
    with report_user_errors():
        app(standalone_mode=False)
