"""Keys and values become few slots; looking back, only those of finished blocks do."""

import pytest
import torch
from torch import nn

import sublayer
from sublayer.nn import paths
from sublayer.nn.attention import MultiHead, native, staircase
from sublayer.nn.attention.kernel import Linformer, LinformerCausal
from sublayer.nn.attention.staircase import Staircase
from sublayer.nn.config import ConfigError
from sublayer.nn.model import Model
from sublayer.nn.part import Slot, Work
from sublayer.nn.scene import Scene
from sublayer.testing import LAWS, Case, LawBroken
from sublayer.testing.laws.counts import count_flops
from sublayer.testing.surroundings import DECODER, ENCODER, _translator

SLOT = Slot(32)
FULL = {"heads": 4, "pattern": "full", "memory": "none"}


def encoder(**kernel):
    return Model.Config.parse(ENCODER).but({"s.kernel": {"kind": "linformer", "limit": 160, "rank": 5, **kernel}})


def decoder(**kernel):
    return Model.Config.parse(DECODER).but({"s.kernel": {"kind": "linformer_causal", "rank": 3, "block": 8, **kernel}})


def attention(kernel, **settings):
    return MultiHead.Config.parse({"kind": "multihead", "heads": 4, "kernel": kernel, **settings}).build(SLOT).double()


def text(length, batch=1, dim=32):
    return torch.randn(batch, length, dim, generator=torch.Generator().manual_seed(length), dtype=torch.float64)


def whole(length):
    return Scene(torch.arange(length)[None])


def padded(valid_BL):
    return Scene((valid_BL.cumsum(1) - 1).clamp(min=0), valid_BL=valid_BL)


def effects(part, length):
    """For each query, on which tokens its output depends."""
    x_1LD = text(length).requires_grad_()
    y_LD = part(x_1LD, whole(length))[0][0]
    slopes = (torch.autograd.grad(y_D.sum(), x_1LD, retain_graph=True)[0] for y_D in y_LD)
    return torch.stack([slope[0].abs().amax(-1) > 0 for slope in slopes])


@torch.no_grad()
def with_identities(part):
    for weight in part.kernel.parameters():
        weight.copy_(torch.eye(weight.shape[-1]))
    return part


def softmax_of(part, **settings):
    dense = attention("softmax", **settings)
    dense.load_state_dict({name: x for name, x in part.state_dict().items() if not name.startswith("kernel.")})
    return dense


@pytest.mark.parametrize("kv_heads", [None, 2])
def test_with_the_identity_it_is_exact_attention(kv_heads):
    settings = {**FULL, "kv_heads": kv_heads}
    part = with_identities(attention(Linformer.Config(rank=11, limit=11), **settings))
    assert (part(text(11), whole(11))[0] - softmax_of(part, **settings)(text(11), whole(11))[0]).abs().max() < 1e-12


@pytest.mark.parametrize("how", ["mean", "max"])
def test_with_windows_of_one_token_it_is_exact_attention(how):
    part = attention(Linformer.Config(rank=11, how=how), **FULL)
    assert (part(text(11), whole(11))[0] - softmax_of(part, **FULL)(text(11), whole(11))[0]).abs().max() < 1e-12


@pytest.mark.parametrize("share", ["none", "heads", "keys_values"])
def test_blocks_that_are_not_compressed_are_exact_attention(share):
    part = with_identities(attention(LinformerCausal.Config(rank=8, block=8, share=share)))
    assert (part(text(150), whole(150))[0] - softmax_of(part)(text(150), whole(150))[0]).abs().max() < 1e-12


@pytest.mark.parametrize("law", ["cost = count", "gradients", "padding", "padded loss", "oracle"])
@pytest.mark.parametrize(
    "kernel",
    [
        {"how": "mean"},
        {"how": "max"},
        {"how": "convolution"},
        {"how": "convolution", "share": "keys_values"},
        {"share": "heads"},
        {"share": "keys_values"},
        {"share": "layers"},
        {"how": "convolution", "share": "layers"},
    ],
    ids=lambda kernel: " ".join(kernel.values()),
)
def test_each_way_to_compress_obeys_the_laws(law, kernel):
    case = Case(encoder(**kernel).but({"s.kv_heads": 2, "position": "rotary"}))
    assert LAWS[law](case).holds
    if LAWS[law].long:
        LAWS[law](case.lengthened(LAWS[law].long))


