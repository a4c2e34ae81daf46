"""Windows that overlap, are dilated, or have several scales: each equals the slice of the path that it is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralrde import log_signature, log_signatures
from neuralrde.paths import cuts_by_count, cuts_by_time
from neuralrde.signatures import _jax_form, _spans, log_signature_channels
from neuralrde.signatures._spans import Spans, WindowSpan
from neuralrde.signatures._windows import join, join_pieces

sizes = st.tuples(st.integers(1, 4), st.integers(1, 5))  # channels, depth
seeds = st.integers(0, 2**32 - 1)
# Sums of some hundred products of numbers of order 1 in float64: rounding is below 1e-12 of the largest.
CLOSE = {"rtol": 1e-10, "atol": 1e-10}
ALWAYS, NEVER = -(10**9), 10**9  # what a window costs that is joined from pieces, so that all of them are, or none


@pytest.fixture(scope="class", params=[ALWAYS, NEVER], ids=["joined", "followed"])
def both_ways(request):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_spans, "_EACH", request.param)
        yield


def random_path(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape) / 2


def random_spans(rng, shape: tuple[int, ...], length: int, dilation: int = 1) -> tuple[np.ndarray, np.ndarray]:
    starts = rng.integers(0, length, shape)
    return starts, starts + dilation * rng.integers(0, (length - 1 - starts) // dilation + 1)


def sliced(path, starts, ends, depth, dilation=1, basis="words"):
    """One window after the other, each cut out of the path."""
    starts, ends = (np.broadcast_to(points, (len(path), points.shape[-1])) for points in (starts, ends))
    cut = lambda one, start, end: log_signature(one[start : end + 1 : dilation], depth, basis=basis)
    return np.array(
        [[cut(one, *span) for span in zip(*rows, strict=True)] for one, *rows in zip(path, starts, ends, strict=True)]
    )


def looking_back(path, cuts, depth, scale, basis="words"):
    first = np.maximum(np.arange(cuts.shape[-1] - 1) + 1 - scale, 0)
    return sliced(path, cuts[..., first], cuts[..., 1:], depth, basis=basis)


@pytest.mark.usefixtures("both_ways")
class TestBothWays:
    """Followed point by point, and joined from pieces."""

    @settings(max_examples=12)
    @given(sizes, seeds, st.integers(1, 30), st.integers(1, 12), st.booleans())
    def test_any_windows_are_slices(self, size, seed, length, windows, own_rows):
        channels, depth = size
        path, rng = random_path(seed, 3, length, channels), np.random.default_rng(seed)
        starts, ends = random_spans(rng, (3, windows) if own_rows else (windows,), length)
        ours = log_signatures(path, depth, starts=starts, ends=ends)
        np.testing.assert_allclose(ours, sliced(path, starts, ends, depth), **CLOSE)

    @settings(max_examples=12)
    @given(sizes, seeds, st.integers(1, 9), st.sampled_from([(1, 2, 4, 8), (3,), (5, 1), (1, 7, 100)]))
    def test_scales_look_back_over_windows(self, size, seed, step, scales):
        channels, depth = size
        path = random_path(seed, 2, 26, channels)
        ours = log_signatures(path, depth, step=step, scales=scales)
        cuts = cuts_by_count(26, step)
        expected = [looking_back(path, cuts, depth, scale) for scale in scales]
        np.testing.assert_allclose(ours, np.concatenate(expected, axis=-1), **CLOSE)

    @pytest.mark.long
    @settings(max_examples=6)
    @given(seeds, st.floats(0.3, 5), st.sampled_from(["words", "brackets", "expanded"]))
    def test_scales_by_time_at_depths_of_their_own(self, seed, every, basis):
        """With empty windows inside, and samples that end before others."""
        rng = np.random.default_rng(seed)
        path, times = random_path(seed, 4, 25, 3), rng.exponential(size=(4, 25)).cumsum(axis=1)
        cuts = cuts_by_time(times, every, lengths=[25, 1, 11, 25])
        ours = log_signatures(path, (3, 1, 2), cuts=cuts, scales=(1, 4, 3), basis=basis)
        depths = zip((1, 4, 3), (3, 1, 2), strict=True)
        expected = [looking_back(path, cuts, depth, scale, basis) for scale, depth in depths]
        np.testing.assert_allclose(ours, np.concatenate(expected, axis=-1), **CLOSE)

    @pytest.mark.parametrize("depth", [1, 2, 3, 4])
    def test_gradients_equal_those_of_the_jax_form(self, depth):
        with jax.enable_x64(True):
            rng = np.random.default_rng(depth)
            path = jnp.asarray(random_path(0, 3, 19, 2))
            starts, ends = random_spans(rng, (3, 7), 19)
            loss = lambda words: (jnp.sin(jnp.arange(words.size)).reshape(words.shape) * words).sum()
            ours = jax.jit(jax.grad(lambda p: loss(log_signatures(p, depth, starts=starts, ends=ends))))(path)
            plain = jax.jit(jax.grad(lambda p: loss(_jax_form.words(p, Spans.apart(starts, ends), depth))))(path)
            np.testing.assert_allclose(ours, plain, **CLOSE)

    @pytest.mark.long
    def test_gradient_of_scales_equals_finite_differences(self):
        with jax.enable_x64(True):
            path = jnp.asarray(random_path(0, 14, 2))
            weights = np.random.default_rng(1).normal(size=log_signatures(path, 3, step=3, scales=(1, 2, 3)).shape)
            loss = lambda p: (weights * log_signatures(p, 3, step=3, scales=(1, 2, 3))).sum()
            gradient, h = jax.jit(jax.grad(loss))(path), 1e-5
            for place in np.ndindex(path.shape):
                change = np.zeros(path.shape)
                change[place] = h
                slope = (loss(np.asarray(path) + change) - loss(np.asarray(path) - change)) / (2 * h)
                # Central differences: error h² times third derivatives, plus rounding eps/h.
                np.testing.assert_allclose(gradient[place], slope, rtol=1e-6, atol=1e-6)

    def test_jit_and_vmap(self):
        with jax.enable_x64(True):
            path = jnp.asarray(random_path(0, 4, 3, 21, 2))
            for how in (
                {"step": 4, "scales": (1, 3)},
                {"starts": np.arange(10), "ends": np.arange(10) + 11},
                {"starts": np.arange(10), "ends": np.arange(10) + 9, "dilation": 3},
            ):
                f = lambda p, how=how: log_signatures(p, 2, **how)
                whole = log_signatures(np.asarray(path), 2, **how)
                for mapped in (f, jax.vmap(f), jax.vmap(jax.vmap(f)), jax.vmap(f, in_axes=1, out_axes=1)):
                    np.testing.assert_allclose(jax.jit(mapped)(path), whole, **CLOSE)
                jacobian = jax.jit(jax.jacrev(f))(path[0, 0])
                np.testing.assert_allclose(jacobian, jax.jit(jax.vmap(jax.jacrev(f)))(path[0])[0], **CLOSE)

    def test_empty_windows_are_zero(self):
        path = random_path(0, 2, 9, 3)
        for depth in (1, 2, 3, 4):
            points = np.array([0, 4, 8])
            assert not log_signatures(path, depth, starts=points, ends=points).any()
            mixed = log_signatures(path, depth, starts=np.array([0, 3, 2]), ends=np.array([8, 3, 8]))
            assert not mixed[:, 1].any()
            assert mixed[:, 0].any()
            assert not log_signatures(path[:, :1], depth, step=3, scales=(1, 2)).any()

    def test_nan_inside_jit_shows_in_the_windows_that_hold_it(self):
        path = jnp.asarray(random_path(0, 20, 2)).at[6, 1].set(jnp.nan)
        starts, ends = np.array([0, 2, 8, 7, 6]), np.array([5, 9, 19, 7, 8])
        words = jax.jit(lambda p: log_signatures(p, 3, starts=starts, ends=ends))(path)
        assert [bool(jnp.isfinite(word).all()) for word in words] == [True, False, True, True, False]

    @pytest.mark.parametrize("offset", [0.0, 1e4])
    @pytest.mark.parametrize("depth", [2, 3])
    def test_float32_far_from_the_origin(self, depth, offset):
        """What is lost is what float32 loses of the points themselves: windows are measured from their own starts."""
        rough = np.random.default_rng(0).normal(size=(2, 500, 3)).cumsum(axis=1)
        path = (offset + np.round(rough * 64) / 64).astype(np.float32)  # numbers that float32 has even there
        starts = np.arange(0, 400, 5)
        exact = log_signatures(path.astype(np.float64), depth, starts=starts, ends=starts + 100)
        ours = log_signatures(path, depth, starts=starts, ends=starts + 100)
        # 100 increments, each rounded to 6e-8 of a window's size, and powers of it up to the third.
        np.testing.assert_allclose(ours, exact, rtol=0, atol=1e-5 * np.abs(exact).max())


@given(sizes, seeds, st.integers(1, 5), st.booleans())
def test_dilated_windows_are_slices_with_a_step(size, seed, dilation, own_rows):
    channels, depth = size
    path, rng = random_path(seed, 3, 40, channels), np.random.default_rng(seed)
    starts, ends = random_spans(rng, (3, 9) if own_rows else (9,), 40, dilation)
    ours = log_signatures(path, depth, starts=starts, ends=ends, dilation=dilation)
    np.testing.assert_allclose(ours, sliced(path, starts, ends, depth, dilation), **CLOSE)


# Depth 4 of 17 channels would have 22,593 numbers per window.
@pytest.mark.parametrize(
    ("channels", "depth"), [(c, n) for c in (1, 2, 5, 17) for n in (1, 2, 3, 4) if (c, n) != (17, 4)]
)
def test_dilated_windows_that_follow_each_other_and_their_gradient(channels, depth):
    with jax.enable_x64(True):
        path = jnp.asarray(random_path(depth, 3, 40, channels))
        thin = path[:, ::3]
        weights = np.random.default_rng(0).normal(size=(3, 4, log_signature_channels(channels, depth)))
        loss = lambda **how: lambda p: (weights * log_signatures(p, depth, **how)).sum()
        whole = jax.jit(jax.grad(loss(cuts=np.array([0, 12, 24, 36, 39]), dilation=3)))(path)
        np.testing.assert_allclose(whole[:, ::3], jax.jit(jax.grad(loss(step=4)))(thin), **CLOSE)
        assert not whole[:, 1::3].any()
        assert not whole[:, 2::3].any()


def test_consecutive_windows_are_the_simplest_case():
    path = random_path(0, 3, 50, 3)
    cuts = cuts_by_count(50, 7)
    for depth in (1, 2, 3, 4):
        consecutive = log_signatures(path, depth, cuts=cuts)
        np.testing.assert_array_equal(log_signatures(path, depth, starts=cuts[:-1], ends=cuts[1:]), consecutive)
        np.testing.assert_array_equal(log_signatures(path, depth, step=7, scales=(1,)), consecutive)


def test_second_derivatives_of_windows_that_overlap():
    with jax.enable_x64(True):
        path, spans = jnp.asarray(random_path(0, 7, 2)), Spans.apart(np.array([0, 1, 2]), np.array([4, 5, 6]))
        ours = lambda p: (log_signatures(p, 3, starts=spans.starts, ends=spans.ends) ** 2).sum()
        plain = lambda p: (_jax_form.words(p, spans, 3) ** 2).sum()
        found, expected = jax.jit(jax.jacrev(jax.grad(ours)))(path), jax.jit(jax.hessian(plain))(path)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())  # float64 sums


@given(sizes, seeds, st.integers(0, 13))
def test_chen_identity_of_log_signatures(size, seed, cut):
    channels, depth = size
    path = random_path(seed, 14, channels)
    left, right = log_signature(path[: cut + 1], depth), log_signature(path[cut:], depth)
    np.testing.assert_allclose(join(left, right, channels, depth), log_signature(path, depth), **CLOSE)


@given(seeds, st.integers(1, 3))
def test_joining_is_associative_and_zero_is_its_one(seed, depth):
    a, b, c = random_path(seed, 3, log_signature_channels(3, depth))
    both = lambda left, right: join(left, right, 3, depth)
    np.testing.assert_allclose(both(both(a, b), c), both(a, both(b, c)), **CLOSE)
    np.testing.assert_array_equal(both(a, np.zeros_like(a)), a)
    np.testing.assert_array_equal(both(np.zeros_like(a), a), a)
    np.testing.assert_allclose(both(a, -a), 0, atol=1e-12)  # there and back: rounding of a few products


def test_runs_longer_than_there_are_pieces_begin_with_the_first():
    pieces = random_path(0, 5, 3)
    whole = join_pieces(pieces, [WindowSpan(np.array([4, 1]), np.array([64, 3]), 2)], 2)
    exact = join_pieces(pieces, [WindowSpan(np.array([4, 1]), np.array([5, 2]), 2)], 2)
    np.testing.assert_allclose(whole, exact, **CLOSE)


def test_overflow_of_joined_windows_is_an_error(monkeypatch):
    monkeypatch.setattr(_spans, "_EACH", ALWAYS)
    path = np.cumsum(np.full((40, 2), [1e20, -2e20]) * np.random.default_rng(0).normal(size=(40, 2)), axis=0)
    with pytest.raises(OverflowError, match="depth-2 log-signature overflows float32"):
        log_signatures((path * 0.1).astype(np.float32), 2, step=1, scales=(1, 8))


PATH = random_path(0, 4, 20, 3)


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ({"starts": [0]}, TypeError, "Got starts; expected exactly one of"),
        ({"step": 2, "starts": [0], "ends": [3]}, TypeError, "Got step and starts and ends; expected exactly one"),
        ({"starts": [0, 1], "ends": [3]}, ValueError, r"starts of shape \(2,\) and ends of shape \(1,\)"),
        ({"starts": [0, 5], "ends": [3, 4]}, ValueError, r"from point 5 to point 4 \(window 1\)"),
        ({"starts": [0], "ends": [20]}, ValueError, "ends from 20 to 20 on a path of 20 points.*between 0 and 19"),
        ({"starts": [-1], "ends": [3]}, ValueError, "starts from -1"),
        ({"starts": [0.5], "ends": [3]}, ValueError, "whole numbers"),
        ({"starts": [], "ends": []}, ValueError, "whole numbers"),
        ({"starts": [[0], [1]], "ends": [[3], [3]]}, ValueError, "one for each"),
        ({"starts": [0], "ends": [3], "dilation": 2}, ValueError, "dilation=2 and a window over 3 increments"),
        ({"starts": [0], "ends": [3], "dilation": 0}, ValueError, "dilation=0"),
        ({"step": 3, "dilation": True}, ValueError, "dilation=True"),
        ({"step": 3, "dilation": 2}, ValueError, "multiples of 2"),
        ({"starts": [0], "ends": [3], "scales": (1, 2)}, ValueError, "a scale counts them"),
        ({"step": 3, "scales": ()}, ValueError, r"scales=\(\)"),
        ({"step": 3, "scales": (1, 1)}, ValueError, "different numbers above 0"),
        ({"step": 3, "scales": (0,)}, ValueError, r"scales=\(1, 2, 4, 8\)"),
        ({"cuts": [0, 3, 9], "scales": (1.5,)}, ValueError, "expected windows by `step`"),
        ({"cuts": [0, 3, 9], "lengths": (4,)}, ValueError, "without a step"),
        ({"step": 3, "lengths": (4, -1)}, ValueError, r"lengths=\(280, 55\)"),
        ({"step": 3, "lengths": (4,), "scales": (2,)}, ValueError, "expected one"),
        ({"step": 3, "scales": "all"}, ValueError, "scales='all'"),
        ({"step": 3, "scales": (1, 2), "depth": (1, 2, 3)}, ValueError, "or 2, one for each"),
        ({"step": 3, "scales": (1, 2), "depth": (1, 0)}, ValueError, "depth=0; expected a whole number of at least 1"),
    ],
    ids=str,
)
def test_mistakes_are_named(how, error, message):
    how = {"depth": 2, **how}
    with pytest.raises(error, match=message):
        log_signatures(PATH, **how)


def test_windows_of_no_pieces_are_zero():
    empty = np.zeros(2, int)
    found = join_pieces(np.ones((3, 4, 6)), [WindowSpan(empty, empty, 2), WindowSpan(empty, empty, 1)], 3)
    np.testing.assert_array_equal(found, np.zeros((3, 2, 9)))
