"""Processes that find each other on this machine."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def start(module: str, *arguments, count: int = 2, devices: int = 1) -> list[subprocess.Popen]:
    """`python -m MODULE` in several processes, each with so many devices."""
    place = {"COORDINATOR": f"127.0.0.1:{free_port()}", "COUNT": str(count), "JAX_NUM_CPU_DEVICES": str(devices)}
    # Most of the time is compilation.
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"} | place
    command = [sys.executable, "-m", f"tests.distributed.{module}", *map(str, arguments)]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": ROOT}
    return [subprocess.Popen(command, env=environment | {"NUMBER": str(number)}, **options) for number in range(count)]


@pytest.fixture
def started():
    """`start`, and no process outlives its test."""
    running = []

    def begin(*arguments, **options):
        running.extend(start(*arguments, **options))
        return running[-options.get("count", 2) :]

    yield begin
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()
