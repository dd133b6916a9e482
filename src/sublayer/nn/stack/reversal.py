"""A pass of the reversible stack as one step of autograd: of the streams only the last values are stored.

The backward pass goes through the sublayers from last to first: it runs each branch again, with the random numbers it
had, subtracts what it gave from the stream, and takes the branch's own gradients. Gradients of weights, of a source and
of losses that parts add leave as gradients of this step, so that hooks on weights (DDP) fire as they always do.

It does not run, and the plain loop does: without a gradient; by slow twins; under torch.func and torch.compile; after a
state that has a gradient itself; where a sublayer has hooks or a forward of its own, which this would bypass (FSDP2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from sublayer.native.tensors import transformed
from sublayer.nn import paths
from sublayer.nn.hooked import hooked
from sublayer.nn.scene import Scene
from sublayer.nn.state import PartState, map_tensors

if TYPE_CHECKING:
    from sublayer.nn.stack.reversible import Reversible

States = tuple[Any, ...]


def serves(stack: Reversible, x_BLD: Tensor, states: States | None) -> bool:
    """Whether a pass can find its activations again, and has a gradient for which that pays."""
    if not torch.is_grad_enabled() or paths.slow() or transformed() or torch.compiler.is_compiling():
        return False
    if hooked(*stack.sublayers) or any(state.requires_grad for state in tensors(states)):
        return False
    return x_BLD.requires_grad or any(weight.requires_grad for weight in stack.parameters())


def run(stack: Reversible, x_BLD: Tensor, scene: Scene, states: States | None) -> tuple[Tensor, Tensor, States]:
    """Both streams after all sublayers, and the states; as `Reversible.loop`."""
    run = Pass(stack, x_BLD, scene, states)
    first_BLD, second_BLD, *others = Reversal.apply(run, x_BLD, scene.source_BSD, *run.weights)
    for name, loss in zip(run.losses, others, strict=False):
        scene.add_loss(name, loss)
    return first_BLD, second_BLD, run.after(others[len(run.losses) :])


class Pass:
    """What the backward pass needs to run every branch once more."""

    def __init__(self, stack: Reversible, x_BLD: Tensor, scene: Scene, states: States | None) -> None:
        self.stack, self.x_BLD, self.states, self._scene = stack, x_BLD, states, scene
        # Not what the scene collects: losses of this pass refer to its node, which refers to this, and are never freed.
        self._scene = self.fresh(scene.source_BSD)
        self.weights = [weight for weight in stack.parameters() if weight.requires_grad]
        self.draws = Draws(len(stack.sublayers), x_BLD.device)
        self.losses: list[str] = []
        self.found: States = ()
        """The states that sublayers returned, where `stack.carries`; else whether there was one."""
        self.attached: list[bool] = []
        """Which of their tensors have a gradient."""
        self.autocast = list(_autocast(x_BLD.device.type))
        self._made: States | None = None
        self._when = self._stamp()

    def fresh(self, source_BSD: Tensor | None) -> Scene:
        """The scene without what other branches have put into it: values of theirs may have gradients."""
        return replace(self._scene, source_BSD=source_BSD, losses={}, outputs={}, cached={}, _once={})

    def state(self, n: int) -> Any:
        return self.states[n] if self.states else None

    @contextmanager
    def settings(self) -> Iterator[None]:
        """Autocast as it was. Without its cache, which would give branches weights cast where there was no gradient."""
        with ExitStack() as opened:
            for kind, dtype, enabled in self.autocast:
                opened.enter_context(torch.autocast(kind, dtype, enabled, cache_enabled=False))
            yield

    @contextmanager
    def again(self) -> Iterator[None]:
        """Inside, branches can be run once more; the random generators outside do not notice."""
        with self.draws.apart(), self.settings():
            yield

    def after(self, carried: Sequence[Tensor]) -> States:
        """The states after the pass. Where training carries none on, nothing is stored until somebody asks."""
        found, self.found, rest = self.found, (), iter(carried)  # emptied for the same reason
        if self.stack.carries:
            return map_tensors(found, lambda _: next(rest))
        return tuple(Later(self, n) if there else None for n, there in enumerate(found))

    def made(self) -> States:
        """All states after the pass, by the plain loop, which also gives them their gradient."""
        if self._made is None:
            if self._stamp() != self._when:
                raise ValueError(
                    "state: the weights of a reversible stack, or its mode, were changed since the pass that this "
                    "state comes from; call state.detach() before the optimiser's step or before eval()"
                )
            with self.again(), torch.enable_grad():
                self.draws.restore(0)
                self._made = self.stack.loop(self.x_BLD, self.fresh(self._scene.source_BSD), self.states)[2]
        return self._made

    def _stamp(self) -> tuple[int, ...]:
        return self.stack.training, *(weight._version for weight in self.weights)


class Later(PartState):
    """A sublayer's state that nobody has asked for yet.

    Keys and values of all sublayers would take more room than all else that the stack stores, and a training that does
    not carry them on drops them. Who asks pays for the pass once more.
    """

    def __init__(self, run: Pass, n: int) -> None:
        self._run, self._n = run, n

    def made(self) -> Any:
        return self._run.made()[self._n]

    def map(self, change: Callable[[Tensor], Tensor]) -> Any:
        return map_tensors(self.made(), change)

    def select(self, rows: Tensor) -> Any:
        state = self.made()
        return state.select(rows) if isinstance(state, PartState) else self.map(lambda x: x.index_select(0, rows))


def made(states: States | None) -> States | None:
    """The states with those that were put off."""
    return states and tuple(state.made() if isinstance(state, Later) else state for state in states)


class Reversal(torch.autograd.Function):
    """x, source, weights → the two streams, the losses that parts add by name, and the tensors of carried states."""

    @staticmethod
    def forward(ctx: Any, run: Pass, x_BLD: Tensor, source_BSD: Tensor | None, *weights: Tensor) -> tuple[Tensor, ...]:
        stack, scene, found = run.stack, run.fresh(source_BSD), []
        first_BLD = second_BLD = x_BLD.to(torch.promote_types(x_BLD.dtype, torch.float32))
        with run.settings():
            for n in range(len(stack.sublayers)):
                run.draws.note(n)
                # With a graph, which is dropped at once, it shows which tensors of the state have a gradient.
                with torch.set_grad_enabled(stack.carries):
                    y_BLD, state = stack.branch(n, second_BLD.to(x_BLD.dtype), scene, run.state(n))
                run.attached += [tensor.requires_grad for tensor in tensors(state)] if stack.carries else []
                first_BLD, second_BLD = second_BLD, first_BLD + y_BLD.detach()
                found.append(map_tensors(state, torch.detach) if stack.carries else state is not None)
        run.found, run.losses = tuple(found), list(scene.losses)
        carried = tensors(run.found)
        ctx.mark_non_differentiable(*(one for one, attached in zip(carried, run.attached, strict=True) if not attached))
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(first_BLD, second_BLD, source_BSD, *weights)  # an error if they are changed meanwhile
        ctx.run = run
        return first_BLD, second_BLD, *(loss.detach() for loss in scene.losses.values()), *carried

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *to: Tensor | None) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        run: Pass = ctx.run
        first_BLD, second_BLD, source_BSD, *_ = ctx.saved_tensors
        back = Backward(run, source_BSD, to[2:])
        to_first, to_second = (torch.zeros_like(first_BLD) if one is None else one for one in to[:2])
        with run.again():
            for n in reversed(range(len(run.stack.sublayers))):
                run.draws.restore(n)
                y_BLD, to_x = back.branch(n, first_BLD, to_second)
                first_BLD, second_BLD = second_BLD - y_BLD, first_BLD
                to_first, to_second = to_second, to_first + to_x
        return None, (to_first + to_second).to(run.x_BLD.dtype), *back.slopes


class Backward:
    """Branches run once more, and the gradients that they give to the source and to the weights, added up."""

    def __init__(self, run: Pass, source_BSD: Tensor | None, to_others: Sequence[Tensor | None]) -> None:
        self.run, count = run, len(run.losses)
        self.to_losses = dict(zip(run.losses, to_others, strict=False))
        self.to_states = list(to_others[count:])
        self.needs_source = source_BSD is not None and source_BSD.requires_grad
        self.source_BSD = source_BSD
        # Made before anything else: what outlasts the pass, allocated between what does not, would leave holes in the
        # memory that nothing large fits into. With glibc's allocator they come to several times the activations.
        into = [source_BSD if self.needs_source else None, *run.weights]
        self.room = [None if one is None else torch.empty_like(one) for one in into]
        self.slopes: list[Tensor | None] = [None] * len(into)

    def branch(self, n: int, x_BLD: Tensor, to_BLD: Tensor) -> tuple[Tensor, Tensor]:
        """What sublayer n gave for x, and the gradient of x."""
        run, given = self.run, []
        branch = run.stack.drawn(n)
        scene = run.fresh(None if self.source_BSD is None else self.source_BSD.detach())
        for at, here in run.stack.pieces(n, scene):
            with torch.enable_grad():
                x_leaf = x_BLD[:, at].detach().requires_grad_()
                source = here.source_BSD.requires_grad_() if self.needs_source and here.source_BSD is not None else None
                y_BLD, state = branch(x_leaf.to(run.x_BLD.dtype), here, run.state(n))
            given.append((y_BLD.detach(), self._slopes(y_BLD, to_BLD[:, at], here, state, x_leaf, source)))
            here.losses.clear()
        if len(given) == 1:
            return given[0]
        y_BLD, to_x = (torch.cat(both, dim=1) for both in zip(*given, strict=True))
        return y_BLD, to_x

    def _slopes(
        self, y_BLD: Tensor, to_BLD: Tensor, scene: Scene, state: Any, x_BLD: Tensor, source_BSD: Tensor | None
    ) -> Tensor:
        """The gradient of x; those of the source and of the weights are added to what is there."""
        losses = [(loss, self.to_losses[name]) for name, loss in scene.losses.items()]
        carried = tensors(state) if self.run.stack.carries else []
        rest = len(self.to_states) - len(carried)
        mine, self.to_states = self.to_states[rest:], self.to_states[:rest]
        pairs = [(y_BLD, to_BLD.to(y_BLD.dtype)), *losses, *zip(carried, mine, strict=True)]
        pairs = [(out, to) for out, to in pairs if out.requires_grad and to is not None]
        if not pairs:
            return torch.zeros_like(x_BLD)
        outs, to = zip(*pairs, strict=True)
        sources = [] if source_BSD is None else [source_BSD]
        to_x, *others = torch.autograd.grad(outs, [x_BLD, *sources, *self.run.weights], to, allow_unused=True)
        for n, slope in enumerate(others, 1 - len(sources)):
            known, room = self.slopes[n], self.room[n]
            if slope is not None and room is not None:
                self.slopes[n] = room.copy_(slope) if known is None else known.add_(slope)
        return torch.zeros_like(x_BLD) if to_x is None else to_x


class Draws:
    """Where the random generators stood before each branch, the CPU's and the accelerator's."""

    def __init__(self, count: int, device: torch.device) -> None:
        self.device, self.accelerated = device, _accelerated(device)
        # One block from the start, for the reason why gradients have theirs.
        self.rows = [one.new_empty(count, *one.shape) for one in self._now()]

    def note(self, n: int) -> None:
        for rows, now in zip(self.rows, self._now(), strict=True):
            rows[n] = now

    def restore(self, n: int) -> None:
        cpu, *own = (rows[n].clone() for rows in self.rows)  # PyTorch reads a state from where its storage begins
        torch.set_rng_state(cpu)
        for state in own:
            torch.get_device_module(self.device).set_rng_state(state, self.device)

    def apart(self) -> Any:
        """Inside this context generators may be moved; after it they stand where they stood."""
        devices = [self.device] if self.accelerated else []
        return torch.random.fork_rng(devices, device_type=self.device.type if devices else "cuda")

    def _now(self) -> list[Tensor]:
        cpu = torch.get_rng_state()
        return [cpu, torch.get_device_module(self.device).get_rng_state(self.device)] if self.accelerated else [cpu]


def tensors(value: Any) -> list[Tensor]:
    """Every tensor inside states."""
    found: list[Tensor] = []
    map_tensors(value, lambda x: found.append(x) or x)
    return found


def _accelerated(device: torch.device) -> bool:
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return accelerator is not None and accelerator.type == device.type


def _autocast(device: str) -> Iterator[tuple[str, torch.dtype, bool]]:
    for kind in {device, "cpu"}:
        if torch.amp.is_autocast_available(kind):
            yield kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind)
