"""BM25 reads a compound that no text has as the words that it begins and ends with."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ap_ranker.ranking.bm25 import BM25, SHORTEST_PART, _ends_of

TEXTS = [
    "Das Bad ist zu diesen Zeiten geöffnet; über jede Öffnung entscheidet die Stadt.",
    "Zum Leihen gibt es Räder mit drei Gängen.",
    "Die Sauna kostet 15 Euro, alle Preise stehen an der Kasse.",
    "Ein Schwimmkurs hat zehn Termine.",
]


@pytest.mark.parametrize(
    ("question", "best"),
    [
        ("öffnungszeiten", 0),
        ("Oeffnungszeiten", 0),
        ("leihräder", 1),
        ("saunapreise", 2),
        ("Erwachsenenschwimmkurs", 3),
        ("schwimmkurs", 3),
    ],
)
def test_a_compound_finds_its_parts(question: str, best: int) -> None:
    scores = BM25(TEXTS, language="german").scores(question)
    assert scores.argmax() == best
    assert scores[best] > 0


def test_what_is_known_unknown_or_no_word_stays_so() -> None:
    german = BM25([*TEXTS, "Die Saunapreise."], language="german")
    assert (german.scores("saunapreise") > 0).tolist() == [False, False, False, False, True]
    assert not german.scores("quark").any()
    assert not BM25(["15001500"], language="german").scores("1500150015001500").any()
    assert not BM25(["A pay roll and a system."], language="english").scores("payrollsysten").any()


@given(compound=st.text("abc", max_size=9), data=st.data())
def test_the_ends_are_the_longest_known_ones(compound: str, data: st.DataObject) -> None:
    """Tried one after the other: every beginning, then every end of what is left."""
    pieces = {compound[start:end] for start in range(10) for end in range(10)}
    known = data.draw(st.sets(st.sampled_from(sorted(pieces))))
    long = {part for part in known if len(part) >= SHORTEST_PART}
    begun = max((part for part in long if compound.startswith(part) and part != compound), key=len, default="")
    rest = compound[len(begun) or 1 :]
    ended = max(filter(rest.endswith, long), key=len, default="")
    assert list(_ends_of(compound, known)) == [part for part in (begun, ended) if part]
