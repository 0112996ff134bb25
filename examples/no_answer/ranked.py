"""Ranks the questions of every FAQ here with several checkpoints, untrained and trained, and keeps the numbers.

What decides is fitted to them and judged by them without an encoder, in minutes (`general.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from faqs import DATA, DOCUMENTS, EXAMPLE, WORDINGS, Faq, off_topic, read_faqs, rows_of
from numpy.typing import NDArray

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.data.faq import Entry, write_entries
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.models.pretrained import DEFAULT_ENCODER
from ap_ranker.ranking import rule
from ap_ranker.ranking.random_questions import RANDOM_QUESTIONS
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.train import train
from ap_ranker.training.training_data import read_training_data
from ap_ranker.training.untrained import write_untrained

MODELS: dict[str, TrainingConfig | None] = {
    "untrained": None,
    "quick": TrainingConfig(effort="quick"),
    "trained": TrainingConfig(),
    "ap-cnn": TrainingConfig("ap-cnn", epochs=10),
}
"""The checkpoints of each FAQ: the encoder as it is, trained as `ap-ranker train` does, and one without an encoder.

Trained ones are those of the default encoder: of a larger one, they take hours.
"""

SMALL = 100
"""Number of entries up to which a FAQ is trained on in all these ways, not with `--quick` alone: more take an hour."""


@dataclass(frozen=True)
class Table:
    """(Q, N) the scores of Q questions with all N entries of a FAQ; `hubs` entries at the end are added ones.

    `kinds` (Q,) are dev and test; off: other matters of `off_topic.csv`; hub and other: those of `hub_questions.csv`
    that the added entries answer, and that nobody does; random: `RANDOM_QUESTIONS`. `fused` has BM25's score added.
    """

    family: str
    known: str
    language: str
    checkpoint: str
    hubs: int
    kinds: NDArray[np.str_]
    right: NDArray[np.bool_]
    model: NDArray[np.float32]
    fused: NDArray[np.float32]
    texts: NDArray[np.str_]  # (N, 2) of each entry, and its answer alone
    ids: NDArray[np.str_]

    def save(self, path: Path) -> None:
        """Write it into one file, as arrays."""
        np.savez_compressed(path, **vars(self))

    @classmethod
    def load(cls, path: Path) -> Table:
        """What `save` wrote."""
        with np.load(path, allow_pickle=False) as arrays:
            return cls(**{name: arrays[name] if arrays[name].ndim else arrays[name].item() for name in arrays.files})


def hub_entries(language: str | None, known: str) -> list[Answer]:
    """Entries that are near to every question: contact, more help, and one with hardly a text."""
    rows = [row for row in rows_of(DATA / "hub_entries.csv") if row["language"] == (language or "english")]
    if known == DOCUMENTS:
        return [Answer(f"hub-{n}", row["answer"], (), row["answer"]) for n, row in enumerate(rows)]
    texts = [f"{row['question']}\n{row['answer']}" for row in rows]
    return [
        Answer(f"hub-{n}", text, (row["question"],), row["answer"])
        for n, (row, text) in enumerate(zip(rows, texts, strict=True))
    ]


def hub_questions(language: str | None, answerable: str) -> list[str]:
    """Those that the added entries answer (yes), and those about other matters (no)."""
    rows = [row for row in rows_of(DATA / "hub_questions.csv") if row["language"] == (language or "english")]
    return [row["question"] for row in rows if row["answerable"] == answerable]


def table_of(faq: Faq, ranker: Ranker, checkpoint: str) -> Table:
    """All questions of a FAQ, as a checkpoint scores its entries and the added ones."""
    hubs, first = hub_entries(faq.language, faq.known), len(faq.data.answers)
    answers = [*faq.data.answers, *hubs]
    off = [*off_topic("dev"), *off_topic("test")]
    asked: list[tuple[str, str, Sequence[int]]] = [
        *((question.id.split("-")[0], question.text, question.positives) for question in faq.data.questions),
        *(("off", text, ()) for text in off),
        *(("hub", text, (first, first + 1)) for text in hub_questions(faq.language, "yes")),
        *(("other", text, ()) for text in hub_questions(faq.language, "no")),
        *(("random", text, ()) for text in RANDOM_QUESTIONS),
    ]
    everything = tuple(range(len(answers)))
    questions = [
        Question(f"{kind}-{n}", text, tuple(right), candidates=everything)
        for n, (kind, text, right) in enumerate(asked)
    ]
    evaluated = EvaluationSet(Dataset(faq.family, answers, questions), unanswerable=True, language=ranker.bm25_language)
    signals, weights = evaluated.signals(evaluated.scores(ranker)), ranker.decider().weights
    alone = [rule.rank(each, replace(weights, bm25=0.0)).scores for each in signals]
    both = [rule.ranked_scores(each, weights) for each in signals]
    right = np.zeros((len(asked), len(answers)), bool)
    for row, (_, _, rows) in enumerate(asked):
        right[row, list(rows)] = True
    return Table(
        faq.family,
        faq.known,
        faq.language or "english",
        checkpoint,
        len(hubs),
        np.array([kind for kind, _, _ in asked]),
        right,
        np.stack(alone).astype(np.float32),
        np.stack(both).astype(np.float32),
        np.array([answer.parts for answer in answers]),
        np.array([answer.id for answer in answers]),
    )


def write_checkpoint(faq: Faq, folder: Path, config: TrainingConfig | None, encoder: str) -> None:
    """As a search writes it untrained, or `ap-ranker train` on the training questions, or on the stored ones."""
    if config is None:
        texts, wordings = zip(*((answer.text, answer.wordings) for answer in faq.data.answers), strict=True)
        stored, options = faq.known != DOCUMENTS, {"encoder": encoder}
        write_untrained(folder, texts, faq.language, stored=stored, options=options, wordings=wordings)
        return
    if config.model == "ap-transformer":
        config = replace(config, options={"encoder": encoder})
    with TemporaryDirectory() as place:
        if faq.known == WORDINGS:
            data, dev = read_training_data(EXAMPLE / "train.csv", None, EXAMPLE / "answers.csv", config)
        else:
            path = Path(place) / "faq.csv"
            write_entries([Entry(each.wordings[0], each.answer, {}, "") for each in faq.data.answers], path)
            data, dev = read_training_data(path, None, None, config)
        train(data, dev, folder, config, device="cpu")


def tables(kept: Path, shared: Path | None, encoder: str, largest: int) -> list[Table]:
    """Those of all FAQs of at most `largest` entries and all checkpoints, made once for each encoder."""
    kept.mkdir(parents=True, exist_ok=True)
    made = []
    checkpoints = MODELS if encoder == DEFAULT_ENCODER else {"untrained": None}
    for name, config in checkpoints.items():
        for faq in sorted(read_faqs(shared), key=lambda each: len(each.data.answers)):
            is_best = faq.known == WORDINGS or (faq.known != DOCUMENTS and faq.family != "example")
            if len(faq.data.answers) > largest or not (config is None or is_best):
                continue
            if config is not None and config.effort != "quick" and len(faq.data.answers) > SMALL:
                continue
            path = kept / f"{Path(encoder).name}-{name}-{faq.name}.npz".replace(" ", "_")
            if not path.exists():
                with TemporaryDirectory() as folder:
                    write_checkpoint(faq, Path(folder) / "m", config, encoder)
                    table_of(faq, Ranker.from_pretrained(Path(folder) / "m", "cpu"), name).save(path)
            made.append(Table.load(path))
    return made
