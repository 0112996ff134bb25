"""A checkpoint is one folder: config.json, model.safetensors, tokenizer.json, README.md. Nothing in it is pickled."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from ap_ranker.data.faq import Match
from ap_ranker.errors import InputError, one_line
from ap_ranker.files import atomic_directory, restore, write_text_atomically
from ap_ranker.models.base import AnswerModel
from ap_ranker.models.pretrained import refuse_code
from ap_ranker.models.registry import LARGEST, MODELS, build_model
from ap_ranker.models.spec import Inputs
from ap_ranker.models.weights import Shapes, check_finite, difference, planned, read_shapes
from ap_ranker.ranking.calibration import FUSED, MODEL, Calibration
from ap_ranker.text.segment import SEGMENTERS
from ap_ranker.text.subwords import AnyTokenizer, SubwordTokenizer
from ap_ranker.text.tokenizer import WordTokenizer

FORMAT_VERSION = 1
CONFIG, WEIGHTS, TOKENIZER, CARD = "config.json", "model.safetensors", "tokenizer.json", "README.md"


@dataclass(frozen=True)
class CheckpointConfig:
    """What `config.json` holds.

    Attributes:
        model: the model's registry name.
        options: its hyper-parameters, all of them.
        embedding_size: dimensions of the word vectors; 0 where an encoder brings its own.
        max_tokens: longer texts are cut after this many tokens.
        training: the data and the settings that made the weights, for the reader; only its `match` is used again.
        segmenter: what splits Chinese into words before the tokenizer does the rest: the tokenizer's.
        bm25_weight: what BM25's score counts beside the model's, as fitted on the dev questions; 0: it does not help.
        encoder: the architecture of the pretrained encoder that the model reads with, as transformers describes it.
        calibration: what the scores say about an answer's being right, for the model's (`model`) and, with a weight of
            BM25, for the fused ones (`fused`); empty before `ap-ranker calibrate`.
        format_version: of this folder's layout.
    """

    model: str
    options: Mapping[str, Any]
    embedding_size: int
    max_tokens: int
    training: Mapping[str, Any]
    segmenter: str | None = None
    bm25_weight: float = 0.0
    encoder: Mapping[str, Any] | None = None
    calibration: Mapping[str, Calibration] = field(default_factory=dict)
    format_version: int = FORMAT_VERSION


def save_checkpoint(
    folder: Path, config: CheckpointConfig, model: AnswerModel, tokenizer: AnyTokenizer, card: str
) -> None:
    """Write a checkpoint folder, replacing an earlier checkpoint at that place only when the new one is complete."""
    with atomic_directory(folder) as draft:
        write_checkpoint_config(draft, config)
        weights = draft / WEIGHTS
        weights.touch()
        mode = weights.stat().st_mode  # as the umask has it for every other file; save_file makes private ones
        save_file({name: value.contiguous() for name, value in model.state_dict().items()}, weights)
        weights.chmod(mode)
        tokenizer.save(draft / TOKENIZER)
        (draft / CARD).write_text(card, encoding="utf-8")


def write_checkpoint_config(folder: Path, config: CheckpointConfig) -> None:
    """Write a checkpoint's `config.json` alone, whole or not at all."""
    write_text_atomically(folder / CONFIG, json.dumps(asdict(config), indent=2, ensure_ascii=False) + "\n")


def is_checkpoint(folder: Path) -> bool:
    """Whether the folder holds a checkpoint's files."""
    return all((folder / name).is_file() for name in (CONFIG, WEIGHTS, TOKENIZER))


def find_checkpoint(source: str | Path, token: str | None = None) -> Path:
    """The folder of a checkpoint: `source` itself, or the local copy of the hub repository of that name.

    Raises:
        InputError: neither is a checkpoint.
    """
    folder = Path(source)
    restore(folder)
    if folder.is_dir():
        if not is_checkpoint(folder):
            raise InputError(
                f"{folder}: expected a checkpoint ({CONFIG}, {WEIGHTS}, {TOKENIZER}), found "
                f"{', '.join(sorted(file.name for file in folder.iterdir())) or 'an empty folder'}."
            )
        return folder
    hint = "Train one with: ap-ranker train DATA --output DIR"
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        found = Path(snapshot_download(str(source), allow_patterns=[CONFIG, WEIGHTS, TOKENIZER, CARD], token=token))
    except HFValidationError:
        raise InputError(f"No checkpoint folder at {str(source)!r}. {hint}") from None
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise InputError(
            f"No checkpoint folder at {str(source)!r}, and no such model could be fetched from the hub "
            f"({type(error).__name__}). {hint}"
        ) from error
    if not is_checkpoint(found):
        raise InputError(
            f"The hub's {str(source)!r} is not an ap-ranker checkpoint: it lacks {CONFIG}, {WEIGHTS} or {TOKENIZER}."
        )
    return found


