"""`compare_lengths`: the same variants at several lengths, an ordinary comparison for each.

OUT/
  lengths-asked.json  the lengths, and the tokens of a step; with another request the folder is refused
  length-512/         the comparison at a length
  lengths.json        the result (length_table.LengthTable), written anew after each length
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sublayer.comparison.folder import TABLE, ComparisonFolder
from sublayer.comparison.job import compare
from sublayer.comparison.length_table import LengthTable, rows_of, tabulate_lengths
from sublayer.comparison.records import ComparisonTable
from sublayer.comparison.request import data_config, resolve
from sublayer.comparison.variant import Variant, slugs
from sublayer.data import Data, prepare
from sublayer.keys import split
from sublayer.measurement import Setting
from sublayer.nn.config import ConfigError
from sublayer.nn.model import Model
from sublayer.plugins import load_installed_plugins
from sublayer.runs import sealed_json
from sublayer.training import TrainConfig

ASKED, RESULT = "lengths-asked.json", "lengths.json"

OnLength = Callable[[int, int, int], Any]
"""Called with a length before its comparison begins, and how many of how many are done."""


@dataclass(frozen=True)
class LengthPlan:
    """Every length of the folder, those of earlier requests among them."""

    folder: Path
    lengths: tuple[int, ...]
    batch: int
    """As asked for: rows in a step at the shortest length of the first request."""
    step_tokens: int

    def path(self, length: int) -> Path:
        return self.folder / f"length-{length}"

    def changes(self, changes: Mapping[str, Any], length: int) -> dict[str, Any]:
        return {**changes, "train.length": length, "train.batch": rows_of(self.step_tokens, length)}

    def dump(self) -> dict[str, Any]:
        return {"lengths": list(self.lengths), "batch": self.batch, "step_tokens": self.step_tokens}


def compare_lengths(
    variants: Sequence[str | Model.Config | Variant],
    data: str | Data.Config = "stdlib",
    out: str | Path = "",
    changes: Mapping[str, Any] | None = None,
    lengths: Sequence[int] = (),
    *,
    seeds: Sequence[int] = (0, 1, 2),
    equal_params: int | str | None = None,
    lrs: Sequence[float] = (),
    setting: Setting | None = None,
    on_length: OnLength = lambda length, done, total: None,
    **how: Any,
) -> LengthTable:
    """Compare variants at each of the lengths (train.length); continues what was begun before in the same folder.

    A training step reads about as many tokens at every length: those of train.batch rows of the shortest, and at least
    one row of the longest. Lengths may be added later, up to so many tokens; finished ones stay. out: the folder;
    comparisons/FIRST-SECOND-…-lengths if empty. Other arguments are those of `compare`.
    """
    load_installed_plugins()
    own = {key: value for key, value in (changes or {}).items() if not key.startswith("data.")}
    _, of = split(changes or {})
    several = [Variant.of(variant) for variant in variants]
    folder = Path(out or f"comparisons/{'-'.join(slugs(several))[:80]}-lengths")
    check_lengths(lengths, of["train"])
    plan = planned(folder, lengths, of["train"])
    text = prepare(data_config(data, of["data"]))
    check_rows(text)
    wanted: dict[str, Any] = {"seeds": seeds, "equal_params": equal_params, "lrs": lrs}
    check_each(plan, several, text.config, own, wanted)
    with sealed_json.held(folder, "at work there", (ASKED, RESULT)):
        sealed_json.ask(folder / ASKED, plan.dump(), "comparison by length", free=("lengths",))
        for done, length in enumerate(plan.lengths):
            on_length(length, done, len(plan.lengths))
            at = {**wanted, **how, "setting": setting and setting.but(length=length)}
            with naming(length):
                compare(several, text.config, plan.path(length), plan.changes(own, length), **at)
            gather(plan).write(folder / RESULT)
        return gather(plan)


def planned(folder: Path, lengths: Sequence[int], train: Mapping[str, Any]) -> LengthPlan:
    """With the lengths and the tokens of a step of an earlier request."""
    path = folder / ASKED
    before = sealed_json.read_asked(path) if path.exists() else {}
    batch = TrainConfig().override({"batch": train["batch"]} if "batch" in train else {}, "train").batch
    tokens = before.get("step_tokens") or max(batch * min(lengths), max(lengths))
    if max(lengths) > tokens:
        raise ValueError(
            f"{folder}: a training step reads {tokens:,} tokens there, fewer than a row of {max(lengths):,}; use "
            "shorter lengths, or choose another folder"
        )
    return LengthPlan(folder, tuple(sorted({*before.get("lengths", ()), *lengths})), batch, tokens)


def gather(plan: LengthPlan) -> LengthTable:
    """Of all lengths whose comparison is finished."""
    paths = {length: plan.path(length) / TABLE for length in plan.lengths}
    tables = {length: ComparisonTable.read(path) for length, path in paths.items() if path.exists()}
    folders = {length: path.parent.name for length, path in paths.items()}
    return tabulate_lengths(tables, folders, plan.dump(), plan.step_tokens)


def check_lengths(lengths: Sequence[int], train: Mapping[str, Any]) -> None:
    shown = ", ".join(f"{length:,}" for length in lengths) or "none"
    if len(lengths) < 2:
        raise ValueError(f"lengths: {shown}; a curve needs at least two, such as 512,2k")
    if min(lengths) < 1:
        raise ValueError(f"lengths: {shown}; each must be at least 1")
    twice = next((length for n, length in enumerate(lengths) if length in lengths[:n]), None)
    if twice is not None:
        raise ValueError(f"lengths: {twice:,} is given twice; give each once")
    if "length" in train:
        raise ConfigError(f"train.length={train['length']}: it is set to each of the lengths; leave it out")


def check_rows(text: Data) -> None:
    """Refuse data whose rows have lengths of their own."""
    if text.row_length is not None or text.longest("train") is not None:
        raise ValueError(f"{text.title}: each {text.row} is a row of its own length; lengths need a plain text")


def check_each(
    plan: LengthPlan,
    variants: Sequence[Variant],
    data: Data.Config,
    changes: Mapping[str, Any],
    wanted: Mapping[str, Any],
) -> None:
    """Refuse what any of the comparisons would refuse, before the first of them begins."""
    given = [one.name for one in variants if not one.words]
    for n, length in enumerate(plan.lengths):
        folder = ComparisonFolder(plan.path(length))
        model, of = split(plan.changes(changes, length))
        with naming(length) if n else nullcontext():  # what the shortest cannot have is no matter of length
            request = resolve(variants, data, folder.path, model, of["train"], **wanted)
            if before := folder.read_asked():
                folder.ask(request.called_as(before, given).dump())


@contextmanager
def naming(length: int) -> Iterator[None]:
    """Errors name the length."""
    try:
        yield
    except ValueError as error:
        raise ConfigError(f"length {length:,}: {error}") from None
