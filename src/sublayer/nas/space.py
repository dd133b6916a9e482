"""Space: a base config and what may be chosen in it, by the same keys as overrides.

A candidate's genes are {key: value}; a key whose choice is `each` has a list, as long as the longest layout needs, of
which a shorter layout uses the first. Keys that change together are joined by a comma: `embedding.factor,head.factor`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any, TypeAlias

from sublayer.nas.choice import Choice
from sublayer.nas.reading import read_gene, same
from sublayer.nas.rule import Rule
from sublayer.nn import layout as layouts
from sublayer.nn.config import ConfigError, unknown
from sublayer.nn.model import Model
from sublayer.nn.stack import Stack

Genes: TypeAlias = "dict[str, Any]"
TRIES = 200
"""Draws for a valid base."""


@dataclass(frozen=True)
class Candidate:
    """A valid point of a space."""

    genes: Genes
    config: Model.Config
    hash: str
    """The config's: two candidates with one hash are one model."""

    @property
    def layout(self) -> str:
        """The layouts of all stacks, for people."""
        return " → ".join(stack.layout for stack in self.config.stacks.values())


@dataclass(frozen=True)
class Space:
    base: Model.Config
    choices: Mapping[str, Choice]
    rules: tuple[Rule, ...] = ()

    def __post_init__(self) -> None:
        if not self.choices:
            raise ConfigError("the space is empty: nothing is to be chosen; write for example dim=128..512/64")
        for key, choice in self.choices.items():
            for path in key.split(","):
                self._check_key(path, choice)
        for rule in self.rules:
            self._check_rule(rule)
        written = {key: self._written(key, choice) for key, choice in self.choices.items()}
        object.__setattr__(self, "choices", written)

    @classmethod
    def of(
        cls, base: Model.Config, choices: Mapping[str, Choice | str | list[Any]], rules: Iterable[str | Rule] = ()
    ) -> Space:
        """From texts: `Space.of(base, {"dim": "128..512/64", "f.inner": "each(256|512)"}, ["f.inner>1.7*dim"])`."""
        read = tuple(rule if isinstance(rule, Rule) else Rule.parse(rule) for rule in rules)
        return cls(base, {key: _choice(key, choice) for key, choice in choices.items()}, read)

    # Drawing

    def sample(self, rng: Random) -> Genes:
        genes: Genes = {}
        for key in self._drawn:
            values = self._allowed(key, genes)
            genes[key] = [_pick(values, rng) for _ in range(self.most(key))] if self._each(key) else _pick(values, rng)
        return self._ordered(genes)

    def mutate(self, genes: Genes, p: float, rng: Random) -> Genes:
        """Every gene drawn anew with probability p, each of a list by itself."""

        def new(value: Any, values: tuple[Any, ...]) -> Any:
            return _pick(values, rng) if rng.random() < p else value

        return self._formed(lambda key, values: new(genes[key], values), lambda key, n, v: new(genes[key][n], v), rng)

    def cross(self, one: Genes, other: Genes, rng: Random) -> Genes:
        """Every gene from either parent, each of a list by itself."""

        def parent() -> Genes:
            return one if rng.random() < 0.5 else other

        return self._formed(lambda key, values: parent()[key], lambda key, n, values: parent()[key][n], rng)

    def repair(self, genes: Genes, rng: Random) -> Genes:
        """The same genes, except that those which a rule forbids are drawn again."""
        return self._formed(lambda key, values: genes[key], lambda key, n, values: genes[key][n], rng)

    # Genes and configs

    def config(self, genes: Genes) -> Model.Config:
        """The config of these genes; ConfigError where they do not fit each other."""
        changes: dict[str, Any] = {}
        for key, value in self.used(genes).items():
            for rule in self._rules_of(key):
                for one in value if self._each(key) else [value]:
                    if not rule.allows(one, {**self._fixed, **genes}):
                        raise ConfigError(f"{key}={one} breaks the rule {rule}")
            changes |= dict.fromkeys(key.split(","), value)
        # A kind is set before its fields.
        return self.base.override({path: changes[path] for path in sorted(changes, key=lambda path: path.count("."))})

    def candidate(self, genes: Genes) -> Candidate | None:
        """None where the genes do not fit each other."""
        try:
            config = self.config(genes)
        except ConfigError:
            return None
        return Candidate(genes, config, config.hash)

    def used(self, genes: Genes) -> Genes:
        """Without the ends of lists that the layout does not reach, and without lists of letters it does not have."""
        used = {}
        for key, value in genes.items():
            count = self._count(key, genes) if self._each(key) else 1
            if count:
                used[key] = value[:count] if self._each(key) else value
        return used

    def genes(self, config: Model.Config) -> Genes | None:
        """The genes of a config; None where it is not in the space. Unused ends of lists repeat the last value."""
        genes: Genes = {}
        for key, choice in self.choices.items():
            inside = [other for other in self.choices if other.startswith(f"{key}.")]
            found = read_gene(self.base, config, key, choice, inside)
            if found is None:
                return None
            most = self.most(key)
            genes[key] = (found + (found[-1:] or [choice.values[0]]) * most)[:most] if choice.each else found[0]
        made = self.candidate(genes)
        return genes if made is not None and same(made.config, config) else None

    def __contains__(self, config: Model.Config) -> bool:
        return self.genes(config) is not None

    def most(self, key: str) -> int:
        """The number of genes of a key: with each(…), the most occurrences of its letter in any layout; else 1."""
        return self._most[key]

    @property
    def size(self) -> float:
        """log10 of the number of candidates, before rules."""
        size = sum(math.log10(len(choice.values)) for key, choice in self.choices.items() if not choice.each)
        for stack in self.base.stacks:
            size += self._mean_of_layouts(stack)
        return size

    # As data

    def dump(self) -> dict[str, Any]:
        return {
            "base": self.base.dump(),
            "choices": {key: str(choice) for key, choice in self.choices.items()},
            "rules": [str(rule) for rule in self.rules],
        }

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> Space:
        return cls.of(Model.Config.parse(data["base"], "base"), data["choices"], data.get("rules", ()))

    def but(
        self,
        choices: Mapping[str, Choice | str] | None = None,
        fixed: Mapping[str, Any] | None = None,
        rules: Iterable[str | Rule] = (),
    ) -> Space:
        """With other choices, with keys fixed that are then no choices, with more rules."""
        fixed = fixed or {}
        free = {key: choice for key, choice in self.choices.items() if not set(key.split(",")) & set(fixed)}
        held = [rule for rule in self.rules if rule.key in {**free, **(choices or {})}]
        made = {**free, **(choices or {})}
        return Space.of(changed(self.base, made, fixed), made, [*held, *rules])

    def fitted(self, vocab: int) -> Space:
        """With a text's vocabulary; choices of clusters that it is too small for are left out."""
        from sublayer.training.vocabulary import fitted

        base = self.base.but(fitted(self.base, vocab))

        def known(path: str) -> bool:
            room, _, field = path.partition(".")
            return room not in ("embedding", "head") or not field or hasattr(getattr(base, room), field)

        left = {key: choice for key, choice in self.choices.items() if all(known(path) for path in key.split(","))}
        return Space(base, left, self.rules)

    # Private

    def _formed(self, single: Any, listed: Any, rng: Random) -> Genes:
        """Genes made key by key, drawn anew where a rule forbids them."""
        genes: Genes = {}
        for key in self._drawn:
            values = self._allowed(key, genes)
            ruled = set(values) if self._rules_of(key) else None
            made = [listed(key, n, values) for n in range(self.most(key))] if self._each(key) else [single(key, values)]
            if ruled is not None:
                made = [value if value in ruled else _pick(values, rng) for value in made]
            genes[key] = made if self._each(key) else made[0]
        return self._ordered(genes)

    def _allowed(self, key: str, genes: Genes) -> tuple[Any, ...]:
        """The values that rules allow, or all where they allow none: then the candidate will not be valid."""
        values, rules = self.choices[key].values, self._rules_of(key)
        if not rules:
            return values
        known = {**self._fixed, **genes}
        return tuple(value for value in values if all(rule.allows(value, known) for rule in rules)) or values

    @cached_property
    def _drawn(self) -> list[str]:
        """Keys in the order of drawing: those that rules refer to come before those they bound."""
        return sorted(self.choices, key=lambda key: bool(self._rules_of(key)))

    @cached_property
    def _fixed(self) -> dict[str, Any]:
        """Values that rules refer to and that the base fixes."""
        others = (rule.other for rule in self.rules if rule.other not in self.choices)
        return {other: getattr(self.base, other) for other in others}

    @cached_property
    def _most(self) -> dict[str, int]:
        most = dict.fromkeys(self.choices, 1)
        for key, (stack, letter) in self._letter_of.items():
            most[key] = max(self._letters[layout][letter] for layout in self._layouts(stack))
        return most

    def _rules_of(self, key: str) -> list[Rule]:
        return [rule for rule in self.rules if rule.key == key]

    def _each(self, key: str) -> bool:
        return self.choices[key].each

    def _ordered(self, genes: Genes) -> Genes:
        return {key: genes[key] for key in self.choices}

    def _find_letter(self, path: str) -> tuple[str, str]:
        """The stack's name and the letter of a key."""
        where = self.base.locate(path, self.base.dump()) or []
        for name, stack in self.base.stacks.items():
            if where and getattr(self.base, where[0], None) is stack and where[1:2] == ["alphabet"] and len(where) > 3:
                return name, where[2]
        raise ConfigError(f"{path}: each(…) is for a field of a letter, such as f.inner; write the choice without it")

    def _layout_key(self, stack: str) -> str:
        return f"{stack}.layout" if stack else "layout"

    def _layouts(self, stack: str) -> tuple[str, ...]:
        choice = self.choices.get(self._layout_key(stack))
        return choice.values if choice else (self.base.stacks[stack].layout,)

    def _count(self, key: str, genes: Genes) -> int:
        stack, letter = self._letter_of[key]
        layout = genes.get(self._layout_key(stack), self.base.stacks[stack].layout)
        return self._letters[layout][letter]

    @cached_property
    def _letter_of(self) -> dict[str, tuple[str, str]]:
        return {key: self._find_letter(key.split(",")[0]) for key, choice in self.choices.items() if choice.each}

    @cached_property
    def _letters(self) -> dict[str, Counter[str]]:
        known = {layout for stack in self.base.stacks for layout in self._layouts(stack)}
        return {layout: Counter(layouts.expand(layout)) for layout in known}

    def _mean_of_layouts(self, stack: str) -> float:
        """log10 of the number of ways to fill a stack's lists, averaged over the layouts."""
        listed = [(key, letter) for key, (name, letter) in self._letter_of.items() if name == stack]
        ways = [
            sum(math.log10(len(self.choices[key].values)) * self._letters[layout][letter] for key, letter in listed)
            for layout in self._layouts(stack)
        ]
        return max(ways) + math.log10(sum(10 ** (way - max(ways)) for way in ways) / len(ways))

    def _check_key(self, path: str, choice: Choice) -> None:
        if self.base.locate(path, self.base.dump()) is None:
            raise ConfigError(unknown("key", path, self.base.keys()))
        if choice.each:
            self._find_letter(path)

    def _check_rule(self, rule: Rule) -> None:
        if rule.key not in self.choices:
            raise ConfigError(f"rule {rule}: {rule.key} is not a choice; the choices are {', '.join(self.choices)}")
        other = self.choices.get(rule.other)
        values = other.values if other else (getattr(self.base, rule.other, None),)
        if (other and other.each) or not all(isinstance(value, int | float) for value in values):
            raise ConfigError(f"rule {rule}: {rule.other} is not one number; compare with a key such as dim")
        if not all(isinstance(value, int | float) for value in self.choices[rule.key].values):
            raise ConfigError(f"rule {rule}: {rule.key} is not chosen from numbers")

    def _written(self, key: str, choice: Choice) -> Choice:
        """Layouts in the form that configs have, with rules such as par(5) applied to the base's."""
        stack = key.removesuffix("layout").removesuffix(".")
        if key != self._layout_key(stack) or not isinstance(self.base.stacks.get(stack), Stack.Config):
            return choice
        here = self.base.stacks[stack].layout
        written = (layouts.write(layouts.parse(layouts.apply_rule(str(value), here))) for value in choice.values)
        return Choice(tuple(dict.fromkeys(written)))


