"""What `ap-ranker train` shows while it runs."""

from __future__ import annotations

from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from transformers import ProgressCallback, TrainerControl, TrainerState, TrainingArguments


class EpochLines(ProgressCallback):
    """The Trainer's progress bar, and one line per epoch instead of its dictionaries."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def on_log(self, *args: Any, **kwargs: Any) -> None:
        """Nothing: the epoch's line says it all."""

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: dict[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        if not state.is_world_process_zero:
            return
        mrr = (metrics or {})["eval_MRR"]
        loss = next((entry["loss"] for entry in reversed(state.log_history) if "loss" in entry), float("nan"))
        earlier = [entry["eval_MRR"] for entry in state.log_history if "eval_MRR" in entry][:-1]
        mark = "  best so far" if mrr > max(earlier, default=0.0) else ""
        line = f"epoch {round(state.epoch or 0):3d}   loss {loss:.4f}   dev MRR {mrr:.3f}{mark}"
        self._console.print(line, highlight=False)


class PhaseBars:
    """A bar on standard error for each thing that takes long beside the epochs, while it lasts."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._console = Console(stderr=True, quiet=quiet)
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def update(self, what: str, done: int, total: int) -> None:
        """Show how many texts are done; the bar goes when all are, as the epochs have one of their own."""
        if done >= total:
            self._end()
            return
        if self._bar is None:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self._bar = Progress(*columns, console=self._console, transient=True)
            self._bar.add_task(what, total=total)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=done)

    def _end(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
