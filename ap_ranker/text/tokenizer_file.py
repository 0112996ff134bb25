r"""Reads `tokenizer.json`. Strangers write it, so only what known encoders have in it is read, within bounds.

The tokenizers library does whatever the file says: it replaces one letter by ten thousand, or runs a pattern that never
ends. So each step of a file is of a kind in the tables below, with the fields and the values that they name; others are
refused by name before the library sees them. What it then sees is written anew from what was checked.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import reprlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from string import punctuation
from typing import Any

from tokenizers import Tokenizer

from ap_ranker.errors import InputError, library_errors, one_line
from ap_ranker.safe_open import read_json_file

MAX_BYTES = 40 * 2**20
"""Maximum size of a file. Gemma's, with 262,144 tokens, is the largest known one and has 33 MB."""

MAX_ADDED_TOKENS = 10_000
"""Gemma has 6,415: one for each tag of HTML, and unused ones."""

MAX_ADDED_CHARACTERS = 200_000
"""Of all added tokens together; the library keeps some hundred bytes for each."""

MAX_TOKEN_CHARACTERS = 512
"""Of a token. Qwen's longest one, of spaces, has 128."""

MAX_UNIGRAM_CHARACTERS = 128
"""Of a token that is chosen by its probability, for which each beginning of a text's rest is tried: SentencePiece makes
none above 16 unless told to."""

MAX_WORD_CHARACTERS = 200
"""Of a word that WordPiece divides; a longer one is unknown. Its time grows with the cube; all known ones have 100."""

MAX_ID = 10_000_000

MAX_STEPS = 64
"""Of a sequence. The static encoders of model2vec have 36: a replacement for each punctuation mark."""

MAX_REPLACEMENT_BYTES = 64
"""Of what a table of characters puts in place of one. Unicode's longest, of a ligature of 18 letters, has 33."""

MAX_SPECIAL_TOKENS = 16
"""Of those around a text."""

_SHORTENED = reprlib.Repr()  # of a million values, too
_SHORTENED.maxstring = 80

ADVICE = "Choose an encoder of a known kind: docs/archive/encoders.md lists what its tokenizer may have."

Check = Callable[[Any], bool]
Fields = Mapping[str, Check]


# --- values ---


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_flag_or_none(value: Any) -> bool:
    return value is None or isinstance(value, bool)


