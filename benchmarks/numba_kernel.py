"""The road not taken: depth 2 and 3 in numba, the same closed form and the same order of loops as our C++ kernel.

Kept so that the choice can be measured again (`python -m benchmarks log_signatures`). LLVM vectorises the inner loop
over `LANES` windows as it does for C; what numba lacks is in-register transposition and a way into `jax.jit`.
"""

import numba
import numpy as np

LANES = 16


@numba.njit(parallel=True, fastmath=True, cache=False)
def log_signatures(path, step, out):
    """Words coordinates at depth 3 of windows that fill the path exactly: path (samples, length, channels)."""
    samples, length, d = path.shape
    windows = (length - 1) // step
    groups = (windows + LANES - 1) // LANES
    pairs = d * (d - 1) // 2
    words = out.shape[-1]
    for job in numba.prange(samples * groups):
        sample, first = job // groups, (job % groups) * LANES
        lanes = min(LANES, windows - first)
        dx = np.zeros((d, LANES), np.float32)
        m = np.zeros((d, LANES), np.float32)
        sums = np.zeros((words, LANES), np.float32)
        product = np.zeros(LANES, np.float32)
        for t in range(step):
            for l in range(lanes):
                start = (first + l) * step
                for c in range(d):
                    left, right = path[sample, start + t, c], path[sample, start + t + 1, c]
                    dx[c, l] = right - left
                    m[c, l] = np.float32(0.5) * (left + right) - path[sample, start, c]
            pair, word = d, d + pairs
            for i in range(d):
                for k in range(i + 1, d):
                    for l in range(LANES):
                        sums[pair, l] += np.float32(0.5) * (m[i, l] * dx[k, l] - m[k, l] * dx[i, l])
                        product[l] = m[i, l] * m[k, l] + np.float32(1 / 12) * dx[i, l] * dx[k, l]
                    pair += 1
                    if words > d + pairs:
                        for j in range(i, d):
                            at = word + (j - i) * (d - i - 1) + k - i - 1
                            for l in range(LANES):
                                sums[at, l] += product[l] * dx[j, l]
                word += (d - i - 1) * (d - i)
        for l in range(lanes):
            start = (first + l) * step
            for c in range(d):
                sums[c, l] = path[sample, start + step, c] - path[sample, start, c]
        if words > d + pairs:
            word = d + pairs
            for i in range(d):
                for j in range(i, d):
                    for k in range(i + 1, d):
                        for l in range(LANES):
                            sums[word, l] = (
                                np.float32(0.5)
                                * (area(sums, d, i, j, l) * sums[k, l] - sums[i, l] * area(sums, d, j, k, l))
                                + np.float32(1 / 3) * sums[i, l] * sums[j, l] * sums[k, l]
                                - sums[word, l]
                            )
                        word += 1
        for l in range(lanes):
            for w in range(words):
                out[sample, first + l, w] = sums[w, l]
    return out


@numba.njit(inline="always")
def area(sums, d, i, j, l):
    if i == j:
        return np.float32(0)
    low, high = min(i, j), max(i, j)
    value = sums[d + low * (2 * d - low - 1) // 2 + high - low - 1, l]
    return value if i < j else -value
