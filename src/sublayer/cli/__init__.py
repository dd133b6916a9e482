"""The command line: one verb per job; a verb only parses, calls and prints.

torch is imported inside verbs only, so that `--help`, `--version` and argument errors answer at once.
"""

from __future__ import annotations

import os
import sys

from cyclopts import App, CycloptsError

import sublayer
from sublayer.cli import keys

app = App(
    name="sublayer",
    help="Spell any member of the Transformer family in sublayers, see what it costs, train it and let it write.",
    version=sublayer.__version__,
    help_epilogue="Start with: sublayer list · sublayer show gpt2 · sublayer train gpt2 --data book.txt dim=128",
)
app.command("sublayer.cli.list:list_papers", name="list", help="The family as a tree, with what each member costs.")
app.command("sublayer.cli.show:show", name="show", help="One member: its config, what it changes, what it costs.")

app.command(
    "sublayer.cli.train:train",
    name="train",
    help="Train a model on your text; it can be stopped at any moment and resumed.",
    help_epilogue=f"Keys of the training and the data, with their defaults:\n\n{keys.page()}",
)
app.command("sublayer.cli.train:resume", name="resume", help="Go on with a run that was stopped.")
app.command("sublayer.cli.eval:evaluate", name="eval", help="Score a trained model on a text it has not seen.")
app.command("sublayer.cli.generate:generate", name="generate", help="A trained model goes on with a text.")
app.command("sublayer.cli.measure:measure", name="measure", help="Time and memory of models on this machine.")
app.command(
    "sublayer.cli.search:search", name="search", help="Models within a budget of time and memory on this machine."
)
app.command("sublayer.cli.supernet:supernet", name="supernet", help="Search the order of sublayers by gradient.")
app.command("sublayer.cli.proxies:proxies", name="proxies", help="How well quick figures rank trained models.")
app.command("sublayer.cli.compare:compare", name="compare", help="Variants side by side: same text, tokens and seeds.")
app.command("sublayer.cli.report:report", name="report", help="A page with pictures from folders of results.")
app.command("sublayer.cli.runs:runs", name="runs", help="What was trained, and how far it came.")


def main(tokens: list[str] | None = None) -> None:
    """Run a verb. Wrong input answers in one line on stderr, with exit code 2."""
    try:
        app(tokens, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        _refuse(f"{error} See sublayer --help.")
    except BrokenPipeError:  # whoever reads has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (ValueError, OSError, NotImplementedError) as error:
        if not str(error):  # an abstract method, which no input should reach: that is ours to see
            raise
        _refuse(str(error))
    except KeyboardInterrupt:
        sys.exit(130)


def _refuse(message: str) -> None:
    print("sublayer:", *message.split(), file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
