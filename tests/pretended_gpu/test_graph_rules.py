"""The pretended GPU's graphs compute what was captured, in the same memory, and refuse what CUDA's refuse."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pretended_graphs
import pytest
import torch
from torch import Tensor, nn

pytestmark = pytest.mark.usefixtures("without_gradients")


@pytest.fixture(name="without_gradients")
def no_gradients() -> object:
    with torch.inference_mode():
        yield


def captured(compute: Callable[[], Tensor], pool: object = None, mode: str = "thread_local") -> tuple[object, Tensor]:
    """A graph, and the memory of its result."""
    graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.stream(side):
        compute()
        with torch.cuda.graph(graph, pool=pool, stream=side, capture_error_mode=mode):
            result = compute()
    return graph, result


def test_a_replay_reads_what_its_input_has_by_then() -> None:
    """Also through views, changes in place and numbers made within; its result is overwritten the next time."""
    given = torch.zeros(2, 3, device="cuda")

    def compute() -> Tensor:
        sums = given.T.reshape(-1) + torch.arange(6, device="cuda")
        sums.unflatten(0, (3, 2))[1] *= 10
        return sums.clone()

    graph, result = captured(compute)
    assert result.isnan().all()
    for first in (1.0, 2.0):
        given.copy_(torch.full((2, 3), first))
        graph.replay()  # type: ignore[attr-defined]
        expected = [first, first + 1, 10 * (first + 2), 10 * (first + 3), first + 4, first + 5]
        assert result.tolist() == expected
        kept = result.clone()
        given.copy_(torch.zeros(2, 3))
        graph.replay()  # type: ignore[attr-defined]
        assert kept.tolist() == expected
        assert result.tolist() == [0, 1, 20, 30, 4, 5]


def test_a_layer_in_a_graph() -> None:
    with torch.inference_mode(False):
        layer = nn.Linear(3, 2).to("cuda")
    given = torch.zeros(4, 3, device="cuda")
    graph, result = captured(lambda: layer(given).relu())
    numbers = torch.randn(4, 3)
    given.copy_(numbers)
    graph.replay()  # type: ignore[attr-defined]
    assert torch.equal(result.cpu(), layer(numbers.to("cuda")).relu().cpu())


def test_graphs_of_a_pool_share_memory() -> None:
    given, pool = torch.ones(2, device="cuda"), torch.cuda.graph_pool_handle()
    graphs = [captured(lambda: given + 1, pool), captured(lambda: given + 2, pool), captured(lambda: given + 3)]
    for graph, _ in graphs:
        graph.replay()  # type: ignore[attr-defined]
    assert [result.isnan().any().item() for _, result in graphs] == [True, False, False]


@pytest.mark.parametrize(
    "forbidden",
    [
        lambda values: values.sum().item(),
        lambda values: bool(values.any()),
        lambda values: values.tolist(),
        lambda values: values.cpu(),
        lambda values: values.to("cpu"),
        lambda values: values.nonzero(),
        lambda values: values[values > 0],
        lambda values: torch.equal(values, values),
        lambda values: values + torch.ones(3).to("cuda"),
        lambda values: values + torch.tensor([1.0, 2.0, 3.0], device="cuda"),
        lambda values: values.copy_(torch.ones(3)),
        lambda values: values.new_tensor([1.0]),
        lambda values: torch.cuda.synchronize(),
    ],
)
def test_what_no_capture_allows(forbidden: Callable[[Tensor], object]) -> None:
    values = torch.ones(3, device="cuda")

    def compute() -> Tensor:
        forbidden(values)
        return values + 1

    assert compute().tolist() == [2.0, 2.0, 2.0]
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        with pytest.raises(RuntimeError) as raised:
            captured(compute)
        assert raised.value.args == (pretended_graphs.SPOILT,)
        assert raised.value.__context__.args == (pretended_graphs.REFUSED,)  # type: ignore[union-attr]
    assert torch.cuda.current_stream() is pretended_graphs.DEFAULT
    assert not torch.cuda.is_current_stream_capturing()


def test_an_operator_is_warmed_up_in_a_side_stream() -> None:
    values, graph, side = torch.ones(3, device="cuda"), torch.cuda.CUDAGraph(), torch.cuda.Stream()
    values.asinh()
    with pytest.raises(RuntimeError), torch.cuda.stream(side), torch.cuda.graph(graph, stream=side):
        values.asinh()


def test_the_default_stream_cannot_be_captured() -> None:
    with pytest.raises(RuntimeError), torch.cuda.graph(torch.cuda.CUDAGraph(), stream=torch.cuda.current_stream()):
        pass


@pytest.mark.parametrize(("mode", "is_refused"), [("global", True), ("thread_local", False)])
def test_other_threads_take_memory(mode: str, is_refused: bool) -> None:
    values = torch.ones(3, device="cuda")
    errors: list[str] = []

    def take() -> None:
        try:
            torch.zeros(3, device="cuda")
        except RuntimeError as error:
            errors.append(str(error))

    def compute() -> Tensor:
        thread = threading.Thread(target=take)
        thread.start()
        thread.join()
        return values + 1

    if is_refused:
        with pytest.raises(RuntimeError), torch.cuda.stream(torch.cuda.Stream()):
            captured(compute, mode=mode)
    else:
        captured(compute, mode=mode)
    assert errors == [pretended_graphs.REFUSED] * is_refused
