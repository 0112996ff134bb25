"""Every objective by its name; a new objective is one file with its `SPEC`, named here."""

from __future__ import annotations

from ap_ranker.errors import InputError, one_line
from ap_ranker.training.objectives import distillation, hinge, listwise, pointwise, softmax
from ap_ranker.training.objectives.spec import ObjectiveSpec

OBJECTIVES: dict[str, ObjectiveSpec] = {
    spec.name: spec
    for spec in (
        softmax.SPEC,
        hinge.SPEC,
        pointwise.SPEC,
        listwise.SPEC,
        distillation.SPEC,
        distillation.OWN_CANDIDATES,
        # Of models that `AnswerModel.fit` fits (Metzler & Croft 2007, section 4), or that only count words.
        ObjectiveSpec("counts", training="none: it counts words"),
        ObjectiveSpec("coordinate-ascent", training="its weights are fitted to MAP"),
    )
}


def objective_spec(name: str) -> ObjectiveSpec:
    """Look an objective up.

    Raises:
        InputError: an unknown name; lists the known ones.
    """
    if name not in OBJECTIVES:
        raise InputError(f"Unknown objective {one_line(repr(name))}: expected one of {', '.join(OBJECTIVES)}.")
    return OBJECTIVES[name]


def objectives_with_gradient() -> tuple[str, ...]:
    """The names that the setting `objective` may have: those of the untrained baselines go with their models, and
    those that need a teacher with `ap-ranker distill`."""
    return tuple(name for name, spec in OBJECTIVES.items() if spec.needs_gradient and not spec.needs_teacher)
