"""Write an encoder that has some of another one's layers.

python examples/encoders/cut_layers.py all-mpnet-base-v2 --layers 1,3,5,7,9,12 --output mpnet-6
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Annotated

import typer
from safetensors.torch import load_file, save_file
from torch import Tensor

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.errors import InputError
from benchmarks.number_lists import whole_numbers

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
LAYER = re.compile(r"(.*\blayer\.)(\d+)(\..*)")
"""The name of a weight of a layer, in the format of transformers: what stands before and behind the layer's number."""


def command(
    encoder: Annotated[Path, typer.Argument(help="The folder of a sentence-transformers model.")],
    layers: Annotated[str, typer.Option(help="The layers to keep, the lowest is 1, separated by commas.")],
    output: Annotated[Path, typer.Option(help="The new folder.")],
) -> None:
    """Write an encoder with these layers, the first one below."""
    kept = whole_numbers("--layers", layers)
    config = json.loads((encoder / CONFIG).read_text(encoding="utf-8"))
    total = config["num_hidden_layers"]
    if max(kept) > total:
        raise InputError(f"--layers: expected numbers up to {total}, the layers of {encoder}, found {max(kept)}.")
    weights = cut(load_file(encoder / WEIGHTS), kept)
    shutil.copytree(encoder, output, ignore=shutil.ignore_patterns(WEIGHTS))
    save_file(weights, output / WEIGHTS, metadata={"format": "pt"})
    (output / CONFIG).write_text(json.dumps(config | {"num_hidden_layers": len(kept)}, indent=1), encoding="utf-8")


def cut(weights: dict[str, Tensor], kept: list[int]) -> dict[str, Tensor]:
    """The weights without those of other layers; the kept ones follow each other. Files count layers from 0."""
    remaining: dict[str, Tensor] = {}
    for name, value in weights.items():
        of_layer = LAYER.fullmatch(name)
        if of_layer is None:
            remaining[name] = value
            continue
        before, place, behind = of_layer.groups()
        layer = int(place) + 1
        if layer in kept:
            remaining[f"{before}{kept.index(layer)}{behind}"] = value
    return remaining


if __name__ == "__main__":
    with report_user_errors():
        typer.run(command)
