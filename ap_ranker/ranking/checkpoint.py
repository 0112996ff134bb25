"""A checkpoint is one folder: config.json, model.safetensors, tokenizer.json, README.md. Nothing in it is pickled."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, field, replace
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import Field
from safetensors import SafetensorError
from safetensors.numpy import load_file, save
from safetensors.torch import save_file
from torch import Tensor

from ap_ranker.data.faq import Match
from ap_ranker.data.split import DEV
from ap_ranker.errors import InputError, library_errors, one_line, told_at
from ap_ranker.files import atomic_directory, restore, write_text_atomically
from ap_ranker.models.base import AnswerModel
from ap_ranker.models.pretrained import (
    BACKBONE,
    WEIGHTS,
    check_numbers,
    download,
    encoder_hash,
    find_encoder,
    read_weights,
    refuse_code,
    stored_shapes,
)
from ap_ranker.models.registry import MODELS, build_model
from ap_ranker.models.sentence_modules import SentenceFiles, SentenceSettings
from ap_ranker.models.spec import LARGEST, Inputs
from ap_ranker.models.weights import (
    Shapes,
    Unfilled,
    check_finite,
    check_kinds,
    difference,
    is_finite,
    load_weights,
    read_shapes,
)
from ap_ranker.ranking.faq_sketch import FAQSketch
from ap_ranker.ranking.rule import FUSED, MODEL, Calibration
from ap_ranker.ranking.verdict import Verdict
from ap_ranker.safe_open import read_json_file
from ap_ranker.settings import checked, read_fields, settings
from ap_ranker.text.languages import is_language
from ap_ranker.text.near_copies import KnownForms
from ap_ranker.text.question_keys import question_key
from ap_ranker.text.reading import MODELS_READ_SINCE, READING_VERSION
from ap_ranker.text.tokenizer import AnyTokenizer, SubwordTokenizer, WordTokenizer

logger = logging.getLogger(__name__)

CONFIG = "config.json"
TOKENIZER = "tokenizer.json"
CARD = "README.md"

HUB_FILES = [CONFIG, WEIGHTS, TOKENIZER, CARD]
"""What the hub gets and gives of a checkpoint."""

CALIBRATED = ("prior", "faq")
"""What a calibration replaces in the configuration, besides the calibration itself."""

TRAINED_QUESTIONS = "trained_questions.txt"
"""A file with 32 bits of the SHA-256 of each question that it has learnt from; it is not pushed to the hub.

So few bits do not give a question away: they only tell that a text is probably one of them. A new question is taken for
one of N with probability N / 2**32.
"""

MAX_TOKENS = 10_000
"""Of a text, for any model: what an encoder does with each pair of tokens takes their square."""

TRAINED_FORMS = "trained_forms.safetensors"
"""A file with 32 bits of each form of these questions (`KnownForms`), which tell their near copies; not pushed either.

