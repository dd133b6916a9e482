"""Settings of the whole suite, made before any test imports torch or sublayer.

- Under xdist each worker keeps to one thread: workers that share cores with each other's threads are slower.
- Native code is compiled once for the suite, whatever cache a test has.
- `HYPOTHESIS_PROFILE=dev` tries many more random examples than the default, `ci`, which is small and repeatable.
- The shapes in the signatures of `sublayer.nn` are checked at every call; `SUBLAYER_NO_SHAPECHECK=1` switches that off.
"""

import atexit
import os
import shutil
import tempfile

if "SUBLAYER_NATIVE" not in os.environ:
    os.environ["SUBLAYER_NATIVE"] = tempfile.mkdtemp(prefix="sublayer-native-")
    atexit.register(shutil.rmtree, os.environ["SUBLAYER_NATIVE"], ignore_errors=True)

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["OMP_NUM_THREADS"] = "1"

import pytest
from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

# Time says nothing about correctness here: no deadline, and a slow machine is no failure.
settings.register_profile(
    "ci",
    max_examples=10,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("dev", max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

if os.environ.get("SUBLAYER_NO_SHAPECHECK") != "1":
    rooms = ("scene", "position", "attention", "memory", "feedforward", "residual", "embedding", "stack", "model")
    install_import_hook([f"sublayer.nn.{room}" for room in rooms], "shapecheck.check")


@pytest.fixture(autouse=True)
def no_lines_of_progress(monkeypatch):
    """On a slow machine, work may take long enough for a line of progress, which a test does not expect on stderr."""
    monkeypatch.setattr("sublayer.progress.display.FIRST", 1e9)


@pytest.fixture(autouse=True)
def no_calibration(request, monkeypatch):
    """Each test has a cache of its own, to which the device is new: fifteen seconds for every test that measures. Short
    passes are measured in one process."""
    if "calibration" not in request.node.nodeid:
        monkeypatch.setattr("sublayer.measurement.calibration.ENOUGH", 0)
        monkeypatch.setattr("sublayer.measurement.whole_models.SHORT", 0)


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """A text to train on, and a cache that is not the user's."""
    from tests.training import tiny

    folder = tmp_path_factory.mktemp("training")
    path = folder / "book.txt"
    path.write_text(tiny.TEXT, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUBLAYER_CACHE", str(folder / "cache"))
        yield path
