"""A process of its own that measures: nothing else is in it, its threads are fixed, and it may die alone.

Run as a module, this file is that process: a question a line on standard input, an answer a line on standard output.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sublayer.measurement.reading import Memory, Reading
from sublayer.measurement.setting import Setting
from sublayer.nn.config import ConfigError
from sublayer.nn.model import Model


def measure(
    configs: Sequence[Model.Config],
    setting: Setting | None = None,
    *,
    tolerance: float = 0.02,
    seconds: float = 3.0,
    plugins: Sequence[str] = (),
    told: Callable[[int, Reading], None] = lambda n, reading: None,
) -> list[Reading]:
    """Read whole models on this device, each in a fresh process. `told` hears of each as it is done."""
    readings = []
    for n, reading in enumerate(_each(configs, setting or Setting(), tolerance, seconds, plugins)):
        told(n, reading)
        readings.append(reading)
    return readings


def _each(
    configs: Sequence[Model.Config], setting: Setting, tolerance: float, seconds: float, plugins: Sequence[str]
) -> Iterator[Reading]:
    for config in configs:
        with Worker(setting, plugins) as worker:
            yield worker.read(config, tolerance=tolerance, seconds=seconds, alone=True)


class Worker:
    """The other end: `with Worker(setting) as worker: worker.read(config)`."""

    def __init__(self, setting: Setting, plugins: Sequence[str] = ()) -> None:
        self.setting = setting.settled()
        known = {**os.environ, "OMP_NUM_THREADS": str(self.setting.threads), "KINETO_LOG_LEVEL": "99"}
        command = [sys.executable, "-m", "sublayer.measurement.worker", json.dumps(list(plugins))]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=known)

    def read(
        self,
        config: Model.Config,
        *,
        memory: int | None = None,
        tolerance: float = 0.02,
        seconds: float = 2.0,
        alone: bool = False,
    ) -> Reading:
        """memory: instead of the setting's. alone: the process has held no other model, so its mark can be told."""
        setting = self.setting if memory is None else self.setting.but(memory=memory)
        setting.check(config)
        _check_memory(config)
        how = {"tolerance": tolerance, "seconds": seconds, "alone": alone}
        answer = self._ask({"config": config.dump(), "setting": setting.dump(), **how})
        if "error" in answer:
            raise ConfigError(answer["error"])
        return Reading.read(answer)

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = b""
        try:
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            pass
        if not line.endswith(b"\n"):
            raise ValueError(f"the process that measures {_ended(self._process.wait())}")
        return json.loads(line)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


def _ended(code: int) -> str:
    if -code == signal.SIGKILL:
        return "was killed, as happens when memory runs out; measure a smaller model, batch or length"
    return f"died (exit code {code}); measure a smaller model, or try again"


def _check_memory(config: Model.Config) -> None:
    params = config.cost().params
    if hasattr(os, "sysconf"):
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        if 4 * params > there:
            raise ConfigError(
                f"dim={config.dim}: {params:,} parameters are {4 * params / 2**30:,.0f} GiB, and this machine has "
                f"{there / 2**30:,.0f}; measure a smaller model"
            )


def _serve(plugins: Sequence[str]) -> None:
    """Answer until nobody asks any more."""
    answers, sys.stdout = sys.stdout, sys.stderr
    from sublayer.api import load_installed_plugins, load_plugin

    load_installed_plugins()
    for plugin in plugins:
        load_plugin(plugin)
    for line in sys.stdin:
        try:
            answer = _read(**json.loads(line)).dump()
        except (ValueError, NotImplementedError) as error:
            answer = {"error": str(error) or type(error).__name__}
        except (RuntimeError, MemoryError) as error:
            answer = {"error": f"the model cannot be run here: {str(error).splitlines()[0]}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _read(config: dict[str, Any], setting: dict[str, Any], tolerance: float, seconds: float, alone: bool) -> Reading:
    import torch

    from sublayer.measurement import high_water, passes
    from sublayer.measurement.allocations import allocated
    from sublayer.measurement.clock import timed
    from sublayer.measurement.device import fingerprint
    from sublayer.measurement.yardstick import Yardstick

    how = Setting.parse(setting)
    assert how.threads is not None
    torch.set_num_threads(how.threads)
    torch.manual_seed(0)
    with torch.inference_mode():
        if alone:
            _warm_up(how)
            high_water.settle()
        before = high_water.held()
        model = passes.build(Model.Config.parse(config), how.device)
        mark = _high_water(model, how, before) if alone else None
        made: list[passes.Pass] = []
        carried = allocated(lambda: made.append(passes.make(model, how)), how.device)
        found = allocated(made.pop().run, how.device)
        again = passes.make(model, how)
        again.prepare()
        run, yardstick = (_settled(work, how.device) for work in (again.run, Yardstick(how.device)))
        timing = timed(run, yardstick, again.prepare, tolerance=tolerance, seconds=seconds)
    memory = Memory(passes.weights(model), carried.kept, found.peak, found.kept)
    told = timing.median, timing.low, timing.high, timing.repeats, timing.pace
    return Reading(*told, memory, fingerprint(how.device, how.threads), mark)


def _high_water(model: Model, setting: Setting, before: int) -> int | None:
    """Bytes beyond `before` while the pass runs; what building and preparing needed for a moment is forgotten."""
    from sublayer.measurement import high_water, passes

    made = passes.make(model, setting)
    if setting.device != "cpu" or not high_water.settle():
        return None
    made.run()
    return high_water.mark() - before


def _settled(run: Callable[[], object], device: str) -> Callable[[], object]:
    """A call that returns when its work is done."""
    import torch

    if torch.device(device).type == "cpu":
        return run

    def both() -> None:
        run()
        torch.accelerator.synchronize(device)

    return both


def _warm_up(setting: Setting) -> None:
    """Load what any model loads: code, threads, the matrix library's buffers; none of it is the model's memory."""
    import torch

    from sublayer.measurement import passes
    from sublayer.measurement.allocations import allocated
    from sublayer.papers.registry import config

    small = config("gpt2").but({"s.heads": 2}, dim=64, layout="(sf)x2", vocab=256, position="rotary")
    made = passes.make(passes.build(small, setting.device), setting.but(length=64, memory=None))
    made.run()
    torch.nn.functional.linear(*(torch.ones(rows, 512, device=setting.device) for rows in (64, 16_384)))
    allocated(made.run if setting.task != "segment" else made.prepare, setting.device)


if __name__ == "__main__":
    _serve(json.loads(sys.argv[1]))
