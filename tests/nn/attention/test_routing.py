"""A token sees its cluster's last tokens, whatever comes later; centroids follow the tokens, in steps of training."""

import pytest
import torch

from sublayer.nn.attention import MultiHead, Routing, lookback
from sublayer.nn.attention.buckets import Hashed
from sublayer.nn.attention.centroids import Centroids
from sublayer.nn.attention.heads import join_heads, split_heads
from sublayer.nn.attention.routing import normalised
from sublayer.nn.config import ConfigError
from sublayer.nn.part import Slot, Work
from sublayer.nn.scene import Scene
from sublayer.nn.stepping import after_step
from sublayer.testing import LAWS, Case, LawBroken, around
from sublayer.testing.laws.counts import count_flops

SLOT = Slot(32)
SMALL = Routing.Config(heads=4, clusters=3, window=4)
BOTH = SMALL.but(look="both")


def build(config, seed=0):
    torch.manual_seed(seed)
    part = config.build(SLOT).double().eval()
    torch.nn.init.normal_(part.project.weight, std=0.5)
    return part


def text(length, batch=1):
    return torch.randn(batch, length, 32, generator=torch.Generator().manual_seed(length), dtype=torch.float64)


def whole(length):
    return Scene(torch.arange(length)[None])


def projected(part, x_BLD):
    parts = part.project(x_BLD).chunk(3 if part.config.both_ways else 2, dim=-1)
    q_BHLK, k_BHLK, v_BHLK = (split_heads(x, part.heads) for x in (parts[0], parts[-2], parts[-1]))
    return normalised(q_BHLK), normalised(k_BHLK), v_BHLK


def clusters(part, x_BLD):
    return part.centroids(projected(part, x_BLD)[0]).argmax(2)


@pytest.mark.parametrize("look", ["back", "both"])
def test_with_one_cluster_and_a_window_as_long_as_the_text_it_is_exact_attention(look):
    part = build(SMALL.but(look=look, clusters=1, window=20))
    for length in (1, 2, 20):
        q_BHLK, k_BHLK, v_BHLK = projected(part, text(length, 2))
        score_BHLL = q_BHLK @ k_BHLK.transpose(-1, -2) / part.head_dim**0.5
        if look == "back":  # itself only if there is no other
            hidden_LL = torch.ones(length, length, dtype=torch.bool).triu()
            hidden_LL[0, 0] = False
            score_BHLL = score_BHLL.masked_fill(hidden_LL, -torch.inf)
        expected = part.output(join_heads(score_BHLL.softmax(-1) @ v_BHLK))
        assert (part(text(length, 2), whole(length))[0] - expected).abs().max() < 1e-12


def test_looking_back_a_query_sees_the_last_tokens_of_its_cluster():
    part, x_1LD = build(SMALL.but(heads=1)), text(40).requires_grad_()
    y_LD, cluster_L = part(x_1LD, whole(40))[0][0], clusters(part, x_1LD)[0, 0].tolist()
    assert len(set(cluster_L)) == 3
    for i in range(40):
        seen = {j for j in range(i) if cluster_L[j] == cluster_L[i]}
        (slope,) = torch.autograd.grad(y_LD[i].sum(), x_1LD, retain_graph=True)
        found = set(slope[0].abs().amax(-1).nonzero()[:, 0].tolist())
        assert found - {i} == set(sorted(seen)[-4:])
        assert seen or found == {i}


@pytest.mark.parametrize("law", ["padding", "oracle"])
def test_both_ways_it_obeys_the_laws(law):
    case = Case(around(BOTH, causal=False))
    assert LAWS[law](case).holds
    if LAWS[law].long:
        assert LAWS[law](case.lengthened(LAWS[law].long)).holds


def test_a_cluster_that_depends_on_later_tokens_is_a_leak(monkeypatch):
    near, case = Centroids.forward, Case(around(SMALL)).lengthened(40)
    assert LAWS["causality"](case).holds

    def among_all(self, x_BHLK):
        """For each centroid the rank of a token in the whole text, as clusters of equal size would need."""
        return near(self, x_BHLK).argsort(-1).argsort(-1).double()

    monkeypatch.setattr(Centroids, "forward", among_all)
    with pytest.raises(LawBroken, match="causality"):
        LAWS["causality"](case)


