# SPDX-License-Identifier: Apache-2.0
"""A FAQ in Elasticsearch: one index for each checkpoint, which `ap-ranker index` writes and everybody else reads."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Self

from haystack import Document, default_from_dict, default_to_dict
from haystack.document_stores.types import DuplicatePolicy
from haystack.errors import FilterError
from haystack.utils import Secret

from ap_ranker.errors import InputError, extra_for, library_errors, one_line
from ap_ranker.ranking.state_bytes import STATES
from ap_ranker.settings import checked_arguments
from ap_ranker.text.question_keys import question_keys
from ap_ranker.text.reading import READING_VERSION
from haystack_integrations.document_stores.ap_ranker.documents import check_dictionary
from haystack_integrations.document_stores.ap_ranker.elasticsearch_documents import (
    WITHOUT_STATES,
    FetchedDocument,
    document_requests,
    documents_of,
    read_document,
)

if TYPE_CHECKING:
    from elasticsearch import Elasticsearch

WORDS = "ap_ranker_words"
LENGTH = "ap_ranker_length"
KEYS = "ap_ranker_wordings"
NAMES = "ap_ranker_names"
ASKED = "ap_ranker_asked"
MADE_BY = "ap_ranker_made_by"
ENTRY = "ap_ranker_entry"
"""Fields of a document in the index, none of which is in its source: its terms and their number; what questions that
are known to ask for it are found by; what files of wordings may call it; the vectors of its known wordings; what made
these fields; and what stays when its text changes."""

OF_INDEX = "ap_ranker"
"""The key in the `_meta` of a mapping for what `ap-ranker index` notes of an index."""

LAYOUT = 1
"""The version of these fields: an index of another one is another index."""

FIELDS_VERSION = 2
"""The version of what is written into a document: `ap-ranker index` writes those of an earlier one again, as 1 without
states. They are searched meanwhile."""

_RESULTS = (
    "responses.hits.hits._id,responses.hits.hits._score,responses.hits.hits._seq_no,responses.hits.hits._source,"
    "responses.hits.hits.fields,"
    "responses._shards,responses.timed_out,responses.error,responses.status,responses.aggregations"
)
"""What is asked for of the answers to searches."""

_PREFERENCE = "_local"
"""A node that is asked searches the shards that it has itself, which takes the nodes a third less of processor time
than any copy would; the client asks all nodes in turn."""

_CONNECTIONS = 25  # to each node; as many questions are asked at once


def index_maker(origin: str, language: str | None) -> str:
    """What makes an index, as 12 hexadecimal digits: the checkpoint and how it reads documents, and how BM25 reads."""
    settings = json.dumps([LAYOUT, READING_VERSION, origin, language])
    return blake2b(settings.encode(), digest_size=6).hexdigest()


def wording_keys(text: str) -> list[str]:
    """Of these, a known wording and a question that is equal to it have one in common."""
    return list(map(_digest, question_keys(text)))


def name_key(kind: str, name: str) -> str:
    """What an answer's id or text in a file of wordings and its document have in common; `kind` is `id` or `text`."""
    return _digest(f"{kind} {name}")


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def elasticsearch_library() -> Any:
    """The official client's library; InputError without the extra."""
    with extra_for("Elasticsearch needs", "elasticsearch"):
        import elasticsearch
        import elasticsearch.helpers

        return elasticsearch


def expected_reply(index: str) -> AbstractContextManager[None]:
    """Within, a reply is read: InputError if it is none of Elasticsearch's, as of something else at its address."""
    expected = f"Expected a reply of Elasticsearch about {index!r}, found one of another form"
    kinds = (KeyError, IndexError, TypeError, AttributeError, ValueError, RecursionError)
    return library_errors(expected, kinds, " Look at what answers at hosts of the pipeline.")


class IncompleteSearchError(InputError):
    """A search that not all shards have answered in time: candidates may be missing, so there is no answer."""


class MissingIndexError(InputError):
    """There is no index for this checkpoint."""


@dataclass(frozen=True)
class IndexFacts:
    """What an index says of itself: the notes of `ap-ranker index`, and the type of each field that is mapped."""

    notes: Mapping[str, Any]
    fields: Mapping[str, str]

    @classmethod
    def of(cls, mapping: Mapping[str, Any]) -> IndexFacts:
        """Those of a mapping."""
        notes = mapping.get("_meta", {}).get(OF_INDEX, {})
        return cls(notes, dict(_leaves(mapping.get("properties", {}))))