The questions are those of the data; sentences of answers, which it may have learnt from as well, are only among the
former. A new question is taken for a copy of one of N with a probability of some N / 2**25, as it has a hundred forms.
"""

DEV_QUESTIONS = "dev_questions.txt"
"""The same as `TRAINED_QUESTIONS` for the questions that chose the epoch and the weights; not pushed either."""

MAX_TRAINED = 32 * 2**20
MAX_FORMS = 2**30
"""Maximum sizes of these files in bytes: of 3.7 million questions, and of some 2.5 million."""

Size = Annotated[int, Field(ge=0, le=LARGEST)]
Weight = Annotated[float, Field(ge=0)]


Calibrations = Annotated[
    Mapping[str, Calibration], checked(lambda fits: fits.keys() <= {MODEL, FUSED}, f"fits of {MODEL} and {FUSED}")
]


def _names_match(training: Mapping[str, Any]) -> bool:
    return training.get("match", Match.both) in list(Match)


@settings
class CheckpointConfig:
    """The contents of `config.json`."""

    model: Annotated[str, checked(MODELS.__contains__, f"one of {', '.join(sorted(MODELS))}")]  # its name
    options: Mapping[str, Any]  # all of its hyper-parameters
    embedding_size: Size  # dimensions of the word vectors; 0 for a model with a pretrained encoder
    max_tokens: Annotated[int, Field(ge=1, le=MAX_TOKENS)]  # of a text; longer texts are cut
    # The data and the settings of the training, for information; only `match` is used.
    training: Annotated[Mapping[str, Any], checked(_names_match, f"match to be one of {', '.join(Match)}")]
    segmenter: None = None  # of older checkpoints, whose models of words had other words of Chinese, Thai and so on
    bm25_weight: Weight = 0.0  # of BM25's score beside the model's, fitted on the dev questions; 0: it does not help
    # Of the stemmer of that BM25.
    bm25_language: Annotated[str, checked(is_language, "thai or one of Snowball's languages")] | None = None
    wording_weight: Weight = 0.0  # of an entry's known wordings, fitted likewise, or to themselves if untrained
    encoder: Mapping[str, Any] | None = None  # the pretrained one's configuration, in the format of transformers
    # Of the weights and the tokenizer of the encoder that the options name, if the checkpoint has none of its own.
    encoder_hash: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    # Of the model's scores (`model`) and, with a weight of BM25, of the fused ones (`fused`), if any.
    calibration: Calibrations = field(default_factory=dict)
    prior: Calibrations = field(default_factory=dict)  # what counted beside its questions, as it counts the next time
    # Version of how texts became words when it was trained.
    reading_version: Annotated[
        int, Field(ge=1), checked(lambda version: version <= READING_VERSION, f"{READING_VERSION} or a later ap-ranker")
    ] = READING_VERSION
    floor: float | None = None  # of what is worth showing, without a calibration, which has its own
    faq: FAQSketch | None = None  # that it was trained or, later, calibrated on; none in older checkpoints
    verdict: Verdict | None = None  # of its training; none in untrained and older checkpoints
    # Of `CALIBRATED`, what it had before it was calibrated: its fingerprint, by which states are found, stays.
    uncalibrated: Mapping[str, Any] | None = None


def checkpoint_draft(folder: Path) -> AbstractContextManager[Path]:
    """A draft of a checkpoint, as `atomic_directory`; its dev questions are private: visitors may have asked them."""
    return atomic_directory(folder, private=[DEV])


def save_checkpoint(
    folder: Path,
    config: CheckpointConfig,
    model: AnswerModel,
    tokenizer: AnyTokenizer,
    card: str,
    further: Mapping[str, str | bytes] = MappingProxyType({}),
    finish: Callable[[Path], None] = lambda folder: None,
) -> None:
    """Write a checkpoint folder, with `further` files by name; it replaces an older one when `finish` is done with it.

    The matrices of a pretrained encoder are stored in half precision (`round_as_stored`). With the option `linked`, an
    encoder that is as its source has it is named instead.
    """
    weights = model.state_dict()
    config = _linked(config, weights)
    if config.encoder_hash:
        weights = {name: value for name, value in weights.items() if not name.startswith(BACKBONE)}
    else:
        weights |= round_as_stored(weights.items())
    with checkpoint_draft(folder) as draft:
        write_checkpoint_config(draft, config)
        save_file({name: value.contiguous() for name, value in weights.items()}, draft / WEIGHTS)
        tokenizer.save(draft / TOKENIZER)
        for name, content in {CARD: card, **further}.items():
            (draft / name).write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
        finish(draft)


def round_as_stored(weights: Iterable[tuple[str, Tensor]]) -> dict[str, Tensor]:
    """Round a pretrained encoder's matrices in place to half precision, as checkpoints store them, and return these.

    Training does so before it measures, so that what it measures is what its checkpoint ranks with.
    """
    halves: dict[str, Tensor] = {}
    with torch.no_grad():
        for name, value in weights:
            if name.startswith(BACKBONE) and value.dim() > 1:
                half = value.half()
                if is_finite(half):
                    value.copy_(half)
                    halves[name] = half
    return halves


def _linked(config: CheckpointConfig, weights: Mapping[str, Tensor]) -> CheckpointConfig:
    """With the hash of the encoder that it names, if it wants that and the weights are those of that encoder."""
    if not config.options.get("linked"):
        return config
    name = str(config.options["encoder"])
    folder = find_encoder(name)
    own = _backbone(weights)
    source = read_weights(folder, own)
    if any(not torch.equal(value.cpu(), source[key].to(value.dtype)) for key, value in own.items()):
        logger.warning("%s has learnt: it is copied into the checkpoint, which cannot name it.", name)
        return replace(config, encoder_hash=None)
    named = str(folder.resolve()) if Path(name).is_dir() else name  # wherever the checkpoint is loaded from
    return replace(config, options={**config.options, "encoder": named}, encoder_hash=encoder_hash(folder))


def _backbone(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(BACKBONE): value for name, value in weights.items() if name.startswith(BACKBONE)}


def _linked_encoder(config: CheckpointConfig, path: Path) -> Path | None:
    """The folder of the encoder that a checkpoint names; InputError if it is missing or another one."""
    if config.encoder_hash is None:
        return None
    name = str(config.options.get("encoder"))
    other_encoder = "another version"
    try:
        folder = find_encoder(name)
        if encoder_hash(folder) == config.encoder_hash:
            return folder
    except (ValueError, LookupError, TypeError, OSError) as error:  # of damaged files, too
        other_encoder = f"none ({one_line(error, 80)})"
    raise InputError(
        f"{path}: expected the encoder {name} as it was when this checkpoint was written, found {other_encoder}. Bring "
        "it back there, or write the checkpoint anew: without --link-encoder, it has a copy."
    )


def write_checkpoint_config(folder: Path, config: CheckpointConfig) -> None:
    """Write only a checkpoint's `config.json`, atomically."""
    content = asdict(config) | {"format_version": MODELS[config.model].format_version}
    write_text_atomically(folder / CONFIG, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def write_calibration(
    folder: Path, *, calibration: Mapping[str, Calibration], prior: Mapping[str, Calibration], faq: FAQSketch
) -> None:
    """Write what was fitted on a FAQ into the `config.json` of its checkpoint, atomically; all else stays as it is."""
    values = read_json_file(folder / CONFIG)
    if values.get("uncalibrated") is None:
        values["uncalibrated"] = {name: values[name] for name in CALIBRATED if name in values}
    for name, fits in {"calibration": calibration, "prior": prior}.items():
        values[name] = {kind: asdict(fit) for kind, fit in fits.items()}
    values["faq"] = asdict(faq)
    write_text_atomically(folder / CONFIG, json.dumps(values, indent=2, ensure_ascii=False) + "\n")


def is_checkpoint(folder: Path) -> bool:
    """Whether the folder contains a checkpoint's files."""
    return all((folder / name).is_file() for name in (CONFIG, WEIGHTS, TOKENIZER))


def find_checkpoint(source: str | Path, token: str | None = None) -> Path:
    """The folder of a checkpoint: `source` itself, or the local copy of the hub repository of that name."""
    folder = Path(source)
    restore(folder)
    if not folder.exists():
        advice = "Train one: ap-ranker train DATA --output DIR, or without questions: ap-ranker init"
        folder = download("checkpoint", str(source), HUB_FILES, advice, token)
    if not is_checkpoint(folder):
        content = ["a file"]
        if not folder.is_file():
            content = sorted(file.name for file in folder.iterdir())
        raise InputError(
            f"{source}: expected a checkpoint ({CONFIG}, {WEIGHTS}, {TOKENIZER}), found "
            f"{one_line(', '.join(content), 80) or 'an empty folder'}. Name the folder that `ap-ranker train` wrote."
        )
    return folder


def read_checkpoint_config(folder: Path) -> CheckpointConfig:
    """Read only a checkpoint's `config.json`; an InputError if it is damaged, or its encoder needs custom code."""
    path = folder / CONFIG
    values = read_json_file(path)
    if not isinstance(values, dict):
        content = one_line(repr(values), 80)
        raise InputError(f"{path}: expected the configuration of an ap-ranker checkpoint, found {content}.")
    if "model_type" in values:  # transformers' own
        raise InputError(
            f"{path}: expected a checkpoint of ap-ranker, found an encoder. To make a checkpoint of it: "
            f"ap-ranker init --documents FAQ --encoder {folder} --output DIR; to train one: ap-ranker train DATA ..."
        )
    version = values.pop("format_version", None)
    values.setdefault("reading_version", 2)  # of a checkpoint from before it was written
    model = values.get("model")
    expected = 1
    if isinstance(model, str) and model in MODELS:
        expected = MODELS[model].format_version
    if version != expected:
        advice = "Update ap-ranker."
        if isinstance(version, int) and version < expected:
            advice = f"The model has changed since: ap-ranker train DATA --model {model} --output {folder} --overwrite"
        written_version = one_line(repr(version), 80)
        raise InputError(f"{path}: expected format version {expected}, found {written_version}. {advice}")
    for name in ("calibration", "prior"):
        fits = values.get(name)
        if isinstance(fits, dict):
            for kind, fit in fits.items():
                fits[kind] = read_fields(Calibration, fit, f"{path}: {one_line(kind, 40)}")
    if values.get("faq") is not None:
        values["faq"] = read_fields(FAQSketch, values["faq"], f"{path}: faq")
    if values.get("verdict") is not None:
        values["verdict"] = read_fields(Verdict, values["verdict"], f"{path}: verdict")
    config = read_fields(CheckpointConfig, values, path)
    refuse_code(config.encoder, path)
    return config


def load_checkpoint(folder: Path) -> tuple[CheckpointConfig, AnswerModel, AnyTokenizer]:
    """Read a checkpoint folder; the model is on the CPU and in evaluation mode."""
    config = read_checkpoint_config(folder)
    if config.reading_version < MODELS_READ_SINCE:
        logger.warning(
            "%s was trained when texts were read in another way (version %d, now %d). To renew it: ap-ranker train "
            "DATA --model %s --output %s --overwrite",
            *(folder, config.reading_version, READING_VERSION, config.model, folder),
        )
    tokenizer: AnyTokenizer
    if config.encoder is None:
        tokenizer = WordTokenizer.load(folder / TOKENIZER, config.max_tokens)
    else:
        with told_at(folder / CONFIG):
            sentence = SentenceSettings.of(config.encoder)
        gaps = sentence.question_gap, sentence.answer_gap
        tokenizer = SubwordTokenizer.load(folder / TOKENIZER, config.max_tokens, *gaps)
    weights = folder / WEIGHTS
    encoder = _linked_encoder(config, folder / CONFIG)
    advice = " Copy the whole file; from Git LFS: git lfs pull"
    expected = f"{weights}: its weights do not fit {config.model}"
    with library_errors(expected, (SafetensorError, OSError, RuntimeError), advice):
        shapes = read_shapes(weights)
        inputs = Inputs(tokenizer.words, config.embedding_size, config.max_tokens, config.encoder)
        _check_sizes(config, inputs, tokenizer.largest_id, shapes, folder, encoder)
        with Unfilled():
            model = build_model(config.model, inputs, config.options)
        stored = load_weights(weights)
        check_kinds(weights, stored, model.state_dict())
        check_finite(weights, stored)
        if encoder is not None:
            own = _backbone(model.state_dict())
            source = read_weights(encoder, own)
            for name in own:
                stored[f"{BACKBONE}{name}"] = source[name]
        model.load_state_dict(stored)
    return config, model.eval(), tokenizer


def _check_sizes(
    config: CheckpointConfig, inputs: Inputs, largest_id: int, shapes: Shapes, folder: Path, linked: Path | None
) -> None:
    """Check that the weights fit the configured model, before memory is allocated for it."""
    others = {}
    if linked:
        others = stored_shapes(SentenceFiles.read(linked).transformer)
    path = folder / CONFIG
    is_pretrained = MODELS[config.model].pretrained
    if is_pretrained and config.encoder is None:
        raise InputError(f"{path}: expected an encoder for the model {config.model}, found none.")
    if not is_pretrained and config.encoder is not None:
        raise InputError(f"{path}: expected no encoder for the model {config.model}, found one.")
    check_numbers(config.encoder, {**shapes, **others}, path)
    encoder = config.encoder or {}
    places = {"max_tokens": "max_position_embeddings", "token ids": "vocab_size"}
    for (what, name), needed in zip(places.items(), (config.max_tokens, largest_id + 1), strict=True):
        maximum = encoder.get(name)
        if isinstance(maximum, int) and needed > maximum:
            raise InputError(
                f"{path}: expected {what} up to the encoder's {name}, {one_line(maximum, 40)}, found {needed}."
            )
    try:
        with torch.device("meta"), Unfilled(len(shapes) + len(others)):
            model = build_model(config.model, inputs, config.options)
    except Exception as error:  # impossible sizes can raise anything
        raise InputError(f"{path}: expected a model that can be built, found: {one_line(error)}.") from error
    shapes_of_model: dict[str, tuple[int, ...]] = {}
    for name, value in model.state_dict().items():
        if not (linked and name.startswith(BACKBONE)):  # whose weights are those of the linked encoder
            shapes_of_model[name] = tuple(value.shape)
    unequal = difference(shapes_of_model, shapes)
    if unequal:
        raise InputError(
            f"{folder / WEIGHTS}: its weights do not fit {config.model} as {CONFIG} describes it ({unequal}). Take "
            "both files from the same checkpoint."
        )


def trained_lines(questions: Iterable[str], before: Path | None = None) -> str:
    """The content of `TRAINED_QUESTIONS` for these questions and those of a checkpoint that training began with.

    A hash a line, sorted so that their order is unknown.
    """
    hashes = set(map(_hash, questions))
    if before:
        hashes |= _trained(before) or set()
    return "".join(f"{line}\n" for line in sorted(hashes))


def find_trained(folder: Path, questions: Sequence[str], name: str = TRAINED_QUESTIONS) -> list[bool] | None:
    """Whether a checkpoint has learnt from each question, or by another file of hashes; `None` without such a file."""
    hashes = _trained(folder, name)
    if hashes is None:
        return None
    return [_hash(question) in hashes for question in questions]


def trained_forms(questions: Iterable[str], before: Path | None = None) -> bytes:
    """The content of `TRAINED_FORMS` for these questions and those of a checkpoint that training began with."""
    forms = KnownForms.of(questions).short()
    earlier = read_trained_forms(before) if before else None
    return save(asdict(forms if earlier is None else forms.joined(earlier)))


def read_trained_forms(folder: Path) -> KnownForms | None:
    """The forms of the questions that a checkpoint has learnt from; `None` without such a file, as one of the hub."""
    path = folder / TRAINED_FORMS
    if not path.is_file():
        return None
    advice = "Remove it: near copies of what was learnt then count as new questions."
    _check_size(path, MAX_FORMS, advice)
    with library_errors(
        f"{path}: not the forms of questions", (SafetensorError, OSError, KeyError, TypeError, ValueError), f" {advice}"
    ):
        arrays = load_file(path)
        for name, array in arrays.items():
            if array.dtype != np.uint32 or array.ndim != 1:
                raise ValueError(f"{name} has {array.ndim} dimensions of {array.dtype}")
            if np.any(array[:-1] > array[1:]):  # then no copy would be recognized
                raise ValueError(f"{name} is not sorted")
        return KnownForms(**arrays)


def _trained(folder: Path, name: str = TRAINED_QUESTIONS) -> set[str] | None:
    path = folder / name
    if not path.is_file():
        return None
    _check_size(path, MAX_TRAINED, "Remove it: nothing but a warning needs it.")
    return set(path.read_text(encoding="utf-8", errors="replace").split())


def _check_size(path: Path, most: int, advice: str) -> None:
    size = path.stat().st_size
    if size > most:
        raise InputError(f"{path}: expected at most {most:,} bytes, found {size:,}. {advice}")


def _hash(question: str) -> str:
    return sha256(question_key(question).encode("utf-8", "replace")).hexdigest()[:8]


def push(folder: Path, repo: str, *, private: bool = False) -> str:
    """Upload a checkpoint in one commit, so that the hub never has an incomplete one.

    The token is the environment's `HF_TOKEN` or that of `hf auth login`. `repo` is NAMESPACE/NAME, or NAME in your own
    namespace; if it does not exist, it is created, `private` or not. Its URL is returned.
    """
    if not folder.is_dir():
        raise InputError(
            f"Expected a checkpoint folder on this machine, found none at {str(folder)!r}. Name the one to upload."
        )
    read_checkpoint_config(find_checkpoint(folder))
    for name in HUB_FILES:
        if (folder / name).is_symlink():  # of a stranger's checkpoint, it may lead to a file that is nobody's business
            target = (folder / name).readlink()
            raise InputError(
                f"{folder / name}: expected a file to be uploaded, found a link to {target}. Put a copy in its place "
                "(cp -L)."
            )
    if not (folder / CARD).is_file():
        raise InputError(f"{folder}: expected a card, {CARD}, that describes the model; found none. Write one.")

    from huggingface_hub import HfApi
    from huggingface_hub.errors import HTTPError

    api = HfApi()
    try:
        url = api.create_repo(repo, private=private or None, exist_ok=True)
        api.upload_folder(
            repo_id=url.repo_id, folder_path=folder, allow_patterns=HUB_FILES, commit_message="Pushed by ap-ranker"
        )
    except (HTTPError, OSError, ValueError) as error:  # no network, no right to write, a refused name or card
        reason = one_line(str(error) or type(error).__name__)
        raise InputError(
            f"Could not push to {repo!r} at {api.endpoint}: {reason}. Nothing was uploaded. Name as REPO a "
            "NAMESPACE/NAME that you may write to, and set HF_TOKEN, or: hf auth login"
        ) from error
    return str(url)
