"""Writing equals computing everything anew, alone or in a batch, at once or as a stream."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

import sublayer
from sublayer.generation import Sampling, generate, stream
from sublayer.generation.engine import Writing
from sublayer.generation.native import NativeReader
from sublayer.generation.reader import StateReader
from sublayer.generation.request import GenerationRequest
from tests.generation.models import SOURCE, WRITERS, recomputed, scores_after, source_of, writer

PROMPTS = [[7, 8, 9, 10, 11, 12, 13], [21], [5, 4, 3, 2]]
WARM = Sampling(temperature=1.0)
BOTH = pytest.mark.parametrize("native", [True, False], ids=["native", "bare"])


@pytest.mark.parametrize("paper", WRITERS)
def test_greedy_writes_the_best_id_of_a_full_recomputation(paper):
    model = writer(paper)
    expected = [recomputed(model, PROMPTS[0], 9, SOURCE[0])]
    for native in (True, False):
        assert generate(model, PROMPTS[:1], tokens=9, native=native, **source_of(model, 1)) == expected


@pytest.mark.parametrize("paper", WRITERS)
def test_unequal_prompts_write_as_each_alone(paper):
    model = writer(paper)
    for native in (True, False):
        together = generate(model, PROMPTS, tokens=7, native=native, **source_of(model, 3))
        for n, prompt in enumerate(PROMPTS):
            source = {"source": [SOURCE[n]]} if source_of(model, 3) else {}
            assert together[n] == generate(model, [prompt], tokens=7, native=native, **source)[0]


def test_the_model_keeps_its_mode_its_weights_and_its_gradients():
    model = sublayer.testing.small(sublayer.config("gpt2")).build().train()
    generate(model, [[1, 2]], tokens=3)
    assert model.training
    assert all(module.training for module in model.modules())
    model.head.loss(model(torch.tensor([[1, 2, 3]]))[0], torch.tensor([[2, 3, 4]])).backward()
    assert all(weight.grad is not None for weight in model.parameters())


@BOTH
def test_dropout_is_off_even_in_training_mode(native):
    model = writer("gpt2").train()
    options = {"tokens": 8, "native": native}
    assert generate(model, [[1, 2, 3]], **options) == generate(model.eval(), [[1, 2, 3]], **options)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_types_write_by_the_model(dtype):
    model = writer("gpt2", dtype)
    (written,) = generate(model, [[1, 2, 3]], tokens=6)
    with torch.no_grad():
        h_BLD, state = model(torch.tensor([[1, 2, 3]]))
        for token in written:
            assert token == int(model.head(h_BLD[:, -1]).argmax())
            h_BLD, state = model(torch.tensor([[token]]), state)
    assert len(generate(model, [[1, 2], [3]], tokens=6, sampling=Sampling(temperature=0.5, top_p=0.9))[1]) == 6


@pytest.mark.parametrize("paper", ["gpt2", "transformer-xl", "transformer"])
def test_a_seed_writes_the_same_whatever_stands_beside_it(paper):
    model = writer(paper)
    options = {"tokens": 12, "sampling": WARM}
    sources = source_of(model, 3).get("source")

    def write(rows, seeds):
        source = {"source": [sources[n] for n in rows]} if sources else {}
        return generate(model, [PROMPTS[n] for n in rows], seed=seeds, **options, **source)

    together = write([0, 1, 2], 5)
    assert together == [write([n], 5 + n)[0] for n in range(3)]
    assert write([2, 0], [7, 5]) == [together[2], together[0]]
    assert write([0, 1, 2], 6) != together


def test_a_batch_of_one_prompt_draws_different_texts():
    model = writer("gpt2")
    assert len({tuple(text) for text in generate(model, [[1, 2]] * 4, tokens=12, sampling=WARM)}) == 4


@pytest.mark.parametrize("seed", [-1, 2**64 + 3, [2**70]])
def test_any_whole_number_is_a_seed(seed):
    assert len(generate(writer("gpt2"), [[1]], tokens=3, sampling=WARM, seed=seed)[0]) == 3


@given(
    tokens=st.integers(0, 12),
    stops=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=3), max_size=3),
    eos=st.sampled_from([None, 2]),
    seed=st.integers(0, 99),
)
def test_a_stream_adds_up_to_what_generate_returns(tokens, stops, eos, seed):
    model = _tiny()
    options = {"tokens": tokens, "sampling": WARM, "seed": seed, "stop": stops, "eos": eos}
    told = [[], [], []]
    for step in stream(model, [[0, 1], [3], [2, 2, 1]], **options):
        for row, new in zip(told, step, strict=True):
            row += new
    assert told == generate(model, [[0, 1], [3], [2, 2, 1]], **options)


@given(stop=st.lists(st.integers(0, 3), min_size=1, max_size=4), seed=st.integers(0, 99))
def test_a_stop_sequence_ends_a_text_wherever_it_begins(stop, seed):
    model, options = _tiny(), {"tokens": 24, "sampling": WARM, "seed": seed}
    (whole,) = generate(model, [[1]], **options)
    meets = [n for n in range(len(whole)) if whole[n : n + len(stop)] == stop]
    assert generate(model, [[1]], stop=[stop], **options) == [whole[: meets[0]] if meets else whole]


def test_a_stop_begun_in_the_prompt_does_not_count():
    model = writer("gpt2")
    (whole,) = generate(model, [[1, 2]], tokens=5)
    assert generate(model, [[1, 2]], tokens=5, stop=[[2, whole[0]]]) == [whole]


def test_what_may_begin_a_stop_is_held_back():
    model = writer("gpt2")
    (whole,) = generate(model, [[1, 2]], tokens=5)
    steps = [step[0] for step in stream(model, [[1, 2]], tokens=5, stop=[[whole[0], whole[1], 60]])]
    assert steps[0] == steps[1] == []
    assert [len(step) for step in steps].count(0) < 5
    assert [token for step in steps for token in step] == whole


@BOTH
def test_an_end_at_the_first_step_leaves_an_empty_text(native):
    model = writer("gpt2")
    ends = [text[0] for text in generate(model, PROMPTS, tokens=1, native=native)]
    assert len(set(ends)) > 1
    written = generate(model, PROMPTS, tokens=5, eos=ends[0], native=native)
    assert written[0] == []
    assert written[1:] == generate(model, PROMPTS[1:], tokens=5, eos=ends[0], native=native)
    assert list(stream(model, PROMPTS, tokens=5, stop=ends, native=native)) == [[[], [], []]]


def test_finished_rows_leave_the_batch_and_the_others_go_on():
    model = writer("transformer-xl-24")
    whole = generate(model, PROMPTS, tokens=20)
    for native in (True, False):
        stop = whole[0][2]
        writing = Writing(GenerationRequest.of(model, PROMPTS, 20, eos=stop), Sampling(repetition=1.0001), 0, native)
        while not writing.done:
            writing.step()
        assert writing.live != [0, 1, 2]
        ends = [text.index(stop) if stop in text else 20 for text in whole]
        assert [text.ids for text in writing.texts] == [text[:end] for text, end in zip(whole, ends, strict=True)]


def _buffers(reader):
    """Everything that grows with the text."""
    if isinstance(reader, NativeReader):
        return list(reader.step._keys.values())
    state = reader.state
    return [cache.buffer for part in state.parts if part is not None for cache in (part.k, part.v)] + [
        past.buffer for past in (state.past_i, state.past_valid) if past is not None
    ]


@BOTH
@pytest.mark.parametrize("prompts", [[[1, 2, 3]], [[1, 2, 3], [4]]], ids=["even", "ragged"])
def test_a_long_text_moves_its_cache_only_when_it_doubles(native, prompts):
    writing = Writing(GenerationRequest.of(writer("alibi"), prompts, 100), Sampling(), 0, native)
    assert isinstance(writing.reader, NativeReader if native else StateReader)
    moves, before = 0, set()
    while not writing.done:
        writing.step()
        now = {buffer.data_ptr() for buffer in _buffers(writing.reader)}
        moves += now != before
        before = now
    assert moves <= 5  # to 6, 14 or 16, 30 or 32, 62 or 64, 126 or 128 places


class Made(TorchDispatchMode):
    """Counts what operations put into memory of its own."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        given = {arg.untyped_storage().data_ptr() for arg in args if isinstance(arg, torch.Tensor)}
        for made in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(made, torch.Tensor) and made.untyped_storage().data_ptr() not in given:
                self.numbers += made.numel()
        return out


