"""The embedder of documents. It is defined here because Haystack loads YAML only from `haystack_integrations`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from haystack import Document, component
from haystack.utils import ComponentDevice, Secret

from ap_ranker.ranking.int8_vectors import EMBEDDED_BY
from ap_ranker.ranking.ranker import BATCH_SIZE
from ap_ranker.threads import in_thread
from haystack_integrations.components.rankers.ap_ranker.checkpoint import (
    CheckpointComponent,
    DocumentTexts,
    check_number,
)


@component
class APDocumentEmbedder(CheckpointComponent):
    """Embeds documents, for any document store.

    The checkpoint is one of `ap-ranker train` whose model has vectors of whole texts, such as `ap-transformer`. Loading
    is lazy: the first `run`, or `warm_up`, reads the checkpoint.

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
        """Create the component without loading the checkpoint.

        :param model: The path of a checkpoint folder, or the name of a repository of the Hugging Face hub.
        :param device: The device on which the model runs. `None` selects the GPU if there is one.
        :param token: The token for downloading private models from the hub.
        :param prefix: The text to put before each document's text.
        :param suffix: The text to put after each document's text.
        :param batch_size: The number of documents to encode at once; more need more memory.
        :param meta_fields_to_embed: The meta fields whose values are put before the content.
        :param embedding_separator: The text to put between these values and the content.
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
        embeddings = ranker.embed_answers(texts, self.batch_size).tolist()
        meta = {EMBEDDED_BY: self._texts.origin(ranker)}
        return {
            "documents": [
                replace(document, embedding=embedding, meta={**document.meta, **meta})
                for document, embedding in zip(documents, embeddings, strict=True)
            ]
        }

    run_async = in_thread(run)
    """As `run`, in a thread, so that the event loop stays free."""

    @property
    def embedded_by(self) -> str:
        """What the embeddings of `run` come from, as in the meta of its documents; loads the checkpoint."""
        return self._texts.origin(self._loaded())
