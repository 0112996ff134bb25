"""The embedder of documents. It is defined here because Haystack loads YAML only from `haystack_integrations`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from haystack import Document, component
from haystack.utils import ComponentDevice, Secret

from ap_ranker.ranking.ranker import BATCH_SIZE
from ap_ranker.ranking.wordings import EMBEDDED_BY
from ap_ranker.threads import in_thread
from haystack_integrations.components.rankers.ap_ranker.checkpoint import (
    CheckpointComponent,
    DocumentTexts,
    check_number,
)


@component
class APDocumentEmbedder(CheckpointComponent):
    """Embeds documents, for any document store, by a checkpoint of `ap-ranker train` with vectors of whole texts.

    ```python
    from haystack import Document
    from haystack_integrations.components.embedders.ap_ranker import APDocumentEmbedder

    APDocumentEmbedder(model="checkpoints/faq").run([Document(content="Open the tracking link ...")])["documents"]
    ```
    """

    def __init__(
        self,
        *,
        model: str | Path,
        device: ComponentDevice | None = None,
        token: Secret | None = Secret.from_env_var(["HF_API_TOKEN", "HF_TOKEN"], strict=False),  # noqa: B008
        prefix: str = "",
        suffix: str = "",
        batch_size: int = BATCH_SIZE,
        meta_fields_to_embed: list[str] | None = None,
        embedding_separator: str = "\n",
    ) -> None:
        """Create the component; the first `run`, or `warm_up`, reads the checkpoint.

        The other parameters are those of Haystack's `SentenceTransformersDocumentEmbedder`.

        :param model: The path of a checkpoint folder, or the name of a repository of the Hugging Face hub.
        :param batch_size: The number of documents to encode at once; more need more memory.
        :raises ValueError: `batch_size` is not positive.
        """
        check_number("batch_size", batch_size, 1)
        self._name_checkpoint(model, device, token)
        self.prefix = prefix
        self.suffix = suffix
        self.batch_size = batch_size
        self.meta_fields_to_embed = meta_fields_to_embed or []
        self.embedding_separator = embedding_separator
        self._texts = DocumentTexts(prefix, suffix, self.meta_fields_to_embed, embedding_separator)

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, list[Document]]:
        """Embed documents.

        :param documents: The documents. Missing content counts as empty.
        :returns: `documents`: copies, in the same order and with the same ids, with their embeddings, of length 1. In
            the meta of each, `embedded_by` is the fingerprint of the checkpoint, by which a changed one is recognised.
        :raises TypeError: `documents` is not a list of documents.
        :raises InputError: The checkpoint cannot be loaded, or its model has no vectors of whole texts.
        """
        if not isinstance(documents, list) or any(not isinstance(document, Document) for document in documents):
            raise TypeError(
                "APDocumentEmbedder expects a list of Documents as input. To embed a string, use APTextEmbedder."
            )
        if not documents:
            return {"documents": []}
        ranker = self._loaded()
        texts = self._texts.texts(documents)
        pairs = zip(documents, ranker.embed_answers(texts, self.batch_size).tolist(), strict=True)
        origin = {EMBEDDED_BY: self._texts.origin(ranker)}
        return {"documents": [replace(one, embedding=vector, meta=one.meta | origin) for one, vector in pairs]}

    run_async = in_thread(run)

    @property
    def embedded_by(self) -> str:
        """What the embeddings of `run` come from, as in the meta of its documents; loads the checkpoint."""
        return self._texts.origin(self._loaded())