def _is_token(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_TOKEN_CHARACTERS


def _is_token_or_none(value: Any) -> bool:
    return value is None or _is_token(value)


def _is_id(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_ID


def _is_pair(value: Any) -> bool:
    """A special token with its id."""
    return isinstance(value, list) and len(value) == 2 and _is_token(value[0]) and _is_id(value[1])


def _one_of(*values: Any) -> Check:
    """Checks that a value is one of these, and of the same type: `True` is not 1."""

    def is_one(value: Any) -> bool:
        return any(value == allowed and type(value) is type(allowed) for allowed in values)

    return is_one


# --- steps: kind -> its fields. Those of `Replace` and `Split` are checked together, as one is known by the other. ---

_SPACE = "▁"  # SentencePiece's mark of a space

_CHARACTERS = re.compile(r"\[(?:\\x\{[0-9a-f]{1,6}\}){1,200}\]")
"""A pattern of one character of some, named by their codes."""

REPLACEMENTS = (
    (" ", _SPACE),  # Gemma, Llama
    ("``", '"'),  # ALBERT, as the next one
    ("''", '"'),
    *((mark, f" {mark} ") for mark in punctuation),  # model2vec
)
"""Texts and what is put in their place; none makes more than three characters of one."""

PATTERN_REPLACEMENTS = (
    (" {2,}", " "),  # XLM-R and its kind, as the next ones
    (" {2,}", _SPACE),
    (r"\s{2,}|[\n\r\t]", " "),
    (r"\n", " "),
    (r"\s+", " "),  # model2vec
)

_ANY_CASE = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_SPACES = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
_CAPITALS = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_SMALL = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_BEFORE = r"[^\r\n\p{L}\p{N}]?"

SPLIT_PATTERNS = (
    # GPT-2, as ByteLevel has it, too.
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    # Qwen 2 and 3; Llama 3, whose numbers have up to three digits; Qwen 3.5.
    _ANY_CASE + "|" + _BEFORE + r"\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*" + _SPACES,
    _ANY_CASE + "|" + _BEFORE + r"\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + _SPACES,
    _ANY_CASE + "|" + _BEFORE + r"[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + _SPACES,
    # GPT-4.
    r"'(?i:[sdmt]|ll|ve|re)|" + _BEFORE + r"+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    # GPT-4o and others since, and Mistral's.
    f"{_BEFORE}{_CAPITALS}*{_SMALL}+{_ANY_CASE}?|{_BEFORE}{_CAPITALS}+{_SMALL}*{_ANY_CASE}?"
    + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*"
    + _SPACES,
    f"{_BEFORE}{_CAPITALS}*{_SMALL}+|{_BEFORE}{_CAPITALS}+{_SMALL}*" + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + _SPACES,
)
"""Patterns of words that known encoders have. The time of each grows with a text's length, not with its square."""


def _is_known_replacement(step: Mapping[str, Any]) -> bool:
    pattern = step.get("pattern")
    content = step.get("content")
    if not isinstance(pattern, dict) or len(pattern) != 1:
        return False
    text = pattern.get("String")
    expression = pattern.get("Regex")
    if isinstance(expression, str) and _CHARACTERS.fullmatch(expression):
        return content in ("", " ")
    return (text, content) in REPLACEMENTS or (expression, content) in PATTERN_REPLACEMENTS


def _is_known_split(step: Mapping[str, Any]) -> bool:
    pattern = step.get("pattern")
    if not isinstance(pattern, dict) or len(pattern) != 1:
        return False
    return pattern.get("String") == " " or pattern.get("Regex") in SPLIT_PATTERNS


def _is_restoring_spaces(step: Mapping[str, Any]) -> bool:
    return (step.get("pattern"), step.get("content")) == ({"String": _SPACE}, " ")


def _is_character_map(value: Any) -> bool:
    """Whether a table of SentencePiece makes few bytes of each character: its texts end with a NUL each."""
    if not isinstance(value, str):
        return False
    try:
        table = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return False
    texts = table[4 + int.from_bytes(table[:4], "little") :]
    longest = max(map(len, texts.split(b"\0")), default=0)
    return texts.endswith(b"\0") and longest <= MAX_REPLACEMENT_BYTES


def _is_template(pieces: Any, texts: list[str]) -> bool:
    """Whether each of the texts stands once in a template, with few special tokens around them."""
    if not isinstance(pieces, list) or len(pieces) > MAX_SPECIAL_TOKENS:
        return False
    ids: list[Any] = []
    for piece in pieces:
        if not isinstance(piece, dict) or len(piece) != 1:
            return False
        [(kind, part)] = piece.items()
        if kind not in ("Sequence", "SpecialToken") or not isinstance(part, dict):
            return False
        if not part.keys() <= {"id", "type_id"} or not _is_id(part.get("type_id", 0)):
            return False
        if kind == "Sequence":
            ids.append(part.get("id"))
    return ids == texts


def _are_special_tokens(tokens: Any) -> bool:
    if not isinstance(tokens, dict) or len(tokens) > MAX_SPECIAL_TOKENS:
        return False
    for token in tokens.values():
        if not isinstance(token, dict) or not token.keys() <= {"id", "ids", "tokens"}:
            return False
        if not _is_list(token.get("ids"), _is_id) or not _is_list(token.get("tokens"), _is_token):
            return False
    return True


def _is_list(values: Any, check: Check) -> bool:
    """Whether it is a list of a few values that pass a check."""
    return isinstance(values, list) and len(values) <= MAX_SPECIAL_TOKENS and all(map(check, values))


_NO_FIELDS: Fields = {}
_PREFIX_SCHEMES = ("always", "never", "first")
_BEHAVIOURS = ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")
_BYTE_LEVEL: Fields = {"add_prefix_space": _is_flag, "trim_offsets": _is_flag, "use_regex": _is_flag}
_METASPACE: Fields = {
    "replacement": _one_of(_SPACE),
    "str_rep": _one_of(_SPACE),  # of older files, as the next one
    "add_prefix_space": _is_flag,
    "prepend_scheme": _one_of(*_PREFIX_SCHEMES),
    "split": _is_flag,
}

NORMALIZERS: Mapping[str, Fields] = {
    "BertNormalizer": {
        "clean_text": _is_flag,
        "handle_chinese_chars": _is_flag,
        "strip_accents": _is_flag_or_none,
        "lowercase": _is_flag,
    },
    **dict.fromkeys(("NFC", "NFD", "NFKC", "NFKD", "Nmt", "Lowercase", "StripAccents"), _NO_FIELDS),
    "Strip": {"strip_left": _is_flag, "strip_right": _is_flag},
    "Prepend": {"prepend": _one_of(_SPACE)},
    "Precompiled": {"precompiled_charsmap": _is_character_map},
    "Replace": {},
}
PRE_TOKENIZERS: Mapping[str, Fields] = {
    **dict.fromkeys(("BertPreTokenizer", "Whitespace", "WhitespaceSplit"), _NO_FIELDS),
    "ByteLevel": _BYTE_LEVEL,
    "Metaspace": _METASPACE,
    "Punctuation": {"behavior": _one_of(*_BEHAVIOURS)},
    "Digits": {"individual_digits": _is_flag},
    "Split": {"behavior": _one_of(*_BEHAVIOURS), "invert": _is_flag},
}
POST_PROCESSORS: Mapping[str, Fields] = {
    "BertProcessing": {"sep": _is_pair, "cls": _is_pair},
    "RobertaProcessing": {"sep": _is_pair, "cls": _is_pair, "trim_offsets": _is_flag, "add_prefix_space": _is_flag},
    "ByteLevel": _BYTE_LEVEL,
    "TemplateProcessing": {
        "single": partial(_is_template, texts=["A"]),
        "pair": partial(_is_template, texts=["A", "B"]),
        "special_tokens": _are_special_tokens,
    },
}
DECODERS: Mapping[str, Fields] = {
    "WordPiece": {"prefix": _is_token, "cleanup": _is_flag},
    "BPEDecoder": {"suffix": _is_token},
    "ByteLevel": _BYTE_LEVEL,
    "Metaspace": _METASPACE,
    **dict.fromkeys(("ByteFallback", "Fuse"), _NO_FIELDS),
    "Strip": {"content": _one_of(" ", _SPACE), "start": _one_of(0, 1), "stop": _one_of(0, 1)},
    "Replace": {},
}
TOGETHER: Mapping[tuple[str, str], Check] = {
    ("normalizer", "Replace"): _is_known_replacement,
    ("pre_tokenizer", "Split"): _is_known_split,
    ("decoder", "Replace"): _is_restoring_spaces,
}
"""Steps that are known by several fields together, of `pattern` and `content`."""

STEPS = {
    "normalizer": ("normalizers", NORMALIZERS),
    "pre_tokenizer": ("pretokenizers", PRE_TOKENIZERS),
    "post_processor": ("processors", POST_PROCESSORS),
    "decoder": ("decoders", DECODERS),
}
"""Part of the file -> the name of a sequence's list in it, and the kinds of its steps."""

ADDED_TOKEN: Fields = {
    "id": _is_id,
    "content": _is_token,
    **dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), _is_flag),
}


