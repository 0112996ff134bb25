"""What an encoder does beside its transformer: its prompts, the pooling of token states, and linear layers.

All is computed as the modules of sentence-transformers do (Reimers & Gurevych 2019), whose files, of any version, are
read. A checkpoint keeps what differs from the usual.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field
from torch import Tensor, nn
from torch.nn import functional as F

from ap_ranker.errors import InputError, library_errors, one_line, told_at
from ap_ranker.models.operations import exact, unit
from ap_ranker.safe_open import read_json_file
from ap_ranker.settings import read_fields, settings
from ap_ranker.text.tokenizer import SubwordTokenizer

KEY = "sentence"  # where a checkpoint's encoder configuration keeps `SentenceSettings`, but for the usual ones

Pooling = Literal["mean", "cls", "lasttoken", "max", "mean_sqrt_len_tokens", "weightedmean"]
"""The mean of the token states, the first, the last, the largest numbers, the sum by the root of their number, or the
mean in which the n-th token counts n times (Muennighoff 2022)."""

Token = Annotated[int, Field(ge=0)]
Prompt = Annotated[tuple[Token, ...], Field(strict=False)]  # JSON has lists
Gap = Annotated[str, Field(pattern="^ *$", max_length=9)]


@settings
class Layer:
    """A linear layer (`Dense`) of token states or of the pooled vector."""

    size: Annotated[int, Field(ge=1)]  # of its output
    bias: bool = True
    activation: Literal["Identity", "Tanh", "ReLU", "GELU", "SiLU", "Sigmoid"] = "Tanh"
    residual: bool = False  # whether its input is added to its output
    normalized: bool = False  # whether its input is scaled to length 1


def _layers(stored: Any) -> Any:
    if isinstance(stored, list):
        return tuple(read_fields(Layer, layer, "a layer") for layer in stored)
    return stored


Layers = Annotated[tuple[Layer, ...], BeforeValidator(_layers)]


@settings
class SentenceSettings:
    """What an encoder does beside its transformer."""

    pooling: Pooling = "mean"  # how token states become one vector
    question_prompt: Prompt = ()  # token ids read before a question's own
    answer_prompt: Prompt = ()
    leading: Token = 0  # number of special tokens before the prompt, such as [CLS]
    question_gap: Gap = ""  # between a prompt and a text, if the tokenizer counts it to the text's first word
    answer_gap: Gap = ""
    include_prompt: bool = True  # whether pooling counts a prompt and what is before it
    token_layers: Layers = ()  # of each token's state, before pooling
    layers: Layers = ()  # of the pooled vector
    dimensions: Token = 0  # numbers of the vector that are kept; 0 for all

    @classmethod
    def of(cls, encoder: Mapping[str, Any]) -> SentenceSettings:
        """Read them from a checkpoint's encoder configuration; InputError if they are damaged."""
        settings = read_fields(cls, encoder.get(KEY, {}), f"encoder.{KEY}")
        size = encoder.get("vocab_size")
        largest = max(settings.question_prompt + settings.answer_prompt, default=-1)
        if isinstance(size, int) and largest >= size:
            raise InputError(f"encoder.{KEY}: expected token ids below {size}, found {largest}.")
        return settings

    def config(self) -> dict[str, Any]:
        """What the encoder configuration keeps of them: nothing if all are the usual ones."""
        usual = asdict(SentenceSettings())
        kept = {name: value for name, value in asdict(self).items() if value != usual[name]}
        if kept:
            return {KEY: json.loads(json.dumps(kept))}
        return {}


class Dense(nn.Module):
    """(..., C) -> (..., D); its weights have the names that sentence-transformers stores them by."""

    def __init__(self, inputs: int, layer: Layer) -> None:
        super().__init__()
        self._layer = layer
        self.linear = nn.Linear(inputs, layer.size, bias=layer.bias)
        self.residual = nn.Linear(inputs, layer.size, bias=False) if layer.residual and inputs != layer.size else None
        self._activation: nn.Module = getattr(nn, layer.activation)()

    def forward(self, states: Tensor) -> Tensor:
        values = exact(unit(states).to(states.dtype) if self._layer.normalized else states)
        bias = self.linear.bias if self.linear.bias is None else exact(self.linear.bias)
        output: Tensor = self._activation(F.linear(values, exact(self.linear.weight), bias))
        if self._layer.residual:
            output = output + (values if self.residual is None else F.linear(values, exact(self.residual.weight)))
        return output.to(states.dtype)


def dense(inputs: int, layers: Sequence[Layer]) -> tuple[nn.Sequential, int]:
    """The layers one after another, and the size of what the last one returns."""
    sizes = [inputs, *(layer.size for layer in layers)]
    return nn.Sequential(*map(Dense, sizes, layers)), sizes[-1]


