"""The version, in one place; and the versions of all that a result depends on."""

import platform
from importlib import metadata

from ._cores import cores

__version__ = "0.2.0.dev0"

_LIBRARIES = ("jax", "jaxlib", "equinox", "diffrax", "optax", "numpy", "scipy", "scikit-learn", "safetensors")


def versions() -> dict[str, str]:
    """Of neuralrde, Python and the libraries, and what machine this is: for files of results."""
    found = {"neuralrde": __version__, "python": platform.python_version()}
    for library in _LIBRARIES:
        try:
            found[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            found[library] = "unknown"
    return found | {"machine": platform.machine(), "cores": str(cores())}
