# SPDX-License-Identifier: Apache-2.0
"""A router by whether a query has an answer. It is here because Haystack loads YAML only from this namespace."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from haystack import Document, component
from haystack.utils import ComponentDevice, Secret

from ap_ranker.ranking.decision import Decision
from ap_ranker.ranking.outcome import Outcome
from haystack_integrations.common.ap_ranker.component import Composed, file_list
from haystack_integrations.common.ap_ranker.query_data import (
    check_documents,
    check_query,
    decision_of,
    query_key,
    read_decision,
)
from haystack_integrations.components.rankers.ap_ranker.ranker import AnswerRanker


@component
class AnswerRouter(Composed):
    """
    Sends ranked documents on as an answer or as a maybe, or the query as one that has none.

    It goes behind a ranker or a search of this package, and acts on the decision that comes with the documents. Only
    where none comes, as behind other rankers, does it rank the documents and decide itself: `answer` if the probability
    that the first document is right reaches the threshold of the target precision, `none` if the documents are no more
    like the query than like questions about other matters, and `maybe` otherwise.

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
        Create the component without loading the checkpoint.

        :param model: The checkpoint of the ranker in front.
        :param precision: The target share of right first answers. It replaces that of the ranker in front. By default
            that one counts, and .8 where there is none.
        :param device: The device that the model runs on. By default, the GPU if there is one.
        :param token: The token for a private repository of the hub. By default, the environment's `HF_API_TOKEN` or
            `HF_TOKEN`.
        :param fuse_scores: Whether to add BM25's score, as for `AnswerRanker`. Only for documents that come without a
            decision.
        :param wordings: Files of known wordings, as for `AnswerRanker`. Only for documents that come without a
            decision.
        :raises InputError: `precision` is no number between 0 and 1.
        """
        self.model = str(model)
        self.precision = precision
        self.fuse_scores = fuse_scores
        self.device = device
        self.token = token
        self.wordings = None if wordings is None else file_list(wordings)
        self._ranker = AnswerRanker(
            model=model, precision=precision, device=device, token=token, fuse_scores=fuse_scores, wordings=wordings
        )

    @component.output_types(answer=list[Document], maybe=list[Document], none=str)
    def run(self, *, query: str, documents: list[Document], decision: dict[str, Any] | None = None) -> dict[str, Any]:
        """
        Decide on a query.

        :param query: The question of the user.
        :param documents: What was found for it, best first; the two best different documents are enough.
        :param decision: The `decision` of `FAQSearch` or `AnswerSearch`. It is needed only where these leave out
            documents, by `precision` or `score_threshold`, so that there may be none to come with.
        :returns: One of `answer` and `maybe`, with the documents, and `none`, with the query.
        :raises InputError: The checkpoint cannot be loaded, or `decision` is none.
        """
        check_query(query)
        check_documents(documents)
        outcome = self._decide(query, documents, decision).outcome
        return {str(outcome): query if outcome is Outcome.NONE else documents}

    def _decide(self, query: str, documents: list[Document], data: dict[str, Any] | None) -> Decision:
        decision = decision_of(documents, query_key(query))
        if decision is None and data is not None:
            decision = read_decision(data, "AnswerRouter")
        if decision is None:
            return self._ranker.decide(query, documents)
        if self.precision is None:
            return decision
        return self._ranker.decide_again(decision, documents, query=query, precision=self.precision)