def read_checkpoint_config(folder: Path) -> CheckpointConfig:
    """Read a checkpoint's `config.json` alone.

    Raises:
        InputError: it is damaged or of a later format, or its encoder comes with code to be run.
    """
    path = folder / CONFIG
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        _check_fields(found, path)
        found["calibration"] = {kind: Calibration(**fit) for kind, fit in found.get("calibration", {}).items()}
        return CheckpointConfig(**found)
    except InputError:
        raise
    # Of bad UTF-8, bad JSON and numbers too large as well.
    except (OSError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise InputError(f"{path}: not the configuration of an ap-ranker checkpoint ({one_line(error)}).") from error


def _is_whole(least: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and least <= value <= LARGEST


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


_FIELDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "model": (lambda value: isinstance(value, str) and value in MODELS, f"one of {', '.join(sorted(MODELS))}"),
    "options": (_is_object, "an object"),
    "embedding_size": (_is_whole(0), f"a whole number from 0 to {LARGEST:,}"),
    "max_tokens": (_is_whole(1), f"a whole number from 1 to {LARGEST:,}"),
    "training": (_is_object, "an object"),
    "segmenter": (lambda value: value in (None, *SEGMENTERS), f"null or one of {', '.join(SEGMENTERS)}"),
    "bm25_weight": (
        lambda value: (
            isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
        ),
        "a finite number from 0 on",
    ),
    "encoder": (lambda value: value is None or _is_object(value), "an object or null"),
    "calibration": (lambda value: _is_object(value) and value.keys() <= {MODEL, FUSED}, f"fits of {MODEL} and {FUSED}"),
    "format_version": (lambda value: True, ""),  # has been asked before
}
"""What each field must be, and how to say so."""


def _check_fields(found: Any, path: Path) -> None:
    """Refuse what `CheckpointConfig` cannot hold.

    Raises:
        InputError: of another format, or with code to be run.
        ValueError: else.
    """
    if not isinstance(found, dict):
        raise ValueError(f"expected an object, found {one_line(repr(found), 80)}")
    version = found.get("format_version")
    if version != FORMAT_VERSION:
        raise InputError(
            f"{path}: expected format version {FORMAT_VERSION}, found {one_line(repr(version), 80)}. Update ap-ranker."
        )
    missing = [f.name for f in fields(CheckpointConfig) if f.default is f.default_factory is MISSING]
    missing = [name for name in missing if name not in found]
    if missing:
        raise ValueError(f"expected a field {missing[0]!r}, found none")
    for name, value in found.items():
        if name not in _FIELDS:
            raise ValueError(f"expected no field but {', '.join(_FIELDS)}, found {one_line(repr(name), 80)}")
        fits, expected = _FIELDS[name]
        if not fits(value):
            raise ValueError(f"expected {name} as {expected}, found {one_line(repr(value), 80)}")
    match = found["training"].get("match", Match.both)
    if match not in list(Match):
        raise ValueError(f"expected training.match as one of {', '.join(Match)}, found {one_line(repr(match), 80)}")
    refuse_code(found.get("encoder"), path)


def load_checkpoint(folder: Path) -> tuple[CheckpointConfig, AnswerModel, AnyTokenizer]:
    """Read a checkpoint folder; the model is on the CPU and in evaluation mode.

    Raises:
        InputError: a file is damaged or of a later format, or they do not fit each other.
    """
    config = read_checkpoint_config(folder)
    tokenizer: AnyTokenizer
    if config.encoder is None:
        tokenizer = WordTokenizer.load(folder / TOKENIZER, config.max_tokens, config.segmenter)
    else:
        tokenizer = SubwordTokenizer.load(folder / TOKENIZER, config.max_tokens)
    weights = folder / WEIGHTS
    try:
        shapes = read_shapes(weights)
        inputs = Inputs(tokenizer.words, config.embedding_size, config.max_tokens, config.encoder)
        _check_sizes(config, inputs, tokenizer.largest_id, shapes, folder)
        model = build_model(config.model, inputs, config.options)
        stored = load_file(weights)
        check_finite(weights, stored)
        model.load_state_dict(stored)
    except (SafetensorError, OSError, RuntimeError) as error:
        raise InputError(f"{weights}: its weights do not fit {config.model} ({one_line(error)}).") from error
    return config, model.eval(), tokenizer


def _check_sizes(config: CheckpointConfig, inputs: Inputs, largest_id: int, shapes: Shapes, folder: Path) -> None:
    """Refuse a configuration whose model is not that of the weights, before there is memory for it.

    Raises:
        InputError: it is so, or there can be no such model.
    """
    path = folder / CONFIG
    if (config.encoder is not None) != MODELS[config.model].pretrained:
        raise InputError(f"{path}: expected an encoder for the models that read with one alone, found otherwise.")
    limit = max(LARGEST, sum(map(math.prod, shapes.values())))
    for name, number in _whole_numbers("encoder", config.encoder):
        if not -limit <= number <= limit:
            raise InputError(
                f"{path}: expected {one_line(name)} up to {limit:,}, as many numbers as its weights have, found "
                f"{one_line(number, 40)}."
            )
    encoder = config.encoder or {}
    for name, needed, what in (
        ("max_position_embeddings", config.max_tokens, "max_tokens"),
        ("vocab_size", largest_id + 1, "token ids"),
    ):
        room = encoder.get(name)
        if isinstance(room, int) and needed > room:
            raise InputError(
                f"{path}: expected {what} up to the encoder's {name}, {one_line(room, 40)}, found {needed}."
            )
    try:
        with planned(len(shapes)):
            model = build_model(config.model, inputs, config.options)
    except Exception as error:  # whatever impossible sizes lead to
        raise InputError(f"{path}: expected a model that can be built, found: {one_line(error)}.") from error
    unequal = difference({name: tuple(value.shape) for name, value in model.state_dict().items()}, shapes)
    if unequal:
        raise InputError(
            f"{folder / WEIGHTS}: its weights do not fit {config.model} as {CONFIG} has it ({unequal}). Take both "
            "from the same checkpoint."
        )


def _whole_numbers(name: str, value: Any) -> Iterator[tuple[str, int]]:
    """Each whole number in JSON, under its name."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _whole_numbers(f"{name}.{key}", each)
    elif isinstance(value, list):
        for each in value:
            yield from _whole_numbers(name, each)
    elif isinstance(value, int):
        yield name, value
