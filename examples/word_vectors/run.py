"""What word vectors are worth by themselves: the cosine of IDF-weighted means, with vectors of several origins.

python examples/word_vectors/run.py FOLDER_OF_DATA_SETS --glove glove.6B.100d.txt
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from rich.console import Console

sys.path.append(str(Path(__file__).resolve().parents[1] / "reproduce"))
from protocols import PROTOCOLS, read_parts

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.data.faq import DEFAULT_MATCH
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.markdown import markdown_table
from ap_ranker.files import write_text_atomically
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.train import train

HERE = Path(__file__).resolve().parent

console = Console(soft_wrap=True)


def command(
    data: Annotated[Path, typer.Argument(help=f"A folder with the folders {', '.join(PROTOCOLS)}.")],
    glove: Annotated[str, typer.Option(help="A file of 100-dimensional GloVe vectors.")],
    results: Annotated[Path, typer.Option(help="The folder of results.json and results.md.")] = HERE,
) -> None:
    """Measure `bow-idf`, which learns nothing, with each kind of word vectors on each data set's test questions."""
    origins = {
        "GloVe, 50 dimensions": ("glove-50d", None),
        "GloVe, 100 dimensions": (glove, None),
        "encoder, 50 dimensions": ("encoder", 50),
        "encoder, 100 dimensions": ("encoder", 100),
        "encoder, 300 dimensions": ("encoder", 300),
    }
    table: dict[str, dict[str, dict[str, float]]] = {}
    for name in PROTOCOLS:
        parts = read_parts(name, data / name, DEFAULT_MATCH)
        test = EvaluationSet(parts.test)
        for origin, (embeddings, size) in origins.items():
            config = TrainingConfig("bow-idf", embeddings=embeddings, embedding_size=size)
            with TemporaryDirectory() as folder:
                ranker = train(parts.training, parts.dev, Path(folder) / "checkpoint", config).ranker
            report = test.report(ranker)
            table.setdefault("BM25", {})[name] = report.bm25
            table.setdefault(origin, {})[name] = report.model
            console.print(f"{name}, {origin}: MRR {report.model['MRR']:.3f} (BM25 {report.bm25['MRR']:.3f})")
            write_text_atomically(results / "results.json", json.dumps(table, indent=2) + "\n")
            write_text_atomically(results / "results.md", render(table))


def render(table: dict[str, dict[str, dict[str, float]]]) -> str:
    """A row for each kind of vectors, two columns for each data set measured so far."""
    names = list(table["BM25"])
    columns = [(name, measure) for name in names for measure in PROTOCOLS[name].measures]
    header = ["", *(f"{PROTOCOLS[name].title.split(',')[0]}: {measure}" for name, measure in columns)]
    rows: list[list[Any]] = [
        [origin, *(f"{each[name][measure]:.3f}" if name in each else "" for name, measure in columns)]
        for origin, each in table.items()
    ]
    return markdown_table(header, rows) + "\n"


if __name__ == "__main__":
    with report_user_errors():
        typer.run(command)
