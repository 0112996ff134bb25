"""How every refusal is worded, in one file to read: `python tests/test_prose.py` writes it again after a change.

Other tests check what a message tells (`refusals.py`), so that a better sentence changes its line in `prose.txt` only.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROSE = Path(__file__).with_name("prose.txt")
PACKAGES = ("ap_ranker", "haystack_integrations")


def words(node: ast.expr) -> str:
    """The text that an expression makes, with what is put in as `{expression}`."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(map(words, parts))
        case ast.FormattedValue(value=value, conversion=conversion):
            return f"{{{ast.unparse(value)}{'!r' if conversion == ord('r') else ''}}}"
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return words(left) + words(right)
    return f"{{{ast.unparse(node)}}}"


def assigned(tree: ast.AST) -> dict[str, list[str]]:
    """The sentences, or parts of them, that a variable may hold."""
    found: dict[str, list[str]] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.expr() as value):
                choices = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
                texts = [words(choice) for choice in choices if isinstance(choice, ast.Constant | ast.JoinedStr)]
                found[name] = list(dict.fromkeys([*found.get(name, []), *(text for text in texts if " " in text)]))
    return found


def refusals(tree: ast.Module) -> Iterator[str]:
    """The sentence of each error that is made here; below it, what its variables may say."""
    constants = assigned(ast.Module([node for node in tree.body if isinstance(node, ast.Assign)], []))
    for part in (part for node in tree.body for part in (node.body if isinstance(node, ast.ClassDef) else [node])):
        local = assigned(part)
        for call in ast.walk(part):
            if not isinstance(call, ast.Call) or not ast.unparse(call.func).endswith(("Error", "BadParameter")):
                continue
            sentence = " ".join(words(call.args[0]).split()) if call.args else ""
            if " " in sentence:
                yield sentence
                for name in sorted({node.id for node in ast.walk(call.args[0]) if isinstance(node, ast.Name)}):
                    yield from (f"    {name}: {text}" for text in local.get(name) or constants.get(name, []))


def listing() -> str:
    files = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    sentences = {path: list(refusals(ast.parse(path.read_text(encoding="utf-8")))) for path in files}
    return "\n".join(
        f"{path.relative_to(ROOT).as_posix()}\n" + "".join(f"  {line}\n" for line in lines)
        for path, lines in sentences.items()
        if lines
    )


def test_every_sentence_has_been_read() -> None:
    assert listing() == PROSE.read_text(encoding="utf-8"), "run `python tests/test_prose.py`, and read what differs"


if __name__ == "__main__":
    PROSE.write_text(listing(), encoding="utf-8")
