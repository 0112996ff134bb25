"""Near copies between the parts of data sets, by the rule before and the one now, and P@1 on what is new.

Each data set is divided as `ap-ranker split` did before (nearness by character 5-grams) and as it does now, unless it
has parts of its own. Counted are the test questions that are near copies, by the rule now, of a training question.

    python examples/near_copies/splits.py --shared ../shared/data --output examples/near_copies/splits.md
    python examples/near_copies/splits.py --shared ../shared/data --checkpoint "example=checkpoints/faq"

P@1 is BM25's; with `--checkpoint NAME=FOLDER`, also that of a checkpoint as users get it.
"""

from __future__ import annotations

import argparse
import gzip
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ap_ranker.data import split
from ap_ranker.data.dataset import Dataset
from ap_ranker.data.reader import read_dataset
from ap_ranker.data.wordings import with_wordings
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.markdown import markdown_table
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.text.near_copies import near_any, near_groups
from ap_ranker.text.nearly_equal import nearly_equal_groups

EXAMPLES = Path(__file__).parents[1]
SHARE, SEED = 0.15, 1
PUBLIC = ("covid-faq-en", "covid-faq-multilingual")
Parts = tuple[Dataset, Dataset]
"""Training and test questions."""


def own_parts(folder: Path) -> Parts:
    return read_dataset(folder, "train"), read_dataset(folder, "test")


def insurance_parts(shared: Path, work: Path) -> Parts:
    """InsuranceQA with its test pools of 500 answers."""
    for name in ("answers", "train", "test", "test-pools-500"):
        unpacked(shared / "insuranceqa" / f"{name}.tsv.gz", work / f"{name}.tsv")
    return own_parts(work)


def unpacked(source: Path, target: Path) -> Path:
    target.write_bytes(gzip.decompress(source.read_bytes()))
    return target


def divided(path: Path, groups: Callable[[Sequence[str]], np.ndarray]) -> Parts:
    """The training and test questions of a file, as `split` divides it by this rule for nearness."""
    rule, split.near_groups = split.near_groups, groups
    try:
        with tempfile.TemporaryDirectory() as folder:
            parts = split.split_file(path, Path(folder) / "parts", share=SHARE, seed=SEED)
    finally:
        split.near_groups = rule
    return parts["train"], parts["test"]


def row_of(name: str, parts: Parts, checkpoint: Ranker | None) -> list[str]:
    """A data set's row: numbers of questions, near copies, and P@1 of all, of new ones and of copies."""
    training, test = parts
    asked = EvaluationSet(with_wordings(test, training))
    texts = [question.text for question in asked.questions]
    seen = {question.text for question in training.questions}
    near = near_any(set(texts), seen)
    report = asked.report(checkpoint) if checkpoint else asked.report_of_bm25()
    report = replace(report, near=np.array([text in near for text in texts]))
    each = report.fusion_each or report.model_each
    shown = [report.means_of(kind, each) for kind in report.rows_of]
    return [
        name,
        f"{len(seen):,}",
        f"{len(texts):,}",
        f"{report.n_near:,}",
        *("" if values is None else f"{values['P@1']:.3f}" for values in shown),
    ]


def data_sets(shared: Path, work: Path) -> Iterator[tuple[str, Parts]]:
    yield "example", own_parts(EXAMPLES / "faq")
    if not shared.is_dir():
        sys.stderr.write(f"{shared}: not found, so the example is the only data set.\n")
        return
    for name in PUBLIC:
        path = unpacked(shared / "faq_public" / f"{name}.csv.gz", work / f"{name}.csv")
        yield f"{name}, split before", divided(path, nearly_equal_groups)
        yield f"{name}, split now", divided(path, near_groups)
    folder = work / "insuranceqa"
    folder.mkdir()
    yield "InsuranceQA, pools of 500", insurance_parts(shared, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shared", type=Path, default=Path("../shared/data"))
    parser.add_argument("--checkpoint", action="append", default=[], help="NAME=FOLDER, one that has learnt from NAME")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    folders = dict(each.split("=", 1) for each in arguments.checkpoint)
    rows = []
    with tempfile.TemporaryDirectory() as work:
        for name, parts in data_sets(arguments.shared, Path(work)):
            if not folders:
                rows.append(row_of(name, parts, None))
            elif name in folders:
                rows.append(row_of(name, parts, Ranker.from_pretrained(folders[name])))
    titles = ["data", "training", "test", "near copies", "P@1, as users ask", "P@1, new questions", "P@1, near copies"]
    table = markdown_table(titles, rows) + "\n"
    if arguments.output:
        arguments.output.write_text(table, encoding="utf-8")
    sys.stdout.write(table)


if __name__ == "__main__":
    main()