# --- the files of sentence-transformers ---

MODULES = ("Transformer", "Pooling", "Dense", "Normalize", "Dropout", "MultiVectorMask")
"""Modules that can be read. The last ones do not change a cosine, but a `Normalize` before a `Dense` does."""

OLDER_NAMES = {"cls_token": "cls", "max_tokens": "max", "mean_tokens": "mean", "weightedmean_tokens": "weightedmean"}
"""Of poolings."""

QUESTION_PROMPTS = ("query",)
ANSWER_PROMPTS = ("document", "passage", "corpus")
"""Names of prompts; the first that is there counts, also where it is empty."""

PROMPTS_BY_NAME = {
    r"e5-(small|base|large)(-v2)?$": ("query: ", "passage: "),
    r"(nomic|modernbert)-embed": ("search_query: ", "search_document: "),
}
"""Encoders whose files often lack the prompts that they were trained with: a part of the name -> both prompts."""

_STATES = {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}
USUAL = ("feature-extraction", "token_embeddings", _STATES)
"""Of transformer_task, module_output_name and modality_config in a transformer's file, what every encoder here does."""

READ = ("max_seq_length", "do_lower_case", "model_args", "model_kwargs", "unpad_inputs")  # the last: how it computes
OF_COLBERT = ("query_length", "document_length", "query_expansion")  # which are not imitated


@dataclass(frozen=True)
class SentenceFiles:
    """What an encoder's folder says: its settings, but for the prompts, which are texts here.

    `transformer` is the folder of the transformer itself, `layers` has those of the settings' layers, `max_tokens`
    says where texts are cut, if a file says so, `lower_case` whether they lose their capitals, and `compared` how
    their vectors are, if these have several lengths.
    """

    transformer: Path
    settings: SentenceSettings = SentenceSettings()  # noqa: RUF009
    layers: Sequence[Path] = ()
    question_prompt: str = ""
    answer_prompt: str = ""
    max_tokens: int | None = None
    lower_case: bool = False
    compared: str = ""

    @classmethod
    def read(cls, folder: Path) -> SentenceFiles:
        """Read an encoder's folder; InputError for a damaged file, or for what it says that cannot be read."""
        with told_at(folder), library_errors("expected the files of a sentence-transformers encoder"):
            modules = list(modules_of(folder))
            places = dict(modules)
            unknown = sorted(places.keys() - set(MODULES))
            if unknown:
                found = f"found {unknown[0]}. Choose another one."
                raise InputError(f"expected an encoder of the modules {', '.join(MODULES)}, {found}")
            transformer = places.get("Transformer", folder)
            if (transformer / "adapter_config.json").is_file():
                advice = "Load it with peft, and save what merge_and_unload() returns."
                raise InputError(f"expected an encoder with weights of its own, found adapter_config.json. {advice}")
            pooling = read_json(places.get("Pooling", folder) / "config.json", {})
            # The layers of ColBERT's checkpoints do not always say that they are of the tokens, which nothing pools.
            layers = list(_stored_layers(modules, "sentence_embedding" if "Pooling" in places else "token_embeddings"))
            ours = read_json(folder / "config_sentence_transformers.json", {})
            reads = _transformer_settings(transformer, () if "Pooling" in places else OF_COLBERT)
            most = read_json(transformer / "tokenizer_config.json", {}).get("model_max_length")
            prompts = dict(ours.get("prompts") or {})
            settings = SentenceSettings(
                _pooling(pooling),
                include_prompt=bool(pooling.get("include_prompt", True)),
                token_layers=tuple(layer for layer, place, of_tokens in layers if of_tokens),
                layers=tuple(layer for layer, place, of_tokens in layers if not of_tokens),
                dimensions=int(ours.get("truncate_dim") or 0),
            )
            # PyLate's prefix, a token of its own, comes before the prompt.
            question_prefix = str(ours.get("query_prefix") or "")
            answer_prefix = str(ours.get("document_prefix") or "")
            length = reads.get("max_seq_length") or most
            compared = ours.get("similarity_fn_name") or ""
            if modules[-1:] and modules[-1][0] == "Normalize":
                compared = ""
            return cls(
                transformer,
                settings,
                layers=tuple(place for _, place, _ in layers),
                question_prompt=question_prefix + _first(prompts, QUESTION_PROMPTS),
                answer_prompt=answer_prefix + _first(prompts, ANSWER_PROMPTS),
                max_tokens=int(length) if length else None,
                lower_case=bool(reads.get("do_lower_case")),
                compared=compared,
            )

    def with_ids(self, tokenizer: SubwordTokenizer) -> SentenceSettings:
        """The settings with the prompts in the tokenizer's ids."""
        question, question_gap = tokenizer.prompt(self.question_prompt)
        answer, answer_gap = tokenizer.prompt(self.answer_prompt)
        leading = tokenizer.leading if question or answer else 0
        prompts = replace(self.settings, question_prompt=question, answer_prompt=answer, leading=leading)
        return replace(prompts, question_gap=question_gap, answer_gap=answer_gap)


