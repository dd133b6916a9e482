"""Surroundings: small models in which a member of a family is tried. A pair that is refused is reported, not hidden.

Each family names its surroundings by what stands beside the member, as overrides of one plain model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sublayer.nn.config import Config, ConfigError
from sublayer.nn.model import Model
from sublayer.nn.part import Part
from sublayer.nn.position import Position
from sublayer.testing.small import small

FEEDFORWARD = {"kind": "dense", "inner": 24}
SEGMENT = {"kind": "segment", "length": 4}
WINDOW = {"kind": "window", "size": 4}
BOTH = {"kind": "window", "size": 4, "look": "both"}
DECODER = {
    "kind": "decoder",
    "vocab": 61,
    "dim": 32,
    "stack": {
        "kind": "plain",
        "layout": "(sf)x2",
        "alphabet": {"s": {"kind": "multihead", "heads": 4}, "f": FEEDFORWARD},
    },
}
ENCODER = {
    **DECODER,
    "kind": "encoder",
    "head": "masked_lm",
    "stack": {
        **DECODER["stack"],
        "alphabet": {"s": {"kind": "multihead", "heads": 4, "pattern": "full", "memory": "none"}, "f": FEEDFORWARD},
    },
}
FEEDBACK = {**DECODER, "stack": {**DECODER["stack"], "kind": "feedback"}}

Surroundings = dict[str, tuple[dict[str, Any], dict[str, Any]]]
"""Name → a model as plain data, and the overrides that put the member into it."""


@dataclass
class Tried:
    """The models that were built around a member, and the pairs that were refused."""

    models: dict[str, Model.Config] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


def surround(member: Config) -> Tried:
    """The member in each of its family's surroundings; TypeError for a family that the laws know nothing of."""
    if member.family not in FAMILIES:
        raise TypeError(
            f"the laws know nothing of a {member.family or 'config'} ({member.tag!r}); give a member of "
            f"{', '.join([*FAMILIES, 'objective'])}"
        )
    tried = Tried()
    for name, (base, changes) in FAMILIES[member.family](member).items():
        try:
            tried.models[name] = Model.Config.parse(base).but(changes)
        except ConfigError as error:
            tried.refused[name] = str(error)
    return tried


def around(part: Part.Config, *, causal: bool = True) -> Model.Config:
    """A small model with the part in it: attention, the part, feed-forward, twice; the part is `p`."""
    base = DECODER if causal else ENCODER
    alphabet = {**base["stack"]["alphabet"], "p": part.dump()}
    return Model.Config.parse({**base, "stack": {**base["stack"], "layout": "(spf)x2", "alphabet": alphabet}})


def _with(base: dict[str, Any], member: Config, key: str, **beside: Mapping[str, Any]) -> Surroundings:
    """The member at a key, alone and with each of the other settings."""
    member_there = {key: member.dump()}
    return {"alone": (base, member_there)} | {
        name.replace("_", " "): (base, {**settings, **member_there}) for name, settings in beside.items()
    }


def _parts(part: Part.Config) -> Surroundings:
    if part.needs_source:
        both = Model.Config.parse(_translator()).but({"decoder.alphabet.c": part.dump()})
        return {"alone": (both.dump(), {})}
    base = around(part, causal=not part.both_ways).dump()
    if not part.attends:
        return {"alone": (base, {})}
    return {
        "alone": (base, {}),
        "position=rotary": (base, {"position": "rotary"}),
        "position=alibi": (base, {"position": "alibi"}),
    }


def _translator() -> dict[str, Any]:
    cross = {"s": {"kind": "multihead", "heads": 4}, "c": {"kind": "cross", "heads": 4}, "f": FEEDFORWARD}
    return {
        "kind": "encoder_decoder",
        "vocab": 61,
        "dim": 32,
        "encoder": ENCODER["stack"],
        "decoder": {"kind": "plain", "layout": "(scf)x2", "alphabet": cross},
    }


def _positions(position: Config) -> Surroundings:
    return _with(
        DECODER,
        position,
        "position",
        window={"s.pattern": WINDOW},
        segment_memory={"s.memory": SEGMENT},
        exact_segment_memory={"s.memory": {**SEGMENT, "span": "exact"}},
        adaptive_span={"s.span": {"kind": "adaptive", "limit": 4, "ramp": 2, "start": 0.25}},
        fewer_key_heads={"s.kv_heads": 2},
    ) | {
        "feedback stack": (FEEDBACK, {"position": position.dump()}),
        "both ways": (ENCODER, {"position": position.dump()}),
        "window both ways": (ENCODER, {"s.pattern": BOTH, "position": position.dump()}),
    }


def _scalings(scaling: Config) -> Surroundings:
    return _positions(Position.Config.parse({"kind": "rotary", "scaling": scaling.dump()}))