@pytest.mark.parametrize(
    "law", ["causality", "segmentation", "padding", "rows", "state is a value", "state size", "oracle", "generation"]
)
@pytest.mark.parametrize("share", ["heads", "keys_values", "layers"])
def test_shared_matrices_obey_the_laws_looking_back(law, share):
    case = Case(decoder(share=share).but({"s.kv_heads": 2, "position": "rotary"}))
    assert LAWS[law](case).holds
    if LAWS[law].long:
        LAWS[law](case.lengthened(LAWS[law].long))


def test_the_tokens_of_a_finished_block_leave_no_room_behind():
    case = Case(decoder(rank=16, block=128)).lengthened(137)
    assert LAWS["state size"](case).holds


def test_a_block_that_is_compressed_before_it_is_finished_leaks(monkeypatch):
    sees = Staircase.sees

    def too_early(self, queries):
        seen_Q, lo_Q = sees(self, queries)
        return seen_Q + self.each, lo_Q

    case = Case(decoder(rank=2, block=4))
    assert LAWS["causality"](case).holds
    monkeypatch.setattr(Staircase, "sees", too_early)
    with pytest.raises(LawBroken, match="causality"):
        LAWS["causality"](case)


def test_a_query_sees_finished_blocks_and_its_own_up_to_itself():
    part = attention(LinformerCausal.Config(rank=2, block=4))
    assert torch.equal(effects(part, 11), torch.ones(11, 11).tril().bool())
    nn.init.zeros_(part.kernel.weights.key)
    nn.init.zeros_(part.kernel.weights.value)
    expected_LM = torch.block_diag(*[torch.ones(n, n) for n in (4, 4, 3)]).tril().bool()
    assert torch.equal(effects(part, 11), expected_LM)


def test_blocks_do_not_move_with_the_length():
    part = attention(LinformerCausal.Config(rank=2, block=4))
    x_1LD = text(14)
    longest = part(x_1LD, whole(14))[0]
    for length in range(1, 14):
        assert (part(x_1LD[:, :length], whole(length))[0] - longest[:, :length]).abs().max() < 1e-12


def test_without_memory_each_segment_is_a_text():
    part = attention(LinformerCausal.Config(rank=2, block=4), memory="none")
    x_1LD = text(6)
    alone, state = part(x_1LD, whole(6))
    assert state is None
    assert torch.equal(part(x_1LD, Scene(torch.arange(7, 13)[None], 7))[0], alone)


def compress(how, length, rank=3, limit=9, count=None, share="none"):
    kernel = Linformer.Config(rank=rank, limit=limit, how=how, share=share).build(SLOT, 4, 4, 8).double()
    x_BGTK = torch.randn(1 if count is None else len(count), 4, length, 8, dtype=torch.float64)
    if count is not None:
        count = torch.tensor(count)
        x_BGTK = x_BGTK * (torch.arange(length) < count[:, None])[:, None, :, None]
    weight = kernel.weights.key if kernel.weights else None
    slots_BGnK = kernel.compress(x_BGTK, count, weight)
    return x_BGTK, slots_BGnK, None if count is None else kernel.real(count, slots_BGnK.shape[2]), weight


@pytest.mark.parametrize(("length", "windows"), [(7, (3, 3, 1)), (4, (2, 2)), (2, (1, 1)), (9, (3, 3, 3))])
def test_pooling_cuts_the_text_in_windows_of_one_size(length, windows):
    x, found, _, _ = compress("mean", length)
    expected = torch.stack([part.mean(2) for part in x.split(windows, dim=2)], dim=2)
    assert (found - expected).abs().max() < 1e-12
    x, found, _, _ = compress("max", length)
    assert torch.equal(found, torch.stack([part.amax(2) for part in x.split(windows, dim=2)], dim=2))


