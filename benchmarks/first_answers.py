"""How many first answers change where states are stored in fewer bits, or faster code computes them.

    python -m benchmarks.first_answers CHECKPOINT DATA [--split dev] [--questions 500] [--pools FILE] [--table FILE]

Beside each count is the exact interval of the share (Clopper and Pearson 1934, 95 %). Compared is the model alone, with
float32 states that torch and transformers compute without our own forward pass, compiled loops or bfloat16. Times are
the median processor time of a question whose candidates are cached.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from time import process_time
from typing import Annotated
from unittest.mock import patch

import numpy as np
import torch
import typer
from scipy.stats import binomtest

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.data.dataset import sample_questions
from ap_ranker.data.reader import read_dataset
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.markdown import markdown_table
from ap_ranker.files import write_text_atomically
from ap_ranker.models import ap, transformer_encoder
from ap_ranker.models.base import AnswerModel, States
from ap_ranker.models.fast_forward import FastTransformer
from ap_ranker.models.registry import model_spec
from ap_ranker.ranking.cache import EncodingCache
from ap_ranker.ranking.checkpoint import CheckpointConfig, load_checkpoint, read_checkpoint_config
from ap_ranker.ranking.quantization import StateDtype
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.text.tokenizer import AnyTokenizer


@dataclass(frozen=True)
class Way:
    """To compute scores: `dtype` of the stored states, by default the model's own, and which faster code may run."""

    name: str
    dtype: StateDtype | None = StateDtype.float32
    forward: bool = False  # our own forward pass of an encoder
    bfloat16: bool = False  # where the CPU multiplies it
    compiled: bool = False  # numba's loops of attentive pooling, which read states as they are stored

    def concerns(self, name: str) -> bool:
        """Whether a model of this name has the faster code: an encoder its forward pass, the others loops."""
        return self.dtype is None or not (self.compiled if model_spec(name).pretrained else self.forward)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Nothing faster runs than this way has."""
        with ExitStack() as patched:
            if not self.forward:
                patched.enter_context(patch.object(FastTransformer, "checked", lambda *_: None))
            if not self.bfloat16:
                patched.enter_context(patch.object(transformer_encoder, "multiplies_bfloat16", lambda: False))
            if not self.compiled:
                patched.enter_context(patch.object(ap, "compiled_loops_agree", lambda: False))
            yield


PLAIN = Way("float32")
WAYS = (
    Way("states in float16", StateDtype.float16),
    Way("states in int8", StateDtype.int8),
    Way("states in int4", StateDtype.int4),
    Way("own forward pass", forward=True),
    Way("own forward pass, bfloat16", forward=True, bfloat16=True),
    Way("compiled loops", compiled=True),
    Way("compiled loops, int8", StateDtype.int8, compiled=True),
    Way("all of it, as by default", None, forward=True, bfloat16=True, compiled=True),
)


def first_answers(folder: Path, data: EvaluationSet, way: Way) -> tuple[np.ndarray, float, float]:
    """Of each question the best answer, as a position in its pool; the share of right ones, and milliseconds."""
    texts = [answer.text for answer in data.dataset.answers]
    candidates = tuple(dict.fromkeys(texts[row] for row in chain.from_iterable(data.pools)))
    cache = EncodingCache(10**9, way.dtype)
    with way.taken():
        ranker = Ranker(*_loaded(folder), cache=cache)
        for rows, states in _encoded(folder, candidates, replace(way, dtype=StateDtype.float32)):
            cache.put([candidates[row] for row in rows], ranker.quantize(states, ranker.stored_dtype))
        best, right, seconds = [], [], []
        for question, pool in zip(data.questions, data.pools, strict=True):
            began = process_time()
            best.append(int(ranker.score(question.text, [texts[row] for row in pool]).argmax()))
            seconds.append(process_time() - began)
            right.append(pool[best[-1]] in question.positives)
    return np.array(best), float(np.mean(right)), 1000 * float(np.median(seconds))


def _loaded(folder: Path) -> tuple[AnswerModel, AnyTokenizer, str, CheckpointConfig]:
    config, model, tokenizer = load_checkpoint(folder)
    return model, tokenizer, "cpu", config


@lru_cache(maxsize=1)
def _encoded(folder: Path, texts: tuple[str, ...], way: Way) -> list[tuple[list[int], States]]:
    """The exact states of texts in batches, each with their positions; ways that compute them alike share them."""
    with way.taken(), torch.inference_mode():
        return [*Ranker(*_loaded(folder)).answer_states(texts)]


def main(
    checkpoint: Annotated[Path, typer.Argument(help="A trained checkpoint.")],
    data: Annotated[Path, typer.Argument(help="The folder or file of its data.")],
    split: Annotated[str, typer.Option(help="Which questions.")] = "dev",
    questions: Annotated[int, typer.Option(min=1, help="At most, drawn at random.")] = 500,
    pools: Annotated[Path | None, typer.Option(help="Candidate pools of the questions.")] = None,
    table: Annotated[Path | None, typer.Option(help="Write the table to this Markdown file.")] = None,
) -> None:
    """Print how many first answers each faster way changes."""
    with report_user_errors():
        sample = EvaluationSet(sample_questions(read_dataset(data, split, pools=pools), questions, 1))
        plain, precision, milliseconds = first_answers(checkpoint, sample, PLAIN)
        rows = [[f"float32, {len(plain)} questions", "", "", f"{precision:.3f}", f"{milliseconds:.2f}"]]
        name = read_checkpoint_config(checkpoint).model
        for way in (each for each in WAYS if each.concerns(name)):
            found, precision, milliseconds = first_answers(checkpoint, sample, way)
            changed = int((found != plain).sum())
            interval = binomtest(changed, len(plain)).proportion_ci(0.95, "exact")
            shares = f"{interval.low:.1%} to {interval.high:.1%}"
            rows.append([way.name, str(changed), shares, f"{precision:.3f}", f"{milliseconds:.2f}"])
            typer.echo(" | ".join(rows[-1]))
        text = markdown_table(["way", "changed", "95 % interval", "P@1", "ms"], rows)
        typer.echo(text)
        if table:
            write_text_atomically(table, f"{text}\n")


if __name__ == "__main__":
    typer.run(main)
