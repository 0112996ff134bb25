"""A checkpoint is one folder: config.json, model.safetensors, tokenizer.json, README.md. Nothing in it is pickled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from ap_ranker.errors import InputError
from ap_ranker.files import restore, write_whole, written_aside
from ap_ranker.models.base import AnswerModel
from ap_ranker.models.registry import build_model
from ap_ranker.models.spec import Inputs
from ap_ranker.ranking.calibration import Calibration
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
        training: the data and the settings that made the weights, for the reader; nothing depends on it.
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
    with written_aside(folder) as draft:
        write_config(draft, config)
        save_file({name: value.contiguous() for name, value in model.state_dict().items()}, draft / WEIGHTS)
        tokenizer.save(draft / TOKENIZER)
        (draft / CARD).write_text(card, encoding="utf-8")


def write_config(folder: Path, config: CheckpointConfig) -> None:
    """Write a checkpoint's `config.json` alone, whole or not at all."""
    write_whole(folder / CONFIG, json.dumps(asdict(config), indent=2, ensure_ascii=False) + "\n")


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


def read_config(folder: Path) -> CheckpointConfig:
    """Read a checkpoint's `config.json` alone.

    Raises:
        InputError: it is damaged or of a later format.
    """
    try:
        fields = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        version = fields.get("format_version")
        if version != FORMAT_VERSION:
            raise InputError(
                f"{folder / CONFIG}: expected format version {FORMAT_VERSION}, found {version}. Update ap-ranker."
            )
        fits = {kind: Calibration(**values) for kind, values in fields.pop("calibration", {}).items()}
        return CheckpointConfig(**fields, calibration=fits)
    except InputError:
        raise
    except (ValueError, TypeError, AttributeError) as error:  # of bad UTF-8 and bad JSON as well
        raise InputError(f"{folder / CONFIG}: not the configuration of an ap-ranker checkpoint ({error}).") from error


def load_checkpoint(folder: Path) -> tuple[CheckpointConfig, AnswerModel, AnyTokenizer]:
    """Read a checkpoint folder; the model is on the CPU and in evaluation mode.

    Raises:
        InputError: a file is damaged or of a later format.
    """
    config = read_config(folder)
    try:
        tokenizer: AnyTokenizer
        if config.encoder is None:
            tokenizer = WordTokenizer.load(folder / TOKENIZER, config.max_tokens, config.segmenter)
        else:
            tokenizer = SubwordTokenizer.load(folder / TOKENIZER, config.max_tokens)
    except InputError:
        raise
    except Exception as error:  # the tokenizers library raises bare Exception
        raise InputError(f"{folder / TOKENIZER}: not a readable tokenizer ({error}).") from error
    inputs = Inputs(tokenizer.words, config.embedding_size, config.max_tokens, config.encoder)
    model = build_model(config.model, inputs, config.options)
    try:
        model.load_state_dict(load_file(folder / WEIGHTS))
    except (SafetensorError, RuntimeError) as error:
        raise InputError(f"{folder / WEIGHTS}: its weights do not fit {config.model} ({error}).") from error
    return config, model.eval(), tokenizer
