"""An encoder's tokenizer as transformers makes it, of checked copies of the files that strangers wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tokenizers import Tokenizer, normalizers

from ap_ranker.errors import InputError, one_line
from ap_ranker.models.transformers_library import transformers_errors
from ap_ranker.safe_open import read_json_file
from ap_ranker.text.tokenizer_file import (
    ADVICE,
    MAX_ADDED_TOKENS,
    MAX_BYTES,
    build_tokenizer,
    checked_tokenizer,
    read_tokenizer,
)

SETTINGS = "tokenizer_config.json"

OTHERS = ("config.json", "special_tokens_map.json", "added_tokens.json")
"""What transformers reads beside the tokenizer and its settings."""

MAX_CHARACTERS = 1_000_000
"""Of all names and texts of one of these files. Gemma's, with 6,415 tokens, has 400,000."""


def read_encoder_tokenizer(path: Path, size: int | None, *, lower_case: bool) -> Tokenizer:
    """An encoder's tokenizer as transformers makes it, for which `tokenizer_config.json` counts more than its own.

    What was added to it without one of the encoder's `size` vectors is no token, as Gemma's of an image.
    """
    if path.is_file() and path.with_name(SETTINGS).is_file():
        tokenizer = _made_by_transformers(path)
    else:
        tokenizer = read_tokenizer(path)
    if size is not None and max(tokenizer.get_added_tokens_decoder(), default=0) >= size:
        stored = json.loads(tokenizer.to_str())
        stored["added_tokens"] = [token for token in stored["added_tokens"] if token["id"] < size]
        tokenizer = build_tokenizer(stored, path)
    if lower_case:
        steps = filter(None, [normalizers.Lowercase(), tokenizer.normalizer])
        tokenizer.normalizer = normalizers.Sequence(list(steps))
    return tokenizer


def _made_by_transformers(path: Path) -> Tokenizer:
    """As transformers makes it, of copies of what was checked: the settings may name other files to be read."""
    files = {path.name: checked_tokenizer(read_json_file(path, MAX_BYTES), path)}
    for name in (SETTINGS, *OTHERS):
        place = path.with_name(name)
        if place.is_file():
            files[name] = _checked_settings(read_json_file(place), place)
    problem = f"{path}: expected a tokenizer of the tokenizers library"
    with TemporaryDirectory(prefix="ap-ranker-") as folder, transformers_errors(problem):
        for name, content in files.items():
            (Path(folder) / name).write_text(json.dumps(content), encoding="utf-8")
        from transformers import AutoTokenizer

        reader = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
        content = json.loads(reader.backend_tokenizer.to_str())
        side = reader.truncation_side
    if side != "right":
        raise InputError(f"{path.parent}: expected texts that are cut at their end, found truncation_side 'left'.")
    return build_tokenizer(content, path.with_name(SETTINGS))


def _checked_settings(settings: Any, place: Path) -> Any:
    """A file's content without names of files and templates of chats; InputError for tokens without end."""
    if not isinstance(settings, dict):
        raise InputError(f"{place}: expected names with values, found {one_line(repr(settings), 80)}.")
    kept = {name: value for name, value in settings.items() if not _is_elsewhere(name)}
    characters = 0
    for value in _values(kept):
        if isinstance(value, str):
            characters += len(value)
        elif len(value) > MAX_ADDED_TOKENS:
            length = f"{len(value):,}. {ADVICE}"
            raise InputError(f"{place}: expected up to {MAX_ADDED_TOKENS:,} values in one list, found {length}")
    if characters > MAX_CHARACTERS:
        raise InputError(f"{place}: expected up to {MAX_CHARACTERS:,} characters, found {characters:,}. {ADVICE}")
    return kept


def _is_elsewhere(name: str) -> bool:
    return name.endswith(("_file", "_files")) or name in ("chat_template", "init_inputs", "vocab", "merges")


def _values(value: Any) -> Iterator[Any]:
    """All texts, lists and objects in a value of JSON, and the names of the objects."""
    waiting = [value]
    while waiting:
        container = waiting.pop()
        if isinstance(container, str | list | dict):
            yield container
        if isinstance(container, list):
            waiting += container
        elif isinstance(container, dict):
            waiting += [*container, *container.values()]
