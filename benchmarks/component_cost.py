"""What does the component `AnswerRanker` add to its model, beside a component that does nothing?

python -m benchmarks.component_cost --model checkpoints/faq

Milliseconds of processor time of one thread, the median of many runs of each, which alternate, with encoded documents
in the cache and all of them returned. The model is `Ranker.score_batch`; all else of a run is the component, or the
pipeline around it, which copies its inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from time import thread_time
from typing import Annotated, Any

import typer
from haystack import Document, Pipeline, component

NUMBERS = (10, 100, 1000)
WORDS = "where is my parcel how do I get the money back order bill bike help return send shop card code".split()  # noqa: SIM905


@component
class Nothing:
    """Returns its documents."""

    @component.output_types(documents=list[Document])
    def run(self, *, query: str, documents: list[Document]) -> dict[str, list[Document]]:
        """Return the documents."""
        return {"documents": documents}


class Model:
    """Counts the seconds of the model, which are not the component's."""

    def __init__(self, ranker: Any) -> None:
        self.seconds, score = 0.0, ranker.score_batch

        def timed(*arguments: Any, **options: Any) -> Any:
            started = thread_time()
            try:
                return score(*arguments, **options)
            finally:
                self.seconds += thread_time() - started

        ranker.score_batch = timed


def runs_of(*parts: Any) -> list[Callable[..., Any]]:
    """The `run` of each component, then that of a pipeline of each."""
    pipelines = []
    for part in parts:
        pipelines.append(Pipeline())
        pipelines[-1].add_component("part", part)
    return [*(part.run for part in parts), *(partial(_run, pipeline) for pipeline in pipelines)]


def _run(pipeline: Pipeline, **inputs: Any) -> dict[str, Any]:
    return pipeline.run({"part": inputs})


def cost(runs: list[Callable[..., Any]], model: Model, size: int, number: int) -> list[float]:
    """The median of the milliseconds that each run takes without the model's."""
    draw = Random(size)
    texts = [" ".join(draw.choices(WORDS, k=12)) for _ in range(size)]  # nearly equal ones would count as copies
    documents = [Document(content=text, meta={"answer": text, "number": n}) for n, text in enumerate(texts)]
    for run in runs:
        run(query="warm", documents=documents)
    added: list[list[float]] = [[] for _ in runs]
    for n in range(number):
        for run, milliseconds in zip(runs, added, strict=True):
            model.seconds, started = 0.0, thread_time()
            run(query=f"where is my parcel {n}", documents=documents)
            milliseconds.append(1000 * (thread_time() - started - model.seconds))
    return [median(milliseconds) for milliseconds in added]


def main(
    model: Annotated[Path, typer.Option(help="A checkpoint folder.")] = Path("checkpoints/faq"),
    number: Annotated[int, typer.Option(min=1, help="Number of runs of each.")] = 50,
) -> None:
    """Print the milliseconds that the component adds, alone and in a pipeline, beside one that does nothing."""
    import torch

    from ap_ranker.evaluation.markdown import markdown_table
    from haystack_integrations.components.rankers.ap_ranker import AnswerRanker

    torch.set_num_threads(1)
    ranker = AnswerRanker(model=model, top_k=max(NUMBERS))
    runs, inside, rows = runs_of(ranker, Nothing()), Model(ranker.loaded()), []
    for size in NUMBERS:
        rows.append([f"{size:,}", *(f"{each:.2f}" for each in cost(runs, inside, size, number))])
    heads = ["candidates", "`AnswerRanker`", "nothing", "pipeline of `AnswerRanker`", "pipeline of nothing"]
    typer.echo(markdown_table(heads, rows))


if __name__ == "__main__":
    typer.run(main)
