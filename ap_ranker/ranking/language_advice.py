"""What to do where texts are in a language that the encoder has not read."""

from __future__ import annotations

from ap_ranker.text.language_detection import LANGUAGES
from ap_ranker.text.languages import is_language

MULTILINGUAL = "intfloat/multilingual-e5-small"
"""The encoder that is advised for other languages than English."""


def init_command(language: str | None, documents: str = "FAQ.csv") -> str:
    """The command that makes a checkpoint which reads a language, given by its code, without training."""
    name = LANGUAGES[language].lower() if language else ""
    stemmer = f" --language {name}" if is_language(name) else ""
    return f"ap-ranker init --documents {documents}{stemmer} --encoder {MULTILINGUAL} --output checkpoints/multilingual"
