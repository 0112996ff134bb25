"""What does an encoded answer cost, by model and dtype?

python examples/bytes_per_answer.py DATA      # a file or folder with answers, as `ap-ranker evaluate` reads it

Models are untrained and of default size: training does not change the number of bytes.
"""

from __future__ import annotations

import sys

import torch

from ap_ranker.data.reader import read_dataset
from ap_ranker.evaluation.markdown import markdown_table
from ap_ranker.models.registry import MODELS, build_model, complete_options
from ap_ranker.models.spec import Inputs
from ap_ranker.ranking.quantization import StateDtype
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.text.tokenizer import WordTokenizer

ANSWERS = 500
EMBEDDING_SIZE, MAX_TOKENS = 100, 200  # the defaults of `ap-ranker train`


def main() -> None:
    """Encode the first answers with every model and print a Markdown table, the cheapest model first."""
    texts = [answer.text for answer in read_dataset(sys.argv[1], "test").answers[:ANSWERS]]
    tokenizer = WordTokenizer.build(texts, max_tokens=MAX_TOKENS)
    rows = []
    for name in MODELS:
        inputs = Inputs(tokenizer.words, EMBEDDING_SIZE, MAX_TOKENS)
        ranker = Ranker(build_model(name, inputs, complete_options(name, {})), tokenizer)
        totals = dict.fromkeys(StateDtype, 0)
        with torch.inference_mode():
            for _, states in ranker.answer_states(texts):
                for dtype in StateDtype:
                    totals[dtype] += ranker.quantize(states, dtype).nbytes
        rows.append((name, [total / len(texts) for total in totals.values()]))
    words = sum(len(text.split()) for text in texts) / len(texts)
    sys.stdout.write(f"{len(texts)} answers of {words:.0f} words, bytes each\n\n")
    lines = [[f"`{name}`", *(f"{each:,.0f}" for each in sizes)] for name, sizes in sorted(rows, key=lambda row: row[1])]
    sys.stdout.write(markdown_table(["model", *StateDtype], lines) + "\n")


if __name__ == "__main__":
    main()
