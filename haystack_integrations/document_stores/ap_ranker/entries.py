"""Conversion of FAQ entries into documents."""

from __future__ import annotations

from haystack import Document

from ap_ranker.data.faq import Entry, Match


def to_document(entry: Entry, match: Match) -> Document:
    """Convert an entry into a document.

    :param entry: The entry of a FAQ file.
    :param match: The text of the entry that becomes the content, which is compared with a question.
    :returns: The document; its meta contains `question`, `answer` and the file's other columns.
    """
    return Document(content=entry.text(match), meta={**entry.other, "question": entry.question, "answer": entry.answer})
