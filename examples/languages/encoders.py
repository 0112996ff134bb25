"""An encoder on small FAQs of eleven languages, nothing trained, beside BM25 and the encoder's plain cosine.

python examples/languages/encoders.py intfloat/multilingual-e5-small

An encoder is one of the hub, or a folder.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from bm25 import FAQS, is_usable

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.data.faq import Match, read_faq
from ap_ranker.data.reader import read_dataset
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.markdown import markdown_table
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.training.untrained import write_untrained


def measure(faq: Path, encoder: str, folder: Path) -> tuple[float, float, float]:
    """MRR on a FAQ's test questions of BM25, with a stemmer if there is one, of the cosine, and of `ap-transformer`."""
    language = faq.name if is_usable(faq.name) else None
    texts = [entry.text(Match.both) for entry in read_faq(faq / "answers.csv")]
    write_untrained(folder / faq.name, texts, language, source=faq.name, options={"encoder": encoder})
    ranker = Ranker.from_pretrained(folder / faq.name, "cpu")
    pooled = ranker.model.pooled_only()
    assert pooled is not None  # `ap-transformer` has one
    asked = EvaluationSet(read_dataset(faq, "test"), language=language)
    cosine = asked.report(Ranker(pooled, ranker.tokenizer, ranker.device)).model["MRR"]
    return asked.bm25["MRR"], cosine, asked.report(ranker).model["MRR"]


def main(encoder: Annotated[str, typer.Argument(help="A pretrained encoder, by folder or hub name.")]) -> None:
    """Print a table with a row for each language, and their mean."""
    found = {}
    with TemporaryDirectory() as folder:
        for faq in sorted(path for path in FAQS.iterdir() if path.is_dir()):
            found[faq.name] = measure(faq, encoder, Path(folder))
            sys.stderr.write(f"{faq.name} {found[faq.name]}\n")
    means = tuple(map(fmean, zip(*found.values(), strict=True)))
    rows = [[name, *(f"{value:.3f}" for value in values)] for name, values in [*found.items(), ("mean", means)]]
    titles = ["MRR, nothing trained", "BM25", "plain cosine", "ap-transformer"]
    sys.stdout.write(markdown_table(titles, rows) + "\n")


if __name__ == "__main__":
    with report_user_errors():
        typer.run(main)
