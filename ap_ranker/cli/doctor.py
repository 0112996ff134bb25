"""`ap-ranker doctor`: what stands in the way of a good search, and what to do first."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from ap_ranker.cli.console import console, errors, to_json
from ap_ranker.cli.options import NamedDocuments, SearchedOptions, option
from ap_ranker.threads import wait_without_spinning


def doctor(
    search: SearchedOptions,
    folder_or_faq: NamedDocuments = None,
    as_json: Annotated[bool, option("Print JSON.", "--json")] = False,
) -> None:
    """Say in one screen what stands in the way of a good search, and the next best step.

    It examines texts, known wordings, languages, checkpoint and calibration, as `serve` would search them. `check`
    lists the faults of texts one by one.
    """
    wait_without_spinning()
    from ap_ranker.search.diagnosis import diagnose

    with search.of(folder_or_faq).set_up() as setup, errors.status("Examining ..."):
        findings = diagnose(setup)
    if as_json:
        typer.echo(to_json([asdict(each) for each in findings]))
        return
    for each in findings:
        console.print("[yellow]![/]" if each.advice else "[green]✓[/]", end=" ")
        console.say(each.found)
        if each.advice:
            console.say(f"  → {each.advice}")
    steps = [each.advice for each in findings if each.advice]
    console.say(f"Next: {steps[0]}" if steps else "Nothing stands in the way. Look at `ap-ranker gaps` now and then.")
