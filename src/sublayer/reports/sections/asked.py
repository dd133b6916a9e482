"""The request of a folder, and the command that repeats it, as far as its file holds it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sublayer.reports.markup import Markup
from sublayer.reports.section import command, folded, listing, paragraph
from sublayer.runs.wording import change, seeds

Words = list[str]
SEALS = ("format", "sha256")


def again(verb: str, folder: Path, asked: dict[str, Any]) -> list[Markup]:
    """Folded: the command, and what has to be saved beside it."""
    rest = {name: value for name, value in asked.items() if name not in SEALS}
    if not rest:
        return []
    made = {"search": _search, "compare": _compare, "proxies": _proxies, "supernet": _supernet}
    words = made[verb](_Asked(rest))
    line = command("sublayer", verb, *words, "--out", f"{folder}-again")
    about = paragraph(
        "In the same folder the command continues; in a new one it starts again. The config files named in the "
        "command are the models below."
    )
    return [folded("The request, and how to repeat it", about, line, listing(rest))]


class _Asked(dict[str, Any]):
    """Of a file that may have been edited: what is not of the expected kind is empty."""

    def some(self, name: str) -> _Asked:
        value = self.get(name)
        return _Asked(value) if isinstance(value, dict) else _Asked()

    def many(self, name: str) -> list[Any]:
        value = self.get(name)
        return value if isinstance(value, list) else []


def data_words(asked: dict[str, Any]) -> Words:
    """--data, and keys of the data that differ from the usual."""
    data = _Asked(asked).some("data")
    source = data.some("source")
    where = source.get("path") if isinstance(source.get("path"), str) else source.get("kind")
    made = ["--data", str(where)] if where else []
    kind = data.some("tokenizer").get("kind")
    return made + ([f"data.tokenizer={kind}"] if kind not in (None, "byte") else [])


def train_words(asked: dict[str, Any], without: tuple[str, ...] = ()) -> Words:
    """Training options that differ from the defaults."""
    from sublayer.training import TrainConfig

    usual, train = TrainConfig().model_dump(), _Asked(asked).some("train")
    differ = ((name, value) for name, value in train.items() if name in usual and value != usual[name])
    return [change(f"train.{name}", value) for name, value in differ if name not in without]


def _search(asked: _Asked) -> Words:
    space, setting = asked.some("space"), asked.some("setting")
    words = _space_words(space)
    for name, most in asked.some("limits").items():
        words += [f"--{name.replace('_', '-')}-max", f"{_plain(most)}{_UNITS.get(name, '')}"]
    aims = [
        f"{one.get('name')}:{str(one.get('direction'))[:3]}"
        for one in asked.many("objectives")
        if isinstance(one, dict)
    ]
    words += ["--objectives", ",".join(aims)] if aims else []
    for name in ("method", "population", "iterations", "seed"):
        words += [f"--{name}", _plain(asked[name])] if name in asked else []
    for name in ("task", "length", "memory", "threads"):
        words += [f"--{name}", _plain(setting[name])] if setting.get(name) is not None else []
    return words


def _proxies(asked: _Asked) -> Words:
    words = [*_space_words(asked.some("space")), *data_words(asked)]
    for name in ("models", "seed"):
        words += [f"--{name}", _plain(asked[name])] if name in asked else []
    return words + train_words(asked)


def _compare(asked: _Asked) -> Words:
    variants = [one for one in asked.many("variants") if isinstance(one, dict)]
    words = [f"{one.get('slug', 'model')}.json" for one in variants]
    words += [*data_words(asked), *_seeds(asked)]
    lengths = ["--lengths", ",".join(map(str, asked.many("lengths")))] if asked.many("lengths") else []
    own = ("length", "batch") if lengths else ()  # of each length
    words += train_words(variants[0], without=("seed", *own)) if variants else []
    return words + ([change("train.batch", asked["batch"]), *lengths] if lengths and "batch" in asked else lengths)


def _supernet(asked: _Asked) -> Words:
    return ["model.json", *data_words(asked), *_seeds(asked), *train_words(asked)]


def _seeds(asked: _Asked) -> Words:
    return ["--seeds", seeds(asked.many("seeds"))] if asked.many("seeds") else []


def _space_words(space: _Asked) -> Words:
    choices = [f"{key}={value}" for key, value in space.some("choices").items()]
    return ["base.json", *choices, *(str(rule) for rule in space.many("rules"))]


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


_UNITS = {"latency": "s", "memory": "B"}
