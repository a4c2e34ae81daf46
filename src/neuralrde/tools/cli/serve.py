"""`neuralrde serve`: trained models predict while data arrive."""

import os
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ...errors import as_python, notation
from .console import WRONG_USE, Refusal
from .flags import option

_limit = partial(option, panel="Limits")


def serve(
    *,
    models: Annotated[
        list[Path], typer.Argument(metavar="MODEL...", help="Run folders or model files.", show_default=False)
    ],
    host: Annotated[
        str, option("The address to listen on. Any address that other machines can reach needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, option("The port; 0 takes a free one.", min=0, max=65535)] = 8000,
    token: Annotated[
        str | None,
        option(
            "The token that clients must send. Others may see your command line: prefer the variable.",
            envvar="NEURALRDE_TOKEN",
            show_envvar=True,
        ),
    ] = None,
    state: Annotated[
        Path | None, option("Keep streams here, so that they survive a restart.", "FOLDER", show_default=False)
    ] = None,
    interval: Annotated[
        float, option("The share of true values that intervals should hold.", min=0.01, max=0.999)
    ] = 0.9,
    message_bytes: Annotated[int, _limit("Bytes per message.")] = 8 * 2**20,
    points_per_second: Annotated[float, _limit("Points per second and stream.")] = 10_000,
    streams_per_client: Annotated[int, _limit("Streams per client, by its address.")] = 5_000,
    streams: Annotated[int, _limit("Streams in all, in memory or in the store.")] = 100_000,
    live: Annotated[int, _limit("Streams in memory; the others rest in the store.")] = 4_096,
    idle: Annotated[float, _limit("Seconds without a message after which a stream leaves memory.")] = 300,
    queue: Annotated[int, _limit("Messages that may wait.")] = 8_192,
    wait: Annotated[float, _limit("Seconds that a message may wait when the service is overloaded.")] = 0.15,
    batch: Annotated[int, _limit("Streams that are advanced together; fewer compile sooner.")] = 512,
    last: Annotated[
        int | None, option("Points to keep, for models that look at whole series.", min=1, show_default=False)
    ] = None,
) -> None:
    """Serve trained models: whole series and streams, by REST and WebSocket, with a live page.

    Each model has the name of its file or of its run's folder. The protocol is the Open Inference Protocol, so clients
    of KServe and Triton work. The page is at the address that is printed.

        neuralrde serve runs/hearts --state streams
    """
    import jax

    from ...devices import keep_programs
    from .evaluation import load_model

    try:
        import uvicorn

        from ..serving import Limits, Service, create_app
        from ..serving.security import BoundedHttp, allow_connections, be_quiet_about_strangers, is_loopback
    except ImportError as error:
        raise Refusal(
            f"The service needs a package that is not installed ({error.name}). Write `pip install 'neuralrde[serve]'`."
        ) from None
    loopback = is_loopback(host)
    if not loopback and not token:
        raise Refusal(
            f"Got --host {host} and no token; expected one, because others can reach that address. Put it into the "
            "variable NEURALRDE_TOKEN.",
            WRONG_USE,
        )
    limits = Limits(
        message_bytes=message_bytes,
        points_per_second=points_per_second,
        streams_per_client=streams_per_client,
        streams=streams,
        live=live,
        idle=idle,
        queue=queue,
        wait=wait,
        batch=batch,
    )
    keep_programs()
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)  # a stream's programs are many and small
    named = _named(models)
    estimators = {name: load_model(path, forecasters=True) for name, path in named.items()}
    service = Service(estimators, state=state, limits=limits, interval=interval, last=last)
    app = create_app(service, token=token, loopback=loopback)
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=BoundedHttp,
        log_level="error",  # anybody can cause warnings
        access_log=False,
        server_header=False,
        proxy_headers=False,  # a client could name any address as its own
        ws_max_size=message_bytes,
        ws_per_message_deflate=False,
        timeout_graceful_shutdown=5,
    )
    BoundedHttp.most = allow_connections()
    be_quiet_about_strangers()
    # The event loop and the thread that computes take turns; with Python's 5 ms each message would wait for several.
    sys.setswitchinterval(0.0005)
    socket = config.bind_socket()
    shown = f"[{host}]" if ":" in host else host
    print(
        f"Serving {', '.join(estimators)} on http://{shown}:{socket.getsockname()[1]} (process {os.getpid()})",
        flush=True,
    )
    with notation(as_python):  # clients do not write flags
        uvicorn.Server(config).run(sockets=[socket])


def _named(paths: list[Path]) -> dict[str, Path]:
    """Models by name: that of the run's folder, or of the file without its ending."""
    named: dict[str, Path] = {}
    for path in paths:
        name = path.name if path.is_dir() else path.stem
        name = name or path.resolve().name
        if name in named:
            raise Refusal(
                f"Got two models called {name!r}, {named[name]} and {path}; expected different names. Rename one.",
                WRONG_USE,
            )
        named[name] = path
    return named
