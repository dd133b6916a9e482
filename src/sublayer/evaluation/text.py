"""Which text, or task, a run is scored on: what it kept aside of its own, or another."""

from __future__ import annotations

from dataclasses import dataclass

from sublayer.data import Data, Dataset, Examples, Fractions, Tokenizer, Tokens, prepare
from sublayer.data.splits import NAMES
from sublayer.runs import Run
from sublayer.runs.run import ASKED
from sublayer.runs.wording import plural


@dataclass(frozen=True)
class Scored:
    """A text or a task to be scored, and what it is."""

    tokens: Tokens | Examples
    title: str
    """Of its source."""
    split: str
    """train, valid, test, or all."""
    asked: str
    """The split that was asked for, if this one stands in for it."""

    @property
    def stands_in(self) -> bool:
        """Whether the split that was asked for is empty."""
        return self.split != self.asked


def own_text(run: Run, split: str = "test") -> Scored:
    """A split of the text that a run was trained on; valid, if test is asked for and empty."""
    config = Data.Config.parse(run.asked["data"], f"{run.path / ASKED}: data")
    data = prepare(config, tokenizer=run.tokenizer)
    if data.hash != run.asked.get("text", data.hash):
        raise ValueError(
            f"{run.path}: {data.title} has changed since the run began, so {split} may hold what it was trained on; "
            "put the text back, or name one with --data"
        )
    return _chosen(data, split)


def other_text(said: str, tokenizer: Tokenizer, split: str | None = None) -> Scored:
    """A text that a user names, in the tokens of a model: all of it, or a split.

    A folder with train, valid and test files has those splits, and its test is taken; so has a task.
    """
    config = Data.Config.guess(said)
    if split is None and isinstance(config, Dataset.Config) and isinstance(config.splits, Fractions.Config):
        data = prepare(config.but(splits=Fractions.Config(valid=0, test=0)), tokenizer=tokenizer)
        return Scored(_enough(data, "train", "it"), data.title, "all", "all")
    return _chosen(prepare(config, tokenizer=tokenizer), split or "test")


def _chosen(data: Data, split: str) -> Scored:
    if split not in NAMES:
        raise ValueError(f"split {split!r}: there is no such split; use one of {', '.join(NAMES)}")
    found = split if len(getattr(data, split)) > 1 or split != "test" else "valid"
    return Scored(_enough(data, found, split), data.title, found, split)


def _enough(data: Data, split: str, called: str) -> Tokens | Examples:
    tokens = getattr(data, split)
    if len(tokens) < 2:
        raise ValueError(
            f"{data.title}: {called} holds {plural(len(tokens), 'token')}, at least 2 are needed to predict one; "
            "score another split, or another text with --data"
        )
    return tokens
