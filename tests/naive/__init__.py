"""The papers' equations, one number at a time, in Python floats (float64): the truth that every model is held against.

One file per family, as in `ap_ranker/models`; each has its `CASES`. A new file is found by itself.
"""

from __future__ import annotations

import importlib
import pkgutil

from naive.case import Case

CASES: list[Case] = [
    case
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda module: module.name)
    for case in getattr(importlib.import_module(f"naive.{module.name}"), "CASES", [])
]
"""All cases; a model's first one has its default words (pooling, comparison, ...)."""

SMALL = {case.name: case.options for case in reversed(CASES)}
"""Options that make each model small enough for a test."""
