"""Batches that are read ahead in a thread, so that the device does not wait for the disk."""

import queue
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

# Batches that wait: one is being computed with, and the next are there when it is done.
AHEAD = 3
# Seconds after which a thread looks whether anybody still wants its batches.
_PATIENCE = 0.1


@contextmanager
def prefetched(batches: Iterable[Any], *, in_memory: bool = False, ahead: int = AHEAD) -> Iterator[Iterator[Any]]:
    """The same batches in the same order, made by a thread of their own; it ends with the block, however that ends.

    An error in the thread is raised where its batch would have been taken.

    Args:
        batches: what makes them one by one.
        in_memory: whether there is nothing to wait for; then no thread is started.
        ahead: how many may wait.

    >>> with prefetched(number**2 for number in range(4)) as squares:
    ...     list(squares)
    [0, 1, 4, 9]
    """
    if in_memory:
        yield iter(batches)
        return
    waiting: queue.Queue = queue.Queue(ahead)
    stopped = threading.Event()

    def put(item: Any) -> bool:
        while not stopped.is_set():
            try:
                waiting.put(item, timeout=_PATIENCE)
                return True
            except queue.Full:
                continue
        return False

    def work() -> None:
        try:
            for batch in batches:
                if not put((batch, None)):
                    return
        except BaseException as error:
            put((None, error))
        else:
            put((None, StopIteration()))

    def taken() -> Iterator[Any]:
        while True:
            batch, ended = waiting.get()
            if isinstance(ended, StopIteration):
                return
            if ended is not None:
                raise ended
            yield batch

    thread = threading.Thread(target=work, name="neuralrde-prefetch", daemon=True)
    thread.start()
    try:
        yield taken()
    finally:
        stopped.set()
        thread.join()
