"""`ap-ranker gaps` and `changes`: what the owner of a FAQ learns from its users, and has changed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.text import Text

from ap_ranker.cli.console import console, errors, minute
from ap_ranker.cli.options import Columns, Database, NamedDocuments, SearchedOptions, argument, option
from ap_ranker.cli.serve import require_server
from ap_ranker.data.faq import read_faq, write_entries
from ap_ranker.errors import InputError

if TYPE_CHECKING:
    from ap_ranker.web.changes import Change

SHOWN = 20
"""Maximum number of groups in the table."""


def gaps(
    searched: SearchedOptions,
    folder_or_faq: NamedDocuments = None,
    database: Database = None,
    output: Annotated[
        Path | None, option("A CSV file for all groups, as rows of a FAQ whose answers are still empty.")
    ] = None,
) -> None:
    """Group the questions without an answer, and those whose answers or maybes helped nobody, most asked first."""
    searched = searched.of(folder_or_faq)
    if searched.documents is None:
        raise InputError("Expected the FAQ that the questions were put to, found none. Name it.")
    _check_output(output)
    require_server()
    from ap_ranker.web.changes import owners_changes
    from ap_ranker.web.database import open_existing, place_of
    from ap_ranker.web.gaps import GapFinder, find_unanswered, open_questions, write_gaps

    place = place_of(database, searched.documents)
    unanswered = find_unanswered(open_existing(place))
    with searched.set_up(overlay=owners_changes(place)) as setup, errors.status("Grouping the questions ..."):
        search, _ = setup.load()
        entries = setup.documents.entries if setup.documents else None
        remaining, known = open_questions(unanswered, entries, setup.match, setup.wordings)
        *_, found = GapFinder(search).find(remaining, known)
    known_by_now = f"{len(unanswered) - len(remaining):,} of them in the FAQ by now"
    console.say(f"{len(unanswered):,} different questions without an answer that helped, {known_by_now}.")
    if not unanswered:
        console.say("Questions are logged by serve's --log-questions.")
    if output is not None:
        write_gaps(found, output)
    rows: list[list[str | Text]] = []
    for gap in found[:SHOWN]:
        further = f"\n+ {len(gap.questions) - 1} other wordings" if len(gap.questions) > 1 else ""
        score = "-" if gap.first.score is None else f"{gap.first.score:.3f}"
        rows.append([str(gap.asked), Text.assemble(gap.first.text, (further, "dim")), gap.first.nearest[:80], score])
    if found:
        console.table(["asked", "question", "nearest entry", "its score"], rows)
    if len(found) > SHOWN:
        console.say(f"{len(found) - SHOWN:,} smaller groups not shown.")
    if output is not None:
        console.say(f"Wrote {len(found):,} groups into {output}. Fill in answers, and add these rows to the FAQ.")


def _check_output(output: Path | None, faq: Path | None = None) -> None:
    if output is not None and output.suffix != ".csv":
        raise InputError(f"Expected --output ending in .csv, found {str(output)!r}.")
    if output is not None and faq is not None and output.exists() and output.samefile(faq):
        raise InputError(f"{output}: expected another file than the FAQ itself. Choose another --output.")


def changes(
    faq: Annotated[Path, argument("The FAQ that the changes were made to, a table.")],
    database: Database = None,
    columns: Columns = None,
    output: Annotated[
        Path | None, option("A new CSV file for the FAQ with all changes; the FAQ's own file stays as it is.")
    ] = None,
    clear: Annotated[
        bool, option("Delete all changes, once the FAQ's own file has them; refused before.", "--clear")
    ] = False,
) -> None:
    """List the changes of the owner's page, write the FAQ with all of them into a new file, or begin anew."""
    _check_output(output, faq)
    require_server()
    from ap_ranker.web.changes import Action, apply_changes, clear_changes, read_changes
    from ap_ranker.web.database import in_utc, open_existing

    website = open_existing(database, faq)
    entries = read_faq(faq, columns)
    if clear:
        console.say(f"Deleted {clear_changes(website, entries):,} changes, which {faq} has.")
        return
    known = read_changes(website)
    changed = apply_changes(entries, known)
    states = dict.fromkeys(changed.undone, "undone") | dict.fromkeys(changed.lapsed, "no longer applies")
    rows = [
        [minute(in_utc(change.time)), change.owner, change.action, _described(change), states.get(change.id, "")]
        for change in known
        if change.action != Action.undo
    ]
    console.table(["time, UTC", "owner", "change", "entry", ""], rows)
    if changed.lapsed:
        console.say(f"{len(changed.lapsed):,} changes no longer apply: their entries have changed in {faq}.")
    if output is not None:
        write_entries([keyed.entry for keyed in changed.entries], output)
        console.say(f"Wrote {len(changed.entries):,} entries into {output}.")


def _described(change: Change) -> str:
    lines = [change.of or change.question or change.answer[:80]]
    if change.action in ("add wordings", "remove wordings"):
        lines += [f"• {wording}" for wording in change.wordings]
    return "\n".join(lines)
