"""Rotary positions, as Hugging Face's config.json has them.

Since transformers 5 all is in a table `rope_parameters`; before, rope_theta stood by itself and the rest in
`rope_scaling`, whose kind was first called `type`, then `rope_type`.
"""

from __future__ import annotations

from typing import Any

from sublayer.interop.huggingface.entries import Entries
from sublayer.nn.position import Rotary
from sublayer.nn.position.rotary_scaling import (
    DynamicScaling,
    LinearScaling,
    Llama3Scaling,
    RotaryScaling,
    YarnScaling,
    yarn_amplitude,
)

KINDS = ("default", "linear", "dynamic", "yarn", "llama3")


def read_rope(entries: Entries) -> Rotary.Config:
    table = entries.table("rope_scaling") or entries.table("rope_parameters")
    inside = Entries({**entries.values, **table}, entries.path)
    # Transformers' Llama turns all features of a head, whatever this entry is.
    inside.only("partial_rotary_factor", 1.0)
    kind = table.get("rope_type", table.get("type", "default"))
    if kind not in KINDS:
        raise entries.wrong("rope type", kind, f"one of {', '.join(KINDS)}")
    return Rotary.Config(base=inside.number("rope_theta", 10000.0), scaling=_read_scaling(kind, inside))


def _read_scaling(kind: str, table: Entries) -> RotaryScaling.Config | None:
    if kind == "default":
        return None
    longest = table.whole("max_position_embeddings", 2048)
    if kind == "linear":
        return LinearScaling.Config(factor=_needed(table, "factor"))
    if kind == "dynamic":  # it alone takes the longest for the trained length
        return DynamicScaling.Config(factor=_needed(table, "factor"), length=longest)
    length = table.whole("original_max_position_embeddings", longest)
    if kind == "yarn":
        return _read_yarn(table, length, longest)
    low, high = (_needed(table, key) for key in ("low_freq_factor", "high_freq_factor"))
    return Llama3Scaling.Config(factor=_needed(table, "factor"), length=length, low=low, high=high)


def _read_yarn(table: Entries, length: int, longest: int) -> YarnScaling.Config:
    factor = table.number("factor", longest / length)
    attention = table.values.get("attention_factor")
    scales = [table.number(key, 0) for key in ("mscale", "mscale_all_dim")]
    if attention is None and all(scales):
        attention = yarn_amplitude(factor, scales[0]) / yarn_amplitude(factor, scales[1])
    return YarnScaling.Config(
        factor=factor,
        length=length,
        fast=table.number("beta_fast", 32) or 32,
        slow=table.number("beta_slow", 1) or 1,
        attention=attention,
        whole=table.flag("truncate", True),
    )


def _needed(table: Entries, key: str) -> float:
    if table.values.get(key) is None:
        raise table.wrong(key, None, "a number, which this kind of rope scaling needs")
    return table.number(key, 0)


def write_rope(position: Rotary.Config) -> dict[str, Any]:
    """Entries of config.json. `rope_theta` is there twice: transformers before 5 looks for it outside the table."""
    scaling, table = position.scaling, {"rope_theta": position.base}
    found: dict[str, Any] = {"rope_theta": position.base}
    if position.partial != 1:
        table["partial_rotary_factor"] = position.partial
    if isinstance(scaling, DynamicScaling.Config):
        found["max_position_embeddings"] = scaling.length
    return {**found, "rope_parameters": {"rope_type": "default", **table, **_write_scaling(scaling)}}


def _write_scaling(scaling: RotaryScaling.Config | None) -> dict[str, Any]:
    if isinstance(scaling, LinearScaling.Config | DynamicScaling.Config):
        return {"rope_type": scaling.tag, "factor": scaling.factor}
    if isinstance(scaling, YarnScaling.Config):
        table = {"rope_type": scaling.tag, "factor": scaling.factor, "beta_fast": scaling.fast}
        table |= {"beta_slow": scaling.slow, "original_max_position_embeddings": scaling.length}
        table |= {} if scaling.attention is None else {"attention_factor": scaling.attention}
        return table | ({} if scaling.whole else {"truncate": False})
    if isinstance(scaling, Llama3Scaling.Config):
        table = {"rope_type": scaling.tag, "factor": scaling.factor, "low_freq_factor": scaling.low}
        return table | {"high_freq_factor": scaling.high, "original_max_position_embeddings": scaling.length}
    return {} if scaling is None else {"rope_type": scaling.tag}
