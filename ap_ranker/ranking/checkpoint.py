"""A checkpoint is one folder: config.json, model.safetensors, tokenizer.json, README.md. Nothing in it is pickled."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from ap_ranker.data.faq import Match
from ap_ranker.errors import InputError, one_line
from ap_ranker.files import atomic_directory, restore, write_text_atomically
from ap_ranker.models.base import AnswerModel
from ap_ranker.models.pretrained import refuse_code
from ap_ranker.models.registry import LARGEST, MODELS, build_model, is_number
from ap_ranker.models.spec import Inputs
from ap_ranker.models.weights import Shapes, check_finite, difference, planned, read_shapes, unfilled
from ap_ranker.ranking.calibration import FUSED, MODEL, Calibration
from ap_ranker.text.reading import READING_VERSION
from ap_ranker.text.segment import SEGMENTERS
from ap_ranker.text.stem import is_language
from ap_ranker.text.subwords import AnyTokenizer, SubwordTokenizer
from ap_ranker.text.tokenizer import WordTokenizer

logger = logging.getLogger(__name__)

FORMAT_VERSION = "format_version"
UNNAMED_READING = 2
"""The reading version of a checkpoint that does not name one."""

CONFIG, WEIGHTS, TOKENIZER, CARD = "config.json", "model.safetensors", "tokenizer.json", "README.md"


@dataclass(frozen=True)
class CheckpointConfig:
    """The contents of `config.json`.

    Attributes:
        model: the model's registry name.
        options: all of its hyper-parameters.
        embedding_size: dimensions of the word vectors; 0 for a model with a pretrained encoder.
        max_tokens: maximum number of tokens per text; longer texts are cut.
        training: the data and the settings of the training, for information; only `match` is used.
        segmenter: the tokenizer's segmenter, which splits Chinese, Japanese, Thai or Korean into words.
        bm25_weight: the weight of BM25's score beside the model's, fitted on the dev questions; 0: it does not help.
        bm25_language: the language of that BM25's stemmer; `None` for no stemmer.
        wording_weight: the weight of an entry's best known wording, fitted likewise.
        encoder: the configuration of the pretrained encoder, in the format of transformers.
        calibration: the calibrations of the model's scores (`model`) and, with a weight of BM25, of the fused scores
            (`fused`); empty before `ap-ranker calibrate`.
        reading_version: version of how texts became words when it was trained.
    """

    model: str
    options: Mapping[str, Any]
    embedding_size: int
    max_tokens: int
    training: Mapping[str, Any]
    segmenter: str | None = None
    bm25_weight: float = 0.0
    bm25_language: str | None = None
    wording_weight: float = 0.0
    encoder: Mapping[str, Any] | None = None
    calibration: Mapping[str, Calibration] = field(default_factory=dict)
    reading_version: int = READING_VERSION


def save_checkpoint(
    folder: Path,
    config: CheckpointConfig,
    model: AnswerModel,
    tokenizer: AnyTokenizer,
    card: str,
    further: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Write a checkpoint folder; it replaces an older checkpoint only when it is complete.

    Args:
        folder: the folder.
        config: its `config.json`.
        model: the model.
        tokenizer: its tokenizer.
        card: its model card.
        further: the texts of further files: name -> content.
    """
    with atomic_directory(folder) as draft:
        write_checkpoint_config(draft, config)
        weights = draft / WEIGHTS
        save_file({name: value.contiguous() for name, value in model.state_dict().items()}, weights)
        tokenizer.save(draft / TOKENIZER)
        for name, text in {CARD: card, **further}.items():
            (draft / name).write_text(text, encoding="utf-8")


