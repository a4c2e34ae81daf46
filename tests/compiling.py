"""Programs of tests compile quickly. `JAX_DISABLE_MOST_OPTIMIZATIONS=0 XLA_FLAGS= make test` tests what users run."""

import importlib.util
import mmap
import os
from pathlib import Path

# Without XLA's emitters of fusions, which go through MLIR, a training compiles twice as fast.
FLAG = "xla_cpu_use_fusion_emitters"


def quickly() -> None:
    """Before JAX's first computation. Processes that tests start inherit it; what is already set stays as it is."""
    if "XLA_FLAGS" not in os.environ:
        os.environ["XLA_FLAGS"] = f"--{FLAG}=false" if _is_known(FLAG) else ""


def _is_known(flag: str) -> bool:
    """XLA ends a process that names a flag which it does not know, so the name is looked for in the library."""
    package = importlib.util.find_spec("jaxlib")
    if package is None or package.origin is None:
        return False
    for library in Path(package.origin).parent.glob("libjax_common.*"):
        with open(library, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content.find(flag.encode()) >= 0
    return False
