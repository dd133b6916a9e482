"""Folders as they are found: shards, old names, copies, half precision; and those that must be refused."""

import json
import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import sublayer
from sublayer.interop import huggingface
from sublayer.interop.huggingface import CheckpointError
from sublayer.nn.attention import Window
from sublayer.nn.embedding import TiedHead
from sublayer.nn.position import Alibi, RelativeXL
from sublayer.nn.residual import LayerDrop, ReZero
from tests.interop import tiny


@pytest.fixture
def folder(tmp_path):
    """A checkpoint of ours, to be spoilt."""

    def make(name="gpt2"):
        huggingface.write(tiny.ours(name), tmp_path)
        return tmp_path

    return make


def rewrite(folder, **changes):
    values = json.loads((folder / "config.json").read_text()) | changes
    (folder / "config.json").write_text(json.dumps(values))


def replace(folder, change):
    tensors = change(load_file(folder / "model.safetensors"))
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def refused(folder, *words):
    with pytest.raises(CheckpointError) as error:
        huggingface.read(folder)
    said = str(error.value)
    assert said.startswith(str(folder)), said
    assert "\n" not in said
    for word in words:
        assert word in said, said


def same(model, name):
    return all(torch.equal(x, y) for x, y in zip(model.parameters(), tiny.ours(name).parameters(), strict=True))


# Found in the wild


def test_shards_are_read(folder):
    path = folder()
    tensors = load_file(path / "model.safetensors")
    (path / "model.safetensors").unlink()
    names, files = sorted(tensors), {}
    for part in range(3):
        file = f"model-0000{part + 1}-of-00003.safetensors"
        save_file({name: tensors[name] for name in names[part::3]}, path / file)
        files |= dict.fromkeys(names[part::3], file)
    (path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": files}))
    assert same(huggingface.read(path), "gpt2")

    (path / "model-00002-of-00003.safetensors").unlink()
    refused(path, "model-00002-of-00003.safetensors", "no such file")
    (path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"x": "../elsewhere"}}))
    refused(path, "../elsewhere", "outside the folder")


def test_gpt2_as_first_published_has_no_prefix_and_keeps_its_masks(folder):
    path = folder()
    masks = {f"h.{n}.attn.bias": torch.ones(1, 1, 24, 24) for n in range(2)}
    replace(path, lambda tensors: {name.removeprefix("transformer."): x for name, x in tensors.items()} | masks)
    assert same(huggingface.read(path), "gpt2")


def test_bert_as_first_published_says_gamma_and_beta_and_keeps_its_other_head(folder):
    path = folder("bert-masked-lm")
    old = [("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")]
    kept = {"cls.seq_relationship.weight": torch.ones(2, 12), "bert.pooler.dense.bias": torch.ones(12)}

    def change(tensors):
        for new, before in old:
            tensors = {name.replace(new, before): x for name, x in tensors.items()}
        return tensors | kept

    replace(path, change)
    assert same(huggingface.read(path), "bert-masked-lm")


def test_a_copy_of_a_tied_matrix_may_be_there_if_it_is_one(folder):
    path = folder()
    replace(path, lambda tensors: tensors | {"lm_head.weight": tensors["transformer.wte.weight"].clone()})
    assert same(huggingface.read(path), "gpt2")
    replace(path, lambda tensors: tensors | {"lm_head.weight": tensors["transformer.wte.weight"] + 1})
    refused(path, "lm_head.weight differs from transformer.wte.weight", "tie_word_embeddings")


