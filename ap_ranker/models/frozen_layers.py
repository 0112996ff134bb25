"""Layers of a transformer that do not learn: what they make of a text is computed once, and the last layers read it.

States are kept in half precision, in the user's cache for the next run. A shard is a safetensors file of the texts that
were read together, memory-mapped: a tensor (T, H) by the hash of each text's token ids. Shards are never changed, so
that several processes may write at once.
"""

from __future__ import annotations

import hashlib
import logging
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from ap_ranker.errors import InputError
from ap_ranker.files import WriteError, atomic_file, cache_folder, file_version, make_folder
from ap_ranker.models.weights import is_finite

logger = logging.getLogger(__name__)

KIND = "encoder-states"  # the folder in the cache

MOST_BYTES = 8 * 10**9
"""Of all states when a run begins; 130 tokens of 384 numbers are 100 KB. The shards written first are removed."""


class FrozenStates:
    """The states of texts by layers with these weights; `reading` tells how they compute.

    New ones are added to `added_to`, without one to the user's cache.
    """

    @classmethod
    @contextmanager
    def opened(cls, weights: Iterable[Tensor], reading: str, *, outlives: bool) -> Iterator[FrozenStates]:
        """Those of earlier runs, and what is added; unless that `outlives`, it is removed at the end.

        Who has the states of a text can nearly read it.
        """
        with ExitStack() as stack:
            folder = None
            if not outlives:
                folder = Path(stack.enter_context(TemporaryDirectory(prefix="ap-ranker-")))
            yield cls(weights, reading, folder)

    def __init__(self, weights: Iterable[Tensor], reading: str, added_to: Path | None = None) -> None:
        digest = hashlib.sha256(reading.encode())
        for weight in weights:
            numbers = weight.detach().cpu().contiguous().flatten()
            digest.update(numbers.view(torch.uint8).numpy().tobytes())
        self._folder = cache_folder(KIND) / digest.hexdigest()[:32]
        self._added_to = added_to or self._folder
        self._shards: dict[str, Any] = {}  # of each text; or its states in memory, if they could not be written
        room = MOST_BYTES
        for path in sorted(cache_folder(KIND).rglob("*.safetensors"), key=lambda path: file_version(path)[1:])[::-1]:
            try:
                room -= path.stat().st_size
                if room < 0:
                    path.unlink()  # a process that has mapped it goes on reading
                elif path.parent == self._folder:
                    shard = safe_open(path, "pt")
                    self._shards |= dict.fromkeys(shard.keys(), shard)
            except (OSError, SafetensorError):  # damaged or gone: its texts are read again
                with suppress(OSError):  # the cache is read-only
                    path.unlink()

    def find(self, text: bytes) -> Tensor | None:
        """(T, H) as `rounded`; `None` if the text, given by its token ids, has not been read."""
        kept = self._shards.get(_key(text))
        if kept is None or isinstance(kept, Tensor):
            return kept
        return kept.get_tensor(_key(text))

    def add(self, states: Mapping[bytes, Tensor]) -> None:
        """Keep the (T, H) `rounded` states of texts: on disk, or on a full one in memory."""
        kept = {_key(text): of_text.cpu().contiguous() for text, of_text in states.items()}
        path = self._added_to / f"{uuid.uuid4().hex}.safetensors"
        try:
            make_folder(cache_folder(KIND), private=True)
            with atomic_file(path, private=True) as draft:
                save_file(kept, draft)
            self._shards |= dict.fromkeys(kept, safe_open(path, "pt"))
        except (OSError, WriteError, SafetensorError) as error:  # it only costs the time again
            logger.warning("%s", error)
            self._shards |= kept


def rounded(states: Tensor) -> Tensor:
    """In half precision; in bfloat16 where that cannot hold them, as between the layers of some decoders."""
    if is_finite(half := states.half()):
        return half
    return states.bfloat16()


def _key(text: bytes) -> str:
    return hashlib.blake2b(text, digest_size=16).hexdigest()


class _Stopped(Exception):  # noqa: N818 - no error: what was wanted has been computed
    pass


class _Skipped(nn.Module):
    """In the place of a layer: what it returns is not used."""

    def __init__(self, *, in_tuple: bool) -> None:
        super().__init__()
        self._in_tuple = in_tuple

    def forward(self, states: Tensor, *others: Any, **named: Any) -> Any:
        return (states,) if self._in_tuple else states


class LastLayers:
    """The last `count` layers of a transformer, each of which has states as its first argument.

    InputError if it has no list of so many layers.
    """

    def __init__(self, backbone: Any, count: int) -> None:
        total = backbone.config.num_hidden_layers
        lists = (module for module in backbone.modules() if isinstance(module, nn.ModuleList))
        layers = next((candidates for candidates in lists if len(candidates) == total >= count), None)
        if layers is None:
            raise InputError(f"Expected trained_layers up to the {total} layers of the encoder, found {count}.")
        self._backbone = backbone
        self._layers = layers
        self._below = total - count
        self._in_tuple = False

    def parameters(self) -> list[nn.Parameter]:
        """Those of the last layers."""
        weights: list[Any] = []
        for layer in self._layers[self._below :]:
            weights += layer.parameters()
        return weights

    @torch.no_grad()
    def check(self) -> None:
        """Raise InputError if they compute something else than in the whole transformer; called before any reading."""

        def see(_layer: nn.Module, _arguments: tuple[Any, ...], output: Any) -> None:
            self._in_tuple = isinstance(output, tuple)

        ids = torch.arange(10, 22, device=self.parameters()[0].device).reshape(2, 6) % self._backbone.config.vocab_size
        with self._layers[0].register_forward_hook(see):
            whole = self._read(ids, torch.ones_like(ids))
        mask = torch.ones_like(ids, dtype=torch.bool)
        if not torch.allclose(self.read_on(self.read_below(ids, mask), ids, mask), whole, atol=1e-4):
            name = type(self._backbone).__name__
            raise InputError(f"Expected trained_layers of an encoder whose layers share nothing, found {name}.")

    def read_below(self, ids: Tensor, mask: Tensor) -> Tensor:
        """(N, T, H) what the first of the last layers reads of (N, T) ids, attending to where the mask is True."""
        read: list[Tensor] = []

        def stop(_layer: nn.Module, arguments: tuple[Any, ...]) -> None:
            read.append(arguments[0])
            raise _Stopped

        with suppress(_Stopped), self._layers[self._below].register_forward_pre_hook(stop):
            self._read(ids, mask)
        return read[0]

    def read_on(self, below: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        """(N, T, H) the last hidden states, from those of `read_below`."""
        lower = list(self._layers[: self._below])
        for place in range(len(lower)):
            self._layers[place] = _Skipped(in_tuple=self._in_tuple)
        try:
            with self._layers[self._below].register_forward_pre_hook(lambda _, arguments: (below, *arguments[1:])):
                return self._read(ids, mask)
        finally:
            for place, layer in enumerate(lower):
                self._layers[place] = layer

    def _read(self, ids: Tensor, mask: Tensor) -> Tensor:
        return self._backbone(input_ids=ids, attention_mask=mask.long()).last_hidden_state