def _leaves(properties: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    leaves: list[tuple[str, str]] = []
    for name, options in properties.items():
        leaves.append((prefix + name, options.get("type", "object")))
        for inside in ("properties", "fields"):
            leaves += _leaves(options.get(inside, {}), f"{prefix}{name}.")
    return leaves


@dataclass
class _Opened:
    """The client, once it is needed, and what is known of indexes."""

    client: Any = None
    facts: dict[str, IndexFacts] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


class ElasticsearchFAQStore:
    """
    Where a FAQ is in Elasticsearch: a server, and a name. It reads; `ap-ranker index` writes.

    Each checkpoint has an index of its own, `NAME-FINGERPRINT`, as its vectors cannot be compared with others; `NAME`
    is an alias for the latest one. Nothing here creates an index. A search that not all shards answer is an error.

    Its documents have the fields of Haystack's `ElasticsearchDocumentStore`, whose components may read the alias.

    ### Usage example

    ```python
    from haystack_integrations.document_stores.ap_ranker import ElasticsearchFAQStore

    store = ElasticsearchFAQStore(hosts="http://127.0.0.1:9200", index="faq")
    ```
    """

    @checked_arguments
    def __init__(
        self,
        *,
        hosts: str | list[str] = "http://127.0.0.1:9200",
        index: str = "faq",
        api_key: Secret | None = Secret.from_env_var("ELASTIC_API_KEY", strict=False),  # noqa: B008
        api_key_id: Secret | None = Secret.from_env_var("ELASTIC_API_KEY_ID", strict=False),  # noqa: B008
        ca_certs: str | None = None,
        ssl_assert_fingerprint: str | None = None,
        request_timeout: float = 10.0,
        client_settings: dict[str, Any] | None = None,
        fields: dict[str, dict[str, Any]] | None = None,
        settings: str | None = None,
    ) -> None:
        """
        Create the store without connecting to the server.

        :param hosts: The URL of each node.
        :param index: The name of the FAQ, which is the alias.
        :param api_key: The key; by default, the environment's `ELASTIC_API_KEY`, if that is set.
        :param api_key_id: Its id, unless the key has it in itself; by default, `ELASTIC_API_KEY_ID`.
        :param ca_certs: A PEM file with the certificate of who signed the server's.
        :param ssl_assert_fingerprint: The SHA-256 fingerprint of that certificate, in place of the file.
        :param request_timeout: The maximum number of seconds of a request.
        :param client_settings: Further settings of the official client, such as `verify_certs`.
        :param fields: Columns to filter by, as properties of a mapping: `{"topic": {"type": "keyword"}}`.
        :param settings: A copy of `pipelines/elasticsearch_index.json` with other shards, replicas or analyzers.
        :raises InputError: A value is of another type or out of range.
        """
        if not 0 < request_timeout < float("inf"):
            raise InputError(f"Expected request_timeout as a number of seconds above 0, found {request_timeout!r}.")
        self.hosts = hosts
        self.index = index
        self.api_key = api_key
        self.api_key_id = api_key_id
        self.ca_certs = ca_certs
        self.ssl_assert_fingerprint = ssl_assert_fingerprint
        self.request_timeout = request_timeout
        self.client_settings = client_settings
        self.fields = fields
        self.settings = settings
        self._opened = _Opened()

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy connects for itself."""
        return type(self).from_dict, (self.to_dict(),)

    def to_dict(self) -> dict[str, Any]:
        """The store as basic types, without secrets."""
        return default_to_dict(
            self,
            hosts=self.hosts,
            index=self.index,
            api_key=None if self.api_key is None else self.api_key.to_dict(),
            api_key_id=None if self.api_key_id is None else self.api_key_id.to_dict(),
            ca_certs=self.ca_certs,
            ssl_assert_fingerprint=self.ssl_assert_fingerprint,
            request_timeout=self.request_timeout,
            client_settings=self.client_settings,
            fields=self.fields,
            settings=self.settings,
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Create the store from a dictionary, as made by `to_dict` or read from YAML."""
        return default_from_dict(cls, data)

    def index_of(self, maker: str) -> str:
        """The index of an `index_maker`."""
        return f"{self.index}-{maker}"

    @property
    def client(self) -> Elasticsearch:
        """The official client. It is made on first use, and threads share it; no request is sent for it."""
        with self._opened.lock:
            if self._opened.client is None:
                self._opened.client = self._connect()
            client: Elasticsearch = self._opened.client
            return client

    def _connect(self) -> Elasticsearch:
        key = None
        if self.api_key is not None:
            key = self.api_key.resolve_value()
        key_id = None
        if self.api_key_id is not None:
            key_id = self.api_key_id.resolve_value()
        if key_id and not key:
            raise InputError(
                "Expected api_key beside api_key_id, found none. Set ELASTIC_API_KEY, or leave ELASTIC_API_KEY_ID out."
            )
        options: dict[str, Any] = {"ca_certs": self.ca_certs, "ssl_assert_fingerprint": self.ssl_assert_fingerprint}
        named = {name: value for name, value in options.items() if value is not None}
        named |= self.client_settings or {}
        try:
            client: Elasticsearch = elasticsearch_library().Elasticsearch(
                self.hosts,
                api_key=(key_id, key) if key_id and key else key,
                request_timeout=self.request_timeout,
                **{"connections_per_node": _CONNECTIONS, "http_compress": True, **named},
            )
            return client
        except (ValueError, TypeError, OSError) as error:
            raise InputError(
                f"Expected settings that the client of Elasticsearch takes, found others ({one_line(error)})."
            ) from error

    def close(self) -> None:
        """Close the connections; the next use opens them again."""
        with self._opened.lock:
            client = self._opened.client
            self._opened.client = None
            self._opened.facts = {}
        if client is not None:
            client.close()

    def facts(self, index: str) -> IndexFacts:
        """What an index says of itself, read once. MissingIndexError if there is none."""
        facts = self._opened.facts.get(index)
        if facts is None:
            facts = self._read_facts(index)
            self._opened.facts[index] = facts
        return facts

    def forget(self, index: str) -> None:
        """Read what an index says of itself anew when it is needed next."""
        self._opened.facts.pop(index, None)

    def _read_facts(self, index: str) -> IndexFacts:
        with expected_reply(index):
            reply = self.client.options(ignore_status=404).indices.get_mapping(index=index)
            is_missing = "error" in reply
        if is_missing:
            raise self.missing(index)
        with expected_reply(index):
            mappings = [mapping["mappings"] for mapping in reply.values()]
        if len(mappings) != 1:
            raise InputError(
                f"Expected {index!r} as one index, found an alias of {len(mappings)}: {', '.join(sorted(reply))}. "
                f"Run `ap-ranker index`, which leaves the newest."
            )
        with expected_reply(index):
            return IndexFacts.of(mappings[0])

    def missing(self, index: str) -> MissingIndexError:
        """The error that there is no such index."""
        return MissingIndexError(
            f"Expected the index {index!r}, which holds what this checkpoint made of the FAQ {self.index!r}, found "
            "none. Make it: ap-ranker index FAQ.csv --pipeline FILE.yaml"
        )

    def require_complete(self, index: str) -> None:
        """MissingIndexError unless the index is as `ap-ranker index` leaves it."""
        if not self.facts(index).notes.get("complete"):
            raise self.incomplete(index)

    def incomplete(self, index: str) -> MissingIndexError:
        """The error that an index is still being made; what it says of itself is read anew afterwards."""
        self.forget(index)
        return MissingIndexError(
            f"Expected the index {index!r} as `ap-ranker index` leaves it, found one that is not complete. Wait until "
            "the command has ended, or run it again."
        )

    def search(self, index: str, searches: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """
        The answers to several searches of an index, by one request.

        :param index: The index.
        :param searches: Bodies of searches.
        :returns: The answers, each of all shards.
        :raises IncompleteSearchError: A shard has failed, is missing, or has not answered in time.
        :raises MissingIndexError: There is no such index.
        """
        header = {"index": index, "allow_partial_search_results": False, "preference": _PREFERENCE}
        limits = {"timeout": f"{int(self.request_timeout * 1000)}ms", "track_total_hits": False}
        lines: list[dict[str, Any]] = []
        for search in searches:
            lines += [header, {**limits, **search}]
        with expected_reply(index):
            reply = self.client.msearch(searches=lines, filter_path=_RESULTS)
            answers: list[dict[str, Any]] = reply["responses"]
            for answer, _ in zip(answers, searches, strict=True):
                self._check_complete(index, answer)
            return answers

    def _check_complete(self, index: str, answer: Mapping[str, Any]) -> None:
        shards = answer.get("_shards", {})
        error = answer.get("error")
        if error is None and not answer.get("timed_out") and shards.get("successful") == shards.get("total"):
            return
        if error is not None and error.get("type") == "index_not_found_exception":
            self._opened.facts.pop(index, None)
            raise self.missing(index)
        if answer.get("status") == 400:
            raise InputError(f"The index {index!r} refused the search: {_reason(error)}.")
        if error is not None:
            reason = _reason(error)
        elif answer.get("timed_out"):
            reason = f"it took more than {self.request_timeout:g} s"
        else:
            reason = f"{shards.get('successful')} of {shards.get('total')} shards answered"
        raise IncompleteSearchError(
            f"Expected an answer of all shards of the index {index!r}, found a part ({reason}). Candidates may be "
            "missing, so nothing is answered. Look at the cluster's health, and ask again."
        )

    def documents(
        self, index: str, ids: Sequence[str], *, of_states: Sequence[str] = (), with_states: bool = False
    ) -> dict[str, FetchedDocument]:
        """
        The documents with these ids, as far as they are still there, by one request.

        :param index: The index.
        :param ids: The ids of whole documents.
        :param of_states: The ids of further documents, of which only the states are fetched.
        :param with_states: Whether to fetch the states of whole documents, too.
        :returns: Each by its id.
        :raises IncompleteSearchError: A shard does not answer.
        """
        requests = document_requests(ids, of_states, with_states=with_states)
        if not requests:
            return {}
        documents: dict[str, FetchedDocument] = {}
        whole = set(ids)
        with expected_reply(index):
            reply = self.client.mget(
                index=index, docs=requests, filter_path="docs._id,docs._seq_no,docs.found,docs._source,docs.error"
            )
            for hit in reply["docs"]:
                self._check_fetched(index, hit)
                if not hit["found"]:
                    continue
                source = hit.get("_source", {})
                document = None
                if hit["_id"] in whole:
                    document = read_document(hit["_id"], source)
                    if document is None:
                        continue
                documents[hit["_id"]] = FetchedDocument(hit["_seq_no"], document, source.get(STATES))
        return documents

    def _check_fetched(self, index: str, hit: Mapping[str, Any]) -> None:
        if "error" in hit:
            raise IncompleteSearchError(
                f"Expected the document {hit['_id']!r} of the index {index!r}, found an error "
                f"({_reason(hit['error'])}). Look at the cluster's health, and ask again."
            )

    def first_documents(self, index: str, limit: int) -> list[Document]:
        """The first documents of an index, in no special order; at most 10,000."""
        query = {"exists": {"field": "content"}}
        search = {"size": min(limit, 10_000), "query": query, "sort": ["_doc"], "_source": WITHOUT_STATES}
        hits = self.search(index, [search])[0].get("hits", {}).get("hits", [])
        return documents_of(hits)

    def query_of(self, index: str, filters: dict[str, Any]) -> dict[str, Any]:
        """Haystack's filters as Elasticsearch takes them; FilterError if they are malformed or find nothing ever."""
        from haystack_integrations.document_stores.elasticsearch.filters import _normalize_filters

        check_dictionary(filters)
        names = _fields_of(filters)
        mapped_fields = self.facts(index).fields
        if not mapped_fields.keys() >= set(names):  # one may be new
            self.forget(index)
            mapped_fields = self.facts(index).fields
        for name in names:
            if mapped_fields.get(name, "text") in ("text", "object", "nested", "dense_vector"):
                mapped: list[str] = []
                for field, kind in sorted(mapped_fields.items()):
                    if kind not in ("text", "nested", "dense_vector"):
                        mapped.append(field)
                raise FilterError(
                    f"Expected filters on fields of the mapping of {index!r} ({', '.join(mapped)}), found {name!r}. "
                    f"Add it to the store's fields ({name}: {{type: keyword}}), and run `ap-ranker index` again."
                )
        with library_errors("Expected filters that Elasticsearch can apply", (KeyError, TypeError, AttributeError)):
            query: dict[str, Any] = _normalize_filters(filters)
            return query

    def count_documents(self) -> int:
        """The number of documents behind the alias."""
        return int(self.client.count(index=self.index)["count"])

    def filter_documents(self, filters: dict[str, Any] | None = None) -> list[Document]:
        """The documents behind the alias that match Haystack's filters, or all; at most 10,000."""
        query = {"match_all": {}} if not filters else self.query_of(self.index, filters)
        search = {"size": 10_000, "query": {"bool": {"filter": query}}, "_source": WITHOUT_STATES}
        answer = self.search(self.index, [search])[0]
        hits = answer.get("hits", {}).get("hits", [])
        return documents_of(hits)

    def write_documents(self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE) -> int:
        """Refused: an index is written by `ap-ranker index`, which makes all that a search needs."""
        raise InputError(self._read_only)

    def delete_documents(self, document_ids: list[str]) -> None:
        """Refused, as `write_documents` is."""
        raise InputError(self._read_only)

    @property
    def _read_only(self) -> str:
        return (
            f"Expected the index {self.index!r} to be read, found a write. Write it with "
            "`ap-ranker index FAQ.csv --pipeline FILE.yaml`."
        )


def _reason(error: Mapping[str, Any] | None) -> str:
    """Why a request failed, by its innermost cause."""
    if error is None:
        return "no reason given"
    shard = next((failure["reason"] for failure in error.get("failed_shards", ())), None)
    cause = shard or next(iter(error.get("root_cause") or ()), None) or error.get("caused_by") or error
    return one_line(f"{cause.get('type')}: {cause.get('reason') or error.get('reason') or 'a shard has no node'}")


def _fields_of(filters: Mapping[str, Any]) -> list[str]:
    """The fields that filters name, as documents in the index have them."""
    if isinstance(filters.get("field"), str):
        return [filters["field"].removeprefix("meta.")]
    conditions = filters.get("conditions")
    nested = conditions if isinstance(conditions, list) else []
    names: list[str] = []
    for condition in nested:
        if isinstance(condition, Mapping):
            names += _fields_of(condition)
    return names
