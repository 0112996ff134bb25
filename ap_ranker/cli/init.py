"""`ap-ranker init`: makes an untrained checkpoint for documents without questions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ap_ranker.cli.console import console, errors
from ap_ranker.cli.options import CheckpointOutput, Columns, Language, MatchEntry, Overwrite, column_names
from ap_ranker.data.faq import DEFAULT_MATCH


def init(
    documents: Annotated[Path, typer.Option(help="The FAQ, a document, or a folder of documents and tables.")],
    output: CheckpointOutput,
    encoder: Annotated[
        str | None,
        typer.Option(
            help="Pretrained encoder: any sentence-transformers model, by name or folder; by default all-MiniLM-L6-v2."
        ),
    ] = None,
    language: Language = None,
    columns: Columns = None,
    match: MatchEntry = DEFAULT_MATCH,
    overwrite: Overwrite = False,
) -> None:
    """Make a checkpoint that ranks as its pretrained encoder does, for documents to which there are no questions yet.

    How rare words are is counted in the documents. Once there are questions, `ap-ranker train` makes a better one.
    """
    from ap_ranker.training.resume_folder import ResumeFolder

    ResumeFolder(output).check_output(resume=False, overwrite=overwrite)
    from ap_ranker.documents import read_entries
    from ap_ranker.text.stem import check_language
    from ap_ranker.training.untrained import write_untrained

    if language is not None:
        check_language(language)
    entries = read_entries(documents, column_names(columns))
    with errors.status("Counting words ..."):
        write_untrained(output, [entry.text(match) for entry in entries], language, encoder, str(documents))
    console.say(
        f"Wrote {output}: ap-transformer, untrained, for {len(entries):,} texts. Search them: "
        f'ap-ranker ask "YOUR QUESTION" --documents {documents} --model {output}',
    )
