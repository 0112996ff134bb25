"""Conversion of FAQ entries into documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from haystack import Document

from ap_ranker.data.faq import Entry, Match
from ap_ranker.documents import read_entries
from ap_ranker.ranking.wordings import WORDINGS


def to_document(entry: Entry, match: Match) -> Document:
    """Convert an entry of a FAQ file into a document; `match` names the text that becomes its content.

    Its meta contains `question`, `answer`, the file's other columns and, if the entry has any, `wordings`; of a passage
    `title`, `file_path` and, if there is one, `page_number` or `url`.
    """
    meta: dict[str, Any] = {**entry.other, "question": entry.question, "answer": entry.answer}
    if entry.title:
        meta["title"] = entry.title
    if entry.wordings:
        meta[WORDINGS] = list(entry.wordings)
    return Document(content=entry.text(match), meta=meta)


def read_documents(path: str | Path, match: Match) -> list[Document]:
    """Read a FAQ file, a document, or a folder of documents and tables; equal entries are one document.

    :raises InputError: It cannot be read, or there are no entries in it.
    """
    documents = (to_document(entry, match) for entry in read_entries(Path(path)))
    return list({document.id: document for document in documents}.values())
