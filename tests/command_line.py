"""The command line as users meet it, `main` with its arguments, in this process: a new one takes seconds to start."""

from __future__ import annotations

import io
import os
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from ap_ranker.cli.main import main


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code, and what it printed."""

    code: object
    output: str
    errors: str


def run(*arguments: object, folder: Path) -> Ended:
    """`ap-ranker ARGUMENTS` in this folder."""
    output, errors = io.StringIO(), io.StringIO()
    with (
        chdir(folder),
        patch.dict(os.environ, {"COLUMNS": "200"}),
        patch.object(sys, "argv", ["ap-ranker", *map(str, arguments)]),
        redirect_stdout(output),
        redirect_stderr(errors),
    ):
        try:
            main()
        except SystemExit as end:
            return Ended(end.code or 0, output.getvalue(), errors.getvalue())
    raise AssertionError("the command line ends with an exit code")
