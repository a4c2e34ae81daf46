"""TensorBoard's event files, written by tensorboardX."""

import itertools
import os
import time
from pathlib import Path

from .listeners import Listener

_COUNTER = itertools.count()


class EventFile(Listener):
    """Loss, metric and rate of every epoch for `tensorboard --logdir FOLDER`.

    Needs tensorboardX: `pip install 'neuralrde[tensorboard]'`.

    Args:
        folder: of this run; it is made.
    """

    def __init__(self, folder: str | os.PathLike):
        try:
            # Not its SummaryWriter: that writes from a thread, which a full disk ends, and then the training waits for
            # ever for room in the queue; and its flush does not wait for what is in the queue.
            from tensorboardX.event_file_writer import EventsWriter  # type: ignore
            from tensorboardX.proto.event_pb2 import Event  # type: ignore
            from tensorboardX.summary import scalar  # type: ignore
        except ImportError:
            raise ImportError(
                "Got an EventFile, and no tensorboardX to write it with. Write `pip install 'neuralrde[tensorboard]'`."
            ) from None
        self.folder, self._library = Path(folder), (EventsWriter, Event, scalar)

    def start(self, *, epochs, steps, done):
        self.folder.mkdir(parents=True, exist_ok=True)
        # The name holds whole seconds only, and two runs may begin in the same one.
        self.writer = self._library[0](str(self.folder / "events"), f".{os.getpid()}.{next(_COUNTER)}")

    def epoch(self, record):
        _, event, scalar = self._library
        for name, value in record.items():
            if name not in ("epoch", "monitored"):
                self.writer.write_event(event(wall_time=time.time(), step=record["epoch"], summary=scalar(name, value)))
        self.writer.flush()

    def close(self):
        self.writer.close()
