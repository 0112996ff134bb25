"""Weights that raise MAP itself (Metzler & Croft 2007, section 4), fitted by `AnswerModel.fit`."""

from __future__ import annotations

from ap_ranker.training.objectives.spec import ObjectiveSpec

SPEC = ObjectiveSpec("coordinate-ascent", training="its weights are fitted to MAP")
