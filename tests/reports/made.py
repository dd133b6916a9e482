"""Folders as searches and comparisons leave them, written by their formats; figures are invented, but hang together."""

import json
import math
import random
from pathlib import Path
from typing import Any

import sublayer

OBJECTIVES = [
    {"name": "decoder_params", "direction": "maximize", "unit": ""},
    {"name": "latency", "direction": "minimize", "unit": "s"},
    {"name": "memory", "direction": "minimize", "unit": "B"},
]
DEVICE = {"processor": "a processor", "threads": 1, "torch": "2.13", "id": "0123456789ab"}


def write(path: Path, data: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data), encoding="utf-8")


def config(layers: int, seed: int = 0) -> dict[str, Any]:
    draw = random.Random(seed)
    inner = [draw.choice([64, 128, 192, 256]) for _ in range(layers)]
    return sublayer.config("gpt2", {"f.inner": inner, "s.heads": 2}, dim=64, layout=f"(sf)x{layers}").model_dump()


def member(number: int, layers: int, measured: bool = True) -> dict[str, Any]:
    """A model of a front: the more layers, the slower."""
    draw = random.Random(number)
    values = {"decoder_params": 5e5 * layers + 1e5 * draw.random(), "latency": 8e-4 * layers + 1e-4 * draw.random()}
    values |= {"memory": 4e6 + 1.3e6 * layers * (1 + draw.random()), "params": 6e5 * layers, "flops": 1e8 * layers}
    took = values["latency"] * (1 + 0.1 * (draw.random() - 0.4))
    found = {"latency": took, "low": 0.98 * took, "high": 1.03 * took, "memory": int(values["memory"] * 1.02)}
    return {
        "number": number,
        "config": config(layers, number),
        "layout": f"(sf)x{layers}",
        "values": values,
        "measured": found if measured else None,
        "run": None,
    }


def search(path: Path, objectives: int = 3, trials: int = 120, **changed: Any) -> Path:
    """A finished search, with a journal of all its trials."""
    front = [member(17 * layers, layers, measured=layers % 3 != 0) for layers in range(2, 17)]
    volumes = [1e3 * (1 - math.exp(-0.4 * (1 + at))) for at in range(12)]
    data = {
        "format": 1,
        "objectives": OBJECTIVES[:objectives],
        "trials": trials,
        "feasible": trials - 7,
        "front": front,
    }
    data |= {"hypervolume": volumes[-1], "hypervolumes": volumes, "reference": [0.0, 1.0, 1e9], "device": DEVICE}
    data |= {
        "setting": {"task": "segment", "length": 64},
        "predictor": {"models": 10, "latency": 0.03, "memory": 0.02},
        **changed,
    }
    write(path / "front.json", data)
    write(path / "search.json", {"format": 1, "space": "lts", "seed": 0})
    if trials:
        journal(path / "journal.log", objectives, trials)
    return path


def journal(path: Path, objectives: int, trials: int) -> None:
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    directions = [one["direction"] for one in OBJECTIVES[:objectives]]
    study = optuna.create_study(storage=JournalStorage(JournalFileBackend(str(path))), directions=directions)
    for number in range(trials):
        draw = random.Random(number)
        layers, worse = draw.randint(2, 16), 1 + 0.6 * draw.random()
        values = list(member(number, layers)["values"].values())[:objectives]
        study.add_trial(optuna.create_trial(values=[values[0], *(value * worse for value in values[1:])]))


def row(name: str, layout: str, about: float, /, seeds: int = 3, **changed: Any) -> dict[str, Any]:
    draw = random.Random(name)
    losses = [about + 0.02 * (draw.random() - 0.5) for _ in range(seeds)]
    mean = sum(losses) / seeds
    bits = {key: value / math.log(2) for key, value in (("mean", mean), ("low", mean - 0.015), ("high", mean + 0.015))}
    took = 1e-3 * (3 + 5 * layout.count("s"))
    made = {"name": name, "layout": layout, "config": None, "params": 1_200_000, "seeds": list(range(seeds))}
    made |= {"losses": losses, "mean": mean, "low": mean - 0.015, "high": mean + 0.015, "bits_per_byte": bits}
    made |= {"latency": {"latency": took, "low": 0.99 * took, "high": 1.01 * took}, "memory": 9_000_000}
    return {**made, "tokens_per_second": 12_345.6, "tokens": 2_000_000, **changed}


def compare(path: Path, rows: list[dict[str, Any]] | None = None, **changed: Any) -> Path:
    usual = [
        row("gpt2", "(sf)x6", 1.42),
        row("sandwich", "(s)x2 (sf)x4 (f)x2", 1.43),
        row("par", "(sff)x3 (f)x3", 1.405),
    ]
    data = {"format": 1, "metric": "valid_loss", "rows": usual if rows is None else rows, "asked": {}, "device": DEVICE}
    write(path / "table.json", {**data, **changed})
    write(path / "compare.json", {"format": 1, "names": ["gpt2", "sandwich", "par"], "seeds": 3})
    return path


