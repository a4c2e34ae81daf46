"""Simulated data, whose labels are known exactly."""

import numpy as np

from ..paths import Series
from ..paths.checks import check_whole
from .dataset import Dataset


def order_of_events(
    samples: int = 1000, length: int = 256, *, events: int = 8, noise: float = 0.0, seed: int = 0
) -> Dataset:
    """Two channels that make the same steps, one shortly before the other: which of them leads is the class.

    The length is divided into `events` equal stretches. In each, both channels step up together or both step
    down, at random, `x` first in one class and `y` first in the other, by a lag within the stretch. At the
    boundaries of the stretches the two channels are equal and their values do not depend on the class, so
    that a model that sees the series only there (subsampled by `length // events` points) can do no better
    than guess. The Levy area of each stretch is +1/2 (`x` first) or -1/2 (`y` first), and because the
    stretches begin and end on the diagonal, areas add up: log-signatures of depth 2 tell the classes apart
    over windows of any whole number of stretches, and over the whole series, where the area is +-events / 2.

    >>> data = order_of_events(samples=4, length=32, events=2)
    >>> x, y = np.moveaxis(data.series.values, 2, 0)
    >>> area = (x[:, :-1] * np.diff(y) - y[:, :-1] * np.diff(x)).sum(axis=1) / 2
    >>> [(data.classes[c], a) for c, a in zip(data.target, area.tolist())]
    [('x first', 1.0), ('x first', 1.0), ('y first', -1.0), ('y first', -1.0)]

    Args:
        samples: half of each class, in random order.
        length: points of a series; each stretch needs at least 4.
        events: stretches, each with an event.
        noise: standard deviation of normal noise on every value.
        seed: of NumPy's default generator.
    """
    _check_sizes(samples=samples, length=length, events=events)
    stretch = length // events
    if stretch < 4:
        raise ValueError(
            f"Got length={length} for {events} events; expected at least {4 * events}, because an event "
            "needs a point before, between and after its two steps."
        )
    rng = np.random.default_rng(seed)
    target = rng.permutation(np.arange(samples) % 2)
    sign = rng.choice([-1.0, 1.0], size=(samples, events))
    # Steps at two different points within a stretch, neither at its first.
    leader = rng.integers(1, stretch - 1, size=(samples, events))
    follower = rng.integers(leader + 1, stretch)
    x_first = (target == 0)[:, None]
    at = np.stack([np.where(x_first, leader, follower), np.where(x_first, follower, leader)], axis=2)
    at += stretch * np.arange(events)[:, None]
    steps = np.zeros((samples, length, 2))
    rows, channels = np.arange(samples)[:, None, None], np.arange(2)
    steps[rows, at, channels] = sign[..., None]
    values = np.cumsum(steps, axis=1) + noise * rng.normal(size=steps.shape)
    return Dataset(
        Series(values, channels=["x", "y"]),
        target,
        classes=["x first", "y first"],
        name="order_of_events",
        source="simulated",
    )


def spirals(
    samples: int = 1000, length: int = 100, *, noise: float = 0.0, irregular: bool = True, seed: int = 0
) -> Dataset:
    """Spirals that open clockwise or anticlockwise, from a random angle, seen at random times.

    The sign of the Levy area is the class; a single point tells nothing.

    >>> spirals(samples=10, length=20)
    Dataset('spirals': 10 samples of 2 classes; 20 points, 2 channels: x, y; times 0 to 1; float64)

    Args:
        samples: half of each class, in random order.
        length: points of a series.
        noise: standard deviation of normal noise on every value; the spiral's radius grows from 0 to 1.
        irregular: whether the points are at random times in [0, 1], each series its own; both ends are kept.
        seed: of NumPy's default generator.
    """
    _check_sizes(samples=samples, length=length)
    rng = np.random.default_rng(seed)
    target = rng.permutation(np.arange(samples) % 2)
    times = np.tile(np.linspace(0.0, 1.0, length), (samples, 1))
    if irregular and length > 2:
        times[:, 1:-1] = np.sort(rng.uniform(size=(samples, length - 2)), axis=1)
    angle = rng.uniform(0, 2 * np.pi, size=(samples, 1)) + np.where(target, 1.0, -1.0)[:, None] * 4 * np.pi * times
    values = times[..., None] * np.stack([np.cos(angle), np.sin(angle)], axis=2)
    values += noise * rng.normal(size=values.shape)
    return Dataset(
        Series(values, times=times, channels=["x", "y"]),
        target,
        classes=["clockwise", "anticlockwise"],
        name="spirals",
        source="simulated",
    )