def test_llama_before_transformers_5_says_rope_theta_by_itself(folder):
    path = folder("llama")
    rewrite(path, rope_parameters=None, rope_theta=500000.0, rope_scaling=None)
    assert huggingface.read(path).config.stack.position.base == 500000.0


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({"type": "linear", "factor": 2}, {"kind": "linear", "factor": 2.0}),
        ({"type": "dynamic", "factor": 3.0}, {"kind": "dynamic", "factor": 3.0, "length": 64}),
        (
            {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
            | {"original_max_position_embeddings": 16},
            {"kind": "llama3", "factor": 8.0, "length": 16, "low": 1.0, "high": 4.0},
        ),
        (
            {"rope_type": "yarn", "original_max_position_embeddings": 16, "mscale": 0.7, "mscale_all_dim": 1.0},
            {
                "kind": "yarn",
                "factor": 4.0,
                "length": 16,
                "fast": 32.0,
                "slow": 1.0,
                "attention": 0.9635,
                "whole": True,
            },
        ),
    ],
)
def test_llama_before_transformers_5_scales_in_a_table_of_its_own(folder, table, expected):
    path = folder("llama")
    rewrite(path, rope_parameters=None, rope_theta=500.0, rope_scaling=table, max_position_embeddings=64)
    position = huggingface.read(path).config.stack.position
    assert position.base == 500.0
    found = {
        key: round(value, 4) if isinstance(value, float) else value for key, value in position.scaling.dump().items()
    }
    assert found == expected


