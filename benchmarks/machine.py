"""What a measurement ran on, in words."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import torch


def describe_machine(device: torch.device) -> str:
    """Processor, cores, graphics card if `device` is one, torch and its threads."""
    gpu = f", {torch.cuda.get_device_name(device)}" if device.type == "cuda" else ""
    threads = torch.get_num_threads()
    return (
        f"{_cpu()}, {os.cpu_count()} cores{gpu}; torch {torch.__version__} on {device.type}, "
        f"{threads} {'thread' if threads == 1 else 'threads'}"
    )


def _cpu() -> str:
    """The processor's name, as Linux or else the platform tells it."""
    with_name = Path("/proc/cpuinfo")
    lines = with_name.read_text(encoding="utf-8").splitlines() if with_name.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
