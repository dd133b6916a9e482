"""A comparison of two checkouts sees every kind of difference, and excuses only those that are named."""

import json

import bits
import pytest
import same_bits
import torch

VALUES = {"papers": {"gpt2": {"hash": "abc", "cost": [1, 2]}}, "trainings": {"gpt2": {"losses": [1.5, 1.25]}}}
TENSORS = {"logits": torch.tensor([1.0, 2.0]), "trained": torch.tensor([0.5, -0.0])}


def write(folder, values=VALUES, **tensors):
    folder.mkdir()
    (folder / "values.json").write_text(json.dumps({"huggingface": {}, **values}))
    for what, tensor in {**TENSORS, **tensors}.items():
        bits._store(folder, f"gpt2.{what}", {"w": tensor})
    return folder


def test_equal_outputs_have_the_same_bits(tmp_path, capsys):
    compared, differences = same_bits.compare(write(tmp_path / "a"), write(tmp_path / "b"))
    assert compared == {("papers", "gpt2"): 3, ("trainings", "gpt2"): 2}
    assert not differences
    assert same_bits.show(compared, differences, {})
    assert "5 comparisons of 2 items: 0 differ" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"values": {**VALUES, "papers": {"gpt2": {"hash": "abd", "cost": [1, 2]}}}}, "hash"),
        ({"values": {**VALUES, "papers": {}}}, "hash"),
        ({"values": {**VALUES, "trainings": {"gpt2": {"losses": [1.5, 1.2500001]}}}}, "losses"),
        ({"logits": torch.tensor([1.0, 2.0000002])}, "logits"),
        ({"logits": torch.tensor([1.0, 2.0], dtype=torch.float64)}, "logits"),
        ({"trained": torch.tensor([0.5, 0.0])}, "trained"),
    ],
)
def test_each_difference_is_found_unless_it_is_expected(tmp_path, capsys, changed, what):
    compared, differences = same_bits.compare(write(tmp_path / "a"), write(tmp_path / "b", **changed))
    assert what in {one.what for one in differences}
    assert not same_bits.show(compared, differences, {"llama": "another paper"})
    assert same_bits.show(compared, differences, {"gpt2": "the reason"})
    shown = capsys.readouterr().out
    assert "llama: expected to differ, but has the same bits" in shown
    assert "differs as expected (the reason)" in shown
