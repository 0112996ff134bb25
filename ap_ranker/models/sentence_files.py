"""The files in which sentence-transformers, of any version, stores what an encoder does beside its transformer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ap_ranker.errors import InputError, library_errors, told_at
from ap_ranker.models.sentence_modules import Layer, SentenceSettings
from ap_ranker.text.tokenizer import SubwordTokenizer

MODULES = ("Transformer", "Pooling", "Dense", "Normalize", "Dropout", "MultiVectorMask")
"""Modules that can be read. The last ones do not change a cosine, but a `Normalize` before a `Dense` does."""

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
    """What an encoder's folder says: its settings, but for the prompts, which are texts here.

    `transformer` is the folder of the transformer itself, `layers` has those of the settings' layers, and `max_tokens`
    says where texts are cut, if a file says so.
    """

    transformer: Path
    settings: SentenceSettings = SentenceSettings()  # noqa: RUF009
    layers: Sequence[Path] = ()
    question_prompt: str = ""
    answer_prompt: str = ""
    max_tokens: int | None = None

    @classmethod
    def read(cls, folder: Path) -> SentenceFiles:
        """Read an encoder's folder; InputError for a damaged file, or for a module or a pooling that cannot be read."""
        with told_at(folder), library_errors("expected the files of a sentence-transformers encoder"):
            modules = list(modules_of(folder))
            places = dict(modules)
            if unknown := sorted(places.keys() - set(MODULES)):
                raise InputError(
                    f"expected an encoder of the modules {', '.join(MODULES)}, found {unknown[0]}. Choose another one."
                )
            transformer = places.get("Transformer", folder)
            pooling = read_json(places.get("Pooling", folder) / "config.json", {})
            # The layers of ColBERT's checkpoints do not always say that they are of the tokens, which nothing pools.
            layers = list(_layers(modules, "sentence_embedding" if "Pooling" in places else "token_embeddings"))
            ours = read_json(folder / "config_sentence_transformers.json", {})
            length = read_json(transformer / "sentence_bert_config.json", {}).get("max_seq_length")
            length = length or read_json(transformer / "tokenizer_config.json", {}).get("model_max_length")
            prompts = dict(ours.get("prompts") or {})
            settings = SentenceSettings(
                _pooling(pooling),
                include_prompt=bool(pooling.get("include_prompt", True)),
                token_layers=tuple(layer for layer, place, of_tokens in layers if of_tokens),
                layers=tuple(layer for layer, place, of_tokens in layers if not of_tokens),
                dimensions=int(ours.get("truncate_dim") or 0),
            )
            return cls(
                transformer,
                settings,
                tuple(place for _, place, of_tokens in sorted(layers, key=lambda each: not each[2])),
                str(ours.get("query_prefix") or "") + _first(prompts, QUESTION_PROMPTS),  # PyLate's: a token of its own
                str(ours.get("document_prefix") or "") + _first(prompts, ANSWER_PROMPTS),
                None if length is None else int(length),
            )

    def with_ids(self, tokenizer: SubwordTokenizer) -> SentenceSettings:
        """The settings with the prompts in the tokenizer's ids."""
        question, question_gap = tokenizer.prompt(self.question_prompt)
        answer, answer_gap = tokenizer.prompt(self.answer_prompt)
        return replace(
            self.settings,
            question_prompt=question,
            answer_prompt=answer,
            leading=tokenizer.leading if question or answer else 0,
            question_gap=question_gap,
            answer_gap=answer_gap,
        )


def modules_of(folder: Path) -> Iterator[tuple[str, Path]]:
    """The kind and the folder of each module; of a `Router`, the modules that questions and answers share."""
    for module in read_json(folder / "modules.json", []):
        kind, place = _kind(module["type"]), folder / str(module["path"])
        routes = read_json(place / "router_config.json", {}) if kind == "Router" else {}
        shared, *others = [*routes.get("structure", {}).values()] or [None]
        if shared is None or any(other != shared for other in others):
            yield kind, place
        else:
            yield from ((_kind(routes["types"][name]), place / name) for name in shared)


def read_json(path: Path, default: Any) -> Any:
    """The content of a file of JSON; `default` if there is none."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else default


def _last_name(dotted: Any) -> str:
    return str(dotted).rpartition(".")[2]


def _kind(dotted: Any) -> str:
    """A module's name; with its place if that is code of the encoder's own, which may do anything."""
    return _last_name(dotted) if str(dotted).startswith(("sentence_transformers.", "pylate.")) else str(dotted)


def _first(prompts: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((str(prompts[name] or "") for name in names if name in prompts), "")


def _layers(modules: Sequence[tuple[str, Path]], usual: str) -> Iterator[tuple[Layer, Path, bool]]:
    """The linear layers with their folders, and whether each is of the tokens or of the pooled vector."""
    for before, (kind, place) in zip([("", Path()), *modules], modules, strict=False):
        if kind == "Dense":
            config = read_json(place / "config.json", {})
            bias, residual = bool(config.get("bias", True)), bool(config.get("use_residual", False))
            activation: Any = _last_name(config.get("activation_function", "Tanh"))
            layer = Layer(int(config["out_features"]), bias, activation, residual, before[0] == "Normalize")
            yield layer, place, config.get("module_input_name", usual) == "token_embeddings"


def _pooling(config: Mapping[str, Any]) -> Any:
    """The modes that are on; older versions wrote one switch for each. Without any, states are averaged, or the last
    one counts, of a model that has only read what is before a word."""
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
