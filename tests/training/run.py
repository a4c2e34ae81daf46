"""A training in a process of its own, to be killed: `python -m tests.training.run MODEL CHECKPOINT`."""

import sys
import time
from dataclasses import replace
from pathlib import Path

import equinox as eqx
import jax

from neuralrde.training import Listener, fit

from .examples import SETTINGS, arguments


class Slowly(Listener):
    """So that there is time to be killed in; and says how far it is."""

    def start(self, *, epochs, steps, done):
        print("begun", done, flush=True)

    def step(self, *, examples):
        print("step", flush=True)
        time.sleep(0.02)


class Line(eqx.Module):
    """A model that compiles in no time."""

    linear: eqx.nn.Linear

    def __call__(self, x0, windows):
        return self.linear(windows.sum(0))


def train(name: str, checkpoint: str | Path, *listeners: Listener) -> None:
    settings = replace(SETTINGS, epochs=40, save_every=0.0)  # after every epoch
    (model, training), options = arguments()
    model = Line(eqx.nn.Linear(3, 2, key=jax.random.key(0))) if name == "line" else model
    fit(model, training, **options, settings=settings, checkpoint=checkpoint, resume=True, listeners=listeners)


if __name__ == "__main__":
    train(*sys.argv[1:], Slowly())
    print("done", flush=True)
