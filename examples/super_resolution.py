"""Small images made large: the encoder-decoder of the Image Transformer (Parmar et al. 2018, section 5.3), in minutes.

The paper goes from 8×8 to 32×32 pixels, here it is from 4×4 to 16×16 of image:shapes. The encoder reads the small
image, the decoder writes the large one pixel by pixel, each from the pixels before it in its two-dimensional block and
from all of the small image. The test images are scored twice: beside their own small image, and beside that of another.
What the first saves is what the decoder takes from the encoder.

Two minutes on one core. Writes super_resolution.png: small images, what the model makes of them, and what they were.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

import sublayer
from sublayer.data import Batch, Data, Images, prepare
from sublayer.data.images import png
from sublayer.data.images.sheet import sheet
from sublayer.data.tokenizer import Pixels
from sublayer.generation import Sampling, generate
from sublayer.nn.model import EncoderDecoder

SMALL, LARGE, LEVELS, IMAGES = 4, 16, 8, 10_000
STEPS, BATCH, LR, WARMUP = 500, 16, 2e-3, 50
SHOWN = 8
MODEL = {
    "dim": 96,
    "encoder.layout": "(sf)x2",
    "decoder.layout": "(scf)x3",
    "encoder.s.heads": 4,
    "decoder.s.heads": 4,
    "decoder.c.heads": 4,
    "encoder.f.inner": 192,
    "decoder.f.inner": 192,
    "encoder.residual": "pre_norm",
    "decoder.residual": "pre_norm",
    "encoder.final_norm": "layer",
    "decoder.final_norm": "layer",
    "embedding.dropout": 0.0,
    "encoder.spread": "width",
    "decoder.spread": "width",
    "decoder.s.pattern": {
        "kind": "block_local_2d", "width": LARGE, "rows": 4, "columns": 8, "above": 4, "beside": 4,
    },
}  # fmt: skip


def main() -> None:
    data = prepare(Data.Config.guess("image:shapes").but({"size": LARGE, "levels": LEVELS, "source.count": IMAGES}))
    assert isinstance(data, Images)
    torch.manual_seed(0)
    model = sublayer.config("transformer", MODEL, vocab=data.vocab).build()
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters, {SMALL}×{SMALL} → {LARGE}×{LARGE} pixels")
    train(model, data)

    model.eval()
    own, other = (bits_per_dim(model, data, shift) for shift in (0, 1))
    print(f"test: {own:.3f} bits/dim beside its own small image, {other:.3f} beside that of another")
    small_BS, large_BL = show(model, data)
    error = (F.avg_pool2d(grid(large_BL), LARGE // SMALL).flatten(1) - small_BS).abs().mean()
    print(f"super_resolution.png; made small again, they differ by {error:.2f} of {LEVELS} levels from what was given")


def train(model: EncoderDecoder, data: Images) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR)
    rate = torch.optim.lr_scheduler.LambdaLR(optimizer, schedule)
    batches = data.batches(BATCH, LARGE * LARGE, carry=False)
    model.train()
    for step in range(STEPS):
        loss = loss_on(model, next(batches))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        rate.step()
        if (step + 1) % (STEPS // 10) == 0:
            print(f"step {step + 1:4}  {loss.item() / math.log(2):.3f} bits/dim", flush=True)


def schedule(step: int) -> float:
    """A linear warm-up, then half a cosine."""
    return min(step / WARMUP, 1.0) * (1 + math.cos(math.pi * step / STEPS)) / 2


def loss_on(model: EncoderDecoder, batch: Batch, shift: int = 0) -> Tensor:
    """shift: 1 gives each large image the small one of its neighbour in the batch."""
    state = model.start(shrunk(batch.targets_BL).roll(shift, 0))
    h_BLD, _ = model(batch.inputs_BL, state)
    return model.head.loss(h_BLD, batch.targets_BL)


@torch.no_grad()
def bits_per_dim(model: EncoderDecoder, data: Images, shift: int) -> float:
    losses = [loss_on(model, batch, shift) for batch in whole_batches(data)]
    return float(torch.stack(losses).mean()) / math.log(2)


def whole_batches(data: Images) -> Iterator[Batch]:
    """Of the test split; the last, which is not full, is left out."""
    return (batch for batch in data.sweep("test", BATCH, LARGE, carry=False) if batch.weights_BL is None)


def grid(large_BL: Tensor) -> Tensor:
    return large_BL.unflatten(1, (LARGE, LARGE)).float()


def shrunk(large_BL: Tensor) -> Tensor:
    """The levels of the small image: means of squares."""
    return F.avg_pool2d(grid(large_BL), LARGE // SMALL).round().long().flatten(1)


def show(model: EncoderDecoder, data: Images) -> tuple[Tensor, Tensor]:
    """Write the picture; returns the small images and the large ones that the model made of them."""
    pixels, batch = data.tokenizer, next(whole_batches(data))
    small_BS = shrunk(batch.targets_BL)[:SHOWN]
    drawn = Sampling(temperature=0.7, never=(pixels.start,))
    prompts = [[pixels.start]] * SHOWN
    written = generate(model, prompts, tokens=pixels.tokens, source=small_BS, sampling=drawn)
    coarse_BL = small_BS.unflatten(1, (SMALL, SMALL)).repeat_interleave(LARGE // SMALL, 1)
    lines = coarse_BL.repeat_interleave(LARGE // SMALL, 2).flatten(1), torch.tensor(written), batch.targets_BL[:SHOWN]
    png.write("super_resolution.png", sheet([images(pixels, ids_BL) for ids_BL in lines]))
    return small_BS, lines[1]


def images(pixels: Pixels, ids_BL: Tensor) -> list:
    return [pixels.show(ids_L) for ids_L in ids_BL]


if __name__ == "__main__":
    main()
