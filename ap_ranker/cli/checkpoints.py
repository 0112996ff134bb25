"""`ap-ranker init`, `models`, `explain` and `push`: checkpoints without training."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.table import Column

from ap_ranker.cli import options
from ap_ranker.cli.console import ProgressBars, console, numbers
from ap_ranker.cli.options import argument, option
from ap_ranker.data.faq import DEFAULT_MATCH

if TYPE_CHECKING:
    from ap_ranker.models.spec import ModelSpec


def init(
    documents: Annotated[Path, option("The FAQ, a document, or a folder of documents and tables.")],
    output: options.CheckpointOutput,
    reader: options.EncoderOptions,
    language: options.Language = None,
    columns: options.Columns = None,
    match: options.MatchEntry = DEFAULT_MATCH,
    overwrite: options.Overwrite = False,
) -> None:
    """Make a checkpoint that ranks as its pretrained encoder does, for documents to which there are no questions yet.

    BM25's word frequencies are counted in the documents. Once there are questions, `ap-ranker train` makes a better
    one.
    """
    from ap_ranker.training.resume_folder import ResumeFolder

    ResumeFolder(output).check_output(resume=False, overwrite=overwrite)  # before PyTorch is imported, which takes long
    from ap_ranker.data.faq import have_questions
    from ap_ranker.documents import read_entries
    from ap_ranker.text.languages import check_language
    from ap_ranker.training.untrained import write_untrained

    check_language(language)
    with ProgressBars() as bars:
        entries = read_entries(documents, columns, bars.update)
        texts = [entry.text(match) for entry in entries]
        source = str(documents)
        wordings = [entry.questions for entry in entries]
        has_stored_questions = have_questions(entries)
        keep_replaced(output)
        write_untrained(
            output,
            texts,
            language,
            source=source,
            stored=has_stored_questions,
            options=reader.given,
            wordings=wordings,
            warn_of_cuts=True,
            on_progress=bars.update,
        )
    console.say(
        f"Wrote {output}: ap-transformer, untrained, for {len(entries):,} texts. Search them: "
        f'ap-ranker ask "YOUR QUESTION" --documents {documents} --model {output}'
    )


def keep_replaced(output: Path) -> None:
    """Keep the checkpoint that --overwrite is about to replace, if there is one, and say how to go back to it."""
    from ap_ranker.ranking.checkpoint import is_checkpoint
    from ap_ranker.ranking.earlier_checkpoints import keep_former

    if is_checkpoint(output):
        keep_former(output)
        console.say(f"The checkpoint before is kept. To go back: ap-ranker retrain --back --model {output}")


def models(name: Annotated[str | None, argument("A model's name; by default, list all models.")] = None) -> None:
    """List the models, or the options of one model."""
    from ap_ranker.models.registry import MODELS, model_spec

    if name is not None:
        _print_one(model_spec(name))
        return
    rows: list[list[str] | None] = []
    families: defaultdict[str, list[ModelSpec]] = defaultdict(list)
    for spec in MODELS.values():
        families[spec.family].append(spec)
    for specs in families.values():
        for spec in sorted(specs, key=attrgetter("name")):
            rows.append([spec.name, citation(spec), spec.cached, f"{_parameters(spec):,}", spec.objective])
        rows.append(None)
    columns = (Column("name", no_wrap=True), "paper", "cached", numbers("parameters", no_wrap=True), "objective")
    console.table(columns, rows, title=f"{len(MODELS)} models")
    console.say(
        "Cached: what is computed once per answer. Parameters: at default size, without the word vectors.\n"
        "Objective: the default of `ap-ranker train`.\n"
        "To see a model's options and its paper's recipe: ap-ranker models NAME. How good they are: docs/models.md"
    )


def citation(spec: ModelSpec) -> str:
    """A model's paper, such as `Wang & Jiang 2017`; of more than two authors, the first one."""
    authors_and_title = spec.paper.split(", ")
    authors = authors_and_title[0]
    if len(authors_and_title) > 2 and not authors.endswith(" et al."):
        first_author, _, _ = authors.partition(" & ")
        authors = f"{first_author} et al."
    return f"{authors} {spec.year}"


def _print_one(spec: ModelSpec) -> None:
    from ap_ranker.training.objectives import objective_spec

    objective = objective_spec(spec.objective)
    facts = {
        "paper": f"{spec.paper} ({spec.year})",
        "family": spec.family,
        "cached per answer": spec.cached,
        "attention": f"over the words of {spec.attention_over}" if spec.attention_over else "none",
        "parameters": f"{_parameters(spec):,} at default size, without the word vectors",
        "objective": spec.objective,
    }
    if objective.needs_gradient:
        paper_recipe = [f"{name} {value}" for name, value in asdict(spec.recipe).items()]
        facts["paper's recipe"] = ", ".join(paper_recipe)
    else:
        facts["training"] = objective.training
    console.print(f"[bold]{spec.name}[/]")
    for title, text in facts.items():
        console.say(f"  {title:18} {text}")
    if not spec.options:
        return
    rows = []
    for name, model_option in spec.options.items():
        choices = ", ".join(model_option.choices) or type(model_option.default).__name__
        rows.append([name, str(model_option.default), choices, model_option.meaning])
    console.table(["option", "default", "values", "meaning"], rows)
    first, model_option = next(iter(spec.options.items()))
    console.say(
        f"Set them in the file of --config:\n  model: {spec.name}\n  options: {{{first}: {model_option.default}}}"
    )


def _parameters(spec: ModelSpec) -> int:
    """The number of a model's parameters at the size that `ap-ranker models` tells: of 10,000 words."""
    from ap_ranker.models.registry import build_model, count_parameters
    from ap_ranker.models.spec import Inputs

    words = [f"word{number}" for number in range(9_998)]
    inputs = Inputs(["[PAD]", "[UNK]", *words], embedding_size=100, max_tokens=200)
    return count_parameters(build_model(spec.name, inputs, {}))


def explain(
    checkpoint: Annotated[str, argument("A checkpoint folder or a hub name, of a model with attention.")],
    question: Annotated[str, option("The user's question.")],
    answer: Annotated[str, option("The text that the question is matched with.")],
    output: Annotated[Path, option("The page to write (.html).")],
    device: options.Device = "auto",
) -> None:
    """Show how much each word of a question and an answer contributes to the score."""
    with ProgressBars():
        from ap_ranker.evaluation.explanation_page import write_explanation

        model, explanation = write_explanation(checkpoint, question, answer=answer, output=output, device=device)
    console.say(f"Wrote {output}: {model}, score {explanation.score:.3f}.")


def push(
    checkpoint: Annotated[Path, argument("A checkpoint folder.")],
    repo: Annotated[str, argument("NAMESPACE/NAME on the hub; created if it does not exist.")],
    private: Annotated[bool, option("Create a private repository.", "--private")] = False,
) -> None:
    """Upload a checkpoint to the Hugging Face hub, with the token of HF_TOKEN or `hf auth login`."""
    from ap_ranker.ranking import checkpoint as library

    page = library.push(checkpoint, repo, private=private)
    console.say(f"Pushed {', '.join(library.HUB_FILES)} of {checkpoint} to {page}.")