def _patterns(pattern: Any) -> Surroundings:
    if not pattern.causal:
        return _with(ENCODER, pattern, "s.pattern", rotary={"position": "rotary"}, alibi={"position": "alibi"})
    return _with(
        DECODER,
        pattern,
        "s.pattern",
        rotary={"position": "rotary"},
        alibi={"position": "alibi"},
        segment_memory={"s.memory": {**SEGMENT, "length": 12}},
        adaptive_span={"s.span": {"kind": "adaptive", "limit": 4, "ramp": 2, "start": 0.25}},
    )


def _kernels(kernel: Config) -> Surroundings:
    inside = _with(
        DECODER,
        kernel,
        "s.kernel",
        rotary={"position": "rotary"},
        alibi={"position": "alibi"},
        window={"s.pattern": WINDOW},
        segment_memory={"s.memory": SEGMENT},
        fewer_key_heads={"s.kv_heads": 2},
    )
    return inside | {
        "both ways": (ENCODER, {"s.kernel": kernel.dump()}),
        "across": (_translator(), {"decoder.alphabet.c.kernel": kernel.dump()}),
    }


def _memories(memory: Config) -> Surroundings:
    return _with(
        DECODER,
        memory,
        "s.memory",
        rotary={"position": "rotary"},
        relative={"position": "relative_xl"},
        window={"s.pattern": WINDOW},
        post_norm={"residual": "post_norm"},
    ) | {"feedback stack": (FEEDBACK, {"s.memory": memory.dump()})}


def _compressors(compressor: Config) -> Surroundings:
    settings = {"kind": "compressive", "length": 6, "compressed": 4, "rate": 3, "compressor": compressor.dump()}
    return {
        name: (DECODER, {"s.memory": settings, **beside})
        for name, beside in {
            "alone": {},
            "rotary": {"position": "rotary"},
            "relative": {"position": "relative_xl"},
            "fewer key heads": {"s.kv_heads": 2},
        }.items()
    }


def _spans(span: Config) -> Surroundings:
    return _with(
        DECODER,
        span,
        "s.span",
        alibi={"position": "alibi"},
        segment_memory={"s.memory": {**SEGMENT, "length": 12}},
        window={"s.pattern": WINDOW},
    )


def _residuals(residual: Config) -> Surroundings:
    return _with(DECODER, residual, "residual", segment_memory={"s.memory": SEGMENT}) | {
        "both ways": (ENCODER, {"residual": residual.dump()}),
        "feedback stack": (FEEDBACK, {"residual": residual.dump()}),
    }


def _norms(norm: Config) -> Surroundings:
    return {
        "before the part": (DECODER, {"residual": {"kind": "pre_norm", "norm": norm.dump()}}),
        "after the part": (DECODER, {"residual": {"kind": "post_norm", "norm": norm.dump()}}),
        "last": (DECODER, {"final_norm": norm.dump()}),
    }


def _adds(add: Config) -> Surroundings:
    return {
        "before the part": (DECODER, {"residual": {"kind": "pre_norm", "add": add.dump()}}),
        "after the part": (DECODER, {"residual": {"kind": "post_norm", "add": add.dump()}}),
    }


def _embeddings(embedding: Config) -> Surroundings:
    plain = {"embedding": embedding.dump()}
    return {
        "with a tied head": (DECODER, {**plain, "head": "tied"}),
        "with a linear head": (DECODER, {**plain, "head": "linear"}),
        "both ways": (ENCODER, plain),
    }


def _heads(head: Any) -> Surroundings:
    named = {"head": head.dump()}
    inside = {"both ways": (ENCODER, named)}
    return inside if not head.speaks else {"left to right": (DECODER, named), **inside}


def _stacks(stack: Any) -> Surroundings:
    both_ways = any(part.attends and part.both_ways for part in stack.parts)
    base = ENCODER if both_ways else DECODER
    return {"alone": (small(Model.Config.parse({**base, "stack": stack.dump()})).dump(), {})}


def _compositions(compose: Config) -> Surroundings:
    return _with(FEEDBACK, compose, "stack.compose", segment_memory={"s.memory": SEGMENT})


def _models(model: Any) -> Surroundings:
    return {"made small": (small(model).dump(), {})}


FAMILIES: dict[str, Callable[[Any], Surroundings]] = {
    "part": _parts,
    "position": _positions,
    "rotary_scaling": _scalings,
    "pattern": _patterns,
    "kernel": _kernels,
    "memory": _memories,
    "compressor": _compressors,
    "span": _spans,
    "residual": _residuals,
    "norm": _norms,
    "add": _adds,
    "embedding": _embeddings,
    "head": _heads,
    "stack": _stacks,
    "compose": _compositions,
    "model": _models,
}
"""Family → the surroundings of one of its members."""
