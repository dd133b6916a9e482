"""Which path a model generates by, and that every path scores what the parallel pass scores."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

import sublayer
from sublayer import generation
from sublayer.generation.native import NativeReader, served
from sublayer.generation.reader import StateReader, read_prompts
from sublayer.generation.request import GenerationRequest
from sublayer.nn import paths
from sublayer.nn.part import Part
from sublayer.nn.state import PartState
from sublayer.testing import Case, small
from sublayer.testing.case import same
from tests.generation.models import SOURCE, source_of, writer

PLAIN = "plain PyTorch"


def reader(model):
    with torch.inference_mode():
        return read_prompts(GenerationRequest.of(model, [[1, 2]], 4), native=True)


@pytest.mark.parametrize("paper", ["gpt2", "feedback", "transformer-xl-24"])
def test_a_path_is_reported_for_models_on_the_meta_device(paper):
    with torch.device("meta"):
        model = small(sublayer.config(paper)).build()
    assert generation.path(model) == paths.Choice("one step in C")


def test_the_reason_names_the_sublayer_and_what_has_no_code():
    with torch.device("meta"):
        model = small(sublayer.config("gtrxl")).build()
    choice = generation.path(model)
    assert choice == paths.Choice(PLAIN, (("one step in C", "sublayer 0: no C code for GruGate"),))


def test_no_compiler_is_a_reason(monkeypatch):
    monkeypatch.setattr(served, "load", lambda source, user: None)
    assert "no compiler" in generation.path(writer("gpt2")).why_not[0][1]


def test_slow_twins_turn_it_off():
    model = writer("gpt2")
    assert isinstance(reader(model), NativeReader)
    with paths.by_slow_twins():
        assert isinstance(reader(model), StateReader)


@pytest.mark.parametrize("paper", ["gpt2", "transformer-xl-24", "feedback", "transformer"])
@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("prompt", [1, 5])
def test_scores_by_token_are_those_of_a_parallel_pass(paper, frozen, native, prompt):
    model, rows = writer(paper), 2
    ids_BL = torch.arange(rows * 12).view(rows, 12) * 7 % model.config.vocab
    source = {"source": SOURCE[:1] * rows} if model.config.needs_source else {}
    found = generation.scores_by_token(model, ids_BL, prompt=prompt, native=native, frozen=frozen, **source)
    state = model.start(torch.tensor(source["source"])) if source else None
    segments = {"segments": (prompt, *[1] * (12 - prompt))} if model.config.splits else {}
    with torch.no_grad():
        h_BLD, _ = model(ids_BL, state, **segments)
        same(found, model.head(h_BLD)[:, prompt - 1 :], 1e-5, "scores")


def test_unfrozen_hidden_states_are_left_to_the_model():
    model = writer("transformer-xl-24")
    request = GenerationRequest.of(model, [[1, 2]], 4, **source_of(model, 1))
    with torch.inference_mode():
        assert isinstance(read_prompts(request, native=True, frozen=False), StateReader)
        assert isinstance(read_prompts(request, native=True), NativeReader)


@dataclass(frozen=True)
class Turned(PartState):
    """A plug-in's state whose batch axis is the second."""

    total_DB: Tensor

    def select(self, rows):
        return Turned(self.total_DB.index_select(1, rows))


class Running(Part):
    """y_t = the sum of all x up to t: what rows have read shows in what they write."""

    class Config(Part.Config, tag="running-sum"):
        def params(self, slot):
            return 0

        def flops(self, slot, work):
            return 0

    def __init__(self, config, slot):
        super().__init__()

    def forward(self, x_BLD, scene, state=None):
        total_BLD = x_BLD.cumsum(1) + (0 if state is None else state.total_DB.T[:, None])
        return total_BLD, Turned(total_BLD[:, -1].T)


def test_rows_are_reordered_by_the_states_own_select():
    """By beam search, and where finished rows leave the batch; no row writes otherwise than alone."""
    model = Case(small(sublayer.config("gpt2")).but({"alphabet.r": {"kind": "running-sum"}, "layout": "rf rf"})).model()
    prompts = [[1, 2, 3], [4, 5, 6], [7, 8, 9], [2, 4, 8]]
    assert "no C code for Running" in generation.path(model).why_not[0][1]
    beams = generation.beam_search(model, prompts, tokens=6)
    alone = [generation.beam_search(model, [prompt], tokens=6)[0] for prompt in prompts]
    assert [[text.ids for text in row] for row in beams] == [[text.ids for text in row] for row in alone]
    (first, *_) = generation.generate(model, prompts[:1], tokens=1)[0]
    written = generation.generate(model, prompts, tokens=9, stop=[first])
    assert written == [generation.generate(model, [prompt], tokens=9, stop=[first])[0] for prompt in prompts]
