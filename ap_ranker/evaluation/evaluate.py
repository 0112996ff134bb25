"""Evaluates a model beside BM25 on the same questions and candidates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ap_ranker.data.dataset import Dataset
from ap_ranker.data.faq import Match
from ap_ranker.data.wordings import read_with_wordings
from ap_ranker.evaluation.evaluation_report import EarlierCheckpoint, EvaluationReport
from ap_ranker.evaluation.evaluation_set import EvaluationSet, easy_warnings
from ap_ranker.evaluation.metrics import Levels
from ap_ranker.evaluation.question_kinds import NEW
from ap_ranker.evaluation.scoring import ignored
from ap_ranker.evaluation.significance import randomisation_test
from ap_ranker.ranking.cache import EncodingCache
from ap_ranker.ranking.quantization import parse_dtype
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.text.near_copies import near_any

SHOWN = 10
"""Maximum number of improved questions to list, and of worsened ones."""


def evaluate(
    ranker: Ranker | str | Path,
    data: Dataset | str | Path,
    *,
    compare: str | Path | None = None,
    answers: Path | None = None,
    match: Match | None = None,
    wordings: str | Path | None = None,
    dtype: str | None = None,
    device: str | None = None,
    columns: tuple[str, str] | None = None,
    on_progress: Callable[[int, int], None] = ignored,
) -> EvaluationReport:
    """Rank each answerable question's candidates with the model and with BM25, stemmed as in the model's training.

    The model is a ranker, a checkpoint folder or a hub name, `compare` an earlier one to rank the same candidates with;
    `dtype` is of the answers' states of those that are loaded here, by default as `AnswerRanker` stores them.

    The questions are a data set, a file, or a folder with `test.*`; `answers`, `columns` and `match` (that of the
    training by default) are those of `read_dataset`; `wordings` is a file of known wordings, by default `train.*` of a
    folder. `on_progress` gets the number of answers read and their total.

    Raises:
        InputError: no such checkpoint or data, no question with a right answer, or scores that are not finite numbers.
    """

    def load(checkpoint: str | Path) -> Ranker:
        cache = EncodingCache(0, parse_dtype(dtype))  # it stores none, but quantizes the states
        return Ranker.from_pretrained(checkpoint, device, cache=cache)

    ranker = ranker if isinstance(ranker, Ranker) else load(ranker)
    match = match or trained_match(ranker)
    earlier = None if compare is None else load(compare)
    data = read_with_wordings(data, "test", wordings=wordings, answers=answers, match=match, columns=columns)
    evaluation_set = EvaluationSet(data, as_new=False, language=ranker.bm25_language)
    texts = evaluation_set.question_texts
    seen = ranker.seen_in_training(texts)
    exact = np.array([rows.any() for rows in evaluation_set.exact])
    is_known = exact if seen is None else exact | np.array(seen)
    near_wording = near_known_wordings(evaluation_set.dataset, texts)
    is_near = is_known | near_wording
    for trained in filter(None, (ranker, earlier)):  # new are questions that neither has learnt from
        near = trained.near_training(texts)
        if near is not None:
            is_near |= np.array(near)
    report = replace(
        evaluation_set.report(ranker, on_progress),
        match=match,
        known=is_known,
        near=is_near,
        warnings=[*easy_warnings(evaluation_set.dataset, seen), *chosen_warnings(ranker, texts)],
    )
    if earlier is None:
        return report
    before = evaluation_set.with_language(earlier.bm25_language).report(earlier, on_progress)
    differences = comparison(evaluation_set, before, report)
    return replace(report, comparison=EarlierCheckpoint(str(compare), before, differences, trained_match(earlier)))


def near_known_wordings(data: Dataset, texts: Sequence[str]) -> np.ndarray:
    """(Q,) whether each question is a near copy of a known wording or a stored question of the answers."""
    wordings = data.wordings
    near = near_any(set(texts), wordings) if wordings else set()
    return np.array([text in near for text in texts])


def chosen_warnings(ranker: Ranker, texts: Sequence[str]) -> list[str]:
    """That questions are dev questions of the training, for which its epoch and weights are the best ones."""
    chosen = sum(ranker.chosen_by(texts) or [])
    if not chosen:
        return []
    share = f"{chosen:,} of the {len(texts):,} questions"
    return [
        f"{share} chose the epoch and the weights of this checkpoint in training: on them it looks better than it is."
    ]


def trained_match(ranker: Ranker) -> Match:
    """The text of an entry that a checkpoint was trained with."""
    return Match(ranker.config.training.get("match", Match.both) if ranker.config else Match.both)


def comparison(evaluation_set: EvaluationSet, before: EvaluationReport, after: EvaluationReport) -> dict[str, Any]:
    """Compare the reports of an earlier and of a later model on the questions of one set, for a JSON file.

    `model` and `fusion` map measures to later minus earlier values, and to uncorrected p-values of the paired
    randomisation test; `new` has the same for the new questions alone. `better` and `worse` count the questions whose
    first right answer has another rank; `improved` and `worsened` list those of the largest gains in reciprocal rank,
    and losses.
    """
    gains = after.model_each["MRR"] - before.model_each["MRR"]

    def largest(gains: np.ndarray) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = []
        for row in np.argsort(-gains, kind="stable")[:SHOWN]:
            if gains[row] > 0:
                listed.append(_change(evaluation_set, before, after, row))
        return listed

    return {
        "model": _differences(before.model_each, after.model_each),
        "fusion": _fusion_differences(before, after),
        "new": _new_differences(before, after),
        "better": int((gains > 0).sum()),
        "worse": int((gains < 0).sum()),
        "improved": largest(gains),
        "worsened": largest(-gains),
    }


def _new_differences(before: EvaluationReport, after: EvaluationReport) -> dict[str, Any] | None:
    """The differences on the questions that are new to the later model; `None` if all are, or none is."""
    rows = after.rows_of[NEW]
    if not 0 < after.n_near < len(rows):
        return None
    differences: dict[str, Any] = {"n_questions": int(rows.sum())}
    differences["model"] = _differences(_of_rows(before.model_each, rows), _of_rows(after.model_each, rows))
    differences["fusion"] = _fusion_differences(before, after, rows)
    return differences


def _fusion_differences(
    before: EvaluationReport, after: EvaluationReport, rows: np.ndarray | slice = slice(None)
) -> dict[str, dict[str, float]] | None:
    """The differences with BM25, of some questions; a model without it counts as it is. `None` if neither has it."""
    if not before.fusion_each and not after.fusion_each:
        return None
    fused_before = before.fusion_each or before.model_each
    fused_after = after.fusion_each or after.model_each
    return _differences(_of_rows(fused_before, rows), _of_rows(fused_after, rows))


def _of_rows(values: Mapping[str, np.ndarray], rows: np.ndarray | slice) -> dict[str, np.ndarray]:
    """Measure -> its values of some questions."""
    return {measure: of_all[rows] for measure, of_all in values.items()}


def _differences(before: Mapping[str, np.ndarray], after: Mapping[str, np.ndarray]) -> dict[str, dict[str, float]]:
    differences: dict[str, float] = {}
    p_values: dict[str, float] = {}
    for name, values in after.items():
        differences[name] = float(values.mean() - before[name].mean())
        p_values[name] = randomisation_test(values, before[name])
    return {"difference": differences, "p_value": p_values}


def _change(asked: EvaluationSet, before: EvaluationReport, after: EvaluationReport, row: int) -> dict[str, Any]:
    """The rank of the first right answer of a question, from 1, the mean among equal scores; the first answers."""
    rankings = (before.rankings[row], after.rankings[row])
    pool = asked.pools[row]
    ranks: list[float | None] = []
    first_answers: list[str] = []
    for ranking in rankings:
        ranks.append(Levels.of(-ranking.levels, asked.right[row]).first_rank())
        first_row = pool[ranking.order[0]]
        first_answers.append(asked.dataset.answers[first_row].text)
    names = ("question", "rank_before", "rank_after", "first_before", "first_after")
    return dict(zip(names, (asked.questions[row].text, *ranks, *first_answers), strict=True))
