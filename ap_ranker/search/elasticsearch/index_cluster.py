"""What `ap-ranker index` asks of an Elasticsearch cluster: aliases, listings and writes, each checked."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ap_ranker.errors import InputError, one_line
from ap_ranker.search.elasticsearch.elasticsearch_errors import block_advice
from haystack_integrations.common.ap_ranker.entries import MARK
from haystack_integrations.document_stores.ap_ranker.elasticsearch_documents import WITHOUT_STATES
from haystack_integrations.document_stores.ap_ranker.elasticsearch_faq import (
    ENTRY,
    MADE_BY,
    OF_INDEX,
    elasticsearch_library,
)

PAGE = 10_000
"""Number of documents listed at once: as many as Elasticsearch allows."""

SECONDS = 90.0
"""Maximum number of seconds of a request that writes: a lost node's shards need a minute to move to another."""

CHUNK = 200
"""Maximum number of documents of a request that writes."""

CHUNK_BYTES = 5 * 2**20
"""Maximum size of a request that writes, in bytes."""

WRITING_PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0)
"""Seconds before a busy or recovering cluster is asked to write again what it refused."""

LISTING_PAUSES = (1.0, 2.0, 4.0)
"""Seconds before a listing begins anew, each time that a node is lost meanwhile, or the cluster is busy."""

OWN_SEARCHES = "ap_ranker_index"
"""The group in which Elasticsearch counts the searches of this module, which nobody is answered by."""

LOST_MOMENT = "search_context_missing"
"""What Elasticsearch says if a point in time went with its node; the status of a missing index is 404, too."""


@dataclass(frozen=True)
class Stored:
    """What an index says of a document of ours: what made its fields, and the key of its entry."""

    made_by: str | None
    entry: str | None


def make_index(client: Any, index: str, **content: Any) -> bool:
    """Make an index, unless it is there: another run may be faster, or a reply be lost. Whether it was made."""
    try:
        client.indices.create(index=index, **content)
    except elasticsearch_library().BadRequestError as error:
        if error.error != "resource_already_exists_exception":
            raise
        return False
    return True


