"""Several processes do what one does: the same losses, the same files; and they outlive one that is killed."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import multiprocessing

import sublayer
from sublayer.cli import main
from sublayer.data import DataConfig
from sublayer.progress.training import JsonLines
from sublayer.runs import Run
from sublayer.training import TrainConfig, launch, resume
from sublayer.training.job import begin, rewrite

SMALL = {"dim": 16, "layout": "(sf)x2", "s.heads": 2, "s.dropout": 0.0, "f.inner": 32}
GPT = {**SMALL, "embedding.dropout": 0.0, "residual.dropout": 0.0, "position.limit": 64}
XL = {**SMALL, "embedding": "token", "head": "tied", "residual.dropout": 0.0, "s.memory.length": 24}
DROP = {**GPT, "residual": {"kind": "layer_drop", "rate": 0.5}}
STEPS = {"steps": 8, "lr": 0.01, "warmup": 2, "log_every": 1, "keep": 9}
# What is scored ends within a segment, and one row has less of it than the others.
ROWS = {"batch": 4, "length": 16, "eval_every": 4, "eval_tokens": 1003}
LONG = {"accumulate": 2, "clip": 0.3}
GROWN = {"stages": [{"until": 6, "length": 12, "lr": 0.02, "model": {"s.memory.length": 16}}]}


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUBLAYER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("TORCH_CPP_LOG_LEVEL", "ERROR")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)  # where the tests' plug-ins are
    monkeypatch.syspath_prepend(str(tmp_path))


def asked(out: Path, paper: str, changes: dict[str, Any], processes: int = 1, **train: Any) -> Run:
    """A run that has not taken a step."""
    text = out.parent / "text.txt"
    if not text.exists():
        words = ("a", "river", "sings", "of", "stones", "and", "sand", "in", "the", "light")
        text.write_text(" ".join(words[n * n % 53 % len(words)] for n in range(4000)))
    config = TrainConfig().but({**STEPS, **ROWS, **train})
    return begin(sublayer.config(paper), DataConfig.guess(str(text)), out, config, changes, processes)


def alone(*what: Any, **train: Any) -> Run:
    return resume(asked(*what, **train))


def check_alike(one: Run, other: Run, tolerance: float = 1e-5) -> None:
    """The same was measured at the same steps, with the same result."""
    assert [line.keys() for line in one.metrics] == [line.keys() for line in other.metrics], other.path
    for a, b in zip(one.metrics, other.metrics, strict=True):
        for name in a.keys() - {"valid_perplexity"}:
            assert abs(a[name] - b[name]) <= tolerance, f"{other.path}, step {a['step']}: {name}"


def contents(run: Run) -> dict[Any, Any]:
    """What the files of all checkpoints hold, apart from the numbers."""
    held: dict[Any, Any] = {}
    for checkpoint in run.checkpoints:
        held[checkpoint.step] = sorted(file.name for file in checkpoint.path.iterdir())
        for file in ("model", "optimizer", "carried"):
            tensors = checkpoint.tensors(file) or {}
            held[checkpoint.step, file] = {name: (t.shape, t.dtype) for name, t in tensors.items()}
        notes = checkpoint.notes
        held[checkpoint.step, "notes"] = [notes["cursor"], notes.get("carried"), notes["progress"]["tokens"]]
    return held


def check_numbers(one: Run, other: Run) -> None:
    """Weights, moments and memories are near each other, and no two of them changed places."""
    for a, b in zip(one.checkpoints, other.checkpoints, strict=True):
        for file in ("model", "optimizer", "carried"):
            there = b.tensors(file) or {}
            for name, tensor in (a.tensors(file) or {}).items():
                torch.testing.assert_close(there[name], tensor, rtol=1e-3, atol=1e-5, msg=f"{b.path}: {name}")


@dataclass
class Job:
    run: Path
    source: Path | None = None
    """A run to copy, and to go on with from step 4."""
    shard: bool = False
    refuses: str = ""


def work_in_two(jobs: list[Job], folder: Path) -> None:
    multiprocessing.spawn(_work, (jobs, folder / "store"), nprocs=2)


def _work(rank: int, jobs: list[Job], store: Path) -> None:
    torch.set_num_threads(1)
    limit = timedelta(seconds=120)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2, timeout=limit)
    for job in jobs:
        if job.source and rank == 0:
            shutil.copytree(job.source, job.run)
            run = Run.open(job.run)
            rewrite(run, TrainConfig.parse(run.asked["train"]).but(shard=job.shard))
        dist.barrier()
        with pytest.raises(ValueError, match=job.refuses) if job.refuses else nullcontext():
            resume(job.run, step=4 if job.source else None)
    dist.destroy_process_group()


MOVES = (("xl", "1", "ddp"), ("xl", "1", "fsdp"), ("xl", "ddp", "fsdp"), ("xl", "fsdp", "ddp"), ("gpt", "ddp", "fsdp"))


@pytest.mark.parametrize(
    ("names", "moves"),
    [
        (("xl", "reversible"), MOVES[2:3]),
        pytest.param(("gpt", "xl", "reversible", "drop"), MOVES, marks=pytest.mark.stress),
    ],
    ids=["one model", "all"],
)
def test_two_processes_take_the_steps_of_one(
    names: tuple[str, ...], moves: tuple[tuple[str, str, str], ...], tmp_path: Path
) -> None:
    what: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
        "gpt": ("gpt2", GPT, {**LONG, "optimizer": "lamb"}),
        "xl": ("transformer-xl", XL, {**LONG, **GROWN}),
        "reversible": ("gpt2", {**GPT, "stack": "reversible"}, LONG),
        "drop": ("gpt2", DROP, {"optimizer": {"kind": "sgd", "momentum": 0.0}}),
    }
    ones = {}
    for name in {*names} - {"drop"}:
        paper, changes, train = what[name]
        ones[name] = alone(tmp_path / f"{name}-1", paper, changes, **train)
    jobs = []
    for name in names:
        paper, changes, train = what[name]
        jobs += [
            Job(asked(tmp_path / f"{name}-{how}", paper, changes, **train, shard=how == "fsdp").path)
            for how in ("ddp", "fsdp")
        ]
    jobs += [
        Job(tmp_path / f"{name}-{before}-to-{after}", tmp_path / f"{name}-{before}", after == "fsdp")
        for name, before, after in moves
    ]
    rezero = asked(tmp_path / "rezero", "gpt2", {**SMALL, "residual": "rezero"}, shard=True)
    work_in_two([*jobs, Job(rezero.path, refuses="alpha, which is a single number")], tmp_path)

    for job in jobs:
        name, run = job.run.name.split("-")[0], Run.open(job.run)
        if name in ones:
            check_alike(ones[name], run)
            assert contents(run) == contents(ones[name]), job.run
        if name == "xl":  # in the other, gradients of the keys' biases are 0 but for rounding
            check_numbers(ones[name], run)
    if "drop" in names:
        # In training each process leaves out sublayers of its own, as DDP and FSDP2 must bear, and bear alike.
        check_alike(Run.open(tmp_path / "drop-ddp"), Run.open(tmp_path / "drop-fsdp"))
    for name, before in [(name, how) for name in ones for how in ("ddp", "fsdp")]:
        copy = shutil.copytree(tmp_path / f"{name}-{before}", tmp_path / f"{name}-{before}-to-1")
        check_alike(ones[name], resume(copy, step=4))


KILLS = """
import os, signal
from sublayer.training import loop

