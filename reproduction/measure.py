"""Memory, measured alike for every model: by how much the process grows at the most during one whole epoch."""

import ctypes
import gc
import sys
from pathlib import Path

from ..training import Listener

_STATUS, _FORGET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def resident(name: str) -> int | None:
    """Bytes by the kernel's account: "VmRSS" now, "VmHWM" at the most. None where there is none (not Linux)."""
    if not _STATUS.exists():
        return None
    return int(_STATUS.read_text().split(name + ":")[1].split()[0]) * 1024


class EpochMemory(Listener):
    """After the first epoch, which compiles, memory is given back and the peak forgotten; then one epoch is watched.

    `growth` is what that epoch needed on top of the data, in MB; `process` the process's highest, compiling included.
    """

    growth: float | None = None
    process: float | None = None
    _epochs, _before = 0, None

    def epoch(self, record):
        self._epochs += 1
        highest = resident("VmHWM")
        if highest is None:
            return
        self.process = max(self.process or 0.0, highest / 1e6)
        if self._epochs == 1:
            gc.collect()
            if sys.platform == "linux":
                ctypes.CDLL(None).malloc_trim(0)  # free memory that is kept for later would hide what is taken now
            try:
                _FORGET.write_text("5")
            except OSError:  # a container may not allow it; then there is no number, rather than a wrong one
                return
            self._before = resident("VmRSS")
        elif self._epochs == 2 and self._before is not None:
            self.growth = max(0.0, (highest - self._before) / 1e6)
