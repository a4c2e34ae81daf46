"""Ray, without what it changes in the program that starts it."""

import shlex
import signal
import sys
import threading
from typing import Any


def start_ray(ray: Any, **options: Any) -> None:
    """`ray.init`. It would leave a handler of SIGTERM behind that ends the program: the old one is put back."""
    if options.get("address") in (None, "local") and shlex.quote(sys.executable) != sys.executable:
        # Ray starts its workers by a line of a shell, in which it forgets to quote a path with a space.
        options["runtime_env"] = {"py_executable": shlex.quote(sys.executable)}
    in_main_thread = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(log_to_driver=False, **options)
    finally:
        if in_main_thread and before is not None:  # None is a handler that is not Python's
            signal.signal(signal.SIGTERM, before)
