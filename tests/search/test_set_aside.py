"""What a retraining compares on does not depend on the order of the FAQ, also of wordings that are near copies."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.search.retrain import _set_aside


def test_the_same_questions_are_set_aside_in_any_order(tmp_path: Path) -> None:
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefghiklmnoprstuvw", k=12)) for _ in range(180)]
    texts = [f"{one} {other}" for one, other in zip(words[::2], words[1::2], strict=True)]
    copies = [changed for text in texts for changed in (text.upper(), f"{text}?", f"{text}s")]
    questions = [Question(text, text, (0,)) for text in (*texts, *copies)]
    config: Any = SimpleNamespace(training={"epochs": 0})
    live: Any = SimpleNamespace(
        config=config,
        source=str(tmp_path),
        near_training=lambda asked: [False] * len(asked),
        chosen_by=lambda asked: None,
    )
    data = Dataset("faq", [Answer("1", "an answer")], questions)
    found = set()
    for seed in range(5):
        shuffled = draw.sample(questions, len(questions)) if seed else questions
        held, rest = _set_aside(replace(data, questions=shuffled), cast(Any, live))
        assert len(held.questions) == len(texts) // 2
        assert {each.text for each in held.questions}.isdisjoint(each.text for each in rest.questions)
        found.add(tuple(each.text for each in held.questions))
    assert len(found) == 1
