"""How soft should the maximum over an entry's texts be? MRR of dev questions by the t of `ap_ranker/ranking/rule.py`.

AP_ENCODERS=ENCODERS python examples/known_wordings/softness.py cosibot_de covid_questions --data DATA \
  --encoder intfloat/multilingual-e5-small --output tables
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.markdown import markdown_table
from ap_ranker.models.pretrained import DEFAULT_ENCODER, find_encoder
from ap_ranker.text.question_keys import keys_of_questions, question_keys
from ap_ranker.training.peers import BiEncoder

sys.path.append(str(Path(__file__).resolve().parents[1] / "fair_peers"))
from fair_data import read_fair_data

SOFTNESSES = (0.04, 0.02, 0.01, 0.005, 0.0025, 0.0001)
WEIGHTS = (0.6, 2.0)
"""Of the known wordings: the v of the rule."""

DEV_SEED = 1


def command(
    names: Annotated[list[str], typer.Argument(metavar="DATASET...", help="As in examples/fair_peers.")],
    output: Annotated[Path, typer.Option(help="A folder for the tables of public FAQs.")],
    data: Annotated[Path | None, typer.Option(help="A folder with a folder for each data set.")] = None,
    encoder: Annotated[str, typer.Option(help="A name or a folder; nothing is trained.")] = DEFAULT_ENCODER,
) -> None:
    """Print a line for each data set and weight: the spread of the cosines, and the dev MRR with each softness."""
    lines: list[list[str]] = []
    for name in names:
        fair_data = read_fair_data(name, data, output / name, encoder)
        dev = fair_data.dev_set(DEV_SEED)
        cosines = Cosines.of(dev, BiEncoder(find_encoder(fair_data.encoder), torch.device("cpu")))
        for weight in WEIGHTS:
            values = [f"{cosines.mrr(dev, weight, softness):.3f}" for softness in SOFTNESSES]
            lines.append([name, f"{dev.bm25['MRR']:.3f}", f"{cosines.spread:.3f}", f"{weight:g}", *values])
    titles = ["dev questions of", "BM25", "spread", "v", *(f"t = {softness:g}" for softness in SOFTNESSES)]
    typer.echo(markdown_table(titles, lines))


@dataclass(frozen=True)
class Cosines:
    """Those of Q questions with N answers and with W known wordings, none of which is the question itself."""

    answers: np.ndarray  # (Q, N)
    wordings: np.ndarray  # (Q, W), -1 where a wording is the question
    entries: np.ndarray  # (W,) the row of the answer that a wording asks for

    @classmethod
    def of(cls, dev: EvaluationSet, encoder: BiEncoder) -> Cosines:
        """Those of an encoder, of the dev questions."""
        entries: list[int] = []
        texts: list[str] = []
        for row, answer in enumerate(dev.dataset.answers):
            entries += [row] * len(answer.wordings)
            texts += answer.wordings
        questions = encoder.questions(dev.question_texts).astype(float)
        wordings = questions @ encoder.questions(texts).T
        keys = [keys_of_questions([text]) for text in texts]
        for place, text in enumerate(dev.question_texts):
            asked_keys = question_keys(text)
            is_own = [not other.isdisjoint(asked_keys) for other in keys]
            wordings[place, is_own] = -1.0
        return cls(questions @ encoder.answers(dev.dataset.answer_texts).T, wordings, np.array(entries))

    @property
    def spread(self) -> float:
        """The standard deviation of a question's cosines with the answers, the mean of all questions."""
        return float(self.answers.std(axis=1).mean())

    def mrr(self, dev: EvaluationSet, weight: float, softness: float) -> float:
        """(cos(q, answer) + v w) / (1 + v), with w the soft maximum over an entry's texts."""
        scores: list[np.ndarray] = []
        for answers, wordings, pool in zip(self.answers, self.wordings, dev.pools, strict=True):
            soft = soft_maxima(answers, wordings, self.entries, softness)
            scores.append(((answers + weight * soft) / (1 + weight))[list(pool)])
        return dev.measures(scores)["MRR"]


def soft_maxima(answers: np.ndarray, wordings: np.ndarray, entries: np.ndarray, t: float) -> np.ndarray:
    """(N,) t log(exp(answer / t) + sum of exp(wording / t)) of each entry, from (N,) and (W,) cosines."""
    best = answers.copy()
    np.maximum.at(best, entries, wordings)
    sums = np.exp((answers - best) / t)
    np.add.at(sums, entries, np.exp((wordings - best[entries]) / t))
    return best + t * np.log(sums)


if __name__ == "__main__":
    with report_user_errors():
        typer.run(command)
