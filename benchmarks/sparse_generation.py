"""Tokens a second and the size of the state as a text grows: sparse patterns and linear kernels beside dense.

Each pattern or kernel stands in the same decoder, with random weights, and writes more tokens after texts of several
lengths; all of them take turns in each round. A pattern of bounded reach should cost as much after 16,384 tokens as
after 256.

- native: one step in C, its state by the size of its buffers; eager: the model in PyTorch, its state as counted.
- fixed and bigbird store what any later query may see, which grows with the text, but read little of it.
- Kernels without softmax have a state of one size, and go through PyTorch only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import harness
import torch
from cyclopts import App, Parameter
from rich.console import Console
from rich.table import Table

import sublayer
from sublayer.generation.native import NativeReader
from sublayer.generation.reader import Reader, StateReader, read_prompts
from sublayer.generation.request import GenerationRequest
from sublayer.nn import paths
from sublayer.nn.attention.pattern import BigBird, Causal, Fixed, Longformer, Window
from sublayer.nn.model import Model

DIM, HEADS, LAYERS, VOCAB = 256, 4, 4, 256
DENSE = "dense"
GOAL = 2.0
"""Tokens a second of a kernel with a state of one size, against dense attention's, after the longest text."""
MEMBERS: dict[str, dict[str, Any]] = {
    DENSE: {"s.pattern": Causal.Config()},
    "window": {"s.pattern": Window.Config(size=128)},
    "longformer": {"s.pattern": Longformer.Config(size=128, smallest=32, globals=16)},
    "fixed": {"s.pattern": Fixed.Config(stride=128, summary=8)},
    "bigbird": {"s.pattern": BigBird.Config(block=32, globals=1, random=3, look="back")},
    "linear": {"s.kernel": "linear"},
    "retention": {"s.kernel": "retention"},
    "delta": {"s.kernel": "delta"},
    "performer": {"s.kernel": "performer"},
    "rfa": {"s.kernel": "rfa"},
}
ENGINES = ("native", "eager")


@dataclass(frozen=True)
class Contestant:
    """A text of some length, to which one engine adds."""

    member: str
    engine: str
    length: int
    reader: Reader

    def __str__(self) -> str:
        return f"{self.member}, {self.engine}, {self.length}"

    def write(self, tokens: int) -> None:
        id_1 = torch.zeros(1, dtype=torch.long)
        with torch.inference_mode():
            for _ in range(tokens):
                self.reader.read(id_1)

    @property
    def state_bytes(self) -> int:
        if isinstance(self.reader, NativeReader):
            return self.reader.step.state_bytes
        assert isinstance(self.reader, StateReader)
        return 4 * self.reader.state.size


def build(own: dict[str, Any]) -> Model:
    torch.manual_seed(0)
    changes: dict[str, Any] = {**own, "s.heads": HEADS, "f.inner": 4 * DIM, "position": "rotary"}
    return sublayer.config("gpt2", changes, dim=DIM, layout=f"(sf)x{LAYERS}", vocab=VOCAB).build().eval()


@torch.inference_mode()
def contestants(member: str, length: int) -> list[Contestant]:
    """Both engines after one and the same text; PyTorch alone where the step in C does not serve."""
    model, ids = build(MEMBERS[member]), torch.randint(VOCAB, (1, length), generator=torch.Generator().manual_seed(0))
    eager = read_prompts(GenerationRequest.of(model, ids, 10_000), native=False)
    assert isinstance(eager, StateReader)
    state = eager.state.fork()
    fast = paths.find("generation", model, state)
    assert fast is not None or "s.kernel" in MEMBERS[member], f"{member}: why is there no step in C?"
    readers = [] if fast is None else [fast.run(model, model, state, eager.scores_BV)]
    return [
        Contestant(member, engine, length, reader)
        for engine, reader in zip(ENGINES[-len(readers) - 1 :], (*readers, eager), strict=True)
    ]


