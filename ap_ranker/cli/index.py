"""`ap-ranker index`, `encode` and `pipelines`: what a search of one's own needs."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

from ap_ranker.cli import options
from ap_ranker.cli.console import ProgressBars, console
from ap_ranker.cli.options import argument, option
from ap_ranker.data.faq import DEFAULT_MATCH, Match


def index(
    documents: options.Corpus,
    pipeline: Annotated[Path, option("A Haystack pipeline with a document store.")],
    columns: options.Columns = None,
    match: options.MatchEntry = DEFAULT_MATCH,
) -> None:
    """Synchronize a document store with a FAQ or documents: add, change and remove entries.

    Documents from other sources are not touched. To continue an interrupted run, run the command again.
    """
    from ap_ranker.search.sync_store import index_faq

    with ProgressBars() as bars:
        changes = index_faq(
            documents,
            pipeline,
            match,
            columns=columns,
            on_progress=partial(bars.update, "indexing"),
            on_embedded=partial(bars.update, "embedding"),
        )
    console.say(
        f"{changes.place} now holds the {changes.total:,} entries of {documents}: "
        f"{changes.added:,} added, {changes.changed:,} changed, {changes.removed:,} removed, "
        f"{changes.unchanged:,} unchanged."
        + (f" {changes.duplicates:,} duplicates left out." if changes.duplicates else "")
    )


def encode(
    checkpoint: Annotated[str, argument("A checkpoint folder or a hub name.")],
    documents: options.Corpus,
    output: Annotated[Path, option("The folder to write; encodings in it are kept, missing ones added.")],
    dtype: options.StoredDtype = None,
    columns: options.Columns = None,
    match: options.MatchText = None,
    device: options.Device = "auto",
) -> None:
    """Encode a corpus in advance, for rankers with `encodings: DIR`."""
    from ap_ranker.documents import read_entries
    from ap_ranker.ranking.checkpoint import find_checkpoint, read_checkpoint_config
    from ap_ranker.ranking.encode_corpus import encode_corpus
    from ap_ranker.ranking.quantization import parse_dtype
    from ap_ranker.ranking.stored_encodings import Encodings, fingerprint

    states_dtype = parse_dtype(dtype)
    folder = find_checkpoint(checkpoint)
    match = match or Match(read_checkpoint_config(folder).training.get("match", Match.both))
    texts = [entry.text(match) for entry in read_entries(documents, columns)]
    with ProgressBars() as bars:
        written = encode_corpus(
            folder, texts, output, dtype=states_dtype, device=device, on_progress=partial(bars.update, "encoding")
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
