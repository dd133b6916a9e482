"""Images completed: what is given stays, what is written is pixels."""

import numpy as np
import pytest
import torch

import sublayer
from sublayer.data.tokenizer import Pixels
from sublayer.generation import Sampling, complete

PIXELS = Pixels.Config(height=4, width=3, channels="rgb", levels=5).fit([])


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return sublayer.config("gpt2", dim=16, layout="(sf)x2", vocab=PIXELS.vocab + 2, **{"s.heads": 2}).build().eval()


def tops(count, rows):
    values = np.random.default_rng(0).integers(0, PIXELS.config.levels, (count, rows * PIXELS.row))
    return [PIXELS.show(row) for row in values]


@pytest.mark.parametrize("rows", [0, 1, 4])
def test_the_given_rows_stay_and_the_image_is_whole(model, rows):
    given = tops(3, rows)
    found = complete(model, PIXELS, given, seed=1)
    assert [image.shape for image in found] == [(4, 3, 3)] * 3
    assert all(np.array_equal(image[:rows], top) for image, top in zip(found, given, strict=True))
    again = complete(model, PIXELS, given, seed=1)
    assert all(np.array_equal(one, two) for one, two in zip(found, again, strict=True))


def test_ids_that_are_never_chosen_have_no_probability():
    """Also where the model finds them likeliest."""
    scores = torch.zeros(2, 8)
    scores[:, 5:] = 50.0
    for sampling in (Sampling(), Sampling(temperature=1.0), Sampling(temperature=1.0, top_k=1)):
        shaped = sampling.but(never=(5, 6, 7)).shape(scores)
        assert (shaped.double().softmax(1)[:, 5:] == 0).all()
        assert shaped.argmax(1).max() < 5


def test_greedy_takes_the_likeliest_pixel(model):
    (image,) = complete(model, PIXELS, tops(1, 2), sampling=Sampling())
    ids = torch.tensor([[PIXELS.start, *PIXELS.read(image).tolist()]])
    with torch.no_grad():
        best = model.head(model(ids)[0])[0, :, : PIXELS.start].argmax(1)
    assert best[2 * PIXELS.row : -1].tolist() == ids[0, 2 * PIXELS.row + 1 :].tolist()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([np.zeros((5, 3, 3), np.uint8)], r"given\[0\]: an array of shape \(5, 3, 3\)"),
        ([np.zeros((2, 4, 3), np.uint8)], r"up to 4 rows of 3 pixels"),
        ([np.zeros((2, 3, 3), np.uint8), np.zeros((1, 3, 3), np.uint8)], r"given\[1\]: 1 rows, and 2 of the first"),
    ],
)
def test_rows_that_do_not_fit_are_refused(model, given, message):
    with pytest.raises(ValueError, match=message):
        complete(model, PIXELS, given)