def test_half_precision_stays_half_precision(tmp_path):
    model = tiny.ours("llama").bfloat16()
    huggingface.write(model, tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["dtype"] == "bfloat16"
    again = huggingface.read(tmp_path)
    assert {p.dtype for p in again.parameters()} == {torch.bfloat16}
    assert all(torch.equal(x, y) for x, y in zip(again.parameters(), model.parameters(), strict=True))


def test_a_model_read_does_not_lean_on_the_file(folder):
    path = folder()
    model = huggingface.read(path)
    size = (path / "model.safetensors").stat().st_size
    (path / "model.safetensors").write_bytes(b"\0" * size)
    assert same(model, "gpt2")
    assert all(p.requires_grad for p in model.parameters())


# Read: refused


def test_a_folder_without_what_it_needs_is_refused(tmp_path, folder):
    refused(tmp_path / "absent", "no such folder", "config.json")
    refused(tmp_path, "config.json", "no such file")
    path = folder()
    (path / "model.safetensors").unlink()
    refused(path, "neither model.safetensors nor model.safetensors.index.json")
    (path / "pytorch_model.bin").write_bytes(b"pickle")
    refused(path, "pytorch_model.bin", "a pickle can run code", "save_pretrained")


@pytest.mark.parametrize("text", ["{", "[]", "\xff", ""])
def test_a_config_that_is_no_table_is_refused(folder, text):
    path = folder()
    (path / "config.json").write_bytes(text.encode("latin-1"))
    refused(path, "config.json", "JSON")


@pytest.mark.parametrize("cut", [0, 4, 200, -8])
def test_a_broken_file_is_refused(folder, cut):
    file = folder() / "model.safetensors"
    file.write_bytes(file.read_bytes()[:cut])
    refused(file.parent, "model.safetensors", "not a whole safetensors file")


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("gpt2", {"model_type": "mamba"}, ["'mamba'", "bert, big_bird, gpt2, llama, longformer, opt"]),
        ("gpt2", {"model_type": None}, ["model_type", "bert, big_bird, gpt2, llama, longformer, opt"]),
        ("gpt2", {"architectures": ["GPT2ForTokenClassification"]}, ["GPT2ForTokenClassification", "GPT2LMHeadModel"]),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, ["scale_attn_by_inverse_layer_idx is True", "False"]),
        ("gpt2", {"scale_attn_weights": False}, ["scale_attn_weights"]),
        ("gpt2", {"add_cross_attention": True}, ["add_cross_attention"]),
        ("gpt2", {"activation_function": "quick_gelu"}, ["quick_gelu", "gelu_new"]),
        ("gpt2", {"n_head": 5}, ["heads=5 does not divide dim=12"]),
        ("gpt2", {"n_layer": "two"}, ["n_layer is 'two'", "a whole number"]),
        ("gpt2", {"n_layer": 0}, ["n_layer is 0"]),
        ("gpt2", {"layer_norm_epsilon": -1}, ["layer_norm_epsilon is -1"]),
        ("gpt2", {"tie_word_embeddings": 1}, ["tie_word_embeddings is 1", "true or false"]),
        ("gpt2", {"quantization_config": {"bits": 4}}, ["quantised"]),
        ("opt-125m", {"layer_norm_elementwise_affine": False}, ["layer_norm_elementwise_affine"]),
        ("opt-350m", {"tie_word_embeddings": False}, ["tie_word_embeddings is False"]),
        ("bert-masked-lm", {"position_embedding_type": "relative_key"}, ["relative_key", "absolute"]),
        ("bert-masked-lm", {"is_decoder": True}, ["is_decoder"]),
        ("bert-masked-lm", {"hidden_act": "quick_gelu"}, ["hidden_act is 'quick_gelu'", "gelu"]),
        (
            "longformer",
            {"attention_window": [4, 6]},
            ["attention_window is [4, 6]", "one even number above 0, or 2 alike"],
        ),
        ("longformer", {"attention_window": 5}, ["attention_window is 5"]),
        ("longformer", {"attention_window": [4, 4, 4]}, ["attention_window is [4, 4, 4]"]),
        ("longformer", {"pad_token_id": -1}, ["pad_token_id is -1"]),
        ("longformer", {"max_position_embeddings": 1}, ["max_position_embeddings is 1", "more than 2"]),
        ("bigbird", {"attention_type": "dilated"}, ["attention_type is 'dilated'", "original_full, block_sparse"]),
        ("bigbird", {"num_random_blocks": 0}, ["num_random_blocks is 0", "a whole number above 0"]),
        ("bigbird", {"block_size": 2.5}, ["block_size is 2.5"]),
        ("bigbird", {"use_bias": False}, ["use_bias is False", "True"]),
        ("bigbird", {"is_decoder": True}, ["is_decoder"]),
        ("bigbird", {"architectures": ["BigBirdForQuestionAnswering"]}, ["BigBirdForMaskedLM"]),
        ("bert-span", {"num_labels": 3}, ["number of labels is 3"]),
        ("bert-classify", {"problem_type": "multi_label_classification"}, ["multi_label", "regression"]),
        ("bert-regress", {"problem_type": "single_label_classification"}, ["number of labels is 1", "2 or more"]),
        ("llama", {"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, ["low_freq_factor is None", "a number"]),
        ("llama", {"rope_scaling": {"type": "linear"}}, ["factor is None", "a number"]),
        ("llama", {"rope_scaling": {"type": "linear", "factor": 0.5}}, ["factor", "greater than or equal to 1"]),
        ("llama", {"rope_scaling": {"type": "linear", "factor": "2"}}, ["factor is '2'", "a number"]),
        ("llama", {"rope_scaling": {"type": ["yarn"]}}, ["rope type is ['yarn']", "llama3"]),
        ("llama", {"rope_parameters": {"rope_type": "longrope"}}, ["longrope", "default, linear, dynamic, yarn"]),
        ("llama", {"rope_parameters": {"rope_type": "yarn", "factor": 2, "attention_factor": []}}, ["attention"]),
        ("llama", {"partial_rotary_factor": 0.5}, ["partial_rotary_factor"]),
        ("llama", {"rope_parameters": 3}, ["rope_parameters is 3"]),
    ],
)
def test_a_config_we_do_not_compute_is_refused(folder, name, changes, words):
    path = folder(name)
    rewrite(path, **changes)
    refused(path, "config.json", *words)


def without(tensors):
    return {name: x for name, x in tensors.items() if "h.1.ln" not in name}


def with_one_more(tensors):
    return tensors | {"transformer.h.2.ln_1.bias": torch.ones(12)}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (without, ["transformer.h.1.ln_1", "and 3 more are missing"]),
        (with_one_more, ["transformer.h.2.ln_1.bias is of no use"]),
        (lambda tensors: tensors | {"wte.weight": torch.ones(29, 12)}, ["wte.weight is of no use"]),
        (
            lambda tensors: tensors | {"transformer.h.0.attn.c_attn.weight": torch.ones(36, 12)},
            ["transformer.h.0.attn.c_attn.weight has shape (36, 12), expected (12, 36)"],
        ),
        (
            lambda tensors: tensors | {"transformer.ln_f.bias": torch.ones(12, dtype=torch.int8)},
            ["transformer.ln_f.bias is torch.int8", "floats"],
        ),
    ],
)
def test_tensors_that_do_not_fit_are_refused(folder, change, words):
    path = folder()
    replace(path, change)
    refused(path, "model.safetensors", *words)


