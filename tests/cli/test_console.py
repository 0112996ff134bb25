"""What the commands show on standard error while they work."""

from __future__ import annotations

import pytest

from ap_ranker.cli.console import ProgressBars


def test_a_bar_shows_the_step_that_is_under_way(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the step before was left before its end."""
    monkeypatch.setenv("FORCE_COLOR", "1")  # as in a terminal
    monkeypatch.setenv("TERM", "xterm")
    with ProgressBars() as bars:
        bars.update("reading", 1, 10)
        bars.update("scoring", 2, 5)
    shown = capsys.readouterr().err
    assert "reading" in shown
    assert "scoring" in shown
    assert "2/5" in shown


def test_a_bar_shows_a_total_that_has_grown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with ProgressBars() as bars:
        bars.update("reading", 1, 10)
        bars.update("reading", 3, 70)
    assert "3/70" in capsys.readouterr().err
