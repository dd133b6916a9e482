"""Compose a small Transformer-XL by name, count its cost, check it, and train it on the source of Python's own library.

Everything after `config.build()` is plain PyTorch; half a minute on two cores.
"""

import math
import sysconfig
import zlib
from collections.abc import Iterator
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table
from torch import Tensor

import sublayer
from sublayer.nn.model import Decoder
from sublayer.testing import LAWS, Trial

STEPS, BATCH, LENGTH, HELD_OUT = 200, 16, 64, 2**16
PROMPT = b"class Reader:\n    def __init__(self, name):\n        self.name = name\n\n    def "
console = Console(highlight=False)


def compose() -> Decoder.Config:
    """The byte model of Transformer-XL, made small: three attentions, two feed-forwards after each."""
    changes = {"s.heads": 3, "s.memory.length": LENGTH, "f.inner": 384, "residual": "pre_norm", "final_norm": "layer"}
    return sublayer.config("transformer-xl-24", {**changes, "embedding.dropout": 0.0}, dim=96, layout="(sff)x3")


def tell(*rows: tuple[str, str]) -> None:
    table = Table.grid("what", Column("how much", justify="right"), padding=(0, 3))
    for row in rows:
        table.add_row(*row)
    console.print(table)


def read_bytes() -> Tensor:
    """The modules at the top of the standard library, one after another: a few megabytes of Python."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    return torch.frombuffer(bytearray(b"".join(file.read_bytes() for file in files)), dtype=torch.uint8)


def segments(data: Tensor, batch: int) -> Iterator[tuple[Tensor, Tensor]]:
    """The data as `batch` streams side by side, a segment at a time, with the byte after each as its target."""
    streams = data[: len(data) // batch * batch].view(batch, -1).long()
    for start in range(0, streams.shape[1] - 1, LENGTH):
        window = streams[:, start : start + LENGTH + 1]
        yield window[:, :-1], window[:, 1:]


def train(model: Decoder, data: Tensor) -> None:
    """Segment after segment; the state carries what earlier ones left in memory."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=4e-3, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, total_steps=STEPS, pct_start=0.1)
    state, columns = None, (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=STEPS)
        for step, (ids, targets) in zip(range(1, STEPS + 1), segments(data, BATCH), strict=False):
            h, state = model(ids, state)
            loss = model.head.loss(h, targets)
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            said = f"step {step:3}  {loss.item() / math.log(2):.2f} bits a byte"
            progress.update(task, advance=1, description=said)
            if not console.is_terminal and step % 50 == 0:
                console.print(said)


@torch.no_grad()
def bits_per_byte(model: Decoder, data: Tensor) -> float:
    state, nats = None, []
    for ids, targets in segments(data, 2 * BATCH):
        h, state = model(ids, state)
        nats += [model.head.loss(h, targets)] * targets.shape[1]
    return torch.stack(nats).mean().item() / math.log(2)


@torch.no_grad()
def write(model: Decoder, prompt: bytes, length: int) -> str:
    """Read the prompt, turn what is remembered into keys and values once, then draw one byte at a time."""
    h, state = model(torch.tensor([list(prompt)]))
    state, written = model.frozen(state), list(prompt)
    for _ in range(length):
        byte = torch.distributions.Categorical(logits=model.head.log_probs(h[:, -1]) / 0.8).sample()
        written.append(int(byte))
        h, state = model(byte[:, None], state)
    return bytes(written).decode("utf-8", errors="replace")


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)  # so small a model gains little from more, and loses much where cores are shared
    config = compose()
    cost = config.cost(LENGTH)
    console.print("[bold]A model by name[/bold]  transformer-xl-24, made small:", config.stack.layout)
    tell(("parameters", f"{cost.params:,}"), (f"FLOPs of {LENGTH} tokens after {LENGTH}", f"{cost.flops.total:,}"))
    console.print("\n[bold]Three of the laws[/bold]")
    tell(*((law, LAWS[law](Trial(config)) or "holds") for law in ("causality", "segmentation", "cost = count")))
    data, model = read_bytes(), config.build()
    known, held_out = data[:-HELD_OUT], data[-HELD_OUT:]
    console.print(f"\n[bold]Training[/bold]  on {STEPS * BATCH * LENGTH:,} of {len(known):,} bytes of Python's library")
    train(model, known)
    entropy = torch.special.entr(held_out.long().bincount() / HELD_OUT).sum().item() / math.log(2)
    packed = 8 * len(zlib.compress(bytes(held_out.tolist()), level=9)) / HELD_OUT
    console.print(f"\n[bold]{HELD_OUT:,} bytes it has not seen[/bold]  in bits a byte")
    ours = "this model, so far", f"{bits_per_byte(model.eval(), held_out):.2f}"
    tell(("entropy of single bytes", f"{entropy:.2f}"), ours, ("zlib", f"{packed:.2f}"))
    console.print("\n[bold]What it writes[/bold]  byte by byte, from the state")
    console.print(write(model, PROMPT, 200), style="cyan", markup=False)
    console.print("\n[bold]Next[/bold]  sublayer list · sublayer show par-base · sublayer show gpt2 dim=384")


if __name__ == "__main__":
    main()
