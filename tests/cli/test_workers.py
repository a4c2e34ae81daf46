"""Which of how many processes this one is: by flags, and by what launchers say in the environment."""

import signal

import pytest

from neuralrde.cli.console import Refusal
from neuralrde.cli.workers import _signals_passed_on, launch_of

VARIABLES = ("SLURM_", "OMPI_", "PMI_", "JAX_COORDINATOR")


@pytest.fixture
def environment(monkeypatch):
    """An environment without a launcher, and a way to add one."""
    import os

    for name in list(os.environ):
        if name.startswith(VARIABLES):
            monkeypatch.delenv(name)
    return lambda **variables: [monkeypatch.setenv(name, value) for name, value in variables.items()]


def test_on_this_machine_all_are_started_here(environment):
    launch = launch_of("3", None, None)
    assert launch is not None
    assert launch.numbers == (0, 1, 2)
    assert launch.coordinator is not None
    assert launch.coordinator.startswith("127.0.0.1:")
    assert launch_of("1", None, None) is None


def test_with_a_coordinator_one_is_started(environment):
    launch = launch_of("4", "node7:9000", 2)
    assert launch is not None
    assert (launch.coordinator, launch.count, launch.numbers) == ("node7:9000", 4, (2,))


SLURM = {
    "SLURM_JOB_ID": "4711", "SLURM_STEP_NODELIST": "node[03-05]", "SLURM_NTASKS": "3", "SLURM_PROCID": "1",
    "SLURM_LOCALID": "0",
}  # fmt: skip
OPEN_MPI_4 = {
    "OMPI_MCA_orte_hnp_uri": "1531576320.0;tcp://10.96.0.1:34911", "OMPI_COMM_WORLD_SIZE": "3",
    "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_LOCAL_RANK": "0",
}  # fmt: skip


@pytest.mark.parametrize(("variables", "host"), [(SLURM, "node03"), (OPEN_MPI_4, "10.96.0.1")])
def test_a_launcher_says_it(environment, variables, host):
    from jax._src.clusters import ClusterEnv  # what jax.distributed.initialize() asks

    environment(**variables)
    launch = launch_of("auto", None, None)
    assert launch is not None
    assert (launch.coordinator, launch.count, launch.numbers) == (None, 3, (1,))
    found = ClusterEnv.auto_detect_unset_distributed_params(None, launch.count, launch.numbers[0], None, None, 1)
    assert found[0] is not None
    assert found[0].startswith(f"{host}:")
    assert found[1:3] == (3, 1)


def test_open_mpi_5_needs_a_coordinator(environment):
    environment(OMPI_COMM_WORLD_SIZE="2", OMPI_COMM_WORLD_RANK="1")
    with pytest.raises(Refusal, match="--coordinator HOST:PORT too"):
        launch_of("auto", None, None)
    launch = launch_of("auto", "node1:9000", None)
    assert launch is not None
    assert launch.numbers == (1,)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("two", None, None), "expected a number from 1, or auto"),
        (("0", None, None), "expected a number from 1, or auto"),
        (("auto", None, None), "srun or mpirun before the command"),
        (("2", "node7", 0), "expected HOST:PORT"),
        (("2", "node7:9000", None), "expected both"),
        (("2", None, 1), "expected both"),
        (("2", "node7:9000", 2), "from 0 to 1"),
        ((None, "node7:9000", None), "expected --processes N with them"),
    ],
)
def test_what_does_not_fit_is_refused(environment, arguments, told):
    with pytest.raises(Refusal, match=told):
        launch_of(*arguments)


def test_in_the_background_workers_are_not_interrupted():
    """Ctrl-C that is ignored, as under `nohup`, is not passed on either; `kill` is."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with _signals_passed_on([]) as asked:
            signal.raise_signal(signal.SIGINT)
            assert asked.number is None
            signal.raise_signal(signal.SIGTERM)
            assert asked.number == signal.SIGTERM
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
