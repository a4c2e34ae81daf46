"""The tables and the picture of docs/scaling.md: measured growth, and the arithmetic for a million series.

What is assumed of machines that are not here stands in ASSUMED, and on the page beside the result.
"""

from pathlib import Path
from typing import Any

from neuralrde.signatures import log_signature_channels

from ..timing import table
from .scaling import LONG, ROOT, draw, growth

PAGE = ROOT / "docs"
SERIES, RAW_CHANNELS, FLOAT = 1_000_000, 5, 4
WINDOWS = LONG["length"] // LONG["step"]
# None of these was measured here.
ASSUMED = {
    "gpu_flops": 5e12,  # of a GPU, a tenth of the peak of one for data centres in float32
    "launch": 3e-6,  # seconds for a GPU to begin a small kernel
    "kernels": 40,  # per window and pass: the contraction, and four stages of a network of three layers
    "gpu_cores": 96,  # of the host of 8 GPUs
    "host_cores": 32,  # of each of 64 hosts
    "disk": 2e9,  # bytes per second that a host reads
    "network": 1.25e9,  # bytes per second between hosts: 10 Gbit/s
    "hop": 50e-6,  # seconds for a message from host to host
    "pcie": 20e9,  # bytes per second to a GPU
}


def flops(depth: int) -> float:
    """Of one series in a training step, forward and backward, by counting products; as in `training_steps.flops`."""
    controls, state, width, layers = log_signature_channels(LONG["channels"], depth), 32, 64, 3
    contraction = 2 * controls * (width + 1) * state
    stages = 4 * 2 * (state * width + (layers - 1) * width * width + width * state)
    return WINDOWS * (3 * contraction + 4 * stages)


def scenario(found: list[dict[str, Any]], depth: int) -> dict[str, float]:
    """All that follows from two measurements here and from what is assumed."""
    own = [line for line in found if line["point"]["varied"] == "scenario" and line["point"]["depth"] == depth]
    [prepared], [trained] = ([line for line in own if line["what"] == what] for what in ("preparation", "steps"))
    a, channels = ASSUMED, log_signature_channels(LONG["channels"], depth)
    core = lambda line: line["cores"] * line["seconds"] / line["point"]["series"]
    raw, row = SERIES * LONG["length"] * RAW_CHANNELS * FLOAT, WINDOWS * channels * FLOAT
    gradient = trained["weights"] * FLOAT
    batch = 4096  # of each GPU
    latency = 3 * WINDOWS * a["kernels"] * a["launch"]
    gpu_step = latency + batch * flops(depth) / a["gpu_flops"]
    host_batch = 256
    host_step = host_batch * core(trained) / a["host_cores"]
    ring = lambda n: 2 * (n - 1) / n * gradient / a["network"] + 2 * (n - 1) * a["hop"]
    return {
        "channels": channels,
        "prepare_core": core(prepared),
        "train_core": core(trained),
        "gflops": flops(depth) / core(trained) / 1e9,
        "flops": flops(depth),
        "raw": raw,
        "store": SERIES * row,
        "row": row,
        "less": raw / (SERIES * row),
        "weights": trained["weights"],
        "here_prepare": SERIES * core(prepared) / 2,
        "here_epoch": SERIES * core(trained) / 2,
        "gpu_read": raw / a["disk"],
        "gpu_prepare": SERIES * core(prepared) / a["gpu_cores"],
        "gpu_latency": latency,
        "gpu_step": gpu_step,
        "gpu_steps": SERIES / (8 * batch),
        "gpu_epoch": SERIES / (8 * batch) * gpu_step,
        "gpu_memory": batch * (row + WINDOWS * LONG["state"] * FLOAT),
        "gpu_copy": batch * row / a["pcie"],
        "hosts_read": raw / a["disk"] / 64,
        "hosts_prepare": SERIES * core(prepared) / (64 * a["host_cores"]),
        "hosts_step": host_step,
        "hosts_steps": SERIES / (64 * host_batch),
        "hosts_sync": ring(64),
        "hosts_bytes": 2 * 63 / 64 * gradient,
        "hosts_epoch": SERIES / (64 * host_batch) * (host_step + ring(64)),
        "hosts_share": ring(64) / (host_step + ring(64)),
        "hosts_memory": SERIES * row / 64,
    }