@pytest.mark.parametrize("paper", ["alibi", "transformer"])
def test_what_a_step_makes_grows_no_faster_than_attention(paper):
    """A few numbers a head for each place attended; a copy of the cache would be two vectors a layer."""
    model = writer(paper)
    writing = Writing(GenerationRequest.of(model, [[1]], 70, **source_of(model, 1)), Sampling(), 0, native=False)
    made = []
    while not writing.done:
        before = [buffer.data_ptr() for buffer in _buffers(writing.reader)]
        with Made() as counted:
            writing.step()
        if before == [buffer.data_ptr() for buffer in _buffers(writing.reader)]:  # where nothing doubled
            made.append((len(writing.texts[0].ids), counted.numbers))
    (early, few), (late, many) = made[10], made[-2]
    layers = sum(hasattr(part, "heads") for stack in model.config.stacks.values() for part in stack.parts)
    assert late - early > 40
    assert many - few <= (late - early) * layers * 4 * 6  # heads are 4, of 8 features


def test_cold_draws_are_greedy():
    model = writer("gpt2")
    for temperature in (1e-4, 1e-310):
        (cold,) = generate(model, [[1, 2]], tokens=6, sampling=Sampling(temperature=temperature), seed=3)
        assert cold == recomputed(model, [1, 2], 6)


