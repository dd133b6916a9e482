"""Which text, or task, a run is scored on: a split of its own, or another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sublayer.data import Data, Tokenizer, prepare
from sublayer.data.splits import NAMES
from sublayer.runs import Run
from sublayer.runs.wording import plural


@dataclass(frozen=True)
class Scored:
    """A split of a text or a task, to be scored."""

    data: Data
    part: str
    """The split of the data: train, valid or test."""
    split: str
    """The same, or `all` where the text was not divided."""
    asked: str
    """The split that was asked for, if this one replaces it."""

    @property
    def tokens(self) -> Any:
        """Of a text: Tokens; of a task: Examples."""
        return getattr(self.data, self.part)

    @property
    def title(self) -> str:
        """Of its source: the file that is scored, where splits are files of their own."""
        return self.data.title_of(self.part)

    @property
    def stands_in(self) -> bool:
        """Whether the split that was asked for is empty."""
        return self.split != self.asked


def own_text(run: Run, split: str = "test") -> Scored:
    """A split of the text that a run was trained on; valid, if test is asked for and empty."""
    data = prepare(run.data_config, tokenizer=run.tokenizer)
    if data.hash != (run.request.text or data.hash):
        raise ValueError(
            f"{run.path}: {data.title} has changed since the run began, so {split} may hold what it was trained on; "
            "put the text back, or name one with --data"
        )
    return _chosen(data, split)


def other_text(typed: str, tokenizer: Tokenizer, split: str | None = None) -> Scored:
    """A text that a user names, in the tokens of a model: all of it, or a split.

    A folder with train, valid and test files has those splits, and its test is taken; so has a task.
    """
    config = Data.Config.guess(typed)
    whole = config.whole() if split is None else None
    if whole is not None:
        data = prepare(whole, tokenizer=tokenizer)
        _check_enough(data, "train", "it")
        return Scored(data, "train", "all", "all")
    return _chosen(prepare(config, tokenizer=tokenizer), split or "test")


def _chosen(data: Data, split: str) -> Scored:
    if split not in NAMES:
        raise ValueError(f"split {split!r}: there is no such split; use one of {', '.join(NAMES)}")
    found = split if len(getattr(data, split)) > 1 or split != "test" else "valid"
    _check_enough(data, found, split)
    return Scored(data, found, found, split)


def _check_enough(data: Data, split: str, called: str) -> None:
    tokens = getattr(data, split)
    if len(tokens) < 2:
        raise ValueError(
            f"{data.title}: {called} holds {plural(len(tokens), 'token')}, at least 2 are needed to predict one; "
            "score another split, or another text with --data"
        )
