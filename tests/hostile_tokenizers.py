"""Files of tokenizers that a stranger could write: each of them harms whoever reads it without a look."""

from __future__ import annotations

import base64
import copy
from collections.abc import Iterator
from typing import Any

EXPRESSIONS = (
    "(a+)+$",
    "(a|a)*b",
    "(.*)*x",
    r"(\p{L}+)*!",
    r"^(([a-z])+.)+[A-Z]([a-z])+$",
    r"(?=(a+))\1+b",
    "(a?){60}a{60}b",
    "((((a*)*)*)*)*b",
    r"\s*\s*\s*\s*\s*x",
    "(?:a{1,1000}){1,1000}",
)
"""Patterns that run away on a word of equal letters."""

LETTERS = "z" * 10_000


def replacement(pattern: dict[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


def split(pattern: dict[str, str]) -> dict[str, Any]:
    return {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}


def sequence(name: str, steps: list[Any]) -> dict[str, Any]:
    return {"type": "Sequence", name: steps}


def nested(name: str, step: Any, depth: int) -> Any:
    for _ in range(depth):
        step = sequence(name, [step])
    return step


def character_map(text: bytes) -> dict[str, Any]:
    """A table of SentencePiece with an empty list of characters, and this text for one."""
    table = (4).to_bytes(4, "little") + bytes(4) + text + b"\0"
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(table).decode()}


def normalizers() -> Iterator[tuple[str, Any]]:
    for expression in EXPRESSIONS:
        yield f"replace {expression}", replacement({"Regex": expression}, "")
        yield f"replace in a sequence {expression}", sequence("normalizers", [replacement({"Regex": expression}, "a")])
    for letter in "a ez":
        yield f"letters for {letter!r}", replacement({"String": letter}, LETTERS)
        yield f"letters for the pattern {letter!r}", replacement({"Regex": letter}, LETTERS)
    doubling = [replacement({"String": letter}, letter * 20) for letter in "aaaaaa"]
    yield "twenty for one, six times", sequence("normalizers", doubling)
    yield "a known step many times", sequence("normalizers", [replacement({"String": "!"}, " ! ")] * 60)
    yield (
        "a known step in two sequences",
        sequence("normalizers", [nested("normalizers", replacement({"String": "!"}, " ! "), 1)] * 2),
    )
    yield "a sequence of very many", sequence("normalizers", [{"type": "NFC"}] * 100_000)
    yield "sequences in sequences", nested("normalizers", {"type": "NFC"}, 300)
    yield "prepended letters", {"type": "Prepend", "prepend": LETTERS}
    yield "a table with a long text", character_map(b"z" * 100_000)
    yield "a damaged table", {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(b"\xff" * 99).decode()}
    yield "a table of no bytes", {"type": "Precompiled", "precompiled_charsmap": "?"}
    yield "an unheard-of kind", {"type": "ByteLevel"}
    yield "a list", [{"type": "NFC"}]
    yield "no kind", {"lowercase": True}
    yield "a field too many", {"type": "NFC", "pattern": "a"}


def pre_tokenizers() -> Iterator[tuple[str, Any]]:
    for expression in EXPRESSIONS:
        yield f"split {expression}", split({"Regex": expression})
        yield f"split in a sequence {expression}", nested("pretokenizers", split({"Regex": expression}), 2)
    yield "split at any text", split({"String": "a"})
    yield "split by two patterns", split({"String": " ", "Regex": "(a+)+$"})
    yield "another delimiter", {"type": "CharDelimiterSplit", "delimiter": "a"}
    yield "pieces of one character", {"type": "FixedLength", "length": 1}
    yield "scripts", {"type": "UnicodeScripts"}
    yield "a long mark", {"type": "Metaspace", "replacement": LETTERS, "prepend_scheme": "always", "split": True}
    yield "another behaviour", split({"String": " "}) | {"behavior": "Multiplied"}


def post_processors() -> Iterator[tuple[str, Any]]:
    text, special = {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[UNK]", "type_id": 0}}
    pair = [text, {"Sequence": {"id": "B", "type_id": 0}}]
    unknown = {"[UNK]": {"id": "[UNK]", "ids": [1], "tokens": ["[UNK]"]}}
    many = {"[UNK]": {"id": "[UNK]", "ids": [1] * 100_000, "tokens": ["[UNK]"] * 100_000}}
    for name, single, tokens in (
        ("the text a thousand times", [text] * 1_000, unknown),
        ("many special tokens", [text, *[special] * 100_000], unknown),
        ("a special token of many ids", [text, special], many),
        ("no text", [special], unknown),
        ("the other text", [{"Sequence": {"id": "B", "type_id": 0}}], unknown),
    ):
        yield name, {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": tokens}
    yield "a huge id", {"type": "BertProcessing", "sep": ["[SEP]", 2**32], "cls": ["[CLS]", 1]}


def decoders() -> Iterator[tuple[str, Any]]:
    yield "letters put in", replacement({"String": "a"}, LETTERS)
    yield "a pattern", replacement({"Regex": "(a+)+$"}, "")
    yield "much is cut off", {"type": "Strip", "content": "a", "start": 2**40, "stop": 2**40}
    yield "an unheard-of kind", {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": True}


def language_models() -> Iterator[tuple[str, Any]]:
    pieces = {"unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100}
    words = {"[PAD]": 0, "[UNK]": 1, "a": 2, "##a": 3}
    yield "words without end", {"type": "WordPiece", **pieces, "max_input_chars_per_word": 10**9, "vocab": words}
    yield "a long prefix", {"type": "WordPiece", **pieces, "continuing_subword_prefix": LETTERS, "vocab": words}
    yield "a huge id", {"type": "WordPiece", **pieces, "vocab": words | {"b": 2**31}}
    yield "a negative id", {"type": "WordPiece", **pieces, "vocab": words | {"b": -1}}
    yield "a long token", {"type": "WordPiece", **pieces, "vocab": words | {LETTERS: 4}}
    yield "a list of words", {"type": "WordPiece", **pieces, "vocab": list(words)}
    yield "an unheard-of kind", {"type": "Neural", "vocab": words}
    yield "words that are none", {"type": "WordLevel", "unk_token": "[UNK]", "vocab": {"[UNK]": "one"}}
    merged: dict[str, Any] = {"type": "BPE", "unk_token": "[UNK]", "vocab": words, "merges": []}
    yield "chance", merged | {"dropout": 0.5}
    yield "a suffix", merged | {"end_of_word_suffix": "</w>"}
    yield "a prefix longer than its tokens", merged | {"continuing_subword_prefix": "####"}
    yield "merges that are none", merged | {"merges": [["a"], 7]}
    scores = [["[UNK]", 0.0]]
    yield (
        "long pieces",
        {
            "type": "Unigram",
            "unk_id": 0,
            "vocab": [*scores, *(["a" * n, -n] for n in range(1, 3_000))],
        },
    )
    yield "a score that is none", {"type": "Unigram", "unk_id": 0, "vocab": [*scores, ["a", "b"]]}
    yield "an infinite score", {"type": "Unigram", "unk_id": 0, "vocab": [*scores, ["a", float("inf")]]}
    yield "an unknown piece that is none", {"type": "Unigram", "unk_id": -1, "vocab": scores}


def added_tokens() -> Iterator[tuple[str, Any]]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    yield "many", [{"id": 2, "content": f"t{n}", **flags} for n in range(100_000)]
    yield "long ones", [{"id": 2, "content": f"{n:0500}", **flags} for n in range(9_000)]
    yield "a very long one", [{"id": 2, "content": "a" * 10_000_000, **flags}]
    yield "an empty one", [{"id": 2, "content": "", **flags}]
    yield "a huge id", [{"id": 2**32 - 1, "content": "a", **flags}]
    for side in ("lstrip", "rstrip"):
        yield f"a space with {side}", [{"id": 2, "content": " ", **flags, side: True}]
    yield "texts", ["a"]
    yield "an object", {"a": 1}


def hostile(valid: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each kind of harm in an otherwise valid file, by name."""
    parts = {
        "normalizer": normalizers,
        "pre_tokenizer": pre_tokenizers,
        "post_processor": post_processors,
        "decoder": decoders,
        "model": language_models,
        "added_tokens": added_tokens,
    }
    for part, kinds in parts.items():
        for name, value in kinds():
            yield f"{part}: {name}", copy.deepcopy(valid) | {part: value}


def harmless(valid: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What would harm, but says how long texts are, which is decided elsewhere."""
    padding = {"direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"}
    truncation = {"direction": "Right", "max_length": 10, "strategy": "LongestFirst", "stride": 0}
    yield "padding to a billion", valid | {"padding": padding | {"strategy": {"Fixed": 10**9}}}
    yield (
        "padding by a billion",
        valid | {"padding": padding | {"strategy": "BatchLongest", "pad_to_multiple_of": 10**9}},
    )
    yield "a stride above the length", valid | {"truncation": truncation | {"stride": 100}}
    yield "truncation to nothing", valid | {"truncation": truncation | {"max_length": 0}}
