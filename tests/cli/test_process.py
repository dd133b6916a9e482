"""What only a process of its own shows: what is imported, exit codes, and a reader that stops reading."""

import subprocess
import sys

import pytest

import sublayer
from sublayer.cli import main

LOADED = "import sys\nfrom sublayer.cli import main\ntry:\n    main(sys.argv[1:])\nfinally:\n    print(*sys.modules)"


def process(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", LOADED, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        *(([verb, "--help"], 0) for verb in ("list", "show", "train", "resume", "eval", "generate", "runs")),
        *((words, 0) for words in (["--help"], ["--version"])),
        *((words, 2) for words in (["sing"], ["show", "gpt2", "--colour"], ["generate", "run", "--tokens", "many"])),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_answers_that_need_no_torch_import_none(words, code):
    done = process(*words)
    assert done.returncode == code, done.stderr
    modules = done.stdout.splitlines()[-1].split()
    assert "sublayer.cli" in modules
    assert not {"torch", "numpy", "pydantic", "sublayer.api"} & set(modules)


def test_the_package_is_a_command():
    words = [sys.executable, "-m", "sublayer", "--version"]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == f"{sublayer.__version__}\n"


def test_help_says_what_the_verbs_do():
    page = process("--help").stdout
    assert "list" in page
    assert "The family as a tree" in page
    assert "One member" in page


def test_show_imports_nothing_that_it_does_not_use():
    done = process("show", "gpt2", "--json")
    assert done.returncode == 0, done.stderr
    modules = done.stdout.splitlines()[-1].split()
    unused = {"transformers", "tokenizers", "hypothesis", "sublayer.interop", "sublayer.testing", "torch._dynamo"}
    assert "torch" in modules
    assert not unused & set(modules)


def test_wrong_input_shows_no_traceback():
    done = process("show", "gtp2")
    assert done.returncode == 2
    assert done.stderr == "sublayer: unknown paper 'gtp2'; did you mean gpt2?\n"


def test_a_mistake_of_ours_is_not_taken_for_one_of_the_users(monkeypatch):
    """An abstract method that was reached has nothing to say to a user."""

    def unfinished(*_, **__):
        raise NotImplementedError

    monkeypatch.setattr("sublayer.describe", unfinished)
    with pytest.raises(NotImplementedError):
        main(["show", "gpt2"])


@pytest.mark.parametrize("kind", ["dense", "glu"])
def test_a_config_file_needs_no_paper_to_be_read_before(kind, tmp_path):
    file = tmp_path / "mine.toml"
    stack = f'kind = "plain"\nlayout = "(sf)x2"\nalphabet.s = "multihead"\nalphabet.f = "{kind}"\n'
    file.write_text(f'kind = "decoder"\nvocab = 256\ndim = 64\n[stack]\n{stack}', encoding="utf-8")
    done = process("show", str(file))
    assert done.returncode == 0, done.stderr
    assert f'kind = "{kind}"' in done.stdout


def test_a_reader_that_has_read_enough():
    command = [sys.executable, "-c", LOADED, "list", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout
        assert running.stderr
        running.stdout.close()
        assert "Traceback" not in running.stderr.read()
