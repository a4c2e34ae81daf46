"""The log-signature cache."""

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import neuralrde.training.examples as cache_module
from neuralrde.signatures import log_signatures
from neuralrde.training import LogSignatureCache

PATH = np.random.default_rng(0).normal(size=(3, 50, 2))


@pytest.fixture
def computed(monkeypatch):
    """How often log-signatures were computed."""
    calls = []

    def counted(*args, **options):
        calls.append(args)
        return log_signatures(*args, **options)

    monkeypatch.setattr(cache_module, "log_signatures", counted)
    return calls


def test_same_question_same_answer_computed_once(computed):
    cache = LogSignatureCache()
    first = cache(PATH, 2, step=10)
    np.testing.assert_array_equal(first, log_signatures(PATH, 2, step=10))
    assert cache(PATH.copy(), 2, cuts=np.array([0, 10, 20, 30, 40, 49])) is first
    assert len(computed) == 1
    for other in (
        lambda: cache(PATH, 3, step=10),
        lambda: cache(PATH, 2, step=11),
        lambda: cache(PATH * 2, 2, step=10),
    ):
        other()
    cache(PATH, 2, step=10, basis="brackets")
    cache(PATH.astype(np.float32), 2, step=10)
    cache(PATH, 2, step=10, scales=(1, 2))
    cache(PATH, (2, 1), step=10, scales=(1, 2))
    cache(PATH, 2, step=10, scales=(2, 1))
    cache(PATH, (2, 2), step=10, scales=(1, 2))  # the same as one depth for both
    assert len(computed) == 9
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 0


def test_the_oldest_are_forgotten(computed):
    cache = LogSignatureCache(size=2 * log_signatures(PATH, 2, step=10).nbytes)
    for scale in (1, 2, 1, 3, 1, 2):
        cache(PATH * scale, 2, step=10)
    assert len(computed) == 4  # the one that was used in between was kept


def test_what_is_larger_than_the_cache_is_not_kept(computed):
    result = log_signatures(PATH, 2, step=10)
    cache = LogSignatureCache(size=result.nbytes - 1)
    for _ in range(2):
        np.testing.assert_array_equal(cache(PATH, 2, step=10), result)
    assert len(computed) == 2
    assert not cache._kept


def test_eight_threads_share_a_cache():
    """Of 20 paths the cache has room for five: all the time something is forgotten, and computed again."""
    paths = [PATH[:1] + i for i in range(20)]
    expected = [log_signatures(path, 2, step=10) for path in paths]
    cache = LogSignatureCache(size=5 * expected[0].nbytes)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # so that threads get in each other's way
    try:
        with ThreadPoolExecutor(8) as pool:
            asked = np.random.default_rng(0).integers(20, size=1500)
            found = list(pool.map(lambda i: cache(paths[i], 2, step=10), asked))
    finally:
        sys.setswitchinterval(interval)
    for i, result in zip(asked, found, strict=True):
        np.testing.assert_array_equal(result, expected[i])
    assert cache._bytes == sum(array.nbytes for array in cache._kept.values()) <= cache.size
