# SPDX-License-Identifier: Apache-2.0
"""The embedder of questions. It is defined here because Haystack loads YAML only from `haystack_integrations`."""

from __future__ import annotations

from pathlib import Path

from haystack import component
from haystack.utils import ComponentDevice, Secret

from haystack_integrations.common.ap_ranker.component import CheckpointComponent


@component
class APTextEmbedder(CheckpointComponent):
    """
    Embeds a question, for the embedding retriever of any document store, with the checkpoint of the documents.

    A ranker with the same checkpoint that gets the same question does not encode it again.

    ### Usage example

    ```python
    from haystack_integrations.components.embedders.ap_ranker import APTextEmbedder

    embedder = APTextEmbedder(model="checkpoints/faq")
    print(len(embedder.run("Where is my parcel?")["embedding"]))
    ```
    """

    parameters = (*CheckpointComponent.parameters, "prefix", "suffix")

    def __init__(
        self,
        *,
        model: str | Path,
        device: ComponentDevice | None = None,
        token: Secret | None = Secret.from_env_var(["HF_API_TOKEN", "HF_TOKEN"], strict=False),  # noqa: B008
        prefix: str = "",
        suffix: str = "",
    ) -> None:
        """
        Create the component; the first `run`, or `warm_up`, reads the checkpoint.

        :param model: The path of a checkpoint folder, or the name of a repository of the Hugging Face hub.
        :param device: The device that the model runs on. By default, the GPU if there is one.
        :param token: The token for a private repository of the hub. By default, the environment's `HF_API_TOKEN` or
            `HF_TOKEN`.
        :param prefix: A text that the model reads before each question.
        :param suffix: A text that the model reads after each question.
        """
        self._name_checkpoint(model, device, token)
        self.prefix = prefix
        self.suffix = suffix

    @component.output_types(embedding=list[float])
    def run(self, text: str) -> dict[str, list[float]]:
        """
        Embed a question.

        :param text: The question of the user.
        :returns: `embedding`: its vector, of length 1.
        :raises TypeError: `text` is not a string.
        :raises InputError: The checkpoint cannot be loaded, or its model has no vectors of whole texts.
        """
        if not isinstance(text, str):
            raise TypeError("APTextEmbedder expects a string as input. To embed Documents, use APDocumentEmbedder.")
        embedding: list[float] = self.loaded().embed_questions([self.prefix + text + self.suffix])[0].tolist()
        return {"embedding": embedding}
