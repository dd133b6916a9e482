"""The supernet: at every slot a sublayer of every letter, mixed by weights that are searched."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from pydantic import model_validator
from torch import Tensor, nn

from sublayer.nas.supernet import draw
from sublayer.nas.supernet.mix import mix
from sublayer.nn import layout as layouts
from sublayer.nn.config import ConfigError
from sublayer.nn.model import Model
from sublayer.nn.part import Work
from sublayer.nn.scene import Scene
from sublayer.nn.shared import SharedModules
from sublayer.nn.stack import Stack
from sublayer.nn.stack.base import init_weights

IDENTITY = "-"


class Supernet(Stack):
    """X_l = Σ_i m_{l,i}·F_i(X_{l−1}) (Mandava et al. 2020, eq. 6).

    F_i is a whole sublayer with residual and norm, as in the base; the identity has no weights and costs nothing. A
    sublayer with weight 0 is not run, but its state is updated. In training m is drawn, in eval mode it is the most
    probable path. `sublayers` and states are ordered by slot, then by letter.
    """

    class Config(Stack.Config, tag="supernet"):
        letters: str = "sf-"
        """The choices at each slot; - is the identity. The layout gives the number of slots."""

        @model_validator(mode="after")
        def _offered(self) -> Supernet.Config:
            check_letters(self.letters, self.alphabet)
            if self.vary:
                raise ValueError("vary: a supernet has every letter at every slot, so none varies; leave it out")
            return self

        @property
        def searches(self) -> bool:
            return True

        @property
        def slots(self) -> int:
            return len(layouts.expand(self.layout))

        @property
        def choices(self) -> str:
            """Letters in the order of the weights' columns; the identity, if it is one, is last."""
            return self.parted + (IDENTITY if IDENTITY in self.letters else "")

        @property
        def parted(self) -> str:
            """The letters without the identity."""
            return self.letters.replace(IDENTITY, "")

        def params(self, dim: int) -> int:
            """Parameters of all sublayers, and of the architecture."""
            shared, slot = self.shared_params(dim), self.slot(dim)
            each = sum(self.alphabet[letter].params(slot) + self.residual.params(dim) for letter in self.parted)
            return shared + self.slots * (each + len(self.choices))

        def flops(self, dim: int, work: Work) -> int:
            slot, residual = self.slot(dim), self.residual.flops(dim, work.length)
            return self.slots * sum(self.alphabet[letter].flops(slot, work) + residual for letter in self.parted)

        def state_size(self, dim: int, work: Work) -> int:
            slot = self.slot(dim)
            return self.slots * sum(self.alphabet[letter].state_size(slot, work) for letter in self.parted)

    preference_NC: nn.Parameter
    """The architecture parameters: N slots, C choices; uniform at first."""
    price_C: Tensor | None
    """What each choice adds to the loss, in nats."""

    def __init__(self, config: Config, dim: int) -> None:
        super().__init__()
        self.position = config.position.build(dim, config.head_dim(dim))
        parts = [(n, config.alphabet[letter]) for n in range(config.slots) for letter in config.parted]
        self.shared = SharedModules()
        slots = [(config.slot(dim, self.position, n, self.shared), part) for n, part in parts]
        self.sublayers = nn.ModuleList(config.residual.build(part.build(slot), slot) for slot, part in slots)
        self.final_norm = config.final_norm.build(dim)
        self.choices, self.width = config.choices, len(config.parted)
        self.preference_NC = nn.Parameter(torch.zeros(config.slots, len(config.choices)))
        self.register_buffer("price_C", None)
        self.draw: draw.Draw = partial(draw.shares, temperature=1.0)
        self.remembers = True
        """Whether a sublayer that is not run has to update its state."""
        init_weights(self, config, config.slots)

    def forward(
        self, x_BLD: Float[Tensor, "B L D"], scene: Scene, states: tuple[Any, ...] | None = None
    ) -> tuple[Float[Tensor, "B L D"], tuple[Any, ...]]:
        m_NC = self.draw(self.preference_NC) if self.training else draw.best(self.preference_NC)
        if self.training and self.price_C is not None:
            scene.add_loss("latency", (m_NC @ self.price_C).sum())
        after = []
        for n, shares in enumerate(m_NC.tolist()):
            made = {}
            for i in range(self.width):
                at = n * self.width + i
                sublayer, state = self.sublayers[at], states[at] if states else None
                if shares[i]:
                    made[i], state = sublayer(x_BLD, scene, state)
                else:
                    state = sublayer.skip(x_BLD, scene, state) if self.remembers else None  # pyright: ignore[reportCallIssue]
                after.append(state)
            x_BLD = mix(x_BLD, m_NC[n], shares, made)
        if m_NC.requires_grad and not x_BLD.requires_grad:
            x_BLD = x_BLD + 0.0 * m_NC.sum()  # a path of identities alone: its gradient is zero, not missing
        return self.final_norm(x_BLD), tuple(after)

    def freeze(self, states: tuple[Any, ...], scene: Scene) -> tuple[Any, ...]:
        return tuple(
            sublayer.freeze(state, scene)  # pyright: ignore[reportCallIssue]
            for sublayer, state in zip(self.sublayers, states, strict=bool(states))
        )

    @property
    def word(self) -> str:
        """The most probable choice at each slot."""
        return "".join(self.choices[i] for i in self.preference_NC.argmax(1).tolist())

    @property
    def entropy(self) -> float:
        """Mean entropy of the choices, as a share of the largest: 1 while uniform, 0 when decided."""
        p_NC = self.preference_NC.detach().double().softmax(1)
        return float(torch.special.entr(p_NC).sum(1).mean()) / math.log(len(self.choices))

    def price(self, seconds: Mapping[str, float], weight: float) -> None:
        """Add the expected latency, Σ_l Σ_i m_{l,i}·seconds_i, to the loss, `weight` nats a second."""
        prices = [weight * seconds.get(letter, 0.0) for letter in self.choices]
        self.price_C = torch.tensor(prices, device=self.preference_NC.device)


def check_letters(letters: str, alphabet: Mapping[str, Any]) -> None:
    for letter in letters.replace(IDENTITY, ""):
        if letter not in alphabet:
            raise ValueError(
                f"letters={letters}: the alphabet has no {letter!r}; it has {', '.join(alphabet)}, and - (identity)"
            )
    if len(letters) < 2 or len(set(letters)) < len(letters):
        raise ValueError(f"letters={letters}: give each choice once, and two or more, such as sf-")


def stack_of(config: Model.Config) -> Stack.Config:
    """The one stack of a model; ConfigError where it has several."""
    if len(config.stacks) != 1:
        raise ConfigError(f"{config.tag}: only a model with one stack can be searched; use a decoder or an encoder")
    return next(iter(config.stacks.values()))


def over(base: Model.Config, letters: str = "sf-") -> Model.Config:
    """A base's model with a supernet as its stack, with as many slots as its layout has sublayers."""
    stack = stack_of(base)
    try:
        check_letters(letters, stack.alphabet)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    parted, slots = letters.replace(IDENTITY, ""), len(layouts.expand(stack.layout))
    if slots < len(parted):
        raise ConfigError(
            f"layout={stack.layout}: {slots} sublayers are fewer than the letters {parted}; give more sublayers"
        )
    # The layout names all letters, so that impossible pairs of any of them are refused with the model.
    word = (parted * slots)[:slots]
    same = {name: getattr(stack, name) for name in ("alphabet", "vary", "residual", "position", "final_norm", "spread")}
    return base.but(stack=Supernet.Config(layout=layouts.spell(word), letters=letters, **same))
