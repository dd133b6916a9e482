"""The step in C against its slow twin, the model, over random spellings; and where it must leave the model alone."""

import os
import random
import signal
from contextlib import contextmanager

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

import sublayer
from sublayer.generation import Sampling, generate
from sublayer.generation.engine import Writing
from sublayer.generation.native import NativeReader
from sublayer.generation.reader import StateReader, read_prompts
from sublayer.generation.request import GenerationRequest
from sublayer.native import threads as native_threads
from sublayer.native.pointwise import ACTIVATIONS
from sublayer.nn.model import Model
from sublayer.testing import Case, small
from sublayer.testing.case import same
from tests.generation.models import WRITERS, side_by_side, source_of, writer

norms = st.sampled_from(["layer", "rms"])
POSITIONS = [
    {"kind": "none"},
    {"kind": "sinusoidal"},
    {"kind": "learned", "limit": 96},
    {"kind": "rotary"},
    {"kind": "alibi"},
    {"kind": "relative_xl", "scope": "stack", "clamp": 6},
    {"kind": "relative_xl", "scope": "layer"},
    {"kind": "relative_key", "clip": 6},
]


@st.composite
def plain(draw):
    """Decoders that the native step is for, with sizes that are no multiples of anything."""
    position = draw(st.sampled_from(POSITIONS))
    xl = position["kind"] == "relative_xl"
    heads, groups, size = draw(st.sampled_from([(2, 2, 15), (3, 3, 10), (2, 1, 15)]))
    heads, groups, size = (heads, groups, size) if position["kind"] != "rotary" else (3, 1, 14)
    attention = {
        "kind": "multihead",
        "heads": heads,
        "kv_heads": groups,
        "head_dim": size,
        "bias": draw(st.booleans()),
        "pattern": draw(st.sampled_from(["causal", {"kind": "window", "size": 4}])),
        "memory": {"kind": "segment", "length": 5} if xl else draw(st.sampled_from(["cache", {"kind": "segment"}])),
    }
    feedforward = {
        "kind": draw(st.sampled_from(["dense", "glu"])),
        "inner": draw(st.sampled_from([7, 24, 41])),
        "activation": draw(st.sampled_from(sorted(ACTIVATIONS))),
        "bias": draw(st.booleans()),
    }
    residual = {"kind": draw(st.sampled_from(["pre_norm", "post_norm"])), "norm": draw(norms)}
    stack = {
        "kind": "plain",
        "layout": draw(st.sampled_from(["(sf)x2", "ssff", "f", "s"])),
        "alphabet": {"s": attention, "f": feedforward},
        "residual": residual,
        "position": position,
        "final_norm": draw(st.sampled_from(["none", "layer", "rms"])),
    }
    head = draw(st.sampled_from(["tied", {"kind": "linear", "bias": True}, {"kind": "mixture", "components": 2}]))
    return {"kind": "decoder", "vocab": 31, "dim": 30, "stack": stack, "head": head}


@given(plain(), st.integers(0, 99), st.sampled_from([1, 3, 9, 18]), st.booleans())
def test_it_equals_the_model(spelled, seed, rows, even):
    """For few rows and many."""
    model, dice = Case(Model.Config.parse(spelled), seed).model(torch.float32), random.Random(seed)
    prompts = [[dice.randrange(31) for _ in range(5 if even else dice.choice([1, 3, 6]))] for _ in range(rows)]
    side_by_side(model, prompts, dice)


@contextmanager
def threads(count):
    """That many in the native step, whatever the work is worth and the machine has."""
    before = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native_threads, "WORTH", 1)
        patch.setattr(native_threads, "_processors", lambda: count)
        torch.set_num_threads(count)
        try:
            yield
        finally:
            torch.set_num_threads(before)


@pytest.mark.parametrize("paper", ["llama", "transformer-xl-24", "opt-350m", "feedback", "feedback-tasks"])
def test_threads_share_the_work(paper):
    model, written, scores = writer(paper), [], []
    for count in (1, 2, 3):
        with threads(count), torch.inference_mode():
            writing = Writing(GenerationRequest.of(model, [[1, 2], [3]] * 5, 6), Sampling())
            assert writing.reader.step._step.threads == count
            while not writing.done:
                writing.step()
            written.append([text.ids for text in writing.texts])
            scores.append(writing.reader.scores_BV)
    assert written[0] == written[1] == written[2]
    for count, shared in enumerate(scores, 1):
        same(shared, scores[0], 1e-5, f"{count} threads")