take_step, kills = loop.take_step, KILLED

def take_step_or_die(trainee, *rest):
    if trainee.progress.step == kills.get((os.environ["TORCHELASTIC_RESTART_COUNT"], os.environ["RANK"])):
        os.kill(os.getpid(), signal.SIGKILL)
    return take_step(trainee, *rest)

if "RANK" in os.environ:
    loop.take_step = take_step_or_die
"""


@pytest.mark.parametrize(
    "killed",
    [{("0", "0"): 5}, pytest.param({("0", "1"): 5, ("1", "0"): 6}, marks=pytest.mark.stress)],
    ids=["the first", "one after the other"],
)
def test_a_run_outlives_killed_processes(
    killed: dict[tuple[str, str], int],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The first process is killed, with the run in its hold; or the second and, once all are back, the first.

    killed: number of the restart and rank → the step it is killed in.
    """
    one = alone(tmp_path / "one", "transformer-xl", XL)
    run = asked(tmp_path / "two", "transformer-xl", XL, processes=2)
    (tmp_path / "kills.py").write_text(KILLS.replace("KILLED", repr(killed)))
    resume(run, processes=2, plugins=["kills"], reporter=JsonLines())
    check_alike(one, run)
    assert contents(run) == contents(one)
    assert caplog.messages == [f"{run.path}: a process died; all go on from step 4"] * len(killed)
    assert "exitcode: -9" in (run.path / launch.LOG).read_text()
    out, err = capfd.readouterr()
    assert [json.loads(line)["step"] for line in out.splitlines()][:6] == [1, 2, 3, 4, 4, 5]
    assert not err


