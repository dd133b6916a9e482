"""BERT's format. Peculiar: `architectures` names the head; a sequence classifier with one label is a regression, unless
problem_type names another; old files call a norm's weights gamma and beta."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from sublayer.interop.huggingface import activation
from sublayer.interop.huggingface.entries import Entries
from sublayer.interop.huggingface.family import Family
from sublayer.interop.huggingface.weights import Row, Stacked
from sublayer.nn.attention import Full, MultiHead
from sublayer.nn.attention.heads import Heads
from sublayer.nn.embedding import Classify, Head, MaskedLM, PooledHead, Regress, SpanHead, TokenEmbedding
from sublayer.nn.feedforward import Activation, Dense
from sublayer.nn.memory import NoMemory
from sublayer.nn.model import Encoder, SingleStack
from sublayer.nn.position import Learned
from sublayer.nn.residual import LayerNorm, PostNorm
from sublayer.nn.stack import Plain

HEADS: dict[type[Head.Config], str] = {
    MaskedLM.Config: "BertForMaskedLM",
    Classify.Config: "BertForSequenceClassification",
    Regress.Config: "BertForSequenceClassification",
    SpanHead.Config: "BertForQuestionAnswering",
}
PROBLEMS: dict[type[Head.Config], str] = {
    Classify.Config: "single_label_classification",
    Regress.Config: "regression",
}


class Bert(Family, model_type="bert"):
    holds = "an encoder"
    heads: ClassVar[Mapping[type[Head.Config], str]] = HEADS
    """The architecture of each head."""
    attention: ClassVar[type[Heads.Config]] = MultiHead.Config
    """What its layers have."""
    architectures = tuple(dict.fromkeys(HEADS.values()))
    prefix = "bert."
    ties = {
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    }
    old = {".gamma": ".weight", ".beta": ".bias"}
    spare = r"embeddings\.position_ids|pooler\.dense\.(weight|bias)|cls\.seq_relationship\.(weight|bias)"

    def claims(self, config: SingleStack.Config) -> bool:
        return isinstance(config, Encoder.Config)

    def read_config(self, entries: Entries, architecture: str) -> Encoder.Config:
        entries.only("position_embedding_type", "absolute")
        entries.only("is_decoder", False)
        entries.only("add_cross_attention", False)
        entries.only("pruned_heads", {})
        norm = LayerNorm.Config(eps=entries.number("layer_norm_eps", 1e-12))
        dropout = entries.number("hidden_dropout_prob", 0.1)
        s = self._read_attention(
            entries,
            heads=entries.whole("num_attention_heads", 12),
            dropout=entries.number("attention_probs_dropout_prob", 0.1),
        )
        f = Dense.Config(
            inner=entries.whole("intermediate_size", 3072),
            activation=entries.choice("hidden_act", "gelu", activation.OURS),
        )
        return Encoder.Config(
            vocab=entries.whole("vocab_size", 30522),
            dim=entries.whole("hidden_size", 768),
            embedding=TokenEmbedding.Config(types=entries.whole("type_vocab_size", 2), norm=norm, dropout=dropout),
            stack=Plain.Config(
                layout=f"(sf)x{entries.whole('num_hidden_layers', 12)}",
                alphabet={"s": s, "f": f},
                residual=PostNorm.Config(norm=norm, dropout=dropout),
                position=Learned.Config(limit=entries.whole("max_position_embeddings", 512)),
            ),
            head=self._read_head(entries, architecture, norm, dropout),
        )

    def _read_attention(self, entries: Entries, heads: int, dropout: float) -> Heads.Config:
        return MultiHead.Config(heads=heads, dropout=dropout, pattern=Full.Config(), memory=NoMemory.Config())

    def head_activation(self, inner: Activation) -> Activation:
        """That of the head for masked tokens, where the feed-forwards have `inner`."""
        return inner

    def _read_head(self, entries: Entries, architecture: str, norm: LayerNorm.Config, dropout: float) -> Head.Config:
        if architecture == self.heads[MaskedLM.Config]:
            entries.only("tie_word_embeddings", True)
            inner = entries.choice("hidden_act", "gelu", activation.OURS)
            return MaskedLM.Config(norm=norm, activation=self.head_activation(inner))
        classes = len(entries.table("id2label")) or entries.whole("num_labels", 2)
        if architecture == self.heads[Classify.Config]:
            return _read_pooled(entries, classes, entries.number("classifier_dropout", dropout))
        if classes != 2:
            raise entries.wrong("number of labels", classes, "2, the start and the end of a span")
        return SpanHead.Config()

    def write_config(self, config: SingleStack.Config) -> dict[str, Any]:
        s = self.expect("s", config.stack.alphabet["s"], self.attention)
        f = self.expect("f", config.stack.alphabet["f"], Dense.Config)
        residual = self.expect("residual", config.stack.residual, PostNorm.Config)
        position = self.expect("position", config.stack.position, Learned.Config)
        if not config.embedding.types:
            raise self.refuse("embedding.types", 0, "1 or more")
        if isinstance(config.head, MaskedLM.Config):
            there = self.head_activation(f.activation)
            if config.head.activation != there:
                raise self.refuse("head.activation", config.head.activation, repr(there))
        return {
            "vocab_size": config.vocab,
            "hidden_size": config.dim,
            "num_hidden_layers": len(config.stack.parts) // 2,
            "num_attention_heads": s.heads,
            "intermediate_size": f.width(config.dim),
            "hidden_act": activation.theirs(f.activation),
            "max_position_embeddings": position.limit,
            "type_vocab_size": config.embedding.types,
            "layer_norm_eps": residual.norm.eps,
            "hidden_dropout_prob": residual.dropout,
            "attention_probs_dropout_prob": s.dropout,
            **self._write_head(config.head),
        }

    def _write_head(self, head: Head.Config) -> dict[str, Any]:
        if type(head) not in self.heads:
            raise self.refuse("head", head.tag, " or ".join(repr(kind.tag) for kind in self.heads))
        values: dict[str, Any] = {"architectures": [self.heads[type(head)]]}
        if isinstance(head, PooledHead.Config):
            labels = {str(c): f"LABEL_{c}" for c in range(head.size)}
            values |= {"id2label": labels, "label2id": {label: int(c) for c, label in labels.items()}}
            values |= {"classifier_dropout": head.dropout, "problem_type": PROBLEMS[type(head)]}
        return values

    def rows(self, config: SingleStack.Config) -> Sequence[Row]:
        embeddings, layer = f"{self.prefix}embeddings", f"{self.prefix}encoder.layer.{{n}}"
        return (
            Row("embedding.weight_VD", f"{embeddings}.word_embeddings.weight"),
            Row("embedding.types", f"{embeddings}.token_type_embeddings.weight"),
            Row("embedding.norm", f"{embeddings}.LayerNorm"),
            Row("stack.position", f"{embeddings}.position_embeddings"),
            *self._attention_rows(f"{layer}.attention"),
            Row("stack.sublayers.{s}.norm", f"{layer}.attention.output.LayerNorm"),
            Row("stack.sublayers.{f}.part.enter", f"{layer}.intermediate.dense"),
            Row("stack.sublayers.{f}.part.output", f"{layer}.output.dense"),
            Row("stack.sublayers.{f}.norm", f"{layer}.output.LayerNorm"),
            *self._head_rows(config.head),
        )

    def _attention_rows(self, theirs: str, ours: str = "stack.sublayers.{s}.part") -> Sequence[Row]:
        qkv = tuple(f"{theirs}.self.{x}" for x in ("query", "key", "value"))
        return Row(f"{ours}.qkv", qkv, Stacked((1, 1, 1))), Row(f"{ours}.output", f"{theirs}.output.dense")

    def _head_rows(self, head: Head.Config) -> Sequence[Row]:
        if isinstance(head, MaskedLM.Config):
            return (
                Row("head.enter", "cls.predictions.transform.dense"),
                Row("head.norm", "cls.predictions.transform.LayerNorm"),
                Row("head.bias_V", "cls.predictions.bias"),
            )
        if isinstance(head, PooledHead.Config):
            return (Row("head.pool", "bert.pooler.dense"), Row("head.output", "classifier"))
        return (Row("head.output", "qa_outputs"),)

    def blanks(self, config: SingleStack.Config) -> Mapping[str, tuple[int, ...]]:
        """A span's bias is the same for all positions, so that the softmax over them cancels it."""
        return {"qa_outputs.bias": (2,)} if isinstance(config.head, SpanHead.Config) else {}


def _read_pooled(entries: Entries, labels: int, dropout: float) -> Head.Config:
    """A regression where problem_type is that, or where it is absent and there is one label, as in transformers."""
    kinds = {problem: kind for kind, problem in PROBLEMS.items()}
    kind = entries.choice("problem_type", PROBLEMS[Regress.Config if labels == 1 else Classify.Config], kinds)
    if kind is Regress.Config:
        return Regress.Config(outputs=labels, dropout=dropout)
    if labels == 1:
        raise entries.wrong("number of labels", 1, "2 or more of a classifier; one label is a regression")
    return Classify.Config(classes=labels, dropout=dropout)
