"""Answer, maybe, none: what the page's API says of a question, and what it does not make of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from haystack import Document
from prometheus_client.parser import text_string_to_metric_families
from searches import filled, in_two, write_pipeline
from starlette.testclient import TestClient

from ap_ranker.ranking.outcome import Outcome
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.search.setup import search_faq, set_up
from ap_ranker.web.app import build_app
from ap_ranker.web.database import open_database
from ap_ranker.web.judgements import Judgements
from ap_ranker.web.presented_search import MAX_MAYBES

from .visiting import QUESTION, FixedSearch, answers, click, client_of, judgements_of, kept, visit

ENTRIES = {
    "Where is my parcel?": "Open the tracking link in the e-mail that we sent when the parcel left.",
    "How do I send something back?": "Print a return label in your account and bring the goods to a post office.",
    "When do I get my refund?": "The money is on your account five days after the goods have reached us.",
    "Can I change my delivery address?": "Until the parcel leaves, in your account under Orders.",
    "Which payment methods do you take?": "Credit card, PayPal, direct debit and invoice.",
    "How do I reset my password?": "Follow the link Forgotten password at the login.",
    "What does shipping cost?": "4.90 euros within the country, nothing from 50 euros on.",
    "Do you deliver abroad?": "To all countries of the European Union, in five to eight days.",
    "How do I cancel my subscription?": "In your account under Flex, at any time until the end of the month.",
    "My bike was stolen, what now?": "Report it to the police and send us the report for the insurance.",
}
RETURN, PARCEL, PASSWORD, STOLEN = (list(ENTRIES)[row] for row in (1, 0, 5, 9))

ASKED: list[tuple[str, str, str | None]] = [
    # what is asked, the outcomes that are right, the entry that must then be first
    ("How do I send something back?", "answer", RETURN),
    ("  HOW DO I SEND SOMETHING BACK ", "answer", RETURN),
    ("what's the way to return goods that I do not want", "answer maybe", RETURN),
    ("password", "answer maybe", PASSWORD),
    ("somebody took my bike last night", "answer maybe", STOLEN),
    ("i forgto my pasword", "answer maybe", PASSWORD),
    (
        "Hello. I hope that you are well. I ordered two weeks ago. Where is my parcel? Best regards",
        "answer maybe",
        PARCEL,
    ),
    ("asdfgh", "maybe none", None),
    ("qwertz uiop", "maybe none", None),
]
"""Each outcome that is right today and once an untrained encoder is calibrated by what was learnt from other FAQs."""


@pytest.fixture(scope="module")
def faq(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("default")
    rows = [{"question": question, "answer": answer} for question, answer in ENTRIES.items()]
    (folder / "faq.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "faq.jsonl"


@pytest.fixture(scope="module")
def default(faq: Path) -> Iterator[tuple[TestClient, dict[str, Any]]]:
    """The page and `ask`, both of the search that everybody has on the first day."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(faq.parent)  # where nothing is trained
        with set_up(faq) as setup:
            asked = {one["question"]: one for one in search_faq([text for text, *_ in ASKED], setup)}
            search, documents = setup.load()
            setup.warm_up(search, documents)
            yield client_of_default(search, faq), asked


def client_of_default(search: DeclaredPipeline, faq: Path) -> TestClient:
    return visit(build_app(search, Judgements(open_database(faq.with_name("faq.db")))))


@pytest.mark.parametrize(("question", "outcomes", "first"), ASKED, ids=[text[:20] for text, *_ in ASKED])
def test_the_search_of_the_first_day(
    default: tuple[TestClient, dict[str, Any]], question: str, outcomes: str, first: str | None
) -> None:
    client, asked = default
    found = client.post("/api/search", json={"question": question}).json()
    assert found["outcome"] in outcomes.split()
    if first is not None:
        assert found["answers"][0]["question"] == first
    ours = asked[question]
    assert {name: found[name] for name in ("outcome", "basis")} == {name: ours[name] for name in ("outcome", "basis")}
    assert [one["answer"] for one in found["answers"]] == [one["answer"] for one in ours["answers"]]
    assert (found["answers"] == []) == (found["outcome"] == "none")
    assert set(found) == {"question", "outcome", "probability", "basis", "kind", "language", "answers", "parts"}


def test_the_default_pipeline_has_one_address(default: tuple[TestClient, dict[str, Any]]) -> None:
    """The documented one, whether the model has vectors, as this one, or not."""
    found = [default[0].post(f"/{name}/run", json={"query": RETURN}) for name in ("faq_search", "faq_search_hybrid")]
    assert [each.status_code for each in found] == [200, 200]
    assert found[0].json() == found[1].json()
    assert default[0].post("/other/run", json={"query": RETURN}).status_code == 404


