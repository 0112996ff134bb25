"""Questions that a GPU encodes in one launch: a CUDA graph holds all operations of a transformer's pass.

Python takes longer to start a short question's hundred operations than a GPU to compute them. A graph has one shape,
so that questions are padded to the next of a few, and the same memory each time. It reads the weights where they were
when it was captured: graphs belong to a `LoadedCheckpoint`, whose model nobody trains, moves or loads anew.

A shape is captured when it is needed for the second time: who asks one question does not wait for it, and a server has
its shapes after the first few. Each graph proves itself on these questions before it is used.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ap_ranker.errors import one_line
from ap_ranker.models.base import AnswerModel, States
from ap_ranker.text.tokenizer import PAD, TokenBatch

logger = logging.getLogger(__name__)

ROWS = (1, 8, 32)
WIDTHS = (16, 32, 64)
"""Numbers of questions and of tokens that graphs have. More of either keep a GPU busy without them."""

WARM_UPS = 3  # passes before a capture, in which libraries take memory; torch's own helpers make as many

MOST_APART = 1e-6
"""Largest difference of a graph's numbers from those of the same operations, started one by one on the same input."""

MOST_APART_UNPADDED = 1e-4
"""Largest difference from the numbers without padding: products of other shapes are summed in another order. States
have length 1, so that a mistake with the padding is larger."""

_Texts = Sequence[Sequence[int]]
_capturing = threading.Lock()  # one capture at a time in a process