def test_more_than_the_vocabulary_is_all_of_it():
    model, options = writer("gpt2"), {"tokens": 8, "seed": 4}
    assert generate(model, [[1]], sampling=Sampling(temperature=1.0, top_k=10**6), **options) == generate(
        model, [[1]], sampling=WARM, **options
    )


def test_repetition_counts_the_prompt_and_what_was_written():
    model = writer("gpt2")
    (written,) = generate(model, [[5, 6]], tokens=30, sampling=Sampling(repetition=1e6))
    assert len({5, 6, *written}) == 32
    scores_V = scores_after(model, [5, 6], [])
    assert written[0] == int(scores_V.index_fill(0, torch.tensor([5, 6]), -torch.inf).argmax())


def test_nothing_is_asked_for_and_nothing_is_written():
    assert generate(writer("gpt2"), [[1], [2]], tokens=0) == [[], []]
    assert list(stream(writer("gpt2"), [[1], [2]], tokens=0)) == []


def test_learned_positions_serve_to_their_very_end():
    model = writer("gpt2")
    assert len(generate(model, [[1] * 90], tokens=7)[0]) == 7


def test_prompts_may_be_a_tensor():
    model = writer("gpt2")
    assert generate(model, torch.tensor([[1, 2], [3, 4]]), tokens=3) == generate(model, [[1, 2], [3, 4]], tokens=3)


def test_a_model_that_is_spoilt_says_so():
    model = writer("gpt2")
    with torch.no_grad():
        model.stack.sublayers[0].part.output.bias[0] = torch.nan
    with pytest.raises(ValueError, match=r"model: its scores are not numbers .* use an earlier checkpoint"):
        generate(model, [[1]], tokens=3)


def test_a_head_over_classes_cannot_write():
    config = sublayer.testing.small(sublayer.config("gpt2")).but(head={"kind": "classify", "classes": 3})
    with pytest.raises(ValueError, match="its head, classify, does not score the 61 ids of the vocabulary; use head"):
        generate(config.build(), [[1]])


def _tiny():
    """Few ids, so that stops are met often."""
    return writer("gpt2", vocab=4, seed=1)
