"""What transformers computes with a checkpoint, we compute with it, read or written."""

from functools import cache

import pytest
import torch
from safetensors.torch import load_file
from transformers import (
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
)

import sublayer
from sublayer.interop import huggingface
from tests.interop import tiny

AUTO = {
    "bert-masked-lm": AutoModelForMaskedLM,
    "bert-classify": AutoModelForSequenceClassification,
    "bert-regress": AutoModelForSequenceClassification,
    "bert-regress-two": AutoModelForSequenceClassification,
    "bert-span": AutoModelForQuestionAnswering,
    "bigbird": AutoModelForMaskedLM,
    "longformer": AutoModelForMaskedLM,
}
UNUSED = ("qa_outputs.bias", "bert.pooler.weight", "bert.pooler.bias")
"""Parameters that theirs have and ours do without."""


def tolerance(name, dtype):
    """Their Llama computes norms and rotations in single precision, their Longformer weights of attention, whatever
    the dtype is."""
    return 1e-4 if dtype == torch.float32 or name.startswith(("llama", "longformer")) else 1e-10


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """A model of theirs, saved, and the same read by us; made once."""

    @cache
    def make(name, dtype=torch.float32):
        model, folder = tiny.theirs(name).to(dtype), tmp_path_factory.mktemp(name)
        model.save_pretrained(folder)
        return model, huggingface.read(folder), folder

    return make


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", tiny.THEIRS)
def test_a_model_read_scores_as_theirs(read, name, dtype):
    model, again, _ = read(name, dtype)
    assert {parameter.dtype for parameter in again.parameters()} == {dtype}
    assert not again.training
    error = (tiny.scores(again, tiny.ids()) - tiny.their_scores(model, tiny.ids())).abs().max()
    assert error < tolerance(name, dtype)


@pytest.mark.parametrize("name", tiny.OURS)
def test_a_model_written_scores_in_transformers(tmp_path, name):
    model = tiny.ours(name)
    huggingface.write(model, tmp_path)
    auto = AUTO.get(name, AutoModelForCausalLM)
    theirs, report = auto.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values()), report
    params = sum(p.numel() for key, p in theirs.named_parameters() if not unused(key))
    assert params == model.config.cost().params
    error = (tiny.scores(model, tiny.ids()) - tiny.their_scores(theirs, tiny.ids())).abs().max()
    assert error < 1e-4


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", [name for name in tiny.THEIRS if name not in ("bert-classify", "bert-regress")])
def test_padded_rows_score_as_theirs(read, name, side):
    model, again, _ = read(name)
    valid_BL, position_BL = padding(side)
    options = {"attention_mask": valid_BL.long(), "position_ids": position_BL}
    expected = tiny.their_scores(model, tiny.ids(), **options)
    got = tiny.scores(again, tiny.ids(), valid_BL, position_BL=position_BL)
    assert (got - expected)[valid_BL].abs().max() < 1e-4


@pytest.mark.parametrize("name", ["bert-classify", "bert-regress"])
def test_a_padded_row_has_the_answer_that_theirs_has(read, name):
    model, again, _ = read(name)
    valid_BL, _ = padding("right")
    expected = tiny.their_scores(model, tiny.ids(), attention_mask=valid_BL.long())
    assert (tiny.scores(again, tiny.ids(), valid_BL) - expected).abs().max() < 1e-4


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("bert-classify", torch.tensor([2, 0, 1])),
        ("bert-regress", torch.tensor([0.3, -1.0, 2.0])),
        ("bert-masked-lm", tiny.ids()),
        ("bigbird", tiny.ids()),
    ],
)
def test_a_loss_is_theirs(read, name, labels):
    model, again, _ = read(name)
    valid_BL, _ = padding("right")
    counted = labels.masked_fill(~valid_BL, -100) if labels.dim() == 2 else labels
    with torch.no_grad():
        expected = model(tiny.ids(), attention_mask=valid_BL.long(), labels=counted).loss
        got = again.head.loss(again(tiny.ids(), None, valid_BL)[0], labels, valid_BL=valid_BL)
    assert abs(float(got - expected)) < 1e-5
    assert float(got) > 0.1


def test_a_span_loss_is_theirs_row_by_row(read):
    """Theirs counts padding in the softmax, so only rows without any can be compared."""
    model, again, _ = read("bert-span")
    target_B2 = torch.tensor([[0, 6], [2, 3], [5, 5]])
    with torch.no_grad():
        expected = model(tiny.ids(), start_positions=target_B2[:, 0], end_positions=target_B2[:, 1]).loss
        got = again.head.loss(again(tiny.ids())[0], target_B2)
    assert abs(float(got - expected)) < 1e-5


@pytest.mark.parametrize("side", ["left", "right"])
def test_opt_counts_places_by_its_mask_as_we_do(read, side):
    model, again, _ = read("opt-125m")
    valid_BL, _ = padding(side)
    expected = tiny.their_scores(model, tiny.ids(), attention_mask=valid_BL.long())
    assert (tiny.scores(again, tiny.ids(), valid_BL) - expected)[valid_BL].abs().max() < 1e-4


