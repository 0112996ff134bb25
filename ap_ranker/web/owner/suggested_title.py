"""How an entry may be called that answers a visitor's question: the owner sees it in the form, and may change it."""

from __future__ import annotations

from ap_ranker.text.question_words import compared_words
from ap_ranker.text.typed import asking_words

ENDS = ("?", "\uff1f", "\u061f", "!", ".", "\u3002")
"""What a sentence may end with already; the three first are question marks."""


def suggested_title(question: str) -> str:
    """A question with a capital at its beginning and, if it begins as questions do, a question mark at its end."""
    title = question[:1].upper() + question[1:]
    is_asking = asking_words().at(compared_words(question)) > 0
    return f"{title}?" if is_asking and not title.endswith(ENDS) else title
