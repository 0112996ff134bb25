"""Writes the model card, README.md: what a checkpoint was trained on, how good it is, how to use it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCardData

from ap_ranker.data.audit.report import AuditReport, Severity
from ap_ranker.errors import InputError
from ap_ranker.evaluation.evaluation_report import EvaluationReport
from ap_ranker.evaluation.markdown import markdown_table
from ap_ranker.evaluation.significance import Difference
from ap_ranker.models.registry import model_spec
from ap_ranker.ranking.checkpoint import CARD
from ap_ranker.training.batches import Batches
from ap_ranker.training.config import TrainingConfig

HUB_METRICS = {"P@1": "precision", "MRR": "mrr", "MAP": "map", "nDCG@10": "ndcg"}
"""Measure -> its name in the hub's metadata."""

BEGIN, END = "<!-- calibration -->", "<!-- end of calibration -->"
"""HTML comments around the calibration section."""

UNCALIBRATED = (
    "None: scores order the answers to one question, but are not probabilities. `ap-ranker calibrate` fits these."
)

_SHARES = {"precision": "precision", "answered": "answered", "rejected": "unanswerable rejected"}


@dataclass(frozen=True)
class About:
    """Facts for the card that the run itself does not know.

    Attributes:
        command: the command that started the run; `None` if it was started from Python.
        licence: an identifier of the hub, such as apache-2.0; `None` if not stated.
        audit: the faults of the data; `None` if it was not checked.

    Raises:
        InputError: the licence is not a valid identifier.
    """

    command: str | None = None
    licence: str | None = None
    audit: AuditReport | None = None

    def __post_init__(self) -> None:
        if self.licence is not None and not re.fullmatch(r"[a-z0-9][a-z0-9.+-]*", self.licence):
            raise InputError(
                f"Expected a licence as the model hub names it, such as apache-2.0, cc-by-4.0 or other, found "
                f"{self.licence!r}."
            )


def model_card(
    config: TrainingConfig,
    settings: Mapping[str, Any],
    report: EvaluationReport,
    machine: str,
    batches: Batches,
    about: About,
) -> str:
    """Render the card: Markdown with front matter for the hub.

    Args:
        config: the settings of the run.
        settings: `training` of `config.json`.
        report: the results of the best epoch on the dev questions.
        machine: the hardware, in words.
        batches: the batches of the run, for the number of truncated answers.
        about: facts that the run itself does not know.
    """
    spec = model_spec(config.model)
    return f"""---
{_front_matter(config, report, about)}
---

# {config.model}

Ranks the candidate answers to a question. Answer-selection model, {spec.paper} ({spec.year}), made with ap-ranker.

## Data

{_origin(config, settings)}
{_audit(about.audit)}

Licence: {about.licence or "not stated"}.

{_command(about.command)}

## Results on the {report.n_questions:,} dev questions ({report.dataset.name})

{_table(report)}

{report.gain}
p: paired randomisation test of the difference in MRR to BM25{", Holm-corrected" if report.fusion else ""}.
{_wordings(report)}{_fusion(report)}
Candidates: {report.candidates}.

The epoch and the weights of wordings and BM25 were chosen on these questions, so the numbers are slightly too high.
Evaluate on other questions with `ap-ranker evaluate`.

## Speed

{report.seconds_per_question * 1000:.2f} ms per question, with answers encoded in advance ({machine}, mean of
{report.n_questions:,} dev questions).

{calibration_block(None)}

## Limits

Texts are truncated to {config.max_tokens} tokens: {batches.cut_answers:,} of the {len(batches.answers):,} answers were.

{_USE}"""


def untrained_card(config: TrainingConfig, encoder: str, texts: str) -> str:
    """Render the card of a checkpoint that has learnt nothing, as Markdown with front matter for the hub.

    Args:
        config: its settings.
        encoder: its pretrained encoder.
        texts: those that the rarity of words was counted in, in words.
    """
    facts = ModelCardData(
        model_name=config.model,
        library_name="ap-ranker",
        pipeline_tag="text-ranking",
        tags=["answer-selection", "faq", "haystack"],
    )
    return f"""---
{facts.to_yaml(line_break=chr(10))}
---

# {config.model}, untrained

Ranks the candidate answers to a question as its pretrained encoder does: {encoder}.
It has learnt nothing from questions. How rare words are was counted in {texts}.

Nothing was measured. Once you have questions, measure it with `ap-ranker evaluate`, or train a better one with
`ap-ranker train`.

{calibration_block(None)}

## Limits

Texts are truncated to {config.max_tokens} tokens.

{_USE}"""


def _front_matter(config: TrainingConfig, report: EvaluationReport, about: About) -> str:
    rankings = [(report.model, ""), (report.fusion or {}, ", with BM25's score added")]
    results = [
        EvalResult(
            task_type="text-ranking",
            dataset_type="question-answer-pairs",
            dataset_name=report.dataset.name,
            dataset_split="dev",
            metric_type=HUB_METRICS[measure],
            metric_name=measure + suffix,
            metric_value=round(value, 4),
        )
        for values, suffix in rankings
        for measure, value in values.items()
    ]
    return ModelCardData(
        model_name=config.model,
        library_name="ap-ranker",
        pipeline_tag="text-ranking",
        tags=["answer-selection", "faq", "haystack"],
        license=about.licence,
        eval_results=results,
    ).to_yaml(line_break="\n")


