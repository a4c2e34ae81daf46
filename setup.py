"""Builds the compiled log-signature kernel; everything else about the project stands in pyproject.toml.

The extension is optional: where there is no compiler, the installation goes on without it and the JAX form of the
log-signature serves instead. It holds no Python module; `neuralrde.signatures._kernel` loads it with ctypes.
"""

import os
import sys

from setuptools import Extension, setup


def ffi_headers() -> str:
    """Where jaxlib keeps XLA's foreign function interface (also `jax.ffi.include_dir()`, without importing jax)."""
    import jaxlib

    return os.path.join(os.path.dirname(jaxlib.__file__), "include")


folder = "src/neuralrde/signatures/kernel/"
setup(
    ext_modules=[
        Extension(
            "neuralrde.signatures._kernel_library",
            sources=[folder + "library.cpp"],
            depends=[folder + name for name in ("lanes.h", "closed_form.h", "chen.h", "windows.h")],
            include_dirs=[ffi_headers()],
            language="c++",
            # -fno-math-errno and -fno-trapping-math change no result; they let loops become SIMD instructions.
            extra_compile_args=["-std=c++17", "-O3", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi"],
            extra_link_args=[] if sys.platform == "darwin" else ["-pthread"],
            optional=True,
        )
    ]
)
