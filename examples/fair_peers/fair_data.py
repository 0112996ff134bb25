"""The data sets on which ours and the peers are tuned and compared."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ap_ranker.data.dataset import Dataset
from ap_ranker.data.faq import DEFAULT_MATCH
from ap_ranker.data.reader import read_dataset
from ap_ranker.data.tables import read_table
from ap_ranker.data.wordings import with_wordings
from ap_ranker.errors import InputError, check_known
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.files import csv_text, write_text_atomically
from ap_ranker.models.pretrained import DEFAULT_ENCODER
from ap_ranker.training.config import TrainingConfig, read_training_config
from ap_ranker.training.dev_set import dev_set_of, with_all_wordings
from ap_ranker.training.training_data import read_training_data

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parent
sys.path += [str(EXAMPLES), str(EXAMPLES / "reproduce")]

from protocols import PROTOCOLS, read_parts  # noqa: E402
from result_rows import encoder_at_hand  # noqa: E402

EXAMPLE = "example"
PUBLIC = {
    "covid_questions": ("COVID-19, a public FAQ", "english"),
    "openstreetmap": ("Mapping, a public FAQ", "english"),
    "robo_en": ("A platform for bots, a public FAQ", "english"),
    "cosibot_de": ("COVID-19 in German, a public FAQ", "german"),
}
"""FAQs that `examples/every_step/prepare_tables.py` writes -> the titles of their tables, and BM25's stemmer."""

NAMES = (EXAMPLE, *PUBLIC, *PROTOCOLS)

JUDGED_BY_HAND = "train"
"""The training file of TREC-QA whose 94 questions people have judged.

The papers' tables learn from train-all, 13 times as many with labels made by patterns: hours for each trial of a peer.
"""

DEV_SHARE = 0.25
"""Of the training questions of a public FAQ, which has no dev questions of its own: enough to tell settings apart."""


@dataclass(frozen=True)
class FairData:
    """A data set with the settings that no trial changes, such as BM25's stemmer and the encoder."""

    name: str
    title: str
    base: TrainingConfig
    training: Dataset
    dev: Dataset
    test: Dataset

    def dev_set(self, seed: int) -> EvaluationSet:
        """The dev questions as they choose an epoch in a run of this seed."""
        return dev_set_of(with_all_wordings(self.dev, self.training), replace(self.base, seed=seed))

    @property
    def test_set(self) -> EvaluationSet:
        """The test questions, where a search knows the training questions as wordings."""
        return EvaluationSet(with_wordings(self.test, self.training), language=self.base.language)

    @property
    def encoder(self) -> str:
        """What all systems start from, by its name or folder."""
        return str(self.base.model_options["encoder"])


def read_fair_data(name: str, data: Path | None, tables: Path, encoder: str = DEFAULT_ENCODER) -> FairData:
    """Read a data set.

    Args:
        name: one of `NAMES`.
        data: a folder with a folder for each data set but the example.
        tables: where a public FAQ is written as a folder that the product reads.
        encoder: what all systems start from.

    Raises:
        InputError: an unknown name, or a folder or file is missing.
    """
    check_known("a data set", name, NAMES)
    if name == EXAMPLE:
        base = read_training_config(EXAMPLES / "faq" / "settings.yaml", {})
        return _read_faq(name, "The example FAQ, written for this project", base, EXAMPLES / "faq", encoder)
    if data is None:
        raise InputError(f"{name}: expected a folder that has it, found none. Name it with --data.")
    if name in PUBLIC:
        title, language = PUBLIC[name]
        base = TrainingConfig(language=language, dev_share=DEV_SHARE)
        return _read_faq(name, title, base, write_tables(data / name, tables / name), encoder)
    base = read_training_config(EXAMPLES / "reproduce" / name / "ap-transformer.yaml", {})
    title = PROTOCOLS[name].title
    train = None
    if name == "trecqa":
        title = "TREC-QA, 83 training questions"
        train = JUDGED_BY_HAND
    parts = read_parts(name, data / name, DEFAULT_MATCH, train=train)
    return FairData(name, title, _on(base, encoder), parts.training, parts.dev, parts.test)


def write_tables(source: Path, target: Path) -> Path:
    """Write the questions of a public FAQ as train.csv and test.csv beside its answers."""
    questions = source / "questions.csv"
    if not questions.is_file():
        raise InputError(
            f"{source}: expected questions.csv and answers.csv, found none. Make them with "
            "examples/every_step/prepare_tables.py, whose README says how."
        )
    target.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source / "answers.csv", target / "answers.csv")
    rows = read_table(questions).rows
    lines: dict[str, list[Sequence[str]]] = {"train": [], "test": []}
    for row in rows:
        lines[row.need("split")].append((row.need("question"), row.need("answer_ids")))
    for split, own_lines in lines.items():
        write_text_atomically(target / f"{split}.csv", csv_text(("question", "answer_ids"), own_lines))
    return target


def _read_faq(name: str, title: str, base: TrainingConfig, folder: Path, encoder: str) -> FairData:
    training, dev = read_training_data(folder, None, None, base)
    test = read_dataset(folder, "test", match=base.match)
    # Without the folder's own path, a run may go on where the data lies elsewhere.
    parts = [replace(part, name=f"{name}/{Path(part.name).name}") for part in (training, dev, test)]
    return FairData(name, title, _on(base, encoder), *parts)


def _on(base: TrainingConfig, encoder: str) -> TrainingConfig:
    return replace(base, options={**base.options, "encoder": encoder_at_hand(encoder)})
