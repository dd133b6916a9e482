"""`sublayer eval`: how well a trained model predicts a text, or answers the questions of a task."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from sublayer.cli.start import import_torch

if TYPE_CHECKING:
    from sublayer.evaluation import Scored
    from sublayer.trained import Trained


def evaluate(
    run: str,
    /,
    *,
    data: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    split: str | None = None,
    length: int | None = None,
    batch: int | None = None,
    stride: int | None = None,
    memory: int | None = None,
    lengths: str | None = None,
    positions: Annotated[bool, Parameter(negative="")] = False,
    limit: int | None = None,
    step: int | None = None,
    plugin: Annotated[list[str] | None, Parameter(negative="")] = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Score a trained model on a text it has not seen: every token after the first, each once; or on the questions of a
    task, where a run trained on one is asked those of its test by default.

    Examples: sublayer eval runs/book · sublayer eval runs/book --data other.txt --stride 32 · sublayer eval runs/book
    --lengths 128,256,512 · sublayer eval runs/xl --memory 640 · sublayer eval runs/walk --json

    Parameters
    ----------
    run
        The folder of the run.
    data
        Another text: a file, a folder, a pattern, - for standard input, or task:NAME. All of it is scored, or the test
        file of a folder with train, valid and test files, or the test of a task.
    split
        Of the text: train, valid or test; test if not given, or valid where test is empty.
    length
        Tokens in a segment; as many as in training if not given. Each segment begins afresh, or with what a segment
        memory (Transformer-XL) kept of those before.
    batch
        Segments read at once; chosen for speed if not given. It changes nothing else, except where a memory is carried:
        there the text is divided among so many rows, and each begins without memory.
    stride
        Windows that overlap, each so far from the one before, and scored in their last tokens only: each has more
        context. The smaller, the slower.
    memory
        Places that a segment memory keeps, if not as many as in training; 0 for none.
    lengths
        Several lengths, with commas: what becomes of the model beyond the one it was trained with.
    positions
        The loss by place in the segment, instead: what the model gains from context.
    limit
        Score so many tokens from the beginning; all if not given. Of a task, the whole episodes that they hold.
    step
        The checkpoint to use; the last if not given.
    plugin
        A module with parts or papers of your own; may be given more than once.
    json
        Print JSON for other programs.
    """
    several = _read_lengths(lengths)
    if several and (length is not None or positions):
        raise ValueError("--lengths: has its own table and lengths; leave out --length and --positions")
    if positions and stride is not None:
        raise ValueError(
            f"--positions --stride {stride}: windows are scored at their ends only; leave out one of the two"
        )

    import_torch()
    import sublayer
    from sublayer.cli import scoreboard
    from sublayer.cli.words import load_plugins, print_json
    from sublayer.evaluation import by_length, by_position, other_text, own_text

    load_plugins(plugin or [])
    trained = sublayer.load(run, step=step)
    usual = trained.run.request.length
    length = usual if length is None else length
    text = own_text(trained.run, split or "test") if data is None else other_text(data, trained.tokenizer, split)
    about = {
        "run": str(trained.run.path),
        "step": trained.run.checkpoints[-1].step if step is None else step,
        "text": text.title,
        "split": text.split,
        "asked": text.asked,
        "length": None if several else length,
        "stride": stride,
        "memory": _remembered(trained, stride, memory),
    }
    if not trained.objective(text.data.config).config.scores_every_token:
        _only_for_texts(text.title, stride=stride, memory=memory, lengths=lengths, positions=positions or None)
        page = {**about, **_scored_by_objective(trained, text, length, batch, limit)}
        print_json(page) if json else scoreboard.print_page(page)
        return
    with _bar() as on_batch:
        how: dict[str, Any] = {"batch": batch, "memory": memory, "limit": limit, "on_batch": on_batch}
        more = {"stride": stride, "tokenizer": trained.tokenizer}
        if positions:
            losses = by_position(trained.model, text.tokens, length=length, **how)
            found: dict[str, Any] = {"positions": [loss if isfinite(loss) else None for loss in losses.tolist()]}
        elif several:
            scores = by_length(trained.model, text.tokens, several, **how, **more)
            found = {"lengths": [{"length": n, "times": n / usual, **one.dump()} for n, one in scores.items()]}
        else:
            found = trained.evaluate(text, length=length, stride=stride, **how)
    page = {**about, **found}
    print_json(page) if json else scoreboard.print_page(page)


def _only_for_texts(title: str, **options: Any) -> None:
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"--{name}: {title} is not scored token by token; leave it out")


def _scored_by_objective(
    trained: Trained, text: Scored, length: int, batch: int | None, limit: int | None
) -> dict[str, Any]:
    """Figures of the objective, with state carried as in training."""
    as_trained = trained.run.request.carry
    carry = (trained.model.config.carries if as_trained is None else as_trained) and not text.data.alone
    with _bar() as on_batch:
        found = trained.evaluate(text, length=length, carry=carry, batch=batch, limit=limit, on_batch=on_batch)
    rows = text.data.longest(text.part)
    return found if carry or rows is None else {**found, "length": None, "memory": 0}


def _read_lengths(said: str | None) -> list[int]:
    if said is None:
        return []
    words = [word.strip() for word in said.split(",")]
    if not all(word.isdecimal() for word in words):
        raise ValueError(f"--lengths {said!r}: expected whole numbers with commas; write --lengths 128,256,512")
    return list(dict.fromkeys(int(word) for word in words))


def _remembered(trained: Trained, stride: int | None, memory: int | None) -> int:
    """Places that each segment begins with."""
    if stride is not None:
        return 0
    return max(stack.remembered for stack in trained.model.config.stacks.values()) if memory is None else memory


@contextmanager
def _bar() -> Iterator[Callable[[int, int], None]]:
    """To be told how much is done; shown to people only, and gone when all is."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    console = Console(stderr=True)
    columns = ("scoring", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