# --- models: kind -> its fields, but for the vocabulary ---


def _is_empty(value: Any) -> bool:
    return value is None or value == ""


def _is_no_dropout(value: Any) -> bool:
    """With dropout, a text would have other tokens each time."""
    return value is None or value == 0


def _are_merges(merges: Any) -> bool:
    return isinstance(merges, list) and all(map(_is_merge, merges))


MODELS: Mapping[str, Fields] = {
    "WordLevel": {"unk_token": _is_token},
    "WordPiece": {
        "unk_token": _is_token,
        "continuing_subword_prefix": _is_token,
        "max_input_chars_per_word": lambda value: type(value) is int and 0 < value <= MAX_WORD_CHARACTERS,
    },
    "BPE": {
        "dropout": _is_no_dropout,
        "unk_token": _is_token_or_none,
        "continuing_subword_prefix": _is_empty,
        "end_of_word_suffix": _is_empty,
        **dict.fromkeys(("fuse_unk", "byte_fallback", "ignore_merges"), _is_flag),
        "merges": _are_merges,
    },
    "Unigram": {"unk_id": lambda value: value is None or _is_id(value), "byte_fallback": _is_flag_or_none},
}


def _is_merge(merge: Any) -> bool:
    if isinstance(merge, str):
        return len(merge) <= 2 * MAX_TOKEN_CHARACTERS + 1
    return isinstance(merge, list) and len(merge) == 2 and all(map(_is_token, merge))


