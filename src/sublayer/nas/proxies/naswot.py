"""How well an untrained network separates the rows of a batch: by its Jacobian, and by which units are active."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from sublayer.data import Batch
from sublayer.nas.proxies.base import proxy
from sublayer.nas.proxies.loss import posed, stack_of, without_dropout
from sublayer.nn.model import Model
from sublayer.nn.part import Part

SMALL = 1e-5
"""Added to eigenvalues, as the authors do."""


@proxy("jacob_cov", cite="Mellor et al. 2020, Neural Architecture Search without Training, arXiv:2006.04647v1")
def jacob_cov(model: Model, batch: Batch) -> float:
    """−Σ (ln(v + k) + 1/(v + k)), v the eigenvalues of the correlations of ∂Σy/∂x between rows.

    x is what enters the stack, y the head's scores: token ids have no derivative.
    """
    _check_rows("jacob_cov", batch)
    entered: list[Tensor] = []

    def enter(stack: nn.Module, given: tuple) -> tuple:
        entered.append(given[0].detach().requires_grad_())
        return entered[0], *given[1:]

    hook = stack_of(model).register_forward_pre_hook(enter)
    try:
        with torch.enable_grad(), without_dropout(model):
            h_BLD, _ = model(posed(model, batch).inputs_BL)
            (jacobian_BLD,) = torch.autograd.grad(model.head(h_BLD).sum(), entered)
    finally:
        hook.remove()
    v_B = torch.linalg.eigvalsh(torch.corrcoef(jacobian_BLD.flatten(1).double())) + SMALL
    return -float((v_B.log() + 1 / v_B).sum())


@proxy("relu_log_det", cite="Mellor et al. 2021, Neural Architecture Search without Training, arXiv:2006.04647")
@torch.no_grad()
def relu_log_det(model: Model, batch: Batch) -> float:
    """ln |det K|, K_ij the number of units that are active in both of rows i and j, or in neither.

    Deviation: where the activation is no ReLU, a unit is active if the activation's input is positive; in a GLU, the
    gate's.
    """
    _check_rows("relu_log_det", batch)
    rows = len(batch.inputs_BL)
    alike_BB = torch.zeros(rows, rows, dtype=torch.float64)

    def count(enter: nn.Module, given: tuple, h_BLF: Tensor) -> None:
        units_BLF = h_BLF[..., : entered[enter]]
        sign_BU = torch.where(units_BLF.reshape(rows, -1) > 0, 1.0, -1.0).double()
        alike_BB.add_((sign_BU @ sign_BU.T + sign_BU.shape[1]).cpu() / 2)

    parts = [module for module in stack_of(model).modules() if isinstance(module, Part)]
    entered = dict(found for part in parts if (found := part.before_activation()) is not None)
    if not entered:
        raise ValueError("relu_log_det: the stack has no part with an activation, such as dense or glu, to count units")
    hooks = [enter.register_forward_hook(count) for enter in entered]
    try:
        with without_dropout(model):
            model(posed(model, batch).inputs_BL)
    finally:
        for hook in hooks:
            hook.remove()
    sign, log_det = torch.linalg.slogdet(alike_BB)
    return float(log_det) if sign > 0 else -math.inf


def _check_rows(name: str, batch: Batch) -> None:
    if len(batch.inputs_BL) < 2:
        raise ValueError(f"{name}: one row given; it compares rows, so use a batch of 2 or more")
