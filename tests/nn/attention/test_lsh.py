"""Who shares a bucket sees each other, whatever comes later; with enough rounds it is exact attention."""

import pytest
import torch
from torch.nn import functional as F

from sublayer.nn.attention import Lsh, lsh
from sublayer.nn.attention.buckets import Grid, Hashed
from sublayer.nn.attention.heads import split_heads
from sublayer.nn.config import ConfigError
from sublayer.nn.part import Slot, Work
from sublayer.nn.scene import Scene
from sublayer.testing import LAWS, Case, LawBroken, around
from sublayer.testing.laws.counts import count_flops

SLOT = Slot(32)
SMALL = Lsh.Config(heads=4, rounds=2, buckets=4, chunk=3)
BOTH = SMALL.but(look="both")


def build(config, seed=0, deviation=0.5):
    torch.manual_seed(seed)
    part = config.build(SLOT).double().eval()
    torch.nn.init.normal_(part.query_value.weight, std=deviation)
    return part


def text(length, batch=1):
    return torch.randn(batch, length, 32, generator=torch.Generator().manual_seed(length), dtype=torch.float64)


def whole(length):
    return Scene(torch.arange(length)[None])


def projected(part, x_BLD):
    return (split_heads(x, part.heads) for x in part.query_value(x_BLD).chunk(2, dim=-1))


def buckets(part, x_BLD):
    return lsh.draw_buckets(next(projected(part, x_BLD)), part.hashes(), part.config.all_rounds)


def exactly(part, x_BLD, both_ways):
    """Attention with shared queries and keys over all tokens, as the paper defines it."""
    q_BHLK, v_BHLK = projected(part, x_BLD)
    score_BHLL = q_BHLK @ F.normalize(q_BHLK, dim=-1).transpose(-1, -2)
    L = x_BLD.shape[1]
    own_LL = torch.eye(L, dtype=torch.bool)
    seen_LL = torch.ones_like(own_LL) if both_ways else torch.ones_like(own_LL).tril()
    score_BHLL = score_BHLL.masked_fill(own_LL, -1e5).masked_fill(~seen_LL, -torch.inf)
    return part.output((score_BHLL.softmax(-1) @ v_BHLK).transpose(1, 2).flatten(2))


@pytest.mark.parametrize("config", [SMALL, BOTH])
@pytest.mark.parametrize("rounds", [1, 3])
def test_with_one_bucket_and_a_chunk_as_long_as_the_text_it_is_exact_attention(config, rounds):
    part = build(config.but(chunk=20, rounds=rounds))
    part.hashes.w_FK.zero_()
    for length in (1, 2, 19, 20):
        x_1LD = text(length)
        assert (part(x_1LD, whole(length))[0] - exactly(part, x_1LD, config.both_ways)).abs().max() < 1e-12


@pytest.mark.parametrize("config", [SMALL, BOTH])
def test_the_error_falls_with_the_rounds(config):
    errors, x_BLD = [], text(48, 2)
    for rounds in (1, 4, 16):
        parts = [build(config.but(chunk=48, rounds=rounds, buckets=8), seed) for seed in range(4)]
        gaps = [part(x_BLD, whole(48))[0] - exactly(part, x_BLD, config.both_ways) for part in parts]
        errors.append(float(torch.stack(gaps).detach().square().mean().sqrt()))
    assert errors[1] < 0.7 * errors[0]
    assert errors[2] < 0.3 * errors[0]