def lengths(path: Path, at: tuple[int, ...] = (512, 2048, 8192, 32768), **changed: Any) -> Path:
    """Variants whose time grows with the square of the length, and with the length; a comparison in a folder each."""
    rows = []
    for name, power, loss in (("dense", 2.0, 1.42), ("linear", 1.0, 1.5), ("window", 1.1, 1.44)):
        points = [
            {
                "length": length,
                "rows": max(at) // length,
                "loss": {"mean": loss - 0.02 * n, "low": loss - 0.02 * n - 0.01, "high": loss - 0.02 * n + 0.01},
                "test_loss": {"mean": loss + 0.1},
                "latency": {"latency": 1e-5 * length**power / 20**power, "low": 1e-6 * length, "high": 1e-2 * length},
                "memory": int(4e6 + 300 * length**power / 10**power),
                "step_memory": int(3e7 * (1 + (length / 8192) ** (power - 1) * (power - 1))),
                "token_seconds": 1e-5,
            }
            for n, length in enumerate(at)
        ]
        for point in points:
            took = point["latency"]["latency"]
            point["latency"] |= {"low": 0.95 * took, "high": 1.07 * took}
        powers = {"latency": power, "memory": 0.9 * power, "step_memory": power - 1.004}
        rows.append({"name": name, "layout": "(sf)x2", "points": points, "exponents": powers, "params": 120_000})
    folders = {str(length): f"length-{length}" for length in at}
    data = {"format": 1, "lengths": list(at), "step_tokens": max(at), "rows": rows, "folders": folders}
    asked = {"lengths": list(at), "batch": 4, "seeds": [0, 1, 2], "variants": [{"slug": row["name"]} for row in rows]}
    write(path / "lengths.json", {**data, "asked": asked, "device": DEVICE, **changed})
    for folder in folders.values():
        compare(path / folder)
    return path


def reproduction(path: Path, says: str = "It is better.", **changed: Any) -> Path:
    """A comparison that shows a paper's claim."""
    ours = {"mean": 97.0, "low": 94.0, "high": 100.0}
    rows = [
        {"variant": "par", "paper": 99.1, "ours": ours, "values": [96.0, 97.0, 98.0]},
        {"variant": "gpt2", "paper": None, "ours": None, "values": [None]},
    ]
    order = [{"better": "par", "worse": "gpt2", "seen": "yes, clearly"}]
    finding = {"figure": "test.accuracy", "title": "places", "unit": "%", "rows": rows, "order": order}
    data = {"format": 1, "claim": "feedback/random-walk", "source": "A paper", "says": says, "scale": "smaller"}
    data |= {"changes": {"dim": 8}, "seeds": [0, 1, 2], "minutes": 1.2, "findings": [finding], "params": {}}
    write(compare(path) / "claim.json", {**data, **changed})
    return path


def supernet(path: Path, **changed: Any) -> Path:
    """As a search of the PAR paper's kind leaves it."""
    words = ["sf-sffsf-fffffff", "sffsffsfffff-fff", "ssffsff-ffsfffff"]
    points = [
        {
            "seed": seed,
            "word": word,
            "layout": word.replace("-", ""),
            "attention": word.count("s"),
            "perplexity": 22 + seed / 5,
        }
        for seed, word in enumerate(words)
    ]
    thirds = [
        {letter: {"mean": mean, "std": 0.5, "counts": [2, 1, 2]} for letter, mean in zip("sf-", means, strict=True)}
        for means in ((1.9, 3.0, 0.3), (1.2, 4.0, 0.4), (0.2, 5.2, 0.1))
    ]
    par = [
        {"p": p, "layout": f"(s{'f' * int(p - 1)})x2", "attention": 2, "perplexity": 22 + 0.1 * p}
        for p in (2.0, 3.0, 5.0, 8.0)
    ]
    base = {
        "layout": "(sf)x8",
        "attention": 8,
        "seeds": [0, 1, 2],
        "perplexities": [22.6, 22.7, 22.9],
        "mean": 22.7,
        "std": 0.15,
    }
    data = {"format": 1, "metric": "perplexity", "places": 16, "letters": "sf-", "attention": ["s"], "base": base}
    data |= {"figure2": {"points": points}, "figure3": {"thirds": thirds}, "figure4": {"points": par}, **changed}
    write(path / "figures.json", data)
    write(path / "supernet.json", {"format": 1, "seeds": [0, 1, 2], "train": {"steps": 50}})
    return path


def proxies(path: Path, **changed: Any) -> Path:
    draw = random.Random(0)
    ppl = [20 + 10 * draw.random() for _ in range(24)]
    scores = {
        "decoder_params": [1e7 / one for one in ppl],
        "flops": [1e9 * draw.random() for _ in ppl],
        "snip": [None] * 24,
    }
    common = {"10%": 0.5, "30%": 0.8, "50%": 0.9}
    told = [
        {
            "name": "decoder_params",
            "models": 24,
            "seconds": 1e-4,
            "spearman": 0.97,
            "low": 0.9,
            "high": 0.99,
            "kendall": 0.9,
        },
        {"name": "flops", "models": 24, "seconds": 1e-4, "spearman": -0.1, "low": -0.5, "high": 0.4, "kendall": -0.05},
    ]
    told = [
        {**one, "common": common, "front_distance": 0.01, "higher": True, "needs": "config", "cite": ""} for one in told
    ]
    told.append(
        {"name": "snip", "models": 0, "spearman": None, "low": None, "high": None, "kendall": None, "common": None}
    )
    points = {
        "name": [f"{n:04d}" for n in range(24)],
        "ppl": ppl,
        "latency": [0.1 / one for one in ppl],
        "scores": scores,
    }
    ranked = {"set": "sample", "models": 24, "dropped": 0, "proxies": told, "points": points}
    write(path / "ranking.json", {"format": 1, "of": "x", "metric": "ppl", "sets": [ranked], "skipped": [], **changed})
    write(
        path / "proxies.json",
        {"format": 1, "models": 24, "space": {"choices": {"dim": "64..128/32"}, "rules": ["f.inner>dim"]}},
    )
    return path