# Write


@pytest.mark.parametrize(
    ("paper", "changes", "words"),
    [
        ("gpt2", {"position": Alibi.Config()}, ["'alibi'", "gpt2", "llama"]),
        ("gpt2", {"position.offset": 1}, ["'learned'"]),
        ("gpt2", {"layout": "sandwich(1)"}, ["layout '(s) (sf) (f)'", "one attention and one feed-forward"]),
        ("gpt2", {"f.inner": [20, 24]}, ["with f.inner varied"]),
        ("gpt2", {"layout": "(fs)x2"}, ["s is 'dense'", "'multihead'"]),
        ("gpt2", {"s.pattern": Window.Config(size=4)}, ["s.pattern.kind is 'window'", "'causal'"]),
        ("gpt2", {"s.kv_heads": 1}, ["s.kv_heads is 1"]),
        ("gpt2", {"s.bias": False}, ["s.bias is False"]),
        ("gpt2", {"f.activation": "elu"}, ["activation is 'elu'", "gelu_tanh"]),
        ("gpt2", {"residual": ReZero.Config()}, ["residual is 'rezero'", "'pre_norm'"]),
        ("gpt2", {"residual": LayerDrop.Config()}, ["residual is 'layer_drop'"]),
        ("gpt2", {"residual.add": "gru_gate"}, ["residual.add.kind is 'gru_gate'", "'sum'"]),
        ("gpt2", {"final_norm.eps": 1e-3}, ["final_norm.eps is 0.001"]),
        ("gpt2", {"embedding.scale": True}, ["embedding.scale is True"]),
        ("gpt2", {"head": TiedHead.Config(bias=True)}, ["head.bias is True"]),
        ("opt-125m", {"residual.norm.eps": 1e-6}, ["residual.norm.eps is 1e-06", "1e-05"]),
        ("opt-350m", {"embedding.rank": 12}, ["embedding.kind is 'factorised'", "'token'"]),
        ("opt-350m", {"head.projection": "shared", "embedding.rank": 8}, ["head.projection is 'shared'"]),
        ("opt-350m", {"head": {"kind": "linear"}, "embedding.rank": 8}, ["opt", "tie_word_embeddings"]),
        ("opt-350m", {"residual": ReZero.Config()}, ["residual is 'rezero'", "'pre_norm' or 'post_norm'"]),
        ("bert-base", {"embedding.types": 0}, ["embedding.types is 0"]),
        ("bert-base", {"head": {"kind": "tied"}}, ["head is 'tied'", "'masked_lm'", "'span'"]),
        ("bert-base", {"f.activation": "relu"}, ["head.activation is 'gelu'", "bert", "'relu'"]),
        ("bert-base", {"s.pattern": {"kind": "blockwise"}}, ["s.pattern.kind is 'blockwise'", "bert", "'full'"]),
        ("longformer-base", {"s.globals": 2}, ["s.globals is 2", "longformer", "1"]),
        ("longformer-base", {"s.window.size": 1}, ["longformer", "attention_window is [0, 0]"]),
        ("longformer-base", {"s.window": {"kind": "full"}}, ["s.window is 'full'", "'window'"]),
        ("longformer-base", {"position.offset": 0}, ["position.offset is 0", "1 or more"]),
        ("longformer-base", {"head.activation": "relu"}, ["head.activation is 'relu'", "'gelu'"]),
        ("longformer-base", {"head": {"kind": "tied"}}, ["head is 'tied'", "'masked_lm'"]),
        ("bigbird", {"s.pattern.globals": 1}, ["s.pattern.globals is 1", "big_bird"]),
        ("bigbird", {"s.pattern.random": 0}, ["big_bird", "num_random_blocks is 0"]),
        ("bigbird", {"s.pattern.look": "both", "head": {"kind": "tied"}}, ["head is 'tied'", "'masked_lm'"]),
        ("roformer", {}, ["position is 'rotary'", "'learned'"]),
        ("bert-base", {"head": {"kind": "classify", "classes": 1}}, ["number of labels is 1", "regression"]),
        ("llama", {"position.partial": 0.5}, ["partial_rotary_factor is 0.5"]),
        ("llama", {"f": {"kind": "dense"}}, ["f is 'dense'", "'glu'"]),
        ("llama", {"s.heads": 5, "s.head_dim": 4}, ["s.heads is 5"]),
        ("gpt2", {"position": RelativeXL.Config()}, ["'relative_xl'"]),
    ],
)
def test_what_a_format_cannot_express_is_refused(tmp_path, paper, changes, words):
    sizes = tiny.SMALL | {"dim": 12, "s.heads": 3}
    model = sublayer.config(paper, sizes).but(changes).build()
    with pytest.raises(CheckpointError) as error:
        huggingface.write(model, tmp_path / "out")
    said = str(error.value)
    assert "\n" not in said
    for word in words:
        assert word in said, said
    assert not (tmp_path / "out").exists()


