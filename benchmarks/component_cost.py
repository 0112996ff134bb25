"""What does the component `AnswerRanker` add to its model, beside a component that does nothing?

python -m benchmarks.component_cost --model checkpoints/faq

Milliseconds of processor time of one thread, the median of many runs, with encoded documents in the cache and all of
them returned. The model is `Ranker.score_entries`; all else of `run` is the component.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median
from time import thread_time
from typing import Annotated, Any

import typer
from haystack import Document, Pipeline, component

NUMBERS = (10, 100, 1000)
WORDS = ["where", "is", "my", "parcel", "how", "do", "I", "get", "the", "money", "back"]


@component
class Nothing:
    """Returns its documents."""

    @component.output_types(documents=list[Document])
    def run(self, query: str, documents: list[Document]) -> dict[str, list[Document]]:
        """Return the documents."""
        return {"documents": documents}


def main(
    model: Annotated[Path, typer.Option(help="A checkpoint folder.")] = Path("checkpoints/faq"),
    number: Annotated[int, typer.Option(min=1, help="Number of runs.")] = 50,
) -> None:
    """Print the milliseconds that the component adds, and those of a pipeline of it and of one that does nothing."""
    import torch

    from ap_ranker.evaluation.markdown import markdown_table
    from haystack_integrations.components.rankers.ap_ranker import AnswerRanker

    torch.set_num_threads(1)
    rows = []
    for size in NUMBERS:
        texts = [" ".join(WORDS[(n + k) % len(WORDS)] for k in range(12)) + f" {n}" for n in range(size)]
        documents = [Document(content=text, meta={"answer": text, "number": n}) for n, text in enumerate(texts)]
        ranker = AnswerRanker(model=model, top_k=size)
        inside = Inside(ranker.loaded())
        ranker.run(query="warm", documents=documents)
        added = []
        for n in range(number):
            inside.seconds, started = 0.0, thread_time()
            ranker.run(query=f"where is my parcel {n}", documents=documents)
            added.append(1000 * (thread_time() - started - inside.seconds))
        pipelines = [median(_pipeline(part, documents, number)) for part in (ranker, Nothing())]
        rows.append([f"{size:,}", f"{median(added):.2f}", *(f"{each:.2f}" for each in pipelines)])
    typer.echo(markdown_table(["documents", "component", "pipeline", "pipeline that does nothing"], rows))


class Inside:
    """Counts the seconds of the model, which are not the component's."""

    def __init__(self, ranker: Any) -> None:
        self.seconds, score = 0.0, ranker.score_entries

        def timed(*arguments: Any, **options: Any) -> Any:
            started = thread_time()
            try:
                return score(*arguments, **options)
            finally:
                self.seconds += thread_time() - started

        ranker.score_entries = timed


def _pipeline(part: Any, documents: list[Document], number: int) -> list[float]:
    """Milliseconds of each run of a pipeline of one component, which copies its inputs."""
    pipeline, found = Pipeline(), []
    pipeline.add_component("part", part)
    for n in range(number):
        started = thread_time()
        pipeline.run({"part": {"query": f"where is my parcel {n}", "documents": documents}})
        found.append(1000 * (thread_time() - started))
    return found


if __name__ == "__main__":
    typer.run(main)
