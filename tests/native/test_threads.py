"""How many threads are worth their while."""

import torch

from sublayer.native import threads


def test_they_follow_torch_the_processors_and_the_work(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 64)
    monkeypatch.setattr(threads, "_processors", lambda: 2)
    assert threads.worthwhile(0, 4) == 1
    assert threads.worthwhile(4 * threads.WORTH, 4) == 1
    assert threads.worthwhile(8 * threads.WORTH, 4) == 2
    assert threads.worthwhile(2**40, 4) == 2
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert threads.worthwhile(2**40, 4) == 1
