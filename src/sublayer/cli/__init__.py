"""The command line: one verb per job; a verb only parses, calls and prints.

torch is imported inside verbs only, so that `--help`, `--version` and argument errors answer at once.
"""

from __future__ import annotations

import os
import sys

from cyclopts import App, CycloptsError

import sublayer

app = App(
    name="sublayer",
    help="Spell any member of the Transformer family in sublayers, see what it costs, and prove it right.",
    version=sublayer.__version__,
    help_epilogue="Start with: sublayer list · sublayer show gpt2 · sublayer show gpt2 dim=256 layout='par(5)'",
)
app.command("sublayer.cli.list:list_papers", name="list", help="The family as a tree, with what each member costs.")
app.command("sublayer.cli.show:show", name="show", help="One member: its config, what it changes, what it costs.")


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
        _refuse(str(error))
    except KeyboardInterrupt:
        sys.exit(130)


def _refuse(message: str) -> None:
    print("sublayer:", *message.split(), file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
