"""Files and seeds: a config and its weights come back as they were written; a seed decides every bit."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_model, save_model

from sublayer.nn.config import Config
from sublayer.nn.model import Model
from sublayer.testing.case import Case
from sublayer.testing.verdict import law, require, same_bits


@law("round trip")
def round_trip(case: Case) -> str | None:
    """Config ↔ JSON and TOML; weights ↔ safetensors; nothing lost."""
    config = case.config
    for form, again in (
        ("JSON", Model.Config.from_json(config.to_json())),
        ("TOML", Model.Config.from_toml(config.to_toml())),
    ):
        lost = sorted(config.diff(again)) + _unlike(config, again)
        unchanged = not lost and again.hash == config.hash
        require(unchanged, f"round trip: {form} changes {', '.join(lost) or 'the hash'}")
    json.dumps(config.dump())
    model, ids = case.model(), case.ids()
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        file = Path(folder) / "model.safetensors"
        save_model(model, str(file))
        torch.manual_seed(case.seed + 1)
        other = config.build().to(torch.float64).eval()
        load_model(other, str(file))
        same_bits(case.read(other, ids), case.read(model, ids), "round trip: weights through safetensors")
    return None


def _unlike(here: Config, there: Config, path: str = "") -> list[str]:
    """Fields that differ as Python values: a field dropped on dump is missed by comparing dumps."""
    if type(here) is not type(there):
        return [path or "kind"]
    found: list[str] = []
    for name in type(here).model_fields:
        mine, other, where = getattr(here, name), getattr(there, name), f"{path}.{name}".lstrip(".")
        if isinstance(mine, Config) and isinstance(other, Config):
            found += _unlike(mine, other, where)
        elif isinstance(mine, dict) and isinstance(other, dict) and mine.keys() == other.keys():
            pairs = ((f"{where}.{key}", mine[key], other[key]) for key in mine)
            found += [
                bad for at, a, b in pairs for bad in (_unlike(a, b, at) if isinstance(a, Config) else [at][: a != b])
            ]
        elif mine != other:
            found.append(where)
    return found


@law("determinism")
def determinism(case: Case) -> str | None:
    """The same seed gives the same bits; another seed gives others."""
    ids = case.ids()
    seeds = (case.seed, case.seed, case.seed + 1)
    here, again, other = (case.read(_fresh(case.config, seed), ids) for seed in seeds)
    require(torch.equal(here, again), "determinism: the same seed gives different bits")
    require(not torch.equal(here, other), "determinism: another seed gives the same bits")
    return None


def _fresh(config: Model.Config, seed: int) -> Model:
    torch.manual_seed(seed)
    return config.build().eval()
