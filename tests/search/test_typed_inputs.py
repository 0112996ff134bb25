"""What people type that is no question of the FAQ, in the languages of the page: typed_inputs.csv says what each gets.

Columns: `faq` is the example's (`bikes`) or a language of typed_faqs.toml, `+contact` with its entry for that; `kind`
is what the search calls the text; `outcome` is what it gets:

none, maybe, answer   that outcome; of a maybe, all `entries` are shown, of an answer the first is that entry
not answer            none or maybe
shown                 an answer or a maybe, that entry first
each shown            the text's questions are searched alone, and find these entries first
any                   whatever a question gets

The checkpoint is of random numbers, and its calibration asserts everything: nothing but the rule keeps it from that.
"""

from __future__ import annotations

import csv
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from conftest import ROOT, settings_of, write_checkpoint

from ap_ranker.data.faq import Entry, Match, read_faq
from ap_ranker.ranking.faq_sketch import FAQSketch
from ap_ranker.ranking.outcome import Outcome
from ap_ranker.ranking.rule import FUSED, MODEL, Calibration
from ap_ranker.search.asked_parts import SearchedQuestion, search_parts
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.text.question_parts import question_parts
from ap_ranker.text.typed import Kind, read_typed
from haystack_integrations.common.ap_ranker.entries import to_document

HERE = Path(__file__).parent
BIKES = ROOT / "examples" / "faq" / "answers.csv"
LEAST_LANGUAGES = 13

with (HERE / "typed_inputs.csv").open(encoding="utf-8", newline="") as file:
    ROWS = list(csv.DictReader(file))
FAQS = tomllib.loads((HERE / "typed_faqs.toml").read_text(encoding="utf-8"))
FOREIGN = [row for row in ROWS if row["kind"] == Kind.LANGUAGE]


class Faq(NamedTuple):
    """A searched FAQ, and the name of each entry by its stored question."""

    search: DeclaredPipeline
    names: dict[str, str]

    def ask(self, text: str) -> tuple[SearchedQuestion, Kind, list[SearchedQuestion]]:
        whole = self._search(text)
        return whole, *search_parts(whole, self._search)

    def _search(self, text: str) -> SearchedQuestion:
        return SearchedQuestion(text, *self.search.answer(text))

    def shown(self, searched: SearchedQuestion) -> list[str]:
        if searched.decision.outcome is Outcome.NONE:
            return []
        return [self.names[document.meta["question"]] for document in searched.documents]


def entries_of(name: str) -> dict[str, Entry]:
    if name == "bikes":
        with BIKES.open(encoding="utf-8", newline="") as table:
            names = [row["aid"] for row in csv.DictReader(table)]
        return dict(zip(names, read_faq(BIKES), strict=True))
    language, _, contact = name.partition("+")
    texts = dict(FAQS[language]["entries"])
    if contact:
        texts[contact] = FAQS[language][contact]
    return {key: Entry(question, answer, {}, "") for key, (question, answer) in texts.items()}


Searches = Callable[[str, bool], Faq]


@pytest.fixture(scope="module")
def searches(tmp_path_factory: pytest.TempPathFactory) -> Searches:
    """Of a FAQ's name, and whether the checkpoint asserts everything or, uncalibrated, knows the FAQ's language."""
    kept: dict[tuple[str, bool], Faq] = {}

    def search_of(name: str, asserts: bool) -> Faq:
        if (name, asserts) not in kept:
            kept[name, asserts] = searched(tmp_path_factory.mktemp("typed"), entries_of(name), asserts=asserts)
        return kept[name, asserts]

    return search_of


