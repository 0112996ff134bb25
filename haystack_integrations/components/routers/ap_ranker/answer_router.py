# SPDX-License-Identifier: Apache-2.0
"""A router by whether a query has an answer. It is here because Haystack loads YAML only from this namespace."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from haystack import Document, component
from haystack.utils import ComponentDevice, Secret

from ap_ranker.ranking.outcome import Outcome
from haystack_integrations.common.ap_ranker.component import Composed, file_list
from haystack_integrations.components.rankers.ap_ranker.ranker import AnswerRanker


@component
class AnswerRouter(Composed):
    """
    Sends ranked documents on as an answer or as a maybe, or the query as one that has none.

    It goes behind an `AnswerRanker` of the same checkpoint, and decides as the search page does: `answer` if the
    probability that the first document is right reaches the threshold of the target precision, `none` if the documents
    are no more like the query than like questions about other matters, and `maybe` otherwise.

    ### Usage example

    ```python
    from haystack import Document
    from haystack_integrations.components.routers.ap_ranker import AnswerRouter

    router = AnswerRouter(model="checkpoints/faq")
    print(router.run(query="Where is my parcel?", documents=[Document(content="Open the tracking link ...")]))
    ```
    """

    parameters = ("model", "precision", "device", "token", "fuse_scores", "wordings")
    uses = ("_ranker",)

    def __init__(
        self,
        *,
        model: str | Path,
        precision: float | None = None,
        device: ComponentDevice | None = None,
        token: Secret | None = Secret.from_env_var(["HF_API_TOKEN", "HF_TOKEN"], strict=False),  # noqa: B008
        fuse_scores: bool = False,
        wordings: str | Path | Sequence[str | Path] | None = None,
    ) -> None:
        """
        Create the component without loading the checkpoint. Its parameters are those of the `AnswerRanker` in front.

        :param precision: The target share of right first answers, for which the checkpoint must be calibrated; by
            default .8.
        :raises InputError: `precision` is no number between 0 and 1.
        """
        self.model, self.precision, self.fuse_scores = str(model), precision, fuse_scores
        self.device, self.token = device, token
        self.wordings = None if wordings is None else file_list(wordings)
        self._ranker = AnswerRanker(
            model=model, precision=precision, device=device, token=token, fuse_scores=fuse_scores, wordings=wordings
        )

    @component.output_types(answer=list[Document], maybe=list[Document], none=str)
    def run(self, *, query: str, documents: list[Document]) -> dict[str, Any]:
        """
        Decide on a query.

        :param query: The question of the user.
        :param documents: What was found for it, best first; the two best different documents are enough.
        :returns: One of `answer` and `maybe`, with the documents, and `none`, with the query.
        :raises InputError: The checkpoint cannot be loaded, or was not calibrated for `precision`.
        """
        outcome = self._ranker.decide(query, documents).outcome
        return {str(outcome): query if outcome is Outcome.NONE else documents}
