"""Answer questions with a chat model that is given the fitting entries of a FAQ.

python examples/answer_generation/answer.py "what air pressure for the tyres" "what is the capital of France"
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from haystack import Pipeline

PIPELINE = Path(__file__).with_name("pipeline.yaml")


async def answer(pipeline: Pipeline, questions: Sequence[str]) -> list[str]:
    """The replies to all questions, which are asked at once: while one waits for the chat model, others search."""
    runs = (pipeline.run_async({"search": {"query": text}, "prompt": {"question": text}}) for text in questions)
    return [result["generator"]["replies"][0].text for result in await asyncio.gather(*runs)]


def main() -> None:
    """Print each reply."""
    if not sys.argv[1:]:
        sys.exit(f"Expected questions, found none. {__doc__}")
    pipeline = Pipeline.loads(PIPELINE.read_text(encoding="utf-8"))
    for reply in asyncio.run(answer(pipeline, sys.argv[1:])):
        sys.stdout.write(f"{reply}\n\n")


if __name__ == "__main__":
    main()
