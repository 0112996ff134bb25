"""What a value of JSON says: a text, several texts, or a text in several languages.

Systems wrap a text: {"rendered": "<p>Yes</p>"}, {"en": "Yes", "de": "Ja"}, paragraphs of an editor in lists of objects.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ap_ranker.data.column_names import is_language

TEXT_KEYS = (
    "rendered",
    "text",
    "plain_text",
    "value",
    "html",
    "markdown",
    "content",
    "body",
    "question",
    "name",
    "title",
)
"""Names under which an object holds the text that it stands for, the best first."""

_CHILDREN = ("content", "children", "blocks", "nodes", "rich_text", "root", "document")
_BLOCKS = ("paragraph", "heading", "block", "header", "list-item", "list_item", "listitem", "unstyled", "blockquote")
_EDITORS = ("doc", "document", "root", "block", *_BLOCKS)


def is_single(value: Any) -> bool:
    """Whether a value is one text, number or nothing."""
    return not isinstance(value, (dict, list))


def texts_of(value: Any) -> Any:
    """The text, the list of texts or the texts by language that a value stands for; `None` if it is none of these."""
    if is_single(value):
        return "" if value is None else value
    text = rich_text(value)
    if text is not None:
        return text
    if isinstance(value, list):
        return _list_of_texts(value)
    if value and all(is_language(name) for name in value):
        return _texts_by_language(value)
    return _wrapped_text(value)


def _texts_by_language(value: dict[str, Any]) -> dict[str, Any] | None:
    texts_by_language = {}
    for language, inner in value.items():
        texts = texts_of(inner)
        if texts is None or isinstance(texts, dict):
            return None
        texts_by_language[language] = texts
    return texts_by_language


def _wrapped_text(value: dict[str, Any]) -> Any:
    """The text within an object that says something about it, too."""
    parts = value.get("parts")
    if isinstance(parts, list) and all(map(_has_single_text, parts)):  # words with and without a mark, of Dialogflow
        return "".join(str(part.get("text") or "") for part in parts)
    for name in TEXT_KEYS:
        if name in value:
            text = texts_of(value[name])
            return None if isinstance(text, dict) else text
    return None


def _has_single_text(part: Any) -> bool:
    return isinstance(part, dict) and is_single(part.get("text"))


def _list_of_texts(values: list[Any]) -> list[Any] | None:
    if any(isinstance(entry, list) for entry in values):
        return None
    texts: list[Any] = []
    for value in values:
        text = texts_of(value)
        if isinstance(text, list) and len(text) == 1:
            text = text[0]
        if text is None or not is_single(text):
            return None
        texts.append(text)
    return texts


def rich_text(value: Any) -> str | None:
    """The text of what an editor has written as objects in objects; `None` for anything else."""
    if not _is_of_editor(value):
        return None
    lines = "".join(_pieces(value)).split("\n")
    return "\n".join(line.rstrip() for line in lines if line.strip())


def _is_of_editor(value: Any) -> bool:
    if isinstance(value, list):
        has_only_objects = all(isinstance(block, dict) for block in value)
        return bool(value) and has_only_objects and all(map(_is_of_editor, value))
    if not isinstance(value, dict):
        return False
    if "plain_text" in value:  # Notion
        return True
    kind = value.get("nodeType") or value.get("type") or value.get("_type")
    has_children = any(isinstance(value.get(name), (list, dict)) for name in _CHILDREN)
    is_block = isinstance(kind, str) and kind.lower() in _EDITORS
    return (has_children and is_block) or isinstance(value.get("blocks"), list)


def _pieces(value: Any) -> Iterator[str]:
    """The texts within a value, with the end of a line behind each block."""
    if isinstance(value, list):
        for block in value:
            yield from _pieces(block)
    elif isinstance(value, dict):
        for name in ("text", "plain_text", "value"):
            if isinstance(value.get(name), str):
                yield value[name]
                break
        data = value.get("data")
        if isinstance(data, dict):
            yield from _pieces(data)
        for name in _CHILDREN:
            if isinstance(value.get(name), (list, dict)):
                yield from _pieces(value[name])
        kind = value.get("nodeType") or value.get("type") or value.get("_type")
        if isinstance(kind, str) and kind.lower().startswith(_BLOCKS):
            yield "\n"
