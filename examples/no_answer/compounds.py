"""Measures how BM25 reads German compounds that the texts lack, beside ordinary questions, which must not get worse.

python examples/no_answer/compounds.py --shared DATA
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import typer
from faqs import DATA, Faq, read_faqs, rows_of
from run import Shared

from ap_ranker.data.dataset import Question
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.markdown import markdown_table


def variants(faq: Faq) -> list[Question]:
    """The compounds and single words that were written for a FAQ, if any."""
    if faq.family != "pool_de":
        return []
    row_of = {answer.id: row for row, answer in enumerate(faq.data.answers)}
    rows = rows_of(DATA / "variants_de.csv")
    return [Question(row["kind"], row["question"], (row_of[row["answer_ids"]],)) for row in rows]


def main(shared: Shared = None) -> None:
    """Print BM25's MRR of each German FAQ and group of questions, and how many of them find nothing."""
    rows = []
    for faq in read_faqs(shared):
        asked = [each for each in faq.data.questions if each.id.startswith("dev")] if faq.language == "german" else []
        for group, questions in {"dev": asked, "compounds and words": variants(faq)}.items():
            if not questions:
                continue
            tried = EvaluationSet(replace(faq.data, questions=questions), language=faq.language)
            nothing = np.mean([not scores.any() for scores in tried.bm25_scores])
            rows.append([faq.name, group, str(len(tried.questions)), f"{tried.bm25['MRR']:.3f}", f"{nothing:.0%}"])
    typer.echo(markdown_table(["FAQ", "questions", "number", "BM25's MRR", "nothing found"], rows))


if __name__ == "__main__":
    typer.run(main)
