"""Members that are wrong in ways no error shows: each is caught by the law that is about it, or is refused by name."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import sublayer
from sublayer.nn.attention import MultiHead, Pattern, Window
from sublayer.nn.attention.bands import Band
from sublayer.nn.attention.kernel import Kernel
from sublayer.nn.attention.pattern import Global, Union
from sublayer.nn.config import ConfigError
from sublayer.nn.memory import Cache
from sublayer.nn.part import Part
from sublayer.nn.position import Position
from sublayer.nn.position.base import distances
from sublayer.nn.stack import Plain
from sublayer.testing import LAWS, Case, LawBroken, around, check, small

GPT2 = small(sublayer.config("gpt2")).but(position="none")


def breaks(law, config, message=None, *, long=False):
    case = Case(config)
    with pytest.raises(LawBroken, match=message):
        LAWS[law](case.lengthened(LAWS[law].long) if long else case)


class Slope(Position):
    """A penalty by distance, as ALiBi has it, and nothing else."""

    class Config(Position.Config, tag="planted_slope"):
        def build_layer(self, dim, heads, head_dim, shared):
            return Slope()

    def bias(self, q_BHLK, scene, memory, scale, table):
        return -0.3 * distances(scene, memory)[:, None].to(q_BHLK.dtype).expand(-1, q_BHLK.shape[1], -1, -1)


WINDOWED = GPT2.but({"position": "planted_slope", "s.pattern": {"kind": "window", "size": 8}})


def test_a_bias_is_honoured_beyond_the_blocks():
    case = Case(WINDOWED)
    assert case.lengthened(300).by_bands
    assert LAWS["oracle"](case.lengthened(300)).holds


def test_a_bias_that_blocks_leave_out(monkeypatch):
    monkeypatch.setattr(Slope, "acts_on_scores", False)
    assert LAWS["oracle"](Case(WINDOWED)).holds, "too short to show"
    breaks("oracle", WINDOWED, long=True)


class Backwards(Slope):
    """Its biases by distance begin with the nearest key instead of the farthest."""

    class Config(Slope.Config, tag="planted_backwards"):
        def build_layer(self, dim, heads, head_dim, shared):
            return Backwards()

    def by_distance(self, q_BHLK, far, ahead, scale, table):
        return -0.3 * torch.arange(far + ahead + 1).to(q_BHLK.dtype)[None, None, None]


def test_biases_by_distance_in_the_wrong_order():
    config = WINDOWED.but(position="planted_backwards")
    assert LAWS["oracle"](Case(config)).holds, "too short to show"
    breaks("oracle", config, long=True)


class Shared(Plain):
    """The sublayers of one repeat, run twice: weights shared by depth."""

    class Config(Plain.Config, tag="planted_shared"):
        def params(self, dim):
            once = self.shared_params(dim)
            return once + (super().params(dim) - once) // 2

    def __init__(self, config, dim):
        super().__init__(config, dim)
        self.sublayers = self.sublayers[: len(self.sublayers) // 2]

    @property
    def order(self):
        return [*self.sublayers, *self.sublayers]


SHARED = small(sublayer.config("transformer-xl-base")).but({"stack.kind": "planted_shared"})


def test_weights_shared_by_depth_hold():
    for law in ("generation", "frozen memory", "segmentation", "cost = count", "oracle"):
        assert LAWS[law](Case(SHARED)).holds, law


def test_a_freeze_that_takes_each_sublayer_once(monkeypatch):
    def freeze(self, states, scene):
        once = [sublayer.freeze(state, scene) for sublayer, state in zip(self.sublayers, states, strict=False)]
        return (*once, *(None for _ in range(len(states) - len(once))))

    monkeypatch.setattr(Shared, "freeze", freeze)
    breaks("generation", SHARED, "by the engine")
    breaks("frozen memory", SHARED)


class Average(Part):
    """The mean of all tokens so far; it says that it attends, and has nothing to be compared with."""

    class Config(Part.Config, tag="planted_average"):
        @property
        def attends(self):
            return True

        def params(self, slot):
            return 0

        def flops(self, slot, work):
            return 0

        def state_size(self, slot, work):
            return slot.dim + 1

    def __init__(self, config, slot):
        super().__init__()

    def forward(self, x_BLD, scene, state=None):
        x_BLD = x_BLD if scene.valid_BL is None else x_BLD * scene.valid_BL[..., None]
        one_BL = (
            torch.ones_like(x_BLD[..., :1]) if scene.valid_BL is None else scene.valid_BL[..., None].to(x_BLD.dtype)
        )
        sum_BLD, count_BL = x_BLD.cumsum(1), one_BL.cumsum(1).expand(len(x_BLD), -1, 1)
        if state is not None:
            sum_BLD, count_BL = sum_BLD + state[0], count_BL + state[1]
        after = (sum_BLD[:, -1:], count_BL[:, -1:].to(x_BLD.dtype))
        return sum_BLD / count_BL.clamp(min=1), after


def test_an_attention_without_a_twin_is_not_said_to_equal_it():
    findings = check(Average.Config())
    assert str(findings["oracle"]) == "not applicable: p (planted_average) attends and has no slow twin"
    assert findings["segmentation"].holds
    assert findings["generation"].holds


def test_a_part_that_ignores_the_position_is_refused_by_name():
    findings = check(Average.Config())
    assert "planted_average does not use position=alibi" in findings.refused["position=alibi"]
    with pytest.raises(ConfigError, match="planted_average does not use position=rotary"):
        around(Average.Config()).but(position="rotary")


def test_a_part_that_claims_a_position_and_ignores_it(monkeypatch):
    monkeypatch.setattr(Average.Config, "honours", lambda self, position: True)
    breaks("position", around(Average.Config()).but(position="alibi"), "takes no notice of position=alibi")


def test_a_state_that_is_larger_than_counted(monkeypatch):
    monkeypatch.setattr(Average.Config, "state_size", lambda self, slot, work: slot.dim)
    breaks("state size", around(Average.Config()), "numbers, .* by the config")


class Strided(Pattern):
    """Every fourth token, and the last four."""

    class Config(Pattern.Config, tag="planted_strided"):
        @property
        def causal(self):
            return True

        def allows(self, i, j):
            return (i - j < 4) | (j % 4 == 3)

        def bands(self, length, memory, start):
            near = Window.Config(size=4).bands(length, memory, start)
            return (*near, self._columns(length, memory, start))

        def _columns(self, length, memory, start):
            first = start - memory
            keys = torch.arange(first, start + length)
            keys = keys[keys % 4 == 3]
            seen = torch.searchsorted(keys, torch.arange(start - 3, start + length - 3))
            return Band(torch.zeros_like(seen).int(), seen.int(), None, (keys - first).int())


STRIDED = GPT2.but({"s.pattern": "planted_strided"})


def test_a_pattern_with_bands_holds():
    case = Case(STRIDED)
    for name in ("pattern", "oracle", "segmentation", "generation", "cost = count"):
        assert LAWS[name](case).holds, name
        assert LAWS[name](case.lengthened(300)).holds, name


class Gappy(Pattern):
    class Config(Strided.Config, tag="planted_gappy"):
        def bands(self, length, memory, start):
            return super().bands(length, memory, start)[:1]


class OffByOne(Pattern):
    class Config(Strided.Config, tag="planted_off_by_one"):
        def _columns(self, length, memory, start):
            band = super()._columns(length, memory, start)
            return replace(band, hi=band.hi.add(1).clamp(max=len(band.keys)))


def test_bands_that_miss_a_key_or_hold_one_twice():
    config = GPT2.but({"s.pattern": "planted_gappy"})
    breaks("pattern", config, "miss a key")
    breaks("oracle", config, long=True)
    breaks("pattern", GPT2.but({"s.pattern": "planted_off_by_one"}), "twice|forbids")


class Leaky(Pattern):
    """A window, and two global tokens whose bands see the future too."""

    class Config(Pattern.Config, tag="planted_leaky"):
        @property
        def causal(self):
            return True

        def allows(self, i, j):
            return (i - j < 4) | (j < 2) | (i < 2)

        def bands(self, length, memory, start):
            members = Window.Config(size=4), Global.Config(first=2)
            return Union.Config(members=members).bands(length, memory, start)


def test_a_global_token_that_leaks_the_future():
    config = GPT2.but({"s.pattern": "planted_leaky"})
    breaks("pattern", config, "forbids")
    breaks("causality", config, "gradient", long=True)


def test_a_pattern_whose_mask_is_wider_than_its_predicate(monkeypatch):
    monkeypatch.setattr(
        Strided.Config,
        "allowed",
        lambda self, scene, memory, heads: sublayer.nn.attention.Causal.Config().allowed(scene, memory, heads),
    )
    breaks("pattern", STRIDED, "forbids has an effect")


class Chance(Pattern):
    """Earlier tokens drawn by chance; the draw depends on how long the text is."""

    class Config(Pattern.Config, tag="planted_chance"):
        @property
        def causal(self):
            return True

        def allows(self, i, j):
            drawn = torch.randint(2, (4096,), generator=torch.Generator().manual_seed(int(j.max())))
            return drawn[j].bool() | (i == j)


def test_random_blocks_that_change_with_length():
    breaks("segmentation", GPT2.but({"s.pattern": "planted_chance"}))


class Elu(Kernel):
    """Linear attention; `leak` subtracts the largest key of the whole segment, future included (as Performers may)."""

    leak = True

    class Config(Kernel.Config, tag="planted_elu"):
        own_state = True

        def flops(self, load):
            return 4 * load.heads * load.head_dim * load.pairs

        def state_size(self, heads, groups, head_dim):
            return groups * head_dim * (head_dim + 1)

    def forward(self, q_BHLK, k_BGMK, v_BGMK, view, state=None):
        if self.leak:
            k_BGMK = k_BGMK - 1e-3 * k_BGMK.amax((2, 3), keepdim=True)
        q, k = nn.functional.elu(q_BHLK) + 1, nn.functional.elu(k_BGMK) + 1
        valid_BM = view.scene.valid_BL
        k = k if valid_BM is None else k * valid_BM[:, None, :, None]
        weights = (q @ k.transpose(-1, -2)).tril()
        top, bottom = weights @ v_BGMK, weights.sum(-1, keepdim=True)
        if state is not None:
            top, bottom = top + q @ state[0], bottom + q @ state[1]
        after = (k.transpose(-1, -2) @ v_BGMK, k.sum(2)[..., None])
        after = after if state is None else (after[0] + state[0], after[1] + state[1])
        return top / bottom.clamp(min=1e-9), after


def test_a_kernel_that_looks_at_the_future_through_a_maximum(monkeypatch):
    config = GPT2.but({"s.kernel": "planted_elu"})
    breaks("causality", config, "gradient")
    monkeypatch.setattr(Elu, "leak", False)
    for name in ("causality", "segmentation", "generation", "padding", "state size", "rows"):
        assert LAWS[name](Case(config)).holds, name


class Scaled(Cache):
    """A cache that scales what it offers of the past by a learned number; `cut` takes it out of the graph."""

    cut = True

    class Config(Cache.Config, tag="planted_scaled"):
        def params(self, slot, groups, head_dim):
            return groups

    def __init__(self, config, slot, groups, head_dim):
        super().__init__(config, slot, groups, head_dim)
        self.scale = nn.Parameter(torch.ones(groups))

    def step(self, new, state, scene, limit):
        seen = super().step(new, state, scene, limit)
        scale = self.scale.detach() + 0 * self.scale if self.cut else self.scale
        past = seen.k_BGMK.shape[2] - scene.length
        k = torch.cat([seen.k_BGMK[:, :, :past] * scale[:, None, None], seen.k_BGMK[:, :, past:]], dim=2)
        return type(seen)(k, seen.v_BGMK, seen.state, seen.scene, seen.table)


def test_a_memory_whose_parameters_get_no_gradient(monkeypatch):
    config = GPT2.but({"s.memory": "planted_scaled"})
    breaks("gradients", config, "memory.scale has all zeros")
    monkeypatch.setattr(Scaled, "cut", False)
    assert LAWS["gradients"](Case(config)).holds


def test_a_twin_is_asked_of_every_attention():
    assert MultiHead.Config().build(GPT2.stack.slot(32)).twin