def searched(folder: Path, entries: dict[str, Entry], *, asserts: bool) -> Faq:
    """By the packaged search by meaning, which finds all entries of a small FAQ."""
    documents = [to_document(entry, Match.both) for entry in entries.values()]
    if asserts:
        sure = Calibration(score=0.0, margin=0.0, bias=9.0, thresholds={})
        write_checkpoint("ap-transformer", folder / "model", calibration={MODEL: sure, FUSED: sure}, wording_weight=0.3)
    else:
        sketch = FAQSketch.with_language([str(document.content) for document in documents])
        write_checkpoint("ap-transformer", folder / "model", faq=sketch, wording_weight=0.3)
    declared = yaml.safe_load((ROOT / "pipelines" / "faq_search_hybrid.yaml").read_text())
    for part in ("retriever", "ranker"):
        settings_of(declared)[part]["model"] = str(folder / "model")
    path = folder / "search.yaml"
    path.write_text(yaml.safe_dump(declared))
    search = DeclaredPipeline.load(path)
    search.index(documents)
    search.prepare()
    return Faq(search, {entry.question: name for name, entry in entries.items()})


def test_the_table_is_large() -> None:
    assert len(ROWS) >= 110
    assert len({row["language"] for row in ROWS}) >= LEAST_LANGUAGES
    assert {row["kind"] for row in ROWS} == {str(kind) for kind in Kind}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['faq']}: {row['text'][:40]!r}")
def test_a_text_gets_what_the_table_says(row: dict[str, str], searches: Searches) -> None:
    is_foreign = row["kind"] == Kind.LANGUAGE
    faq = searches(row["faq"], not is_foreign)
    whole, kind, parts = faq.ask(row["text"])
    outcome = str(whole.decision.outcome)
    shown = faq.shown(whole)
    entries = row["entries"].split("|") if row["entries"] else []
    match row["outcome"]:
        case "none" | "maybe" | "answer":
            assert outcome == row["outcome"]
            if outcome == "answer":
                assert shown[0] == entries[0]
            else:
                assert set(entries) <= set(shown)
        case "not answer":
            assert outcome != "answer"
        case "shown":
            assert shown[:1] == entries
        case "each shown":
            assert [faq.shown(part)[0] for part in parts] == entries
        case other:
            assert other == "any"
    if whole.decision.basis == "known question":
        assert kind is Kind.QUESTION
    elif row["outcome"] != "not answer" or row["kind"] != Kind.WORD:  # a word that one entry has is a question
        assert kind == row["kind"]
    if row["kind"] == Kind.QUESTION and row["outcome"] == "any":
        assert outcome == "answer"  # as of any other question, by this checkpoint
    if row["kind"] not in (Kind.SEVERAL, Kind.LONG):
        assert not parts
    expected_language = row["faq"].replace("bikes", "en") if is_foreign else None
    assert whole.decision.language == expected_language


def test_what_is_asked_of_the_example_are_questions() -> None:
    """The rule leaves ordinary questions alone; one of 565 tells what somebody does not want."""
    with (BIKES.parent / "test.csv").open(encoding="utf-8", newline="") as questions:
        texts = [row["question"] for row in csv.DictReader(questions)]
    kinds = [read_typed(text).kind for text in texts]
    assert kinds.count(Kind.QUESTION) >= len(texts) - 1
    assert {*kinds} <= {Kind.QUESTION, Kind.NEGATED}
    several = [text for text in texts if question_parts(text).texts]
    assert len(several) <= len(texts) / 100


def test_the_examples_of_the_page_are_of_their_kind() -> None:
    """Those in quotation marks in docs/decisions.md."""
    page = (ROOT / "docs" / "decisions.md").read_text(encoding="utf-8")
    _, _, table = page.partition("| `kind` | such as | outcome |\n")
    examples = 0
    for line in table.partition("\n\n")[0].splitlines()[1:]:
        kinds, such_as = line.strip("| ").split(" | ")[:2]
        for text in re.findall('"([^"]+)"', such_as):
            parts = question_parts(text)
            kind = parts.kind if parts.texts else read_typed(text).kind
            assert f"`{kind}`" in kinds, text
            examples += 1
    assert examples >= 7
