"""Lines of JSON: what was written reads back to the bit; what was half written is not read."""

import errno
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sublayer.runs import Lines

LINE = st.dictionaries(st.text(), st.one_of(st.floats(allow_nan=False), st.integers(), st.text(), st.none()))


@pytest.fixture
def lines(tmp_path):
    return Lines(tmp_path / "metrics.jsonl")


@given(st.lists(LINE, max_size=5))
def test_numbers_read_back_to_the_same_bits(tmp_path_factory, written):
    lines = Lines(tmp_path_factory.mktemp("lines") / "x.jsonl")
    for line in written:
        lines.add(line)
    assert list(lines) == written
    assert lines.size == sum(len(json.dumps(line)) + 1 for line in written)


def test_nothing_yet(lines):
    assert list(lines) == []
    assert lines.size == 0
    lines.flush()
    lines.mend()
    lines.cut(0)
    assert not lines.path.exists()


def test_an_unfinished_line_is_not_read_and_not_gone_on_with(lines):
    lines.add({"step": 1})
    with open(lines.path, "ab") as file:
        file.write(b'{"step": 2, "lo')
    assert list(lines) == [{"step": 1}]
    lines.mend()
    lines.add({"step": 3})
    assert list(lines) == [{"step": 1}, {"step": 3}]


def test_cut(lines):
    lines.add({"step": 1})
    size = lines.size
    lines.add({"step": 2})
    lines.cut(size)
    assert list(lines) == [{"step": 1}]
    with pytest.raises(ValueError, match=r"metrics\.jsonl: 12 bytes, but a checkpoint was written after 13; .* Put "):
        lines.cut(size + 1)


@pytest.mark.parametrize("damage", [b"{nonsense}\n", b"7\n", b"\xff\xfe\n", b"\x00\x00\n"])
def test_damage_is_told_in_one_line(lines, damage):
    lines.path.write_bytes(b'{"step": 1}\n' + damage)
    with pytest.raises(ValueError, match=r"metrics\.jsonl: expected lines of JSON, got .* remove that line$") as error:
        list(lines)
    assert "\n" not in str(error.value)


def test_a_full_disk_leaves_no_half_of_a_line(lines, monkeypatch):
    lines.add({"step": 1})
    before = lines.path.read_bytes()
    fill_disk(monkeypatch, "sublayer.runs.lines")
    with pytest.raises(ValueError, match=r"metrics\.jsonl: cannot be written: No space left on device; free some"):
        lines.add({"step": 2})
    monkeypatch.undo()
    assert lines.path.read_bytes() == before


def fill_disk(monkeypatch, module):
    """Of what that module writes, half arrives."""

    def full(path, mode="r", *args, **kwargs):
        file = open(path, mode, *args, **kwargs)  # noqa: SIM115 (whoever asked closes it)
        return Full(file) if mode in ("ab", "wb") else file

    monkeypatch.setattr(f"{module}.open", full, raising=False)


class Full:
    def __init__(self, file):
        self.file = file

    def write(self, data):
        self.file.write(data[: len(data) // 2])
        self.file.flush()
        raise OSError(errno.ENOSPC, "No space left on device")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.file.close()
