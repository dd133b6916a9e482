"""OPT's format. Peculiar: two spare rows before the positions; norms before or after; narrow token vectors in 350m."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sublayer.interop.huggingface import activation
from sublayer.interop.huggingface.entries import Entries
from sublayer.interop.huggingface.family import Family
from sublayer.interop.huggingface.weights import Row, Stacked
from sublayer.nn.attention import MultiHead
from sublayer.nn.embedding import FactorisedEmbedding, LinearHead, TiedHead, TokenEmbedding
from sublayer.nn.feedforward import Dense
from sublayer.nn.model import Decoder, SingleStack
from sublayer.nn.position import Learned
from sublayer.nn.residual import LayerNorm, NoNorm, PostNorm, PreNorm
from sublayer.nn.residual.normed import Normed
from sublayer.nn.stack import Plain


class Opt(Family, model_type="opt"):
    holds = "a decoder with learned positions, offset 2"
    architectures = ("OPTForCausalLM",)
    prefix = "model."
    ties = {"lm_head.weight": "model.decoder.embed_tokens.weight"}

    def claims(self, config: SingleStack.Config) -> bool:
        position = config.stack.position
        return isinstance(config, Decoder.Config) and isinstance(position, Learned.Config) and position.offset == 2

    def read_config(self, entries: Entries, architecture: str) -> Decoder.Config:
        entries.only("layer_norm_elementwise_affine", True)
        dim = entries.whole("hidden_size", 768)
        rank = entries.whole("word_embed_proj_dim", dim)
        if rank != dim:
            entries.only("tie_word_embeddings", True)
        before = entries.flag("do_layer_norm_before", True)
        ends = before and not entries.flag("_remove_final_layer_norm", False)
        dropout, bias = entries.number("dropout", 0.1), entries.flag("enable_bias", True)
        s = MultiHead.Config(
            heads=entries.whole("num_attention_heads", 12),
            dropout=entries.number("attention_dropout", 0.0),
            bias=bias,
        )
        f = Dense.Config(
            inner=entries.whole("ffn_dim", 3072),
            activation=entries.choice("activation_function", "relu", activation.OURS),
            bias=bias,
        )
        return Decoder.Config(
            vocab=entries.whole("vocab_size", 50272),
            dim=dim,
            embedding=TokenEmbedding.Config() if rank == dim else FactorisedEmbedding.Config(rank=rank),
            stack=Plain.Config(
                layout=f"(sf)x{entries.whole('num_hidden_layers', 12)}",
                alphabet={"s": s, "f": f},
                residual=PreNorm.Config(dropout=dropout) if before else PostNorm.Config(dropout=dropout),
                position=Learned.Config(limit=entries.whole("max_position_embeddings", 2048), offset=2),
                final_norm=LayerNorm.Config() if ends else NoNorm.Config(),
            ),
            head=TiedHead.Config() if entries.flag("tie_word_embeddings", True) else LinearHead.Config(),
        )

    def write_config(self, config: SingleStack.Config) -> dict[str, Any]:
        s = self.expect("s", config.stack.alphabet["s"], MultiHead.Config)
        f = self.expect("f", config.stack.alphabet["f"], Dense.Config)
        residual = self.expect("residual", config.stack.residual, Normed.Config)
        position = self.expect("position", config.stack.position, Learned.Config)
        before, embedding = isinstance(residual, PreNorm.Config), config.embedding
        return {
            "architectures": ["OPTForCausalLM"],
            "vocab_size": config.vocab,
            "hidden_size": config.dim,
            "word_embed_proj_dim": embedding.rank if isinstance(embedding, FactorisedEmbedding.Config) else config.dim,
            "num_hidden_layers": len(config.stack.parts) // 2,
            "num_attention_heads": s.heads,
            "ffn_dim": f.width(config.dim),
            "max_position_embeddings": position.limit,
            "activation_function": activation.theirs(f.activation),
            "do_layer_norm_before": before,
            "_remove_final_layer_norm": before and isinstance(config.stack.final_norm, NoNorm.Config),
            "enable_bias": s.bias,
            "dropout": residual.dropout,
            "attention_dropout": s.dropout,
            "tie_word_embeddings": isinstance(config.head, TiedHead.Config),
        }

    def rows(self, config: SingleStack.Config) -> Sequence[Row]:
        layer = "model.decoder.layers.{n}"
        qkv = tuple(f"{layer}.self_attn.{x}_proj" for x in "qkv")
        return (
            Row("embedding.weight_VD", "model.decoder.embed_tokens.weight"),
            Row("embedding.weight_VE", "model.decoder.embed_tokens.weight"),
            Row("embedding.project", "model.decoder.project_in"),
            Row("stack.position", "model.decoder.embed_positions"),
            Row("stack.sublayers.{s}.norm", f"{layer}.self_attn_layer_norm"),
            Row("stack.sublayers.{s}.part.qkv", qkv, Stacked((1, 1, 1))),
            Row("stack.sublayers.{s}.part.output", f"{layer}.self_attn.out_proj"),
            Row("stack.sublayers.{f}.norm", f"{layer}.final_layer_norm"),
            Row("stack.sublayers.{f}.part.enter", f"{layer}.fc1"),
            Row("stack.sublayers.{f}.part.output", f"{layer}.fc2"),
            Row("stack.final_norm", "model.decoder.final_layer_norm"),
            Row("head.project", "model.decoder.project_out"),
            Row("head.weight_VD", "lm_head.weight"),
        )
