"""A GPU that is not there: its tensors say `cuda:0`, lie in the CPU's memory, and obey the rules of a GPU's.

- A tensor of the GPU refuses to meet one of the CPU, other than a single number or an index, and numpy.
- Autocast computes in what torch's own lists for CUDA say, which its header has.
- LSTMs under autocast read in float16, as cuDNN does whatever dtype is asked for.
- Work is captured in graphs, which are replayed (`pretended_graphs.py`).

Numbers are computed by the CPU's kernels; nothing is learnt here of a GPU's speed, memory or rounding.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial, wraps
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pretended_graphs
import torch
from pretended_graphs import tensors_in
from torch import Tensor, nn
from torch import library as operator_library
from torch.utils._device import _device_constructors

GPU = torch.device("cuda", 0)

aten = torch.ops.aten
INDEXED = {
    operator
    for packet in (aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_, aten._unsafe_index)
    for operator in (getattr(packet, name) for name in packet.overloads())
}
"""What takes positions from either device."""

FREE = {aten.detach.default, aten.empty.memory_format, aten.empty_like.default, aten._unsafe_view.default}
"""Operations, beside views, that start nothing."""


class GPUTensor(Tensor):
    """A tensor of the GPU; `on_cpu` is the same memory as a plain tensor."""

    on_cpu: Tensor

    @staticmethod
    def __new__(cls, on_cpu: Tensor, requires_grad: bool = False) -> GPUTensor:
        found = Tensor._make_subclass(cls, on_cpu.detach(), requires_grad, device_for_backend_keys=GPU)
        found.on_cpu = on_cpu.detach()
        return found

    device = property(lambda self: GPU)
    is_cuda = property(lambda self: True)
    is_cpu = property(lambda self: False)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            known = {torch.lstm: lstm, pad_sequence: padded}.get(function, function)
            return known(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return compute(operator, args, kwargs or {})

    def __repr__(self, **_: Any) -> str:
        return f"GPUTensor({self.on_cpu})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.on_cpu.__reduce_ex__(protocol)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        return memo.setdefault(id(self), GPUTensor(self.on_cpu.clone(), self.requires_grad))

    def numpy(self, **_: Any) -> Any:
        raise TypeError(f"can't convert {GPU} device type tensor to numpy. Use Tensor.cpu() first.")

    def tolist(self) -> Any:
        return on(self.detach(), "cpu").tolist()


class Copy(torch.autograd.Function):
    """To the other device, and its gradient back."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        copied()
        return values.on_cpu.clone() if isinstance(values, GPUTensor) else GPUTensor(values.clone())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        there: Tensor = Copy.apply(gradient)
        return there


def copied() -> None:
    """One copy between the devices."""
    pretended_graphs.refuse()
    pretended_graphs.check_memory()
    pretended_graphs.launched("copy")


def on(values: Tensor, device: Any) -> Tensor:
    """The same numbers there, with their history."""
    if device is None or is_gpu(device) == isinstance(values, GPUTensor):
        return values
    there: Tensor = Copy.apply(values)
    return there


def mapped(function: Callable[[Tensor], Any], values: Any) -> Any:
    """Arguments or results of an operator, each tensor replaced by what the function makes of it."""
    if isinstance(values, Tensor):
        return function(values)
    if isinstance(values, list | tuple):
        return type(values)([mapped(function, each) for each in values])
    return {name: mapped(function, each) for name, each in values.items()} if isinstance(values, dict) else values


def is_gpu(device: Any) -> bool:
    """Whether a device is this GPU; another one does not exist."""
    found = GPU if isinstance(device, int) else torch.device(device or "cpu")
    if found.type == "cuda" and found.index not in (None, GPU.index):
        raise RuntimeError("CUDA error: invalid device ordinal")
    return found.type == "cuda"


convert, copy_into, make_new = Tensor.to, Tensor.copy_, Tensor.new_tensor
make_empty, see_as = torch.empty, torch.as_tensor
pad_sequence = torch._C._nn.pad_sequence
FROM_THE_CPU = (torch.tensor, see_as, make_new)


