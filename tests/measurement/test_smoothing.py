import numpy as np

from sublayer.measurement.smoothing import LEAST, deviation, smooth

SIZES = [(d, f) for d in (128, 256, 384, 512, 768) for f in (256, 512, 1024, 2048)]
CURVE = [1e-5 + 1e-8 * d + 2e-8 * f + 3e-11 * d * f for d, f in SIZES]


def noisy(deviation):
    return [t * float(np.exp(n)) for t, n in zip(CURVE, np.random.default_rng(0).normal(0, deviation, 20), strict=True)]


def error(times):
    return float(np.abs(np.log(np.array(times) / CURVE)).mean())


def test_a_steady_device_is_believed():
    odd = noisy(0.2)
    assert np.allclose(smooth(SIZES, odd, 0.0), odd)


def test_a_wavering_device_is_drawn_to_the_curve():
    found = noisy(0.2)
    assert error(smooth(SIZES, found, 0.2)) < 0.7 * error(found)


def test_one_odd_reading_does_not_bend_the_curve():
    found = list(CURVE)
    found[7] *= 5
    drawn = smooth(SIZES, found, 0.1)
    drawn[7] = CURVE[7]
    assert error(drawn) < 0.02


def test_sizes_without_an_inner_width_go_with_the_square():
    sizes = [(d, None) for d in (64, 128, 192, 256, 320, 384, 448, 512)]
    times = [1e-5 + 1e-9 * d * d for d, _ in sizes]
    assert np.allclose(smooth(sizes, times, 0.1), times, rtol=1e-6)


def test_too_few_to_draw_a_curve_stay_as_they_are():
    assert smooth(SIZES[: LEAST - 1], CURVE[: LEAST - 1], 0.5) == CURVE[: LEAST - 1]


def test_noise_is_the_deviation_of_two_readings_taken_together():
    pairs = [[1.0, float(np.exp(0.2 * sign))] for sign in (1, -1)] * 50
    assert abs(deviation(pairs) / (0.2 / 0.6745 / 2) - 1) < 0.01
    assert deviation([[1.0], [2.0]]) == 0.0