def test_looking_back_a_query_sees_its_buckets_chunk_and_the_one_before():
    part, x_1LD = build(SMALL.but(heads=1)), text(40).requires_grad_()
    y_LD, bucket_RL = part(x_1LD, whole(40))[0][0], buckets(part, x_1LD)[0, 0].tolist()
    for i in range(40):
        seen = set()
        for bucket_L in bucket_RL:
            mates = [j for j in range(i + 1) if bucket_L[j] == bucket_L[i]]
            chunk = (len(mates) - 1) // 3
            seen |= {j for rank, j in enumerate(mates) if rank // 3 in (chunk, chunk - 1)} - {i}
        (slope,) = torch.autograd.grad(y_LD[i].sum(), x_1LD, retain_graph=True)
        found = set(slope[0].abs().amax(-1).nonzero()[:, 0].tolist())
        assert found - {i} == seen
        assert seen or found == {i}


def test_a_token_sees_itself_only_if_there_is_nobody_else():
    part, x_1LD = build(SMALL.but(rounds=1)), text(12)
    _, v_BHLK = projected(part, x_1LD)
    value_1LD = part.output(v_BHLK.transpose(1, 2).flatten(2))
    assert (part(x_1LD, whole(12))[0][:, 0] - value_1LD[:, 0]).abs().max() < 1e-12
    part.hashes.w_FK.zero_()
    assert (part(x_1LD, whole(12))[0][:, 1] - value_1LD[:, 0]).abs().max() < 1e-12


@pytest.mark.parametrize("config", [SMALL, BOTH])
def test_a_key_that_is_met_in_several_rounds_counts_once(config):
    once, thrice = build(config.but(rounds=1)), build(config.but(rounds=3))
    thrice.load_state_dict({**once.state_dict(), "hashes.w_FK": once.hashes.w_FK.repeat(3, 1)})
    assert (once(text(30), whole(30))[0] - thrice(text(30), whole(30))[0]).abs().max() < 1e-12


@pytest.mark.parametrize("law", [name for name, law in LAWS.items() if name != "training"])
@pytest.mark.parametrize("config", [SMALL.but(eval_rounds=3), BOTH])
def test_it_obeys_the_laws(config, law):
    case = Case(around(config, causal=not config.both_ways))
    verdict = LAWS[law](case)
    assert verdict.holds or "compared nothing" not in str(verdict)
    if LAWS[law].long and verdict.holds:
        LAWS[law](case.lengthened(LAWS[law].long))


def test_chunks_of_the_whole_sorted_text_used_backwards_are_a_leak(monkeypatch):
    codes, case = Grid.codes, Case(around(SMALL)).lengthened(40)
    assert LAWS["causality"](case).holds
    monkeypatch.setattr(Grid, "codes", lambda _, *given: codes(BOTH.grid, *given))
    with pytest.raises(LawBroken, match="causality"):
        LAWS["causality"](case)


@pytest.mark.parametrize("cuts", [(1,) * 60, (20, 1, 30, 9), (9, 9, 9, 9, 24), (3, 40, 8, 9)])
@pytest.mark.parametrize("grad", [False, True])
def test_a_state_that_drops_what_nobody_sees_changes_nothing(cuts, grad):
    part = build(SMALL.but(buckets=2, rounds=1, chunk=2))
    most, x_BLD, state, found = Hashed.most(1, part.grid), text(60, 2), None, []
    with torch.set_grad_enabled(grad):
        for x_BCD, start in zip(x_BLD.split(cuts, dim=1), torch.tensor((0, *cuts)).cumsum(0).tolist(), strict=False):
            y_BCD, state = part(x_BCD, Scene(torch.arange(start, start + x_BCD.shape[1])[None], start), state)
            found.append(y_BCD)
            assert len(state.k) <= 2 * most
        assert most == 8
        assert (torch.cat(found, dim=1) - part(x_BLD, whole(60))[0]).abs().max() < 1e-12


@pytest.mark.parametrize("cuts", [(1,) * 40, (5, 1, 24, 10)])
def test_rows_with_other_lengths_that_go_on_are_as_alone(cuts):
    """Left and inner padding differ by row, and so do ranks."""
    part = build(SMALL)
    valid_BL = torch.rand(3, 40, generator=torch.Generator().manual_seed(4)) < torch.tensor([[1.1], [0.6], [0.3]])
    x_BLD, state, found = text(40, 3), None, []
    i_BL = (valid_BL.cumsum(1) - 1).clamp(min=0)
    for end, count in zip(torch.tensor(cuts).cumsum(0).tolist(), cuts, strict=True):
        start = end - count
        past = (i_BL[:, :start], valid_BL[:, :start]) if start else (None, None)
        scene = Scene(i_BL[:, start:end], start, valid_BL[:, start:end], *past)
        with torch.no_grad():
            y_BLD, state = part(x_BLD[:, start:end], scene, state)
        found.append(y_BLD)
    for y_LD, x_LD, valid_L in zip(torch.cat(found, dim=1), x_BLD, valid_BL, strict=True):
        alone = part(x_LD[None, valid_L], whole(int(valid_L.sum())))[0]
        assert (y_LD[valid_L] - alone[0]).abs().max() < 1e-12


@pytest.mark.parametrize("config", [SMALL, BOTH])
def test_work_is_counted_in_all_its_forms(config):
    config = config.but(eval_rounds=3)
    model_config = around(config, causal=not config.both_ways)
    with torch.device("meta"):
        model = model_config.build().eval()
    for length, memory in ((2, 0), (150, 0)) if config.both_ways else ((1, 0), (150, 0), (70, 64), (9, 200), (8, 200)):
        work = model_config.cost(length, memory).flops
        expected = work.embedding + work.stack + work.head
        assert abs(count_flops(model, length, memory) - expected) < 0.002 * expected


def test_work_and_state_stay_the_same_however_long_the_past():
    for size in (Lsh.Config().flops, Lsh.Config().state_size):
        assert size(SLOT, Work(1, 40_000)) == size(SLOT, Work(1, 400_000))
    assert Lsh.Config().bounded
    assert BOTH.state_size(SLOT, Work(9)) == 0


def test_hashes_are_drawn_from_the_seed_and_the_step():
    here, again = build(SMALL), build(SMALL)
    random, first = torch.get_rng_state(), here.hashes().clone()
    here(text(9), whole(9))
    assert torch.equal(here.hashes(), first)
    for step in (1, 2, 3):
        here.hashes.after_step(step)
    again.hashes.after_step(3)
    assert torch.equal(here.hashes(), again.hashes())
    assert not torch.equal(here.hashes(), first)
    assert torch.equal(torch.get_rng_state(), random)
    assert "hashes.w_FK" in here.state_dict()


def test_a_text_goes_on_with_the_rounds_that_it_began_with():
    part = build(SMALL.but(eval_rounds=3))
    state = part.train()(text(9), whole(9))[1]
    assert state.rounds == 2
    assert part.eval()(text(9), Scene(torch.arange(9, 18)[None], 9), state)[1].rounds == 2
    assert part(text(9), whole(9))[1].rounds == 3


@pytest.mark.parametrize("config", [SMALL, BOTH])
def test_dropout_leaves_the_mean_as_it_is(config):
    part = build(config.but(dropout=0.3))
    plain = part(text(12, 2), whole(12))[0]
    part.train()
    mean = torch.stack([part(text(12, 2), whole(12))[0] for _ in range(600)]).mean(0)
    assert (mean - plain).abs().mean() < 0.15 * plain.abs().mean()


@pytest.mark.parametrize("config", [SMALL, BOTH])
def test_slopes_with_dropout_are_those_of_what_is_computed(config):
    part = build(config.but(dropout=0.3, heads=2)).train()

    def run(x_1LD):
        torch.manual_seed(3)
        return part(x_1LD, whole(9))[0]

    assert torch.autograd.gradcheck(run, text(9).requires_grad_(), fast_mode=True)


@pytest.mark.parametrize("config", [SMALL, BOTH])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_large_scores_and_few_digits_give_finite_numbers(config, dtype):
    part = build(config, deviation=20.0).to(dtype)
    x_BLD = text(30, 2).to(dtype).requires_grad_()
    part(x_BLD, whole(30))[0].sum().backward()
    assert x_BLD.grad.isfinite().all()
    with torch.autocast("cpu", torch.bfloat16):
        part.float()(text(30).float(), whole(30))[0].sum().backward()
    assert all(weight.grad.isfinite().all() for weight in part.parameters())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"buckets": 7}, "buckets=7: an odd number; use 6 or 8"),
        ({"rounds": 4, "eval_rounds": 2}, "eval_rounds=2 is less than rounds=4"),
        ({"kv_heads": 2}, "kv_heads=2: queries are their own keys"),
    ],
)
def test_what_makes_no_sense_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        Lsh.Config(**{"heads": 4, **settings})


