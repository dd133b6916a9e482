"""What a pass needs at least: never more than it takes, and what no machine has is refused before it is tried."""

import pytest
import torch

import sublayer
from sublayer.measurement import Setting, Worker, need, passes
from sublayer.measurement.allocations import allocated
from sublayer.nn.config import ConfigError

TWO_STACKS = {
    "encoder.s.heads": 2,
    "decoder.s.heads": 2,
    "decoder.c.heads": 2,
    "encoder.layout": "(sf)x2",
    "decoder.layout": "(scf)x2",
}
XL = {"s.memory.length": 50}


def small(name, **changes):
    if name in ("transformer", "shaw"):
        return sublayer.config(name, TWO_STACKS, dim=32, vocab=64)
    return sublayer.config(name, {"s.heads": 2, **changes}, dim=32, layout="(sf)x2", vocab=64)


@pytest.mark.parametrize(
    ("config", "setting"),
    [
        (small("gpt2"), Setting(length=70, batch=3)),
        (small("gpt2"), Setting(length=30, memory=90)),
        (small("gpt2", position="rotary", **{"s.pattern": "window", "s.pattern.size": 128}), Setting(length=200)),
        (small("gpt2", position="alibi"), Setting(length=150, batch=2)),
        (small("gpt2", **{"s.kv_heads": 1}), Setting(task="token", length=100)),
        (small("llama"), Setting(task="prefill", length=100, batch=2)),
        (small("transformer-xl-24", **XL), Setting(length=40, batch=2)),
        (small("transformer-xl-24", **XL), Setting(length=40, memory=120, frozen=True)),
        (small("transformer-xl-24", **XL), Setting(task="token", length=100)),
        (small("da-transformer"), Setting(task="prefill", length=150, batch=2)),
        (small("shaw"), Setting(task="prefill", length=150)),
        (small("transformer"), Setting(task="prefill", length=150)),
        (small("bert-base"), Setting(task="prefill", length=150, batch=2)),
    ],
)
@torch.inference_mode()
def test_a_pass_takes_no_less(config, setting):
    model, made = passes.build(config, "cpu"), []
    before = allocated(lambda: made.append(passes.make(model, setting)))
    run = allocated(made.pop().run)
    taken = max(before.peak, before.kept + run.peak)
    assert taken / 4 < need.activations(config, setting) <= taken


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (Setting(length=2**20, batch=2**16), r"^length=1048576, batch=65536: a pass needs [\d,.]+ GiB or more, and"),
        (Setting(length=8, memory=2**20, batch=2**16), r"^length=8, memory=1048576, batch=65536: a pass needs"),
    ],
)
def test_activations_that_no_machine_holds_are_refused(setting, said):
    with Worker(setting) as worker, pytest.raises(ConfigError, match=said):
        worker.read(small("llama"))


def test_what_fits_is_let_through(monkeypatch):
    config, setting = small("bert-base"), Setting(task="prefill", length=100)
    needed = 4 * config.cost().params + need.activations(config, setting)
    monkeypatch.setattr(need, "machine_memory", lambda: needed)
    need.check(config, setting)
    with pytest.raises(ConfigError, match="measure a smaller length, batch or model"):
        need.check(config, setting.but(length=101))
