"""Which index of Elasticsearch a pipeline's file declares, and what makes its vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from haystack import Document
from haystack.utils import Secret

from ap_ranker.errors import InputError
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.search.choose_checkpoint import check_same_language
from ap_ranker.search.elasticsearch.build_index import IndexTarget, vectors_of
from ap_ranker.text.languages import check_language
from haystack_integrations.components.embedders.ap_ranker import APDocumentEmbedder
from haystack_integrations.components.retrievers.ap_ranker import ElasticsearchFAQRetriever
from haystack_integrations.document_stores.ap_ranker import ElasticsearchFAQStore
from haystack_integrations.document_stores.ap_ranker.elasticsearch_faq import index_maker

UPSTREAM = "ElasticsearchDocumentStore"
"""The class of Haystack's own store, which may not be installed."""

DEFAULT_LANGUAGE = "english"
"""That of the analyzers for a pipeline without a checkpoint, as its file has said since the first release."""

_OURS = ("hosts", "index", "request_timeout", "ca_certs", "ssl_assert_fingerprint")
_NOT_OF_CLIENT = (
    *("custom_mapping", "api_key", "api_key_id", "embedding_similarity_function", "sparse_vector_field"),
    "ingest_pipeline",
)
_OWN_FIELDS = ("content", "embedding", "id", "ap_ranker_key")


def is_elasticsearch(store: Any) -> bool:
    """Whether a store is in Elasticsearch, ours or Haystack's."""
    return isinstance(store, ElasticsearchFAQStore) or type(store).__name__ == UPSTREAM


def elasticsearch_of(store: Any) -> ElasticsearchFAQStore:
    """The store as ours, which makes no index when it connects; InputError if it is another one."""
    if isinstance(store, ElasticsearchFAQStore):
        return store
    if not is_elasticsearch(store):
        raise InputError(f"Expected a store in Elasticsearch, found {type(store).__name__}.")
    settings = store.to_dict()["init_parameters"]
    mapping = settings.get("custom_mapping") or {}
    properties = mapping.get("properties") or {}
    fields = {name: options for name, options in properties.items() if name not in _OWN_FIELDS}
    own = {name: settings[name] for name in _OURS if settings.get(name) is not None}
    more = {name: value for name, value in settings.items() if name not in (*_OURS, *_NOT_OF_CLIENT)}
    # `to_dict` leaves out a key that is written into the file.
    attributes = vars(store)
    return ElasticsearchFAQStore(
        **own,
        api_key=_secret(attributes.get("_api_key")),
        api_key_id=_secret(attributes.get("_api_key_id")),
        client_settings=more or None,
        fields=fields or None,
    )


def _secret(key: Any) -> Secret | None:
    """A key as a secret, whether it is one already or a text; an empty text is none."""
    if isinstance(key, str) and key:
        return Secret.from_token(key)
    return key or None


def find_target(
    store: Any, embedder: APDocumentEmbedder | None, retrievers: Sequence[Any], language: str | None = None
) -> IndexTarget | None:
    """What the index is made for that a pipeline declares; `None` for another store than Elasticsearch."""
    if not is_elasticsearch(store):
        return None
    check_language(language)
    ours = elasticsearch_of(store)
    for retriever in retrievers:
        if isinstance(retriever, ElasticsearchFAQRetriever):
            ranker = retriever.loaded()
            check_same_language(ranker, language)
            return _target_of(ours, ranker, retriever.texts.origin(ranker), retriever.embedded)
    if embedder is not None:
        embedder.warm_up()
        ranker = embedder.loaded()
        check_same_language(ranker, language)

        def embed(documents: list[Document]) -> list[Document]:
            embedded: list[Document] = embedder.run(documents=documents)["documents"]
            return embedded

        return _target_of(ours, ranker, embedder.embedded_by, embed)
    chosen = language or DEFAULT_LANGUAGE
    return IndexTarget(ours, index_maker("", chosen), chosen)


def _target_of(store: ElasticsearchFAQStore, ranker: Ranker, origin: str, embed: Any) -> IndexTarget:
    language = ranker.bm25_language
    notes: dict[str, Any] = {"checkpoint": ranker.source}
    if not ranker.has_vectors:
        return IndexTarget(store, index_maker(origin, language), language, origin, embed=embed, notes=notes)
    return IndexTarget(
        store,
        index_maker(origin, language),
        language,
        origin,
        dimensions=len(ranker.embed_questions([""])[0]),
        embed=embed,
        embed_wordings=vectors_of(ranker.embed_wordings),
        notes=notes,
    )
