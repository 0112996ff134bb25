"""What to do where texts are in a language that the encoder has not read."""

from __future__ import annotations

import shlex

from ap_ranker.text.language_detection import LANGUAGES, detect_language
from ap_ranker.text.languages import is_language
from ap_ranker.text.question_words import compared_words, size

MULTILINGUAL = "intfloat/multilingual-e5-small"
"""The encoder that is advised for other languages than English."""

LEAST_TOLD = 3.0
"""Words of a question, as `size` counts them, whose language is told."""


def init_command(language: str | None, documents: str = "FAQ.csv") -> str:
    """The command that makes a checkpoint which reads a language, given by its code, without training."""
    name = LANGUAGES[language].lower() if language else ""
    stemmer = f" --language {name}" if is_language(name) else ""
    documents = shlex.quote(documents)
    return f"ap-ranker init --documents {documents}{stemmer} --encoder {MULTILINGUAL} --output checkpoints/multilingual"


def language_to_tell(question: str, faq_language: str | None) -> str | None:
    """The code of a FAQ's language, if a question is clearly in another one; those of the FAQ need not be told."""
    if faq_language is None or size(compared_words(question)) < LEAST_TOLD:
        return None
    language = detect_language(question)
    if language in (None, faq_language):
        return None
    return faq_language