def check(entered: list[Contestant], tokens: int = 4) -> None:
    """All engines give the same scores."""
    for one in entered:
        one.write(tokens)
    here, there = (entered[n].reader.scores_BV for n in (0, -1))
    assert torch.allclose(here, there, atol=1e-3 * float(there.abs().max())), (
        f"{entered[0]}: not those of {entered[-1]}"
    )


def table(found: dict[str, Any], lengths: tuple[int, ...]) -> Table:
    out = Table("member", "engine", *(f"{length:,}" for length in lengths), "last / first", "state, KiB")
    out.title = "tokens/s after so many tokens"
    for name, each in found.items():
        speeds = [each[str(length)]["tokens_a_second"] for length in lengths]
        sizes = " ".join(f"{each[str(length)]['state_bytes'] / 1024:,.0f}" for length in lengths)
        member, engine = name.split(", ")
        out.add_row(member, engine, *(f"{speed:,.0f}" for speed in speeds), f"{speeds[-1] / speeds[0]:.2f}", sizes)
    return out


app = App(name="sparse_generation", help=__doc__.split("\n")[0], version_flags=[])


@app.default
def main(
    *,
    lengths: Annotated[tuple[int, ...], Parameter(consume_multiple=True)] = (256, 1024, 4096, 16384),
    members: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = tuple(MEMBERS),
    tokens: int = 16,
    repeats: int = 7,
    seconds: float = 30.0,
    threads: int = 1,
    clock: Literal["wall", "cpu"] = "wall",
    json_out: Path | None = None,
) -> None:
    """One more token after texts of several lengths, by pattern or kernel.

    Parameters
    ----------
    lengths
        Tokens before those that are measured.
    members
        Which of them; all if not given.
    tokens
        Tokens of one timing.
    repeats
        Rounds at least.
    seconds
        Time for the rounds beyond those.
    threads
        Of both engines.
    clock
        wall, or cpu (processor time, for a busy machine; use one thread).
    json_out
        Where the result goes; benchmarks/results/sparse_generation.json if not given.
    """
    if unknown := set(members) - set(MEMBERS):
        raise SystemExit(f"members: {', '.join(sorted(unknown))} unknown; choose from {', '.join(MEMBERS)}")
    console = Console(width=None if Console().is_terminal else 140)
    torch.set_num_threads(threads)
    groups = [contestants(member, length) for member in members for length in lengths]
    for group in groups:
        check(group)
    entered = [one for group in groups for one in group]
    runs: dict[str, Callable[[], object]] = {str(one): lambda one=one: one.write(tokens) for one in entered}
    how: dict[str, Any] = {"repeats": repeats, "seconds": seconds, "warm_up": 1, "clock": harness.CLOCKS[clock]}
    race = harness.race(runs, str(entered[0]), **how)
    found: dict[str, Any] = {}
    for one in entered:
        low, high = race.quartiles(str(one))
        found.setdefault(f"{one.member}, {one.engine}", {})[str(one.length)] = {
            "tokens_a_second": tokens / race.median(str(one)),
            "quartiles": [tokens / high, tokens / low],
            "state_bytes": one.state_bytes,
        }
    console.print(table(found, lengths))
    longest = str(lengths[-1])
    fastest = max(
        (each[longest]["tokens_a_second"] for name, each in found.items() if name.startswith(DENSE)), default=0
    )
    for name, each in found.items() if fastest else ():
        if "s.kernel" in MEMBERS[name.split(", ")[0]]:
            ratio = each[longest]["tokens_a_second"] / fastest
            console.print(f"{name}: {ratio:.2f}× the faster dense engine after {longest} tokens; goal ≥ {GOAL}")
    report = {
        "machine": harness.fingerprint(),
        "model": {"dim": DIM, "heads": HEADS, "layers": LAYERS, "vocab": VOCAB},
        "members": {name: {key: str(value) for key, value in MEMBERS[name].items()} for name in members},
        "tokens": tokens,
        "rounds": race.rounds,
        "found": found,
    }
    console.print(f"written to {harness.write('sparse_generation', report, json_out)}")


if __name__ == "__main__":
    app()