def creating(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function that creates a tensor, which knows this GPU."""

    @wraps(function)
    def create(*args: Any, **kwargs: Any) -> Tensor:
        if function is make_new and isinstance(args[0], GPUTensor):
            args, kwargs = (args[0].on_cpu, *args[1:]), {"device": GPU, **kwargs}
        if not is_gpu(kwargs.get("device")):
            created = function(*args, **kwargs)
            return created if kwargs.get("device") is None else on(created, kwargs["device"])
        created = function(*args, **{**kwargs, "device": "cpu"})
        if isinstance(created, GPUTensor):
            return created
        if function in FROM_THE_CPU:
            copied()
        elif function is not make_empty:
            pretended_graphs.check_memory()
            pretended_graphs.launched(function.__name__)
        own = created.clone() if function is see_as else created
        initial = own.detach().clone()
        pretended_graphs.record(lambda: initial, [], own)
        return GPUTensor(own, created.requires_grad)

    return create


CREATING = [
    *(
        "arange",
        "as_tensor",
        "empty",
        "empty_like",
        "eye",
        "full",
        "full_like",
        "linspace",
        "ones",
        "ones_like",
        "rand",
    ),
    *("rand_like", "randint", "randn", "randn_like", "randperm", "scalar_tensor", "tensor", "zeros", "zeros_like"),
]
FUNCTIONS = {name: creating(getattr(torch, name)) for name in CREATING}
METHODS = {
    name: creating(getattr(Tensor, name)) for name in ("new_empty", "new_full", "new_ones", "new_tensor", "new_zeros")
}


def to(values: Tensor, *args: Any, copy: bool = False, **kwargs: Any) -> Tensor:
    """`Tensor.to` of a device, a dtype, both, or another tensor's."""
    if args and isinstance(args[0], Tensor):
        device, dtype = args[0].device, args[0].dtype
    else:
        device, dtype, *_ = torch._C._nn._parse_to(*args, **kwargs)
    there = on(values, device)
    changed = there if dtype is None else convert(there, dtype)
    return changed.clone() if copy and changed is values else changed


def copy_(values: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    """Into one device's memory from any."""
    if torch.is_grad_enabled() or isinstance(values, GPUTensor) == isinstance(source, GPUTensor):
        return copy_into(values, on(source, values.device))
    copied()
    with torch._C.DisableTorchFunctionSubclass():
        memory, numbers = (each.on_cpu if isinstance(each, GPUTensor) else each for each in (values, source))
        copy_into(memory, numbers)
    return values


apply = nn.Module._apply


def apply_(module: nn.Module, function: Callable[[Tensor], Tensor], recurse: bool = True) -> nn.Module:
    """What `Module.to` and the like call: a parameter stays the object that it is, though its class may change."""
    before = torch.__future__.get_swap_module_params_on_conversion()
    with torch.no_grad():
        pairs = [(each, function(each)) for each in module.parameters(recurse=False)]
    swaps = any(new is not old and (new.is_cuda or old.is_cuda) for old, new in pairs)
    torch.__future__.set_swap_module_params_on_conversion(swaps)
    try:
        return apply(module, function, recurse)
    finally:
        torch.__future__.set_swap_module_params_on_conversion(before)


METHODS |= {"to": to, "copy_": copy_}
METHODS |= {"cpu": lambda values: on(values, "cpu"), "cuda": lambda values, device=GPU: on(values, device)}


def lstm(*args: Any) -> Any:
    """Of the CPU; under autocast with everything rounded to float16."""
    half = torch.is_autocast_enabled("cuda")

    def rounded(values: Tensor) -> Tensor:
        return on(values.half().float() if half else values, "cpu")

    def back(values: Tensor) -> Tensor:
        return on(values.half() if half else values, GPU)

    with torch.autocast("cuda", enabled=False):
        return mapped(back, torch.lstm(*mapped(rounded, args)))


def compute(operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An operator of torch, by the CPU; what it returns lies on the GPU, in place where it changes its arguments."""
    with torch._C.DisableTorchFunctionSubclass():
        found: dict[int, GPUTensor] = {}
        strangers: list[Tensor] = []

        def below(values: Tensor) -> Tensor:
            if isinstance(values, GPUTensor):
                found[id(values.on_cpu)] = values
                return values.on_cpu
            # For a gradient that is missing, torch's own code makes zeros in the memory where the tensors really lie.
            if values.dim() and not (torch._C._current_graph_task_id() != -1 and not values.any()):
                strangers.append(values)
            return values

        def above(values: Tensor) -> Tensor:
            return found[id(values)] if id(values) in found else GPUTensor(values)

        plain_args, plain_kwargs = mapped(below, args), mapped(below, kwargs)
        takes = operator in INDEXED and isinstance(args[0], GPUTensor)
        positions = [each for each in args[1] if each is not None] if takes else []
        if [each for each in strangers if not any(each is position for position in positions)]:
            raise RuntimeError(f"Expected all tensors to be on the same device, but found cuda:0 and cpu: {operator}")
        pretended_graphs.check_operator(operator, plain_args)
        results = operator(*plain_args, **plain_kwargs)
        note(operator, (plain_args, plain_kwargs), results)
        return mapped(above, results)


def note(operator: Any, given: tuple[tuple[Any, ...], dict[str, Any]], results: Any) -> None:
    """Tell who counts what a GPU starts, and who captures it; a view starts nothing, but some copy after all."""
    known = {values.untyped_storage().data_ptr() for values in tensors_in(given)}
    new = [values for values in tensors_in(results) if values.untyped_storage().data_ptr() not in known]
    if new:
        pretended_graphs.check_memory()
    if operator not in FREE and (new or not operator.is_view):
        pretended_graphs.launched(str(operator))
    pretended_graphs.record(lambda: operator(*given[0], **given[1]), given, results)


def padded(sequences: list[Tensor], *args: Any) -> Tensor:
    """Sequences in one tensor, which torch's own code would make in the memory where they really lie."""
    return on(pad_sequence([on(each, "cpu") for each in sequences], *args), GPU)


AUTOCAST = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCUDA)
HEADER = Path(torch.__file__).parent / "include" / "ATen" / "autocast_mode.h"


def autocast_list(name: str) -> list[str]:
    """The operators of one of the header's lists, such as `matmul` and `pow.Tensor_Scalar`."""
    text = HEADER.read_text(encoding="utf-8")
    [entries] = re.findall(rf"#define AT_FORALL_{name}\(_\)(.*?)\n\n", text, re.DOTALL)
    found = re.findall(r"_\((\w+)(?:, (\w+))?\)", entries) or re.findall(r'"(\w+)\.(\w+)"', entries)
    return [".".join(filter(None, names)) for names in found]


def lower(values: list[Tensor]) -> torch.dtype:
    return torch.get_autocast_dtype("cuda")


def widest(values: list[Tensor]) -> torch.dtype:
    return torch.float32 if any(each.dtype == torch.float32 for each in values) else values[0].dtype


def full(values: list[Tensor]) -> torch.dtype:
    return torch.float32


LISTS = {"LOWER_PRECISION_FP": lower, "PROMOTE": widest}
LISTS |= dict.fromkeys(("FP32", "FP32_SET_OPT_DTYPE", "DIFFERENT_REDISPATCH_SIGNATURE"), full)


@cache
def autocast_rules() -> operator_library.Library:
    """Kernels that do to tensors of this GPU what torch's do to those of a real one, for as long as this is kept."""
    kernels = operator_library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they replace those that see tensors in a CPU's memory
        for name, dtype_of in LISTS.items():
            for operator in autocast_list(name):
                packet, _, overload = operator.partition(".")
                known = getattr(getattr(aten, packet), overload or "default")
                kernels.impl(operator, partial(cast_and_compute, known, dtype_of), "AutocastCUDA")
    return kernels


def cast_and_compute(operator: Any, dtype_of: Callable[[list[Tensor]], torch.dtype], *args: Any, **kwargs: Any) -> Any:
    """An operator, under autocast, of tensors of a dtype that is chosen by theirs."""
    eligible: list[Tensor] = []

    def is_eligible(values: Tensor) -> bool:
        return isinstance(values, GPUTensor) and values.is_floating_point() and values.dtype != torch.float64

    def cast(values: Tensor) -> Tensor:
        return values.to(dtype_of(eligible)) if is_eligible(values) else values

    mapped(lambda values: eligible.append(values) if is_eligible(values) else None, [*args, *kwargs.values()])
    with torch._C._ExcludeDispatchKeyGuard(AUTOCAST):
        args, kwargs = mapped(cast, args), mapped(cast, kwargs)
        return operator(*args, **kwargs)


_device_constructors()  # what `with torch.device(...)` knows for good: the functions that are replaced below


@contextmanager
def pretended_gpu() -> Iterator[None]:
    """One GPU that has bfloat16, for as long as the context lasts."""
    replaced: dict[str, Callable[..., Any]] = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda device: None,
        "synchronize": lambda device=None: pretended_graphs.refuse(),
        "is_bf16_supported": lambda **_: True,
        "get_device_name": lambda device=None: "a pretended GPU",
        "manual_seed_all": lambda seed: None,
        "mem_get_info": lambda device=None: (2**33, 2**33),
        **pretended_graphs.REPLACED,
    }
    # Random numbers are the CPU's, which has their state.
    states = {"get_rng_state": lambda device=GPU: make_empty(0), "set_rng_state": lambda state, device=GPU: None}
    autocast_rules()
    with (
        patch.multiple(torch, **FUNCTIONS),
        patch.multiple(Tensor, **METHODS),
        patch.multiple(torch.cuda, **replaced, **states),
        patch.multiple(torch.cuda.random, **states),
        patch.object(nn.Module, "_apply", apply_),
    ):
        yield