def _kind_of_model(model: Mapping[str, Any]) -> Any:
    """Its kind, which older files do not name."""
    if "type" in model:
        return model["type"]
    if isinstance(model.get("vocab"), list):
        return "Unigram"
    if "merges" in model:
        return "BPE"
    if "max_input_chars_per_word" in model:
        return "WordPiece"
    return "WordLevel"


# --- the file ---


def read_tokenizer(path: Path) -> Tokenizer:
    """Read any `tokenizer.json`; InputError if it is damaged, or has what no known encoder has."""
    return build_tokenizer(read_json_file(path, MAX_BYTES), path)


def build_tokenizer(content: Any, place: object) -> Tokenizer:
    """The tokenizer of a file's content, checked; the message of an InputError begins with the place."""
    text = json.dumps(checked_tokenizer(content, place))
    with library_errors(f"{place}: expected a tokenizer of the tokenizers library"):
        return Tokenizer.from_str(text)


def checked_tokenizer(content: Any, place: object) -> dict[str, Any]:
    """What is read of a file's content; InputError, which begins with the place, for what no known encoder has.

    Padding and truncation are left out: how long texts are is decided here.
    """
    if not isinstance(content, dict) or not isinstance(content.get("model"), dict):
        raise _refusal(place, "an object with a model", content)
    added = content.get("added_tokens") or []
    _check_added(added, place)
    for part, (name, kinds) in STEPS.items():
        _check_steps(content.get(part), part, name, kinds, place)
    model = {**content["model"], "type": _kind_of_model(content["model"])}
    _check_model(model, place)
    parts = {part: content.get(part) for part in STEPS}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, **parts, "model": model}


def _refusal(place: object, expected: str, value: Any) -> InputError:
    return InputError(f"{place}: expected {expected}, found {one_line(_SHORTENED.repr(value), 80)}. {ADVICE}")


def _check_steps(step: Any, part: str, name: str, kinds: Mapping[str, Fields], place: object) -> None:
    """Check a step, or those of a sequence: each is known, and none stands twice, which could multiply a text."""
    steps = list(_steps(step, name, f"{place}: {part}"))
    for checked in steps:
        kind = checked.get("type")
        if not isinstance(kind, str) or kind not in kinds:
            raise _refusal(f"{place}: {part}", f"one of {', '.join(kinds)}, or a Sequence of them", kind)
        allowed_fields = kinds[kind]
        together = TOGETHER.get((part, kind))
        fields = dict(checked)
        if together is not None:
            if not together(checked):
                pattern = [checked.get("pattern"), checked.get("content")]
                raise _refusal(f"{place}: {part}: {kind}", "a pattern that known encoders have", pattern)
            fields.pop("pattern", None)
            fields.pop("content", None)
        _check_fields(fields, allowed_fields, f"{place}: {part}: {kind}")
    written = [json.dumps(checked, sort_keys=True) for checked in steps]
    for checked, text in zip(steps, written, strict=True):
        if written.count(text) > 1:
            raise _refusal(f"{place}: {part}", "each step once", checked)


