"""Encode a corpus once, for all rankers that will use it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from ap_ranker.errors import InputError, one_line
from ap_ranker.processes import process_count, process_number
from ap_ranker.ranking.checkpoint import find_checkpoint
from ap_ranker.ranking.encodings import (
    Manifest,
    begin_encodings,
    fingerprint,
    text_key,
    write_shard,
)
from ap_ranker.ranking.quantization import StateDtype
from ap_ranker.ranking.ranker import Ranker

SHARD = 2048
"""Texts per shard, at least: what an interrupted run may lose, and what it holds in memory."""

MOST_SHARDS = 4096
"""Of one run: each is some open files."""


def encode_corpus(
    source: str | Path,
    texts: Sequence[str],
    output: Path,
    *,
    dtype: StateDtype = StateDtype.float16,
    device: str | None = None,
    shard: int | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> int:
    """Write the states of all texts that `output` does not hold yet.

    So an interrupted run goes on where it was, a changed corpus costs its changes, and a shard that was deleted is
    written anew. Under `torchrun` each process encodes its share; processes with other texts may add theirs meanwhile.

    Args:
        source: a checkpoint folder or a hub name.
        texts: the answers, exactly as they will be ranked.
        output: a folder of encodings, new or of this checkpoint and dtype.
        dtype: how numbers are kept.
        device: as in `Ranker.from_pretrained`.
        shard: texts per shard; `SHARD`, or more for a corpus of millions, if not given.
        on_progress: told how many texts of how many are done.

    Returns:
        How many texts were encoded.

    Raises:
        InputError: no such checkpoint; `output` is of another checkpoint or dtype, or something else, or cannot be
            written.
    """
    folder = find_checkpoint(source)
    ranker = Ranker.from_pretrained(folder, device)
    assert ranker.config is not None
    manifest = Manifest(ranker.config.model, fingerprint(folder), dtype)
    try:
        begin_encodings(output, manifest)
    except OSError as error:
        raise InputError(f"{output}: expected a folder that can be written, found {one_line(error)}.") from error
    encodings = ranker.open_encodings(output, manifest.fingerprint)

    process, processes = process_number(), process_count()
    keys = [text_key(text) for text in texts]
    # By place among all texts: what is missing changes while other processes write.
    missing = [place for place in encodings.missing(keys) if place % processes == process]
    shard = shard or max(SHARD, -(-len(missing) // MOST_SHARDS))
    for start in range(0, len(missing), shard):
        on_progress(start, len(missing))
        places = missing[start : start + shard]
        order, batches = [], []
        with torch.inference_mode():
            for rows, states in ranker.answer_states([texts[place] for place in places]):
                order += [places[row] for row in rows]
                batches.append(ranker.reduced(states, dtype))
                if not batches[-1].is_finite():
                    raise InputError(
                        f"{folder}: expected states that {dtype} can hold, found some that it cannot: take "
                        "--dtype float32, or train the checkpoint again."
                    )
        try:
            write_shard(output, [keys[place] for place in order], batches)
        except OSError as error:
            raise InputError(
                f"{output}: could not be written ({one_line(error.strerror or error)}). {start} of {len(missing)} "
                "texts are written and stay; make room and start again for the others."
            ) from error
    on_progress(len(missing), len(missing))
    return len(missing)
