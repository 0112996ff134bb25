"""Makes more questions to learn from: the sentences of answers, and the training questions with other words.

Each sentence of an answer is a question for that answer. For a student of a teacher, words are exchanged for their
neighbours among the word vectors, as in TinyBERT (Jiao et al. 2020, section "Data Augmentation"), or left out, and some
questions go on as another one does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from ap_ranker.data.dataset import Dataset, Question
from ap_ranker.text.near_copies import near_any
from ap_ranker.text.tokenizer import split_words
from ap_ranker.training.find_vectors import PretrainedVectors

EXCHANGED = 0.25
LEFT_OUT = 0.15
"""Shares of the words."""

JOINED = 1 / 3
"""The share of the questions that begin as one question and end as another."""

NEIGHBOURS = 8
LEAST_COSINE = 0.4
"""Maximum number of words that take a word's place, and their least cosine to it: most function words have none."""

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")


def with_answer_sentences(data: Dataset) -> Dataset:
    """Add a question for each sentence of the right answers that have several sentences."""
    existing = {text.casefold() for text in data.question_texts}
    added: list[Question] = []
    right_rows: dict[int, None] = {}  # in the order in which the questions name them
    for question in data.questions:
        right_rows |= dict.fromkeys(question.positives)
    for row in right_rows:
        sentences = _sentences_of(data.answers[row].text)
        if len(sentences) > 1:
            for number, sentence in enumerate(sentences):
                if sentence.casefold() not in existing:
                    added.append(Question(f"sentence-{row}-{number}", sentence, (row,)))
    # An answer's text may include its stored question.
    if data.withheld:
        withheld = near_any({question.text for question in added}, data.withheld)
        added = [question for question in added if question.text not in withheld]
    return replace(data, questions=[*data.questions, *added])


def _sentences_of(text: str) -> list[str]:
    parts = map(str.strip, _SENTENCE_END.split(text))
    return [part for part in parts if part]


def augmented_questions(data: Dataset, count: int, neighbours: Mapping[str, Sequence[str]], seed: int) -> list[str]:
    """`count` texts made of the data's questions, fewer where some are equal; `neighbours` may take a word's place."""
    rng = np.random.default_rng(seed)
    texts = list(filter(None, map(split_words, data.question_texts)))
    made: dict[str, None] = {}
    for i in range(count if texts else 0):
        words = texts[i % len(texts)]
        if rng.random() < JOINED:
            other = texts[int(rng.integers(len(texts)))]
            words = words[: int(rng.integers(len(words))) + 1] + other[int(rng.integers(len(other))) :]
        changed = []
        for word in words:
            chance = rng.random()
            near = neighbours.get(word)
            if chance < EXCHANGED and near:
                neighbour = int(rng.integers(len(near)))
                changed.append(near[neighbour])
            elif not EXCHANGED <= chance < EXCHANGED + LEFT_OUT:
                changed.append(word)
        made[" ".join(changed)] = None
    return [text for text in made if text]


def find_neighbours(data: Dataset, vectors: PretrainedVectors, most: int) -> dict[str, list[str]]:
    """The nearest words of each word of the data, by cosine, among these and the vectors' `most` first ones."""
    texts = [*data.question_texts, *data.answer_texts]
    all_words = chain.from_iterable(map(split_words, texts))
    data_words = list(filter(str.isalpha, dict.fromkeys(all_words)))
    further = [word.lower() for word in vectors.words[:most] if word.isalpha()]
    words = list(dict.fromkeys([*data_words, *further]))
    table = vectors.table(["[PAD]", "[UNK]", *words], np.random.default_rng(0))[2:]
    table /= np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-12)
    near: dict[str, list[str]] = {}
    for start in range(0, len(data_words), 512):
        for row, values in enumerate(table[start : min(start + 512, len(data_words))] @ table.T, start):
            values[row] = -1.0
            close = np.flatnonzero(values >= LEAST_COSINE)
            best = close[np.argsort(-values[close], kind="stable")][:NEIGHBOURS]
            near[data_words[row]] = [words[i] for i in best]
    return near
