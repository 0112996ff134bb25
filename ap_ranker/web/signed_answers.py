"""Signed receipts for the answers shown, so that feedback needs neither a new search nor state on the server."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import secrets
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from haystack import Document

logger = logging.getLogger(__name__)

MAX_CHARACTERS = 128 * 1024
"""Maximum length of a receipt. A longer answer has no receipt: feedback on it takes a new search."""

SECRET_BYTES = 32


@dataclass(frozen=True)
class ShownAnswer:
    """An answer as shown: the matched text, and its stored question."""

    answer: str
    stored_question: str

    @classmethod
    def of(cls, document: Document) -> ShownAnswer:
        """What is shown of a document."""
        return cls(document.content or "", document.meta.get("question") or "")


class AnswerSigner:
    """Signs and reads receipts; servers with the same secret accept each other's."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def sign(self, question: str, key: str, shown: ShownAnswer) -> str | None:
        """Sign the answer with the id `key` to a question; `None` if the receipt would be too long."""
        content = zlib.compress(json.dumps(vars(shown)).encode())
        receipt = urlsafe_b64encode(self._signature(question, key, content) + content).decode()
        return receipt if len(receipt) <= MAX_CHARACTERS else None

    def read(self, question: str, key: str, receipt: str) -> ShownAnswer | None:
        """Read what was shown; `None` if the receipt is not valid for this question and answer."""
        try:
            signed = urlsafe_b64decode(receipt)
        except ValueError:
            return None
        signature, content = signed[: hashlib.sha256().digest_size], signed[hashlib.sha256().digest_size :]
        if not hmac.compare_digest(signature, self._signature(question, key, content)):
            return None
        return ShownAnswer(**json.loads(zlib.decompress(content)))

    def _signature(self, question: str, key: str, content: bytes) -> bytes:
        about = json.dumps([question, key]).encode()  # has no line break
        return hmac.digest(self._secret, about + b"\n" + content, "sha256")


def shared_secret(path: Path) -> bytes:
    """Read or create a secret in a file that only its owner can read.

    So a restarted server, or another one with the same file, accepts the receipts of open pages. If there can be no
    such file, the secret is the process's own: older receipts are not valid, and feedback on them takes a new search.
    """
    try:
        if not path.exists():
            with NamedTemporaryFile(prefix=f".{path.name}.", dir=path.parent) as draft:  # readable by its owner only
                draft.write(secrets.token_bytes(SECRET_BYTES))
                draft.flush()
                os.fsync(draft.fileno())
                with suppress(FileExistsError):  # another server was faster
                    os.link(draft.name, path)
        secret = path.read_bytes()
        if len(secret) != SECRET_BYTES:
            raise OSError(f"expected {SECRET_BYTES} bytes, found {len(secret)}")
        return secret
    except OSError as error:
        logger.warning(
            "%s: feedback from pages that are open when the server ends will take a search (%s).", path, error
        )
        return secrets.token_bytes(SECRET_BYTES)
