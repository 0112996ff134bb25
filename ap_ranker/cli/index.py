"""`ap-ranker index`, `encode` and `pipelines`: what a search of one's own needs."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ap_ranker.cli import options
from ap_ranker.cli.console import ProgressBars, console
from ap_ranker.cli.options import argument, option
from ap_ranker.cli.train import NO_GAIN
from ap_ranker.data.faq import DEFAULT_MATCH, Match
from ap_ranker.errors import InputError, extra_for

MOST_PARTS = 1_000
"""Maximum number of machines that write one index."""


def index(
    documents: Annotated[Path | None, argument("The FAQ, a document, or a folder of documents and tables.")] = None,
    pipeline: Annotated[Path | None, option("A Haystack pipeline with a document store.")] = None,
    columns: options.Columns = None,
    match: options.MatchEntry = DEFAULT_MATCH,
    language: Annotated[
        str | None, option("In Elasticsearch: of the analyzers, for a pipeline without a checkpoint.")
    ] = None,
    part: Annotated[
        str, option("In Elasticsearch: 2/4 writes the second of four ranges of entries, each on a machine of its own.")
    ] = "1/1",
    database: Annotated[
        str | None, option("A database of `ap-ranker serve`: the owner's changes in it are written, too.")
    ] = None,
    test: Annotated[
        Path | None,
        option(
            "In Elasticsearch: questions, a file or a folder with test.*, that a new checkpoint's index is asked "
            "before it is searched. If the search before answers them better, that stays, and the exit code is 3."
        ),
    ] = None,
    back: Annotated[bool, option("In Elasticsearch: return to the index before this one; without documents.")] = False,
) -> None:
    """Synchronize a document store with a FAQ or documents: add, change and remove entries.

    Documents from other sources are not touched. To continue an interrupted run, run the command again.
    """
    from ap_ranker.search.sync_store import index_back, index_faq

    if pipeline is None:
        raise InputError("Expected --pipeline with the file of a pipeline whose store is to be written, found none.")
    if back:
        if documents is not None:
            raise InputError(f"Expected no documents beside --back, found {documents}. Leave one of them out.")
        console.say(f"{index_back(pipeline)} is searched again.")
        return
    if documents is None:
        raise InputError(
            "Expected a FAQ or documents to write into the store, found none. Name them: ap-ranker index FAQ.csv "
            "--pipeline FILE.yaml"
        )
    overlay = None
    if database is not None:
        with extra_for("--database needs", "serve"):
            from ap_ranker.web.changes import owners_changes

        overlay = owners_changes(database)
    with ProgressBars() as progress:
        changes = index_faq(
            documents,
            pipeline,
            match,
            columns=columns,
            language=language,
            part=_part(part),
            overlay=overlay,
            test=test,
            on_progress=partial(progress.update, "indexing"),
            on_embedded=partial(progress.update, "embedding"),
            on_tested=partial(progress.update, "testing"),
            on_read=progress.update,
        )
    comparison = changes.comparison
    if comparison is not None and comparison.is_worse:
        console.warn(
            f"{comparison.explained()} The search stays as it was. The new index is kept, unused; to search it all "
            "the same, run the command again without --test.",
            "No change",
        )
        raise typer.Exit(NO_GAIN)
    console.say(
        f"{changes.place} now holds the {changes.total:,} entries of {documents}: "
        f"{changes.added:,} added, {changes.changed:,} changed, {changes.removed:,} removed, "
        f"{changes.unchanged:,} unchanged."
        + (f" {changes.duplicates:,} duplicates left out." if changes.duplicates else "")
    )
    if comparison is not None:
        console.say(comparison.explained())


def _part(text: str) -> tuple[int, int]:
    """The number of a part, and that of all parts."""
    number, _, parts = text.partition("/")
    if number.isdecimal() and parts.isdecimal() and 1 <= int(number) <= int(parts) <= MOST_PARTS:
        return int(number), int(parts)
    raise InputError(f"Expected --part as 2/4, of at most {MOST_PARTS} parts, found {text!r}.")


def encode(
    checkpoint: Annotated[str, argument("A checkpoint folder or a hub name.")],
    documents: options.Corpus,
    output: Annotated[Path, option("The folder to write; encodings in it are kept, missing ones added.")],
    dtype: options.StoredDtype = None,
    columns: options.Columns = None,
    match: options.MatchText = None,
    device: options.Device = "auto",
) -> None:
    """Encode a corpus in advance, for rankers with `cache: {folder: DIR}`."""
    from ap_ranker.documents import read_entries
    from ap_ranker.ranking.checkpoint import find_checkpoint, read_checkpoint_config
    from ap_ranker.ranking.encode_corpus import encode_corpus
    from ap_ranker.ranking.fingerprint import fingerprint
    from ap_ranker.ranking.quantization import parse_dtype
    from ap_ranker.ranking.stored_encodings import Encodings

    states_dtype = parse_dtype(dtype)
    folder = find_checkpoint(checkpoint)
    match = match or Match(read_checkpoint_config(folder).training.get("match", Match.both))
    with ProgressBars() as progress:
        texts = [entry.text(match) for entry in read_entries(documents, columns, progress.update)]
        written = encode_corpus(
            folder, texts, output, dtype=states_dtype, device=device, on_progress=partial(progress.update, "encoding")
        )
    encodings = Encodings.open(output, fingerprint(folder))
    size = sum(file.stat().st_size for file in output.rglob("*") if file.is_file())
    console.say(
        f"Encoded {written:,} of {len(texts):,} texts; {output} now holds {len(encodings):,} in "
        f"{size / 1e6:,.1f} MB ({encodings.manifest.dtype}, {size / max(len(encodings), 1):,.0f} bytes each)."
    )


def pipelines(output: Annotated[Path, option("The folder to write.")], overwrite: options.Overwrite = False) -> None:
    """Write the Haystack pipelines of ap-ranker, in YAML, to be adapted and named with --pipeline."""
    from ap_ranker.search.default_pipelines import write_pipelines

    for path in write_pipelines(output, overwrite=overwrite):
        console.say(f"{path}")
