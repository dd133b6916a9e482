"""A command run by .ci/alive.py is never silent, and passes on everything: output, errors, exit code."""

import os
import pty
import subprocess
import sys
from pathlib import Path

ALIVE = Path(__file__).parents[2] / ".ci" / "alive.py"
WAITS = "import sys; print('begun', end=''); input(); print('done'); print('error', file=sys.stderr); sys.exit(3)"
BEAT = "… work, ".encode()


def start(**options):
    words = [sys.executable, str(ALIVE), "work", sys.executable, "-c", WAITS]
    env = {**os.environ, "ALIVE_EVERY": "0.05"}
    return subprocess.Popen(words, env=env, stdin=subprocess.PIPE, **options)


def until_begun(read):
    """Read until two lines of its own came after the child's output, which had not ended its line."""
    seen = b""
    while seen.partition(b"begun")[2].count(BEAT) < 2:
        chunk = read()
        assert chunk, seen
        seen += chunk
    return seen


def test_in_a_log():
    with start(stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        seen = until_begun(child.stdout.readline)
        assert seen.startswith("work …\n".encode())
        assert b"begun\n" + BEAT in seen
        out, err = child.communicate(b"\n")
    assert b"done\n" in out
    assert err == b"error\n"
    assert child.returncode == 3


def test_in_a_terminal():
    ours, theirs = pty.openpty()
    with start(stdout=theirs, stderr=theirs) as child:
        os.close(theirs)
        until_begun(lambda: os.read(ours, 1024))
        child.stdin.write(b"\n")
        child.stdin.close()
        rest = b""
        try:
            while chunk := os.read(ours, 1024):
                rest += chunk
        except OSError:  # its end
            pass
    os.close(ours)
    assert b"done" in rest
    assert b"error" in rest
    assert child.returncode == 3
