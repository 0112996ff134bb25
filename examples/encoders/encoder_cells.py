"""A cell of the table of encoders: an encoder, trained for so long, on a data set."""

from __future__ import annotations

import resource
import shutil
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch
from encoder_tables import COSINE, EXAMPLE, HERE

sys.path.append(str(HERE.parent / "fair_peers"))

from fair_data import read_fair_data
from fair_systems import (
    OURS,
    UNTRAINED,
    WITH_BM25,
    WORDINGS,
    Settings,
    mean_measures,
    measure_rows,
    train_system,
)

from ap_ranker.ranking.cache import CACHE_BYTES, EncodingCache
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.training.untrained import write_untrained

EFFORTS: dict[str, Settings] = {
    COSINE: {},
    "untrained": {"epochs": 0},
    "quick": {"effort": "quick"},
    "normal": {},
    "best": {"effort": "best"},
}
"""What is done with an encoder -> the settings of the training. A large one learns its upper half with `normal`."""

SEED = 1
WARM, ASKED, CANDIDATES = 10, 100, 100
"""Questions that do not count, those whose time does, and the answers that each is matched with."""


def measure(encoder: str, effort: str, name: str, data: Path | None, tables: Path, folder: Path) -> dict[str, Any]:
    """Train an encoder on a data set, and measure it as it is served: with known wordings and BM25's score."""
    torch.set_num_threads(1)
    shutil.rmtree(folder, ignore_errors=True)  # a run that was stopped would count its last part alone
    fair_data = read_fair_data(name, data, tables, encoder)
    system = UNTRAINED if effort == COSINE else OURS
    started = time.process_time()
    trained = train_system(system, EFFORTS[effort], fair_data, folder, SEED, torch.device("cpu"))
    seconds = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    test = fair_data.test_set
    rows = mean_measures(measure_rows(trained, fair_data.dev_set(SEED), test))
    return {
        "encoder": Path(encoder).name,
        "effort": effort,
        "data": name,
        "title": fair_data.title,
        "questions": len(test.questions),
        "training_questions": len(fair_data.training.questions),
        "bm25": test.bm25,
        "measures": rows[WORDINGS + WITH_BM25],
        "training_seconds": round(seconds, 1),
        "peak_bytes": peak,
        "bytes_per_answer": round(trained.score(test, wordings=False).bytes_per_answer),
    }


def question_milliseconds(encoder: str) -> float:
    """Processor time of a question with cached answers, of one thread: to read it and to match it. The median.

    Training changes no time, so nothing is trained.
    """
    torch.set_num_threads(1)
    data = read_fair_data(EXAMPLE, None, Path(), encoder)
    answers = data.test.answer_texts[:CANDIDATES]
    times: list[float] = []
    with TemporaryDirectory() as folder:
        write_untrained(folder, data.test.answer_texts, data.base.language, options={"encoder": data.encoder})
        ranker = Ranker.from_pretrained(folder, "cpu", cache=EncodingCache(CACHE_BYTES))
        for text in data.test.question_texts[: WARM + ASKED]:
            started = time.thread_time()
            ranker.rank(text, answers)
            times.append(1_000 * (time.thread_time() - started))
    return round(median(times[WARM:]), 2)