PIDS = """
import os
from pathlib import Path

if "RANK" in os.environ:
    Path(__file__).with_name(f"pid-{os.environ['RANK']}").write_text(str(os.getpid()))
"""


@pytest.mark.stress
def test_an_interrupt_stops_all_and_one_goes_on(tmp_path: Path) -> None:
    """With FSDP2; what it was interrupted at goes on in one process, as if nothing had been."""
    run = asked(tmp_path / "two", "gpt2", GPT, processes=2, steps=100_000, schedule="constant", shard=True)
    (tmp_path / "pids.py").write_text(PIDS)
    # Where the tests run in the background of a shell, interrupts are ignored, and children inherit that.
    heeding = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
    asking = ["resume", str(run.path), "--processes", "2", "--plugin", "pids"]
    resuming = f"from sublayer.cli import main; main({asking})"
    words = [sys.executable, "-c", f"{heeding} {resuming}"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        seen = next((line for line in parent.stdout if json.loads(line)["step"] > 4), None)
        parent.send_signal(signal.SIGINT)
        _, said = parent.communicate()
    assert seen is not None, said
    *progress, stopped = said.splitlines()
    assert all(line.startswith(("… ", "this training will take about ")) for line in progress), said
    saved = rf"stopped at step \d+; saved at step \d+ in {run.path}"
    assert re.fullmatch(rf"{saved}\. Continue: sublayer resume {run.path} --processes 2", stopped)
    assert parent.returncode == 130
    for rank in (0, 1):
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / f"pid-{rank}").read_text()), 0)
    steps = run.checkpoints[-1].step + 4
    one = alone(tmp_path / "one", "gpt2", GPT, steps=steps, schedule="constant")
    check_alike(one, resume(run.path, {"steps": steps}))


def refused(capfd: pytest.CaptureFixture[str], *words: Any) -> str:
    """What a command says, in one line, with exit code 2."""
    with pytest.raises(SystemExit) as caught:
        main([str(word) for word in words])
    out, err = capfd.readouterr()
    assert caught.value.code == 2
    assert not out
    assert err.startswith("sublayer: ")
    assert err.count("\n") == 1
    return err


def test_what_would_only_fail_again_is_not_tried_again(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = asked(tmp_path / "two", "gpt2", GPT, processes=2, explode=0.5)
    said = refused(capfd, "resume", run.path, "--processes", 2)
    assert "step 1: the loss is" in said
    with run.held():
        assert [one.step for one in run.checkpoints] == [0]


FAILS = """
import os
from sublayer.training import loop

def fail(*_):
    raise RuntimeError("no such luck\\nat all")

if "RANK" in os.environ:
    loop.take_step = fail
"""


@pytest.mark.stress
def test_processes_that_all_fail_are_told_of_in_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = asked(tmp_path / "two", "gpt2", GPT, processes=2)
    (tmp_path / "fails.py").write_text(FAILS)
    monkeypatch.setattr(launch, "RESTARTS", 0)
    said = refused(capfd, "resume", run.path, "--processes", 2, "--plugin", "fails")
    assert f"{run.path}: its 2 processes failed once, by RuntimeError: no such luck. All they printed is in" in said
    assert "in fail\n" in (run.path / launch.LOG).read_text()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--processes", "3", "train.batch=4"], "train.batch=4 cannot be shared evenly by 3 processes"),
        (["--processes", "0"], "processes=0: at least 1 is needed"),
        (["--processes", "-2"], "processes=-2: at least 1 is needed"),
    ],
)
def test_impossible_numbers_of_processes(
    words: list[str], expected: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "text.txt"
    text.write_text("a river " * 100)
    assert expected in refused(capfd, "train", "gpt2", "--data", text, "--out", tmp_path / "run", *words)
    assert not (tmp_path / "run").exists()