@pytest.mark.parametrize(("length", "windows"), [(7, (3, 3, 1)), (4, (3, 1)), (2, (2,))])
def test_a_convolution_has_windows_whatever_the_length(length, windows):
    x, found, _, weight = compress("convolution", length)
    parts = zip(x.split(windows, dim=2), windows, strict=True)
    expected = torch.stack([(part * weight[:, :w]).sum(2) for part, w in parts], dim=2)
    assert (found - expected).abs().max() < 1e-12


@pytest.mark.parametrize("how", ["learned", "mean", "max", "convolution"])
def test_rows_of_other_lengths_become_the_slots_they_become_alone(how):
    x, found, valid_Bn, weight = compress(how, 9, count=[9, 7, 1, 0])
    kernel = Linformer.Config(rank=3, limit=9, how=how).build(SLOT, 4, 4, 8)
    for row, count in enumerate([9, 7, 1]):
        alone = kernel.compress(x[row : row + 1, :, :count], None, weight)
        assert valid_Bn[row].sum() == alone.shape[2]
        assert (found[row, :, : alone.shape[2]] - alone[0]).abs().max() < 1e-12
    assert not valid_Bn[3].any()
    assert not found[3].any()


@pytest.mark.parametrize("how", ["learned", "mean", "max", "convolution"])
def test_a_row_that_is_all_padding_gives_zeros(how):
    part = attention(Linformer.Config(rank=3, limit=9, how=how), **FULL, bias=False)
    y_BLD, _ = part(text(7, 2), padded(torch.tensor([[False] * 7, [False] * 2 + [True] * 5])))
    assert not y_BLD[0].any()
    assert y_BLD[1].isfinite().all()


@pytest.mark.parametrize(
    ("share", "matrices"), [("none", 8), ("heads", 2), ("keys_values", 1)], ids=["none", "heads", "keys_values"]
)
def test_what_is_shared_is_counted_once(share, matrices):
    assert Linformer.Config(rank=5, limit=20, share=share).params(SLOT, 4, 4, 8) == matrices * 100
    convolution = Linformer.Config(rank=5, limit=20, share=share, how="convolution")
    assert convolution.params(SLOT, 4, 4, 8) == matrices * 4 * 8
    assert LinformerCausal.Config(rank=5, block=20, share=share).params(SLOT, 4, 4, 8) == matrices * 100


def test_work_is_counted_for_texts_of_several_chunks():
    config = decoder(rank=16, block=128)
    with torch.device("meta"):
        model = config.build().eval()
    for length, memory in ((150, 0), (70, 64), (64, 65), (1, 200), (200, 250)):
        work = config.cost(length, memory).flops
        expected = work.embedding + work.stack + work.head
        assert abs(count_flops(model, length, memory) - expected) < 0.002 * expected


def test_state_and_work_grow_by_slots():
    dense, ours = (
        MultiHead.Config(heads=4),
        MultiHead.Config(heads=4, kernel=LinformerCausal.Config(rank=16, block=128)),
    )
    assert ours.state_size(SLOT, Work(1, 127)) == 2 * 32 * 16
    assert dense.state_size(SLOT, Work(0, 12_800)) == 8 * ours.state_size(SLOT, Work(0, 12_800))
    assert dense.flops(SLOT, Work(12_800)) > 5 * ours.flops(SLOT, Work(12_800))
    assert not ours.bounded


def test_work_of_an_encoder_is_linear_in_the_length():
    config = MultiHead.Config.parse({"kind": "multihead", **FULL, "kernel": "linformer"})
    assert config.flops(SLOT, Work(512)) == 4 * config.flops(SLOT, Work(128))


