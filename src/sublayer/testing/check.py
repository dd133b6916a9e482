"""`check`: every law on one member of any family, in each of its surroundings."""

from __future__ import annotations

from sublayer.nn.config import Config
from sublayer.nn.model import Model
from sublayer.objectives import Objective
from sublayer.testing.case import Case
from sublayer.testing.laws import LAWS
from sublayer.testing.laws.training import trained
from sublayer.testing.surroundings import DECODER, ENCODER, around, surround
from sublayer.testing.verdict import LawBroken, Verdict


class Findings(dict[str, Verdict]):
    """Law → verdict. A law holds if it holds wherever it applies; else the first reason why it does not apply."""

    def __init__(self) -> None:
        super().__init__()
        self.tried: dict[str, dict[str, Verdict]] = {}
        """Surroundings → law → verdict."""
        self.refused: dict[str, str] = {}
        """Surroundings that the config refuses, with its reason."""

    def add(self, surroundings: str, verdicts: dict[str, Verdict]) -> None:
        self.tried[surroundings] = verdicts
        for name, verdict in verdicts.items():
            if name not in self or (verdict.holds and not self[name].holds):
                self[name] = verdict

    def __str__(self) -> str:
        lines = [f"{name}: {verdict}" for name, verdict in self.items()]
        return "\n".join(lines + [f"{name}: refused: {reason}" for name, reason in self.refused.items()])


def check(config: Config, *, seed: int = 0, causal: bool = True) -> Findings:
    """Run every law on a member of any family, put into small models with different parts beside it.

    Raises LawBroken at the first law that fails, and ValueError if every pair is refused. causal=False: a part is tried
    in a model that reads both ways.
    """
    found = Findings()
    if config.family == Objective.Config.family:
        return _check_objective(config, found)
    if config.family == "part" and not causal:
        models = {"both ways": around(config, causal=False)}  # pyright: ignore[reportArgumentType]
    else:
        tried = surround(config)
        models, found.refused = tried.models, tried.refused
    if not models:
        raise ValueError(f"{config.family} {config.tag!r} is refused everywhere: {next(iter(found.refused.values()))}")
    for n, (name, model) in enumerate(models.items()):
        try:
            found.add(name, laws_of(Case(model, seed), thorough=n == 0))
        except LawBroken as broken:
            raise LawBroken(f"{broken} (tried with: {name})" if n else str(broken)) from broken
    return found


def _check_objective(objective: Config, found: Findings) -> Findings:
    """An objective is tried by training each kind of model that it accepts, on a text."""
    for name, base in (("left to right", DECODER), ("both ways", ENCODER)):
        reason = trained(Model.Config.parse(base), objective)  # pyright: ignore[reportArgumentType]
        if reason:
            found.refused[name] = reason
        found.add(name, {"training": Verdict(reason, 0 if reason else 1)})
    return found


def laws_of(case: Case, *, thorough: bool = True) -> dict[str, Verdict]:
    """Every law on a case and on a longer one; not `thorough`: only those that may depend on what stands beside."""
    verdicts: dict[str, Verdict] = {}
    for name, law in LAWS.items():
        if not (thorough or law.long):
            continue
        verdicts[name] = law(case)
        if law.long and verdicts[name].holds:
            law(case.lengthened(law.long))
    return verdicts