class CapturedEncoder:
    """Encodes questions with a model: on a GPU by graphs, if the model allows it, elsewhere and otherwise without.

    `most_tokens` are those of the longest text that the model can read. Several threads may use it at once.
    """

    def __init__(self, model: AnswerModel, most_tokens: int) -> None:
        self._model = model
        self._widths = sorted({min(width, most_tokens) for width in WIDTHS})
        self._is_usable = model.capturable
        self._needed: set[tuple[int, int]] = set()
        self._passes: dict[tuple[int, int], _CapturedPass] = {}
        self._pool: Any = None  # of memory for all graphs, of which one is in use at a time
        self._stream: Any = None  # in which they are captured: for another one, libraries would take memory again
        self._used: Any = None  # the event after the latest use of that memory, in whichever stream
        self._lock = threading.Lock()

    def encode_questions(self, texts: _Texts, device: torch.device) -> States:
        """The states of B tokenized questions."""
        shape = self._shape_of(texts)
        if shape is not None and device.type == "cuda" and torch.is_inference_mode_enabled():
            with self._lock:
                captured = self._pass_of(shape, texts, device)
                if captured is not None:
                    return self._replayed(captured, texts, device)
        return _one_by_one(self._model, texts, device)

    def _shape_of(self, texts: _Texts) -> tuple[int, int] | None:
        """The smallest shape that holds these questions; `None` if there is none."""
        longest = max(map(len, texts))
        rows = next((size for size in ROWS if size >= len(texts)), 0)
        width = next((size for size in self._widths if size >= longest), 0)
        return (rows, width) if rows and width else None

    def _pass_of(self, shape: tuple[int, int], texts: _Texts, device: torch.device) -> _CapturedPass | None:
        """The graph of a shape, captured if the shape was needed before; `None` for no graph."""
        if shape in self._passes or shape not in self._needed or not self._is_usable:
            self._needed.add(shape)
            return self._passes.get(shape)
        try:
            if self._used is None:
                self._pool = torch.cuda.graph_pool_handle()
                self._stream = torch.cuda.Stream(device)
                self._used = torch.cuda.Event()
            captured = _CapturedPass(self._model, shape, device)
            with _capturing:
                captured.capture(self._pool, self._stream)
            problem = self._problem(captured, texts, device)
        except Exception as error:  # of a library that does what no capture allows
            problem = one_line(repr(error), 200)
        if problem:
            self._is_usable = False
            self._passes.clear()
            logger.warning("A GPU encodes questions without CUDA graphs, more slowly: %s.", problem)
            return None
        self._passes[shape] = captured
        return captured

    def _replayed(self, captured: _CapturedPass, texts: _Texts, device: torch.device) -> States:
        stream = torch.cuda.current_stream(device)
        stream.wait_event(self._used)
        states = captured.encode(texts)
        self._used.record(stream)
        return states

    def _problem(self, captured: _CapturedPass, texts: _Texts, device: torch.device) -> str:
        """What is wrong with a new graph; nothing if it encodes these questions and their beginnings as it should."""
        for tried in (texts, [text[: (len(text) + 1) // 2] for text in texts]):
            states = self._replayed(captured, tried, device)
            apart = _difference(states, captured.one_by_one(tried))
            unpadded = _difference(states, _one_by_one(self._model, tried, device))
            if not (apart <= MOST_APART and unpadded <= MOST_APART_UNPADDED):
                return f"its states differ by {apart:.2g} from those of the same operations, unpadded by {unpadded:.2g}"
        return ""


class _CapturedPass:
    """A model's pass over questions of one shape: rows and tokens."""

    def __init__(self, model: AnswerModel, shape: tuple[int, int], device: torch.device) -> None:
        rows, width = shape
        self._model = model
        self._device = device
        self._graph: Any = torch.cuda.CUDAGraph()
        self._columns = torch.arange(width, device=device)
        self._input = torch.ones(rows, 1 + width, dtype=torch.long, device=device)  # each text's length and token ids
        self._like = States(self._columns)  # until the capture, as the next one
        self._output = self._input

    def capture(self, pool: Any, stream: Any) -> None:
        """Capture the pass in this stream; raises what the model's libraries raise."""
        stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(stream):  # which is left also where `graph` fails to leave it, after an error
            for _ in range(WARM_UPS):
                _packed(self._states())
            # Other threads may go on taking memory.
            with torch.cuda.graph(self._graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
                self._like = self._states()
                self._output = _packed(self._like)
        torch.cuda.current_stream(self._device).wait_stream(stream)

    def encode(self, texts: _Texts) -> States:
        """The states of these questions, by the graph, in memory of their own."""
        self._fill(texts)
        self._graph.replay()
        return _part(_unpacked(self._output.clone(), self._like), texts)

    def one_by_one(self, texts: _Texts) -> States:
        """The same, each operation started by itself."""
        self._fill(texts)
        return _part(self._states(), texts)

    def _fill(self, texts: _Texts) -> None:
        """Write the input, in one copy; a row without a text has one token, as no text may be empty."""
        rows = np.full(self._input.shape, PAD)
        rows[:, 0] = 1
        for row, text in zip(rows, texts, strict=False):
            row[: 1 + len(text)] = [len(text), *text]
        self._input.copy_(torch.from_numpy(rows))

    def _states(self) -> States:
        mask = self._columns < self._input[:, :1]
        return self._model.encode_questions(TokenBatch(self._input[:, 1:].contiguous(), mask))


def _one_by_one(model: AnswerModel, texts: _Texts, device: torch.device) -> States:
    return model.encode_questions(TokenBatch.from_lists(texts, device))


def _part(states: States, texts: _Texts) -> States:
    """Those of the texts, without what they were padded with."""
    longest = max(map(len, texts))
    return states.map(lambda value: value[: len(texts), :longest], lambda value: value[: len(texts)])


def _tensors(states: States) -> list[Tensor]:
    return [*states.per_token.values(), *states.per_text.values(), states.mask]


def _packed(states: States) -> Tensor:
    """All numbers as bytes in one piece, which takes one copy; the mask last, so that each begins at a whole number."""
    return torch.cat([value.reshape(-1).view(torch.uint8) for value in _tensors(states)])


def _unpacked(packed: Tensor, like: States) -> States:
    """Views of `_packed` bytes, of the names, shapes and dtypes of other states."""
    pieces = iter(packed.split([value.nbytes for value in _tensors(like)]))
    per_token = {name: next(pieces).view(value.dtype).view(value.shape) for name, value in like.per_token.items()}
    per_text = {name: next(pieces).view(value.dtype).view(value.shape) for name, value in like.per_text.items()}
    return States(next(pieces).view(torch.bool).view(like.mask.shape), per_token, per_text)


def _difference(states: States, expected: States) -> float:
    """The largest, of any number; NaN is larger than any bound."""
    pairs = zip(_tensors(states), _tensors(expected), strict=True)
    return torch.stack([(value.double() - other.double()).abs().max() for value, other in pairs]).max().item()
