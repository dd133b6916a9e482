"""The passes that are timed: over a segment, over a prompt, or over one more token."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from sublayer.generation.reader import read_prompts
from sublayer.generation.request import GenerationRequest
from sublayer.measurement.setting import STEPS, Setting
from sublayer.nn.model import Model
from sublayer.nn.state import State

NOISE = 1 << 16
"""Random numbers that fill all weights, repeated; their values do not matter unless they are denormal or huge."""


class Pass:
    """Abstract: `run` is measured, first at once and then after each `prepare`, which is not measured."""

    def __init__(self, model: Model, setting: Setting) -> None:
        self.model, self.setting = model, setting
        self.vocab = common(model.config)

    def prepare(self) -> None: ...

    def run(self) -> object:
        raise NotImplementedError

    def draw(self, length: int) -> Tensor:
        """Random ids, B rows."""
        return torch.randint(self.vocab, (self.setting.batch, length), device=self.setting.device)


class Segment(Pass):
    """New tokens after remembered ones, each scored.

    A model with a bounded state continues from run to run, as in use; one whose state grows starts from a copy.
    """

    def __init__(self, model: Model, setting: Setting) -> None:
        super().__init__(model, setting)
        self.ids_BL, self.targets_BL = self.draw(setting.length), self.draw(setting.length)
        self._state: State | None = None
        if memory := setting.remembered(model.config):
            _, state = model(self.draw(memory))
            self._state = model.frozen(state) if setting.frozen else state
        self._goes_on = bool(memory) and forgets(model.config)
        self._next = self._state

    def prepare(self) -> None:
        if self._state is not None and not self._goes_on:
            self._next = self._state.fork()

    def run(self) -> object:
        h_BLD, after = self.model(self.ids_BL, self._next)
        self._next = after if self._goes_on else None
        return self.model.head.nats(h_BLD, self.targets_BL), after


class Prefill(Pass):
    """A prompt, and the scores of the next token; for a model that does not write, the scores of all tokens."""

    def __init__(self, model: Model, setting: Setting) -> None:
        super().__init__(model, setting)
        self.ids_BL = self.draw(setting.length)

    def run(self) -> object:
        config = self.model.config
        state = self.model.start(self.ids_BL) if config.needs_source else None
        h_BLD, state = self.model(self.ids_BL, state)
        return self.model.head(h_BLD[:, -1] if config.writes else h_BLD), state


class Token(Pass):
    """One more token, as the generation engine computes it."""

    def __init__(self, model: Model, setting: Setting) -> None:
        super().__init__(model, setting)
        self.prompts_BL, self.ids_B = self.draw(setting.length), self.draw(1)[:, 0]
        self._begin()

    def _begin(self) -> None:
        self.reader, self.steps = read_prompts(GenerationRequest.of(self.model, self.prompts_BL, STEPS), native=True), 0

    def prepare(self) -> None:
        if self.steps >= STEPS:
            self._begin()

    def run(self) -> object:
        self.reader.read(self.ids_B)
        self.steps += 1
        return self.reader.scores_BV


PASSES: dict[str, Any] = {"segment": Segment, "prefill": Prefill, "token": Token}


def build(config: Model.Config, device: str) -> Model:
    """The model of a config, in eval mode on the device, with arbitrary weights."""
    with _WithoutInit():
        model = config.build()
    _fill(model)
    return model.to(device).eval()


def make(model: Model, setting: Setting) -> Pass:
    return PASSES[setting.task](model, setting)


def forgets(config: Model.Config) -> bool:
    """Whether it can read without end: its state is bounded, and its positions are not."""
    return config.bounded and config.end is None


def common(config: Model.Config) -> int:
    """How many ids to draw from: of an adaptive softmax only the frequent ones, as most tokens of a text are."""
    cutoffs = getattr(getattr(config, "head", None), "cutoffs", ())
    return min(config.vocab, *(cutoffs[:1] or (config.vocab,)))


def weights(model: Model) -> int:
    """Bytes of parameters and buffers; tied ones count once."""
    storages = [tensor.untyped_storage() for tensor in (*model.parameters(), *model.buffers())]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


class _WithoutInit(TorchFunctionMode):
    """Leaves new weights uninitialised: drawing them takes longer than measuring."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", "") == "torch.nn.init":
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return func(*args, **kwargs)


@torch.no_grad()
def _fill(model: Model) -> None:
    noise = 0.02 * torch.randn(NOISE, generator=torch.Generator().manual_seed(0))
    for parameter in model.parameters():
        for piece in parameter.view(-1).split(NOISE):
            piece.copy_(noise[: len(piece)])