@pytest.mark.parametrize("whole", [True, False], ids=["one component", "two"])
def test_limits_decide_and_leave_nothing_worth_showing_out(tmp_path: Path, checkpoint: Path, whole: bool) -> None:
    import yaml

    path = write_pipeline(tmp_path, checkpoint)
    if not whole:
        path.write_text(yaml.safe_dump(in_two(yaml.safe_load(path.read_text()))))
    search = filled(path)
    scores = [document.score for document in search.run(QUESTION)]
    assert len(scores) > 2
    for least, outcome, count in ((scores[1], "answer", 2), (scores[0] + 0.001, "maybe", len(scores))):
        client = client_of(search, limits={"score_threshold": least})
        found = client.post("/api/search", json={"question": QUESTION}).json()
        assert (found["outcome"], found["probability"], found["basis"]) == (outcome, None, "nothing")
        assert [one["score"] for one in found["answers"]] == pytest.approx(scores[:count])
    nothing = client.post("/api/search", json={"question": "zebra"}).json()  # no entry has the word
    found = {"outcome": "none", "probability": None, "basis": "nothing", "kind": "question", "language": None}
    assert nothing == {"question": "zebra", "answers": [], "parts": []} | found


def test_a_pipeline_without_a_ranker_asserts_what_it_finds(tmp_path: Path, checkpoint: Path) -> None:
    import yaml

    declared = in_two(yaml.safe_load(write_pipeline(tmp_path, checkpoint).read_text()))
    del declared["components"]["ranker"]
    declared |= {"connections": [], "inputs": {"query": ["retriever.query"]}}
    declared["outputs"] = {"documents": "retriever.documents"}
    (tmp_path / "search.yaml").write_text(yaml.safe_dump(declared))
    client = client_of(filled(tmp_path / "search.yaml"))
    for question, outcome in (("parcel", "answer"), ("zebra", "none")):
        found = client.post("/api/search", json={"question": question}).json()
        assert (found["outcome"], found["probability"]) == (outcome, None)
        assert bool(found["answers"]) == (outcome == "answer")


def test_what_is_shown_of_many(search: DeclaredPipeline) -> None:
    """All answers; of maybes a few; and nothing where there is none, which nobody can ask about either."""
    many = [0.9 - row / 100 for row in range(MAX_MAYBES + 3)]
    for outcome, count in ((Outcome.ANSWER, len(many)), (Outcome.MAYBE, MAX_MAYBES), (Outcome.NONE, 0)):
        client = client_of(search, workers=FixedSearch(many, outcome))
        shown = answers(client)
        assert [one["id"] for one in shown] == [f"d{row}" for row in range(count)]
        assert {one["match"] for one in shown} <= ({"well"} if outcome is Outcome.ANSWER else {None})
        judged = [click(client, {"id": f"d{row}", "receipt": None}) for row in (0, len(many) - 1)]
        assert judged == [200 if row < count else 404 for row in (0, len(many) - 1)]


def test_many_clicks_change_nothing_that_others_see(search: DeclaredPipeline) -> None:
    app = build_app(
        search,
        judgements_of(search),
        workers=FixedSearch([0.5, 0.45, 0.4], Outcome.MAYBE),  # type: ignore[arg-type]
    )
    before = visit(app).post("/api/search", json={"question": QUESTION}).json()
    for number in range(20):
        visitor = visit(app, f"192.0.{number}.1")
        assert click(visitor, next(one for one in answers(visitor) if one["id"] == "d2"), visit=f"v{number}") == 200
    after = visit(app).post("/api/search", json={"question": QUESTION}).json()
    for name in ("outcome", "probability", "basis"):
        assert after[name] == before[name]
    assert [one["id"] for one in after["answers"]] == ["d0", "d1", "d2"]
    assert len(kept(search)) == 20


def test_questions_are_counted_by_outcome(search: DeclaredPipeline) -> None:
    def counted() -> dict[str, float]:
        text = visit(client.app, "127.0.0.1").get("/metrics").text
        families = {family.name: family.samples for family in text_string_to_metric_families(text)}
        return {
            one.labels["outcome"]: one.value for one in families["ap_ranker_questions"] if one.name.endswith("_total")
        }

    client = client_of(search)
    assert counted() == {"answer": 0, "maybe": 0, "none": 0}
    stored = search.run(QUESTION)[0].meta["question"]
    for question in (QUESTION, stored, "zebra", "my parcel"):
        client.post("/api/search", json={"question": question})
    client.post("/api/explain", json={"question": QUESTION, "id": "none"})  # is no question of its own
    assert counted() == {"answer": 1, "maybe": 2, "none": 1}


def test_one_search_a_question(search: DeclaredPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    component = type(search.pipeline.get_component("search"))
    find = component.search_each

    def counting(self: Any, queries: Sequence[str], *given: Any, **limits: Any) -> list[tuple[list[Document], Any]]:
        asked.extend(queries)
        return find(self, queries, *given, **limits)

    monkeypatch.setattr(component, "search_each", counting)
    client = client_of(search, limits={"score_threshold": 2.0})
    for question in (QUESTION, "zebra"):
        client.post("/api/search", json={"question": question})
    assert asked == [QUESTION, "zebra"]
