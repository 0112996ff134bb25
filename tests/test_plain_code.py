"""How plainly the code is written: what makes a statement hard to read is counted, and may only become rarer.

Models of this field (pylate 1.6, setfit 1.2, model2vec 0.10) have at most 19 comprehensions and lambdas, 13 conditional
expressions, 2 tuple assignments and 2 walruses per 1,000 lines, no unpacked generators, .8 % deep statements and .2 %
vague names. Of each, there is less than twice as much here, and each `MOST` is what there is now.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("ap_ranker", "haystack_integrations")

VAGUE_NAMES = {"each", "every", "found", "given", "got", "it", "known", "one", "shown", "such", "told"}
"""Names that say nothing of what they hold."""

MOST_NESTED_CALLS = 3

MOST = {
    "walrus per 1,000 lines": 0.4,
    "comprehensions and lambdas per 1,000 lines": 35,
    "conditional expressions per 1,000 lines": 20,
    "tuple assignments per 1,000 lines": 0.2,
    "unpacked generators": 0,
    "deep statements in percent": 0.4,
    "vague names in percent": 0.1,
}
"""What is counted -> the most that there may be of it."""


def lines_of_code(source: str, tree: ast.Module) -> int:
    """Without blank lines, comments and docstrings."""
    lines = source.splitlines()
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(), lineno=first, end_lineno=int(last)):
                lines[first - 1 : last] = [""] * (last - first + 1)
    stripped = [line.strip() for line in lines]
    return sum(bool(line) and not line.startswith("#") for line in stripped)


def kinds_of(node: ast.AST) -> Iterator[str]:
    """What is counted of a node."""
    match node:
        case ast.NamedExpr():
            yield "walrus"
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp() | ast.Lambda():
            yield "comprehensions and lambdas"
        case ast.IfExp():
            yield "conditional expressions"
        case ast.Assign(targets=[ast.Tuple()], value=ast.Tuple()):
            yield "tuple assignments"
        case ast.Assign(targets=[ast.Tuple()], value=ast.GeneratorExp() | ast.ListComp()):
            yield "unpacked generators"
        case ast.Assign(targets=[ast.Tuple()], value=ast.Call(func=ast.Name(id="map"))):
            yield "unpacked generators"
    match node:
        case (
            ast.Name(id=name, ctx=ast.Store())
            | ast.arg(arg=name)
            | ast.MatchAs(name=str(name))
            | ast.MatchStar(name=str(name))
        ):
            yield "names"
            if name.strip("_") in VAGUE_NAMES:
                yield "vague names"
    if isinstance(node, ast.stmt):
        yield "statements"
        if depth_of_calls(node) > MOST_NESTED_CALLS:
            yield "deep statements"


def depth_of_calls(node: ast.AST) -> int:
    """Calls inside calls of one statement; the statements in its body are on their own."""
    parts = [part for part in ast.iter_child_nodes(node) if not isinstance(part, ast.stmt | ast.ExceptHandler)]
    deepest = max(map(depth_of_calls, parts), default=0)
    return deepest + isinstance(node, ast.Call)


def counts_of(path: Path) -> Counter[str]:
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    counts = Counter(kind for node in ast.walk(tree) for kind in kinds_of(node))
    counts["lines"] = lines_of_code(source, tree)
    return counts


def measures_of(paths: list[Path]) -> dict[str, float]:
    total = sum((counts_of(path) for path in paths), Counter())
    thousands = total["lines"] / 1000
    return {
        "walrus per 1,000 lines": total["walrus"] / thousands,
        "comprehensions and lambdas per 1,000 lines": total["comprehensions and lambdas"] / thousands,
        "conditional expressions per 1,000 lines": total["conditional expressions"] / thousands,
        "tuple assignments per 1,000 lines": total["tuple assignments"] / thousands,
        "unpacked generators": total["unpacked generators"],
        "deep statements in percent": 100 * total["deep statements"] / total["statements"],
        "vague names in percent": 100 * total["vague names"] / total["names"],
    }


@pytest.fixture(scope="module")
def measures() -> dict[str, float]:
    return measures_of(sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")))


@pytest.mark.parametrize("measure", MOST)
def test_statements_are_plain(measures: dict[str, float], measure: str) -> None:
    assert measures[measure] <= MOST[measure]
