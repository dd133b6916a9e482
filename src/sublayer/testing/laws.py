"""The laws: what must hold for every part and every paper, in eval mode with dropout off.

Each law takes a Case and raises LawBroken; it returns why it does not apply, where it does not.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_model, save_model
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from sublayer.nn.config import Config
from sublayer.nn.memory import Hidden
from sublayer.nn.model import Decoder, EncoderDecoder, Model
from sublayer.nn.state import State
from sublayer.testing.case import Case, LawBroken, by_reference, fed, same

Verdict = str | None
Law = Callable[[Case], Verdict]

ONE_WAY = "it reads both ways"


def causality(case: Case) -> Verdict:
    """No output knows what comes after it: gradients are exactly zero, values move by less than 1e-12."""
    if case.bidirectional:
        return ONE_WAY
    model, ids = case.model(), case.ids()
    t = max(1, case.length // 2)
    x_BLD = model.embedding.read(ids).detach().requires_grad_()
    state = case.begin(model)
    with fed(model, x_BLD):
        h_BLD, _ = model(ids, state)
    weight = torch.randn(h_BLD[:, :t].shape, dtype=h_BLD.dtype, generator=torch.Generator().manual_seed(1))
    (slope,) = torch.autograd.grad((h_BLD[:, :t] * weight).sum(), x_BLD)
    if slope[:, t:].any():
        raise LawBroken(f"causality: outputs before place {t} have a gradient with respect to inputs after it")
    if not slope[:, :t].any():
        raise LawBroken("causality: outputs do not depend on their own inputs")
    other = torch.cat([ids[:, :t], (ids[:, t:] + 1) % case.config.vocab], dim=1)
    with torch.no_grad():
        same(case.read(model, other)[:, :t], case.read(model, ids)[:, :t], 1e-12, "causality: later tokens changed")
    return None


def segmentation(case: Case) -> Verdict:
    """Any split into segments equals one pass; where the mathematics depends on the split, the pass it states."""
    if not case.config.remembers:
        return "it carries nothing on"
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-5)):
        model, ids = case.model(dtype), case.ids()
        for cuts in (case.cuts, (1,) * case.length):
            options = {"segments": cuts} if case.splits else {}
            for grad in (False, True):  # buffers written in place, and functional appending
                with torch.set_grad_enabled(grad):
                    whole, parts = case.read(model, ids, **options), case.read_in_segments(model, ids, cuts)
                same(parts, whole, tolerance, f"segmentation: cuts {cuts} in {dtype}, grad {'on' if grad else 'off'}")
    return None


def frozen_memory(case: Case) -> Verdict:
    """Remembered hidden states, and the keys and values made of them once, give the same."""
    if not isinstance(model := case.model(), (Decoder, EncoderDecoder)):
        return "it carries nothing on"
    first, second = case.ids(key=1), case.ids(length=1, key=2)
    with torch.no_grad():
        state = model(first, case.begin(model))[1]
        if not any(isinstance(part, Hidden) for part in state.parts):
            return "it keeps keys and values"
        frozen = model.frozen(state.fork())
        for ids in (second, case.ids(key=3), second):
            hidden, state = model(ids, state)
            again, frozen = model(ids, frozen)
            same(again, hidden, 1e-10, "frozen memory: keys and values against hidden states")
    return None


def empty_memory(case: Case) -> Verdict:
    """An empty memory is no memory; one that is all padding changes nothing."""
    if not case.config.remembers:
        return "it carries nothing on"
    model, ids = case.model(), case.ids()
    nothing = case.ids(length=3, key=1)
    with torch.no_grad():
        alone = case.read(model, ids)
        if isinstance(model, Decoder):
            empty = State(())
            same(model(ids, empty)[0], alone, 1e-12, "empty memory: an empty state against none")
        _, masked = model(nothing, case.begin(model), torch.zeros_like(nothing, dtype=torch.bool))
        same(model(ids, masked)[0], alone, 1e-10, "empty memory: a memory that is all padding")
    return None


def padding(case: Case) -> Verdict:
    """A padded row equals the row alone on its real places, left or right, and goes on alike after left padding."""
    long, short = case.length, max(1, case.length - 4)
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-5)):
        model, ids = case.model(dtype), case.ids(batch=2)
        for side in ("left", "right"):
            real = slice(long - short, long) if side == "left" else slice(0, short)
            valid = torch.ones_like(ids, dtype=torch.bool)
            valid[1] = False
            valid[1, real] = True
            with torch.no_grad():
                h_BLD, state = model(ids, case.begin(model, (0, 1)), valid)
                for row, places in ((0, slice(None)), (1, real)):
                    alone, after = model(ids[row : row + 1, places], case.begin(model, (row,)))
                    same(h_BLD[row, places], alone[0], tolerance, f"padding: row {row}, {side}, {dtype}")
                    if row == 1 and side == "left" and state is not None:
                        more = case.ids(length=3, key=5, batch=2)
                        alone = model(more[1:], after)[0]
                        same(model(more, state)[0][1], alone[0], tolerance, f"padding: going on after {side}, {dtype}")
    return None


def gradients(case: Case) -> Verdict:
    """After two optimiser steps every parameter has a gradient that is not all zero; finite in fp32 and in bf16."""
    for dtype in (torch.float32, torch.bfloat16):
        torch.manual_seed(case.seed)
        model = case.config.build().to(dtype).eval()
        optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
        for step in range(3):
            optimiser.zero_grad(set_to_none=True)
            loss = _loss(model, case, step)
            loss.backward()
            for name, weight in model.named_parameters():
                if weight.grad is None:
                    raise LawBroken(f"gradients: {name} gets none")
                if not weight.grad.isfinite().all():
                    raise LawBroken(f"gradients: {name} has one that is not finite, in {dtype}")
                # A single number (ReZero's) may come to 0 in bf16 because its terms cancel to the last of few digits.
                tells = weight.numel() > 1 or dtype == torch.float32
                if step == 2 and tells and not weight.grad.any():
                    raise LawBroken(f"gradients: {name} has all zeros after two steps, in {dtype}")
            optimiser.step()
    return None


def _loss(model: Model, case: Case, step: int) -> Tensor:
    """On a batch with every token of the vocabulary in it, as input and as target, in two segments if it remembers."""
    vocab, B = case.config.vocab, 4
    order = torch.randperm(vocab, generator=torch.Generator().manual_seed(step))
    ids = torch.cat([order, order[: -vocab % (2 * B)]]).view(B, -1)
    if not case.config.remembers:
        return model.head.loss(case.read(model, ids), model.head.example_target(ids))
    source = ids % (getattr(model.config, "source_vocab", None) or vocab)
    state = model.start(source) if isinstance(model, EncoderDecoder) else None
    first, second = ids.chunk(2, dim=1)
    h_first, state = model(first, state)
    h_second, _ = model(second, state)
    return model.head.loss(torch.cat([h_first, h_second], dim=1), model.head.example_target(ids))


def cost_is_count(case: Case) -> Verdict:
    """Parameters by the config's closed form, exactly; FLOPs within 1 % of the counter on the meta device."""
    with torch.device("meta"):
        model = case.config.build().eval()
    counted = sum(weight.numel() for weight in model.parameters())
    cost = case.config.cost()
    if cost.params != counted:
        raise LawBroken(f"cost: {cost.params} parameters by the config, {counted} in the model")
    for length, memory in ((case.length, 0), (19, 0), (3, 5), (1, 4)):
        if memory and not case.config.remembers:
            continue
        work = case.config.cost(length, memory).flops
        expected = work.embedding + work.stack + (0 if model.config.head.flops_depend_on_data else work.head)
        measured = _count_flops(model, length, memory)
        if abs(measured - expected) > 0.01 * measured:
            raise LawBroken(
                f"cost: {expected} FLOPs by the config, {measured} by the counter ({length} new, {memory} remembered)"
            )
    return None


