"""Encoding of a corpus, once for all rankers that use it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from ap_ranker.errors import InputError
from ap_ranker.files import WriteError, writing
from ap_ranker.processes import process_count
from ap_ranker.ranking.checkpoint import find_checkpoint
from ap_ranker.ranking.fingerprint import text_key
from ap_ranker.ranking.quantization import QuantizedStates, StateDtype
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.stored_encodings import Encodings, Manifest

AT_ONCE = 2048
"""The number of texts whose states are in memory until they are written: an interrupted run loses as many at most."""


def encode_corpus(
    source: str | Path,
    texts: Sequence[str],
    output: Path,
    *,
    dtype: StateDtype | None = None,
    device: str | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> int:
    """Write the states of all texts that `output` does not contain yet, and return how many it wrote.

    So an interrupted run can be continued, and only the changes of a corpus are encoded. Processes with other texts may
    add theirs at the same time. A corpus that needs several machines belongs into a store that they share; so this is
    refused (InputError) in one of several processes that `torchrun` has started.

    The source is a checkpoint folder or a hub name, the texts are answers exactly as they will be ranked, the output is
    a new folder, or one of this checkpoint and `dtype`: by default float16, or fewer bits if the model loses nothing by
    them. `on_progress` is called with the number of texts that are written and of all that will be.
    """
    if process_count() > 1:
        raise InputError(
            f"Expected one process, found {process_count()}: a folder of encodings is one machine's. Start ap-ranker "
            "encode without torchrun, or let several machines write one index: ap-ranker index FAQ.csv --pipeline "
            "FILE.yaml --part 1/4"
        )
    folder = find_checkpoint(source)
    ranker = Ranker.from_pretrained(folder, device)
    dtype = dtype or ranker.state_dtype(wanted=None, otherwise=StateDtype.float16)
    with writing(output):
        encodings = Encodings.begin(output, Manifest(ranker.name, ranker.fingerprint, dtype))
    different = list(dict.fromkeys(texts))
    missing: list[str] = []
    for text, length in zip(different, encodings.lengths(different), strict=True):
        if not length:  # a text that is there has a length: an empty one is read as one unknown word
            missing.append(text)
    for start in range(0, len(missing), AT_ONCE):
        on_progress(start, len(missing))
        some = missing[start : start + AT_ONCE]
        keys: list[bytes] = []
        batches = []
        with torch.inference_mode():
            for rows, states in ranker.answer_states(some):
                keys += [text_key(some[row]) for row in rows]
                batches.append(ranker.quantize(states, dtype))
                if not batches[-1].is_finite():
                    raise InputError(
                        f"{folder}: expected states that {dtype} can represent, found others: use --dtype float32, or "
                        "train the checkpoint again."
                    )
        try:
            with writing(output):
                encodings.add(keys, QuantizedStates.joined(batches))
        except WriteError as error:
            raise InputError(f"{error} {start} of {len(missing)} texts are written and stay.") from error
    on_progress(len(missing), len(missing))
    return len(missing)
