"""`ap-ranker retrain`: a new checkpoint from what the owner of a FAQ has accepted, in place of the served one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ap_ranker.cli.console import ProgressBars, console
from ap_ranker.cli.options import Database, Epochs, NamedDocuments, SearchedOptions, option
from ap_ranker.cli.serve import require_server
from ap_ranker.cli.train import NO_GAIN
from ap_ranker.errors import InputError


def retrain(
    searched: SearchedOptions,
    folder_or_faq: NamedDocuments = None,
    database: Database = None,
    precision: Annotated[
        float | None,
        option(
            "Target precision to be calibrated for; by default, those of the served checkpoint.", min=0.01, max=0.99
        ),
    ] = None,
    epochs: Epochs = None,
    quick: Annotated[bool, option("Leave a pretrained encoder as it is: takes a minute.", "--quick")] = False,
    back: Annotated[bool, option("Go back to the checkpoint before; once more takes that back.", "--back")] = False,
    take: Annotated[
        Path | None, option("Train nothing: put a copy of this ready checkpoint in place of the served one.")
    ] = None,
) -> None:
    """Train anew on all accepted wordings; a running search switches if the new checkpoint is recommended.

    Name FAQ, checkpoint and database as for `serve`. If it is not recommended, nothing changes, and the exit code is 3.
    """
    from ap_ranker.ranking.earlier_checkpoints import go_back
    from ap_ranker.ranking.earlier_checkpoints import take as take_ready
    from ap_ranker.search.setup import CHECKPOINT

    searched = searched.of(folder_or_faq)
    served = searched.model or str(CHECKPOINT)
    if back and take is not None:
        raise InputError("Expected --back or --take, found both. Leave one out.")
    if take is not None:
        take_ready(Path(served), take)
        console.say(f"{served} is a copy of {take} from now on. To go back: ap-ranker retrain --back --model {served}")
        return
    if back:
        time = go_back(Path(served))
        console.say(f"{served} is that of {time} again. To take this back: ap-ranker retrain --back --model {served}")
        return
    if searched.documents is None:
        raise InputError("Expected the FAQ that is searched, found none. Name it: ap-ranker retrain FAQ.csv")
    require_server()
    from ap_ranker.cli.epoch_lines import EpochLines
    from ap_ranker.search.retrain import retrain as run
    from ap_ranker.web.changes import owners_changes
    from ap_ranker.web.database import open_existing, place_of

    place = place_of(database, searched.documents)
    open_existing(place)
    settings = {"epochs": epochs, "effort": "quick" if quick else None}
    with ProgressBars() as bars, searched.set_up(overlay=owners_changes(place), on_progress=bars.update) as setup:
        outcome = run(
            setup, settings, precision=precision, callbacks=(EpochLines(console, bars),), on_progress=bars.update
        )
    if not outcome.recommended:
        console.warn(f"{outcome.explained()} {served} stays as it was.", "No change")
        raise typer.Exit(NO_GAIN)
    console.say(
        f"{outcome.explained()} It is {served} from now on. To go back: ap-ranker retrain --back --model {served}"
    )