def test_c_and_pytorch_agree_in_values_and_gradients():
    kernel = LinformerCausal.Config(rank=4, block=24)
    part = MultiHead.Config(heads=2, kv_heads=1, kernel=kernel).build(Slot(64))
    x_BLD = text(400, 2, 64).float()
    found = {}
    for slow in (False, True):
        assert paths.find(staircase.JOB, *[torch.zeros(2, 2, 400, 32)] * 3, Staircase(3, 3, 0, 3, 2), None, 0.0)
        with pytest.MonkeyPatch.context() as patch:
            if slow:
                patch.setattr(native, "serves", lambda *call: False)
            valid_BL = torch.arange(400) >= torch.tensor([[0], [11]])
            part.zero_grad()
            y_BLD = part(x_BLD, padded(valid_BL))[0]
            y_BLD[valid_BL].square().sum().backward()
            found[slow] = [y_BLD[valid_BL].detach(), *(weight.grad.clone() for weight in part.parameters())]
    for fast, plain in zip(*found.values(), strict=True):
        assert (fast - plain).abs().max() < 1e-5 * plain.abs().max().clamp(min=1)


def test_layers_may_have_ranks_of_their_own():
    model = encoder().but({"s.kernel.rank": [12, 7]}).build()
    assert [part.kernel.weights.key.shape for part in model.modules() if isinstance(part, MultiHead)] == [
        (4, 12, 160),
        (4, 7, 160),
    ]


def test_the_paper_shares_one_matrix_in_each_layer():
    cost = sublayer.config("linformer").cost()
    exact = sublayer.config("linformer", {"s.kernel": "softmax"}).cost()
    assert cost.params - exact.params == 12 * 256 * 512
    by_heads = sublayer.config("linformer", {"s.kernel.share": "heads"}).cost()
    assert by_heads.params - exact.params == 24 * 256 * 512


# Shared by the layers of a stack


def test_one_matrix_serves_all_layers_and_is_counted_and_saved_once():
    config = encoder(rank=5, share="layers")
    model = config.build()
    kernels = [part.kernel for part in model.modules() if isinstance(part, MultiHead)]
    assert len(kernels) == 2
    assert kernels[0].weights is kernels[1].weights is model.stack.shared["linformer_5x160"]
    assert config.cost().params - encoder(rank=5, how="mean").cost().params == 5 * 160
    assert sum("linformer" in name for name in model.state_dict()) == 1


def test_layers_share_what_has_one_shape():
    config = encoder(share="layers").but({"layout": "(sf)x3", "s.kernel.rank": [12, 7, 12]})
    model = config.build()
    assert list(model.stack.shared) == ["linformer_12x160", "linformer_7x160"]
    assert config.cost().params == sum(weight.numel() for weight in model.parameters())


# Cross-attention


def translator(**kernel):
    made = {"kind": "linformer", "limit": 160, "rank": 4, **kernel}
    return Model.Config.parse(_translator()).but({"decoder.c.kernel": made, "decoder.c.kv_heads": 2})


@pytest.mark.parametrize(
    "law", ["cost = count", "gradients", "segmentation", "padding", "rows", "state size", "oracle"]
)
@pytest.mark.parametrize("kernel", [{}, {"how": "max"}, {"share": "layers"}], ids=str)
def test_a_compressed_source_obeys_the_laws(law, kernel):
    assert LAWS[law](Case(translator(**kernel))).holds


@torch.no_grad()
def test_a_source_that_is_not_compressed_is_read_as_it_is():
    ours = translator(limit=7, rank=7, share="layers").build().double()
    exact = translator().but({"decoder.c.kernel": "softmax"}).build().double()
    ours.decoder.shared["linformer_7x7"].key.copy_(torch.eye(7))
    exact.load_state_dict({name: x for name, x in ours.state_dict().items() if "shared" not in name})
    source, ids = torch.arange(14).view(2, 7), torch.arange(6).view(2, 3)
    found = [model(ids, model.start(source))[0] for model in (ours, exact)]
    assert (found[0] - found[1]).abs().max() < 1e-12


def test_of_a_long_source_only_the_slots_are_stored():
    ours, exact = translator(), translator().but({"decoder.c.kernel": "softmax"})
    assert exact.state_size(1, 0, 160) - ours.state_size(1, 0, 160) == 2 * 2 * 2 * 8 * (160 - 4)
    model = ours.build()
    with pytest.raises(ValueError, match=r"texts of up to limit=160 tokens, got 161; set kernel.limit=161"):
        model(torch.zeros(1, 1, dtype=torch.long), model.start(torch.zeros(1, 161, dtype=torch.long)))
    with pytest.raises(ConfigError, match="kernel=performer cannot read a source; use kernel=softmax or linformer"):
        ours.but({"decoder.c.kernel": "performer"})


