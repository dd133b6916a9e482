"""Longformer's format: RoBERTa's, with projections for global tokens. Theirs are chosen by a mask with every text,
`global_attention_mask`; the models here have the first token of a text, as a classifier has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sublayer.interop.huggingface.bert import Bert
from sublayer.interop.huggingface.entries import Entries
from sublayer.interop.huggingface.weights import Row, Stacked
from sublayer.nn.attention import LongformerAttention, Window
from sublayer.nn.attention.heads import Heads
from sublayer.nn.embedding import Head, MaskedLM
from sublayer.nn.feedforward import Activation
from sublayer.nn.model import Encoder, SingleStack
from sublayer.nn.position import Learned


class Longformer(Bert, model_type="longformer"):
    holds = "an encoder with longformer_attention"
    heads = {MaskedLM.Config: "LongformerForMaskedLM"}
    attention = LongformerAttention.Config
    architectures = ("LongformerForMaskedLM",)
    prefix = "longformer."
    ties = {
        "lm_head.decoder.weight": "longformer.embeddings.word_embeddings.weight",
        "lm_head.decoder.bias": "lm_head.bias",
    }
    spare = r"embeddings\.position_ids|pooler\.dense\.(weight|bias)"

    def claims(self, config: SingleStack.Config) -> bool:
        return isinstance(config, Encoder.Config) and any(
            isinstance(part, self.attention) for part in config.stack.parts
        )

    def read_config(self, entries: Entries, architecture: str) -> Encoder.Config:
        config = super().read_config(entries, architecture)
        padding, rows = _padding(entries), entries.whole("max_position_embeddings", 512)
        if rows <= padding + 1:
            raise entries.wrong(
                "max_position_embeddings", rows, f"more than {padding + 1}, of which none is a position"
            )
        return config.but(position=Learned.Config(limit=rows - padding - 1, offset=padding + 1))

    def _read_attention(self, entries: Entries, heads: int, dropout: float) -> Heads.Config:
        window = Window.Config(size=_window(entries) // 2 + 1, look="both")
        return LongformerAttention.Config(heads=heads, dropout=dropout, window=window)

    def head_activation(self, inner: Activation) -> Activation:
        return "gelu"

    def write_config(self, config: SingleStack.Config) -> dict[str, Any]:
        values = super().write_config(config)
        position = self.expect("position", config.stack.position, Learned.Config)
        s = self.expect("s", config.stack.alphabet["s"], LongformerAttention.Config)
        window = self.expect("s.window", s.window, Window.Config)
        if not position.offset:
            raise self.refuse("position.offset", 0, "1 or more, one above pad_token_id")
        return {
            **values,
            "attention_window": [2 * (window.size - 1)] * values["num_hidden_layers"],
            "max_position_embeddings": position.limit + position.offset,
            "pad_token_id": position.offset - 1,
        }

    def _attention_rows(self, theirs: str, ours: str = "stack.sublayers.{s}.part") -> Sequence[Row]:
        key_value = tuple(f"{theirs}.self.{x}_global" for x in ("key", "value"))
        return (
            *super()._attention_rows(theirs, f"{ours}.local"),
            Row(f"{ours}.global_query", f"{theirs}.self.query_global"),
            Row(f"{ours}.global_key_value", key_value, Stacked((1, 1))),
        )

    def _head_rows(self, head: Head.Config) -> Sequence[Row]:
        return (
            Row("head.enter", "lm_head.dense"),
            Row("head.norm", "lm_head.layer_norm"),
            Row("head.bias_V", "lm_head.bias"),
        )


def _window(entries: Entries) -> int:
    """Tokens on both sides together, the same in all layers."""
    value = entries.values.get("attention_window")
    sizes = value if isinstance(value, list) else [512 if value is None else value]
    layers = entries.whole("num_hidden_layers", 12)
    even = all(isinstance(size, int) and not isinstance(size, bool) and size > 0 and size % 2 == 0 for size in sizes)
    if not even or len(set(sizes)) != 1 or len(sizes) not in (1, layers):
        raise entries.wrong("attention_window", value, f"one even number above 0, or {layers} alike")
    return sizes[0]


def _padding(entries: Entries) -> int:
    """The id of padding; rows of positions up to it are spare."""
    value = entries.values.get("pad_token_id", 1)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise entries.wrong("pad_token_id", value, "a whole number of 0 or more, after which positions begin")
    return value
