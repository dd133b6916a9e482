"""Llama's format. Features turn in the same pairs as ours, e with e + K/2, so that no weight is permuted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sublayer.interop.huggingface import activation
from sublayer.interop.huggingface.entries import Entries
from sublayer.interop.huggingface.family import Family
from sublayer.interop.huggingface.rope import read_rope, write_rope
from sublayer.interop.huggingface.weights import Row, Stacked
from sublayer.nn.attention import MultiHead
from sublayer.nn.embedding import LinearHead, TiedHead
from sublayer.nn.feedforward import Glu
from sublayer.nn.model import Decoder, SingleStack
from sublayer.nn.position import Rotary
from sublayer.nn.residual import PreNorm, RMSNorm
from sublayer.nn.stack import Plain


class Llama(Family, model_type="llama"):
    holds = "a decoder with rotary positions"
    architectures = ("LlamaForCausalLM",)
    prefix = "model."
    ties = {"lm_head.weight": "model.embed_tokens.weight"}
    spare = r"layers\.\d+\.self_attn\.rotary_emb\.inv_freq"

    def claims(self, config: SingleStack.Config) -> bool:
        return isinstance(config, Decoder.Config) and isinstance(config.stack.position, Rotary.Config)

    def read_config(self, entries: Entries, architecture: str) -> Decoder.Config:
        dim, heads = entries.whole("hidden_size", 4096), entries.whole("num_attention_heads", 32)
        norm = RMSNorm.Config(eps=entries.number("rms_norm_eps", 1e-6))
        s = MultiHead.Config(
            heads=heads,
            kv_heads=entries.whole("num_key_value_heads", heads),
            head_dim=entries.whole("head_dim", max(1, dim // heads)),
            bias=entries.flag("attention_bias", False),
            dropout=entries.number("attention_dropout", 0.0),
        )
        f = Glu.Config(
            inner=entries.whole("intermediate_size", 11008),
            activation=entries.choice("hidden_act", "silu", activation.OURS),
            bias=entries.flag("mlp_bias", False),
        )
        return Decoder.Config(
            vocab=entries.whole("vocab_size", 32000),
            dim=dim,
            stack=Plain.Config(
                layout=f"(sf)x{entries.whole('num_hidden_layers', 32)}",
                alphabet={"s": s, "f": f},
                residual=PreNorm.Config(norm=norm),
                position=read_rope(entries),
                final_norm=norm,
            ),
            head=TiedHead.Config() if entries.flag("tie_word_embeddings", False) else LinearHead.Config(),
        )

    def write_config(self, config: SingleStack.Config) -> dict[str, Any]:
        s = self.expect("s", config.stack.alphabet["s"], MultiHead.Config)
        f = self.expect("f", config.stack.alphabet["f"], Glu.Config)
        residual = self.expect("residual", config.stack.residual, PreNorm.Config)
        position = self.expect("position", config.stack.position, Rotary.Config)
        heads, kv_heads, head_dim = s.sizes(config.dim)
        if config.dim % heads:
            raise self.refuse("s.heads", heads, f"a divisor of dim={config.dim}, whatever head_dim")
        return {
            "architectures": ["LlamaForCausalLM"],
            "vocab_size": config.vocab,
            "hidden_size": config.dim,
            "num_hidden_layers": len(config.stack.parts) // 2,
            "num_attention_heads": heads,
            "num_key_value_heads": kv_heads,
            "head_dim": head_dim,
            "intermediate_size": f.width(config.dim),
            "hidden_act": activation.theirs(f.activation),
            "rms_norm_eps": residual.norm.eps,
            **write_rope(position),
            "attention_bias": s.bias,
            "mlp_bias": f.bias,
            "attention_dropout": s.dropout,
            "tie_word_embeddings": isinstance(config.head, TiedHead.Config),
        }

    def rows(self, config: SingleStack.Config) -> Sequence[Row]:
        heads, kv_heads, _ = self.expect("s", config.stack.parts[0], MultiHead.Config).sizes(config.dim)
        layer = "model.layers.{n}"
        qkv = tuple(f"{layer}.self_attn.{x}_proj" for x in "qkv")
        halves = (f"{layer}.mlp.gate_proj", f"{layer}.mlp.up_proj")
        return (
            Row("embedding.weight_VD", "model.embed_tokens.weight"),
            Row("stack.sublayers.{s}.norm", f"{layer}.input_layernorm"),
            Row("stack.sublayers.{s}.part.qkv", qkv, Stacked((heads, kv_heads, kv_heads))),
            Row("stack.sublayers.{s}.part.output", f"{layer}.self_attn.o_proj"),
            Row("stack.sublayers.{f}.norm", f"{layer}.post_attention_layernorm"),
            Row("stack.sublayers.{f}.part.enter", halves, Stacked((1, 1))),
            Row("stack.sublayers.{f}.part.output", f"{layer}.mlp.down_proj"),
            Row("stack.final_norm", "model.norm"),
            Row("head.weight_VD", "lm_head.weight"),
        )