def modules_of(folder: Path) -> Iterator[tuple[str, Path]]:
    """The kind and the folder of each module; of a `Router`, the modules that questions and answers share."""
    for module in read_json(folder / "modules.json", []):
        kind = _kind(module["type"])
        place = _within(folder, module["path"])
        routes = {}
        if kind == "Router":
            routes = read_json(place / "router_config.json", {})
        shared, *others = [*routes.get("structure", {}).values()] or [None]
        if shared is None or any(other != shared for other in others):
            yield kind, place
        else:
            yield from ((_kind(routes["types"][name]), _within(place, name)) for name in shared)


def _within(folder: Path, name: Any) -> Path:
    """The folder of a module in an encoder's; InputError for one that is elsewhere."""
    path = PurePath(str(name))
    if path.is_absolute() or ".." in path.parts:
        found = f"found {one_line(repr(str(name)), 80)}. Choose another encoder."
        raise InputError(f"{folder}: expected modules in this folder, {found}")
    return folder / path


def read_json(path: Path, default: Any) -> Any:
    """The content of a file of JSON; `default` if there is none."""
    if path.is_file():
        return read_json_file(path)
    return default


def _last_name(dotted: Any) -> str:
    return str(dotted).rpartition(".")[2]


def _kind(dotted: Any) -> str:
    """A module's name; with its place if that is code of the encoder's own, which may do anything."""
    if str(dotted).startswith(("sentence_transformers.", "pylate.")):
        return _last_name(dotted)
    return str(dotted)


def _first(prompts: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((str(prompts[name] or "") for name in names if name in prompts), "")


def _transformer_settings(folder: Path, ignored: tuple[str, ...]) -> dict[str, Any]:
    files = sorted(folder.glob("sentence_*_config.json"), key=lambda path: "_bert_" not in path.name)  # its older names
    settings: dict[str, Any] = read_json(next(iter(files), folder), {})
    if unread := [
        name for name, said in settings.items() if said and said not in USUAL and name not in (*READ, *ignored)
    ]:
        advice = "Choose another encoder, or remove what it says there."
        raise InputError(f"expected {READ[0]} and {READ[1]} in {files[0].name}, found {unread[0]}. {advice}")
    return settings


def _stored_layers(modules: Sequence[tuple[str, Path]], usual: str) -> Iterator[tuple[Layer, Path, bool]]:
    """The linear layers with their folders, and whether each is of the tokens or of the pooled vector."""
    stage = "token_embeddings"
    normalized = False
    for kind, place in modules:
        config = {}
        if kind in ("Dense", "Normalize"):
            config = read_json(place / "config.json", {})
        before = config.get("module_input_name") or usual
        after = config.get("module_output_name") or before
        if (kind in ("Dense", "Normalize") and {before, after} != {stage}) or (kind == "Pooling" and normalized):
            found = f"found {kind} of {before} in {place.name}. Choose another encoder."
            raise InputError(f"expected the modules one after another, each of what the one before it makes, {found}")
        if kind == "Dense":
            bias = bool(config.get("bias", True))
            residual = bool(config.get("use_residual", False))
            activation: Any = _last_name(config.get("activation_function", "Tanh"))
            layer = Layer(int(config["out_features"]), bias, activation, residual, normalized)
            yield layer, place, stage == "token_embeddings"
        stage = "sentence_embedding" if kind == "Pooling" else stage
        normalized = (normalized and kind != "Dense") or kind == "Normalize"


def _pooling(config: Mapping[str, Any]) -> Any:
    """The modes that are on; older versions wrote one switch for each. Without any, states are averaged, or the last
    one counts, of a model that has only read what is before a word."""
    modes = config.get("pooling_mode")
    if modes is None:
        on = [name.removeprefix("pooling_mode_") for name, value in config.items() if "pooling_mode_" in name and value]
        causal = "ForCausalLM" in str(config.get("architectures")) and config.get("is_causal", True)
        modes = [OLDER_NAMES.get(name, name) for name in on] or ["lasttoken" if causal else "mean"]
    if isinstance(modes, str):
        return modes
    return " and ".join(modes)


def prompts_by_name(name: str) -> tuple[str, str]:
    """The prompts of an encoder of this name or folder, of questions and of answers; empty for an unknown one."""
    last = Path(name).name.lower()
    return next((prompts for part, prompts in PROMPTS_BY_NAME.items() if re.search(part, last)), ("", ""))
