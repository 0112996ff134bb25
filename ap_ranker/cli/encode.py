"""`ap-ranker encode`: encodes a corpus and stores the states."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ap_ranker.cli.console import ProgressBars, console
from ap_ranker.cli.options import Columns, Corpus, Device, MatchText, StoredDtype, column_names


def encode(
    checkpoint: Annotated[str, typer.Argument(help="A checkpoint folder or a hub name.")],
    documents: Corpus,
    output: Annotated[Path, typer.Option(help="The folder to write; encodings in it are kept, missing ones added.")],
    dtype: StoredDtype = None,
    columns: Columns = None,
    match: MatchText = None,
    device: Device = "auto",
) -> None:
    """Encode a corpus in advance, for rankers with `encodings: DIR`."""
    from ap_ranker.data.faq import Match
    from ap_ranker.documents import read_entries
    from ap_ranker.ranking.checkpoint import find_checkpoint, read_checkpoint_config
    from ap_ranker.ranking.encode import encode_corpus
    from ap_ranker.ranking.encodings import Encodings, fingerprint
    from ap_ranker.ranking.quantization import parse_dtype

    states_dtype = parse_dtype(dtype)
    folder = find_checkpoint(checkpoint)
    match = match or Match(read_checkpoint_config(folder).training.get("match", Match.both))
    texts = [entry.text(match) for entry in read_entries(documents, column_names(columns))]
    with ProgressBars() as bars:
        written = encode_corpus(
            folder, texts, output, dtype=states_dtype, device=device, on_progress=partial(bars.update, "encoding")
        )
    encodings = Encodings.open(output, fingerprint(folder))
    console.say(
        f"Encoded {written:,} of {len(texts):,} texts; {output} now holds {len(encodings):,} in "
        f"{encodings.size / 1e6:,.1f} MB ({encodings.manifest.dtype}, "
        f"{encodings.size / max(len(encodings), 1):,.0f} bytes each)."
    )
