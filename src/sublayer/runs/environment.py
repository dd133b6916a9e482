"""What the bits of a result depend on, besides config and seed."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

import torch

import sublayer
from sublayer.nn.attention import native

CPUINFO = Path("/proc/cpuinfo")


def environment(device: torch.device | str = "cpu", world: int = 1) -> dict[str, Any]:
    """Of this process, as plain JSON."""
    return {
        "sublayer": sublayer.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": platform.system(),
        "processor": processor(),
        "device": device_name(torch.device(device)),
        "attention": (native.digest() if torch.device(device).type == "cpu" else None) or "of PyTorch",
        "threads": torch.get_num_threads(),
        "processes": world,
    }


def differences(recorded: dict[str, Any], here: dict[str, Any]) -> list[str]:
    """Names whose values differ, each with both values."""
    before = {name: recorded.get(name, "not recorded") for name in here}
    return [f"{name} was {before[name]}, is {here[name]}" for name in here if before[name] != here[name]]


def processor() -> str:
    """The kind of processor."""
    if CPUINFO.exists():
        for line in CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def memory() -> int | None:
    """Bytes that the machine has; None where the system does not report it."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else None


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
