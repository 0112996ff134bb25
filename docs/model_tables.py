"""Writes the tables of models: all of them in docs/models.md; what the papers' recipes are here, and how far scores are
from the equations, in docs/paper_recipes.md; their options in docs/reference.md.

    python docs/model_tables.py

What the papers say is in paper_recipes.yaml; what we do is read off the code. The equations are the loops of
tests/naive, which add up one number at a time.
"""

from __future__ import annotations

import random
import re
import sys
from collections import defaultdict
from pathlib import Path

import torch
import typer
import yaml

from ap_ranker.cli.checkpoints import citation
from ap_ranker.models import transformer_encoder
from ap_ranker.models.registry import MODELS
from ap_ranker.models.spec import Option
from ap_ranker.text.tokenizer import TokenBatch
from ap_ranker.training.config import EMBEDDING_SIZE, TrainingConfig
from ap_ranker.training.objectives import objective_spec

ROOT = Path(__file__).resolve().parent.parent
sys.path += [str(ROOT), str(ROOT / "tests")]

from conftest import make_model  # noqa: E402
from naive import CASES  # noqa: E402
from naive.bimpm import WORDS  # noqa: E402

MODELS_PAGE = ROOT / "docs" / "models.md"
RECIPES_PAGE = ROOT / "docs" / "paper_recipes.md"
OPTIONS_PAGE = ROOT / "docs" / "reference.md"
PAPERS = ROOT / "docs" / "paper_recipes.yaml"

SIZES = {"filters", "window", "hidden", "importance", "size", "tf_size", "attention", "projection", "weights"}
SIZES |= {"factors", "layers", "head", "perspectives"}

TEXTS_OF_EACH_LENGTH = (1, 1, 2, 3, 5, 8, 12)


def recipe_of(name: str) -> str:
    """`--recipe paper` of a model in words."""
    config = TrainingConfig(name, recipe="paper")
    recipe, options = config.training_recipe(judged=False), config.model_options
    objective = objective_spec(recipe.objective)
    if not objective.needs_gradient:
        return objective.training
    loss = recipe.objective
    if loss == "hinge":
        drawn = "for each pair" if recipe.own_negatives else "for a batch, beside its own"
        loss += f" of margin {recipe.margin:g} with the hardest of {objective.negatives} drawn {drawn}"
    rate = {"inverse": " / t", "linear": ", falling to 0"}.get(recipe.schedule, "")
    decay = f", L2 {recipe.weight_decay:g}" if recipe.weight_decay else ""
    parts = [
        loss,
        f"{recipe.optimizer} {recipe.learning_rate:g}{rate}{decay}",
        f"batches of {recipe.batch_size}",
        f"{recipe.epochs} epochs",
        f"dropout {recipe.dropout:g}",
        f"gradients of at most {recipe.max_grad_norm:g}" if recipe.max_grad_norm else "",
        ", ".join(f"{option} {value}" for option, value in options.items() if value and option in SIZES),
        "" if MODELS[name].pretrained else f"vectors of {MODELS[name].recipe.embedding_size or EMBEDDING_SIZE}",
    ]
    return "; ".join(filter(None, parts))


def models() -> list[str]:
    """A row for each model."""
    rows = ["| model | paper | kept of each answer | weights | objective |", "|---|---|---|---|---|"]
    for name, spec in MODELS.items():
        rows.append(f"| `{name}` | {citation(spec)} | {spec.cached} | {spec.attention_over} | {spec.objective} |")
    return rows


def values_of(option: Option) -> str:
    """What an option can be."""
    if option.choices:
        return ", ".join(f"`{choice}`" for choice in option.choices)
    kind = type(option.default)
    if kind in (int, float):
        return f"{option.least:,} to {option.most:,}"
    return {str: "text", bool: "`true`, `false`"}[kind]


def options() -> list[str]:
    """A row for each option, with the models that have it."""
    models: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, spec in MODELS.items():
        for key, option in spec.options.items():
            default = str(option.default).lower() if isinstance(option.default, bool) else str(option.default)
            cells = (f"`{key}`", f"`{default}`" if default else "empty", values_of(option), option.meaning)
            models[cells].append(f"`{name}`")
    table = ["| option | default | values | meaning | models |", "|---|---|---|---|---|"]
    for cells, names in sorted(models.items()):
        table.append(f"| {' | '.join([*cells, ', '.join(names)])} |")
    return table


def recipes() -> list[str]:
    """A row for each model."""
    papers = yaml.safe_load(PAPERS.read_text(encoding="utf-8"))
    rows = ["| model | paper says | section | `--recipe paper` does | known differences |", "|---|---|---|---|---|"]
    for name in MODELS:
        paper = papers[name]
        cells = (f"`{name}`", paper["says"], paper.get("section", ""), recipe_of(name), paper.get("differs", ""))
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def texts(seed: int) -> list[list[int]]:
    """Token ids of texts with repeated words; some have unknown words (1), one nothing else, as an empty text."""
    draw = random.Random(seed)
    found = [[draw.randrange(1, len(WORDS)) for _ in range(length)] for length in TEXTS_OF_EACH_LENGTH]
    return [*found, [1], [1, 1]]


def differences() -> list[str]:
    """A row for each model: the largest absolute difference of a score, over all cases of tests/naive."""
    transformer_encoder.multiplies_bfloat16 = lambda: False  # the same on every CPU
    questions, answers = texts(1), texts(2)
    batches = TokenBatch.from_lists(questions), TokenBatch.from_lists(answers)
    largest: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for case in CASES:
        model = make_model(case.name, WORDS, case.options)
        for place, of_dtype in enumerate((model.float, model.double)):
            with torch.no_grad():
                found = of_dtype()(*batches).double()
            naive = torch.tensor([[case.score(model, q, a) for a in answers] for q in questions], dtype=torch.double)
            largest[case.name][place] = max(largest[case.name][place], float((found - naive).abs().max()))
    rows = ["| model | float64 | float32 |", "|---|---:|---:|"]
    for name in MODELS:
        single, double = largest[name]
        rows.append(f"| `{name}` | {double:.0e} | {single:.0e} |")
    return rows


def replaced(page: str, name: str, rows: list[str]) -> str:
    """The page with other rows between the comments that name a table."""
    start, end = f"<!-- {name}: python docs/model_tables.py -->\n", f"<!-- end of {name} -->"
    pattern = re.compile(rf"{re.escape(start)}.*?{re.escape(end)}", re.DOTALL)
    assert pattern.search(page), name
    return pattern.sub(lambda _: "\n".join([start, *rows, "", end]), page)


def main() -> None:
    """Write all tables."""
    page = MODELS_PAGE.read_text(encoding="utf-8")
    MODELS_PAGE.write_text(replaced(page, "models", models()), encoding="utf-8")
    page = RECIPES_PAGE.read_text(encoding="utf-8")
    page = replaced(replaced(page, "recipes", recipes()), "differences", differences())
    RECIPES_PAGE.write_text(page, encoding="utf-8")
    page = OPTIONS_PAGE.read_text(encoding="utf-8")
    OPTIONS_PAGE.write_text(replaced(page, "options", options()), encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
