"""Which floor tells questions about other matters from those that have an answer?

python examples/no_answer/floors.py --shared DATA

The floor is a quantile of the best scores of the random questions with which a FAQ is levelled, beside a sample of its
texts or all of them. What it leaves of the dev questions stands in a table: FAQs at equal weights.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import typer
from faqs import DOCUMENTS, Faq, off_topic, read_faqs
from run import Shared, systems

from ap_ranker.data.dataset import Question
from ap_ranker.evaluation.markdown import markdown_table
from ap_ranker.ranking.priors import random_scores
from ap_ranker.ranking.random_questions import RANDOM_QUESTIONS
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.training.untrained import write_untrained

QUANTILES = 0.8, 0.85, 0.9, 0.95, 1.0

Shares = tuple[float, float]  # of the answerable questions and of those about other matters, below a floor


def measured(faq: Faq) -> Iterator[tuple[tuple[str, float], Shares]]:
    """What lies below the floor of each kind and quantile."""
    texts = [answer.text for answer in faq.data.answers]
    own = [each for each in faq.data.questions if each.id.startswith("dev") and each.positives]
    added = [*off_topic("dev"), *RANDOM_QUESTIONS]
    questions = [*own, *(Question(f"off-{n}", text, ()) for n, text in enumerate(added))]
    with TemporaryDirectory() as folder:
        write_untrained(Path(folder) / "m", texts, faq.language, stored=faq.known != DOCUMENTS)
        ranker = Ranker.from_pretrained(Path(folder) / "m")
        ranked = systems(ranker, replace(faq.data, questions=questions))["ours"]
        sample = random_scores(ranker, texts).max(axis=1)
    tops = np.array([each.model.max() for each in ranked.signals])
    answerable, others, random = np.split(tops, [len(own), len(own) + len(off_topic("dev"))])
    for name, best in {"a sample, by the model alone": sample, "all, as users get them": random}.items():
        for quantile in QUANTILES:
            floor = np.quantile(best, quantile)
            yield (name, quantile), (float((answerable < floor).mean()), float((others < floor).mean()))


def main(shared: Shared = None) -> None:
    """Print a table of the floors' shares, over all FAQs, and the worst FAQ's."""
    found: defaultdict[tuple[str, float], list[Shares]] = defaultdict(list)
    for faq in read_faqs(shared):
        for kind, shares in measured(faq):
            found[kind].append(shares)
        typer.echo(f"{faq.name}: done", err=True)
    rows = []
    for (name, quantile), shares in found.items():
        lost, told = np.array(shares).T
        each = lost.mean(), lost.max(), told.mean(), told.min()
        rows.append([name, f"{quantile:g}", *(f"{share:.1%}" for share in each)])
    heads = ["texts", "quantile", "answerable below", "worst FAQ", "other matters below", "worst FAQ"]
    typer.echo(markdown_table(heads, rows))


if __name__ == "__main__":
    typer.run(main)
