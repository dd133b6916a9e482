"""BigBird's format: BERT's, with blocks. With attention_type original_full both compute the same, as BERT does.

With block_sparse they differ in what a pattern of positions cannot express, or should not:

| | theirs | here |
| --- | --- | --- |
| global blocks | the first and the last one | the first two |
| random blocks, in evaluation | block 0, once more for each of num_random_blocks | drawn by a seed, as in training |
| random blocks, in training | drawn by numpy, by the number of the layer | drawn by a seed, for each head and layer |
| texts up to 5 + 2 · num_random_blocks blocks | full attention, from then on also for longer texts | the pattern |
| texts that end within a block | padded | as they are |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sublayer.interop.huggingface.bert import Bert
from sublayer.interop.huggingface.entries import Entries
from sublayer.nn.attention import MultiHead
from sublayer.nn.attention.heads import Heads
from sublayer.nn.attention.pattern import BigBird as Blocks
from sublayer.nn.attention.pattern import Pattern
from sublayer.nn.embedding import MaskedLM
from sublayer.nn.model import Encoder, SingleStack

DEFAULTS = {"vocab_size": 50358, "hidden_act": "gelu_new", "max_position_embeddings": 4096}
"""Where transformers' defaults differ from those of BERT."""


class BigBird(Bert, model_type="big_bird"):
    holds = "an encoder with pattern=bigbird or embedding.scale=true"
    heads = {MaskedLM.Config: "BigBirdForMaskedLM"}
    architectures = ("BigBirdForMaskedLM", "BigBirdForPreTraining")
    spare = r"embeddings\.position_ids|pooler\.(weight|bias)|cls\.seq_relationship\.(weight|bias)"

    def claims(self, config: SingleStack.Config) -> bool:
        blocks = any(isinstance(getattr(part, "pattern", None), Blocks.Config) for part in _alphabet(config))
        return isinstance(config, Encoder.Config) and (blocks or config.embedding.scale)

    def read_config(self, entries: Entries, architecture: str) -> Encoder.Config:
        entries.only("use_bias", True)
        given = {key: value for key, value in entries.values.items() if value is not None}
        config = super().read_config(Entries({**DEFAULTS, **given}, entries.path), self.architectures[0])
        return config.but({"embedding.scale": entries.flag("rescale_embeddings", False)})

    def _read_attention(self, entries: Entries, heads: int, dropout: float) -> Heads.Config:
        full = super()._read_attention(entries, heads, dropout)
        if not entries.choice("attention_type", "block_sparse", {"original_full": False, "block_sparse": True}):
            return full
        block, random = entries.whole("block_size", 64), entries.whole("num_random_blocks", 3)
        return full.but(pattern=Blocks.Config(block=block, random=random))

    def write_config(self, config: SingleStack.Config) -> dict[str, Any]:
        pattern = self.expect("s", config.stack.alphabet["s"], MultiHead.Config).pattern
        same = {"rescale_embeddings": config.embedding.scale, "use_bias": True}
        return {**super().write_config(config), **same, **_write_pattern(pattern)}

    def blanks(self, config: SingleStack.Config) -> Mapping[str, tuple[int, ...]]:
        """Their model for masked tokens has a pooler, which it does not use."""
        return {"bert.pooler.weight": (config.dim, config.dim), "bert.pooler.bias": (config.dim,)}


def _alphabet(config: SingleStack.Config) -> list[Any]:
    return [part for letter, part in config.stack.alphabet.items() if letter in config.stack.layout]


def _write_pattern(pattern: Pattern.Config) -> dict[str, Any]:
    if isinstance(pattern, Blocks.Config):
        return {
            "attention_type": "block_sparse",
            "block_size": pattern.block,
            "num_random_blocks": pattern.random,
        }
    return {"attention_type": "original_full"}
