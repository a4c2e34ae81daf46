"""Try a wheel as a stranger would: `python tests/smoke_wheel.py dist`, after `python -m build`; `make wheel` does both.

The wheel is installed into an empty environment, and used from an empty folder outside the checkout. With
`--python` the environment is of another version: one wheel serves them all. Not a test of pytest's, because it fetches
a few hundred MB of dependencies.
"""

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"
SMOKE = """
import numpy as np
import neuralrde as nrde
from neuralrde.signatures import _kernel, _library

assert _library.available(3), "the compiled kernel does not load"
assert nrde.__file__.startswith({prefix!r}), nrde.__file__
path = np.random.default_rng(0).normal(size=(40, 200, 2)).cumsum(axis=1)
assert nrde.log_signatures(path, depth=3, step=20).shape == (40, 10, 5)
small = nrde.Config(nrde.NeuralRDE, state=4, width=8)
model = nrde.NeuralRDEClassifier(model=small, windows=20, epochs=2, random_state=0)
assert model.fit(path, np.arange(40) % 2).predict(path).shape == (40,)
assert _kernel.available(3), "the compiled kernel does not load"
print("neuralrde", nrde.__version__, "with the compiled kernel")
"""


def contents(dist: Path) -> Path:
    """Check what is in the sdist and the wheel; return the wheel."""
    [wheel], [sdist] = dist.glob("*.whl"), dist.glob("*.tar.gz")
    inside = zipfile.ZipFile(wheel).namelist()
    assert "neuralrde/py.typed" in inside, "the wheel has no py.typed"
    library = "_kernel_library.dll" if sys.platform == "win32" else "_kernel_library.so"
    assert f"neuralrde/signatures/{library}" in inside, "the wheel has no kernel"
    assert "-py3-none-" in wheel.name, f"{wheel.name} is not for all versions of Python"
    if sys.platform == "linux":
        assert "manylinux" in wheel.name, f"{wheel.name} was not repaired by auditwheel: an index would refuse it"
    assert not [name for name in inside if name.startswith(("tests", "docs", "benchmarks", "reproduction"))]
    with tarfile.open(sdist) as packed:
        files = {name.partition("/")[2] for name in packed.getnames()}
    assert not [name for name in files if name.startswith("reproduction/")]
    assert {"LICENSE", "README.md", "CHANGELOG.md", "setup.py", "src/neuralrde/signatures/kernel/lanes.h"} <= files
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, {len(inside)} files; {sdist.name}")
    return wheel.resolve()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dist", type=Path, nargs="?")
    parser.add_argument("--installed", action="store_true", help="only use the neuralrde of this Python")
    parser.add_argument("--python", default=sys.executable, help="of the version to try")
    options = parser.parse_args()
    if options.installed or options.dist is None:
        exec(SMOKE.format(prefix=str(Path(sys.prefix).resolve())), {})
        return
    wheel = contents(options.dist)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder).resolve()
        subprocess.run([options.python, "-m", "venv", place / "venv"], check=True)
        binaries = place / "venv" / ("Scripts" if sys.platform == "win32" else "bin")

        def call(*command: str | Path) -> None:
            begin = time.monotonic()
            subprocess.run(command, check=True, cwd=place, env=environment)
            said = " ".join(str(word).strip().splitlines()[0] for word in command[1:])
            print(f"  {time.monotonic() - begin:.0f} s: {Path(command[0]).name} {said[:70]}", flush=True)

        call(binaries / "python", "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "-c", CONSTRAINTS,
             f"{wheel}[plot]")  # fmt: skip
        call(binaries / "python", "-c", SMOKE.format(prefix=str(place)))
        call(binaries / "neuralrde", "--version")
        call(binaries / "neuralrde", "fit", "spirals", "--epochs", "2", "--out", "run")
        call(binaries / "neuralrde", "predict", "run", "spirals", "--out", "answers.csv")
        assert (place / "answers.csv").exists()


if __name__ == "__main__":
    sys.exit(main())
