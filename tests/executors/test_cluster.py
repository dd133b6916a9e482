"""The Ray pool: a node that is lost costs time only; addresses that lead nowhere are told in a line, at once."""

import builtins
import json
import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

from sublayer import executors
from tests.training.tiny import TEXT


def test_a_node_that_is_killed_loses_nothing(tmp_path):
    pytest.importorskip("ray", reason="the extra cluster is not installed")
    (tmp_path / "book.txt").write_text(TEXT, encoding="utf-8")
    told = {"SUBLAYER_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-W", "ignore", "-m", "tests.executors.nodes", str(tmp_path)]
    ended = subprocess.run(words, env={**os.environ, **told}, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    said = json.loads(ended.stdout.splitlines()[-1])
    assert sorted((index, result["number"]) for index, result in said["results"]) == [(n, n) for n in range(4)]
    assert said["doomed"] not in {result["node"] for _, result in said["results"]}
    assert said["refused"] == "number=2: is two; use another"
    assert said["trained"]["done"] == [True, True]
    assert "no.txt" in said["trained"]["missing"]
    assert "Every machine of the cluster must find the text" in said["trained"]["missing"]


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("127.0.0.1:1", r"^ray=127.0.0.1:1: nobody answers there \(.+\)\. Start the cluster: ray start --head"),
        ("127.0.0.1:99999", "nobody answers there"),
        ("somewhere", "expected auto, local or HOST:PORT"),
    ],
)
def test_an_address_that_leads_nowhere(address, said):
    pytest.importorskip("ray", reason="the extra cluster is not installed")
    with pytest.raises(ValueError, match=said):
        executors.pool(ray=address)


@pytest.mark.parametrize("answer", [b"", b"-ERR unknown command 'PRI'\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_somebody_else_who_answers(answer, monkeypatch):
    pytest.importorskip("ray", reason="the extra cluster is not installed")
    monkeypatch.setattr("sublayer.executors.cluster.PATIENCE", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            there, _ = server.accept()
            with there, suppress(ConnectionError):
                there.recv(64)
                there.sendall(answer)
                there.recv(64)

        threading.Thread(target=serve, daemon=True).start()
        with pytest.raises(ValueError, match=r"what answers there is no Ray cluster\. Start the cluster"):
            executors.pool(ray=f"127.0.0.1:{server.getsockname()[1]}")


def test_without_ray_the_remedy_is_told(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.split(".")[0] == "ray":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ValueError, match=r"^ray: not installed; pip install 'sublayer\[cluster\]'"):
        executors.pool(ray="auto")
    with pytest.raises(ValueError, match="workers=2: a Ray cluster works on as many"):
        executors.pool(ray="auto", workers=2)
