"""What `ap-ranker train` shows while it runs."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments


class EpochLines(TrainerCallback):
    """One line per epoch."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._best = 0.0

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: dict[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        mrr = (metrics or {})["eval_MRR"]
        losses = [entry["loss"] for entry in state.log_history if "loss" in entry]
        mark = "  best so far" if mrr > max(self._best, state.best_metric or 0.0) else ""
        self._best = max(self._best, mrr)
        loss = f"loss {losses[-1]:7.4f}" if losses else ""
        self._console.print(f"epoch {state.epoch or 0:3.0f}  {loss}  dev MRR {mrr:.3f}{mark}", highlight=False)
