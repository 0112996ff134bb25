"""Trains a checkpoint anew on what is known of a FAQ by now, and serves it instead of the one before if it is better.

Both are asked questions that neither has learnt from: half of the known wordings that are no near copy of what the
served one has learnt or was chosen by, as its own files say. What visitors say has no part in it: the entries that are
searched have only wordings that somebody who answers for the FAQ has given or accepted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import fields, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from ap_ranker.data.dataset import Dataset, Question
from ap_ranker.data.split import DEV, split_questions
from ap_ranker.data.tables import read_table
from ap_ranker.data.wordings import with_wordings
from ap_ranker.errors import InputError
from ap_ranker.models.spec import Recipe
from ap_ranker.progress import Progress, untold
from ap_ranker.ranking.checkpoint import TRAINED_QUESTIONS, find_checkpoint, is_checkpoint, read_checkpoint_config
from ap_ranker.ranking.earlier_checkpoints import alone, exchange
from ap_ranker.ranking.fingerprint import checkpoint_version
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.rule import Basis
from ap_ranker.ranking.verdict import Verdict
from ap_ranker.search.setup import CHECKPOINT, SearchSetup
from ap_ranker.settings import read_fields
from ap_ranker.text.near_copies import near_any, near_groups
from ap_ranker.text.question_keys import question_key
from ap_ranker.training.calibrate import calibrate
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.objectives import objective_spec
from ap_ranker.training.train import train

MOST_HELD_OUT = 200
"""Number of new questions to compare on, at most half of them: what is more, the new one learns."""

CHOOSING = 20
MOST_DEV = 0.3
"""Number of further questions, if that is no larger share, to choose the epoch and the weights by."""


def retrain(
    setup: SearchSetup,
    changed: Mapping[str, Any],
    *,
    precision: float | None = None,
    on_progress: Progress = untold,
    **training: Any,
) -> Verdict:
    """Train with the served checkpoint's settings but for those `changed`, compare, and switch if that is recommended.

    What was calibrated is calibrated again: for `precision` or for the same target precisions, on the questions that
    the new one has not learnt from.

    Raises:
        InputError: nothing is new to the served one, the FAQ is another one, another process retrains, or the served
            checkpoint was changed meanwhile.
        WriteError: the disk is full, or the folder cannot be written.
    """
    assert setup.checkpoint is not None, "only a pipeline of the user's own names its checkpoint itself"
    current = find_checkpoint(setup.checkpoint)
    folder = Path(setup.checkpoint)
    if not folder.is_dir():
        advice = f"Download it, and name the folder: hf download {folder} --local-dir {CHECKPOINT}"
        raise InputError(f"Expected a checkpoint folder, which can be replaced, found {folder} of the hub. {advice}")
    folder = folder if setup.untrained is None else CHECKPOINT
    device = training.get("device")
    with alone(folder) as work:
        before = checkpoint_version(folder)
        ranker = Ranker.from_pretrained(current, device)
        ranker.source = str(folder)  # for messages: an untrained one is in a folder of this run
        settings = _settings(ranker, {**changed, "match": setup.match})
        questions = _questions(setup)
        for replaced in filter(is_checkpoint, {current, folder}):  # the second is not served if it is not recommended
            _check_same_faq(replaced, questions)
        held, rest = _set_aside(questions, ranker)
        share = max(settings.dev_share, min(MOST_DEV, CHOOSING / len(rest.questions)))
        learnt, choosing = split_questions(rest, share, settings.seed, on_progress)
        dev = replace(held, questions=[*held.questions, *choosing.questions])
        new = work / "checkpoint"
        verdict = train(learnt, dev, new, settings, before=ranker, on_progress=on_progress, **training).verdict
        assert verdict is not None, "the candidates of a FAQ are shared"
        if verdict.recommended:
            needed = _promised(ranker) if precision is None else {precision}
            calibrate(
                new,
                with_wordings(dev, learnt),
                precisions=sorted(needed) or None,
                device=device,
                on_progress=on_progress,
            )
            if checkpoint_version(folder) != before:
                raise InputError(f"{folder}: expected what was there before the training, found another. Try again.")
            exchange(folder, new, current)
    return verdict


def _settings(current: Ranker, changed: Mapping[str, Any]) -> TrainingConfig:
    """Those that a checkpoint was trained with; of an untrained one, the default ones with its encoder."""
    assert current.config is not None
    trained_with = current.config.training
    names = {setting.name for setting in fields(TrainingConfig)}
    if trained_with.get("teacher"):
        raise InputError(f"{current.source}: expected a checkpoint of `ap-ranker train`, found a student of `distill`.")
    if changed.get("effort"):
        names -= {setting.name for setting in fields(Recipe)}  # which depend on it
    if not objective_spec(str(trained_with.get("objective", "softmax"))).needs_gradient:
        names -= {"objective"}  # of a model that counts, which has no other
    if trained_with.get("epochs") == 0:
        kept_settings = {
            "model": current.config.model,
            "options": current.config.options,
            "language": current.bm25_language,
        }
    else:
        kept_settings = {name: value for name, value in trained_with.items() if name in names}
    overrides = {name: value for name, value in changed.items() if value is not None}
    return read_fields(TrainingConfig, kept_settings | overrides, current.source)


def _check_same_faq(checkpoint: Path, faq: Dataset) -> None:
    """Raise an InputError if a checkpoint is of another FAQ."""
    sketch = read_checkpoint_config(checkpoint).faq
    forms = [answer.parts for answer in faq.answers]
    if sketch is not None and not sketch.is_same(sketch.nearest_form(forms)):
        searched = faq.answers_file
        advice = f"Train one: ap-ranker train {searched} --output {CHECKPOINT}"
        raise InputError(f"{checkpoint}: expected a checkpoint of {searched}, found one of another FAQ. {advice}")


def _questions(setup: SearchSetup) -> Dataset:
    """The FAQ with its stored questions and all known wordings as questions."""
    assert setup.documents is not None
    faq = setup.faq()
    right: defaultdict[str, list[int]] = defaultdict(list)
    for row, answer in enumerate(faq.answers):
        for text in answer.wordings:
            right[text].append(row)
    stored = {entry.question for entry in setup.documents.entries}
    questions = []
    for text, rows in right.items():
        questions.append(Question(text, text, tuple(rows), stored=text in stored))
    answers = []
    for answer in faq.answers:
        stored_question = stored.intersection(answer.wordings[:1])  # none if the entry has only accepted wordings
        answers.append(replace(answer, wordings=tuple(stored_question)))
    return replace(faq, name=f"{faq.name} with accepted wordings", answers=answers, questions=questions)


def _set_aside(data: Dataset, current: Ranker) -> tuple[Dataset, Dataset]:
    """The questions to compare on, and those to learn from, none of which is near one of the former."""
    assert current.config is not None
    texts = data.question_texts
    dev = Path(current.source) / DEV
    learnt_from = current.near_training(texts)
    if learnt_from is None and current.config.training.get("epochs") != 0:
        expected = f"{current.source}: expected {TRAINED_QUESTIONS}, which says what it has learnt, found none"
        raise InputError(f"{expected}. Train it: ap-ranker train {data.answers_file} --output {CHECKPOINT}")
    nothing = [False] * len(texts)
    flags = zip(data.questions, learnt_from or nothing, current.chosen_by(texts) or nothing, strict=True)
    used: set[str] = set()
    for question, is_learnt, has_chosen in flags:
        if is_learnt or has_chosen or question.stored:
            used.add(question.text)
    if dev.is_file():  # it was chosen by these
        used |= {row.need("question") for row in read_table(dev).rows}
    near = near_any(set(texts), used)
    new = _without_near_copies([question for question in data.questions if question.text not in near])
    if len(new) < 2:
        raise InputError(
            f"{current.source}: expected at least 2 wordings that are new to it, half of them to compare on, found "
            f"{len(new)}. Accept some on the owner's page, or add some to {data.answers_file}."
        )
    held = new[: min(MOST_HELD_OUT, len(new) // 2)]
    withheld = near_any(set(texts), {question.text for question in held})
    rest = [question for question in data.questions if question.text not in withheld]
    return replace(data, questions=held), replace(data, questions=rest, withheld=frozenset(withheld))


def _without_near_copies(questions: list[Question]) -> list[Question]:
    """One of each group of questions that are near to each other, in an order that no file decides."""
    if not questions:
        return []
    shuffled = sorted(questions, key=_digest)
    groups = near_groups([question.text for question in shuffled]).tolist()
    # In the order of the groups' first questions, the last question of each.
    question_of = dict(zip(groups, shuffled, strict=True))
    return list(question_of.values())


def _digest(question: Question) -> tuple[bytes, str]:
    """What questions are shuffled by, the same each time."""
    key = question_key(question.text).encode("utf-8", "replace")
    return sha256(key).digest(), question.text


def _promised(ranker: Ranker) -> set[float]:
    """The target precisions that a checkpoint is calibrated for with questions."""
    served = ranker.decider().served
    if served is None or served.basis is Basis.PRIOR:
        return set()
    return set(map(float, served.thresholds))
