"""`ap-ranker` and its commands, which import heavy modules only when they run."""

from __future__ import annotations

import io
import logging
import os
import shlex
import sys
from importlib import metadata
from typing import Annotated

import typer
from rich.logging import RichHandler

from ap_ranker.cli import (
    ask,
    calibrate,
    check,
    checkpoints,
    evaluate,
    index,
    owner,
    prepare,
    retrain,
    selection,
    serve,
    train,
)
from ap_ranker.cli.console import Console
from ap_ranker.cli.errors import STOPPED, report_user_errors
from ap_ranker.cli.feedback import app as feedback
from ap_ranker.cli.options import takes_groups
from ap_ranker.errors import InputError


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ap-ranker {metadata.version('ap-ranker')}")
        raise typer.Exit


app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_show_locals=False)


@app.callback(context_settings={"help_option_names": ["--help", "-h"]})
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Train and use small neural rankers for FAQ search."""


COMMANDS = {
    "First": (ask.ask, serve.serve, prepare.split, train.train, evaluate.evaluate, calibrate.calibrate),
    "Data": (check.doctor, check.check, prepare.extract, prepare.synonyms),
    "Training": (
        checkpoints.init,
        train.distill,
        selection.tune,
        selection.compare,
        checkpoints.models,
        checkpoints.explain,
        checkpoints.push,
    ),
    "Search": (index.index, index.encode, index.pipelines),
    "The owner of a FAQ": (retrain.retrain,),
}
"""Group -> its commands, in the order of `--help`; the first are those that most people need."""

# Typer knows no groups of options, which `takes_groups` gives it one by one.
for group, commands in COMMANDS.items():
    for command in commands:
        app.command(command.__name__, rich_help_panel=group)(takes_groups(command))

owner_app = typer.Typer(no_args_is_help=True)
for owners_command in (owner.gaps, owner.report, owner.changes, owner.keys):
    owner_app.command(owners_command.__name__)(takes_groups(owners_command))
owner_app.add_typer(feedback, name="feedback", help="What visitors said of answers.")
app.add_typer(owner_app, name="owner", rich_help_panel="The owner of a FAQ", help="What users ask, say and lack.")

EARLIER_NAMES = {"gaps": "gaps", "report": "report", "changes": "changes", "feedback": "feedback", "owners": "keys"}
"""The name of a command in the release before -> its name in the group `owner`."""


def _refuse_earlier_name(context: typer.Context) -> None:
    """Name the command that does it now, with the same arguments."""
    earlier = str(context.info_name)
    now = shlex.join(["ap-ranker", "owner", EARLIER_NAMES[earlier], *context.args])
    raise InputError(f"Expected a command of the group owner, found its earlier name, {earlier}. Run: {now}")


for earlier_name in EARLIER_NAMES:
    app.command(
        earlier_name,
        hidden=True,
        add_help_option=False,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )(_refuse_earlier_name)


def main() -> None:
    """Run the command line; all errors are reported by `report_user_errors`."""
    os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "false")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # for terminals that cannot show a character
    logging.basicConfig(
        level=logging.WARNING,
        format="%(message)s",
        handlers=[RichHandler(console=Console(stderr=True, soft_wrap=False), show_time=False, show_path=False)],
    )
    logging.getLogger("ap_ranker").setLevel(logging.INFO)  # such as what training left out
    with report_user_errors():
        code = app(standalone_mode=False)
        if code == STOPPED:  # Typer has caught Ctrl+C, which is reported here as any other end
            raise KeyboardInterrupt
    sys.exit(code if isinstance(code, int) else 0)