def _origin(config: TrainingConfig, settings: Mapping[str, Any]) -> str:
    source = f"{settings['pairs']:,} question-answer pairs ({settings['data']})"
    if settings.get("word_vectors"):
        source += f", beginning with word vectors from {settings['word_vectors']}"
    if settings.get("start"):
        source += f", beginning with the checkpoint {settings['start']}"
    if settings.get("teacher"):
        unlabelled = settings.get("unlabelled")
        more = f" for these and {unlabelled:,} questions without labels" if unlabelled else ""
        source += f", and on the scores of the model {settings['teacher']}{more}"
    if config.epochs == 0:
        return f"Not trained: the pretrained encoder is unchanged. Data at hand: {source}."
    return f"Trained on {source}; epoch {settings['best_epoch']} was the best on the dev questions."


def _audit(audit: AuditReport | None) -> str:
    if audit is None:
        return "The files were not checked for faults with `ap-ranker check`."
    totals = []
    for severity in Severity:
        counts = audit.counts(severity)
        kinds = ", ".join(f"{kind} {count:,}" for kind, count in counts.items())
        totals.append(f"{sum(counts.values()):,} {severity}s" + (f" ({kinds})" if kinds else ""))
    return f"A check of the files as by `ap-ranker check`, but not for nearly equal answers, found {', '.join(totals)}."


def _command(command: str | None) -> str:
    if command is None:
        return "Trained from Python. All settings: `training` in `config.json`."
    fence = "`" * max(
        3, 1 + max(map(len, re.findall("`+", command)), default=0)
    )  # a path in the command must not end the block
    return f"All settings: `training` in `config.json`. The command:\n\n{fence}bash\n{command}\n{fence}"


def _table(report: EvaluationReport) -> str:
    rows: list[tuple[str, dict[str, float], Difference | None]] = [(report.bm25_name, report.bm25, None)]
    if report.without_wordings:
        rows.append(("answers alone", report.without_wordings, None))
    rows.append(("this model", report.model, report.gain.model))
    if report.fusion:
        rows.append(("both scores added", report.fusion, report.gain.fusion))
    return markdown_table(
        ["", *report.model, "p"],
        [
            [name, *(f"{value:.3f}" for value in values.values()), f"{difference.p_value:.4f}" if difference else ""]
            for name, values, difference in rows
        ],
    )


def _wordings(report: EvaluationReport) -> str:
    if not report.without_wordings:
        return ""
    return (
        "The training questions are known wordings of the answers: the one most like a question raises its answer's "
        'score.\nGive the ranker their file as `wordings`; "answers alone" is without.\n'
    )


def _fusion(report: EvaluationReport) -> str:
    if report.fusion:
        return "To rank by both scores added, set `fuse_scores: true` behind a retriever with Lucene's BM25 scores."
    return "Adding BM25's score does not help on these questions."


_RANKER = "haystack_integrations.components.rankers.ap_ranker.ranker.AnswerRanker"
_USE = f"""## Use

`CHECKPOINT` is this folder or its name on the model hub. With Haystack in Python:

```python
from haystack import Document
from ap_ranker import AnswerRanker

ranker = AnswerRanker(model="CHECKPOINT", top_k=3)
ranker.run(query="question", documents=[Document(content="one answer"), Document(content="another answer")])
```

in a pipeline's YAML file:

```yaml
components:
  ranker:
    type: {_RANKER}
    init_parameters: {json.dumps({"model": "CHECKPOINT", "device": None, "top_k": 3})}
connections: []
```

and without Haystack:

```python
from ap_ranker import Ranker

ranker = Ranker.from_pretrained("CHECKPOINT")
ranker.rank("question", ["one answer", "another answer"])
```
"""


def calibration_block(text: str | None) -> str:
    """The section between its marks; with `None`, it says that there is no calibration."""
    return f"{BEGIN}\n## Calibration\n\n{text or UNCALIBRATED}\n{END}"


def calibration_text(questions: str, scores: Mapping[str, str], report: Mapping[str, Any]) -> str:
    """The thresholds and their effects as a table.

    Args:
        questions: the questions of the measurement, in words.
        scores: kind of score -> its name.
        report: kind of score -> `calibration_error` and `thresholds`: target precision, or "-" for none -> `threshold`,
            `precision`, `answered`, `rejected`.
    """
    rows = [
        [scores[kind], target, f"{effect['threshold']:.3f}", *(_share(effect[name]) for name in _SHARES)]
        for kind, measured in report.items()
        for target, effect in measured["thresholds"].items()
    ]
    errors = ", ".join(f"{scores[kind]} {measured['calibration_error']:.3f}" for kind, measured in report.items())
    return (
        "A scaled score is the probability that the answer is right. Set the ranker's `precision` or\n"
        f"`score_threshold` to leave out improbable answers. Measured on {questions}.\n\n"
        + markdown_table(["ranked by", "target precision", "threshold", *_SHARES.values()], rows)
        + f"\n\nCalibration error (ECE): {errors}."
    )


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def card_with_calibration(folder: Path, text: str) -> str | None:
    """The folder's card with a new calibration section; `None` if there is no card.

    If the marks are missing, as in a card that a user has rewritten, the section is added at the end.

    Raises:
        InputError: the card is not UTF-8.
    """
    path = folder / CARD
    if not path.is_file():
        return None
    try:
        card = path.read_bytes().decode("utf-8")  # read_text would change the line ends
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: expected UTF-8, found other bytes ({error.reason}). Save it as UTF-8.") from error
    before, begin, rest = card.partition(BEGIN)
    _, end, after = rest.partition(END)
    if begin and end:
        return before + calibration_block(text) + after
    return f"{card.rstrip()}\n\n{calibration_block(text)}\n"