class Cluster:
    """A FAQ's indexes in a cluster."""

    def __init__(self, client: Any, name: str) -> None:
        self.client: Any = client.options(request_timeout=SECONDS, max_retries=5, retry_on_timeout=True)
        self.name = name

    def aliased(self) -> list[str]:
        """The indexes behind the alias; none if there is no such alias."""
        aliases = self.client.options(ignore_status=404).indices.get_alias(name=self.name)
        return [] if "error" in aliases else sorted(aliases)

    def has_index_of_its_name(self) -> bool:
        """Whether the FAQ's name is that of an index, as an earlier release made it, in place of an alias."""
        return not self.aliased() and bool(self.client.indices.exists(index=self.name))

    def current(self) -> str | None:
        """The index that is searched by the FAQ's name; InputError if there are several."""
        indexes = self.aliased()
        if len(indexes) > 1:
            raise InputError(
                f"Expected the alias {self.name!r} on one index, found {len(indexes)}: {', '.join(indexes)}. Remove it "
                "from those that are not this FAQ's."
            )
        if indexes:
            return indexes[0]
        return self.name if self.has_index_of_its_name() else None

    def notes_of_indexes(self) -> dict[str, dict[str, Any]]:
        """What `ap-ranker index` has noted of each of the FAQ's indexes, by their names."""
        made = self.client.indices.get_mapping(index=f"{self.name}-*", expand_wildcards="open", allow_no_indices=True)
        noted: dict[str, dict[str, Any]] = {}
        for index, description in made.items():
            notes = description["mappings"].get("_meta", {}).get(OF_INDEX)
            if notes and notes.get("faq") == self.name:  # another FAQ's name may begin with this one's
                noted[index] = notes
        return noted

    def description(self, index: str) -> tuple[Mapping[str, Any], Mapping[str, Any]] | None:
        """The settings and the mapping of an index; `None` if there is none."""
        answer = self.client.options(ignore_status=404).indices.get(index=index)
        if "error" in answer:
            return None
        made = next(iter(answer.values()))  # by its own name, where `index` is an alias
        return made["settings"]["index"], made["mappings"]

    def list_ours(self, index: str, keys: tuple[int, int]) -> dict[str, Stored]:
        """The documents that `ap-ranker index` wrote, with keys of a range."""
        return _stored(self._list(index, _search_for({"range": {MARK: {"gte": keys[0], "lt": keys[1]}}})))

    def list_those_of(self, index: str, ids: Iterable[str]) -> dict[str, Stored]:
        """The documents with some ids, as far as they are there."""
        wanted = list(ids)
        search = _search_for({"ids": {"values": wanted}})
        if len(wanted) > PAGE:
            return _stored(self._list(index, search))
        answer = self.client.search(
            index=index, size=PAGE, allow_partial_search_results=False, stats=[OWN_SEARCHES], **search
        )
        return _stored(answer["hits"]["hits"])

    def list_ids(self, index: str) -> list[str]:
        """The ids of all documents."""
        return [hit["_id"] for hit in self._list(index, {"query": {"match_all": {}}, "_source": False})]

    def list_others(self, index: str, made_by: str) -> list[dict[str, Any]]:
        """The documents that others wrote and whose fields are not so `made_by` yet, with sources, without states."""
        not_these = [{"exists": {"field": MARK}}, {"term": {MADE_BY: made_by}}]
        query = {"bool": {"must_not": not_these}}
        return self._list(index, {"query": query, "seq_no_primary_term": True, "_source": WITHOUT_STATES})

    def _list(self, index: str, search: Mapping[str, Any]) -> list[dict[str, Any]]:
        """All hits of a search at one moment, in the order of the shards."""
        for pause in LISTING_PAUSES:
            try:
                return list(self._pages(index, search))
            except elasticsearch_library().ApiError as error:
                is_lost = error.status_code == 404 and LOST_MOMENT in str(error.body)
                if not is_lost and error.status_code not in (429, 503):
                    raise
            time.sleep(pause)
        return list(self._pages(index, search))

    def _pages(self, index: str, search: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The hits of a search, page by page."""
        moment = self.client.open_point_in_time(index=index, keep_alive="2m")["id"]
        try:
            after: dict[str, Any] = {}
            while True:
                answer = self.client.search(
                    pit={"id": moment, "keep_alive": "2m"},
                    size=PAGE,
                    sort=[{"_shard_doc": "asc"}],
                    track_total_hits=False,
                    allow_partial_search_results=False,
                    stats=[OWN_SEARCHES],
                    **search,
                    **after,
                )
                hits = answer["hits"]["hits"]
                yield from hits
                if len(hits) < PAGE:
                    return
                after = {"search_after": hits[-1]["sort"]}
        finally:
            self.client.options(ignore_status=404).close_point_in_time(id=moment)

    def write(self, index: str, actions: Iterable[dict[str, Any]], *, refresh: bool = False) -> None:
        """Write and delete documents, in order; InputError names the first that the cluster refuses for good.

        With `refresh`, the next search finds them.
        """
        waiting = list(actions)
        for pause in WRITING_PAUSES:
            postponed = self._write_once(index, waiting, refresh)
            if not postponed:
                return
            time.sleep(pause)
            waiting = [action for action, _ in postponed]
        postponed = self._write_once(index, waiting, refresh)
        if postponed:
            raise _refusal(index, postponed[0][1])

    def _write_once(
        self, index: str, actions: Sequence[dict[str, Any]], refresh: bool
    ) -> list[tuple[dict[str, Any], Mapping[str, Any]]]:
        """The actions that the cluster refuses for the moment, each with its answer."""
        answered = elasticsearch_library().helpers.streaming_bulk(
            self.client,
            actions,
            index=index,
            refresh=refresh,
            chunk_size=CHUNK,
            max_chunk_bytes=CHUNK_BYTES,
            raise_on_error=False,
            raise_on_exception=False,
        )
        answers = list(answered)  # to its end: OpenTelemetry logs a traceback of a generator that is left before
        postponed = []
        for action, (is_done, answer) in zip(actions, answers, strict=True):
            operation, result = next(iter(answer.items()))
            if is_done or (operation == "delete" and result.get("status") == 404):
                continue
            if not _is_busy(result):
                raise _refusal(index, answer)
            postponed.append((action, answer))
        return postponed

    def counts(self, index: str, query: Mapping[str, Any], narrower: Mapping[str, Any]) -> tuple[int, int]:
        """How many documents match a query, and how many of them another one, too, by all shards."""
        answer = self.client.search(
            index=index,
            size=0,
            query=query,
            aggs={"narrower": {"filter": narrower}},
            track_total_hits=True,
            allow_partial_search_results=False,
            stats=[OWN_SEARCHES],
        )
        return int(answer["hits"]["total"]["value"]), int(answer["aggregations"]["narrower"]["doc_count"])

    def searches_by_others(self, index: str) -> int:
        """How many searches an index has answered, but for those of this class; anew from 0 where a node started."""
        stats = self.client.indices.stats(index=index, metric="search", groups=[OWN_SEARCHES])
        counted = stats["indices"][index]["total"]["search"]
        maintenance = counted.get("groups", {}).get(OWN_SEARCHES, {})
        return int(counted["query_total"]) - int(maintenance.get("query_total", 0))

    def move_alias(self, index: str) -> None:
        """Let the FAQ's name mean this index, in one step; an index of that name is removed."""
        actions: list[dict[str, Any]] = [{"add": {"index": index, "alias": self.name}}]
        if self.has_index_of_its_name():
            actions.insert(0, {"remove_index": {"index": self.name}})
        for former in self.aliased():
            if former != index:
                actions.append({"remove": {"index": former, "alias": self.name}})
        self.client.indices.update_aliases(actions=actions)


def _search_for(query: Mapping[str, Any]) -> dict[str, Any]:
    """A search for what `_stored` reads."""
    return {"query": query, "source": False, "docvalue_fields": [MADE_BY, ENTRY]}


def _stored(hits: Iterable[Mapping[str, Any]]) -> dict[str, Stored]:
    stored: dict[str, Stored] = {}
    for hit in hits:
        values = hit.get("fields", {})
        stored[hit["_id"]] = Stored(_first(values.get(MADE_BY)), _first(values.get(ENTRY)))
    return stored


def _first(values: Sequence[str] | None) -> str | None:
    return values[0] if values else None


def _is_busy(result: Mapping[str, Any]) -> bool:
    """Whether the cluster may take it in a while. A disk beyond its flood stage has the status of a busy cluster."""
    status = result.get("status")
    return status == 503 or (status == 429 and not block_advice(str(result.get("error"))))


def _refusal(index: str, answer: Mapping[str, Any]) -> Exception:
    """The error for what a bulk request's answer says of one action."""
    operation, result = next(iter(answer.items()))
    if "exception" in result:  # the whole request was refused
        return result["exception"]
    error = result.get("error", {})
    cause = None
    if isinstance(error, str):
        reason = error
    else:
        reason = f"{error.get('type')}: {error.get('reason')}"
        cause = error.get("caused_by", {}).get("reason")
    explanation = one_line(reason)
    if cause:
        explanation += f"; {one_line(cause)}"
    advice = block_advice(reason) or "What was written before stays; run the command again when that is mended."
    return InputError(
        f"Expected the index {index!r} to take every entry, found that it refused to {operation} "
        f"{result.get('_id')!r} ({explanation}). {advice}"
    )
