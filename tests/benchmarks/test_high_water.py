"""What a fresh process's high-water mark counts, and what not."""

import sys

import high_water
import pytest

MIB = 2**20

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="elsewhere the high-water mark cannot be reset"
)


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(
        "def prepare(build, run):\n"
        "    b'x' * (build * 2**20)\n"
        "    keep = []\n"
        "    return lambda: keep.append(b'x' * (run * 2**20))\n"
        "def refuse():\n"
        "    raise ValueError('no such thing')\n"
    )
    return str(path)


def test_what_the_run_needs_is_counted(script):
    assert high_water.rise(script, "prepare", build=1, run=64) == pytest.approx(64 * MIB, abs=8 * MIB)


def test_what_building_needed_is_not_counted(script):
    """Neither does building hide what the run needs, though it needed more."""
    assert high_water.rise(script, "prepare", build=256, run=64) == pytest.approx(64 * MIB, abs=8 * MIB)


def test_a_process_that_fails_says_why(script):
    with pytest.raises(RuntimeError, match="no such thing"):
        high_water.rise(script, "refuse")
