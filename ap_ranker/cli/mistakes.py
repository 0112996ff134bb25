"""One way to report a user's mistake, for the command line and for scripts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape

from ap_ranker.errors import InputError


@contextmanager
def mistakes_reported() -> Iterator[None]:
    """Within, an `InputError` ends the program with one message on standard error and exit code 2."""
    try:
        yield
    except InputError as error:
        Console(stderr=True).print(f"[bold red]Error:[/] {escape(str(error))}", soft_wrap=True, highlight=False)
        sys.exit(2)
