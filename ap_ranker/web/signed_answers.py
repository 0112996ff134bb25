"""Signs the answers shown, so that feedback needs neither a new search nor state on the server."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

from haystack import Document
from itsdangerous import BadData, TimedSerializer, URLSafeTimedSerializer, base64_encode

MAX_CHARACTERS = 128 * 1024
"""Maximum length of a receipt. A longer answer has no receipt: feedback on it takes a new search."""

MAX_AGE = 24 * 3600
"""Seconds for which a receipt is valid: longer than a page stays open. Later feedback takes a new search."""


class ShownAnswer(NamedTuple):
    """An answer as shown: the matched text, and its stored question."""

    answer: str
    stored_question: str

    @classmethod
    def of(cls, document: Document) -> ShownAnswer:
        """What is shown of a document."""
        return cls(document.content or "", str(document.meta.get("question") or ""))


class _AsItIs(URLSafeTimedSerializer):
    """Does not try to compress, which for a text as short as most answers takes as long as all else of a signature."""

    def dump_payload(self, obj: Any) -> bytes:
        return base64_encode(TimedSerializer.dump_payload(self, obj))


class AnswerSigner:
    """Signs answers and reads what is signed; servers with the same secret accept each other's."""

    def __init__(self, secret: bytes) -> None:
        signer = {"key_derivation": "hmac", "digest_method": hashlib.sha256}
        self._serializer = _AsItIs(secret, signer_kwargs=signer)

    def sign(self, question: str, key: str, answer: ShownAnswer) -> str | None:
        """Sign the answer with the id `key` to a question; `None` if the receipt would be too long."""
        receipt = str(self._serializer.dumps(answer, salt=_salt(question, key)))
        return receipt if len(receipt) <= MAX_CHARACTERS else None

    def read(self, question: str, key: str, receipt: str) -> ShownAnswer | None:
        """Read what was shown; `None` if the receipt is not valid for this question and answer, or too old."""
        try:
            signed = self._serializer.loads(receipt, max_age=MAX_AGE, salt=_salt(question, key))
        except BadData:
            return None
        return ShownAnswer(*signed)


def _salt(question: str, key: str) -> bytes:
    return f"{len(question)} {question}{key}".encode("utf-8", "surrogatepass")
