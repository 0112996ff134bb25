"""`diagnose`: what it finds in FAQs with one fault each, and what its advice is worth."""

from __future__ import annotations

import csv
import random
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import ROOT, write_checkpoint
from refusals import absent, refused
from typer.testing import CliRunner

from ap_ranker.cli.main import app
from ap_ranker.data.faq import Match, read_faq
from ap_ranker.evaluation.evaluate import evaluate
from ap_ranker.ranking.checkpoint import read_checkpoint_config, write_checkpoint_config
from ap_ranker.ranking.faq_sketch import FAQSketch
from ap_ranker.search.diagnosis import Finding, diagnose
from ap_ranker.search.setup import SearchSetup, set_up
from ap_ranker.training.untrained import write_untrained

ENTRIES = [
    ("Where is my parcel?", "Open the link in the mail we sent.", "track my order"),
    ("How do I pay?", "By card, by bank transfer or on account.", "payment"),
    ("Can I return a bike?", "Within thirty days, clean and without damage.", "send it back"),
    ("Which battery fits?", "Only the original one with the frame's number.", "battery"),
]


def write_faq(folder: Path, entries: Sequence[tuple[str, str, str]]) -> Path:
    path = folder / "FAQ.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("question", "answer", "wordings"), *entries])
    return path


def findings(faq: Path, checkpoint: Path, **more: object) -> list[Finding]:
    with set_up(faq, model=str(checkpoint), **more) as setup:  # type: ignore[arg-type]
        return diagnose(setup)


def advised(facts: str, found: Sequence[Finding]) -> bool:
    """Whether a finding tells these facts, and says what to do."""
    return any(each.advice and not absent(facts, f"{each.found} {each.advice}") for each in found)


@pytest.fixture
def trained(checkpoint: Path, tmp_path: Path) -> Path:
    """A checkpoint that knows `ENTRIES`."""
    texts = [f"{question}\n{answer}" for question, answer, _ in ENTRIES]
    return write_checkpoint("ap-cnn", tmp_path / "trained", faq=FAQSketch.with_language(texts))


def test_a_faq_without_faults(tmp_path: Path, trained: Path) -> None:
    found = findings(write_faq(tmp_path, ENTRIES), trained)
    assert [each.advice for each in found if each.advice] == [
        f"Calibrate on questions of users: ap-ranker calibrate {trained} QUESTIONS.csv"
    ]


def test_contradictions_come_first(tmp_path: Path, trained: Path) -> None:
    other = ("how do I pay", "In cash only, at the till of the shop.", "")
    first = findings(write_faq(tmp_path, [*ENTRIES, other]), trained)[0]
    assert advised("1 … line 3 … line 6", [first]), first


def test_copies_are_named(tmp_path: Path, trained: Path) -> None:
    copy = ("Is it on its way?", "Open the link in the mail we sent!", "")
    found = findings(write_faq(tmp_path, [*ENTRIES, copy]), trained)
    assert advised("1 … line 2 … line 6", found)


def test_rows_with_the_same_answer_are_wordings(tmp_path: Path, trained: Path) -> None:
    """A table of pairs has a row for each question: these are neither copies nor entries without a wording."""
    asked = [(text, answer, "") for question, answer, wording in ENTRIES for text in (question, wording)]
    found = findings(write_faq(tmp_path, asked), trained)
    assert not advised("nearly equal", found)
    assert not advised("known wording", found)
    assert any(not absent("8 entries have known wordings", each.found) for each in found)
    other = ("Has it left?", "Open the link in the mail we sent!", "")
    assert advised("1 … line 2 … line 10", findings(write_faq(tmp_path, [*asked, other]), trained))


def test_missing_wordings_are_named(tmp_path: Path, trained: Path) -> None:
    bare = [(question, answer, wordings if row < 2 else "") for row, (question, answer, wordings) in enumerate(ENTRIES)]
    first = findings(write_faq(tmp_path, bare), trained)[0]
    assert advised("2 … 4 … Can I return a bike? … Which battery fits?", [first])


def test_wordings_of_files_count(tmp_path: Path, trained: Path) -> None:
    bare = [(question, answer, "") for question, answer, _ in ENTRIES]
    lines = [f'in other words {row},"{answer}"\n' for row, (_, answer, _) in enumerate(ENTRIES)]
    known = tmp_path / "known.csv"
    known.write_text("question,answer\n" + "".join(lines))
    found = findings(write_faq(tmp_path, bare), trained, wordings=[known])
    assert not advised("4 … 4", found)
    assert any(not absent("4 … known wordings", each.found) for each in found)


