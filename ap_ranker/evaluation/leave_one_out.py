"""Questions from a FAQ's own known wordings: each is asked as if nobody had known it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ap_ranker.data.dataset import Dataset, Question

MOST_QUESTIONS = 200
"""Number of wordings that are asked: with more, a calibration and the weight of wordings hardly change."""


def leave_one_out(data: Dataset) -> Dataset:
    """The data with a sample of its wordings as questions, those of entries that have another wording left.

    Evaluation takes each question as a new one, so an entry is found by its others. An entry's first wording, its
    stored question, is part of the text that is matched, and is never asked. All entries with a wording are right.
    """
    stored = {text for answer in data.answers for text in answer.wordings[:1]}
    further = dict.fromkeys(text for answer in data.answers for text in answer.wordings[1:])
    known = [text for text in further if text not in stored]
    drawn = [known[place] for place in np.sort(np.random.default_rng(0).permutation(len(known))[:MOST_QUESTIONS])]
    rows: dict[str, list[int]] = {text: [] for text in drawn}
    for row, answer in enumerate(data.answers):
        for text in rows.keys() & set(answer.wordings):
            rows[text].append(row)
    questions = [Question(str(place), text, tuple(rows[text])) for place, text in enumerate(drawn)]
    return replace(data, questions=questions)
