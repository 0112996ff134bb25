"""Write an MPNet encoder whose states have fewer numbers: as many fewer heads of attention, and units between.

python examples/encoders/cut_width.py mpnet-6 --numbers 384 --output mpnet-6-384
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Annotated

import torch
import typer
from cut_layers import CONFIG, WEIGHTS
from safetensors.torch import load_file, save_file
from torch import Tensor

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.errors import InputError

POOLING = "1_Pooling/config.json"

KINDS = {
    r"embeddings\.(word|position)_embeddings\.weight": ("", "states"),
    r".*LayerNorm\.(weight|bias)": ("states",),
    r".*\.attn\.[qkv]\.weight": ("heads", "states"),
    r".*\.attn\.[qkv]\.bias": ("heads",),
    r".*\.attn\.o\.weight": ("states", "heads"),
    r".*\.attn\.o\.bias": ("states",),
    r".*\.intermediate\.dense\.weight": ("units", "states"),
    r".*\.intermediate\.dense\.bias": ("units",),
    r".*\.output\.dense\.weight": ("states", "units"),
    r".*\.output\.dense\.bias": ("states",),
    r"encoder\.relative_attention_bias\.weight": ("", "head"),
    r"pooler\.dense\.weight": ("states", "states"),
    r"pooler\.dense\.bias": ("states",),
    r"embeddings\.position_ids": ("", ""),
}
"""What the numbers along each axis of a weight of MPNet belong to; nothing of "" is cut."""


def command(
    encoder: Annotated[Path, typer.Argument(help="The folder of a sentence-transformers model, an MPNet.")],
    numbers: Annotated[int, typer.Option(help="Of the state of a token.", min=1)],
    output: Annotated[Path, typer.Option(help="The new folder.")],
) -> None:
    """Write an encoder with the numbers, heads and units whose weights are the largest."""
    config = json.loads((encoder / CONFIG).read_text(encoding="utf-8"))
    per_head = config["hidden_size"] // config["num_attention_heads"]
    most = config["hidden_size"]
    if config["model_type"] != "mpnet" or numbers % per_head or numbers > most:
        raise InputError(f"--numbers: expected a multiple of {per_head} up to {most}, for an MPNet, found {numbers}.")
    weights = load_file(encoder / WEIGHTS)
    units = config["intermediate_size"] * numbers // config["hidden_size"]
    heads = numbers // per_head
    shutil.copytree(encoder, output, ignore=shutil.ignore_patterns(WEIGHTS))
    save_file(cut(weights, numbers, heads, units, per_head), output / WEIGHTS, metadata={"format": "pt"})
    smaller = {"hidden_size": numbers, "num_attention_heads": heads, "intermediate_size": units}
    (output / CONFIG).write_text(json.dumps(config | smaller, indent=1), encoding="utf-8")
    pooling = json.loads((encoder / POOLING).read_text(encoding="utf-8"))
    smaller_pooling = json.dumps(pooling | {"word_embedding_dimension": numbers}, indent=1)
    (output / POOLING).write_text(smaller_pooling, encoding="utf-8")


def cut(weights: dict[str, Tensor], numbers: int, heads: int, units: int, per_head: int) -> dict[str, Tensor]:
    """The weights of the numbers that all layers scale most, and of each layer's heads and units with the largest.

    The numbers of a state go through all layers and must be the same in each; heads share their positions' weights,
    so that they are the same, too. Units belong to their layer.
    """
    scales = [value.square() for name, value in weights.items() if name.endswith("LayerNorm.weight")]
    kept_numbers = largest(torch.stack(scales).sum(dim=0), numbers)
    outputs = [value.square().sum(dim=0) for name, value in weights.items() if name.endswith("attn.o.weight")]
    kept_heads = largest(torch.stack(outputs).sum(dim=0).reshape(-1, per_head).sum(dim=1), heads)
    of_heads = (kept_heads[:, None] * per_head + torch.arange(per_head)).flatten()
    smaller: dict[str, Tensor] = {}
    for name, value in weights.items():
        layer = re.match(r".*\blayer\.\d+\.", name)
        kept = {"states": kept_numbers, "heads": of_heads, "head": kept_heads}
        if layer:
            to_units = weights[f"{layer.group()}output.dense.weight"]
            kept["units"] = largest(to_units.square().sum(dim=0), units)
        axes = next(axes for pattern, axes in KINDS.items() if re.fullmatch(pattern, name))
        remaining = value
        for axis, kind in enumerate(axes):
            if kind:
                remaining = remaining.index_select(axis, kept[kind])
        smaller[name] = remaining.contiguous()
    return smaller


def largest(sizes: Tensor, count: int) -> Tensor:
    """The places of the `count` largest, in order."""
    return sizes.topk(count).indices.sort().values


if __name__ == "__main__":
    with report_user_errors():
        typer.run(command)
