"""`ap-ranker models`: lists the models and their options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Column, Table

from ap_ranker.cli.console import console, numbers

if TYPE_CHECKING:
    from ap_ranker.models.spec import ModelSpec

ATTENTION = {
    "": "none",
    "question": "over the question's words",
    "answer": "over the answer's words",
    "both": "over the words of question and answer",
}


def models(
    name: Annotated[str | None, typer.Argument(help="A model's name; by default, list all models.")] = None,
) -> None:
    """List the models, or the options of one model."""
    from ap_ranker.models.registry import MODELS, model_spec

    if name is not None:
        _print_one(model_spec(name))
        return
    columns = (Column("name", no_wrap=True), "paper", "cached", numbers("parameters", no_wrap=True), "objective")
    table = Table(*columns, title=f"{len(MODELS)} models")
    for family in dict.fromkeys(spec.family for spec in MODELS.values()):
        for spec in sorted((spec for spec in MODELS.values() if spec.family == family), key=lambda spec: spec.name):
            paper = f"{_authors(spec)} {spec.year}"
            table.add_row(spec.name, paper, spec.cached, f"{_parameters(spec):,}", spec.objective)
        table.add_section()
    console.print(table)
    console.say(
        "Cached: what is computed once per answer. Parameters: at default size, without the word vectors.\n"
        "Objective: the default of `ap-ranker train`.\n"
        "To see a model's options and its paper's recipe: ap-ranker models NAME. How good they are: docs/models.md"
    )


def _print_one(spec: ModelSpec) -> None:
    from ap_ranker.training.objectives.registry import objective_spec

    recipe, objective = spec.recipe, objective_spec(spec.objective)
    facts = {
        "paper": f"{spec.paper} ({spec.year})",
        "family": spec.family,
        "cached per answer": spec.cached,
        "attention": ATTENTION[spec.attention_over],
        "parameters": f"{_parameters(spec):,} at default size, without the word vectors",
        "objective": spec.objective,
    }
    if not objective.needs_gradient:
        facts["training"] = objective.training
    else:
        facts["paper's recipe"] = (
            f"{recipe.objective}, {recipe.optimizer}, learning rate {recipe.learning_rate:g} ({recipe.schedule}), "
            f"batches of {recipe.batch_size}, margin {recipe.margin:g}, weight decay {recipe.weight_decay:g}"
        )
    console.print(f"[bold]{spec.name}[/]")
    for title, text in facts.items():
        console.say(f"  {title:18} {text}")
    if not spec.options:
        return
    table = Table("option", "default", "values", "meaning")
    for name, option in spec.options.items():
        values = ", ".join(option.choices) or type(option.default).__name__
        table.add_row(name, str(option.default), values, option.meaning)
    console.print(table)
    first, option = next(iter(spec.options.items()))
    console.say(f"Set them in the file of --config:\n  model: {spec.name}\n  options: {{{first}: {option.default}}}")


def _authors(spec: ModelSpec) -> str:
    """The authors, shortened to `et al.` if there are more than two."""
    names = spec.paper.split(", ")
    first = names[0].split(" & ")[0]
    return f"{first} et al." if len(names) > 2 else " & ".join(names[0].split(" & "))


def _parameters(spec: ModelSpec) -> int:
    from ap_ranker.models.registry import build_model, count_parameters
    from ap_ranker.models.spec import Inputs

    vocabulary = ["[PAD]", "[UNK]", *(f"word{i}" for i in range(9_998))]
    return count_parameters(build_model(spec.name, Inputs(vocabulary, 100, 200), {}))
