"""Measures long, misspelt, polite and one-word questions beside the ordinary ones that they were made from.

python examples/no_answer/odd_questions.py --checkpoint checkpoints/faq
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import numpy as np
import typer
from faqs import DATA, EXAMPLE, STORED, WORDINGS, read_faqs, rows_of

from ap_ranker.data.dataset import Dataset, Question
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.markdown import markdown_table
from ap_ranker.evaluation.metrics import Levels
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.training.untrained import write_untrained

MEASURES = "P@1", "right in 3", "MRR"

WHOLE_DEV = "all dev questions"

Asked = tuple[str, str, str]  # group, question, ids of the right answers


def asked() -> list[Asked]:
    """Each variant in the group of its kind, the question it was made from in that of the originals of this kind."""
    dev = {row["qid"]: row for row in rows_of(EXAMPLE / "dev.csv")}
    found = []
    for row in rows_of(DATA / "variants.csv"):
        found.append((row["kind"], row["question"], row["answer_ids"]))
        found.append((f"{row['kind']}, original", dev[row["original"]]["question"], row["answer_ids"]))
    for row in rows_of(DATA / "natural_questions.csv"):
        if row["expected"]:
            found.append((f"natural: {row['kind']}", row["question"], row["expected"]))
    return found


def whole_dev() -> list[Asked]:
    """All dev questions of the example that have an answer."""
    rows = rows_of(EXAMPLE / "dev.csv")
    return [(WHOLE_DEV, row["question"], row["answer_ids"]) for row in rows if row["answer_ids"]]


def measured(ranker: Ranker, data: Dataset, questions: Sequence[Asked]) -> dict[str, tuple[list[float], list[float]]]:
    """Group -> the reciprocal ranks of its questions by the search, and by BM25."""
    row_of = {answer.id: row for row, answer in enumerate(data.answers)}
    rows = [tuple(row_of[name] for name in right.split()) for _, _, right in questions]
    texts = [Question(str(n), text, right) for n, ((_, text, _), right) in enumerate(zip(questions, rows, strict=True))]
    tried = EvaluationSet(replace(data, questions=texts), language=ranker.bm25_language)
    rankings = tried.rankings(tried.scores(ranker), ranker.decider().weights)
    found: dict[str, tuple[list[float], list[float]]] = {}
    for (group, *_), ranking, bm25, right in zip(questions, rankings, tried.bm25_scores, tried.right, strict=True):
        for ranks, scores in zip(found.setdefault(group, ([], [])), (-ranking.levels, bm25), strict=True):
            ranks.append(Levels.of(scores, right).reciprocal_rank())
    return found


def cells(ranks: Sequence[float]) -> list[str]:
    """P@1, the share of questions with a right answer in the first three, MRR."""
    values = np.array(ranks)
    return [f"{(values > 0.99).mean():.2f}", f"{(values > 0.33).mean():.2f}", f"{values.mean():.4f}"]


def main(
    checkpoint: Annotated[Path | None, typer.Option(help="A checkpoint trained on the example.")] = None,
    whole: Annotated[bool, typer.Option(help="Also all dev questions, which must not get worse.")] = False,
) -> None:
    """Print a table for the untrained default encoder and the checkpoint, with the known wordings and without."""
    faqs = {faq.known: faq.data for faq in read_faqs(None) if faq.family == "example"}
    questions = [*asked(), *(whole_dev() if whole else [])]
    with TemporaryDirectory() as folder:
        untrained = Path(folder) / "untrained"
        write_untrained(untrained, [answer.text for answer in faqs[STORED].answers], "english")
        for name, path in {"untrained": untrained, "trained": checkpoint}.items():
            if path is None:
                continue
            ranker = Ranker.from_pretrained(path)
            for known in (STORED, WORDINGS):
                found = measured(ranker, faqs[known], questions)
                rows = [
                    [group, str(len(bm25)), *cells(search), *cells(bm25)] for group, (search, bm25) in found.items()
                ]
                head = [f"{name}, {known}", "number", *MEASURES, *(f"BM25's {measure}" for measure in MEASURES)]
                typer.echo(markdown_table(head, sorted(rows)) + "\n")


if __name__ == "__main__":
    typer.run(main)
