"""When to stop because training diverged: the weights of the last checkpoint are still good."""

from __future__ import annotations

import math

from sublayer.runs import Progress
from sublayer.training.config import TrainConfig


class DivergedError(ValueError):
    """The loss is not a number any more, or far above the first."""


def check(loss: float, norm: float, progress: Progress, config: TrainConfig, saved: int) -> None:
    """Raise DivergedError if training has diverged, by comparison with the first loss."""
    if wrong := _wrong(loss, norm, progress.first, config.explode):
        raise _diverged(wrong, progress, config, saved)


def check_score(loss: float, progress: Progress, config: TrainConfig, saved: int) -> None:
    """The same for a loss on valid, before its weights are saved; there, a loss that merely grows is no divergence."""
    if not math.isfinite(loss):
        raise _diverged(f"the loss on valid is {loss}", progress, config, saved)


def _wrong(loss: float, norm: float, first: float | None, limit: float) -> str | None:
    if not math.isfinite(loss):
        return f"the loss is {loss}"
    if not math.isfinite(norm):
        return f"the norm of the gradient is {norm}"
    if first is not None and loss > (most := limit * max(first, 1.0)):  # a loss that is small already may well double
        return f"the loss is {loss:.3g}, more than {most:.3g}, after a first of {first:.3g}"
    return None


def _diverged(wrong: str, progress: Progress, config: TrainConfig, saved: int) -> DivergedError:
    clip = "train.clip=1" if config.clip is None else f"a smaller train.clip (it is {config.clip:g})"
    return DivergedError(
        f"step {progress.step}: {wrong}. The last good checkpoint, step {saved}, is kept; train again with a lower "
        f"train.lr (it is {config.lr:g}), a longer train.warmup (it is {config.warmup}) or {clip}"
    )
