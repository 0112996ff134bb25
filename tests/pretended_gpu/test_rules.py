"""The pretended GPU refuses what a real one refuses, and computes in the dtypes that a real one does."""

from __future__ import annotations

import copy
from collections.abc import Callable
from io import BytesIO

import numpy as np
import pytest
import torch
from pretended_cuda import GPU, GPUTensor, autocast_list
from torch import Tensor, nn
from torch.nn import functional


def on_gpu(*shape: int) -> Tensor:
    return torch.randn(*shape, device="cuda")


@pytest.mark.parametrize(
    "create",
    [
        lambda: torch.tensor([1.0], device=GPU),
        lambda: torch.ones(1).to("cuda"),
        lambda: torch.ones(1).cuda(),
        lambda: torch.ones(1).to(on_gpu(1)),
        lambda: torch.zeros_like(torch.ones(1), device="cuda"),
        lambda: on_gpu(3)[[1]],
        lambda: on_gpu(3).new_tensor([1.0]),
        lambda: on_gpu(3).new_zeros(1),
        lambda: nn.Linear(1, 1, device="cuda").weight,
        lambda: nn.Linear(1, 1).to("cuda").weight,
        lambda: copy.deepcopy(on_gpu(1)),
        lambda: torch.cat([on_gpu(1), on_gpu(1)]).detach(),
    ],
)
def test_what_lies_there(create: Callable[[], Tensor]) -> None:
    found = create()
    assert (found.device, found.is_cuda, found.is_cpu) == (GPU, True, False)
    there_and_back = found.cpu()
    assert (there_and_back.device.type, there_and_back.is_cuda) == ("cpu", False)
    assert there_and_back.tolist() == found.tolist()


@pytest.mark.parametrize(
    "meeting",
    [
        lambda: on_gpu(2) + torch.ones(2),
        lambda: on_gpu(1)[0] * torch.ones(2),
        lambda: torch.cat([on_gpu(2), torch.ones(2)]),
        lambda: nn.Linear(2, 2).to("cuda")(torch.ones(1, 2)),
        lambda: functional.embedding(torch.tensor([0]), on_gpu(2, 2)),
        lambda: torch.ones(3)[torch.tensor([1], device="cuda")],
        lambda: on_gpu(3).index_put_((torch.tensor([1]),), torch.ones(1)),
        lambda: on_gpu(3).masked_fill(torch.ones(3, dtype=torch.bool), 0.0),
        lambda: torch.empty(0, device="cuda:1"),
    ],
)
def test_what_may_not_meet(meeting: Callable[[], Tensor]) -> None:
    with pytest.raises(RuntimeError):
        meeting()


@pytest.mark.parametrize("read", [GPUTensor.numpy, np.asarray, lambda values: values.detach().numpy()])
def test_numpy_cannot_see_it(read: Callable[[Tensor], np.ndarray]) -> None:
    with pytest.raises(TypeError):
        read(on_gpu(2))


def test_other_devices_stay_what_they_are() -> None:
    with torch.device("meta"):
        assert {torch.ones(1).device.type, nn.Linear(1, 1).weight.device.type} == {"meta"}
    assert torch.zeros(1, device="meta").is_meta
    assert torch.zeros_like(torch.ones(1, device="meta"), device="cpu").tolist() == [0.0]
    assert not torch.zeros_like(on_gpu(1), device="cpu").is_cuda


def test_a_parameter_stays_the_object_that_it_is() -> None:
    layer = nn.Linear(2, 1)
    weight = layer.weight
    assert weight is layer.to("cuda").weight is layer.half().weight is layer.float().weight
    assert isinstance(weight, nn.Parameter)
    assert weight.is_cuda
    assert weight is layer.to("cpu").weight
    assert not weight.is_cuda


