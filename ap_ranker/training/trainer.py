"""The Trainer of transformers with the batches, objectives and epoch evaluation of this package."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import EarlyStoppingCallback, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_callback import PrinterCallback, ProgressCallback

from ap_ranker.errors import extra_for
from ap_ranker.evaluation.dev_choice import Epoch
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.models.base import AnswerModel, States
from ap_ranker.models.spec import Recipe
from ap_ranker.ranking.checkpoint import round_as_stored
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.text.tokenizer import TokenBatch
from ap_ranker.training.batches import Batches, EachEpoch
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.distributed import OnOneDevice, gather, mention_other_gpus, share
from ap_ranker.training.epoch_scores import EpochScores
from ap_ranker.training.objectives import IGNORE, NEGATIVE, ScoredBatch, objective_spec, relevance
from ap_ranker.training.resume_folder import SECONDS, ResumeFolder, epochs_so_far

with extra_for("Training and measuring need", "train"):
    import accelerate  # noqa: F401 - without it, the Trainer of transformers fails only once the data is read

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": partial(torch.optim.Adam, fused=True),  # passes once over the word vectors, the bulk of the weights
    "sgd": partial(torch.optim.SGD, fused=True),
    "adadelta": torch.optim.Adadelta,
}


class Scorer(nn.Module):
    """The module that the Trainer calls: maps tensors to scores."""

    def __init__(self, model: AnswerModel) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        question_ids: Tensor,
        question_mask: Tensor,
        question_rows: Tensor,
        answer_ids: Tensor,
        answer_mask: Tensor,
        mask: Tensor,
        classes: int,
    ) -> Tensor:
        """(B, N) scores or (B, N, K) logits, as `AnswerModel.training_scores` of the whole batch."""
        B, N = mask.shape  # noqa: N806
        model = self.model
        own = share(B, mask.device)
        others = share(N, mask.device)
        asked, rows = question_rows[own].unique(return_inverse=True)  # each question is encoded once
        questions = model.encode_questions(TokenBatch(question_ids[asked], question_mask[asked]))[rows]
        encoded = model.encode_answers(TokenBatch(answer_ids[others], answer_mask[others]))  # of equal width everywhere
        all_answers = partial(gather, n=N)
        answers = encoded.map(all_answers, all_answers)
        return gather(model.training_scores(questions, answers, mask[own], classes), B)

    def state_dict(self, *args: Any, **settings: Any) -> Any:
        """Without weights that do not learn: a large vocabulary would be most of what is kept of an epoch."""
        frozen = {name for name, weight in self.named_parameters() if not weight.requires_grad}
        return {name: weights for name, weights in super().state_dict(*args, **settings).items() if name not in frozen}

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **settings: Any) -> Any:
        return super().load_state_dict({**super().state_dict(), **state_dict}, *args, **settings)


class AnswerTrainer(Trainer):
    """Optimises the objectives, and evaluates each epoch by the ranking of the dev questions.

    `kept` has what each epoch scored the dev questions, also those before an interruption. A run that goes on from its
    `last` state has waited for a better epoch as long as before.
    """

    def __init__(
        self,
        config: TrainingConfig,
        recipe: Recipe,
        ranker: Ranker,
        dev: EvaluationSet,
        batches: Batches,
        states: ResumeFolder,
        started: float,
        callbacks: Sequence[TrainerCallback],
        last: Path | None,
    ) -> None:
        mention_other_gpus(ranker.device)
        done, waited = epochs_so_far(last)
        patience = EarlyStoppingCallback(config.patience)
        patience.early_stopping_patience_counter = waited
        planned = recipe
        if waited >= config.patience:  # the run had ended when it was interrupted
            planned = replace(recipe, epochs=done)
        super().__init__(
            model=Scorer(ranker.model),
            args=_arguments(states, config, planned, ranker.device),
            train_dataset=batches.pairs,  # a list is a data set, too
            eval_dataset=dev.questions,
            data_collator=batches,
            callbacks=[patience, states],
        )
        for default in (PrinterCallback, ProgressCallback):  # they print raw dictionaries
            self.remove_callback(default)
        for callback in callbacks:  # added last, as they may derive from the removed ones
            self.add_callback(callback)
        self.kept = EpochScores(dev, states.folder)
        self.config = config
        self.recipe = recipe
        self.ranker = ranker
        self.dev = dev
        self.collator = batches
        self.started = started
        self.classes = batches.classes
        self.own_negatives = batches.own_negatives
        self.sampler = EachEpoch(batches.order(recipe), len(batches.pairs), config.seed)
        settings: Any = {"batch_size": recipe.batch_size, "pin_memory": self.args.dataloader_pin_memory}
        pairs: Any = batches.pairs
        # The same batches in every process: each computes its share of a batch.
        self.batches: DataLoader[Any] = DataLoader(pairs, sampler=self.sampler, collate_fn=batches, **settings)
        self.batches.set_epoch = self._set_epoch  # called before each epoch
        if last is not None:
            self.kept.load(states.step_of(last), len(self.batches))

    def _set_epoch(self, epoch: int) -> None:
        self.sampler.set_epoch(epoch)
        self.collator.set_epoch(epoch)

    def get_train_dataloader(self) -> DataLoader[Any]:
        return self.batches

    def create_optimizer(self, *args: Any, **kwargs: Any) -> torch.optim.Optimizer:
        rate = self.recipe.learning_rate
        kind = OPTIMIZERS[self.recipe.optimizer]
        parameters = self.ranker.model.parameter_groups(rate, self.recipe.encoder_learning_rate)
        self.optimizer = kind(parameters, lr=rate, weight_decay=self.recipe.weight_decay)
        return self.optimizer

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        if self.recipe.schedule != "inverse":
            return super().create_scheduler(num_training_steps, optimizer)
        optimizer = optimizer or self.optimizer
        epoch = len(self.batches)
        self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step // epoch))
        return self.lr_scheduler

    def compute_loss(
        self, model: nn.Module, inputs: dict[str, Tensor], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Tensor:
        labels = inputs.pop("labels")
        target = inputs.pop("target")
        teacher = inputs.pop("teacher", None)
        if self.own_negatives and self.args.world_size == 1:  # processes might choose differently
            labels, target = self._keep_hardest(inputs, labels, target)
        is_scored = labels != IGNORE
        if teacher is not None:
            is_scored = is_scored | ~teacher.isnan()
        config = self.config
        objective = objective_spec(self.recipe.objective)
        assert objective.loss is not None
        scores = model(**inputs, mask=is_scored, classes=self.classes if objective.classes else 2)
        temperature = self.ranker.model.temperature if config.temperature is None else config.temperature
        margin = self.recipe.margin
        heat = config.teacher_temperature
        weight = config.teacher_weight
        batch = ScoredBatch(
            scores,
            labels,
            target=target,
            margin=margin,
            temperature=temperature,
            n_classes=self.classes,
            teacher=teacher,
            teacher_temperature=heat,
            teacher_weight=weight,
        )
        return objective.loss(batch)

    def _keep_hardest(self, inputs: dict[str, Tensor], labels: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Take the answers that a hinge has no gradient for out of the batch: all but a+ and the hardest a- of each.

        They are some 960 of 1,000. To find them needs no gradient, and a question is matched with its own alone.
        """
        model = self.ranker.model.eval()
        with torch.no_grad():
            questions = model.encode_questions(TokenBatch(inputs["question_ids"], inputs["question_mask"]))
            ids = inputs["answer_ids"]
            mask = inputs["answer_mask"]
            lengths = mask.sum(dim=1)
            order = lengths.argsort()
            places = order.argsort()
            parts = []
            # A thousand at once are gigabytes for a CPU, half of them padding.
            for rows in order.split(len(order) if ids.is_cuda else 256):
                longest = int(lengths[rows[-1]])
                parts.append(model.encode_answers(TokenBatch(ids[rows, :longest], mask[rows, :longest])))
            answers = States.stack(parts)
            kept = [target]
            is_wrong = relevance(labels, self.classes) == NEGATIVE
            for question, wrong in zip(inputs["question_rows"], is_wrong, strict=True):
                wrong_rows = wrong.nonzero().squeeze(1)
                if len(wrong_rows):
                    scores = model.match(questions[question.view(1)], answers.selected(places[wrong_rows]))
                    kept.append(wrong_rows[scores.argmax().view(1)])
        model.train()
        columns = torch.cat(kept).unique()
        inputs |= {name: inputs[name][columns] for name in ("answer_ids", "answer_mask")}
        return labels[:, columns], torch.searchsorted(columns, target)

    def evaluate(self, *args: Any, metric_key_prefix: str = "eval", **kwargs: Any) -> dict[str, float]:
        learnt = self.ranker.model.named_parameters()
        round_as_stored((name, weight) for name, weight in learnt if weight.requires_grad)
        scores = self.dev.timed_scores(self.ranker)
        step = self.state.global_step
        epoch = Epoch.of(round(step / len(self.batches)), self.dev, self.ranker, scores)
        self.kept.add(step, epoch)
        measures = {f"{metric_key_prefix}_{name}": value for name, value in epoch.measures.items()}
        measures[SECONDS] = time.perf_counter() - self.started
        self.log(measures)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, measures)
        return measures


def _arguments(states: ResumeFolder, config: TrainingConfig, recipe: Recipe, device: torch.device) -> TrainingArguments:
    precision = "off"
    if device.type == "cuda":
        precision = config.mixed_precision
    if precision == "auto" and torch.cuda.is_bf16_supported(including_emulation=False):
        precision = "bf16"
    return OnOneDevice(
        on=device,
        output_dir=str(states.folder),
        num_train_epochs=recipe.epochs,
        per_device_train_batch_size=recipe.batch_size,
        lr_scheduler_type="linear" if recipe.schedule == "linear" else "constant",
        max_grad_norm=recipe.max_grad_norm,
        eval_strategy="epoch",
        save_strategy="epoch",
        logging_strategy="epoch",
        load_best_model_at_end=True,
        metric_for_best_model="MRR",
        seed=config.seed,
        bf16=precision == "bf16",
        fp16=precision == "fp16",
        dataloader_pin_memory=device.type == "cuda",
        remove_unused_columns=False,  # our batches have their own column names
        label_names=[],
        report_to="none",
        disable_tqdm=False,
    )