def fractional_brownian_motion(
    samples: int = 1000,
    length: int = 256,
    *,
    hurst: float | None = None,
    channels: int = 1,
    seed: int = 0,
) -> Dataset:
    """Fractional Brownian motion on [0, 1]; its Hurst exponent is to be found.

    Exact in distribution (Davies and Harte 1987, Biometrika 74:95): increments with the covariance
    (|k + 1|^2H - 2 |k|^2H + |k - 1|^2H) / 2 are the Fourier transform of independent normals, as this
    covariance on a circle of twice the length has no negative eigenvalue. E B(t)^2 = t^2H. Small exponents
    are rough, 1/2 is Brownian motion.

    >>> data = fractional_brownian_motion(samples=3, length=100, hurst=0.3)
    >>> data.target.tolist(), data.series.values[:, 0, 0].tolist()
    ([0.3, 0.3, 0.3], [0.0, 0.0, 0.0])

    Args:
        samples: series.
        length: points of a series, the first at time 0 and the last at 1.
        hurst: the exponent, in (0, 1); None draws one for each series, uniformly from 0.1 to 0.9.
        channels: independent ones, with the same exponent.
        seed: of NumPy's default generator.
    """
    _check_sizes(samples=samples, length=length, channels=channels)
    if hurst is not None and not 0 < hurst < 1:
        raise ValueError(f"Got hurst={hurst}; expected a number between 0 and 1, for example hurst=0.5.")
    rng = np.random.default_rng(seed)
    exponents = rng.uniform(0.1, 0.9, size=samples) if hurst is None else np.full(samples, float(hurst))
    n = max(1, length - 1)
    k = np.arange(n + 1)[None]
    power = 2 * exponents[:, None]
    covariance = (np.abs(k + 1.0) ** power - 2 * np.abs(1.0 * k) ** power + np.abs(k - 1.0) ** power) / 2
    circle = np.concatenate([covariance, covariance[:, -2:0:-1]], axis=1)
    eigenvalues = np.maximum(np.fft.fft(circle).real, 0)[:, None]  # below 0 only by rounding
    shape = (samples, channels, circle.shape[1])
    normals = rng.normal(size=shape) + 1j * rng.normal(size=shape)
    increments = np.fft.fft(np.sqrt(eigenvalues / circle.shape[1]) * normals).real[..., :n]
    path = np.cumsum(increments, axis=2) * float(n) ** -exponents[:, None, None]
    values = np.concatenate([np.zeros((samples, channels, 1)), path], axis=2)[..., :length]
    return Dataset(
        Series.from_array(np.moveaxis(values, 1, 2), times=np.linspace(0.0, 1.0, length)),
        exponents,
        name="fractional_brownian_motion",
        source="simulated",
    )


def _check_sizes(**sizes: int) -> None:
    for name, size in sizes.items():
        check_whole(name, size, high=2**40)


def two_tanks(samples: int = 360, *, seed: int = 0) -> Series:
    """Levels of two tanks, the upper of which runs into the lower; a valve above opens below 1 and closes above 3.

    They are seen at 80 random times, the upper level at 7 of 10, the lower at 4 of 10, both with noise. How the valve
    stands is never seen: it must be inferred from the past, so that no linear map of the levels says what comes next.

    >>> series = two_tanks(samples=2)
    >>> series.values.shape, series.channels
    ((2, 80, 2), ('upper', 'lower'))

    Args:
        samples: runs of 40 units of time.
        seed: of NumPy's default generator.
    """
    check_whole("samples", samples)
    random, step, values, clocks = np.random.default_rng(seed), 0.1, [], []
    for _ in range(samples):
        (upper, lower), is_open, found = random.uniform(0, 4, 2), random.random() < 0.5, []
        for _ in range(400):
            is_open = upper < 1 or (is_open and upper < 3)
            out = np.sqrt(upper)
            lower = max(lower + step * (out - 0.7 * np.sqrt(lower)), 0.0)
            upper = max(upper + step * (2.5 * is_open + 0.05 * random.normal() - out), 0.0)
            found.append((upper, lower))
        chosen = np.sort(random.choice(400, 80, replace=False))
        seen = np.where(random.random((80, 2)) < [0.7, 0.4], np.array(found)[chosen], np.nan)
        values.append(seen + 0.05 * random.normal(size=seen.shape))
        clocks.append(chosen * step)
    return Series.from_arrays(values, times=clocks, channels=["upper", "lower"])
