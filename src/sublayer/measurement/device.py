"""The fingerprint of a device: everything that measured figures depend on."""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

from sublayer.runs.environment import environment

OF_FIGURES = ("processor", "system", "device", "attention", "threads", "torch", "sublayer")


def fingerprint(device: str = "cpu", threads: int | None = None) -> dict[str, Any]:
    """The device of this process, as plain JSON; `id` is a hash of the rest."""
    here = environment(device)
    facts = {name: here[name] for name in OF_FIGURES} | {"cores": os.cpu_count()}
    facts["threads"] = threads or facts["threads"]
    return {**facts, "id": hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]}