def _steps(step: Any, name: str, place: str) -> Iterator[dict[str, Any]]:
    """The steps of a part: itself, or those of a sequence, which may have one more sequence in it, or none."""
    if step is None:
        return
    level = [step]
    for _ in range(3):
        if any(not isinstance(inner, dict) for inner in level):
            raise _refusal(place, "objects with a type", level)
        below: list[Any] = []
        for inner in level:
            if inner.get("type") != "Sequence":
                yield inner
                continue
            _check_fields(inner, {name: lambda value: isinstance(value, list)}, f"{place}: Sequence")
            below += inner.get(name, [])
        level = below
        if len(level) > MAX_STEPS:
            raise _refusal(place, f"at most {MAX_STEPS} steps", len(level))
    if level:
        raise _refusal(place, "sequences in at most two levels", level[0])


def _check_fields(step: Mapping[str, Any], allowed: Fields, place: str) -> None:
    for key, value in step.items():
        if key == "type":
            continue
        if key not in allowed:
            raise _refusal(place, f"no other fields than {', '.join(allowed) or 'its type'}", key)
        if not allowed[key](value):
            raise _refusal(place, f"a value of {key} that known encoders have", value)


def _check_added(added: Any, place: object) -> None:
    if not isinstance(added, list) or len(added) > MAX_ADDED_TOKENS:
        found_instead = len(added) if isinstance(added, list) else added
        raise _refusal(place, f"a list of up to {MAX_ADDED_TOKENS:,} added_tokens", found_instead)
    characters = 0
    for token in added:
        if not isinstance(token, dict) or not _is_token(token.get("content")):
            raise _refusal(f"{place}: added_tokens", f"texts of 1 to {MAX_TOKEN_CHARACTERS} characters", token)
        _check_fields(token, ADDED_TOKEN, f"{place}: added_tokens")
        if (token.get("lstrip") or token.get("rstrip")) and token["content"].isspace():
            # Each one looks for the end of the spaces that it stands in.
            raise _refusal(f"{place}: added_tokens", "letters or signs in what takes the spaces beside it", token)
        characters += len(token["content"])
    if characters > MAX_ADDED_CHARACTERS:
        raise _refusal(f"{place}: added_tokens", f"up to {MAX_ADDED_CHARACTERS:,} characters in all", characters)


def _check_model(model: Mapping[str, Any], place: object) -> None:
    kind = model["type"]
    vocabulary = model.get("vocab")
    if not isinstance(kind, str) or kind not in MODELS:
        raise _refusal(f"{place}: model", f"one of {', '.join(MODELS)}", kind)
    others = {key: value for key, value in model.items() if key != "vocab"}
    _check_fields(others, MODELS[kind], f"{place}: model: {kind}")
    if kind == "Unigram":
        wrong = _wrong_score(vocabulary)
        expected = f"a list of tokens of up to {MAX_UNIGRAM_CHARACTERS} characters, each with a number"
    else:
        wrong = _wrong_token(vocabulary)
        expected = f"tokens of 1 to {MAX_TOKEN_CHARACTERS} characters with ids up to {MAX_ID:,}"
    if wrong is not None:
        raise _refusal(f"{place}: model: vocab", expected, wrong)


def _wrong_token(vocabulary: Any) -> Any:
    """The first token of a vocabulary, with its id, that cannot be one; `None` if all can."""
    if not isinstance(vocabulary, dict):
        return [vocabulary]
    for token, token_id in vocabulary.items():
        if not _is_token(token) or not _is_id(token_id):
            return token, token_id
    return None


def _wrong_score(vocabulary: Any) -> Any:
    """The first token of a list, with its score, that cannot be one; `None` if all can."""
    if not isinstance(vocabulary, list):
        return [vocabulary]
    for pair in vocabulary:
        if not _is_scored(pair):
            return pair
    return None


def _is_scored(pair: Any) -> bool:
    if not isinstance(pair, list) or len(pair) != 2:
        return False
    token, score = pair
    is_token = isinstance(token, str) and len(token) <= MAX_UNIGRAM_CHARACTERS
    return is_token and type(score) in (int, float) and math.isfinite(score)
