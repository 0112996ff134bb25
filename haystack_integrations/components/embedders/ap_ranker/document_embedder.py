# SPDX-License-Identifier: Apache-2.0
"""The embedder of documents. It is defined here because Haystack loads YAML only from `haystack_integrations`."""

from __future__ import annotations

from pathlib import Path

from haystack import Document, component
from haystack.utils import ComponentDevice, Secret
from tqdm import tqdm

from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.text_encoder import BATCH_SIZE, check_number
from haystack_integrations.common.ap_ranker.component import FIELDS, CheckpointComponent, DocumentTexts
from haystack_integrations.common.ap_ranker.query_data import check_meta, with_embeddings, with_states

_TOGETHER = 4  # batches between two steps of the progress bar: texts of similar length are encoded together


@component
class APDocumentEmbedder(CheckpointComponent):
    """
    Embeds documents, for any document store, by a checkpoint of `ap-ranker train` with vectors of whole texts.

    ### Usage example

    ```python
    from haystack import Document
    from haystack_integrations.components.embedders.ap_ranker import APDocumentEmbedder

    embedder = APDocumentEmbedder(model="checkpoints/faq")
    documents = embedder.run([Document(content="Open the tracking link ...")])["documents"]
    print(len(documents[0].embedding))
    ```
    """

    parameters = (*CheckpointComponent.parameters, "prefix", "suffix", "batch_size", "progress_bar", *FIELDS, "states")

    def __init__(
        self,
        *,
        model: str | Path,
        device: ComponentDevice | None = None,
        token: Secret | None = Secret.from_env_var(["HF_API_TOKEN", "HF_TOKEN"], strict=False),  # noqa: B008
        prefix: str = "",
        suffix: str = "",
        batch_size: int = BATCH_SIZE,
        progress_bar: bool = True,
        meta_fields_to_embed: list[str] | None = None,
        embedding_separator: str = "\n",
        states: bool = False,
    ) -> None:
        """
        Create the component; the first `run`, or `warm_up`, reads the checkpoint.

        :param model: The path of a checkpoint folder, or the name of a repository of the Hugging Face hub.
        :param device: The device that the model runs on. By default, the GPU if there is one.
        :param token: The token for a private repository of the hub. By default, the environment's `HF_API_TOKEN` or
            `HF_TOKEN`.
        :param prefix: A text that the model reads before each document.
        :param suffix: A text that the model reads after each document.
        :param batch_size: The number of documents to encode at once, 64 by default. More need more memory.
        :param progress_bar: Whether to show the progress of more documents than are encoded together.
        :param meta_fields_to_embed: Meta fields whose values the model reads before the content.
        :param embedding_separator: The text between these values and the content.
        :param states: Whether documents also carry what an `AnswerRanker` of the same checkpoint makes of them, in
            `meta["ap_ranker_states"]`: then it encodes none of them, on whichever machine it runs. About 5 KB of text
            for an answer of 100 words by `ap-transformer`; documents of which they are above 32 KB carry none.
        :raises InputError: `batch_size` is not a positive whole number.
        """
        check_number("batch_size", batch_size, 1)
        self._name_checkpoint(model, device, token)
        self.prefix = prefix
        self.suffix = suffix
        self.batch_size = batch_size
        self.progress_bar = progress_bar
        self.meta_fields_to_embed = meta_fields_to_embed or []
        self.embedding_separator = embedding_separator
        self.states = states
        self._texts = DocumentTexts(prefix, suffix, self.meta_fields_to_embed, embedding_separator)

    def _load(self) -> Ranker:
        ranker = CheckpointComponent._load(self)  # no super(): @component recreates the class
        if self.states:
            ranker.fill_cache()  # so that the states are those that were encoded for the vectors
        return ranker

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, list[Document]]:
        """
        Embed documents.

        :param documents: The documents. Missing content counts as empty.
        :returns: `documents`: copies, in the same order and with the same ids, with their embeddings, of length 1. In
            the meta of each, `embedded_by` is the fingerprint of the checkpoint, by which a changed one is recognised.
        :raises TypeError: `documents` is not a list of documents.
        :raises InputError: The checkpoint cannot be loaded, its model has no vectors of whole texts, or the meta of a
            document is no dictionary.
        """
        if not isinstance(documents, list) or any(not isinstance(document, Document) for document in documents):
            raise TypeError(
                "APDocumentEmbedder expects a list of Documents as input. To embed a string, use APTextEmbedder."
            )
        if not documents:
            return {"documents": []}
        check_meta(documents)
        ranker = self.loaded()
        texts = self._texts.texts(documents)
        together = _TOGETHER * self.batch_size
        vectors: list[list[float]] = []
        sealed: list[str | None] = []
        is_silent = not self.progress_bar or len(texts) <= together
        for start in tqdm(range(0, len(texts), together), desc="Embedding documents", disable=is_silent):
            some = texts[start : start + together]
            vectors += ranker.embed_answers(some, self.batch_size).tolist()
            if self.states:
                sealed += ranker.sealed_states(some, self.batch_size)
        embedded = with_embeddings(documents, vectors, self._texts.origin(ranker))
        if self.states:
            embedded = with_states(embedded, sealed)
        return {"documents": embedded}

    @property
    def embedded_by(self) -> str:
        """What the embeddings of `run` come from, as in the meta of its documents; loads the checkpoint."""
        return self._texts.origin(self.loaded())
