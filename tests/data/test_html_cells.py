"""Cells that hold HTML, also what is none and what is damaged."""

from __future__ import annotations

import pytest

from ap_ranker.data.html_cells import shown_text


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("<p>Within <b>30</b> days.</p>", "Within 30 days."),
        ("one<br>two", "one\ntwo"),
        ("<ul><li>a</li><li>b</li></ul>", "- a\n- b"),
        ('<a href="https://x.example">here</a>', "[here](https://x.example)"),
        (
            '<a href="https://x.example">here<a href="https://y.example">there</a>',
            "[here](https://x.example)[there](https://y.example)",
        ),
        ("Write <b> for bold.", "Write <b> for bold."),
        ("</b>a<b>", "</b>a<b>"),
        ("<B>a</b>", "a"),
        ("1 < 2<br>3 > 2", "1 < 2\n3 > 2"),
        ("a<br><!-- not <b>shown</b> -->b", "a\nb"),
        ("a<br><!-- without an end", "a\n<!-- without an end"),
        ("a<br><!DOCTYPE html>b<?php?>", "a\nb"),
        ("a<br><![if mso]>b<![endif]>", "a\nb"),
        ("a<br><![x>", "a"),
        ("a<br><![CDATA[b]]>", "a"),
        ('a<br><b c="', 'a\n<b c="'),
        ("a<br><script>b</script>c", "a\nc"),
    ],
)
def test_what_is_shown(cell: str, expected: str) -> None:
    assert shown_text(cell) == expected
