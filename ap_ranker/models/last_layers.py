"""The last layers of a transformer, which read the states of the layer below them instead of a text.

Where only they learn, what lies below computes the same in each epoch, and need not be computed twice.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn

from ap_ranker.errors import InputError


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
        layers = next((each for each in lists if len(each) == total >= count), None)
        if layers is None:
            raise InputError(f"Expected trained_layers up to the {total} layers of the encoder, found {count}.")
        self._backbone, self._layers, self._below, self._in_tuple = backbone, layers, total - count, False

    def parameters(self) -> list[nn.Parameter]:
        """Those of the last layers."""
        return [weight for layer in self._layers[self._below :] for weight in layer.parameters()]

    @torch.no_grad()
    def check(self) -> None:
        """Raise InputError if they compute something else than in the whole transformer; called before any reading."""

        def see(_layer: nn.Module, _arguments: tuple[Any, ...], output: Any) -> None:
            self._in_tuple = isinstance(output, tuple)

        ids = torch.arange(10, 22, device=self._backbone.device).reshape(2, 6) % self._backbone.config.vocab_size
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
        states: Tensor = self._backbone(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        return states