def test_it_serves_the_papers_that_are_plain():
    """Which are not: what adds by gates, reads a source, compresses keys or tokens, learns how far to look, looks up
    tokens or clusters them, or has no softmax or no cache."""
    served = {paper for paper in WRITERS if isinstance(_reader(writer(paper)), NativeReader)}
    plain = {"gtrxl", "transformer", "transformer-dmca", "roformer", "shaw", "feedback-enwik8"}
    plain |= {"performer", "rfa", "rfa-gate", "reformer", "routing", "compressive", "memorizing"}
    assert set(WRITERS) - served == plain & set(WRITERS)


def _reader(model):
    with torch.inference_mode():
        return read_prompts(GenerationRequest.of(model, [[1, 2]], 4, **source_of(model, 1)), native=True)


class _Doubled(nn.Dropout):
    def forward(self, x):
        return 2 * x


def _patched(model):
    part = model.stack.sublayers[1].part
    original = part.forward
    part.forward = lambda x, scene, state=None: (2 * original(x, scene, state)[0], None)


UNLIKE = {
    "a hook on a part": lambda m: m.stack.sublayers[1].part.register_forward_hook(lambda m, x, y: (2 * y[0], y[1])),
    "a hook on dropout": lambda m: m.stack.sublayers[0].drop.register_forward_hook(lambda m, x, y: 2 * y),
    "another dropout": lambda m: setattr(m.stack.sublayers[0], "drop", _Doubled()),
    "another activation": lambda m: setattr(m.stack.sublayers[1].part, "activation", "softplus"),
    "a norm without a gain": lambda m: setattr(m.stack, "final_norm", nn.LayerNorm(32, elementwise_affine=False)),
    "a function put in place of forward": _patched,
    "float64": lambda m: m.double(),
    "bfloat16": lambda m: m.bfloat16(),
}


@pytest.mark.parametrize("change", UNLIKE.values(), ids=UNLIKE)
def test_it_leaves_alone_what_it_has_no_twin_for(change):
    model = writer("gpt2")
    assert isinstance(_reader(model), NativeReader)
    change(model)
    assert isinstance(_reader(model), StateReader)
    (written,) = generate(model, [[1, 2, 3]], tokens=10)
    with torch.no_grad():  # the model as it was changed, step by step
        h_BLD, state = model(torch.tensor([[1, 2, 3]]))
        for token in written:
            assert token == int(model.head(h_BLD[:, -1]).argmax())
            h_BLD, state = model(torch.tensor([[token]]), state)


def test_hooks_on_all_modules_are_called():
    model, seen = writer("gpt2"), []
    handle = register_module_forward_hook(lambda module, *_: seen.append(type(module).__name__))
    try:
        generate(model, [[1, 2]], tokens=3)
    finally:
        handle.remove()
    assert seen.count("Decoder") == 3
    assert seen.count("MultiHead") == 3 * 2


def test_autocast_is_left_to_the_model():
    model = writer("gpt2")
    with torch.autocast("cpu", torch.bfloat16):
        assert isinstance(_reader(model), StateReader)
        assert generate(model, [[1, 2]], tokens=8) == generate(model, [[1, 2]], tokens=8, native=False)


def test_torch_defaults_do_not_matter():
    model, prompts = writer("llama"), [[1, 2], [3]]
    plain = generate(model, prompts, tokens=70)
    torch.set_default_dtype(torch.float64)
    try:
        assert isinstance(_reader(model), NativeReader)
        assert generate(model, prompts, tokens=70) == plain
    finally:
        torch.set_default_dtype(torch.float32)


def test_relative_positions_without_end_are_left_to_the_model():
    model = small(sublayer.config("transformer-xl-24")).but({"s.memory": "cache"}).build().eval()
    assert isinstance(_reader(model), StateReader)
    assert generate(model, [[1, 2]], tokens=9) == generate(model, [[1, 2]], tokens=9, native=False)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # Python 3.12 on forks beside threads
def test_a_fork_with_one_thread_does_not_wait_for_those_left_behind():
    model = writer("llama")
    with threads(2):
        here = generate(model, [[1, 2]], tokens=8)
        child = os.fork()
        if child == 0:
            signal.alarm(60)  # the end of one that waits
            torch.set_num_threads(1)  # torch itself needs that in a fork
            os._exit(generate(model, [[1, 2]], tokens=8) != here)
        assert os.waitpid(child, 0)[1] == 0
