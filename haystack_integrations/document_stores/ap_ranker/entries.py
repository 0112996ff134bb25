"""The entries of a FAQ as documents."""

from __future__ import annotations

from haystack import Document

from ap_ranker.data.faq import Entry, Match


def to_document(entry: Entry, match: Match) -> Document:
    """A document whose content is compared with a question, with the whole entry in its meta.

    :param entry: The entry of a FAQ file.
    :param match: Which text of the entry becomes the content.
    :returns: The document; its meta has the file's other columns beside `question` and `answer`.
    """
    return Document(content=entry.text(match), meta={**entry.other, "question": entry.question, "answer": entry.answer})
