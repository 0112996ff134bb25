"""Word counts of the answers: all that BM25 (Robertson et al. 1994) and the bag of words learn."""

from __future__ import annotations

from ap_ranker.training.objectives.spec import ObjectiveSpec

SPEC = ObjectiveSpec("counts", training="none: it counts words")
