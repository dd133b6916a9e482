"""Attention in less than quadratic time, beside dense attention: what recall, copying and plain text cost each kind.

One table for all papers of the kind, which cannot be compared by their own figures: models and budgets differ there.
Positions are sinusoids added to the embedding, since `lsh` uses no others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sublayer.comparison import Variant
from sublayer.measurement import Setting
from sublayer.nn.attention import Lsh
from sublayer.nn.attention.kernel import RFA, Delta, Linear, LinformerCausal, Performer, Retention
from sublayer.nn.attention.pattern import Window
from sublayer.papers import registry
from sublayer.reproduction.claim import Claim, Finding, claim

DENSE, WINDOW, LINFORMER, LSH = "dense", "window", "linformer, causal", "lsh"
LINEAR, PERFORMER, FEATURES, GATE = "linear", "performer", "rfa", "rfa with gate"
RETENTION, DELTA = "retention", "delta rule"
SUMS = (LINEAR, PERFORMER, FEATURES, GATE, RETENTION)
"""What a token adds to a state of constant size is never taken out again."""
PAPERS = ("linformer", "performer", "rfa", "reformer")

HEADS = 4
SIZES = {
    "layout": "(sf)x2",
    "s.heads": HEADS,
    "position": "sinusoidal",
    "s.dropout": 0.0,
    "residual.dropout": 0.0,
    "embedding.dropout": 0.0,
}


@dataclass(frozen=True)
class Scale:
    """Sizes of the attentions, which follow the length of the texts."""

    dim: int
    window: int
    block: int
    """Tokens that linformer_causal makes `rank` slots of."""
    rank: int
    chunk: int
    """Tokens of a chunk of lsh."""
    buckets: int

    def variants(self) -> list[Variant]:
        """Every attention; parameters differ by at most 2 %."""
        base = registry.config("gpt2")
        slots = LinformerCausal.Config(rank=self.rank, block=self.block, share="keys_values")
        hashed = Lsh.Config(heads=HEADS, rounds=4, buckets=self.buckets, chunk=self.chunk)
        kernels = {
            LINFORMER: slots,
            LINEAR: Linear.Config(),
            PERFORMER: Performer.Config(features=64),
            FEATURES: RFA.Config(features=32),
            GATE: RFA.Config(features=32, gate=True),
            RETENTION: Retention.Config(),
            DELTA: Delta.Config(),
        }
        changes: dict[str, Mapping[str, Any]] = {
            DENSE: {},
            WINDOW: {"s.pattern": Window.Config(size=self.window)},
            **{name: {"s.kernel": kernel} for name, kernel in kernels.items()},
            # Queries are keys: one matrix less, which the feed-forward gets.
            LSH: {"s": hashed, "f.inner": 4 * self.dim + self.dim // 2},
        }
        return [Variant(name, base, own) for name, own in changes.items()]

    def settings(self, own: Mapping[str, Any]) -> dict[str, Any]:
        return {**SIZES, "dim": self.dim, "f.inner": 4 * self.dim, **own}


def right(what: str, order: Sequence[tuple[str, str]], figure: str = "test.accuracy") -> Finding:
    return Finding(figure, what, "%", order, form=lambda share: 100 * share)


@claim("attentions/recall")
def recall() -> Claim:
    scale = Scale(dim=64, window=16, block=16, rank=4, chunk=8, buckets=8)
    budget = {
        "stack.spread": "width",
        "data.length": 16,
        "data.gap": 16,
        "data.asked": 16,
        "data.episodes": 200_000,
        "data.valid": 200,
        "data.test": 1000,
        "train.batch": 32,
        "train.steps": 3000,
        "train.lr": 2e-3,
        "train.warmup": 100,
    }
    order = [(DENSE, name) for name in (*SUMS, WINDOW, LINFORMER)] + [(DELTA, LINEAR), (DELTA, RETENTION)]
    return Claim(
        "attentions/recall",
        "Arora et al. 2024, Zoology, section 4; Schlag et al. 2021, section 6.1",
        "Dense attention recalls what sums in a state of constant size lose; the delta rule, which overwrites, loses "
        "less than they do.",
        "2 layers of width 64 with 4 heads; 16 pairs of key and value, 16 fillers, all keys asked; chance is 10 %",
        scale.variants(),
        [right("values", order), right("whole episodes", [], "test.sequence_accuracy")],
        scale.settings(budget),
        data="task:recall",
        papers=PAPERS,
    )


@claim("attentions/copy")
def copy() -> Claim:
    scale = Scale(dim=64, window=16, block=16, rank=4, chunk=8, buckets=8)
    budget = {
        "stack.spread": "width",
        "data.length": 48,
        "data.shortest": 16,
        "data.test_length": 48,
        "data.episodes": 200_000,
        "data.valid": 200,
        "data.test": 1000,
        "train.batch": 32,
        "train.steps": 3000,
        "train.lr": 2e-3,
        "train.warmup": 100,
    }
    order = [(DENSE, name) for name in (*SUMS, WINDOW)]
    return Claim(
        "attentions/copy",
        "Jelassi et al. 2024, Repeat After Me; Kitaev et al. 2020, section 5",
        "Dense attention copies what a state of constant size cannot hold.",
        "2 layers of width 64 with 4 heads; 16 to 48 digits, then 48; chance is 10 %",
        scale.variants(),
        [right("digits", order), right("whole texts", [], "test.sequence_accuracy")],
        scale.settings(budget),
        data="task:copy",
        papers=PAPERS,
    )


@claim("attentions/text")
def text() -> Claim:
    scale = Scale(dim=96, window=256, block=128, rank=16, chunk=64, buckets=32)
    length = 2048
    budget = {
        "train.length": length,
        "train.batch": 2,
        "train.carry": False,
        "train.tokens": 1_000_000,
        "train.lr": 3e-3,
        "train.warmup": 50,
        "train.eval_tokens": 100_000,
    }
    order = [(DENSE, name) for name in (PERFORMER, FEATURES, LINEAR)] + [(GATE, FEATURES), (DELTA, LINEAR)]
    return Claim(
        "attentions/text",
        "Peng et al. 2021, Table 1; Yang et al. 2024",
        "Estimates of softmax lose little on text; a gate, or the delta rule, makes up for it.",
        f"2 layers of width 96 with 4 heads on rows of {length} bytes",
        scale.variants(),
        [
            Finding("bits_per_byte", "validation", "bits/byte", order, less_is_better=True),
            Finding(
                "latency.latency",
                f"a pass over {length:,} tokens",
                "ms",
                [(LINEAR, DENSE), (WINDOW, DENSE)],
                less_is_better=True,
                form=lambda seconds: 1e3 * seconds,
            ),
            Finding(
                "step_memory",
                "memory of a training step",
                "MB",
                [],
                less_is_better=True,
                form=lambda bytes_taken: bytes_taken / 1e6,
            ),
        ],
        scale.settings(budget),
        setting=Setting(task="segment", length=length),
        papers=PAPERS,
    )