def _count_flops(model: Model, length: int, memory: int) -> int:
    """Of one pass with its head, on meta tensors; an adaptive softmax works on as many rows as the data ask for."""
    source = torch.zeros(1, length, dtype=torch.long, device="meta")
    with torch.no_grad():
        state = None
        if memory:
            past = torch.zeros(1, memory, dtype=torch.long, device="meta")
            state = model(past, model.start(source) if isinstance(model, EncoderDecoder) else None)[1]
        with FlopCounterMode(display=False) as counter:
            if isinstance(model, EncoderDecoder) and state is None:
                state = model.start(source)
            h_BLD, _ = model(torch.zeros(1, length, dtype=torch.long, device="meta"), state)
            if not model.config.head.flops_depend_on_data:
                model.head(h_BLD)
    return counter.get_total_flops()


def round_trip(case: Case) -> Verdict:
    """Config ↔ JSON and TOML; weights ↔ safetensors; nothing lost."""
    config = case.config
    for form, again in (
        ("JSON", Model.Config.from_json(config.to_json())),
        ("TOML", Model.Config.from_toml(config.to_toml())),
    ):
        lost = sorted(config.diff(again)) + _unlike(config, again)
        if lost or again.hash != config.hash:
            raise LawBroken(f"round trip: {form} changes {', '.join(lost) or 'the hash'}")
    json.dumps(config.dump())
    model, ids = case.model(), case.ids()
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        file = Path(folder) / "model.safetensors"
        save_model(model, str(file))
        other = Case(config, case.seed + 1, case.batch, case.cuts).model()
        load_model(other, str(file))
        same(case.read(other, ids), case.read(model, ids), 0.0, "round trip: weights through safetensors")
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