def test_another_faq(tmp_path: Path, trained: Path) -> None:
    others = [(f"What is number {n}?", f"The {n}th thing is kept in cellar {n * 7}.", "x") for n in range(9)]
    assert advised(f"{trained} … another FAQ … ap-ranker train", findings(write_faq(tmp_path, others), trained))


def test_a_language_that_the_encoder_has_not_read(tmp_path: Path) -> None:
    german = [
        ("Wo ist mein Paket?", "Öffnen Sie den Link in der E-Mail, die wir beim Versand geschickt haben.", "Sendung"),
        ("Wie kann ich bezahlen?", "Mit der Karte, per Überweisung oder auf Rechnung nach einer Prüfung.", "Zahlung"),
        ("Kann ich ein Fahrrad zurückgeben?", "Innerhalb von dreißig Tagen, sauber und ohne Schaden.", "Rückgabe"),
    ]
    faq = write_faq(tmp_path, german)
    encoder = "sentence-transformers/all-MiniLM-L6-v2"
    folder = write_checkpoint("ap-transformer", tmp_path / "transformer")
    config = read_checkpoint_config(folder)
    write_checkpoint_config(folder, replace(config, options={**config.options, "encoder": encoder}))
    assert advised("German … English … --encoder", findings(faq, folder))
    write_checkpoint_config(folder, replace(config, options={**config.options, "encoder": "intfloat/other"}))
    assert not advised("German", findings(faq, folder))  # nobody knows what that one has read


def test_texts_that_are_cut(tmp_path: Path, trained: Path) -> None:
    long = ("What is sold?", "Bikes, frames, tyres, bells and lamps. " * 9, "your goods")
    found = findings(write_faq(tmp_path, [*ENTRIES, long]), trained)
    assert advised("1 of 5 … 20 tokens", found)


def test_a_pipeline_of_its_own_cannot_be_examined() -> None:
    with refused("FAQ"):
        diagnose(SearchSetup(Path("p.yaml"), None, Match.both, (), {}))


@pytest.mark.slow
def test_following_the_advice_ranks_better(tmp_path: Path) -> None:
    """The example with a tenth of its wordings: the next step is to train, the one after it to write more."""
    faq, known = ROOT / "examples" / "faq", tmp_path / "known.csv"
    with (faq / "train.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    with known.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(random.Random(1).sample(rows, len(rows) // 10))
    before, after = tmp_path / "before", tmp_path / "after"
    write_untrained(before, [entry.text(Match.both) for entry in read_faq(faq / "answers.csv")], "english")
    first, second = findings(faq / "answers.csv", before, wordings=[known])[:2]
    command = shlex.split(first.advice.removeprefix("Train: "))
    assert command[:2] == ["ap-ranker", "train"]
    command[command.index("--output") + 1] = str(after)
    result = CliRunner().invoke(app, command[1:])
    assert result.exit_code == 0, result.output
    mrr = [
        evaluate(each, faq / "dev.csv", answers=faq / "answers.csv", wordings=known, device="cpu").model["MRR"]
        for each in (before, after)
    ]
    assert mrr[1] > mrr[0] + 0.01
    assert "wordings" in second.advice
    assert findings(faq / "answers.csv", after, wordings=[known])[0].advice == second.advice


def test_entries_that_ask_the_same_in_other_words() -> None:
    import torch

    from ap_ranker.data.faq import Entry
    from ap_ranker.search.diagnosis import _same_in_other_words

    class Vectors:
        has_vectors = True

        def embed_wordings(self, texts: Sequence[str]) -> torch.Tensor:
            known = {"Refund?": [1.0, 0.0], "Money back?": [0.9, 0.1], "Opening hours?": [0.0, 1.0]}
            known |= {"Cancel?": [0.6, 0.8], "Yes.": [1.0, 0.0], "Yes, sure.": [1.0, 0.1]}
            return torch.tensor([known.get(text, [float(len(text)), -1.0 * len(known)]) for text in texts])

    entries = [Entry(text, f"So: {text}", {}, text) for text in ("Refund?", "Opening hours?", "Money back?")]
    [finding] = _same_in_other_words(Vectors(), entries)  # type: ignore[arg-type]
    assert not absent("1 … Refund? … Money back?", finding.found)
    assert not [*_same_in_other_words(Vectors(), entries[:2])]  # type: ignore[arg-type]
    alike = [Entry("Refund?", "Yes.", {}, ""), Entry("Cancel?", "Yes, sure.", {}, "")]
    assert [*_same_in_other_words(Vectors(), alike)]  # type: ignore[arg-type]
    unlike = [Entry("Refund?", "Yes.", {}, ""), Entry("Cancel?", "Opening hours?", {}, "")]
    assert not [*_same_in_other_words(Vectors(), unlike)]  # type: ignore[arg-type]
