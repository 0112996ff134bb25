"""ap-ranker: small neural answer-selection rankers that put the right FAQ answer on top.

from ap_ranker import Ranker      # without Haystack
from ap_ranker import APRanker    # the Haystack component
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ap_ranker.errors import InputError
    from ap_ranker.ranking.ranker import RankedAnswer, Ranker
    from haystack_integrations.components.rankers.ap_ranker.ranker import APRanker

__all__ = ["APRanker", "InputError", "RankedAnswer", "Ranker"]

_HOMES = {
    "APRanker": "haystack_integrations.components.rankers.ap_ranker.ranker",
    "InputError": "ap_ranker.errors",
    "RankedAnswer": "ap_ranker.ranking.ranker",
    "Ranker": "ap_ranker.ranking.ranker",
}


def __getattr__(name: str) -> Any:
    # Names load when first used, so that `import ap_ranker` and `ap-ranker --help` do not wait for torch.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
