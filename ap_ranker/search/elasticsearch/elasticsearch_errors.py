"""Why Elasticsearch did not do what it was asked to, by its cause, and what to do."""

from __future__ import annotations

import re
import sys
from types import ModuleType

_START = (
    "Start the server (docker compose up --detach --wait elasticsearch), or correct hosts in the pipeline. A URL "
    "begins with https:// if the server has a certificate."
)
_OTHER_PRODUCT = (
    "Name a server of Elasticsearch 8 in hosts; what works with OpenSearch, and how: docs/archive/elasticsearch.md."
)
_CERTIFICATE = (
    "Set ca_certs in the pipeline to the PEM file of who signed the server's certificate, or ssl_assert_fingerprint to "
    "its SHA-256 fingerprint (docs/elasticsearch.md)."
)
_PASSWORD = "Correct basic_auth in the pipeline, or remove it and set ELASTIC_API_KEY."
_KEY = "Set ELASTIC_API_KEY to a valid key, and ELASTIC_API_KEY_ID if it has an id; a key may be revoked."
_BUSY = "The cluster has too much to do. Nothing is lost: wait, and run the command again."
_RED = (
    "A shard has no node that answers, as when a node is down. Look at the cluster's health, start the node, and ask "
    "again."
)
_SHARDS = ("no_shard_available_action_exception", "search_phase_execution_exception", "unavailable_shards_exception")

_BLOCKS = {
    "flood-stage": "The disk is fuller than its flood stage, so that nothing is written. Free some, and run again.",
    "read-only / allow delete": "The disk is fuller than its flood stage, so that nothing is written. Free some, and "
    "run again.",
    "index write": "The index has a write block (index.blocks.write). Remove it, and run again.",
    "index read-only": "The index is read-only (index.blocks.read_only). Remove that, and run again.",
}
"""What is said of a block -> what it means."""

_ACTION = re.compile(
    r"action \[([^\[\]]+)\] is unauthorized.*?(?:by the (index|cluster) privileges \[([^\[\]]+)\])", re.DOTALL
)

_READ = 5_000
"""Characters of an error that are read."""


def advice(error: BaseException, has_password: bool = False) -> str | None:
    """What to do about an error of the official client; `None` if it is of another library."""
    client = sys.modules.get("elasticsearch")
    if client is None:  # not loaded: the error has another source
        return None
    if isinstance(error, client.UnsupportedProductError):
        return _OTHER_PRODUCT
    if isinstance(error, client.ApiError):
        return _advice_of_answer(error.status_code, str(error), has_password)
    return _advice_of_connection(error, client) if isinstance(error, client.TransportError) else None


def _advice_of_connection(error: BaseException, client: ModuleType) -> str:
    if isinstance(error, client.ConnectionTimeout):
        return "Try again; if the server is slow, raise request_timeout in the pipeline."
    if isinstance(error, client.SSLError):
        return _advice_of_encryption(str(error))
    return _START if isinstance(error, client.ConnectionError) else ""


def block_advice(text: str) -> str:
    """What a block of an index means that an error tells of; nothing if it tells of none."""
    if "cluster_block_exception" not in text or "SERVICE_UNAVAILABLE" in text:  # the latter ends by itself
        return ""
    for block, meaning in _BLOCKS.items():
        if block in text:
            return meaning
    return "Remove the block."


def _advice_of_answer(status: int, text: str, has_password: bool) -> str:
    if status == 401:
        return _PASSWORD if has_password else _KEY
    block = block_advice(text)
    if block:
        return block
    if status == 403:
        return _advice_of_privilege(text)
    if "index_closed_exception" in text:
        return "The index is closed. Open it (POST INDEX/_open)."
    is_red = status == 503 or any(kind in text for kind in _SHARDS)
    if is_red:
        return _RED
    return _BUSY if status == 429 else ""


def _advice_of_privilege(text: str) -> str:
    """Which privilege is missing, as the server says it."""
    refused = _ACTION.search(text[:_READ])
    if refused is None:
        return "The key lacks a privilege: compare its role with those in deploy/ (docs/elasticsearch.md)."
    action, kind, privileges = refused.groups()
    smallest = privileges.split(",")[0]
    return (
        f"The key lacks the {kind} privilege {smallest!r} (for {action}). Give it that, as the roles in deploy/ have "
        "it (docs/elasticsearch.md)."
    )


def _advice_of_encryption(text: str) -> str:
    if "WRONG_VERSION_NUMBER" in text or "wrong version number" in text:
        return "The server at this port speaks HTTP: write http:// in hosts, or turn its certificate on."
    return _CERTIFICATE
