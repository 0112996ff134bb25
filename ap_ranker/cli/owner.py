"""`ap-ranker gaps`, `changes` and `wordings`: what the owner of a FAQ learns from its users, and has changed."""

from __future__ import annotations

from pathlib import Path
from textwrap import shorten
from typing import Annotated

from rich.text import Text

from ap_ranker.cli.console import console, errors
from ap_ranker.cli.options import Columns, SearchedOptions, argument, option
from ap_ranker.data.faq import read_faq, write_entries
from ap_ranker.data.feedback import helpful_answers
from ap_ranker.errors import InputError
from ap_ranker.files import writing
from ap_ranker.web.changes import Action, Change, apply_changes, read_changes
from ap_ranker.web.question_log import Outcome, read_question_log

SHOWN, WIDTH = 20, 60
"""Maximum number of groups in the table, and of characters of an answer."""


def gaps(
    log: Annotated[Path, argument("The log of `ap-ranker serve --log-questions`.")],
    searched: SearchedOptions,
    feedback: Annotated[
        Path | None, option("Users' feedback: questions whose answers did not help are gaps, too.")
    ] = None,
    output: Annotated[
        Path | None, option("A CSV file for all groups, as rows of a FAQ whose answers are still empty.")
    ] = None,
) -> None:
    """Group the questions that were refused, found nothing or whose answers did not help, most asked first."""
    if searched.documents is None:
        raise InputError("Expected the FAQ that the questions were put to, found none. Name it with --documents.")
    _check_output(output)
    questions = read_question_log(log)
    from ap_ranker.web.gaps import find_gaps, find_unanswered, write_gaps

    unanswered = find_unanswered(questions, feedback)
    with searched.set_up() as setup, errors.status("Grouping the questions ..."):
        search, _ = setup.load()
        entries = setup.documents.entries if setup.documents else None
        remaining, found = find_gaps(unanswered, search, entries, setup.match, setup.wordings)
    refused = sum(question.outcome != Outcome.answered for question in questions)
    console.say(
        f"{len(questions):,} questions, {refused:,} of them without an answer. {len(unanswered) - refused:,} answers "
        f"did not help. {len(unanswered) - remaining:,} of these questions are in the FAQ by now."
    )
    if not refused:
        console.say("No question was refused: a search does so only with serve's --precision or --score-threshold.")
    if output is not None:
        write_gaps(found, output)
    rows: list[list[str | Text]] = []
    for gap in found[:SHOWN]:
        further = f"\n+ {len(gap.questions) - 1} other wordings" if len(gap.questions) > 1 else ""
        first = gap.first
        question = Text.assemble(first.text, (further, "dim"))
        score = "-" if first.score is None else f"{first.score:.3f}"
        rows.append([str(gap.asked), question, first.nearest[:80], score])
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
    file: Annotated[Path, option("The file of changes that `ap-ranker serve` has written.", "--changes")] = Path(
        "changes.jsonl"
    ),
    columns: Columns = None,
    output: Annotated[
        Path | None, option("A new CSV file for the FAQ with all changes; the FAQ's own file stays as it is.")
    ] = None,
) -> None:
    """List the changes of the owner's page, or write the FAQ with all of them into a new file."""
    if not file.is_file():
        raise InputError(f"{file}: expected a file of changes, found none. Name it with --changes.")
    _check_output(output, faq)
    known = read_changes(file)
    changed = apply_changes(read_faq(faq, columns), known)
    states = dict.fromkeys(changed.undone, "undone") | dict.fromkeys(changed.lapsed, "no longer applies")
    shown = [change for change in known if change.action != Action.undo]
    rows = [[change.time, change.action, _described(change), states.get(change.id, "")] for change in shown]
    console.table(["time", "change", "entry", ""], rows)
    if changed.lapsed:
        console.say(f"{len(changed.lapsed):,} changes no longer apply: their entries have changed in {faq}.")
    if output is not None:
        write_entries([keyed.entry for keyed in changed.entries], output)
        console.say(f"Wrote {len(changed.entries):,} entries into {output}.")


def _described(change: Change) -> str:
    lines = [change.of or change.question or change.answer[:80]]
    if change.action in (Action.add_wordings, Action.remove_wordings):
        lines += [f"• {wording}" for wording in change.wordings]
    return "\n".join(lines)


def wordings(
    file: Annotated[Path, argument("The feedback file of `ap-ranker serve`.")],
    remove: Annotated[
        str | None, option("Take back this question: all its judgements leave the feedback file.")
    ] = None,
) -> None:
    """List each question that an answer helped, as most users say, or take one back.

    No search knows these wordings. Add those that you accept to the FAQ, or to a file that --wordings names.
    """
    if remove is None:
        rows = [[question, shorten(answer, WIDTH, placeholder=" ...")] for question, answer in helpful_answers(file)]
        console.table(["wording", "answer"], rows, str(file))
        return
    from ap_ranker.web.clicks import FeedbackFile

    if not file.is_file():
        raise InputError(f"{file}: expected a feedback file, found none.")
    with writing(file):
        removed = FeedbackFile(file).remove(remove)
    if not removed:
        expected = f"expected judgements of the question {remove!r}, found none"
        raise InputError(f"{file}: {expected}. List them: ap-ranker wordings {file}")
    console.say(f"{removed:,} judgements taken back; they are now in {file}.removed.")
