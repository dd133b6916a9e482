"""GPT-2's format. Peculiar: matrices are stored in × out (Conv1D); queries, keys and values are one, as ours are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sublayer.interop.huggingface import activation
from sublayer.interop.huggingface.entries import Entries
from sublayer.interop.huggingface.family import Family
from sublayer.interop.huggingface.weights import Row, Transposed
from sublayer.nn.attention import MultiHead
from sublayer.nn.embedding import LinearHead, TiedHead, TokenEmbedding
from sublayer.nn.feedforward import Dense
from sublayer.nn.model import Decoder, SingleStack
from sublayer.nn.position import Learned
from sublayer.nn.residual import LayerNorm, PreNorm
from sublayer.nn.stack import Plain


class Gpt2(Family, model_type="gpt2"):
    holds = "a decoder with learned positions, offset 0"
    architectures = ("GPT2LMHeadModel",)
    prefix = "transformer."
    ties = {"lm_head.weight": "transformer.wte.weight"}
    spare = r"h\.\d+\.attn\.(masked_)?bias"

    def claims(self, config: SingleStack.Config) -> bool:
        position = config.stack.position
        return isinstance(config, Decoder.Config) and isinstance(position, Learned.Config) and position.offset == 0

    def read_config(self, entries: Entries, architecture: str) -> Decoder.Config:
        entries.only("scale_attn_weights", True)
        entries.only("scale_attn_by_inverse_layer_idx", False)
        entries.only("add_cross_attention", False)
        dim = entries.whole("n_embd", 768)
        norm = LayerNorm.Config(eps=entries.number("layer_norm_epsilon", 1e-5))
        s = MultiHead.Config(heads=entries.whole("n_head", 12), dropout=entries.number("attn_pdrop", 0.1))
        f = Dense.Config(
            inner=entries.whole("n_inner", 4 * dim),
            activation=entries.choice("activation_function", "gelu_new", activation.OURS),
        )
        return Decoder.Config(
            vocab=entries.whole("vocab_size", 50257),
            dim=dim,
            embedding=TokenEmbedding.Config(dropout=entries.number("embd_pdrop", 0.1)),
            stack=Plain.Config(
                layout=f"(sf)x{entries.whole('n_layer', 12)}",
                alphabet={"s": s, "f": f},
                residual=PreNorm.Config(norm=norm, dropout=entries.number("resid_pdrop", 0.1)),
                position=Learned.Config(limit=entries.whole("n_positions", 1024)),
                final_norm=norm,
            ),
            head=TiedHead.Config() if entries.flag("tie_word_embeddings", True) else LinearHead.Config(),
        )

    def write_config(self, config: SingleStack.Config) -> dict[str, Any]:
        s = self.expect("s", config.stack.alphabet["s"], MultiHead.Config)
        f = self.expect("f", config.stack.alphabet["f"], Dense.Config)
        residual = self.expect("residual", config.stack.residual, PreNorm.Config)
        position = self.expect("position", config.stack.position, Learned.Config)
        return {
            "architectures": ["GPT2LMHeadModel"],
            "vocab_size": config.vocab,
            "n_embd": config.dim,
            "n_layer": len(config.stack.parts) // 2,
            "n_head": s.heads,
            "n_inner": f.inner,
            "n_positions": position.limit,
            "activation_function": activation.theirs(f.activation),
            "layer_norm_epsilon": residual.norm.eps,
            "embd_pdrop": config.embedding.dropout,
            "attn_pdrop": s.dropout,
            "resid_pdrop": residual.dropout,
            "tie_word_embeddings": isinstance(config.head, TiedHead.Config),
        }

    def rows(self, config: SingleStack.Config) -> Sequence[Row]:
        return (
            Row("embedding.weight_VD", "transformer.wte.weight"),
            Row("stack.position", "transformer.wpe"),
            Row("stack.sublayers.{s}.norm", "transformer.h.{n}.ln_1"),
            Row("stack.sublayers.{s}.part.qkv", "transformer.h.{n}.attn.c_attn", Transposed()),
            Row("stack.sublayers.{s}.part.output", "transformer.h.{n}.attn.c_proj", Transposed()),
            Row("stack.sublayers.{f}.norm", "transformer.h.{n}.ln_2"),
            Row("stack.sublayers.{f}.part.enter", "transformer.h.{n}.mlp.c_fc", Transposed()),
            Row("stack.sublayers.{f}.part.output", "transformer.h.{n}.mlp.c_proj", Transposed()),
            Row("stack.final_norm", "transformer.ln_f"),
            Row("head.weight_VD", "lm_head.weight"),
        )
