"""`neuralrde replay`: send the series of a file to a service, as if they were being measured."""

import asyncio
from typing import Annotated, Any

import typer

from . import flags
from .errors import FAILED, Refusal
from .loading import open_data
from .screen import pairs, print_json


@flags.with_table
def replay(
    *,
    data: flags.Data,
    to: Annotated[str, typer.Option(metavar="URL", help="The address of the service.")] = "http://127.0.0.1:8000",
    model: Annotated[str | None, typer.Option(help="The model to use. [the first]", show_default=False)] = None,
    speed: Annotated[float, typer.Option(min=0.01, help="How many times faster than they were measured.")] = 1.0,
    streams: Annotated[
        int, typer.Option(min=1, max=100_000, help="How many streams at once; series are used again.")
    ] = 1,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long to send.")] = 60.0,
    push: Annotated[float, typer.Option(min=0.001, help="Seconds of data per push.")] = 0.2,
    rate: Annotated[float, typer.Option(min=0.001, help="Points per second, for data without times.")] = 125.0,
    connections: Annotated[
        int | None,
        typer.Option(min=1, help="How many WebSockets to use. [one per 50 streams]", show_default=False),
    ] = None,
    token: Annotated[
        str | None, typer.Option(envvar="NEURALRDE_TOKEN", show_envvar=True, help="The token of the service.")
    ] = None,
    table: flags.Table,
    json: flags.AsJson = False,
) -> None:
    """Send series to a service at a fixed rate, and report how long its predictions took.

    A push is due when its last point would have been measured, and its latency counts from that moment, whatever the
    service does. Press Ctrl-C to stop earlier.

        neuralrde replay hearts.csv --to http://127.0.0.1:8000 --speed 10 --streams 100
    """
    try:
        from ..serving.loadtest import Load, Recording
    except ImportError as error:
        raise Refusal(
            f"Replaying needs a package that is not installed ({error.name}). Write `pip install 'neuralrde[serve]'`."
        ) from None
    found = _metadata(to, model, token)
    wants = found["parameters"]
    dataset = open_data(data, table)
    if len(wants["channels"]) != dataset.series.values.shape[2]:
        raise Refusal(
            f"Got series of {dataset.series.values.shape[2]} channels and the model {found['name']!r}, which takes "
            f"{len(wants['channels'])}; expected the same. Name the channels with --columns."
        )
    recording = Recording(dataset, rate=rate, seconds=push, timed=wants["timed"])
    load = Load(to, found["name"], recording, streams=streams, speed=speed, connections=connections, token=token)
    try:
        report = asyncio.run(load.run(seconds)).summary()
    except OSError as error:
        raise Refusal(f"Got no connection to {to}: {error}.") from None
    if json:
        print_json(report)
    else:
        print(pairs({name.replace("_", " "): _shown(value) for name, value in report.items() if value is not None}))
    if report["first_error"] and not report["answers"]:
        raise Refusal(f"Every push was refused: {report['first_error']}", FAILED)


def _shown(value: Any) -> Any:
    return ", ".join(f"{name} {one}" for name, one in value.items()) if isinstance(value, dict) else value


def _metadata(url: str, model: str | None, token: str | None) -> dict[str, Any]:
    """Of the model, from the service."""
    import json
    import urllib.error
    import urllib.parse
    import urllib.request

    base = (url if "://" in url else f"http://{url}").rstrip("/")
    if not base.startswith(("http://", "https://")):
        raise Refusal(f"Got --to {url}; expected an address such as http://127.0.0.1:8000.")
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def ask(path: str, method: str) -> Any:
        request = urllib.request.Request(base + path, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            body = error.read(2000).decode(errors="replace")
            raise Refusal(f"The service at {url} says: {_error_in(body) or error.reason}") from None
        except (OSError, ValueError) as error:
            raise Refusal(
                f"Got no response from {url} ({error}); expected a service, such as `neuralrde serve` starts."
            ) from None

    name = model or ask("/v2/repository/index", "POST")[0]["name"]
    return ask(f"/v2/models/{urllib.parse.quote(name, safe='')}", "GET")


def _error_in(body: str) -> str:
    import json

    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return ""
