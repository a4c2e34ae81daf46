"""Where a process stands among several: by flags, or by what a launcher says in the environment."""

import os
import socket
from dataclasses import dataclass

from .errors import WRONG_USE, Refusal

# The numbers of this process and of all, as launchers tell them.
_LAUNCHERS = {
    "SLURM": ("SLURM_PROCID", "SLURM_NTASKS"),
    "Open MPI": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    "MPICH": ("PMI_RANK", "PMI_SIZE"),
}
# Where one of these is set, JAX finds process 0 by itself.
_FOUND_BY_JAX = ("SLURM_STEP_NODELIST", "OMPI_MCA_orte_hnp_uri", "JAX_COORDINATOR_ADDRESS")


@dataclass(frozen=True)
class Launch:
    """What this command is to start: which of how many workers, and where process 0 can be reached."""

    coordinator: str | None
    """None lets JAX find it, by what the launcher says."""
    count: int
    numbers: tuple[int, ...]
    flags: str
    """That it was asked for with."""


def launch_of(processes: str | None, coordinator: str | None, process_id: int | None) -> Launch | None:
    """What the flags ask for; None for a single process.

    >>> launch_of("2", "node1:9000", 1).flags
    '--processes 2 --coordinator node1:9000 --process-id I'
    >>> launch_of(None, None, None) is launch_of("1", None, None) is None
    True
    """
    if processes is None:
        if coordinator is None and process_id is None:
            return None
        raise Refusal("Got --coordinator or --process-id alone; expected --processes N with them.", WRONG_USE)
    if coordinator is not None and not coordinator.rpartition(":")[2].isdecimal():
        raise Refusal(f"Got --coordinator {coordinator}; expected HOST:PORT of process 0.", WRONG_USE)
    if processes == "auto":
        return _of_launcher(coordinator)
    if not processes.isdecimal() or not int(processes):
        raise Refusal(
            f"Got --processes {processes}; expected a number from 1, or auto for as many as SLURM or MPI has started.",
            WRONG_USE,
        )
    count = int(processes)
    if (coordinator is None) != (process_id is None):
        raise Refusal(
            "Got one of --coordinator and --process-id; expected both on several machines, because each process must "
            "know which one it is and where process 0 is; or neither, to start all processes here.",
            WRONG_USE,
        )
    if process_id is not None and not 0 <= process_id < count:
        raise Refusal(f"Got --process-id {process_id}; expected one from 0 to {count - 1}.", WRONG_USE)
    if count == 1:
        return None
    if process_id is None:
        return Launch(f"127.0.0.1:{free_port()}", count, tuple(range(count)), f"--processes {count}")
    flags = f"--processes {count} --coordinator {coordinator} --process-id I"
    return Launch(coordinator, count, (process_id,), flags)


def _of_launcher(coordinator: str | None) -> Launch | None:
    for name, (number, count) in _LAUNCHERS.items():
        if number not in os.environ or count not in os.environ:
            continue
        if coordinator is None and not any(variable in os.environ for variable in _FOUND_BY_JAX):
            raise Refusal(
                f"Got --processes auto under {name}, which does not say where process 0 is; expected --coordinator "
                "HOST:PORT too, a host that all can reach and a free port of it.",
                WRONG_USE,
            )
        where = "" if coordinator is None else f" --coordinator {coordinator}"
        found = Launch(coordinator, int(os.environ[count]), (int(os.environ[number]),), f"--processes auto{where}")
        return None if found.count == 1 else found
    raise Refusal(
        "Got --processes auto, but no launcher has started this process; expected srun or mpirun before the command. "
        "Give --processes N to start N processes on this machine.",
        WRONG_USE,
    )


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
