"""The README.md of a checkpoint: what it was trained on, how good it is, how to use it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ap_ranker.evaluation.gain import Gain
from ap_ranker.models.registry import model_spec
from ap_ranker.training.batches import Batches
from ap_ranker.training.config import TrainingConfig


def model_card(
    *,
    config: TrainingConfig,
    settings: Mapping[str, Any],
    measures: Mapping[str, float],
    bm25: Mapping[str, float],
    fusion: Mapping[str, float] | None,
    gain: Gain,
    batches: Batches,
) -> str:
    """Markdown with the front matter that the hub reads."""
    rows = "\n".join(
        f"| {name} | {bm25[name]:.3f} | {value:.3f} | {f'{fusion[name]:.3f}' if fusion else 'does not help'} |"
        for name, value in measures.items()
    )
    return f"""---
library_name: ap-ranker
pipeline_tag: text-ranking
tags: [answer-selection, faq, haystack]
---

# {config.model}

Answer-selection model, {model_spec(config.model).paper} ({model_spec(config.model).year}).
{_origin(config, settings)}

## Results on the {gain.n_questions:,} dev questions ({settings["dev"]})

| measure | BM25 | this model | both scores added |
|---|---|---|---|
{rows}

{gain}
These questions chose the epoch, so they flatter the model a little. Measure on questions of your own with
`ap-ranker evaluate`.

## Limits

Texts are cut after {config.max_tokens} tokens: {batches.cut_answers:,} of the {len(batches.answers):,} answers were.
Scores order the answers of one question; they are not probabilities before `ap-ranker calibrate`.

## Use

```python
from ap_ranker import Ranker

ranker = Ranker.from_pretrained("PATH OR HUB NAME OF THIS FOLDER")
ranker.rank("question", ["one answer", "another answer"])
```

In a Haystack pipeline: `from ap_ranker import AnswerRanker`, then
`AnswerRanker(model="PATH OR HUB NAME OF THIS FOLDER")`.
"""


def _origin(config: TrainingConfig, settings: Mapping[str, Any]) -> str:
    source = f"{settings['pairs']:,} question-answer pairs ({settings['data']})"
    if config.epochs == 0:
        return f"Written untrained by `ap-ranker train` beside {source}:\nits pretrained encoder is as it was."
    return (
        f"Trained by `ap-ranker train` on {source}; the best of its epochs\n"
        f"on the dev questions was number {settings['best_epoch']}."
    )
