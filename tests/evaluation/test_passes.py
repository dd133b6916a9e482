"""Every target once, with the context it should have, however many rows are read at once."""

from itertools import chain

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sublayer.evaluation.passes import lanes, windows

few = st.integers(1, 12)


@given(count=st.integers(2, 60), length=few, part=few, batch=few)
def test_windows(count, length, part, batch):
    stride = 1 + part % length
    places = []
    for rows in windows(np.arange(count), length, stride, batch):
        assert len(rows.inputs_BL) <= batch
        assert rows.fresh
        for inputs, targets in zip(rows.inputs_BL.tolist(), rows.targets_BS.tolist(), strict=True):
            assert inputs == list(range(inputs[0], inputs[-1] + 1))
            assert targets[-1] == inputs[-1] + 1
            for target in targets:
                first = 0 if target <= length else -(-(target - length) // stride) * stride
                assert inputs[0] == first
                assert target - first > min(target - 1, length - stride)
            places += targets
    assert places == list(range(1, count))


@given(count=st.integers(2, 60), length=few, batch=few)
def test_lanes(count, length, batch):
    seen = [[] for _ in range(batch)]
    for n, rows in enumerate(lanes(np.arange(count), length, batch)):
        assert rows.fresh == (n == 0)
        assert rows.count == int((rows.targets_BS >= 0).sum())
        for row, targets in enumerate(rows.targets_BS.tolist()):
            seen[row] += [target for target in targets if target != -100]
    assert list(chain.from_iterable(seen)) == list(range(1, count))
