"""Send the series of a file to `neuralrde serve`, each as a stream, as if they were being measured.

    python examples/serving/send.py demo/bidmc.npz heart-rate --streams 12

It is a client in fifty lines, and makes the picture in the guide to serving. Where the series end, they begin anew.
"""

import argparse
import asyncio
import json
from typing import Any
from urllib.request import urlopen

import numpy as np
from websockets.asyncio.client import connect

from neuralrde import read
from neuralrde.datasets import Dataset

SECONDS = 0.2  # of data in one message


async def send(data: Dataset, model: str, host: str, *, streams: int, rate: float) -> None:
    about = json.load(urlopen(f"http://{host}/v2/models/{model}"))["parameters"]
    series, size = data.series, max(1, round(rate * SECONDS))
    names = [f"{data.name}/{k if series.ids is None else series.ids[k]}" for k in range(min(streams, len(series)))]
    async with connect(f"ws://{host}/v2/models/{model}/streams", max_size=None) as socket:
        while True:
            for first in range(0, series.values.shape[1], size):
                await asyncio.sleep(SECONDS)
                messages = []
                for k, name in enumerate(names):
                    points = slice(first, min(first + size, int(series.lengths[k])))
                    values = series.values[k, points]
                    if not len(values):
                        continue
                    rows = [[None if x != x else x for x in row] for row in values.tolist()]  # JSON has no NaN
                    message: dict[str, Any] = {"stream": name, "values": rows}
                    if series.times is not None and about["timed"] is not False:
                        message["times"] = series.times[k, points].tolist()
                    if data.per_time and data.classes is None:
                        known = np.asarray(data.target)[k, points, 0]
                        if len(known := known[~np.isnan(known)]):
                            message["truth"] = float(known[-1])
                    messages.append(message | ({"start": True} if first == 0 else {}))
                await socket.send(json.dumps(messages))
                for answer in json.loads(await socket.recv()):
                    if "error" in answer:
                        print(f"{answer.get('stream')}: {answer['error']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("model")
    parser.add_argument("--host", default="127.0.0.1:8000")
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--rate", type=float, default=125, help="points per second")
    options = parser.parse_args()
    data = read(options.data, task="regression")
    asyncio.run(send(data, options.model, options.host, streams=options.streams, rate=options.rate))


if __name__ == "__main__":
    main()
