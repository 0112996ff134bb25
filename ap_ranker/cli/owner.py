"""`ap-ranker owner`: what users ask and say, what was changed, and who may change it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.text import Text

from ap_ranker.cli.console import ProgressBars, console, minute, numbers
from ap_ranker.cli.options import Columns, Database, NamedDocuments, SearchedOptions, argument, option
from ap_ranker.cli.serve import require_server
from ap_ranker.data.faq_file import FaqFile
from ap_ranker.errors import InputError
from ap_ranker.files import check_output, write_text_atomically

if TYPE_CHECKING:
    from ap_ranker.web.changes import Change

SHOWN = 20
"""Maximum number of groups in the table."""

DAY: dict[str, Any] = {"formats": ["%Y-%m-%d"], "metavar": "YYYY-MM-DD"}
"""What an option for a day takes."""

FaqOrDatabase = Annotated[Path | None, argument("The FAQ, or its database, FAQ.db.", metavar="FAQ|DATABASE")]


def gaps(
    searched: SearchedOptions,
    folder_or_faq: NamedDocuments = None,
    database: Database = None,
    output: Annotated[
        Path | None,
        option("A CSV file, yours alone to read, for all groups: rows of a FAQ whose answers are still empty."),
    ] = None,
) -> None:
    """Group the questions without an answer, and those whose answers or maybes helped nobody, most asked first."""
    searched = searched.of(folder_or_faq)
    if searched.documents is None:
        raise InputError(
            "Expected the FAQ that the questions were put to, found none. Name it: ap-ranker owner gaps FAQ.csv"
        )
    check_output(output, ".csv", read=(searched.documents, *(searched.wordings or ())))
    require_server()
    from ap_ranker.web.changes import owners_changes
    from ap_ranker.web.database import open_existing, place_of
    from ap_ranker.web.gaps import GapFinder, find_unanswered, open_questions, write_gaps

    place = place_of(database, searched.documents)
    unanswered = find_unanswered(open_existing(place))
    with ProgressBars() as bars, searched.set_up(overlay=owners_changes(place), on_progress=bars.update) as setup:
        search, _ = setup.load()
        entries = None
        if setup.documents:
            entries = setup.documents.entries
        remaining, faq_questions = open_questions(unanswered, entries, match=setup.match, wordings=setup.wordings)
        # The last groups are of all questions; those before, of some, are for a page that shows something at once.
        *_, groups = GapFinder(search, on_progress=bars.update).find(remaining, faq_questions)
    in_faq = f"{len(unanswered) - len(remaining):,} of them in the FAQ by now"
    console.say(f"{len(unanswered):,} different questions without an answer that helped, {in_faq}.")
    if not unanswered:
        console.say("Questions are logged by serve's --log-questions.")
    if output is not None:
        write_gaps(groups, output)
    rows: list[list[str | Text]] = []
    for gap in groups[:SHOWN]:
        further = ""
        if len(gap.questions) > 1:
            further = f"\n+ {len(gap.questions) - 1} other wordings"
        score = "-"
        if gap.first.score is not None:
            score = f"{gap.first.score:.3f}"
        rows.append([str(gap.asked), Text.assemble(gap.first.text, (further, "dim")), gap.first.nearest[:80], score])
    if groups:
        console.table(["asked", "question", "nearest entry", "its score"], rows)
    if len(groups) > SHOWN:
        console.say(f"{len(groups) - SHOWN:,} smaller groups not shown.")
    if output is not None:
        console.say(
            f"Wrote {len(groups):,} groups into {output}. Write answers there, and copy the columns question, answer "
            "and wordings of these rows to the FAQ."
        )


def changes(
    faq: Annotated[Path, argument("The FAQ that the changes were made to, a table.")],
    database: Database = None,
    columns: Columns = None,
    output: Annotated[
        Path | None,
        option("A new CSV file, yours alone to read, for the FAQ with all changes; the FAQ's own file stays as it is."),
    ] = None,
    clear: Annotated[
        bool, option("Delete all changes. It is refused while the FAQ's own file lacks any of them.", "--clear")
    ] = False,
) -> None:
    """List the changes of the owner's page, write the FAQ with all of them into a new file, or begin anew."""
    check_output(output, ".csv", read=[faq])
    if clear and output:
        raise InputError(
            "Expected --output or --clear, found both. Write the file with --output, put it in the FAQ's place, and "
            "run the command again with --clear."
        )
    require_server()
    from ap_ranker.web.changes import Action, apply_changes, clear_changes, read_changes
    from ap_ranker.web.database import in_utc, open_existing

    website = open_existing(database, faq)
    file = FaqFile.read(faq, columns)
    if clear:
        console.say(f"Deleted {clear_changes(website, file.entries):,} changes, which {faq} has.")
        return
    recorded = read_changes(website)
    changed = apply_changes(file.entries, recorded)
    states = dict.fromkeys(changed.undone, "undone") | dict.fromkeys(changed.lapsed, "no longer applies")
    rows = []
    for change in recorded:
        if change.action != Action.undo:
            state = states.get(change.id, "")
            rows.append([minute(in_utc(change.time)), change.owner, change.action, _described(change), state])
    console.table(["time, UTC", "owner", "change", "entry", ""], rows)
    if changed.lapsed:
        console.say(f"{len(changed.lapsed):,} changes no longer apply: their entries have changed in {faq}.")
    if output is not None:
        left = changed.left(website)
        file.write(left, output)
        unfinished = ""
        if file.unfinished:
            unfinished = f", and {file.unfinished:,} rows without an answer as they were"
        console.say(f"Wrote {len(left):,} entries into {output}{unfinished}.")