def write_checkpoint_config(folder: Path, config: CheckpointConfig) -> None:
    """Write only a checkpoint's `config.json`, atomically."""
    content = asdict(config) | {FORMAT_VERSION: MODELS[config.model].format_version}
    write_text_atomically(folder / CONFIG, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def is_checkpoint(folder: Path) -> bool:
    """Whether the folder contains a checkpoint's files."""
    return all((folder / name).is_file() for name in (CONFIG, WEIGHTS, TOKENIZER))


def find_checkpoint(source: str | Path, token: str | None = None) -> Path:
    """The folder of a checkpoint: `source` itself, or the local copy of the hub repository of that name.

    Raises:
        InputError: neither is a checkpoint.
    """
    folder = Path(source)
    restore(folder)
    if folder.is_file():
        raise InputError(f"{folder}: expected a checkpoint, the folder that `ap-ranker train` wrote, found a file.")
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
        folder = Path(snapshot_download(str(source), allow_patterns=[CONFIG, WEIGHTS, TOKENIZER, CARD], token=token))
    except HFValidationError:
        raise InputError(f"No checkpoint folder at {str(source)!r}. {hint}") from None
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise InputError(
            f"No checkpoint folder at {str(source)!r}, and no such model could be downloaded from the hub "
            f"({type(error).__name__}). {hint}"
        ) from error
    if not is_checkpoint(folder):
        raise InputError(
            f"The hub's {str(source)!r} is not an ap-ranker checkpoint: it lacks {CONFIG}, {WEIGHTS} or {TOKENIZER}."
        )
    return folder


def read_checkpoint_config(folder: Path) -> CheckpointConfig:
    """Read only a checkpoint's `config.json`.

    Raises:
        InputError: the file is damaged or has another format, or its encoder needs custom code.
    """
    path = folder / CONFIG
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        _check_version(config, path)
        _check_fields(config, path)
        config.setdefault("reading_version", UNNAMED_READING)
        config["calibration"] = {kind: Calibration(**fit) for kind, fit in config.get("calibration", {}).items()}
        return CheckpointConfig(**config)
    except InputError:
        raise
    # Bad UTF-8, bad JSON and too large numbers raise these, too.
    except (OSError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise InputError(f"{path}: not the configuration of an ap-ranker checkpoint ({one_line(error)}).") from error


def _is_whole(minimum: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and minimum <= value <= LARGEST


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_weight(value: Any) -> bool:
    return is_number(value) and math.isfinite(value) and value >= 0


_FIELDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "model": (lambda value: isinstance(value, str) and value in MODELS, f"one of {', '.join(sorted(MODELS))}"),
    "options": (_is_object, "an object"),
    "embedding_size": (_is_whole(0), f"a whole number from 0 to {LARGEST:,}"),
    "max_tokens": (_is_whole(1), f"a whole number from 1 to {LARGEST:,}"),
    "training": (_is_object, "an object"),
    "segmenter": (lambda value: value in (None, *SEGMENTERS), f"null or one of {', '.join(SEGMENTERS)}"),
    "bm25_weight": (_is_weight, "a finite number from 0 on"),
    "bm25_language": (
        lambda value: value is None or is_language(value),
        "null, thai or one of Snowball's languages",
    ),
    "wording_weight": (_is_weight, "a finite number from 0 on"),
    "encoder": (lambda value: value is None or _is_object(value), "an object or null"),
    "calibration": (lambda value: _is_object(value) and value.keys() <= {MODEL, FUSED}, f"fits of {MODEL} and {FUSED}"),
    "reading_version": (
        lambda value: _is_whole(1)(value) and value <= READING_VERSION,
        f"a whole number up to {READING_VERSION}, or else a later ap-ranker",
    ),
}
"""A check of each field, and a description of the values that pass it."""


def _check_version(config: Any, path: Path) -> None:
    """Check the format version, which each model has its own of, and remove it.

    Raises:
        InputError: an earlier or later version of ap-ranker wrote the checkpoint.
        ValueError: not an object.
    """
    if not isinstance(config, dict):
        raise ValueError(f"expected an object, found {one_line(repr(config), 80)}")
    model, version = config.get("model"), config.pop(FORMAT_VERSION, None)
    spec = MODELS.get(model) if isinstance(model, str) else None
    expected = spec.format_version if spec else 1
    if version != expected:
        earlier = isinstance(version, int) and version < expected
        raise InputError(
            f"{path}: expected format version {expected}, found {one_line(repr(version), 80)}. "
            + (
                f"The model has changed since: ap-ranker train DATA --model {model} --output {path.parent} --overwrite"
                if earlier
                else "Update ap-ranker."
            )
        )


def _check_fields(config: Any, path: Path) -> None:
    """Check the fields of `CheckpointConfig`.

    Raises:
        InputError: the encoder needs custom code.
        ValueError: a field is missing, unknown or has a wrong value.
    """
    required = [field.name for field in fields(CheckpointConfig) if field.default is field.default_factory is MISSING]
    for name in required:
        if name not in config:
            raise ValueError(f"expected a field {name!r}, found none")
    for name, value in config.items():
        if name not in _FIELDS:
            raise ValueError(f"expected no field but {', '.join(_FIELDS)}, found {one_line(repr(name), 80)}")
        is_valid, expected = _FIELDS[name]
        if not is_valid(value):
            raise ValueError(f"expected {name} as {expected}, found {one_line(repr(value), 80)}")
    match = config["training"].get("match", Match.both)
    if match not in list(Match):
        raise ValueError(f"expected training.match as one of {', '.join(Match)}, found {one_line(repr(match), 80)}")
    refuse_code(config.get("encoder"), path)


def load_checkpoint(folder: Path) -> tuple[CheckpointConfig, AnswerModel, AnyTokenizer]:
    """Read a checkpoint folder; the model is on the CPU and in evaluation mode.

    Raises:
        InputError: a file is damaged or has another format, or the files do not belong together.
    """
    config = read_checkpoint_config(folder)
    if config.reading_version < READING_VERSION:
        logger.warning(
            "%s: trained when texts were read in another way (version %d, now %d): words beside symbols, curly quotes "
            "or foreign digits are new to it. To renew it: ap-ranker train DATA --model %s --output %s --overwrite",
            *(folder, config.reading_version, READING_VERSION, config.model, folder),
        )
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
        with unfilled():
            model = build_model(config.model, inputs, config.options)
        stored = load_file(weights)
        check_finite(weights, stored)
        model.load_state_dict(stored)
    except (SafetensorError, OSError, RuntimeError) as error:
        raise InputError(f"{weights}: its weights do not fit {config.model} ({one_line(error)}).") from error
    return config, model.eval(), tokenizer


def _check_sizes(config: CheckpointConfig, inputs: Inputs, largest_id: int, shapes: Shapes, folder: Path) -> None:
    """Check that the weights fit the configured model, before memory is allocated for it.

    Raises:
        InputError: they do not fit, or the model cannot be built.
    """
    path = folder / CONFIG
    if (config.encoder is not None) != MODELS[config.model].pretrained:
        found = "none" if config.encoder is None else "one"
        expected = "an encoder" if config.encoder is None else "no encoder"
        raise InputError(f"{path}: expected {expected} for the model {config.model}, found {found}.")
    limit = max(LARGEST, sum(map(math.prod, shapes.values())))
    for name, value in _whole_numbers("encoder", config.encoder):
        if not -limit <= value <= limit:
            raise InputError(
                f"{path}: expected {one_line(name)} up to {limit:,}, its number of weights, found "
                f"{one_line(value, 40)}."
            )
    encoder = config.encoder or {}
    for name, needed, what in (
        ("max_position_embeddings", config.max_tokens, "max_tokens"),
        ("vocab_size", largest_id + 1, "token ids"),
    ):
        maximum = encoder.get(name)
        if isinstance(maximum, int) and needed > maximum:
            raise InputError(
                f"{path}: expected {what} up to the encoder's {name}, {one_line(maximum, 40)}, found {needed}."
            )
    try:
        with planned(len(shapes)):
            model = build_model(config.model, inputs, config.options)
    except Exception as error:  # impossible sizes can raise anything
        raise InputError(f"{path}: expected a model that can be built, found: {one_line(error)}.") from error
    unequal = difference({name: tuple(value.shape) for name, value in model.state_dict().items()}, shapes)
    if unequal:
        raise InputError(
            f"{folder / WEIGHTS}: its weights do not fit {config.model} as {CONFIG} describes it ({unequal}). Take "
            "both files from the same checkpoint."
        )


def _whole_numbers(name: str, value: Any) -> Iterator[tuple[str, int]]:
    """The names and values of all whole numbers in a JSON value."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _whole_numbers(f"{name}.{key}", item)
    elif isinstance(value, list):
        for item in value:
            yield from _whole_numbers(name, item)
    elif isinstance(value, int):
        yield name, value
