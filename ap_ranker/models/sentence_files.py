"""The files in which sentence-transformers stores what an encoder does beside its transformer, of all its versions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from ap_ranker.errors import InputError, one_line
from ap_ranker.models.sentence_modules import Activation, Layer, Pooling, SentenceSettings
from ap_ranker.text.tokenizer import SubwordTokenizer

MODULES = ("Transformer", "Pooling", "Dense", "Normalize", "Dropout", "MultiVectorMask")
"""Modules that can be read. Of the last ones, none changes a cosine, but a `Normalize` before a `Dense`: our own
attention takes the place of a mask of the tokens that are matched."""

OLDER_NAMES = {"cls_token": "cls", "max_tokens": "max", "mean_tokens": "mean", "weightedmean_tokens": "weightedmean"}
"""Of poolings."""

QUESTION_PROMPTS, ANSWER_PROMPTS = ("query",), ("document", "passage", "corpus")
"""Names of prompts; the first that is there counts, also where it is empty."""

PROMPTS_BY_NAME = {
    r"e5-(small|base|large)(-v2)?$": ("query: ", "passage: "),
    r"(nomic|modernbert)-embed": ("search_query: ", "search_document: "),
}
"""Encoders whose files often lack the prompts that they were trained with: a part of the name -> both prompts."""


@dataclass(frozen=True)
class SentenceFiles:
    """The settings as an encoder's folder has them: prompts as text, layers by the folders of their weights.

    `transformer` is the folder of the transformer itself, `max_tokens` where texts are cut, if the files say so.
    """

    transformer: Path
    pooling: Any = "mean"
    question_prompt: str = ""
    answer_prompt: str = ""
    max_tokens: int | None = None
    include_prompt: bool = True
    token_layers: Mapping[Path, Layer] = field(default_factory=dict)
    layers: Mapping[Path, Layer] = field(default_factory=dict)
    dimensions: int = 0

    @classmethod
    def read(cls, folder: Path) -> SentenceFiles:
        """Read an encoder's folder; InputError for a damaged file, or for a module or a pooling that cannot be read."""
        try:
            files, unknown = _read(folder)
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise InputError(
                f"{folder}: expected the files of a sentence-transformers encoder, found some that cannot be read "
                f"({one_line(repr(error))})."
            ) from error
        expected = found = ""
        if unknown:
            expected, found = f"of the modules {', '.join(MODULES)}", unknown[0]
        elif files.pooling not in get_args(Pooling):
            expected, found = f"that pools by {' or '.join(get_args(Pooling))}", files.pooling
        if expected:
            raise InputError(f"{folder}: expected an encoder {expected}, found {found}. Choose another encoder.")
        return files

    def settings(self, tokenizer: SubwordTokenizer) -> SentenceSettings:
        """The same with the encoder's tokenizer's ids."""
        (question, question_gap), (answer, answer_gap) = map(
            tokenizer.prompt, (self.question_prompt, self.answer_prompt)
        )
        return SentenceSettings(
            self.pooling,
            question,
            answer,
            tokenizer.leading if question or answer else 0,
            question_gap,
            answer_gap,
            self.include_prompt,
            tuple(self.token_layers.values()),
            tuple(self.layers.values()),
            self.dimensions,
        )


def _read(folder: Path) -> tuple[SentenceFiles, list[str]]:
    """The settings, and the kinds of modules that cannot be read."""
    modules = list(modules_of(folder))
    kinds = dict(modules)
    transformer, pooling = kinds.get("Transformer", folder), read_json(kinds.get("Pooling", folder) / "config.json", {})
    ours = read_json(folder / "config_sentence_transformers.json", {})
    length = read_json(transformer / "sentence_bert_config.json", {}).get("max_seq_length")
    length = length or read_json(transformer / "tokenizer_config.json", {}).get("model_max_length")
    token_layers, layers = {}, {}
    normalized = False
    for kind, place in modules:
        if kind == "Dense":
            config = read_json(place / "config.json", {})
            # ColBERT's checkpoints have no pooling, and those of PyLate do not say what the layer is of.
            if config.get("module_input_name", "" if "Pooling" in kinds else "token_embeddings") == "token_embeddings":
                token_layers[place] = _layer(config, normalized=False)
            else:
                layers[place] = _layer(config, normalized=normalized)
        normalized = kind == "Normalize"
    prompts = dict(ours.get("prompts") or {})
    files = SentenceFiles(
        transformer,
        _pooling(pooling),
        # PyLate has a token of its own before each text.
        str(ours.get("query_prefix") or "") + _first(prompts, QUESTION_PROMPTS),
        str(ours.get("document_prefix") or "") + _first(prompts, ANSWER_PROMPTS),
        max_tokens=None if length is None else int(length),
        include_prompt=bool(pooling.get("include_prompt", True)),
        token_layers=token_layers,
        layers=layers,
        dimensions=int(ours.get("truncate_dim") or 0),
    )
    return files, sorted(kinds.keys() - set(MODULES))


def modules_of(folder: Path) -> Iterator[tuple[str, Path]]:
    """The kind and the folder of each module; of a `Router`, the modules that questions and answers share."""
    for module in read_json(folder / "modules.json", []):
        kind, place = _last_name(module["type"]), folder / str(module["path"])
        routes = read_json(place / "router_config.json", {}) if kind == "Router" else {}
        shared, *others = [*routes.get("structure", {}).values()] or [None]
        if shared is None or any(other != shared for other in others):
            yield kind, place
        else:
            yield from ((_last_name(routes["types"][name]), place / name) for name in shared)


def _last_name(dotted: Any) -> str:
    return str(dotted).rpartition(".")[2]


def read_json(path: Path, default: Any) -> Any:
    """The content of a file of JSON; `default` if there is none."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else default


def _first(prompts: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((str(prompts[name] or "") for name in names if name in prompts), "")


def _layer(config: Mapping[str, Any], *, normalized: bool) -> Layer:
    activation = _last_name(config.get("activation_function", "Tanh"))
    if activation not in get_args(Activation):
        raise ValueError(f"a Dense module with one of the activations {', '.join(get_args(Activation))}: {activation}")
    bias, residual = bool(config.get("bias", True)), bool(config.get("use_residual", False))
    return Layer(int(config["out_features"]), bias, activation, residual, normalized)


def _pooling(config: Mapping[str, Any]) -> str:
    """The modes that are on; older versions wrote one switch for each. Without files, states are averaged, but the
    last one counts of a model that has only read what is before a word."""
    modes = config.get("pooling_mode")
    if modes is None:
        on = [name.removeprefix("pooling_mode_") for name, value in config.items() if "pooling_mode_" in name and value]
        causal = "ForCausalLM" in str(config.get("architectures")) and config.get("is_causal", True)
        modes = [OLDER_NAMES.get(name, name) for name in on] or ["lasttoken" if causal else "mean"]
    return modes if isinstance(modes, str) else " and ".join(modes)


def prompts_by_name(name: str) -> tuple[str, str]:
    """The prompts of an encoder of this name or folder, of questions and of answers; empty for an unknown one."""
    last = Path(name).name.lower()
    return next((found for part, found in PROMPTS_BY_NAME.items() if re.search(part, last)), ("", ""))
