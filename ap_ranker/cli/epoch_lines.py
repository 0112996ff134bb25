"""Prints the epochs of a training run."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from transformers import ProgressCallback, TrainerState

from ap_ranker.cli.console import ProgressBars


class EpochLines(ProgressCallback):
    """Shows the Trainer's progress bar in the place of ours, and prints one line per epoch instead of dictionaries."""

    def __init__(self, console: Console, bars: ProgressBars | None = None) -> None:
        super().__init__()
        self._console = console
        self._bars = bars

    def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
        if self._bars is not None:
            self._bars.close()
        super().on_train_begin(*args, **kwargs)

    def on_log(self, *args: Any, **kwargs: Any) -> None:
        """Print nothing: `on_evaluate` prints the epoch's line."""

    def on_evaluate(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        if not state.is_world_process_zero:
            return
        history = [entry["eval_MRR"] for entry in state.log_history if "eval_MRR" in entry]
        mrr = history[-1]
        losses = [entry["loss"] for entry in state.log_history if "loss" in entry]
        loss = losses[-1] if losses else float("nan")
        mark = "  best so far" if mrr > max(history[:-1], default=0.0) else ""
        line = f"epoch {round(state.epoch or 0):3d}   loss {loss:.4f}   dev MRR {mrr:.3f}{mark}"
        self._console.print(line, highlight=False)