def changed(base: Model.Config, choices: Mapping[str, Choice | str], fixed: Mapping[str, Any]) -> Model.Config:
    """A base with keys fixed, and values for the choices that fit them."""
    if not fixed:
        return base
    # Layouts stay, as rules such as par(5) rewrite the base's.
    chosen = {key: _choice(key, choice) for key, choice in choices.items() if not key.endswith("layout")}
    rng, reason = Random(0), ""
    for attempt in range(TRIES):
        changes = dict(fixed)
        for key, choice in chosen.items():
            changes |= dict.fromkeys(key.split(","), choice.pick(rng) if attempt else choice.values[0])
        try:
            return base.override({path: changes[path] for path in sorted(changes, key=lambda path: path.count("."))})
        except ConfigError as error:
            reason = reason or str(error)
    raise ConfigError(f"the space is empty: nothing that is chosen goes with what is fixed; the first: {reason}")


def _choice(key: str, given: Choice | str | list[Any]) -> Choice:
    try:
        choice = Choice.of(given)
        if key == "layout":  # else a slip would only make valid candidates rarer
            for value in choice.values:
                layouts.parse(layouts.apply_rule(str(value), "(sf)x16"))
    except ValueError as error:
        raise ConfigError(f"{key}: {error}") from None
    return choice


def _pick(values: tuple[Any, ...], rng: Random) -> Any:
    return values[rng.randrange(len(values))]
