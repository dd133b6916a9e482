"""Position: how a model knows the order of tokens, as hooks that an attention or a stack calls.

| hook | where | who uses it |
| --- | --- | --- |
| embed(x) | once, before the first sublayer | sinusoidal, learned |
| query(q), key(k) | on projected queries and keys | RoPE; Transformer-XL's u |
| by_distance(q) | the same bias, for each distance | attention along bands |
| bias(q) | added to scaled scores | ALiBi, vectors on keys, Transformer-XL's positional terms |
| weigh(scores) | scores to scores, before the softmax | DA |
| value(weights) | added to the weighted values | Shaw's values |

The stack builds one Position for itself (`build`): it embeds, and owns what its layers share. Each attention builds its
own (`build_layer`), which has the other hooks.
"""

from __future__ import annotations

from typing import Any, ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from sublayer.nn.config import Config
from sublayer.nn.scene import Scene


class Position(nn.Module):
    """All hooks, each without effect; a kind overrides those it needs."""

    acts_on_weights: ClassVar[bool] = False
    """Whether `weigh` or `value` is overridden, so that the attention weights must be formed as a matrix. Derived."""
    acts_on_scores: ClassVar[bool] = False
    """Whether `bias`, `weigh` or `value` is overridden: queries and keys alone do not decide the weights. Derived."""
    biases_by_distance: ClassVar[bool] = False
    """Whether `by_distance` says all that it does to scores, which then need not form a matrix. Derived."""
    bias_is_constant: ClassVar[bool] = False
    """Whether `bias` depends neither on queries nor on parameters, so that all layers of a pass share one."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.acts_on_weights = cls.overrides("weigh", "value")
        cls.acts_on_scores = cls.overrides("bias", "weigh", "value")
        cls.biases_by_distance = cls.overrides("by_distance") and not cls.acts_on_weights

    @classmethod
    def overrides(cls, *hooks: str) -> bool:
        """Whether any of these hooks does something."""
        return any(getattr(cls, hook) is not getattr(Position, hook) for hook in hooks)

    class Config(Config, family="position"):
        embeds: ClassVar[bool] = False
        """Whether the stack's own parameters are an embedding of positions (costed apart), or part of the stack."""
        both_ways: ClassVar[bool] = True
        """Whether it is defined for later tokens as well as for earlier ones."""
        one_head_dim: ClassVar[bool] = False
        """Whether the layers share something of a head's size, so that all heads must have one size."""

        @property
        def end(self) -> int | None:
            """How many positions it has; None: no end."""
            return None

        def for_images(self, shape: tuple[int, int, int]) -> Position.Config:
            """The position for images of so many rows, columns and channels, a token each; itself where that makes no
            difference."""
            return self

        @property
        def acts_in_attention(self) -> bool:
            """Whether an attention must call its hooks for it to have any effect."""
            return self.owner.overrides("query", "key", "bias", "weigh", "value")

        def build(self, dim: int, head_dim: int) -> Position:
            """The stack's module; `head_dim` is that of its first attention."""
            return Position()

        def build_layer(self, dim: int, heads: int, head_dim: int, shared: Position | None) -> Position:
            """An attention's module; `shared` is the stack's."""
            return Position()

        def params(self, dim: int, head_dim: int) -> int:
            """Parameters of the stack's module."""
            return 0

        def layer_params(self, dim: int, heads: int, head_dim: int) -> int:
            """Parameters of each attention's module."""
            return 0

        def layer_flops(self, heads: int, head_dim: int, dim: int, length: int, attended: int, frozen: bool) -> int:
            """Matmul work it adds to each attention of `length` queries on `attended` keys."""
            return 0

        def check(self, dim: int, heads: int, head_dim: int) -> None:
            """Raise ValueError where it cannot work with these sizes."""

    def embed(self, x_BLD: Float[Tensor, "B L D"], scene: Scene) -> Float[Tensor, "B L D"]:
        return x_BLD

    def query(self, q_BHLK: Float[Tensor, "B H L K"], scene: Scene) -> Float[Tensor, "B H L K"]:
        return q_BHLK

    def key(self, k_BGMK: Float[Tensor, "B G M K"], scene: Scene, memory: int) -> Float[Tensor, "B G M K"]:
        """Keys of the last `memory` remembered tokens and of the segment."""
        return k_BGMK

    def table(self, distances: int) -> Tensor | None:
        """The layer's projection of distances 0 … distances − 1, which a frozen state stores."""
        return None

    def bias(
        self, q_BHLK: Float[Tensor, "B H L K"], scene: Scene, memory: int, scale: float, table: Tensor | None
    ) -> Float[Tensor, "#B H L M"] | None:
        return None

    def by_distance(
        self, q_BHLK: Float[Tensor, "B H L K"], far: int, ahead: int, scale: float, table: Tensor | None
    ) -> Float[Tensor, "#B H #L R"] | None:
        """The bias where positions are the order of tokens: on a key `far` tokens back, on the next …, on one `ahead`
        of the query. None: it is not known by distance alone."""
        return None

    def weigh(self, scores_BHLM: Float[Tensor, "B H L M"], scene: Scene, memory: int) -> Float[Tensor, "B H L M"]:
        return scores_BHLM

    def value(self, weights_BHLM: Float[Tensor, "B H L M"], scene: Scene, memory: int) -> Tensor | None:
        return None


def distances(scene: Scene, memory: int) -> Tensor:
    """i − j for every query and key, (B or 1, L, M); computed once per pass."""
    return scene.once(("distances", memory), lambda: scene.i_BL[:, :, None] - scene.positions(memory)[:, None, :])


def farthest(scene: Scene, memory: int) -> int:
    """The largest of these distances, or a bound that the memory knows without looking."""
    return int(distances(scene, memory).max()) if scene.far is None else scene.far + scene.length - 1
