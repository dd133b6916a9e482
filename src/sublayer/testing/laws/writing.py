"""Generation: what the engine scores token by token is what one pass over the whole text gives."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sublayer.generation.reader import read_prompts
from sublayer.generation.request import GenerationRequest
from sublayer.nn.model import Model
from sublayer.testing.case import Case
from sublayer.testing.verdict import PIECES, law, same

TOLERANCE = {torch.float64: 1e-10, torch.float32: 2e-5}
STEPS = 10
"""Tokens written after the prompt: more than the engine needs to find its fast step worth while."""


@law("generation", long=PIECES)
def generation(case: Case) -> str | None:
    """Token by token through the real engine equals the parallel pass: frozen and not, native and not, with prompts of
    one length and of several."""
    if not case.config.writes:
        return "it does not write"
    head = case.model(torch.float32).config.head
    if not head.speaks:
        return f"its head ({head.tag}) does not score tokens"
    if case.forgets:
        return case.forgets
    prompt = max(2, case.length - 3)
    cuts = (prompt, *(1 for _ in range(STEPS)))
    # The native step is fp32; in fp64 the model reads by itself, and mistakes cannot hide behind rounding.
    for native, dtype in ((True, torch.float32),) if case.long else ((False, torch.float64), (True, torch.float32)):
        model, ids, tolerance = case.model(dtype), case.ids(prompt + STEPS), TOLERANCE[dtype]
        what = f"generation: by the engine, native {'on' if native else 'off'}"
        with torch.inference_mode():
            whole = model.head(case.read(model, ids, **case.as_cut(cuts)))[:, prompt - 1 :]
            same(by_engine(case, model, ids, prompt, native), whole, tolerance, what)
            if not case.long:
                unfrozen = by_engine(case, model, ids, prompt, native=False, frozen=False)
                same(unfrozen, whole, tolerance, f"generation: not frozen, {dtype}")
                _ragged(case, model, ids, prompt, native, f"{what}, prompts of two lengths")
    return None


def by_engine(
    case: Case, model: Model, ids: Tensor, prompt: int, native: bool, *, frozen: bool = True, skip: int = 0
) -> Tensor:
    """Scores of the engine after the prompt and after each further token; `skip`: tokens the second row lacks."""
    prompts = [row[skip if n else 0 : prompt] for n, row in enumerate(ids.tolist())]
    source = case.source(batch=len(prompts))
    asked: dict[str, Any] = {"tokens": ids.shape[1] - prompt, "source": None if source is None else source.tolist()}
    reader = read_prompts(GenerationRequest.of(model, prompts, **asked), native, frozen=frozen)
    scores = [reader.scores_BV.clone()]
    for ids_B in ids[:, prompt:].unbind(1):
        reader.read(ids_B)
        scores.append(reader.scores_BV.clone())
    return torch.stack(scores, dim=1)


def _ragged(case: Case, model: Model, ids: Tensor, prompt: int, native: bool, what: str) -> None:
    """A second row whose prompt is shorter by one: what it writes is what it writes alone."""
    if prompt < 3:
        return
    short = (prompt - 1, *(1 for _ in range(ids.shape[1] - prompt)))
    alone = model(ids[1:, 1:], case.begin(model, (1,)), **case.as_cut(short))[0]
    found = by_engine(case, model, ids, prompt, native, skip=1)[1]
    same(found, model.head(alone)[0, prompt - 2 :], TOLERANCE[alone.dtype], what)
