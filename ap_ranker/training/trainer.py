"""The Trainer of transformers with our batches, objectives and evaluation of an epoch."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from ap_ranker.evaluation.evaluate import EvaluationSet
from ap_ranker.evaluation.scoring import CandidateScores
from ap_ranker.models.base import AnswerModel
from ap_ranker.models.spec import Recipe
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.text.batch import TokenBatch
from ap_ranker.training.batches import Batches, LengthBuckets, Pairs
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.distributed import gather, gather_states, processes, share
from ap_ranker.training.objectives.registry import objective_spec
from ap_ranker.training.objectives.spec import IGNORE, ScoredBatch
from ap_ranker.training.states import SECONDS, States


class Scorer(nn.Module):
    """The model as the Trainer calls it: tensors in, scores out."""

    def __init__(self, model: AnswerModel) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        question_ids: Tensor,
        question_mask: Tensor,
        answer_ids: Tensor,
        answer_mask: Tensor,
        wanted: Tensor,
        classes: int,
    ) -> Tensor:
        """(B, N) scores or (B, N, K) logits, as `AnswerModel.training_scores` of the whole batch."""
        (B, N), model = wanted.shape, self.model  # noqa: N806
        own, others = share(B, wanted.device), share(N, wanted.device)
        questions = model.encode_questions(TokenBatch(question_ids[own], question_mask[own]))
        answers = gather_states(model.encode_answers(TokenBatch(answer_ids[others], answer_mask[others])), N)
        return gather(model.training_scores(questions, answers, wanted[own], classes), B)


class _SameBatches(DataLoader[Any]):
    """Gives every process the same batches; each process takes its own share of them."""

    def set_epoch(self, epoch: int) -> None:
        """Called by the Trainer before each epoch."""
        self.sampler.set_epoch(epoch)  # type: ignore[attr-defined]


class AnswerTrainer(Trainer):
    """Optimises our objectives, and evaluates each epoch by the ranking of the dev questions.

    Attributes:
        scores: step -> result of `EvaluationSet.timed_scores`, for the best and the last epoch, unless they were before
            an interruption.
    """

    def __init__(
        self,
        config: TrainingConfig,
        recipe: Recipe,
        ranker: Ranker,
        dev: EvaluationSet,
        batches: Batches,
        states: States,
        started: float,
        **kwargs: Any,
    ) -> None:
        super().__init__(eval_dataset=dev.questions, **kwargs)
        self.add_callback(_BestState(states))
        self.states = states
        self.started = started
        self.scores: dict[int, CandidateScores] = {}
        self.config, self.recipe, self.ranker, self.dev = config, recipe, ranker, dev
        self.classes = batches.classes
        self.lengths = [batches.lengths(pair) for pair in kwargs["train_dataset"]]
        self.n_answers = len({row for _, row in kwargs["train_dataset"]})

    def _get_train_sampler(self, train_dataset: Any = None) -> LengthBuckets:
        return LengthBuckets(self.lengths, self.n_answers, self.args.train_batch_size, self.config.seed)

    def get_train_dataloader(self) -> DataLoader[Any]:
        if processes() == 1:
            return super().get_train_dataloader()
        assert isinstance(self.train_dataset, Pairs)
        return _SameBatches(
            self.train_dataset,
            batch_size=self.recipe.batch_size,
            sampler=self._get_train_sampler(),
            collate_fn=self.data_collator,
        )

    @property
    def steps_per_epoch(self) -> int:
        return len(self.get_train_dataloader())

    def create_optimizer(self, *args: Any, **kwargs: Any) -> torch.optim.Optimizer:
        rate = self.recipe.learning_rate
        parameters = self.ranker.model.parameter_groups(rate, self.config.encoder_learning_rate)
        settings: dict[str, Any] = {"lr": rate, "weight_decay": self.recipe.weight_decay}
        if self.recipe.optimizer == "adadelta":
            self.optimizer = torch.optim.Adadelta(parameters, **settings)
        else:  # a fused step passes once over the word vectors, the bulk of the weights
            kind = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[self.recipe.optimizer]
            self.optimizer = kind(parameters, fused=True, **settings)
        return self.optimizer

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        if self.recipe.schedule != "inverse":
            return super().create_scheduler(num_training_steps, optimizer)
        epoch = self.steps_per_epoch
        chosen = optimizer or self.optimizer
        assert chosen is not None
        self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(chosen, lambda step: 1 / (1 + step // epoch))
        return self.lr_scheduler

    def compute_loss(
        self, model: nn.Module, inputs: dict[str, Tensor], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Tensor:
        labels, target = inputs.pop("labels"), inputs.pop("target")
        objective = objective_spec(self.recipe.objective)
        assert objective.loss is not None
        scores = model(**inputs, wanted=labels != IGNORE, classes=self.classes if objective.classes else 2)
        temperature = self.ranker.model.temperature if self.config.temperature is None else self.config.temperature
        return objective.loss(ScoredBatch(scores, labels, target, self.recipe.margin, temperature, self.classes))

    def evaluate(self, *args: Any, metric_key_prefix: str = "eval", **kwargs: Any) -> dict[str, float]:
        scores = self.dev.timed_scores(self.ranker)
        means = self.dev.measures(scores.by_question)
        measures = {f"{metric_key_prefix}_{name}": value for name, value in means.items()}
        best = self.state.best_global_step  # before this epoch: the Trainer updates it after this call
        self.scores = {step: each for step, each in self.scores.items() if step == best}
        self.scores[self.state.global_step] = scores
        measures[SECONDS] = time.perf_counter() - self.started
        self.log(measures)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, measures)
        return measures

    def _get_output_dir(self, trial: Any) -> str:
        return str(self.states.half)

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        """As the Trainer does, but atomically, and older states are removed only after the new one is complete."""
        step = self.state.global_step
        with self.states.saving(step):
            super()._save_checkpoint(model, trial)
        self.states.keep(step, self.state.best_global_step or step)


class _BestState(TrainerCallback):
    """Tells the Trainer where the best state is, as it has been moved since it was written."""

    def __init__(self, states: States) -> None:
        self._states = states

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if state.best_global_step:
            state.best_model_checkpoint = str(self._states.of_step(state.best_global_step))

    on_train_begin = on_save  # for a resumed run, whose folder may have been moved


def training_arguments(
    states: States, config: TrainingConfig, recipe: Recipe, device: torch.device
) -> TrainingArguments:
    return TrainingArguments(
        output_dir=str(states.folder),
        num_train_epochs=config.epoch_limit,
        per_device_train_batch_size=recipe.batch_size,
        learning_rate=recipe.learning_rate,
        lr_scheduler_type="linear" if recipe.schedule == "linear" else "constant",
        max_grad_norm=5.0,  # the gradients of biLSTMs explode now and then
        eval_strategy="epoch",
        save_strategy="epoch",
        logging_strategy="epoch",
        load_best_model_at_end=True,
        metric_for_best_model="MRR",
        greater_is_better=True,
        seed=config.seed,
        use_cpu=device.type == "cpu",
        bf16=device.type == "cuda" and torch.cuda.is_bf16_supported(),
        dataloader_pin_memory=device.type == "cuda",
        remove_unused_columns=False,  # the batches are tensors of our own naming
        label_names=[],
        report_to="none",
        disable_tqdm=False,
    )