def test_a_model_with_two_stacks_is_refused(tmp_path):
    config = sublayer.config("transformer", {"encoder.layout": "sf", "decoder.layout": "scf"}, dim=16, vocab=29)
    with pytest.raises(CheckpointError, match="EncoderDecoder"):
        huggingface.write(config.build(), tmp_path)


def test_spelling_does_not_matter(tmp_path):
    """The same model, its word written out, its sizes explicit, its letters others."""
    config = tiny.ours("gpt2").config
    s, f = config.stack.parts[:2]
    spelled = config.stack.but(
        vary={"a.heads": [3, 3]}, layout="abab", alphabet={"a": s.but(kv_heads=3, head_dim=4), "b": f, "f": f}
    )
    huggingface.write(config.but(stack=spelled).build(), tmp_path)
    assert huggingface.read(tmp_path).config == config


def test_dropout_is_carried_over_where_both_have_it(tmp_path):
    model = tiny.ours("bert-classify")
    huggingface.write(model, tmp_path)
    assert huggingface.read(tmp_path).config == model.config
    opt = sublayer.config("opt-125m", {**tiny.SMALL, **tiny.WIDTHS, "f.dropout": 0.3, "residual.dropout": 0.2})
    huggingface.write(opt.build(), tmp_path)
    again = huggingface.read(tmp_path).config.stack
    assert (again.residual.dropout, again.alphabet["f"].dropout) == (0.2, 0.0)


def test_extra_entries_are_written_and_may_not_contradict(tmp_path):
    model = tiny.ours("llama")
    huggingface.write(model, tmp_path, extra={"eos_token_id": 2, "max_position_embeddings": 99})
    values = json.loads((tmp_path / "config.json").read_text())
    assert (values["eos_token_id"], values["max_position_embeddings"], values["pad_token_id"]) == (2, 99, None)
    with pytest.raises(CheckpointError, match="extra: hidden_size is written from the model itself, 16"):
        huggingface.write(model, tmp_path, extra={"hidden_size": 4})


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    huggingface.write(tiny.ours("gpt2"), tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(before) == {"config.json", "model.safetensors"}

    def fail(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr("sublayer.interop.huggingface.files.os.fsync", fail)
    with pytest.raises(CheckpointError, match="cannot be written: no space left"):
        huggingface.write(tiny.ours("llama"), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(CheckpointError, match="taken: cannot be written"):
        huggingface.write(tiny.ours("gpt2"), tmp_path / "taken")


def test_transformers_is_not_needed():
    files = list(Path(huggingface.__file__).parent.glob("*.py"))
    assert len(files) > 5
    assert not [file for file in files if re.search(r"^\s*(import|from) transformers", file.read_text(), re.MULTILINE)]
