"""`sublayer train` and `sublayer resume`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from sublayer.cli.start import import_torch
from sublayer.cli.stopping import same_command, when_stopped
from sublayer.progress import Display

if TYPE_CHECKING:
    from sublayer.progress.training import TrainingView


def train(
    name: str,
    /,
    *changes: str,
    data: Annotated[str, Parameter(allow_leading_hyphen=True)] = "stdlib",
    out: str = "",
    processes: int = 1,
    plugin: Annotated[list[str] | None, Parameter(negative="")] = None,
    quiet: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Train a model on your text, or on a task; it can be stopped at any moment and resumed.

    Examples: sublayer train gpt2 --data book.txt --out runs/book dim=128 layout='(sf)x4' s.heads=4 train.steps=2000 ·
    sublayer train transformer-xl --data notes/ --out runs/notes train.tokens=5000000 data.tokenizer=bpe ·
    sublayer train gpt2 --data task:random-walk --out runs/walk dim=64 layout='(sf)x2' s.heads=4 data.size=5 ·
    sublayer train gpt2 --data image:shapes --out runs/shapes dim=64 layout='(sf)x2' s.heads=4 data.levels=16 ·
    sublayer train 'searches/first#best' --data book.txt

    Parameters
    ----------
    name
        A paper's name (see sublayer list), a JSON or TOML file with a config, the folder of a run (its model is trained
        anew), or a candidate of a search: searches/first#12, searches/first#best, #fastest or #knee.
    changes
        key=value: the model's (dim=128, s.heads=4; after a layout, a rule: layout='(sf)x6' layout='par(5)'), the
        training's (train.steps=500) and the data's
        (data.tokenizer=bpe). All keys of train and data are listed below.
    data
        A text file, a folder, a pattern ('*.md'), .gz, .jsonl, .parquet, - for standard input, or stdlib: the source of
        Python's own library. A folder with train, valid and test files has those splits. Or task:NAME, a task whose
        episodes are generated: algorithmic, copy, counting, random-walk, reverse (sublayer list --tasks). Or
        image:PATH, images whose pixels are tokens: a folder or pattern of PNG, PPM, JPEG, … files, or a .npy file of
        uint8, N × height × width (× channels); image:shapes draws its own.
    out
        The folder of the run, new or empty; runs/NAME if not given.
    processes
        Number of processes that train together on this machine.
    plugin
        A module with parts or papers of your own; may be given more than once.
    quiet
        Print nothing. Without it, progress goes to stderr: a bar with the time left on a terminal, a line every few
        seconds elsewhere. Where stdout is not a terminal, each line of metrics is printed there as JSON, with the time
        (UTC) and tokens per second.
    """
    path = Path(out or default_out(name))
    with _shown(path, quiet, processes) as view:
        import sublayer
        from sublayer.cli.words import load_plugins, read_overrides

        load_plugins(plugin or [])
        how = {"processes": processes, "plugins": plugin or (), "reporter": view}
        made = sublayer.train(name, data, path, read_overrides(changes), **how)
    _suggest(made.path, quiet)


def default_out(name: str) -> str:
    """`runs/gpt2`, `runs/mine` for mine.toml, `runs/first-12` for searches/first#12."""
    folder, mark, which = name.rpartition("#")
    return f"runs/{Path(folder).name}-{which}" if mark else f"runs/{Path(name).stem}"


def resume(
    run: str,
    /,
    *changes: str,
    step: int | None = None,
    processes: int = 1,
    plugin: Annotated[list[str] | None, Parameter(negative="")] = None,
    quiet: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Continue a run that was stopped, to the same bits as an undisturbed run; or with a larger budget.

    Examples: sublayer resume runs/book · sublayer resume runs/book train.steps=5000

    Parameters
    ----------
    run
        The folder of the run.
    changes
        train.steps=…, train.tokens=…, train.minutes=… and other keys that may change during training.
    step
        Step of the checkpoint to continue from; the last if not given.
    processes
        Number of processes that train together on this machine; may differ from before.
    plugin
        A module with parts or papers of your own; may be given more than once.
    quiet
        Print nothing.
    """
    with _shown(Path(run), quiet, processes) as view:
        import sublayer
        from sublayer.cli.words import load_plugins, read_overrides

        load_plugins(plugin or [])
        how = {"processes": processes, "plugins": plugin or (), "reporter": view}
        made = sublayer.resume(run, read_overrides(changes), step=step, **how)
    _suggest(made.path, quiet)


@contextmanager
def _shown(path: Path, quiet: bool, processes: int) -> Iterator[TrainingView]:
    """The view of a training; if that is stopped, print what is saved and how to go on."""
    view: TrainingView | None = None
    alone = os.environ.get("RANK", "0") == "0"  # of processes that train together, the first one shows it
    with (
        when_stopped(lambda: _stopped(path, view, processes)),
        Display("starting", quiet=quiet or not alone) as display,
    ):
        import_torch()
        from sublayer.progress.training import training_view

        view = training_view(display)
        yield view


def _stopped(path: Path, view: TrainingView | None, processes: int) -> str:
    from sublayer.runs import Run
    from sublayer.runs.wording import command

    reached = None if view is None else view.reached
    where = "stopped" if reached is None else f"stopped at step {reached:,}"
    if not (path / "run.json").exists():
        return f"{where}; nothing is saved yet. {same_command()}"
    saved = Run(path).checkpoints
    kept = f"saved at step {saved[-1].step:,} in {path}" if saved else f"nothing is saved yet in {path}"
    together = ("--processes", processes) if processes > 1 else ()
    return f"{where}; {kept}. Continue: {command('resume', path, *together)}"


def _suggest(path: Path, quiet: bool) -> None:
    """Suggest the next commands, on a terminal only."""
    from sublayer.runs.wording import command

    if not quiet and sys.stdout.isatty() and "RANK" not in os.environ:
        next_commands = command("eval", path), command("generate", path, "--prompt", "…"), command("runs", path)
        print("", " · ".join(next_commands), sep="\n")
