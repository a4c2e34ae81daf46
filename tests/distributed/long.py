"""A training that takes a while, to be killed: `python -m tests.distributed.long CHECKPOINT RESULT`."""

import sys
import time

import jax
import numpy as np

from neuralrde.training import Listener, fit

from .work import LONG, _arrays, examples, join, line


class Slowly(Listener):
    """So that there is time to be killed in; and says how far it is."""

    def epoch(self, record):
        print("epoch", record["epoch"], flush=True)
        time.sleep(0.05)


if __name__ == "__main__":
    join()
    checkpoint, result = sys.argv[1:]
    state = fit(line(), examples(), **LONG, checkpoint=checkpoint, resume=True, listeners=[Slowly()])
    if jax.process_index() == 0:
        np.savez(result, *_arrays(state.model))
    print("done", flush=True)