@pytest.mark.parametrize("cuts", [(1,) * 60, (20, 1, 30, 9)])
def test_a_state_that_drops_what_nobody_sees_changes_nothing(cuts):
    part = build(SMALL.but(clusters=2, window=2))
    x_BLD, state, found = text(60, 2), None, []
    valid_BL = torch.rand(2, 60, generator=torch.Generator().manual_seed(4)) < torch.tensor([[1.1], [0.6]])
    i_BL = (valid_BL.cumsum(1) - 1).clamp(min=0)
    for end, count in zip(torch.tensor(cuts).cumsum(0).tolist(), cuts, strict=True):
        now, start = slice(end - count, end), end - count
        past = (i_BL[:, :start], valid_BL[:, :start]) if start else (None, None)
        with torch.no_grad():
            y_BLD, state = part(x_BLD[:, now], Scene(i_BL[:, now], start, valid_BL[:, now], *past), state)
        assert len(state.k) <= 2 * Hashed.most(1, part.grid)
        found.append(y_BLD)
    for y_LD, x_LD, valid_L in zip(torch.cat(found, dim=1), x_BLD, valid_BL, strict=True):
        alone = part(x_LD[None, valid_L], whole(int(valid_L.sum())))[0]
        assert (y_LD[valid_L] - alone[0]).abs().max() < 1e-12


def test_what_is_fast_gives_what_tiles_give(monkeypatch):
    torch.manual_seed(1)
    part = Routing.Config(heads=4, head_dim=16, clusters=5, window=70).build(SLOT)
    x_BLD = torch.randn(2, 600, 32)

    def run():
        y_BLD = part(x_BLD, whole(600))[0]
        return y_BLD, *torch.autograd.grad(y_BLD.square().sum(), list(part.parameters()))

    fast = run()
    monkeypatch.setattr(lookback, "BUCKETS", "a job that no path does")
    for here, there in zip(fast, run(), strict=True):
        torch.testing.assert_close(here, there, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("config", [SMALL.but(window=31), BOTH])
def test_work_is_counted_in_all_its_forms(config):
    model_config = around(config, causal=not config.both_ways)
    with torch.device("meta"):
        model = model_config.build().eval()
    for length, memory in ((2, 0), (150, 0)) if config.both_ways else ((150, 0), (70, 64), (8, 250)):
        work = model_config.cost(length, memory).flops
        expected = work.embedding + work.stack + work.head
        assert abs(count_flops(model, length, memory) - expected) < 0.002 * expected


def test_work_and_state_stay_the_same_however_long_the_past():
    for size in (Routing.Config().flops, Routing.Config().state_size):
        assert size(SLOT, Work(1, 40_000)) == size(SLOT, Work(1, 400_000))
    assert Routing.Config().bounded
    assert BOTH.state_size(SLOT, Work(9)) == 0


def test_both_ways_a_token_that_no_centroid_takes_gets_zeros():
    part, x_1LD = build(BOTH.but(heads=1, clusters=2, window=3)), text(20)
    q_BHLK, _, _ = projected(part, x_1LD)
    taken = set(part.centroids(q_BHLK)[0, 0].topk(3, dim=-1).indices.flatten().tolist())
    y_LD = (part(x_1LD, whole(20))[0] - part.output.bias)[0]
    assert 3 <= len(taken) <= 6
    assert set(y_LD.abs().amax(-1).nonzero()[:, 0].tolist()) == taken


def vectors(*shape):
    return normalised(torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64))


def step(centroids, x_BHLK, valid_BL=None, add_up=None):
    centroids.collect(x_BHLK, *centroids(x_BHLK).max(2), valid_BL)
    after_step(centroids, 1, add_up)
    return centroids.mean_HCK.clone()


def test_centroids_move_to_what_is_nearest_and_only_in_steps_of_training():
    x_BHLK, centroids = vectors(2, 1, 9, 4), Centroids(1, 2, 4, 0.9).double()
    before_HCK, cluster_N = centroids.mean_HCK.clone(), centroids(x_BHLK).argmax(2).flatten()
    assert set(cluster_N.tolist()) == {0, 1}
    assert torch.equal(step(centroids.eval(), x_BHLK), before_HCK)
    for _ in range(2):  # a pass that is computed again changes nothing
        centroids.train().collect(x_BHLK, *centroids(x_BHLK).max(2), None)
    assert torch.equal(centroids.mean_HCK, before_HCK)
    after_step(centroids, 1)
    sums_CK = torch.stack([x_BHLK.flatten(0, 2)[cluster_N == c].sum(0) for c in (0, 1)])
    assert (centroids.mean_HCK[0] - (0.9 * before_HCK[0] + 0.1 * 2 / 18 * sums_CK / 2)).abs().max() < 1e-12


