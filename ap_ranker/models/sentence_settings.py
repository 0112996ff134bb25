"""How a sentence encoder is read: its pooling, its prompts and its length, as sentence-transformers stores them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from ap_ranker.errors import InputError, one_line
from ap_ranker.settings import read_fields, settings

Pooling = Literal["mean", "cls"]
"""The mean of the token states, or the first token's."""

KEY = "sentence"
"""Where a checkpoint's encoder configuration keeps `SentenceSettings`; absent where all are the usual ones."""

MODULES = ("Transformer", "Pooling", "Normalize")
"""Modules of sentence-transformers that can be read; the score is a cosine, so normalising changes nothing."""

QUESTION_PROMPTS = ("query",)
ANSWER_PROMPTS = ("document", "passage", "corpus")
"""Names of prompts; the first that is there counts, also where it is empty."""


Token = Annotated[int, Field(ge=0)]
Prompt = Annotated[tuple[Token, ...], Field(strict=False)]  # JSON has lists


@settings
class SentenceSettings:
    """What an encoder does beside its transformer.

    Attributes:
        pooling: how token states become one vector.
        question_prompt: token ids read before a question's own.
        answer_prompt: token ids read before an answer's own.
        leading: number of special tokens before the prompt, such as [CLS].
    """

    pooling: Pooling = "mean"
    question_prompt: Prompt = ()
    answer_prompt: Prompt = ()
    leading: Token = 0

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

    pooling: Pooling = "mean"
    question_prompt: str = ""
    answer_prompt: str = ""
    max_tokens: int | None = None

    @classmethod
    def read(cls, folder: Path) -> SentenceFiles:
        """Read an encoder's folder; without the files of sentence-transformers, states are averaged, as it does itself.

        Raises:
            InputError: a file is damaged, or the encoder has a module or a pooling that cannot be read.
        """
        try:
            modules = _json(folder / "modules.json", [])
            kinds = {str(module["type"]).rpartition(".")[2]: folder / str(module["path"]) for module in modules}
            general = _json(folder / "config_sentence_transformers.json", {})
            prompts = dict(general.get("prompts") or {})
            length = _json(folder / "sentence_bert_config.json", {}).get("max_seq_length")
            length = length or _json(folder / "tokenizer_config.json", {}).get("model_max_length")
            pooling = _pooling(_json(kinds["Pooling"] / "config.json", {})) if "Pooling" in kinds else ("mean",)
            files = cls(
                pooling=pooling[0],
                question_prompt=_first(prompts, QUESTION_PROMPTS),
                answer_prompt=_first(prompts, ANSWER_PROMPTS),
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
        elif len(pooling) != 1 or files.pooling not in get_args(Pooling):
            expected, found = f"that pools by {' or '.join(get_args(Pooling))}", " and ".join(map(str, pooling))
        if expected:
            raise InputError(f"{folder}: expected an encoder {expected}, found {found}. Choose another encoder.")
        return files


def _json(path: Path, default: Any) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else default


def _first(prompts: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((str(prompts[name] or "") for name in names if name in prompts), "")


def _pooling(config: Mapping[str, Any]) -> tuple[Any, ...]:
    """The modes that are on; older versions wrote one switch for each."""
    if "pooling_mode" in config:
        mode = config["pooling_mode"]
        return tuple(mode) if isinstance(mode, list) else (mode,)
    switches = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}
    on = [switches.get(name, name) for name, value in config.items() if name.startswith("pooling_mode_") and value]
    return tuple(on) or ("mean",)
