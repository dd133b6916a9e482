"""A text to train on, and a cache that is not the user's."""

import pytest

from tests.training import tiny


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    folder = tmp_path_factory.mktemp("training")
    path = folder / "book.txt"
    path.write_text(tiny.TEXT, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUBLAYER_CACHE", str(folder / "cache"))
        yield path
