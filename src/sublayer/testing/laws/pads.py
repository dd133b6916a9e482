"""Padding: a padded row equals the row alone, in hidden vectors, in scores, in the loss, and in what follows."""

from __future__ import annotations

import torch
from torch import Tensor

from sublayer.nn.model import Model
from sublayer.testing.case import Case
from sublayer.testing.laws.segments import BOTH
from sublayer.testing.verdict import PIECES, law, same


@law("padding", long=PIECES)
def padding(case: Case) -> str | None:
    """A padded row equals the row alone on its own tokens, left or right, and goes on alike after left padding."""
    for dtype, tolerance in BOTH[1:] if case.long else BOTH:
        model, ids = case.model(dtype), case.ids(batch=2)
        for side in ("left", "right"):
            valid, real = _mask(case, ids, side)
            with torch.no_grad():
                h_BLD, state = model(ids, case.begin(model, (0, 1)), valid)
                for row, tokens in ((0, slice(None)), (1, real)):
                    alone, after = model(ids[row : row + 1, tokens], case.begin(model, (row,)))
                    same(h_BLD[row, tokens], alone[0], tolerance, f"padding: row {row}, {side}, {dtype}")
                    if row == 1 and side == "left" and state is not None:
                        more = case.ids(length=3, key=5, batch=2)
                        alone = model(more[1:], after)[0]
                        same(model(more, state)[0][1], alone[0], tolerance, f"padding: going on after {side}, {dtype}")
    return None


@law("padded loss")
def padded_loss(case: Case) -> str | None:
    """The head's loss of a padded batch is that of its rows alone, for every head and on both sides."""
    model, ids = case.model(), case.ids(batch=2)
    for side in ("left", "right"):
        valid, real = _mask(case, ids, side)
        with torch.no_grad():
            h_BLD = model(ids, case.begin(model, (0, 1)), valid)[0]
            target = model.head.example_target(ids, valid)
            together = model.head.loss(h_BLD, target, valid_BL=valid)
            losses, counts = zip(*(_alone(case, model, ids, row, real) for row in (0, 1)), strict=True)
            mean = torch.stack(losses) @ torch.tensor(counts, dtype=losses[0].dtype) / sum(counts)
            same(together, mean, 1e-10, f"padded loss: {side}")
            one = model.head.loss(h_BLD[1:], target[1:], valid_BL=valid[1:])
            same(one, losses[1], 1e-10, f"padded loss: the padded row, {side}")
    return None


def _alone(case: Case, model: Model, ids: Tensor, row: int, real: slice) -> tuple[Tensor, int]:
    """A row's loss without padding, and how many answers it is the mean of."""
    ids = ids[row : row + 1, real if row else slice(None)]
    h_BLD = model(ids, case.begin(model, (row,)))[0]
    whole_row = model.config.head.pools or model.config.head.over_positions
    return model.head.loss(h_BLD, model.head.example_target(ids)), 1 if whole_row else ids.shape[1]


def _mask(case: Case, ids: Tensor, side: str) -> tuple[Tensor, slice]:
    """Validity of two rows of which the second is padded, and where its own tokens stand."""
    long, short = case.length, max(1, case.length - 4)
    real = slice(long - short, long) if side == "left" else slice(0, short)
    valid = torch.ones_like(ids, dtype=torch.bool)
    valid[1] = False
    valid[1, real] = True
    return valid, real