# Texts that are too short


def test_gradients_are_asked_of_texts_that_are_long_enough(monkeypatch):
    case = Case(Model.Config.parse(DECODER).but({"s.kernel": "linformer_causal"}))
    assert LAWS["gradients"](case).holds
    monkeypatch.setattr(LinformerCausal.Config, "shortest_text", 1)
    with pytest.raises(LawBroken, match=r"gradients: .*kernel.weights.key"):
        LAWS["gradients"](case)


@pytest.mark.parametrize(
    ("config", "length", "message"),
    [
        (encoder(rank=12), 11, r"^s\.kernel\.rank=12 is longer than texts of 11 tokens, .* use a rank up to 11, or "),
        (encoder(rank=12, how="mean"), 11, "rank=12 is longer than texts of 11 tokens"),
        (decoder(block=8), 8, r"^s\.kernel\.block=8: no token of a text of 8 .* use a block up to 7, or longer texts$"),
    ],
)
def test_a_text_too_short_to_be_compressed_is_refused(config, length, message):
    config.check_length(length + 1)
    with pytest.raises(ConfigError, match=message):
        config.check_length(length)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"s.kernel": "linformer"},
            "mixes all tokens, the future included; use kernel=linformer_causal, or pattern=full",
        ),
        ({"s.kernel": {"kind": "linformer_causal", "rank": 9, "block": 8}}, "rank=9: blocks of block=8 .* up to 8"),
        ({"s.kernel": "linformer_causal", "position": "alibi"}, "multihead does not use position=alibi"),
        ({"s.kernel": "linformer_causal", "s.pattern": "window"}, "pattern=window hides some of it"),
    ],
)
def test_what_cannot_be_is_refused_in_a_decoder(change, message):
    with pytest.raises(ConfigError, match=message):
        Model.Config.parse(DECODER).but(change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"s.kernel": {"kind": "linformer", "rank": 9, "limit": 8}}, "rank=9: texts of limit=8 .* a rank up to 8"),
        ({"s.kernel": {"kind": "linformer", "how": "max", "share": "heads"}}, "how=max learns nothing to be shared"),
        (
            {"s.kernel": "linformer", "s.pattern": {"kind": "window", "look": "both"}},
            "pattern=window hides some of them",
        ),
        ({"s.kernel": "linformer_causal"}, "reads from left to right, but pattern=full .* or kernel=linformer"),
    ],
)
def test_what_cannot_be_is_refused_in_an_encoder(change, message):
    with pytest.raises(ConfigError, match=message):
        Model.Config.parse(ENCODER).but(change)


@pytest.mark.parametrize("how", ["learned", "convolution"])
def test_a_text_beyond_the_limit_is_refused_in_one_line(how):
    config = encoder(limit=10, how=how)
    ids = torch.zeros(1, 11, dtype=torch.long)
    message = r"^.*texts of up to limit=10 tokens, got 11; set kernel.limit=11 and train, or use shorter texts$"
    with pytest.raises(ValueError, match=message):
        config.build()(ids)
    with pytest.raises(ValueError, match=message):
        config.check_length(11)
    valid = torch.arange(11)[None] > 0
    assert config.build()(ids, valid_BL=valid)[0].shape[1] == 11


def test_means_have_no_limit():
    config = encoder(limit=10, how="mean")
    config.check_length(50)
    assert config.build()(torch.zeros(1, 50, dtype=torch.long))[0].isfinite().all()


def test_show_names_the_path_of_either_kernel():
    wide = Slot(64)
    full = MultiHead.Config.parse({"kind": "multihead", **FULL, "kernel": "linformer"})
    for config in (full, MultiHead.Config(heads=4, kernel=LinformerCausal.Config())):
        assert config.build(wide).path("training").path in ("C attention", "PyTorch's attention")
