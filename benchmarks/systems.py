"""What is measured: our models and BM25. Each takes a query and documents and gives the best documents."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import torch
from haystack import Document
from haystack.utils import ComponentDevice

from ap_ranker.models.pretrained import read_encoder
from ap_ranker.models.registry import MODELS, build_model, complete_options
from ap_ranker.models.spec import Inputs
from ap_ranker.ranking.checkpoint import WEIGHTS, CheckpointConfig, save_checkpoint
from ap_ranker.text.tokenizer import AnyTokenizer, WordTokenizer
from ap_ranker.training.compare import Contender
from ap_ranker.training.config import EMBEDDING_SIZE, TrainingConfig
from haystack_integrations.components.rankers.ap_ranker.ranker import AnswerRanker
from haystack_integrations.components.retrievers.ap_ranker.bm25s import BM25SRetriever
from haystack_integrations.document_stores.ap_ranker.bm25s import BM25SDocumentStore

MAX_TOKENS = TrainingConfig.max_tokens

TOP_K = 10
"""How many documents each system returns: the default of Haystack's rankers and of ours."""

CACHE_MEGABYTES = 2000
"""Room for all candidates of one question, whatever the model keeps of them."""


class System(ABC):
    """A way to rank documents.

    Attributes:
        name: in the tables.
        weights: bytes of its parameters; `None` without any.
        caches: whether documents that it has ranked cost less the next time.
        token_states: whether it keeps a state for each token of a document.
    """

    name: str
    weights: int | None = None
    caches: ClassVar[bool] = False
    token_states: bool = False

    @abstractmethod
    def run(self, query: str, documents: list[Document]) -> dict[str, list[Document]]:
        """The best of the documents under `documents`, best first, as a Haystack component returns them."""

    def forget(self) -> None:  # noqa: B027  # what caches nothing has nothing to forget
        """Be as if no document had been ranked yet."""

    @property
    def cached(self) -> tuple[int, int]:
        """How many documents it keeps, and the bytes that they take."""
        return 0, 0


class AnswerModelSystem(System):
    """One of our checkpoints in the component that a user takes."""

    caches = True

    def __init__(self, contender: Contender, checkpoint: Path, device: torch.device) -> None:
        self.name = contender.label
        self.weights = (checkpoint / WEIGHTS).stat().st_size
        self.token_states = "token states" in MODELS[contender.model].cached
        self.component = answer_ranker(checkpoint, device, TOP_K)

    def run(self, query: str, documents: list[Document]) -> dict[str, list[Document]]:
        found: dict[str, list[Document]] = self.component.run(query=query, documents=documents)
        return found

    def forget(self) -> None:
        self.component.close()
        self.component.warm_up()

    @property
    def cached(self) -> tuple[int, int]:
        info = self.component.cache_info
        return (info.entries, info.bytes) if info else (0, 0)


class BM25System(System):
    """BM25 alone, which looks for the documents itself: as many as it is given."""

    name = "BM25"

    def __init__(self, store: BM25SDocumentStore) -> None:
        self.component = BM25SRetriever(store)

    def run(self, query: str, documents: list[Document]) -> dict[str, list[Document]]:
        found: dict[str, list[Document]] = self.component.run(query=query, top_k=len(documents))
        return found


def answer_ranker(checkpoint: Path, device: torch.device, top_k: int) -> AnswerRanker:
    """Our component for a checkpoint, with a cache that holds all that is ranked here."""
    return AnswerRanker(
        model=checkpoint,
        device=ComponentDevice.from_str(str(device)),
        top_k=top_k,
        cache={"megabytes": CACHE_MEGABYTES},
    )


def write_checkpoints(contenders: Sequence[Contender], texts: Sequence[str], folder: Path) -> dict[str, Path]:
    """Checkpoints of untrained models by their labels: what the weights are does not change the time that they take.

    A model with a pretrained encoder has its architecture and tokenizer.

    Args:
        contenders: the models.
        texts: the answers; their words are the vocabulary.
        folder: where to write.

    Raises:
        InputError: an encoder is not there.
    """
    words = WordTokenizer.build(texts, max_tokens=MAX_TOKENS)
    of_words = Inputs(words.words, EMBEDDING_SIZE, MAX_TOKENS)
    written = {}
    for number, contender in enumerate(contenders):
        torch.manual_seed(1)
        options = complete_options(contender.model, contender.options)
        tokenizer: AnyTokenizer = words
        inputs = of_words
        if MODELS[contender.model].pretrained:
            _, tokenizer, inputs = read_encoder(options["encoder"], MAX_TOKENS)
        model = build_model(contender.model, inputs, options)
        if model.statistics is not None:
            model.statistics.count(tokenizer.encode(texts)[0])
        config = CheckpointConfig(
            contender.model, options, inputs.embedding_size, MAX_TOKENS, {}, encoder=inputs.encoder
        )
        written[contender.label] = folder / f"model-{number}"
        save_checkpoint(written[contender.label], config, model, tokenizer, f"# {contender.label}, untrained\n")
    return written
