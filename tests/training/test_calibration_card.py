from __future__ import annotations

from pathlib import Path

from ap_ranker.training.card import calibration_section, card_with_calibration

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
