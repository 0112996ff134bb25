"""`ap-ranker extract`, `split` and `synonyms`: questions found, divided and widened."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import Annotated

from rich.text import Text

from ap_ranker.cli.console import ProgressBars, console
from ap_ranker.cli.options import Columns, Language, Overwrite, argument, option
from ap_ranker.errors import InputError
from ap_ranker.files import check_output

SHOWN = 20
"""Maximum number of questions that are named."""


def extract(
    documents: Annotated[Path, argument("A document, or a folder of documents.")],
    output: Annotated[Path, option("The CSV file to write: source, question, answer and wordings.")],
    overwrite: Overwrite = False,
) -> None:
    """Find the questions that documents ask themselves, and write them with their answers as a FAQ to edit.

    These are headings that ask a question, details with a summary, definition lists, and a FAQPage of schema.org.
    """
    from ap_ranker.data.faq import write_entries
    from ap_ranker.documents.extract import KINDS
    from ap_ranker.documents.extract import extract as find

    check_output(output, ".csv")  # before the documents are read, which may take minutes
    if output.exists() and not overwrite:
        raise InputError(f"{output}: expected no file there yet, found one. Choose another --output, or --overwrite.")
    with ProgressBars() as bars:
        extracted = find(documents, bars.update)
    write_entries(extracted.faq, output)
    lines = [f"{count:,} {KINDS[kind]}" for kind, count in extracted.kinds.most_common()]
    if extracted.merged:
        lines.append(f"{extracted.merged:,} left out, as another entry has the same question and answer")
    if extracted.without:
        lines.append(f"{extracted.without:,} files ask no question: serve {documents} searches them, too")
    for line in [*lines, *extracted.left_out]:
        console.say(f"  {line}")
    console.say(f"Wrote {output}: {len(extracted.entries):,} questions with answers.")
    if documents.resolve() in output.resolve().parents:
        console.warn(f"a search of {documents} would find each answer twice, as the file is in it.", "Note")


def split(
    data: Annotated[Path, argument("A FAQ, or other pairs: a file with columns question and answer.")],
    output: Annotated[Path, option("The folder to write; it must not exist yet.")],
    share: Annotated[
        float, option("Share of the questions that become dev questions, and that become test questions.")
    ] = 0.15,
    columns: Columns = None,
    seed: Annotated[int, option("Random seed: the same seed, the same split.")] = 1,
) -> None:
    """Divide pairs into train, dev and test, which share no question, for train, calibrate and evaluate."""
    with ProgressBars() as bars:
        from ap_ranker.data.split import split_file  # its libraries take a second to load

        parts = split_file(data, output, share=share, seed=seed, columns=columns, on_progress=bars.update)
    for reason, count in parts["train"].notes.items():
        console.say(f"  {count:,} {reason}")
    counts = ", ".join(f"{len(part.questions):,} {name}" for name, part in parts.items())
    console.say(f"Wrote {output}: {counts} questions; all {len(parts['test'].answers):,} answers are candidates.")


def synonyms(
    file: Annotated[Path, argument("Synonyms: lines such as SAP = payroll system, or lift => elevator.")],
    documents: Annotated[Path, option("The FAQ (question, answer; or aid, answer).")],
    questions: Annotated[
        Path, option("Questions with their right answers (question, answer_ids; or question, answer).")
    ],
    language: Language = None,
    columns: Columns = None,
) -> None:
    """Search questions by words without and with synonyms, and show which right answers rise and fall."""
    from ap_ranker.data.dataset import answerable
    from ap_ranker.data.reader import read_dataset
    from ap_ranker.evaluation.word_search import preview
    from ap_ranker.text.languages import check_language
    from ap_ranker.text.synonyms import read_synonyms

    check_language(language)
    read_words = read_synonyms(file, language)
    data = read_dataset(questions, "dev", answers=documents, columns=columns)
    data.require_shared_answers("Name questions that a FAQ answers.")
    answerable(data)
    with ProgressBars() as bars:
        result = preview(data, read_words, bars.update)
    rising = sum(after < before for _, before, after in result.moved)
    rows: list[list[str | Text]] = []
    for question, before, after in result.moved[:SHOWN]:
        ranks = []
        for rank in (before, after):
            ranks.append(f"{rank:g}" if isfinite(rank) else "not found")
        rows.append([question, ranks[0], Text(ranks[1], "green" if after < before else "red")])
    if rows:
        console.table(["question", "rank before", "after"], rows)
    console.say(
        f"{result.concerned:,} of {result.n_questions:,} questions have a synonym. Their right answer rises for "
        f"{rising:,}, falls for {len(result.moved) - rising:,}. BM25: MRR {result.mrr[0]:.3f} before, "
        f"{result.mrr[1]:.3f} after."
    )
