"""Task: episodes that are drawn, not read, each with its answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from sublayer.data.base import TASK, Data
from sublayer.data.batches import Batch
from sublayer.data.splits import NAMES
from sublayer.data.tasks.batches import Chains, Episodes, exam
from sublayer.data.tasks.dice import Dice
from sublayer.data.tasks.examples import Block, Examples
from sublayer.data.tokenizer import Symbols, Tokenizer
from sublayer.files import cache
from sublayer.nn.config import ConfigError, Count, unknown

FORMAT = 1
"""Version of the drawing: the same number, the same episodes."""
BLOCK, TOKENS = 1000, 2**21
"""Most episodes, and most tokens, drawn at once."""
MOST = 2**28
"""Most tokens of a split, which is held in memory."""


class Task(Data):
    """Abstract: a kind defines what is read, what is answered, and draws episodes."""

    class Config(Data.Config):
        gives: ClassVar[str] = "answers"
        prefix: ClassVar[str] = TASK
        what: ClassVar[str] = "a task"

        episodes: Count = 10_000
        """Of a task: number of episodes in train."""
        valid: Count = 500
        """Of a task: number of episodes in valid."""
        test: Count = 1_000
        """Of a task: number of episodes in test."""
        seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
        """Of a task: seed of the episodes; train.seed is that of the weights and the order."""

        def build(self) -> Task:
            return self.owner(self)

        @classmethod
        def named(cls, name: str) -> Task.Config:
            return Task.named(name)

        def prepare(self, folder: Path | str | None = None, tokenizer: Tokenizer | None = None) -> Task:
            """A task has symbols of its own, so those of a trained model must be the same."""
            task = self.build()
            if tokenizer is not None and tokenizer != task.tokenizer:
                raise ValueError(
                    f"{task.title}: is written in {' '.join(task.symbols)}, and the model was trained on other tokens; "
                    "use the task, or the text, that it was trained on"
                )
            return task

        def longest(self, part: str) -> int:
            """Tokens that an episode of a part can have."""
            raise NotImplementedError

        def count(self, part: str) -> int:
            return {"train": self.episodes, "valid": self.valid, "test": self.test}[part]

        @model_validator(mode="after")
        def _held(self) -> Any:
            for part in NAMES:
                if (tokens := self.count(part) * self.longest(part)) > MOST:
                    raise ValueError(
                        f"{self.count(part):,} episodes of {part} may have {tokens:,} tokens, at most {MOST:,} are "
                        "held in memory; use fewer, or shorter ones"
                    )
            return self

    def __init__(self, config: Task.Config) -> None:
        self.config = config
        self.tokenizer = Symbols(Symbols.Config(symbols=self.symbols))

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols that are read, in the order of ids."""
        raise NotImplementedError

    @staticmethod
    def named(name: str) -> Task.Config:
        """The config of a task: `Task.named("copy")`."""
        if name not in Task.names():
            raise ConfigError(unknown("task", name, Task.names()))
        return Task.Config.parse(name)

    @staticmethod
    def names() -> list[str]:
        return sorted(tag for tag, kind in Data.Config.registry.items() if getattr(kind, "prefix", "") == TASK)

    @property
    def title(self) -> str:
        return TASK + self.config.tag

    @property
    def hash(self) -> str:
        return cache.key(format=FORMAT, task=self.config.dump())

    @property
    def train(self) -> Examples:
        return draw(self.config.to_json(), "train")

    @property
    def valid(self) -> Examples:
        return draw(self.config.to_json(), "valid")

    @property
    def test(self) -> Examples:
        return draw(self.config.to_json(), "test")

    def longest(self, split: str) -> int:
        return self.config.longest(split)

    def make(self, dice: Dice, count: int, part: str) -> Block:
        """So many episodes."""
        raise NotImplementedError

    def batches(
        self,
        batch: int,
        length: int,
        *,
        carry: bool,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
        cursor: Mapping[str, Any] | None = None,
    ) -> Episodes | Chains:
        own: dict[str, Any] = {"seed": seed, "rank": rank, "world": world, "cursor": cursor}
        return Chains(self.train, batch, length, **own) if carry else Episodes(self.train, batch, **own)

    def sweep(
        self,
        split: str,
        batch: int,
        length: int,
        *,
        carry: bool,
        limit: int | None = None,
        rank: int = 0,
        world: int = 1,
    ) -> Iterator[Batch]:
        examples = getattr(self, split).beginning(limit)
        return exam(examples, batch, length, carry=carry, rank=rank, world=world)


@lru_cache(maxsize=len(NAMES))
def draw(asked: str, part: str) -> Examples:
    """A split of a task, by its config's JSON; the last task's are cached. More episodes begin with the same ones."""
    config = Task.Config.from_json(asked)
    task, count = config.build(), config.count(part)
    block = max(1, min(BLOCK, TOKENS // config.longest(part)))

    def blocks() -> Iterator[Block]:
        for number, start in enumerate(range(0, count, block)):
            inputs_EL, answers_EL = task.make(Dice(config.seed, NAMES.index(part), number), block, part)
            yield inputs_EL[: count - start], answers_EL[: count - start]

    examples = Examples.join(part, blocks(), task.alone)
    if not examples.asked.any():
        raise ValueError(f"{task.title}: {part} asks for no answer in {count} episodes; use more, or longer ones")
    return examples
