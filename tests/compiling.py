"""Programs of tests compile quickly. `JAX_DISABLE_MOST_OPTIMIZATIONS=0 XLA_FLAGS= make test` tests what users run."""

import importlib.util
import mmap
import os
from collections.abc import Iterable
from pathlib import Path

FLAGS = {
    # Without XLA's emitters of fusions, which go through MLIR, a training compiles twice as fast.
    "xla_cpu_use_fusion_emitters": "false",
    # A program is compiled as one piece. Pieces are for compiling on many cores, and each takes memory maps of its own.
    "xla_cpu_parallel_codegen_split_count": "1",
}


def quickly() -> None:
    """Before JAX's first computation. Processes that tests start inherit it; what is already set stays as it is."""
    if "XLA_FLAGS" not in os.environ:
        os.environ["XLA_FLAGS"] = " ".join(f"--{name}={FLAGS[name]}" for name in _known(FLAGS))


def _known(names: Iterable[str]) -> list[str]:
    """XLA ends a process that names a flag which it does not know, so the names are looked for in the library."""
    package = importlib.util.find_spec("jaxlib")
    if package is None or package.origin is None:
        return []
    for library in Path(package.origin).parent.glob("libjax_common.*"):
        with open(library, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return [name for name in names if content.find(name.encode()) >= 0]
    return []
