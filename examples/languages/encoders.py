"""An encoder on small FAQs of eleven languages, beside BM25 and the encoder's plain cosine.

python examples/languages/encoders.py intfloat/multilingual-e5-small                        # nothing trained
python examples/languages/encoders.py intfloat/multilingual-e5-small --quick --shared DATA

An encoder is one of the hub, or a folder. With --quick half of the questions is asked, and the others are known: two
thirds of these to learn from, a third to choose the epoch by. --shared adds the pairs of
DATA/faq_public/covid-faq-multilingual.csv.gz, by language.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from bm25 import COVID, FAQS, is_usable, read_covid

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.data.dataset import Dataset
from ap_ranker.data.faq import Match, read_faq
from ap_ranker.data.reader import read_dataset
from ap_ranker.data.split import split_questions
from ap_ranker.data.wordings import with_wordings
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.markdown import markdown_table
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.train import train
from ap_ranker.training.untrained import write_untrained

sys.path.append(str(Path(__file__).resolve().parents[1]))
from plain_cosine import cosine_of

TEST_SHARE, DEV_SHARE, SEED = 1 / 2, 1 / 3, 1
"""Of all questions, and of the others: of Swedish, which has fewest, ten choose the epoch."""


def measure(faq: Path, encoder: str, folder: Path) -> tuple[float, ...]:
    """MRR on a FAQ's test questions of BM25, with a stemmer if there is one, of the cosine, and of `ap-transformer`."""
    language = faq.name if is_usable(faq.name) else None
    texts = [entry.text(Match.both) for entry in read_faq(faq / "answers.csv")]
    write_untrained(folder / faq.name, texts, language, source=faq.name, options={"encoder": encoder})
    ranker = Ranker.from_pretrained(folder / faq.name, "cpu")
    asked = EvaluationSet(read_dataset(faq, "test"), language=language)
    return asked.bm25["MRR"], asked.report(cosine_of(ranker)).model["MRR"], asked.report(ranker).model["MRR"]


def measure_quick(data: Dataset, name: str, encoder: str, folder: Path) -> tuple[float, ...]:
    """MRR on half of the questions of BM25, of the cosine, and of `ap-transformer` that knows the others: untrained,
    and trained with `--quick`."""
    language = name if is_usable(name) else None
    rest, test = split_questions(data, TEST_SHARE, SEED)
    training, dev = split_questions(rest, DEV_SHARE, SEED)
    asked = EvaluationSet(with_wordings(test, training), language=language)
    settings = TrainingConfig(options={"encoder": encoder}, language=language)
    untrained, quick = (
        train(training, dev, folder / f"{name}-{config.effort}", config, device="cpu").ranker
        for config in (replace(settings, epochs=0), replace(settings, effort="quick"))
    )
    found = (asked.report(ranker).model["MRR"] for ranker in (untrained, quick))
    return asked.bm25["MRR"], asked.report(cosine_of(untrained)).model["MRR"], *found


def tables(encoder: str, folder: Path, *, quick: bool, shared: Path | None) -> Iterator[dict[str, tuple[float, ...]]]:
    """The MRRs of each FAQ by its language, one table after the other."""
    faqs = sorted(path for path in FAQS.iterdir() if path.is_dir())
    if not quick:
        yield {faq.name: _told(faq.name, measure(faq, encoder, folder)) for faq in faqs}
        return
    own = ((faq.name, read_dataset(faq / "test.csv", "train")) for faq in faqs)  # with the stored questions
    for pairs in (*([read_covid(shared / COVID)] if shared else []), own):
        yield {name: _told(name, measure_quick(data, name, encoder, folder)) for name, data in pairs}


def _told(name: str, values: tuple[float, ...]) -> tuple[float, ...]:
    sys.stderr.write(f"{name} {values}\n")
    return values


def main(
    encoder: Annotated[str, typer.Argument(help="A pretrained encoder, by folder or hub name.")],
    quick: Annotated[bool, typer.Option("--quick", help="Train, too, on half of the questions.")] = False,
    shared: Annotated[Path | None, typer.Option(help=f"With --quick: a folder with {COVID}.")] = None,
) -> None:
    """Print a table with a row for each language, and their mean."""
    titles = ["BM25", "plain cosine", *(["untrained", "--quick"] if quick else ["ap-transformer"])]
    with TemporaryDirectory() as folder:
        for found in tables(encoder, Path(folder), quick=quick, shared=shared):
            means = tuple(map(fmean, zip(*found.values(), strict=True)))
            rows = [[name, *(f"{value:.3f}" for value in each)] for name, each in [*found.items(), ("mean", means)]]
            first = "MRR" if quick else "MRR, nothing trained"
            sys.stdout.write(markdown_table([first, *titles], rows) + "\n\n")


if __name__ == "__main__":
    with report_user_errors():
        typer.run(main)
