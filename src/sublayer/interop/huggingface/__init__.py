"""Hugging Face checkpoints: a folder with config.json and safetensors, read and written without transformers.

    from sublayer.interop import huggingface
    model = huggingface.read("gpt2/")
    huggingface.write(model, "mine/")

| model_type | architectures | here |
| --- | --- | --- |
| gpt2 | GPT2LMHeadModel | a decoder with learned positions |
| opt | OPTForCausalLM | a decoder with learned positions behind two spare rows |
| llama | LlamaForCausalLM | a decoder with rotary positions |
| bert | BertForMaskedLM, BertForSequenceClassification, BertForQuestionAnswering | an encoder |
| big_bird | BigBirdForMaskedLM | an encoder with BigBird's blocks, or a BERT |
| longformer | LongformerForMaskedLM | an encoder whose first token is global |

A format is one file: a `Family`, which enters itself by being defined.
"""

from sublayer.interop.huggingface import bert, bigbird, gpt2, llama, longformer, opt
from sublayer.interop.huggingface.checkpoint import read, read_config, write
from sublayer.interop.huggingface.entries import CheckpointError
from sublayer.interop.huggingface.family import Family

__all__ = [
    "CheckpointError",
    "Family",
    "bert",
    "bigbird",
    "gpt2",
    "llama",
    "longformer",
    "opt",
    "read",
    "read_config",
    "write",
]
