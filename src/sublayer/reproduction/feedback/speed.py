"""Table 5: speed of training and generation."""

from __future__ import annotations

from sublayer.measurement import Setting
from sublayer.reproduction.claim import Claim, Finding, claim
from sublayer.reproduction.feedback.baselines import FEEDBACK, PAPER, TRANSFORMER, pair


@claim("feedback/speed")
def speed() -> Claim:
    sizes = {"dim": 256, "layout": "(sf)x4", "s.heads": 4, "s.memory.length": 128, "position.clip": 128}
    quiet = {"s.dropout": 0.0, "f.dropout": 0.0}
    budget = {
        "train.steps": 30,
        "train.batch": 16,
        "train.length": 128,
        "train.log_every": 1,
        "train.eval_tokens": 2048,
    }
    return Claim(
        "feedback/speed",
        f"{PAPER}, Table 5",
        "It trains more slowly than a Transformer, and writes faster: one set of keys and values serves all layers.",
        "4 layers of width 256 on 16 rows of 128 tokens, and 64 rows to write; the paper's had 126 M and a GPU",
        pair("feedback"),
        [
            Finding(
                *("tokens_per_second", "training", "tokens/s", [(TRANSFORMER, FEEDBACK)]),
                {FEEDBACK: 84_400, TRANSFORMER: 296_000},
            ),
            Finding(
                *("latency.latency", "writing", "tokens/s", [(FEEDBACK, TRANSFORMER)]),
                {FEEDBACK: 2176, TRANSFORMER: 592},
                form=lambda seconds: 64 / seconds,
            ),
        ],
        {**sizes, **quiet, **budget},
        setting=Setting(task="token", length=128, batch=64),
    )
