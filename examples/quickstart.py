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
from rich.table import Table
from torch import Tensor

import sublayer
from sublayer.nn.model import Decoder
from sublayer.testing import LAWS, Trial

STEPS, BATCH, LENGTH, HELD_OUT = 240, 16, 64, 2**16
console = Console(highlight=False)


def compose() -> Decoder.Config:
    """The byte model of Transformer-XL, made small: three attentions, two feed-forwards after each."""
    changes = {"s.heads": 3, "s.memory.length": LENGTH, "f.inner": 384, "embedding.dropout": 0.0}
    return sublayer.config(
        "transformer-xl-24", changes, dim=96, layout="(sff)x3", residual="pre_norm", final_norm="layer"
    )


def tell_cost(config: Decoder.Config) -> None:
    cost = config.cost(LENGTH)
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 3, 0, 0))
    for name, count in (("tokens", cost.tokens), ("stack", cost.stack), ("in all", cost.params)):
        table.add_row(f"parameters, {name}", f"{count:,}")
    table.add_row(f"FLOPs of {LENGTH} tokens after {cost.flops.memory}", f"{cost.flops.total:,}")
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
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    state = None
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
            if not console.is_terminal and step % 60 == 0:
                console.print(said)


@torch.no_grad()
def bits_per_byte(model: Decoder, data: Tensor) -> float:
    state, bits, count = None, 0.0, 0
    for ids, targets in segments(data, batch=8):
        h, state = model(ids, state)
        bits += model.head.loss(h, targets).item() / math.log(2) * targets.numel()
        count += targets.numel()
    return bits / count


@torch.no_grad()
def write(model: Decoder, prompt: bytes, length: int) -> str:
    """Read the prompt, turn what is remembered into keys and values once, then draw one byte at a time."""
    h, state = model(torch.tensor([list(prompt)]))
    state, written = model.frozen(state), list(prompt)
    for _ in range(length):
        byte = torch.distributions.Categorical(logits=model.head.log_probs(h[:, -1]) / 0.7).sample()
        written.append(int(byte))
        h, state = model(byte[:, None], state)
    return bytes(written).decode("utf-8", errors="replace")


def main() -> None:
    torch.manual_seed(0)
    config = compose()
    console.print("[bold]A model by name[/bold]  transformer-xl-24, made small:", config.stack.layout)
    tell_cost(config)
    console.print("\n[bold]Three of the laws[/bold]")
    for law in ("causality", "segmentation", "cost = count"):
        console.print(f"{law:14}", LAWS[law](Trial(config)) or "holds")

    data = read_bytes()
    known, held_out = data[:-HELD_OUT], data[-HELD_OUT:]
    console.print(
        f"\n[bold]Training[/bold]  {STEPS} steps on {STEPS * BATCH * LENGTH:,} of {len(known):,} bytes of Python"
    )
    model = config.build()
    train(model, known)

    share = held_out.long().bincount() / HELD_OUT
    console.print(f"\n[bold]{HELD_OUT:,} bytes it has not seen[/bold], in bits a byte")
    console.print(f"single bytes   {torch.special.entr(share).sum() / math.log(2):.2f}  (entropy of their counts)")
    console.print(f"this model     {bits_per_byte(model.eval(), held_out):.2f}")
    console.print(f"zlib           {8 * len(zlib.compress(bytes(held_out.tolist()), 9)) / HELD_OUT:.2f}")

    console.print("\n[bold]What it writes[/bold], byte by byte")
    console.print(write(model, b"def main(self):\n", 240), style="cyan", markup=False)
    console.print("\n[bold]Next[/bold]  sublayer list · sublayer show par-base · sublayer show gpt2 'layout=par(5)'")


if __name__ == "__main__":
    main()
