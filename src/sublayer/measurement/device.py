"""The device, as far as figures depend on it; stored with each of them."""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

from sublayer.runs.environment import environment

OF_FIGURES = ("processor", "system", "device", "attention", "threads", "torch", "sublayer")


def fingerprint(device: str = "cpu", threads: int | None = None) -> dict[str, Any]:
    """What this process runs on, as plain JSON; `id` is the same where all the rest is."""
    here = environment(device)
    told = {name: here[name] for name in OF_FIGURES} | {"cores": os.cpu_count()}
    told["threads"] = threads or told["threads"]
    return {**told, "id": hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:12]}
