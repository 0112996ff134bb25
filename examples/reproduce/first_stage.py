"""What should find the candidates, and how many? Dev questions to all answers, ranked by one checkpoint.

python examples/reproduce/first_stage.py checkpoints/insuranceqa --data insuranceqa --output first_stage.json
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from options import Data
from protocols import read_parts, without_pools

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.data.dataset import Dataset, Question, sample_questions
from ap_ranker.data.faq import DEFAULT_MATCH
from ap_ranker.data.wordings import with_wordings
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.markdown import markdown_table
from ap_ranker.evaluation.metrics import means
from ap_ranker.evaluation.scoring import CandidateScores
from ap_ranker.evaluation.weight_fit import fit_weight
from ap_ranker.files import write_text_atomically
from ap_ranker.ranking.bm25 import BM25, best_rows
from ap_ranker.ranking.cache import CACHE_BYTES, EncodingCache
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.rule import Weights
from ap_ranker.ranking.wordings import WordingIndex

WORDS, VECTORS, WORDINGS = "BM25", "vectors", "wordings"
FIRST_STAGES = ((WORDS,), (VECTORS,), (WORDS, VECTORS), (WORDS, VECTORS, WORDINGS))
"""What finds candidates together: BM25, the cosine of a text's vector, that of an answer's best training question."""

DEPTHS = (50, 100, 200)
"""Candidates of each part of a first stage."""

DRAW = 1

Found = Sequence[Sequence[int]]
"""The rows of the answers that are found for each question, the best first."""


@dataclass(frozen=True)
class Line:
    """A first stage on all questions.

    Attributes:
        first_stage: its parts.
        depth: the most that each part finds.
        candidates: found for a question, on average.
        found: the share of questions with a right answer among their candidates.
        hit: the share of those with a right answer at the top.
        mrr: the mean reciprocal rank of the first right answer, 0 where none was found.
    """

    first_stage: str
    depth: int
    candidates: float
    found: float
    hit: float
    mrr: float


def command(
    checkpoint: Annotated[Path, typer.Argument(help="Of a model that has vectors of whole texts.")],
    data: Data,
    output: Annotated[Path, typer.Option(help="A file for the lines of the table, as JSON.")],
    questions: Annotated[int, typer.Option(help="Dev questions, drawn at random.")] = 1_000,
    name: Annotated[str, typer.Option(help="The data set, as in examples/reproduce.")] = "insuranceqa",
) -> None:
    """Print what each first stage finds, and what the checkpoint makes of it."""
    ranker = Ranker.from_pretrained(checkpoint, cache=EncodingCache(CACHE_BYTES))  # found and ranked
    parts = read_parts(name, data, DEFAULT_MATCH)
    asked = without_pools(sample_questions(parts.dev, questions, DRAW))
    found = find_candidates(ranker, with_wordings(asked, parts.training), max(DEPTHS))
    lines = measure(ranker, asked, found, DEPTHS)
    write_text_atomically(output, json.dumps([asdict(line) for line in lines], indent=1) + "\n")
    typer.echo(table(lines))


def find_candidates(ranker: Ranker, asked: Dataset, depth: int) -> dict[str, Found]:
    """What each part of a first stage finds, `depth` answers at most; the wordings are those of the answers."""
    questions = ranker.embed_questions([question.text for question in asked.questions]).numpy()
    answers = ranker.embed_answers(asked.answer_texts).numpy()
    words = BM25(asked.answer_texts, language=ranker.bm25_language)
    rows_and_texts = ((row, text) for row, answer in enumerate(asked.answers) for text in answer.wordings)
    index = WordingIndex.of(rows_and_texts, ranker.wording_vectors, ranker.embed_wordings)
    found: dict[str, list[list[int]]] = {WORDS: [], VECTORS: [], WORDINGS: []}
    for question, vector in zip(asked.questions, questions, strict=True):
        found[WORDS].append(best_rows(words.scores(question.text), depth).tolist())
        found[VECTORS].append(best_rows(answers @ vector, depth, above=-np.inf).tolist())
        nearest = best_rows(index.scores(vector), depth, above=-np.inf)
        found[WORDINGS].append(index.rows[nearest].tolist())
    return found


def measure(ranker: Ranker, asked: Dataset, found: Mapping[str, Found], depths: Sequence[int]) -> list[Line]:
    """Each first stage with each depth; what all of them find is scored once."""
    everything = [tuple(dict.fromkeys(chain(*lists))) for lists in zip(*found.values(), strict=True)]
    scored = EvaluationSet(with_candidates(asked, everything), language=ranker.bm25_language)
    scores = scored.timed_scores(ranker).by_question
    lines: list[Line] = []
    for parts in FIRST_STAGES:
        for depth in depths:
            pools: list[tuple[int, ...]] = []
            scores_of_pools: list[np.ndarray] = []
            for number, (rows, values) in enumerate(zip(everything, scores, strict=True)):
                pool = tuple(dict.fromkeys(chain.from_iterable(found[part][number][:depth] for part in parts)))
                score_of = dict(zip(rows, values.tolist(), strict=True))
                pools.append(pool)
                scores_of_pools.append(np.array([score_of[row] for row in pool]))
            evaluation_set = EvaluationSet(with_candidates(asked, pools), language=ranker.bm25_language)
            measures = means(cross_fitted(evaluation_set, CandidateScores(scores_of_pools, 0.0, 0.0)))
            has_right = [is_right.any() for is_right in evaluation_set.right]
            lines.append(
                Line(
                    first_stage=" and ".join(parts),
                    depth=depth,
                    candidates=float(np.mean([len(pool) for pool in pools])),
                    found=float(np.mean(has_right)),
                    hit=measures["P@1"],
                    mrr=measures["MRR"],
                )
            )
    return lines


def with_candidates(asked: Dataset, pools: Found) -> Dataset:
    """The same questions, each with candidates of its own."""
    questions: list[Question] = []
    for question, pool in zip(asked.questions, pools, strict=True):
        questions.append(replace(question, candidates=tuple(pool)))
    return replace(asked, questions=questions)


def cross_fitted(asked: EvaluationSet, scores: CandidateScores) -> dict[str, np.ndarray]:
    """The measures of each question, with the weight of BM25's score that is fitted to the other half of them."""
    rows = np.arange(len(asked.questions))
    weights_of_halves: list[Weights] = []
    for half in (0, 1):
        signals, right = asked.informative(scores, rows[rows % 2 != half])
        weights_of_halves.append(fit_weight(signals, right, Weights(), added="bm25"))
    return asked.measured(asked.rankings(scores, [weights_of_halves[row % 2] for row in rows.tolist()]))


def table(lines: Sequence[Line]) -> str:
    """The lines as Markdown."""
    titles = ["candidates by", "each", "in all", "with a right one", "Hit@1", "MRR"]
    rows: list[list[str]] = []
    for line in lines:
        numbers = [f"{value:.3f}" for value in (line.found, line.hit, line.mrr)]
        rows.append([line.first_stage, str(line.depth), f"{line.candidates:.0f}", *numbers])
    return markdown_table(titles, rows)


if __name__ == "__main__":
    with report_user_errors():
        typer.run(command)
