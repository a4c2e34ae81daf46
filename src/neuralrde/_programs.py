"""Compiled programs take memory maps, of which Linux allows a process 65,530 (vm.max_map_count)."""

import gc
from pathlib import Path

import jax

_MAPS, _LIMIT = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")


def drop_programs(most: int | None = None) -> bool:
    """Let JAX forget its compiled programs, if this process has more memory maps than `most`: half of the limit.

    JAX keeps every program. Those of a training take some 2,000 maps, so that after thirty trainings of different
    shapes the compiler would find no more and crash. What is needed again is compiled again.

    >>> drop_programs(most=10**9)
    False
    """
    try:
        most = int(_LIMIT.read_text()) // 2 if most is None else most
        many = _MAPS.read_bytes().count(b"\n") > most
    except OSError:  # not Linux
        return False
    if many:
        jax.clear_caches()
        gc.collect()
    return many
