"""Tiny models of transformers with every weight random, and tiny models of ours."""

import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BigBirdConfig,
    BigBirdForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    LongformerConfig,
    LongformerForMaskedLM,
    OPTConfig,
    OPTForCausalLM,
)

import sublayer
from sublayer.nn.embedding import Classify, LinearHead, Regress, SpanHead, TiedHead
from sublayer.nn.residual import NoNorm

VOCAB = 29
TOKENS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
GPT2 = {"vocab_size": VOCAB, "n_positions": 24, "n_embd": 12, "n_layer": 2, "n_head": 3, **TOKENS}
OPT = {"vocab_size": VOCAB, "max_position_embeddings": 24, "hidden_size": 12, "ffn_dim": 20, **TOKENS}
OPT |= {"num_hidden_layers": 2, "num_attention_heads": 3}
BERT = {"vocab_size": VOCAB, "max_position_embeddings": 24, "hidden_size": 12, "intermediate_size": 20, **TOKENS}
BERT |= {"num_hidden_layers": 2, "num_attention_heads": 3, "hidden_dropout_prob": 0.2}
# Three blocks, of which ours see everything, and theirs do as long as a text is short.
BIGBIRD = BERT | {"block_size": 3, "num_random_blocks": 1, "hidden_act": "gelu_new"}
LONGFORMER = BERT | {"attention_window": [4, 4], "hidden_act": "relu"}
LLAMA = {"vocab_size": VOCAB, "hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 2, **TOKENS}
LLAMA |= {"num_attention_heads": 4, "num_key_value_heads": 2}


def rope(kind, **values):
    """Rotary positions trained on 16 positions, with a base so small that all planes turn within those."""
    return {"max_position_embeddings": 16, "rope_parameters": {"rope_type": kind, "rope_theta": 50.0, **values}}


THEIRS = {
    "gpt2": (GPT2LMHeadModel, GPT2Config, GPT2),
    "gpt2-untied": (GPT2LMHeadModel, GPT2Config, GPT2 | {"tie_word_embeddings": False, "n_inner": 20}),
    "gpt2-relu": (GPT2LMHeadModel, GPT2Config, GPT2 | {"activation_function": "relu", "layer_norm_epsilon": 1e-3}),
    "opt-125m": (OPTForCausalLM, OPTConfig, OPT),
    "opt-350m": (OPTForCausalLM, OPTConfig, OPT | {"do_layer_norm_before": False, "word_embed_proj_dim": 8}),
    "opt-bare": (
        OPTForCausalLM,
        OPTConfig,
        OPT | {"_remove_final_layer_norm": True, "enable_bias": False, "activation_function": "gelu"},
    ),
    "opt-untied": (OPTForCausalLM, OPTConfig, OPT | {"tie_word_embeddings": False}),
    "bert-masked-lm": (BertForMaskedLM, BertConfig, BERT),
    "bert-classify": (BertForSequenceClassification, BertConfig, BERT | {"num_labels": 3, "hidden_act": "relu"}),
    "bert-regress": (BertForSequenceClassification, BertConfig, BERT | {"num_labels": 1}),
    "bert-span": (BertForQuestionAnswering, BertConfig, BERT | {"type_vocab_size": 3}),
    "bigbird": (BigBirdForMaskedLM, BigBirdConfig, BIGBIRD),
    "bigbird-full": (
        BigBirdForMaskedLM,
        BigBirdConfig,
        BIGBIRD | {"attention_type": "original_full", "rescale_embeddings": True, "hidden_act": "relu"},
    ),
    "longformer": (LongformerForMaskedLM, LongformerConfig, LONGFORMER),
    "llama": (LlamaForCausalLM, LlamaConfig, LLAMA),
    "llama-tied": (LlamaForCausalLM, LlamaConfig, LLAMA | {"tie_word_embeddings": True, "num_key_value_heads": 1}),
    "llama-biased": (
        LlamaForCausalLM,
        LlamaConfig,
        LLAMA
        | {"attention_bias": True, "mlp_bias": True, "head_dim": 6, "rms_norm_eps": 1e-3}
        | {"rope_parameters": {"rope_type": "default", "rope_theta": 300.0}},
    ),
    "llama-linear": (LlamaForCausalLM, LlamaConfig, LLAMA | rope("linear", factor=3.0)),
    "llama-dynamic": (LlamaForCausalLM, LlamaConfig, LLAMA | rope("dynamic", factor=3.0)),
    "llama-yarn": (
        LlamaForCausalLM,
        LlamaConfig,
        LLAMA | rope("yarn", factor=4.0, original_max_position_embeddings=16, beta_fast=3.0, beta_slow=0.2),
    ),
    "llama-yarn-own": (
        LlamaForCausalLM,
        LlamaConfig,
        LLAMA
        | {"head_dim": 12}
        | rope("yarn", factor=4.0, original_max_position_embeddings=40, attention_factor=1.4, truncate=False),
    ),
    "llama-3": (
        LlamaForCausalLM,
        LlamaConfig,
        LLAMA
        | {"head_dim": 12}
        | rope("llama3", factor=8.0, original_max_position_embeddings=16, low_freq_factor=0.3, high_freq_factor=1.5),
    ),
}
ROPES = ["llama-linear", "llama-dynamic", "llama-yarn", "llama-yarn-own", "llama-3"]
DECODERS = [name for name in THEIRS if not name.startswith(("bert", "bigbird", "longformer"))]

SMALL = {"vocab": VOCAB, "layout": "(sf)x2"}
WIDTHS = {"dim": 12, "s.heads": 3, "f.inner": 20}
OURS = {
    "gpt2": ("gpt2", WIDTHS | {"position.limit": 24}),
    "gpt2-untied": ("gpt2", WIDTHS | {"position.limit": 24, "head": LinearHead.Config()}),
    "opt-125m": ("opt-125m", WIDTHS | {"position.limit": 24}),
    "opt-350m": ("opt-350m", WIDTHS | {"position.limit": 24, "embedding.rank": 8}),
    "opt-bare": ("opt-125m", WIDTHS | {"s.bias": False, "f.bias": False, "final_norm": NoNorm.Config()}),
    "bert-masked-lm": ("bert-base", WIDTHS | {"position.limit": 24}),
    "bert-classify": ("bert-base", WIDTHS | {"head": Classify.Config(classes=3, dropout=0.3)}),
    "bert-regress": ("bert-base", WIDTHS | {"head": Regress.Config()}),
    "bert-regress-two": ("bert-base", WIDTHS | {"head": Regress.Config(outputs=2)}),
    "bert-span": ("bert-base", WIDTHS | {"head": SpanHead.Config()}),
    "longformer": ("longformer-base", WIDTHS | {"position.limit": 22, "s.window.size": 3}),
    "bigbird": ("bigbird", WIDTHS | {"position.limit": 24, "s.pattern.block": 3, "s.pattern.random": 1}),
    "llama": ("llama", {"dim": 16, "s.heads": 4, "s.kv_heads": 2, "f.inner": 20}),
    "llama-tied": ("llama", {"dim": 16, "s.heads": 4, "s.head_dim": 6, "f.inner": 20, "head": TiedHead.Config()}),
}


def shake(model):
    """Every parameter random, biases and norms included, in evaluation mode."""
    torch.manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            is_norm = parameter.dim() == 1 and name.endswith("weight")
            parameter.normal_(mean=1.0 if is_norm else 0.0, std=0.4)
    return model.eval()


def theirs(name):
    kind, config, values = THEIRS[name]
    model = shake(kind(config(**values)))
    if "span" in name:
        torch.nn.init.zeros_(model.qa_outputs.bias)  # which ours does without: it moves scores, not probabilities
    if "bigbird" in name:
        for parameter in model.bert.pooler.parameters():  # of no use to theirs, absent in ours
            torch.nn.init.zeros_(parameter)
    return model


def ours(name):
    paper, changes = OURS[name]
    return shake(sublayer.config(paper, {**SMALL, **changes}).build())


def ids(rows=3, length=7):
    return torch.randint(0, VOCAB, (rows, length), generator=torch.Generator().manual_seed(1))


def scores(model, ids_BL, valid_BL=None, **options):
    """What our head says of a whole text."""
    with torch.no_grad():
        return model.head(model(ids_BL, None, valid_BL, **options)[0], valid_BL)


def first_is_global(model, ids_BL, position_ids=None, attention_mask=None, **options):
    """What ours take for granted: the first token is global, and positions begin after the rows of padding."""
    mask_BL = torch.ones_like(ids_BL) if attention_mask is None else attention_mask
    position_BL = torch.arange(ids_BL.shape[1]).expand(ids_BL.shape) if position_ids is None else position_ids
    first_BL = mask_BL * (mask_BL.cumsum(1) == 1)
    position_BL = position_BL + model.config.pad_token_id + 1
    return {"attention_mask": mask_BL, "position_ids": position_BL, "global_attention_mask": first_BL, **options}


def their_scores(model, ids_BL, **options):
    if model.config.model_type == "longformer":
        options = first_is_global(model, ids_BL, **options)
    with torch.no_grad():
        out = model(ids_BL, **options)
    return torch.stack([out.start_logits, out.end_logits], dim=-1) if "start_logits" in out else out.logits
