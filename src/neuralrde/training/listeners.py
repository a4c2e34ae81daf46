"""Listeners follow a training. A new one overrides the methods it needs."""

import functools
import json
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TextIO

from tqdm import tqdm

from .._types import Record


class Listener:
    """Is called at every step and epoch. By default it does nothing."""

    def start(self, *, epochs: int, steps: int, done: int) -> None:
        """Before the first epoch: epochs in all, steps in each, and epochs done before a resume."""

    def step(self, *, examples: int) -> None:
        """After every step."""

    def epoch(self, record: Record) -> None:
        """After every epoch, with its record of the history."""

    def say(self, message: str) -> None:
        """Something that a person should know."""

    def close(self) -> None:
        """Called at the end, however it came."""


class Listeners(Listener):
    """Several listeners as one. A listener whose reader has gone away (`| head -1`) is no longer called."""

    def __init__(self, listeners: Sequence[Listener]):
        self.present = list(listeners)
        for name in ("start", "step", "epoch", "say", "close"):
            setattr(self, name, functools.partial(self._tell, name))

    def _tell(self, what: str, *arguments: Any, **named: Any) -> None:
        for listener in list(self.present):
            try:
                getattr(listener, what)(*arguments, **named)
            except ConnectionError:  # a broken pipe is no reason to end a training
                self.present.remove(listener)


class ProgressBar(Listener):
    """Shows loss, metric, speed and time left in one line. It is quiet where there is no terminal and no notebook.

    Args:
        stream: where to write, by default the standard error.
        always: whether to write to anything, such as a file.
    """

    def __init__(self, stream: TextIO | None = None, *, always: bool = False):
        self.stream = sys.stderr if stream is None else stream
        self.shown = always or self.stream.isatty() or _in_a_notebook()

    def start(self, *, epochs, steps, done):
        look = {"file": self.stream, "disable": not self.shown, "unit": "step", "leave": False, "dynamic_ncols": True}
        self.bar = tqdm(total=epochs * steps, initial=done * steps, **look)

    def step(self, *, examples):
        self.bar.update()

    def epoch(self, record):
        hidden = ("epoch", "seconds", "monitored")
        self.bar.set_description(f"epoch {record['epoch']}", refresh=False)
        self.bar.set_postfix({name: f"{value:.4g}" for name, value in record.items() if name not in hidden})

    def say(self, message):
        if self.shown:
            tqdm.write(message, file=self.stream)

    def close(self):
        self.bar.close()


class ProgressLines(Listener):
    """Says every half minute how far it is, for logs: a line for people, where no bar can be shown."""

    every = 30.0  # seconds

    def __init__(self, say: Callable[[str], None]):
        self._say = say

    def start(self, *, epochs, steps, done):
        self.epochs, self.done, self.begun, self.compiled, self.record = epochs, done, time.monotonic(), None, {}
        self.ended = threading.Event()
        # A thread of its own, because the first step takes as long as its program is compiled, and says nothing.
        threading.Thread(target=self._tell, daemon=True).start()

    def step(self, *, examples):
        if self.compiled is None:
            self.compiled = time.monotonic()
            if (seconds := self.compiled - self.begun) > self.every / 6:
                self._say(f"  compiled in {seconds:.0f} s")

    def epoch(self, record):
        self.record = record

    def say(self, message):
        self._say(message)

    def close(self):
        self.ended.set()

    def _tell(self) -> None:
        while not self.ended.wait(self.every):
            self._say(f"  {self._state()}")

    def _state(self) -> str:
        now, record = time.monotonic(), self.record
        if self.compiled is None:
            return f"compiling, for {now - self.begun:.0f} s so far ..."
        if not record:
            return f"epoch {self.done + 1} of {self.epochs} ..."
        left = (now - self.compiled) / (record["epoch"] - self.done) * (self.epochs - record["epoch"])
        names = [name for name in ("loss", "validation_loss") if name in record]
        losses = [f"{name.replace('_', ' ')} {record[name]:.4g}" for name in names]
        time_left = f"{left:.0f} s" if left < 100 else f"{left / 60:.0f} min" if left < 6000 else f"{left / 3600:.1f} h"
        return f"epoch {record['epoch']} of {self.epochs}, {', '.join(losses)}, at most {time_left} left"


def _in_a_notebook() -> bool:
    """Whether a Jupyter kernel runs this, whose output is no terminal but can show a line that changes."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


class JSONLines(Listener):
    """Writes one line of JSON per epoch, for machines to read.

    >>> JSONLines(sys.stdout).epoch({"epoch": 1, "loss": 0.5})
    {"epoch": 1, "loss": 0.5}
    """

    def __init__(self, stream: TextIO | None = None):
        self.stream = sys.stdout if stream is None else stream

    def epoch(self, record):
        print(json.dumps(record), file=self.stream, flush=True)

    def say(self, message):
        print(json.dumps({"message": message}), file=self.stream, flush=True)
