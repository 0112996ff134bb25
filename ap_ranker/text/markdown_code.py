"""Code in Markdown: the lines between two of backticks or tildes."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict

_FENCE = re.compile(r"^(?P<fence>[ \t]*+(?:`{3,}+|~{3,}+))(?P<rest>.*)$", re.MULTILINE)


def code_blocks(text: str) -> list[tuple[int, int]]:
    """Where each block of code begins and ends.

    Code begins with a line of three marks or more, and ends with one of as many, as far from the margin, alone; else it
    is none.
    """
    fences = list(_FENCE.finditer(text))
    ends: defaultdict[str, list[int]] = defaultdict(list)  # of what may end code, by its spaces and marks
    for fence in fences:
        if not fence["rest"].strip(" \t"):
            ends[fence["fence"]].append(fence.start())
    blocks: list[tuple[int, int]] = []
    end = 0
    for fence in fences:
        closing = ends[fence["fence"]]
        at = bisect_right(closing, fence.start())
        if fence.start() >= end and at < len(closing):
            end = closing[at] + len(fence["fence"])
            blocks.append((fence.start(), end))
    return blocks