def _described(change: Change) -> str:
    """The question of the entry, or the beginning of its answer, and the wordings that are added or removed."""
    from ap_ranker.web.changes import Action

    lines = [change.of or change.question or change.answer[:80]]
    if change.action in (Action.edit_entry, Action.add_wordings, Action.remove_wordings):
        lines += [f"• {wording}" for wording in change.wordings]
    lines += [f"✗ {wording}" for wording in change.removed]
    return "\n".join(lines)


def report(
    faq_or_database: FaqOrDatabase = None,
    database: Database = None,
    first: Annotated[datetime | None, option("The first day; by default six before the last.", "--from", **DAY)] = None,
    last: Annotated[datetime | None, option("The last day; by default today.", "--to", **DAY)] = None,
    language: Annotated[str, option("The report's language, en or de.")] = "en",
    output: Annotated[Path | None, option("An HTML file to send by e-mail; at first, only you can read it.")] = None,
) -> None:
    """Report what users asked in a week or other days, how much of it was answered, and what has changed since before.

    Days are those of UTC.
    """
    check_output(output, ".html", read=[faq_or_database])
    require_server()
    from ap_ranker.web.database import open_existing
    from ap_ranker.web.report import Report
    from ap_ranker.web.usage import Period, usage_of

    period = Period.of(first and first.date(), last and last.date())
    website = open_existing(database, faq_or_database)
    usage = usage_of(website, period)
    report = Report(usage, language)
    texts = report.texts
    titles = ("", numbers(texts["now"]), numbers(texts["before"]))
    console.table(titles, report.summary(), title=f"{website.place}: {report.days}")
    counts = ("asked", "before", "none")
    rows = []
    for row in usage["top"]:
        numbers_of_row = [f"{row[name]:,}" for name in counts]
        rows.append([row["question"][:80], *numbers_of_row])
    if rows:
        columns = (texts["askedTimes"], texts["before"], texts["names"]["none"])
        console.table([texts["top"], *map(numbers, columns)], rows)
    if usage["words"]:
        console.table([texts["question"], texts["lookedFor"]], usage["words"])
    if output is not None:
        write_text_atomically(output, report.page(), private=True)
        console.say(f"Wrote {output}.")


def keys(
    faq_or_database: FaqOrDatabase = None,
    database: Database = None,
    remove: Annotated[str | None, option("End the key of somebody, and their sessions.", metavar="NAME")] = None,
    add: Annotated[str | None, option("Make a key for somebody of this name, shown once.", metavar="NAME")] = None,
) -> None:
    """Remove or add somebody who may log in to the owner's page with a key of their own, and list all who may."""
    require_server()
    from ap_ranker.web.database import in_utc, open_database, open_existing, place_of
    from ap_ranker.web.owner.sessions import add_owner, check_owner_name, owners_keys, remove_owner

    if add is not None:
        check_owner_name(add)
    if add is not None and remove is None:  # nobody can be removed from a database that is not there
        website = open_database(place_of(database, faq_or_database))
    else:
        website = open_existing(database, faq_or_database)
    if remove is not None:
        remove_owner(website, remove)
    if add is not None:
        key = add_owner(website, add)
        console.say(f"The key of {add} for the owner's page, kept nowhere and shown only now:\n\n{key}\n")
    rows = [[key.owner or "", minute(in_utc(key.time))] for key in owners_keys(website)]
    console.table(["owner", "since, UTC"], rows)