def determinism(case: Case) -> Verdict:
    """The same seed gives the same bits; another seed gives others."""
    ids = case.ids()
    here, again = (case.read(case.model(torch.float32), ids) for _ in range(2))
    if not torch.equal(here, again):
        raise LawBroken("determinism: the same seed gives different bits")
    other = Case(case.config, case.seed + 1, case.batch, case.cuts)
    if torch.equal(here, case.read(other.model(torch.float32), ids)):
        raise LawBroken("determinism: another seed gives the same bits")
    return None


def oracle(case: Case) -> Verdict:
    """Attention equals its slow twin in values and gradients, with a memory and with padding."""
    model, ids = case.model(), case.ids()
    valid = torch.ones_like(ids, dtype=torch.bool)
    valid[0, : case.length // 3] = False
    weights = list(model.parameters())

    def run() -> list[Tensor]:
        h_BLD, state = model(ids, case.begin(model))
        hidden = [h_BLD, model(ids, case.begin(model), valid)[0] * valid[..., None]]
        if state is not None:
            hidden.append(model(case.ids(key=4), state)[0])
        losses = [(h * torch.linspace(-1, 1, h.shape[-1], dtype=h.dtype)).sum() for h in hidden]
        slopes = torch.autograd.grad(losses, weights, allow_unused=True)
        return hidden + [torch.zeros(()) if slope is None else slope for slope in slopes]

    fast = run()
    with by_reference():
        slow = run()
    names = ["one pass", "padded", "with memory"][: len(fast) - len(weights)]
    names += [name for name, _ in model.named_parameters()]
    for name, here, there in zip(names, fast, slow, strict=True):
        same(here, there, 1e-10, f"oracle: {name}")
    return None


def state_is_a_value(case: Case) -> Verdict:
    """A consumed state raises; forks do not touch each other."""
    if not case.config.remembers:
        return "it carries nothing on"
    model, steps = case.model(), [case.ids(), case.ids(length=1, key=8), case.ids(length=2, key=9)]
    other = (steps[2] + 1) % case.config.vocab

    def read(forked: bool) -> Tensor:
        """Go on, past a fork that reads something else, into buffers that by now have room to spare."""
        state = case.begin(model)
        for ids in steps:
            fork = state.fork() if forked and state else None
            _, after = model(ids, state)
            if fork is not None:
                model(other, fork)
            state = after
        return model(steps[1], state)[0]

    with torch.no_grad():
        same(read(forked=True), read(forked=False), 1e-12, "state: what a fork reads shows in the other")
        state = model(steps[0], case.begin(model))[1]
        model(steps[1], state)
        try:
            model(steps[1], state)
        except ValueError:
            return None
    raise LawBroken("state: a consumed state is taken again")


LAWS: dict[str, Law] = {
    "causality": causality,
    "segmentation": segmentation,
    "frozen memory": frozen_memory,
    "empty memory": empty_memory,
    "padding": padding,
    "gradients": gradients,
    "cost = count": cost_is_count,
    "round trip": round_trip,
    "determinism": determinism,
    "oracle": oracle,
    "state is a value": state_is_a_value,
}