def test_centroids_of_several_processes_are_those_of_all_their_rows():
    x_BHLK, valid_BL = vectors(4, 2, 9, 4), torch.rand(4, 9) < 0.7
    torch.manual_seed(0)
    alone, first, second = (Centroids(2, 2, 4, 0.9).double() for _ in range(3))
    for one in (first, second):
        one.load_state_dict(alone.state_dict())
    second.collect(x_BHLK[2:], *second(x_BHLK[2:]).max(2), valid_BL[2:])
    others = iter(second.sums)
    shared = step(first, x_BHLK[:2], valid_BL[:2], lambda own: own.add_(next(others)))
    assert (shared - step(alone, x_BHLK, valid_BL)).abs().max() < 1e-12


def test_a_centroid_that_has_nothing_near_it_is_put_on_a_token():
    x_BHLK, centroids = vectors(1, 1, 5, 4), Centroids(1, 3, 4, 0.9).double()
    centroids.mean_HCK.copy_(torch.stack([x_BHLK[0, 0, 0], *(-x_BHLK[0, 0].mean(0, keepdim=True)).expand(2, 4)])[None])
    step(centroids, x_BHLK[:, :, :1])
    assert torch.allclose(centroids(x_BHLK)[0, 0, :, 0], torch.ones(3, dtype=torch.float64))


def test_on_clustered_tokens_it_finds_what_a_window_misses():
    """Eight topics of 16 tokens each, met again after 112 tokens of the others."""
    topic_TD = torch.nn.functional.normalize(text(8)[0], dim=-1) * 6
    topics = torch.cat([torch.arange(8).repeat_interleave(16)] * 2)
    part = build(Routing.Config(heads=1, clusters=16, window=16, decay=0.5)).train()
    window = MultiHead.Config(heads=1, pattern={"kind": "window", "size": 16}).build(SLOT).double().eval()

    def read(seed):
        noise = torch.randn(256, 32, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        return (topic_TD[topics] + 0.3 * noise)[None]

    for taken in range(1, 20):
        part(read(taken), whole(256))
        after_step(part, taken)
    part.eval()
    cluster_N = clusters(part, read(0))[0, 0]
    assert all(len(topics[cluster_N == cluster].unique()) == 1 for cluster in cluster_N.unique())
    changed = read(0)
    changed[:, :128] += 0.1
    first = 128 + torch.arange(0, 128, 16)  # of each topic, the first token when it is met again
    moved, unmoved = (
        (one(changed, whole(256))[0] - one(read(0), whole(256))[0])[0, first[2:]].abs().amax(-1)
        for one in (part, window)
    )
    assert (moved > 1e-3).all()
    assert not unmoved.any()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"clusters": 0}, r"clusters: input should be greater than or equal to 1, got 0"),
        ({"window": -4}, r"window: input should be greater than or equal to 1, got -4"),
        ({"decay": 1.0}, r"decay: input should be less than 1, got 1.0"),
        ({"kv_heads": 2}, r"kv_heads=2: queries and keys of a head share its centroids"),
    ],
)
def test_what_makes_no_sense_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        Routing.Config(**{"heads": 4, **settings})


def test_what_does_not_fit_a_model_or_a_text_is_refused():
    for config, length, name in ((SMALL.but(window=64), 40, "window=64"), (SMALL.but(clusters=64), 40, "clusters=64")):
        with pytest.raises(ConfigError, match=f"p.{name} is more than the 40 tokens of a text; use at most 40"):
            around(config).check_length(length)
    with pytest.raises(ConfigError, match=r"look=both looks both ways, .* reads left to right; use look=back"):
        around(BOTH, causal=True)
    with pytest.raises(ConfigError, match="routing does not use position=rotary"):
        around(SMALL).but(position="rotary")
    with pytest.raises(ConfigError, match="heads of 1 number: normalised, all queries are 0"):
        around(SMALL.but(heads=32))