def _time(seconds: float) -> str:
    for limit, unit, size in ((0.1, "ms", 1e-3), (120, "s", 1), (7200, "min", 60), (2e5, "h", 3600)):
        if seconds < limit:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 86400:.3g} days"


def _size(number: float) -> str:
    for limit, unit, size in ((1e6, "KB", 1e3), (1e9, "MB", 1e6), (1e12, "GB", 1e9)):
        if number < limit:
            return f"{number / size:.3g} {unit}"
    return f"{number / 1e12:.3g} TB"


def arithmetic(found: list[dict[str, Any]]) -> dict[str, str]:
    """Three tables: from what it starts, one host of 8 GPUs, and 64 hosts."""
    both = [scenario(found, depth) for depth in (2, 3)]

    def rows(*wanted: tuple[str, str, Any]) -> str:
        body = [[text, *(show(one[name]) for one in both)] for text, name, show in wanted]
        return table(["", "depth 2", "depth 3"], body)

    plain = lambda value: f"{value:,.0f}"
    start = rows(
        ("raw series, 5 channels in float32", "raw", _size),
        ("channels of a log-signature", "channels", plain),
        ("log-signatures of one series", "row", _size),
        ("log-signatures of all", "store", _size),
        ("times less than the raw series", "less", lambda value: f"{value:.1f}"),
        ("**measured**: core-seconds to prepare one series", "prepare_core", lambda value: f"{value:.4f}"),
        ("**measured**: core-seconds of one series in a training step", "train_core", lambda value: f"{value:.4f}"),
        ("floating-point operations of one series in a step", "flops", lambda value: f"{value / 1e9:.2f}e9"),
        ("so many GFLOP/s on a core here", "gflops", lambda value: f"{value:.0f}"),
        ("weights", "weights", plain),
        ("on the two cores here: preparation", "here_prepare", _time),
        ("on the two cores here: one epoch", "here_epoch", _time),
    )
    gpus = rows(
        ("reading the raw series", "gpu_read", _time),
        ("preparation on 96 cores", "gpu_prepare", _time),
        ("memory of a GPU for 4,096 series", "gpu_memory", _size),
        ("bringing them to a GPU, each step", "gpu_copy", _time),
        ("time that no batch can shorten, each step", "gpu_latency", _time),
        ("one step of 32,768 series", "gpu_step", _time),
        ("steps in an epoch", "gpu_steps", plain),
        ("one epoch", "gpu_epoch", _time),
    )
    hosts = rows(
        ("reading the raw series, all hosts at once", "hosts_read", _time),
        ("preparation on 2,048 cores", "hosts_prepare", _time),
        ("log-signatures that each host holds", "hosts_memory", _size),
        ("one step of 256 series per host", "hosts_step", _time),
        ("network per step, of each host", "hosts_bytes", _size),
        ("adding up gradients, each step", "hosts_sync", _time),
        ("of the time, in the network", "hosts_share", lambda value: f"{100 * value:.1f} %"),
        ("steps in an epoch", "hosts_steps", plain),
        ("one epoch", "hosts_epoch", _time),
    )
    return {"start": start, "gpus": gpus, "hosts": hosts}


def write(found: list[dict[str, Any]]) -> None:
    texts = {what: growth(what, found) for what in ("preparation", "steps")} | arithmetic(found)
    for name, text in texts.items():
        (PAGE / "measured" / f"scaling_{name}.txt").write_text(text + "\n")
    draw(found, Path(PAGE / "images" / "scaling.png"))