def test_a_chunk_longer_than_the_texts_is_refused():
    with pytest.raises(ConfigError, match=r"p.chunk=64 is longer than texts of 40 tokens"):
        around(Lsh.Config(heads=4)).check_length(40)


def test_a_form_or_a_position_that_does_not_fit_is_refused():
    with pytest.raises(ConfigError, match=r"look=both looks both ways, .* reads left to right; use look=back"):
        around(BOTH, causal=True)
    with pytest.raises(ConfigError, match="lsh does not use position=rotary"):
        around(SMALL).but(position="rotary")


def test_within_buckets_it_is_the_authors_attention(monkeypatch):
    """Transformers' Reformer has no mask on buckets: compared are tokens whose two chunks are of one bucket."""
    reformer = pytest.importorskip("transformers.models.reformer.modeling_reformer")
    config = reformer.ReformerConfig(
        hidden_size=32,
        num_attention_heads=4,
        attention_head_size=8,
        lsh_attn_chunk_length=4,
        num_buckets=4,
        num_hashes=1,
        lsh_attention_probs_dropout_prob=0.0,
        is_decoder=False,
    )
    theirs = reformer.LSHSelfAttention(config).double().eval()
    torch.nn.init.normal_(theirs.query_key.weight, std=0.5)
    part = build(BOTH.but(bias=False, rounds=1, chunk=4))
    with torch.no_grad():
        part.query_value.weight.copy_(torch.cat([theirs.query_key.weight, theirs.value.weight]))
        part.output.weight.copy_(torch.eye(32))
    # Four buckets of eight tokens each, for every head in another order.
    bucket_BHL = torch.stack([torch.randperm(32) // 8 for _ in range(8)]).view(2, 4, 32)
    monkeypatch.setattr(lsh, "draw_buckets", lambda *given: bucket_BHL[:, :, None])
    x_BLD = text(32, 2)
    ours_BHLK = part(x_BLD, whole(32))[0].unflatten(-1, (4, 8)).transpose(1, 2)
    theirs_BHLK = theirs(x_BLD, buckets=bucket_BHL).hidden_states.unflatten(-1, (4, 8)).transpose(1, 2)
    second_BHL = (bucket_BHL.argsort(dim=-1, stable=True).argsort(dim=-1) // 4) % 2 == 1
    assert second_BHL.sum() == 2 * 4 * 16
    assert (ours_BHLK - theirs_BHLK)[second_BHL].abs().max() < 1e-5
    assert (ours_BHLK - theirs_BHLK)[~second_BHL].abs().max() > 1e-2
