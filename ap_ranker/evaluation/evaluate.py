"""Evaluates a model beside BM25 on the same questions and candidates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ap_ranker.data.dataset import Answer, Dataset, answerable
from ap_ranker.data.faq import Match
from ap_ranker.data.wordings import read_with_wordings, with_wordings_of
from ap_ranker.errors import InputError
from ap_ranker.evaluation.comparison import EarlierCheckpoint, changes
from ap_ranker.evaluation.fusion import FusionWeights, fit_weight, fuse
from ap_ranker.evaluation.gain import Gain, gain_over_bm25
from ap_ranker.evaluation.metrics import means, measure_each
from ap_ranker.evaluation.scoring import CandidateScores, WordingScores, score_candidates, score_wordings
from ap_ranker.evaluation.warnings import candidate_warnings, seen_warnings
from ap_ranker.ranking.bm25 import BM25, best_rows, bm25_name
from ap_ranker.ranking.cache import EncodingCache
from ap_ranker.ranking.quantization import parse_dtype
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.wordings import DEFAULT_WEIGHT
from ap_ranker.text.keys import question_key

CANDIDATES = 100
"""Number of answers that BM25 retrieves if the data names no candidates and has more answers than `RANK_ALL`."""

RANK_ALL = 1000
"""Maximum number of answers that are all candidates: so few need no first stage, which would cost recall."""

HYBRID_CACHE_BYTES = 2 * 10**9
"""For the answers' states while candidates are fetched by the model's vectors, and then ranked."""

DIVERGED = (
    "The model has diverged: expected scores that are finite numbers, found others. "
    "Train it again with a lower learning_rate, or with another objective."
)


@dataclass(frozen=True)
class EvaluationReport:
    """The result of an evaluation.

    Attributes:
        dataset: the questions and answers.
        n_questions: Q, number of questions that the means are over.
        unanswerable: number of questions left out because the data has no right answer for them.
        candidates: what was ranked, in words.
        model: measure -> mean; with the best known wordings, if the checkpoint has a weight for them.
        bm25: the same for BM25.
        fusion: the same for both scores added, with the checkpoint's weight of BM25; `None` if that is 0.
        model_each: measure -> (Q,) values, one per question.
        bm25_each: the same for BM25.
        encode_seconds: time to encode all answers once.
        seconds_per_question: time to encode a question and match it with its encoded candidates.
        fusion_each: as `model_each`, for the fusion.
        scores: the model's scores of each question's candidates.
        bytes_per_answer: of the states kept of an answer; mean over the answers.
        model_name: the model's registry name; empty if unknown.
        comparison: an earlier checkpoint on the same questions, if one was named.
        without_wordings: as `model`, by the answers alone; `None` if `model` has no wordings either.
        bm25_language: the language of BM25's stemmer; `None` for no stemmer.
        known: (Q,) whether each question was seen in training or is a known wording of an answer, word for word.
        warnings: why the numbers may be too high, in words.
        match: the text of an entry that was ranked.
    """

    dataset: Dataset = field(repr=False)
    n_questions: int
    unanswerable: int
    candidates: str
    model: dict[str, float]
    bm25: dict[str, float]
    fusion: dict[str, float] | None
    model_each: dict[str, np.ndarray]
    bm25_each: dict[str, np.ndarray]
    encode_seconds: float
    seconds_per_question: float
    fusion_each: dict[str, np.ndarray] | None = None
    scores: Sequence[np.ndarray] = ()
    bytes_per_answer: float = 0.0
    model_name: str = ""
    comparison: EarlierCheckpoint | None = None
    without_wordings: dict[str, float] | None = None
    bm25_language: str | None = None
    known: np.ndarray | None = None
    warnings: Sequence[str] = ()
    match: Match = Match.both

    @property
    def bm25_name(self) -> str:
        """BM25 as a table names it."""
        return bm25_name(self.bm25_language)

    @property
    def fused(self) -> dict[str, float]:
        """The measures that a user of the checkpoint gets: `fusion`, or `model` if BM25 has no weight."""
        return self.fusion or self.model

    @cached_property
    def gain(self) -> Gain:
        """The difference to BM25, tested for significance."""
        fusion = self.fusion_each["MRR"] if self.fusion_each else None
        return gain_over_bm25(self.model_each["MRR"], self.bm25_each["MRR"], fusion)

    @property
    def n_known(self) -> int:
        """Number of questions that are not new to the checkpoint."""
        return 0 if self.known is None else int(self.known.sum())

    def new(self, each: Mapping[str, np.ndarray]) -> dict[str, float] | None:
        """The means of (Q,) values over the new questions; `None` if all are new, or none is."""
        if self.known is None or not 0 < self.n_known < len(self.known):
            return None
        return means({name: values[~self.known] for name, values in each.items()})

    def as_json(self) -> dict[str, Any]:
        """The means, times and, if there is one, the comparison as basic types."""
        measures = ("n_questions", "model", "without_wordings", "bm25", "fusion", "n_known")
        costs = ("encode_seconds", "seconds_per_question", "candidates", "bm25_language")
        numbers = {name: getattr(self, name) for name in (*measures, *costs)}
        each = {"model": self.model_each, "bm25": self.bm25_each, "fusion": self.fusion_each}
        numbers |= {"new": {name: self.new(values) if values else None for name, values in each.items()}}
        numbers |= {"warnings": list(self.warnings)}
        return numbers | ({"compare": self.comparison.as_json()} if self.comparison else {})


def evaluate(
    ranker: Ranker | str | Path,
    data: Dataset | str | Path,
    *,
    compare: str | Path | None = None,
    answers: Path | None = None,
    pools: Path | None = None,
    no_pools: bool = False,
    clean: bool = False,
    match: Match | None = None,
    wordings: str | Path | None = None,
    hybrid: bool = False,
    dtype: str | None = None,
    device: str | None = None,
    columns: tuple[str, str] | None = None,
) -> EvaluationReport:
    """Rank each answerable question's candidates with the model and with BM25, stemmed as in the model's training.

    Args:
        ranker: a ranker, a checkpoint folder or a hub name.
        data: the questions: a data set, a file, or a folder with `test.*`.
        compare: an earlier checkpoint to compare with on the same questions and candidates.
        answers: the file of all answers, such as the FAQ of a table of pairs, as for `read_dataset`.
        pools: the file of candidate pools, as for `read_dataset`.
        no_pools: ignore the data's candidate pools.
        clean: leave out questions whose candidates are all right.
        match: as for `read_dataset`; by default as the checkpoint was trained.
        wordings: a file of known wordings; by default, `train.*` if `data` is a folder.
        hybrid: of more than `RANK_ALL` answers, fetch candidates by the model's vectors beside BM25.
        dtype: of the answers' states: `float32`, `float16` or `int8`; only for checkpoints that are loaded here. By
            default as `AnswerRanker` stores them.
        device: as for `Ranker.from_pretrained`.
        columns: the names of the columns of questions and answers, as for `read_dataset`.

    Raises:
        InputError: no such checkpoint or data, no question with a right answer, or scores that are not finite numbers.
    """
    if pools and no_pools:
        raise InputError("Expected either --pools, which names the candidates, or --no-pools, found both.")
    # Quantizes the states even if it stores none; with `hybrid` they are needed twice.
    stored = HYBRID_CACHE_BYTES if hybrid else 0

    def load(checkpoint: str | Path) -> Ranker:
        return Ranker.from_pretrained(checkpoint, device, cache=EncodingCache(stored, parse_dtype(dtype)))

    if not isinstance(ranker, Ranker):
        ranker = load(ranker)
    match = match or _trained_match(ranker)
    earlier = None if compare is None else load(compare)
    if not isinstance(data, Dataset):
        data = read_with_wordings(
            data, "test", wordings=wordings, answers=answers, pools=pools, match=match, columns=columns
        )
    elif wordings is not None:
        data = with_wordings_of(data, wordings)
    data = data.without_pools() if no_pools else data
    evaluation_set = EvaluationSet(
        data.clean() if clean else data, language=ranker.bm25_language, retriever=ranker if hybrid else None
    )
    report = replace(_with_cautions(evaluation_set.report(ranker, as_served=True), evaluation_set, ranker), match=match)
    if earlier is None:
        return report
    before = evaluation_set.with_language(earlier.bm25_language).report(earlier, as_served=True)
    differences = changes(evaluation_set, before, report)
    return replace(
        report, comparison=EarlierCheckpoint(str(compare), before, differences, match, _trained_match(earlier))
    )


def _with_cautions(report: EvaluationReport, evaluation_set: EvaluationSet, ranker: Ranker) -> EvaluationReport:
    seen = ranker.seen_in_training([question.text for question in evaluation_set.questions])
    verbatim = np.array([rows.any() for rows in evaluation_set.verbatim])
    known = verbatim if seen is None else verbatim | np.array(seen)
    warnings = [*candidate_warnings(evaluation_set.dataset), *seen_warnings(seen)]
    return replace(report, known=known, warnings=warnings)


def _trained_match(ranker: Ranker) -> Match:
    return Match(ranker.config.training.get("match", Match.both) if ranker.config else Match.both)


class EvaluationSet:
    """Questions with fixed candidates, to be ranked repeatedly: after each epoch of a model, or by many models.

    Args:
        dataset: questions and answers.
        unanswerable: include the questions without a right answer; they can be ranked, but no measure counts them.
        retriever: fetches candidates by its vectors beside BM25, as `HybridRetriever` does; `None`: BM25 alone.
        language: of BM25's stemmer; `None` for no stemmer.

    Attributes:
        questions: the answerable questions; with `unanswerable`, all.
        pools: the candidates of each question.
        candidates: how the candidates were chosen, in words.

    Raises:
        InputError: no question has a right answer; by all methods that take or compute scores: a score is not finite.
    """

    def __init__(
        self,
        dataset: Dataset,
        *,
        unanswerable: bool = False,
        language: str | None = None,
        retriever: Ranker | None = None,
    ) -> None:
        self.dataset = dataset
        self.language = language
        self.questions = answerable(dataset)
        if unanswerable:
            self.questions = list(dataset.questions)
        self.pools, self.candidates = self._choose_candidates(retriever)

    @cached_property
    def _index(self) -> BM25:  # lazy: small data with given candidates does not need it in training
        return BM25([answer.text for answer in self.dataset.answers], language=self.language)

    def with_language(self, language: str | None) -> EvaluationSet:
        """The same candidates beside BM25 of another language, for the fusion of a checkpoint trained with that."""
        if language == self.language:
            return self
        pairs = zip(self.questions, self.pools, strict=True)
        pooled = replace(self.dataset, questions=[replace(question, candidates=rows) for question, rows in pairs])
        return EvaluationSet(pooled, language=language)

    @cached_property
    def bm25_scores(self) -> list[np.ndarray]:
        """BM25's scores of each question's candidates."""
        pairs = zip(self.questions, self.pools, strict=True)
        return [self._index.scores(question.text)[list(rows)].astype(np.float64) for question, rows in pairs]

    @cached_property
    def verbatim(self) -> list[np.ndarray]:
        """Whether each question is a known wording of each of its candidates, word for word."""
        rows_of: defaultdict[str, list[int]] = defaultdict(list)
        for row, answer in enumerate(self.dataset.answers):
            for text in answer.wordings:
                rows_of[question_key(text)].append(row)
        known = [rows_of.get(question_key(question.text), []) for question in self.questions]
        return [np.isin(rows, right) for rows, right in zip(self.pools, known, strict=True)]

    @cached_property
    def bm25_each(self) -> dict[str, np.ndarray]:
        """BM25's measures on the same candidates, question by question."""
        return self.measures_each(self.bm25_scores)

    @property
    def bm25(self) -> dict[str, float]:
        """BM25's measures on the same candidates."""
        return means(self.bm25_each)

    def random(self, orders: int = 20) -> dict[str, float]:
        """The mean measures of random orders of the candidates, a baseline."""
        rng = np.random.default_rng(1)
        runs = [self.measures([rng.random(len(rows)) for rows in self.pools]) for _ in range(orders)]
        return {name: float(np.mean([measures[name] for measures in runs])) for name in runs[0]}

    def timed_scores(
        self, ranker: Ranker, on_progress: Callable[[int, int], None] = lambda done, total: None
    ) -> CandidateScores:
        """The model's scores of each question's candidates, with the time taken."""
        scores = score_candidates(ranker, self.dataset, self.questions, self.pools, on_progress)
        _check_finite(scores.by_question)
        return scores

    def bm25_weight(self, scores: Sequence[np.ndarray]) -> float:
        """The best weight of BM25's scores in the fusion with a model's; 0 if they do not help."""
        return self._best_weight(scores, self.bm25_scores)

    def wording_scores(self, ranker: Ranker, scores: CandidateScores) -> WordingScores | None:
        """The scores of the best known wordings; `None` if the model cannot compare them, or there are none.

        Args:
            ranker: the model.
            scores: its scores of this set's candidates.
        """
        vectors = scores.question_vectors
        if scores.cosines is None or vectors is None or not any(answer.wordings for answer in self.dataset.answers):
            return None
        return score_wordings(ranker, self.dataset, self.questions, self.pools, scores.cosines, vectors)

    def fit_fusion(self, ranker: Ranker, scores: CandidateScores) -> tuple[CandidateScores, FusionWeights]:
        """Fit the weights of the known wordings, then that of BM25, each 0 if it does not help.

        Args:
            ranker: the model.
            scores: its scores of this set's candidates.

        Returns:
            The scores with the known wordings, and the weights. Without known wordings, theirs is the default.
        """
        wordings = self.wording_scores(ranker, scores)
        if wordings is not None:
            weight = self._best_weight(scores.by_question, wordings.by_question)
            scores = scores.with_wordings(wordings, weight) if weight else scores
        else:
            weight = 0.0 if scores.cosines is None or self.dataset.judged else DEFAULT_WEIGHT
        return scores, FusionWeights(weight, self.bm25_weight(scores.by_question))

    def with_wordings(self, ranker: Ranker, scores: CandidateScores, weight: float) -> CandidateScores:
        """Add the scores of the best known wordings, if there are any.

        Args:
            ranker: the model.
            scores: its scores of this set's candidates.
            weight: of the wordings; 0 for none.
        """
        wordings = self.wording_scores(ranker, scores) if weight else None
        return scores if wordings is None else scores.with_wordings(wordings, weight)

    def measures_before_fitting(self, ranker: Ranker, scores: CandidateScores) -> dict[str, float]:
        """The mean measures with the known wordings at their default weight, or without them if that is better.

        Training chooses its best epoch by them, and fits the weight to that epoch alone (`fit_fusion`).

        Args:
            ranker: the model.
            scores: its scores of this set's candidates.
        """
        raised = self.with_wordings(ranker, scores, DEFAULT_WEIGHT)
        each = [values for values in (raised.by_question, raised.without_wordings) if values is not None]
        return max(map(self.measures, each), key=lambda measures: measures["MRR"])

    def _best_weight(self, scores: Sequence[np.ndarray], added: Sequence[np.ndarray]) -> float:
        right = [np.isin(rows, question.positives) for rows, question in zip(self.pools, self.questions, strict=True)]
        # If BM25 retrieved the candidates, a right one may be missing: such a question is not informative.
        informative = [i for i, relevant in enumerate(right) if relevant.any()]
        model, others = [scores[i] for i in informative], [added[i] for i in informative]
        return fit_weight(model, others, [right[i] for i in informative])

    def measures(self, scores: Sequence[Sequence[float] | np.ndarray]) -> dict[str, float]:
        """The mean measures of each question's scores."""
        return means(self.measures_each(scores))

    def first(self, question: int, scores: Sequence[float] | np.ndarray) -> Answer:
        """The first candidate of a question, given by its position, by these scores; ties break as in the measures."""
        answers = [self.dataset.answers[row] for row in self.pools[question]]
        return max(zip(scores, answers, strict=True), key=lambda pair: (pair[0], pair[1].id))[1]

    def report(self, ranker: Ranker, *, as_served: bool = False) -> EvaluationReport:
        """The model, BM25 and their fusion side by side.

        Args:
            ranker: the ranker.
            as_served: as for `report_of`.
        """
        if ranker.config is None:
            return self.report_of(self.scores(ranker), 0.0, as_served=as_served)
        report = self.report_of(self.scores(ranker), ranker.config.bm25_weight, as_served=as_served)
        return replace(report, model_name=ranker.config.model)

    def scores(self, ranker: Ranker) -> CandidateScores:
        """The scores of each question's candidates as a user of the checkpoint gets them: with the known wordings."""
        weight = ranker.config.wording_weight if ranker.config else 0.0
        return self.with_wordings(ranker, self.timed_scores(ranker), weight)

    def report_of(self, scores: CandidateScores, weight: float, *, as_served: bool = False) -> EvaluationReport:
        """As `report`, from known scores.

        Args:
            scores: scores of this set's candidates.
            weight: the weight of BM25 in the fusion.
            as_served: put the answer first of which a question is a known wording, word for word (`AnswerPolicy`).
        """
        verbatim = self.verbatim if as_served else [np.zeros(len(rows), dtype=bool) for rows in self.pools]
        ranked = _known_first(scores.by_question, verbatim)
        model = self.measures_each(ranked)
        fused = None
        if weight:
            fused = self.measures_each(_known_first(fuse(scores.by_question, self.bm25_scores, weight), verbatim))
        return EvaluationReport(
            dataset=self.dataset,
            n_questions=len(self.questions),
            unanswerable=len(self.dataset.questions) - len(self.questions),
            candidates=self.candidates,
            model=means(model),
            bm25=self.bm25,
            fusion=means(fused) if fused else None,
            model_each=model,
            bm25_each=self.bm25_each,
            encode_seconds=scores.encode_seconds,
            seconds_per_question=scores.question_seconds / len(self.questions),
            bytes_per_answer=scores.bytes_per_answer,
            fusion_each=fused,
            scores=ranked,
            without_wordings=self.measures(scores.without_wordings) if scores.without_wordings else None,
            bm25_language=self.language,
        )

    def measures_each(self, scores: Sequence[Sequence[float] | np.ndarray]) -> dict[str, np.ndarray]:
        """The measures question by question: measure -> (Q,) values."""
        _check_finite(scores)
        ids = [answer.id for answer in self.dataset.answers]
        relevant = {question.id: {ids[row]: 1 for row in question.positives} for question in self.questions}
        run = {
            question.id: {ids[row]: float(score) for row, score in zip(rows, values, strict=True)}
            for question, rows, values in zip(self.questions, self.pools, scores, strict=True)
        }
        return measure_each(relevant, run)

    def _choose_candidates(self, retriever: Ranker | None) -> tuple[list[tuple[int, ...]], str]:
        """The candidates of each question, and how they were chosen."""
        pools = [question.candidates for question in self.questions if question.candidates is not None]
        if len(pools) == len(self.questions):
            return pools, f"given with the data, {sum(map(len, pools)) / len(pools):.0f} per question"
        total = len(self.dataset.answers)
        if total <= RANK_ALL:
            return [tuple(range(total))] * len(self.questions), f"all {total} answers"
        pools = [_best(self._index.scores(question.text)) for question in self.questions]
        chosen = f"BM25's {CANDIDATES} best"
        if retriever is not None:
            vectors = retriever.embed_answers([answer.text for answer in self.dataset.answers]).numpy()
            asked = retriever.embed_questions([question.text for question in self.questions]).numpy()
            pools = [tuple(dict.fromkeys((*rows, *_best(vectors @ q)))) for rows, q in zip(pools, asked, strict=True)]
            chosen += f" and the {CANDIDATES} best by the model's vectors"
        hits = [bool(set(rows) & set(q.positives)) for rows, q in zip(pools, self.questions, strict=True)]
        recall = sum(hits) / len(hits)
        return pools, f"{chosen} of {total} answers, with a right one for {recall:.1%} of the questions"


def _known_first(scores: Sequence[np.ndarray], known: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Scores that rank the known candidates before all others, both in the order of their scores."""
    return [
        values + (np.ptp(values) + 1) * rows if rows.any() else values
        for values, rows in zip(scores, known, strict=True)
    ]


def _best(scores: np.ndarray) -> tuple[int, ...]:
    """The positions of the `CANDIDATES` highest scores, best first."""
    return tuple(best_rows(scores, CANDIDATES, above=-np.inf).tolist())


def _check_finite(scores: Sequence[Sequence[float] | np.ndarray]) -> None:
    if not all(np.isfinite(values).all() for values in scores):  # they have no order
        raise InputError(DIVERGED)