def test_what_may_meet() -> None:
    """A single number, positions, and what is copied."""
    values = on_gpu(3)
    assert (values + torch.tensor(1.0)).tolist() == (values.cpu() + 1).tolist()
    assert values[torch.tensor([2, 0])].tolist() == values.cpu()[[2, 0]].tolist()
    target = torch.zeros(3)
    target.copy_(values)
    assert target.tolist() == values.tolist()
    assert not target.is_cuda


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(dtype: torch.dtype) -> None:
    """As https://docs.pytorch.org/docs/stable/amp.html has it for CUDA."""
    x, y, half = on_gpu(4, 4), on_gpu(4, 4), on_gpu(4, 4).to(dtype)
    with torch.autocast("cuda", dtype):
        assert {(x @ y).dtype, functional.linear(x, y).dtype, torch.einsum("ij,kj->ik", x, y).dtype} == {dtype}
        assert (x.cpu() @ y.cpu()).dtype == torch.float32
        full = (half.softmax(1), half.exp(), half.sum(), half.norm(dim=1), functional.layer_norm(half, (4,)))
        assert {each.dtype for each in full} == {torch.float32}
        assert (half.tanh().dtype, torch.dot(half[0], x[0]).dtype) == (dtype, torch.float32)
        assert (x.double() @ y.double()).dtype == torch.float64
        with torch.autocast("cuda", enabled=False):
            assert (x @ y).dtype == torch.float32
        with pytest.raises(RuntimeError):
            functional.binary_cross_entropy(x.sigmoid(), y.sigmoid())
    assert (x @ y).dtype == torch.float32


def test_the_lists_are_read_whole() -> None:
    assert {"matmul", "addmm", "linear", "einsum"} <= set(autocast_list("LOWER_PRECISION_FP"))
    assert {"exp", "layer_norm", "pow.Tensor_Scalar"} <= set(autocast_list("FP32"))
    assert {"softmax.int", "sum.dim_IntList"} <= set(autocast_list("FP32_SET_OPT_DTYPE"))
    assert autocast_list("DIFFERENT_REDISPATCH_SIGNATURE") == ["norm.Scalar", "norm.ScalarOpt_dim"]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_an_lstm_reads_in_float16_under_autocast(dtype: torch.dtype) -> None:
    lstm, texts = nn.LSTM(3, 2, bidirectional=True, batch_first=True), torch.randn(2, 5, 3)
    with torch.no_grad():
        expected, _ = lstm(texts)
    lstm.to("cuda")
    exact, _ = lstm(texts.cuda())
    assert torch.allclose(exact.cpu(), expected, atol=1e-6)  # a processor may take another kernel without gradients
    with torch.autocast("cuda", dtype):
        rounded, _ = lstm(texts.cuda())
    assert rounded.dtype == torch.float16
    assert torch.allclose(rounded.float().cpu(), expected, atol=2e-3)
    rounded.float().sum().backward()
    assert all(isinstance(weight.grad, GPUTensor) and weight.grad.isfinite().all() for weight in lstm.parameters())


def test_it_learns_as_a_cpu_does() -> None:
    """Views, copies between devices and writing in place have gradients; optimizers step; states are saved."""
    found = []
    for device in ("cpu", "cuda"):
        torch.manual_seed(0)
        layer, x = nn.Linear(3, 2).to(device), torch.randn(4, 3).to(device)
        optimizer = torch.optim.Adam(layer.parameters(), lr=0.1, fused=True)
        for _ in range(3):
            optimizer.zero_grad()
            y = torch.zeros(4, 2, device=device)
            y[:, 1:] = layer(x)[:, :1]
            (y.to("cpu").square().sum() + layer(x)[[0, 2]].sum().cpu()).backward()
            optimizer.step()
        file = BytesIO()
        torch.save(optimizer.state_dict(), file)
        file.seek(0)
        saved = torch.load(file, map_location="cpu", weights_only=True)
        found.append([*(weight.detach().cpu() for weight in layer.parameters()), saved["state"][0]["exp_avg"]])
    for on_cpu, there in zip(*found, strict=True):
        assert torch.equal(on_cpu, there)


def test_loss_scaling() -> None:
    """A step whose gradients overflow is left out, and the scale is halved."""
    layer = nn.Linear(2, 1).to("cuda")
    optimizer, scaler, before = torch.optim.SGD(layer.parameters(), lr=1.0), torch.amp.GradScaler("cuda"), layer.weight
    expected = before.tolist()
    scaler.scale(layer(on_gpu(1, 2)).sum() * 1e38).backward()
    scaler.step(optimizer)
    scaler.update()
    assert (layer.weight.tolist(), scaler.get_scale()) == (expected, 32768.0)