@pytest.mark.parametrize("name", ["bert-masked-lm", "bert-classify", "bert-span"])
def test_token_types_are_theirs(read, name):
    model, again, _ = read(name)
    type_BL = (torch.arange(7) > 3).long().expand(3, -1)
    expected = tiny.their_scores(model, tiny.ids(), token_type_ids=type_BL)
    assert (tiny.scores(again, tiny.ids(), type_BL=type_BL) - expected).abs().max() < 1e-4
    assert (tiny.scores(again, tiny.ids()) - expected).abs().max() > 1e-2


def test_a_spans_bias_is_left_behind_and_changes_no_probability(tmp_path):
    model = tiny.theirs("bert-span")
    with torch.no_grad():
        model.qa_outputs.bias.add_(torch.tensor([1.0, -2.0]))
    model.save_pretrained(tmp_path)
    again = huggingface.read(tmp_path)
    with torch.no_grad():
        got = again.head.log_probs(again(tiny.ids())[0])
    assert (got - tiny.their_scores(model, tiny.ids()).log_softmax(1)).abs().max() < 1e-4


@pytest.mark.parametrize("name", ["gpt2", "opt-350m", "llama", *tiny.ROPES])
def test_segments_with_a_state_score_as_theirs_with_a_cache(read, name):
    model, again, _ = read(name)
    cache = state = None
    for ids_BL in tiny.ids(length=9).split([4, 1, 3, 1], dim=1):
        with torch.no_grad():
            out = model(ids_BL, past_key_values=cache, use_cache=True)
            h_BLD, state = again(ids_BL, state)
            assert (again.head(h_BLD) - out.logits).abs().max() < 1e-4
        cache = out.past_key_values


@pytest.mark.parametrize("name", [name for name in tiny.ROPES if name != "llama-dynamic"])
def test_scaled_rotations_score_as_theirs_beyond_the_trained_length(read, name):
    model, again, _ = read(name, torch.float64)
    ids = tiny.ids(length=70)
    assert (tiny.scores(again, ids) - tiny.their_scores(model, ids)).abs().max() < 1e-4
    plain = again.config.but({"position.scaling": None}).build().double().eval()
    plain.load_state_dict(again.state_dict())
    assert (tiny.scores(again, ids) - tiny.scores(plain, ids)).abs().max() > 1e-2


def test_dynamic_rotations_score_as_theirs_token_by_token(read):
    """In one pass theirs turns every token by the length of the pass; ours by the length up to the token, as theirs
    does with a cache."""
    model, again, _ = read("llama-dynamic", torch.float64)
    ids, cache, expected = tiny.ids(length=40), None, []
    for n, ids_BL in enumerate(ids.split(1, dim=1)):
        with torch.no_grad():
            out = model(ids_BL, past_key_values=cache, position_ids=torch.full((3, 1), n))
        cache = out.past_key_values
        expected.append(out.logits)
    assert (tiny.scores(again, ids) - torch.cat(expected, dim=1)).abs().max() < 1e-4
    first = tiny.ids(length=16)
    assert (tiny.scores(again, first) - tiny.their_scores(read("llama-dynamic")[0], first)).abs().max() < 1e-4


@pytest.mark.parametrize("name", tiny.THEIRS)
def test_read_and_written_a_checkpoint_is_bit_for_bit_the_same(tmp_path, read, name):
    _, model, folder = read(name)
    huggingface.write(model, tmp_path)
    first, second = load_file(folder / "model.safetensors"), load_file(tmp_path / "model.safetensors")
    assert first.keys() == second.keys()
    assert all(torch.equal(first[key], second[key]) for key in first)
    again = huggingface.read(tmp_path)
    assert again.config == model.config
    assert all(torch.equal(x, again.state_dict()[key]) for key, x in model.state_dict().items())


@pytest.mark.parametrize(
    ("paper", "case", "changes", "params"),
    [
        ("gpt2", "gpt2", {}, 124_439_808),
        ("opt-125m", "opt-125m", {}, 125_239_296),
        (
            "opt-350m",
            "opt-350m",
            {"hidden_size": 1024, "word_embed_proj_dim": 512, "ffn_dim": 4096, "num_hidden_layers": 24}
            | {"num_attention_heads": 16, "do_layer_norm_before": False},
            331_196_416,
        ),
        ("bert-base", "bert-masked-lm", {}, 109_514_298),
        ("bigbird", "bigbird", {}, 127_520_694),
        (
            "longformer-base",
            "longformer",
            {"vocab_size": 50265, "max_position_embeddings": 4098, "type_vocab_size": 1, "layer_norm_eps": 1e-5},
            148_711_257,
        ),
        ("llama", "llama", {}, 6_738_415_616),
    ],
)
def test_papers_are_what_theirs_are(tmp_path, paper, case, changes, params):
    kind, config, _ = tiny.THEIRS[case]
    with torch.device("meta"):
        model = kind(config(**changes))
    assert sum(p.numel() for key, p in model.named_parameters() if not unused(key)) == params
    model.config.save_pretrained(tmp_path)
    ours = sublayer.config(paper)
    assert ours.cost().params == params
    assert [path for path in huggingface.read_config(tmp_path).diff(ours) if not path.endswith("dropout")] == []


def unused(key):
    return key.endswith(UNUSED)


def padding(side):
    """Rows of 7, 4 and 1 real tokens."""
    valid_BL = torch.arange(7) < torch.tensor([[7], [4], [1]])
    valid_BL = valid_BL if side == "right" else valid_BL.flip(1)
    return valid_BL, (valid_BL.long().cumsum(1) - 1).clamp(min=0)
