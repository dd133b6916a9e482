"""What one checkout computes, for same_bits.py: run as a script, with that checkout's `src` first on the path.

    PYTHONPATH=CHECKOUT/src python bits.py INPUT OUT

INPUT is a folder that both checkouts read: a text, small configs (made by the checkout that runs first) and Hugging
Face checkpoints. OUT receives `values.json` (hashes, costs, losses, texts) and one safetensors file per item. Only the
public API is used, so that modules may be renamed between the two.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import sublayer

TEXT = "".join(f"line {n} of a naïve text, {n * n % 97} of which is counted\n" for n in range(120))
TRAINED = ("gpt2", "transformer-xl", "llama", "bert-base", "feedback")
TRAINING = {
    "train.steps": 50,
    "train.batch": 2,
    "train.length": 24,
    "train.warmup": 0,
    "train.log_every": 1,
    "train.eval_every": 25,
    "train.threads": 1,
}
SEGMENTS = (9, 1, 6, 1)
"""Tokens read at a time: a first segment, single tokens and a longer one, with the state carried on."""
LENGTHS = ((64, 0), (1, 512), (33, 7))
"""New and remembered tokens that costs are counted for."""

Values = dict[str, dict[str, Any]]


def prepare(folder: Path) -> None:
    """The input of both checkouts, made once: later calls find it there."""
    if (folder / "ready").exists():
        return
    from sublayer.testing import small

    (folder / "configs").mkdir(parents=True)
    (folder / "book.txt").write_text(TEXT, encoding="utf-8")
    for name in sublayer.names():
        (folder / "configs" / f"{name}.json").write_text(small(sublayer.config(name)).to_json(), encoding="utf-8")
    for name, model in _their_models():
        model.save_pretrained(folder / "huggingface" / name)
    (folder / "ready").touch()


def papers(folder: Path, out: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Hash and cost of each paper as published; initial weights, logits and gradients of its small version."""
    for name in sublayer.names():
        config = sublayer.config(name)
        values = {"hash": config.hash, "cost": [_cost(config, *lengths) for lengths in LENGTHS]}
        file = folder / "configs" / f"{name}.json"
        if file.exists():
            small = sublayer.config(str(file))
            values |= {"small hash": small.hash}
            torch.manual_seed(0)
            model = small.build()
            _store(out, f"{name}.initial", model.state_dict())
            _shake(model)
            _store(out, f"{name}.logits", _logits(model))
            _store(out, f"{name}.gradients", _gradients(model))
        yield name, values


def trainings(folder: Path, out: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Losses, final weights and a generated text of short trainings, dropout and memory as in the papers."""
    for name in TRAINED:
        config = sublayer.config(str(folder / "configs" / f"{name}.json"))
        run = sublayer.train(config, str(folder / "book.txt"), out / "runs" / name, TRAINING, quiet=True)
        values = {"losses": [line["loss"] for line in run.metrics if "loss" in line]}
        values["scores"] = [{key: line[key] for key in line if key.startswith("valid")} for line in run.metrics]
        trained = sublayer.load(run.path)
        _store(out, f"{name}.trained", trained.model.state_dict())
        if config.remembers:
            values["text"] = trained.generate("line ", tokens=60, temperature=0.7)
        yield name, values


def huggingface(folder: Path, out: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Logits of checkpoints that transformers wrote."""
    from sublayer.interop import huggingface

    for path in sorted((folder / "huggingface").iterdir()):
        model = huggingface.read(path)
        _store(out, f"huggingface {path.name}.logits", _logits(model))
        yield path.name, {"hash": model.config.hash}


def _their_models() -> Iterator[tuple[str, Any]]:
    import transformers as hf

    hf.utils.logging.disable_progress_bar()
    sizes = {"vocab_size": 29, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    usual = {**sizes, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
    models = {
        "gpt2": (hf.GPT2LMHeadModel, hf.GPT2Config(**sizes, n_positions=24, n_embd=12, n_layer=2, n_head=3)),
        "opt": (hf.OPTForCausalLM, hf.OPTConfig(**usual, ffn_dim=20, max_position_embeddings=24)),
        "llama": (hf.LlamaForCausalLM, hf.LlamaConfig(**usual, intermediate_size=20, num_key_value_heads=2)),
        "bert": (hf.BertForMaskedLM, hf.BertConfig(**usual, intermediate_size=20, max_position_embeddings=24)),
    }
    for name, (kind, config) in models.items():
        torch.manual_seed(0)
        model = kind(config)
        _shake(model)
        yield name, model


def _cost(config: Any, length: int, memory: int) -> dict[str, Any]:
    return config.cost(length, memory if config.remembers else 0).dump()


def _shake(model: torch.nn.Module) -> None:
    """Every weight moved by noise that depends on its name alone; biases at 0 and gates at 1 would hide mistakes."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
            weight.add_(0.2 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(seed)))
    model.eval()


def _read(model: Any) -> Iterator[Tensor]:
    """Logits of each segment."""
    config = model.config
    generator = torch.Generator().manual_seed(1)
    cuts = SEGMENTS if config.remembers else (sum(SEGMENTS),)
    ids_BL = torch.randint(config.vocab, (2, sum(cuts)), generator=generator)
    state = None
    if hasattr(config, "source_vocab"):
        state = model.start(torch.randint(config.source_vocab or config.vocab, (2, 7), generator=generator))
    for segment in ids_BL.split(cuts, dim=1):
        h_BLD, state = model(segment, state)
        yield model.head(h_BLD)


def _logits(model: Any) -> dict[str, Tensor]:
    with torch.no_grad():
        return {f"segment {index}": logits.float() for index, logits in enumerate(_read(model))}


def _gradients(model: Any) -> dict[str, Tensor]:
    loss = sum(logits.square().mean() for logits in _read(model))
    assert isinstance(loss, Tensor)
    loss.backward()
    return {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}


def _store(out: Path, name: str, tensors: dict[str, Tensor]) -> None:
    save_file({key: tensor.detach().contiguous().clone() for key, tensor in tensors.items()}, out / f"{name}.bits")


def load(out: Path) -> tuple[dict[str, Values], dict[str, dict[str, Tensor]]]:
    """What a checkout wrote: values by part and item, tensors by item."""
    values = json.loads((out / "values.json").read_text(encoding="utf-8"))
    return values, {file.stem: load_file(file) for file in sorted(out.glob("*.bits"))}


def main(folder: Path, out: Path) -> None:
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    prepare(folder)
    out.mkdir(parents=True)
    values: dict[str, Values] = {}
    for part in (papers, trainings, huggingface):
        values[part.__name__] = {}
        for name, found in part(folder, out):
            print(f"{part.__name__}: {name}", flush=True)
            values[part.__name__][name] = found
    (out / "values.json").write_text(json.dumps(values), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
