"""`ap-ranker`: a file per command, heavy imports made when one runs, and one way to report a mistake."""

from __future__ import annotations

import io
import logging
import os
import sys

import typer
from rich.logging import RichHandler

from ap_ranker.cli import (
    ask,
    benchmark,
    calibrate,
    check,
    compare,
    encode,
    evaluate,
    explain,
    index,
    models,
    push,
    serve,
    train,
    tune,
)
from ap_ranker.cli.console import Console
from ap_ranker.cli.errors import STOPPED, report_user_errors

app = typer.Typer(
    help="Train and use small neural rankers for FAQ search.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)
app.command("check")(check.check)
app.command("train")(train.train)
app.command("tune")(tune.tune)
app.command("evaluate")(evaluate.evaluate)
app.command("calibrate")(calibrate.calibrate)
app.command("compare")(compare.compare)
app.command("benchmark")(benchmark.benchmark)
app.command("encode")(encode.encode)
app.command("push")(push.push)
app.command("models")(models.models)
app.command("index")(index.index)
app.command("ask")(ask.ask)
app.command("serve")(serve.serve)
app.command("explain")(explain.explain)


def main() -> None:
    """Run the command line; whatever goes wrong ends with one message on standard error, see `report_user_errors`."""
    # A command-line tool neither reports usage nor shows the libraries' own progress bars for loading a file.
    os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "false")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that cannot show a character shows its number
    logging.basicConfig(
        level=logging.WARNING,
        format="%(message)s",
        handlers=[RichHandler(console=Console(stderr=True), show_time=False, show_path=False)],
    )
    logging.getLogger("ap_ranker").setLevel(logging.INFO)  # what training left out, for one
    with report_user_errors():
        code = app(standalone_mode=False)
        if code == STOPPED:  # as Typer has turned Ctrl+C into
            raise KeyboardInterrupt
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
