"""The README.md of a checkpoint: what it was trained on, how good it is, how to use it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from huggingface_hub import EvalResult, ModelCardData

from ap_ranker.data.audit.report import AuditReport as Audit
from ap_ranker.data.audit.report import Severity
from ap_ranker.errors import InputError
from ap_ranker.evaluation.gain import Gain
from ap_ranker.evaluation.markdown import markdown_table
from ap_ranker.models.registry import model_spec
from ap_ranker.training.batches import Batches
from ap_ranker.training.calibration_card import calibration_block
from ap_ranker.training.config import TrainingConfig

HUB_METRICS = {"P@1": "precision", "MRR": "mrr", "MAP": "map", "nDCG@10": "ndcg"}
"""The measures' names in the hub's metadata."""


@dataclass(frozen=True)
class About:
    """What the card says in addition to the run itself.

    Attributes:
        command: the command that started the run; `None` if it was started from Python.
        licence: an identifier of the hub, such as apache-2.0; `None` if not stated.
        audit: the faults of the data; `None` if it was not checked.

    Raises:
        InputError: the licence does not look like one.
    """

    command: str | None = None
    licence: str | None = None
    audit: Audit | None = None

    def __post_init__(self) -> None:
        if self.licence is not None and not re.fullmatch(r"[a-z0-9][a-z0-9.+-]*", self.licence):
            raise InputError(
                f"Expected a licence as the model hub names it, such as apache-2.0, cc-by-4.0 or other, found "
                f"{self.licence!r}."
            )


@dataclass(frozen=True)
class DevResults:
    """The best epoch on the dev questions, beside BM25.

    Attributes:
        data: where the questions were read from.
        candidates: what was ranked, in words.
        model: measure -> mean.
        bm25: the same for BM25.
        fusion: the same for both scores added; `None` if that does not help.
        gain: their difference to BM25.
    """

    data: str
    candidates: str
    model: Mapping[str, float]
    bm25: Mapping[str, float]
    fusion: Mapping[str, float] | None
    gain: Gain


@dataclass(frozen=True)
class Speed:
    """How fast the model ranks.

    Attributes:
        seconds_per_question: time to encode one and match it with its encoded candidates.
        timed: number of questions measured.
        machine: the hardware, in words.
    """

    seconds_per_question: float
    timed: int
    machine: str


def model_card(
    config: TrainingConfig,
    settings: Mapping[str, Any],
    results: DevResults,
    speed: Speed,
    batches: Batches,
    about: About,
) -> str:
    """Render the card: Markdown with the front matter that the hub reads.

    Args:
        config: of the run.
        settings: `training` of `config.json`.
        results: on the dev questions.
        speed: on the dev questions.
        batches: of the run, for the number of truncated answers.
        about: what the run itself does not know.
    """
    spec = model_spec(config.model)
    return f"""---
{_front_matter(config, results, about)}
---

# {config.model}

Puts the right one of a question's candidate answers first. Answer-selection model, {spec.paper} ({spec.year}), a
checkpoint of ap-ranker.

## Data

{_origin(config, settings)}
{_audit(about.audit)}

Licence: {about.licence or "not stated"}.

{_command(about.command)}

## Results on the {results.gain.n_questions:,} dev questions ({results.data})

{_table(results)}

{results.gain}
p is the paired randomisation test's for the difference in MRR to BM25{", Holm-corrected" if results.fusion else ""}.
{_fusion(results)}
Candidates: {results.candidates}.

These questions chose the epoch and BM25's weight, so they flatter a little. Measure on questions of your own with
`ap-ranker evaluate`.

## Speed

{speed.seconds_per_question * 1000:.2f} ms per question, with answers encoded before ({speed.machine}, mean of
{speed.timed:,} dev questions).

{calibration_block(None)}

## Limits

Texts are cut after {config.max_tokens} tokens: {batches.cut_answers:,} of the {len(batches.answers):,} answers were.

{_USE}"""


def _front_matter(config: TrainingConfig, results: DevResults, about: About) -> str:
    shown = [(results.model, ""), (results.fusion or {}, ", with BM25's score added")]
    evaluated = [
        EvalResult(
            task_type="text-ranking",
            dataset_type="question-answer-pairs",
            dataset_name=results.data,
            dataset_split="dev",
            metric_type=HUB_METRICS[measure],
            metric_name=measure + suffix,
            metric_value=round(value, 4),
        )
        for values, suffix in shown
        for measure, value in values.items()
    ]
    return ModelCardData(
        model_name=config.model,
        library_name="ap-ranker",
        pipeline_tag="text-ranking",
        tags=["answer-selection", "faq", "haystack"],
        license=about.licence,
        eval_results=evaluated,
    ).to_yaml(line_break="\n")


def _origin(config: TrainingConfig, settings: Mapping[str, Any]) -> str:
    source = f"{settings['pairs']:,} question-answer pairs ({settings['data']})"
    if config.epochs == 0:
        return f"Written untrained beside {source}: its pretrained encoder is as it was."
    return f"Trained on {source}; the best of its epochs on the dev questions was number {settings['best_epoch']}."


def _audit(audit: Audit | None) -> str:
    if audit is None:
        return "Its files were not checked for faults, as `ap-ranker check` does."
    totals = []
    for severity in Severity:
        counts = {kind: finding.count for kind, finding in audit.of(severity).items()}
        kinds = ", ".join(f"{kind} {count:,}" for kind, count in counts.items())
        totals.append(f"{sum(counts.values()):,} {severity}s" + (f" ({kinds})" if kinds else ""))
    return (
        f"A check of its files, as `ap-ranker check` does, found {', '.join(totals)}; answers that are nearly the same "
        "were not looked for."
    )


def _command(command: str | None) -> str:
    if command is None:
        return "Trained from Python, not by a command. All settings: `training` in `config.json`."
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", command)), default=0))  # so that no path ends the block
    return f"All settings are in `config.json`, `training`. The command:\n\n{fence}bash\n{command}\n{fence}"


def _table(results: DevResults) -> str:
    rows = [("BM25", results.bm25, None), ("this model", results.model, results.gain.model)]
    if results.fusion:
        rows.append(("both scores added", results.fusion, results.gain.fusion))
    return markdown_table(
        ["", *results.model, "p"],
        [
            [name, *(f"{value:.3f}" for value in values.values()), f"{tested.p_value:.4f}" if tested else ""]
            for name, values, tested in rows
        ],
    )


def _fusion(results: DevResults) -> str:
    if results.fusion:
        return "To rank by both scores added, use `fuse_scores: true` behind a retriever that scores as Lucene's BM25."
    return "Adding BM25's score does not help on these questions."


_RANKER = "haystack_integrations.components.rankers.ap_ranker.ranker.AnswerRanker"
_USE = f"""## Use

`CHECKPOINT` is this folder, or its name on the model hub. In Haystack, in Python:

```python
from haystack import Document
from ap_ranker import AnswerRanker

ranker = AnswerRanker(model="CHECKPOINT", top_k=3)
ranker.run(query="question", documents=[Document(content="one answer"), Document(content="another answer")])
```

in a pipeline's YAML:

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
