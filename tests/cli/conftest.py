"""Running the command line inside the test's own process."""

import json

import pytest

from sublayer.cli import main


@pytest.fixture
def run(capsys):
    """`run("list", "xl")` → what it printed."""

    def run(*words: str) -> str:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main(list(words))
        said = capsys.readouterr()
        assert (end.value.code, said.err) == (0, "")
        return said.out

    return run


@pytest.fixture
def show(run):
    """`show("gpt2", "dim=256")` → what `--json` printed, read."""
    return lambda *words: json.loads(run("show", *words, "--json"))


@pytest.fixture
def refuse(capsys):
    """`refuse("show", "gtp2")` → the one line it answered, after exit code 2 and nothing on stdout."""

    def refuse(*words: str) -> str:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main(list(words))
        said = capsys.readouterr()
        assert (end.value.code, said.out) == (2, "")
        assert said.err.startswith("sublayer: ")
        assert said.err.count("\n") == 1
        assert said.err.endswith("\n")
        return said.err

    return refuse
