"""Train a small model on the source of Python's own library, score it on what it has not seen, and let it write.

About two minutes on two cores. Run again, it goes on from what is there: the run is in runs/quickstart.
"""

import lzma
import zlib
from pathlib import Path

from rich.console import Console
from rich.table import Column, Table

import sublayer
from sublayer.data import DataConfig, prepare
from sublayer.evaluation import score

TEXT = "stdlib"
RUN = Path("runs/quickstart")
HELD_OUT = 500_000
"""Bytes of the test split on which model and compressors are compared."""
CHANGES = {
    "head": "tied",
    "s.heads": 4,
    "f.inner": 384,
    "data.tokenizer": "bpe",
    "data.tokenizer.size": 1536,
    "train.steps": None,
    "train.minutes": 1.75,
    "train.batch": 2,
    "train.length": 512,
    "train.lr": 3e-3,
    "train.warmup": 40,
    "train.eval_every": 200,
    "train.eval_tokens": 20_000,
}
PROMPT = "class Reader:\n    def __init__(self, name):\n        self.name = name\n\n    def "
console = Console(highlight=False)


def main() -> None:
    console.print("[bold]Training[/bold]  a small Llama on Python's own library, for about two minutes")
    if (RUN / "run.json").exists():
        sublayer.resume(RUN)
    else:
        sublayer.train("llama", TEXT, RUN, CHANGES, dim=128, layout="(sf)x4")
    trained = sublayer.load(RUN)

    config = DataConfig.parse(trained.run.asked["data"])
    test = prepare(config, tokenizer=trained.tokenizer).test
    held_out = bytes(test.part.bytes[:HELD_OUT]).decode(errors="ignore").encode()  # no half of a character
    ids = trained.tokenizer.encode(held_out)
    found = score(trained.model, ids, length=512, stride=256, tokenizer=trained.tokenizer)
    console.print(f"\n[bold]{len(held_out):,} bytes it has not seen[/bold]  in bits a byte, less is better")
    table = Table.grid("what", Column("bits", justify="right"), padding=(0, 3))
    table.add_row("gzip -9", f"{8 * len(zlib.compress(held_out, 9)) / len(held_out):.2f}")
    table.add_row("xz -9", f"{8 * len(lzma.compress(held_out, preset=9)) / len(held_out):.2f}")
    table.add_row("[bold]this model[/bold]", f"[bold]{found.bits_per_byte:.2f}[/bold]")
    console.print(table)
    if found.bits_per_byte > 8 * len(zlib.compress(held_out, 9)) / len(held_out):
        console.print("It loses to gzip: two minutes are short. Train on with train.minutes=20.", style="dim")

    console.print("\n[bold]What it writes[/bold]")
    console.print(PROMPT + trained.generate(PROMPT, tokens=150, temperature=0.7), style="cyan", markup=False)
    console.print(f"\n[bold]Next[/bold]  sublayer generate {RUN} --prompt 'import ' · sublayer eval {RUN}")


if __name__ == "__main__":
    main()
