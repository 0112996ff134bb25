"""Writes the model card, README.md: what a checkpoint was trained on, how good it is, how to use it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from huggingface_hub import EvalResult, ModelCardData
from jinja2 import Environment, PackageLoader
from pydantic import Field

from ap_ranker.data.audit.report import AuditReport, Severity
from ap_ranker.errors import InputError
from ap_ranker.models.registry import model_spec
from ap_ranker.ranking.checkpoint import CARD, CheckpointConfig
from ap_ranker.safe_open import decode, open_file
from ap_ranker.settings import settings

if TYPE_CHECKING:  # an untrained checkpoint, which a search may begin with, has a card, too
    from ap_ranker.evaluation.evaluation_report import EvaluationReport
    from ap_ranker.training.batches import Batches

HUB_METRICS = {"P@1": "precision", "MRR": "mrr", "MAP": "map", "nDCG@10": "ndcg"}
"""Measure -> its name in the hub's metadata."""

TEMPLATES = Environment(
    loader=PackageLoader("ap_ranker.training", ""), trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
)

MAX_CARD = 2**20
"""Maximum size of a card in bytes; one that `train` writes has 5,000."""

BEGIN = "<!-- calibration -->"
END = "<!-- end of calibration -->"
"""HTML comments around the calibration section."""


@settings
class About:
    """Facts for the card that the run itself does not know; InputError if the licence is no valid identifier."""

    command: str | None = None  # that started the run; `None` if it was started from Python
    # An identifier of the hub, such as apache-2.0; `None` if none was given.
    licence: Annotated[str, Field(pattern="^[a-z0-9][a-z0-9.+-]*$")] | None = None
    audit: AuditReport | None = None  # the faults of the data; `None` if it was not checked


def model_card(
    checkpoint: CheckpointConfig, report: EvaluationReport, machine: str, batches: Batches, about: About
) -> str:
    """The card of a trained checkpoint, as Markdown with front matter for the hub.

    The report is that on the dev questions, measured on the `machine`: the front matter has its headline. The batches
    count the truncated answers.
    """
    results: list[EvalResult] = []
    for values_of, suffix in ((report.model_each, ""), (report.fusion_each, ", with BM25's score added")):
        for measure, value in (report.means_of(report.headline, values_of) or {}).items():
            results.append(
                EvalResult(
                    task_type="text-ranking",
                    dataset_type="question-answer-pairs",
                    dataset_name=report.dataset.name,
                    dataset_split="dev",
                    metric_type=HUB_METRICS[measure],
                    metric_name=measure + suffix,
                    metric_value=round(value, 4),
                )
            )
    ticks = max(map(len, re.findall("`+", about.command or "")), default=0)
    return _render(
        checkpoint,
        {"license": about.licence, "eval_results": results},
        spec=model_spec(checkpoint.model),
        report=report,
        machine=machine,
        batches=batches,
        about=about,
        severities=list(Severity),
        fence="`" * max(3, 1 + ticks),  # a path in the command must not end the block
    )


def untrained_card(checkpoint: CheckpointConfig, texts: str) -> str:
    """The card of a checkpoint that has learnt nothing; `texts` are those that it has counted words in, in words."""
    return _render(checkpoint, {}, texts=texts)


def _render(checkpoint: CheckpointConfig, facts: Mapping[str, Any], **values: Any) -> str:
    front_matter = ModelCardData(
        model_name=checkpoint.model,
        library_name="ap-ranker",
        pipeline_tag="text-ranking",
        tags=["answer-selection", "faq", "haystack"],
        **facts,
    ).to_yaml(line_break="\n")
    values |= {"checkpoint": checkpoint, "run": checkpoint.training}
    return TEMPLATES.get_template("card.md.jinja").render(values, front_matter=front_matter)


def calibration_section(**facts: Any) -> str:
    """The section between its marks: the thresholds and their effects as a table.

    `questions` says in words what they were measured on, `scores` names each kind of score, and `measured` is what
    `measure` tells of each; without these, the section says that there is no calibration.
    """
    return TEMPLATES.get_template("calibration.md.jinja").render(facts).strip()


def card_with_calibration(folder: Path, section: str) -> str | None:
    """The folder's card with a new calibration section; `None` if there is no card.

    If the marks are missing, as in a card that a user has rewritten, the section is added at the end.
    InputError if it is not UTF-8, or too long.
    """
    path = folder / CARD
    if not path.is_file():
        return None
    with open_file(path) as file:
        content = file.read(MAX_CARD + 1)
    if len(content) > MAX_CARD:
        raise InputError(f"{path}: expected a card of at most {MAX_CARD:,} bytes, found a longer one. Shorten it.")
    card = decode(content, path)  # read_text would change the line ends
    before, begin, rest = card.partition(BEGIN)
    _, end, after = rest.partition(END)
    if begin and end:
        return f"{before}{section}{after}"
    return f"{card.rstrip()}\n\n{section}\n"
