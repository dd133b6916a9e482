"""The command line: one verb per job; a verb only parses, calls and prints.

torch is imported inside verbs only, so that `--help`, `--version` and argument errors answer at once.
"""

from __future__ import annotations

import os
import sys

from cyclopts import App, CycloptsError

import sublayer
from sublayer.cli import keys, stopping

app = App(
    name="sublayer",
    help="Compose any member of the Transformer family from sublayers; train it, measure it, search for one that fits.",
    version=sublayer.__version__,
    help_epilogue="Start with: sublayer list · sublayer show gpt2 · sublayer train gpt2 --data book.txt dim=128 · "
    "sublayer search sublayers --latency-max 5ms",
    suppress_keyboard_interrupt=False,
)
VERBS = {
    "list": "list:list_papers",
    "show": "show:show",
    "train": "train:train",
    "resume": "train:resume",
    "eval": "eval:evaluate",
    "generate": "generate:generate",
    "measure": "measure:measure",
    "search": "search:search",
    "supernet": "supernet:supernet",
    "proxies": "proxies:proxies",
    "compare": "compare:compare",
    "reproduce": "reproduce:reproduce",
    "report": "report:report",
    "runs": "runs:runs",
}
OF_DATASTORES = {"build": "datastore:build", "show": "datastore:show"}
EPILOGUES = {"train": f"Keys of the training and the data, with their defaults:\n\n{keys.page()}"}
for verb, function in VERBS.items():
    app.command(f"sublayer.cli.{function}", name=verb, help=keys.about(function), help_epilogue=EPILOGUES.get(verb))
datastores = App(
    name="datastore", help="Build and show datastores: contexts of a text, for a model to look up (kNN-LM)."
)
for verb, function in OF_DATASTORES.items():
    datastores.command(f"sublayer.cli.{function}", name=verb, help=keys.about(function))
app.command(datastores)


def main(tokens: list[str] | None = None) -> None:
    """Run a verb. Wrong input is answered in one line on stderr, with exit code 2."""
    try:
        words = sys.argv[1:] if tokens is None else tokens
        with stopping.stopped_by_signals(words), stopping.when_stopped(lambda: "stopped"):
            app(tokens, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        _refuse(f"{error} See sublayer --help.")
    except BrokenPipeError:  # the reader of the pipe has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (ValueError, OSError, NotImplementedError) as error:
        if not str(error):  # an abstract method: a defect of ours, so show the traceback
            raise
        _refuse(str(error))


def _refuse(message: str) -> None:
    print("sublayer:", *message.split(), file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
